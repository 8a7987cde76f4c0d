//! Files that hold secrets, written whole or not at all.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Writes a file of mode 0600 aside, syncs it and renames it into place.
///
/// # Errors
/// Those of the file system; then the old file is as it was.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&aside, path)?;
        // The name lasts only once its folder is on disk.
        path.parent()
            .map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&aside);
    }
    written
}

/// Whether a folder is there that this process may write to, or can be made.
///
/// # Errors
/// A sentence: what stands in the way.
pub(crate) fn can_be_a_folder(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let there = path.ancestors().find(|folder| folder.exists());
    let there = there.unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(format!("{} is no folder", there.display()));
    }
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(there, wanted)
        .map_err(|_| format!("{} cannot be written to by this user", there.display()))
}

/// Makes a folder of mode 0700, with those above it.
///
/// # Errors
/// Those of the file system.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_in_the_way_of_a_folder_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        can_be_a_folder(&file.join("below")).unwrap();
        std::fs::write(&file, "").unwrap();
        for path in [&file, &file.join("below")] {
            assert!(can_be_a_folder(path).unwrap_err().contains("is no folder"));
        }
    }

    #[test]
    fn a_private_file_is_nobody_else_s_and_replaces_the_old_one_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.json");
        write_private(&path, b"one, rather long").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left aside"
        );
    }
}
