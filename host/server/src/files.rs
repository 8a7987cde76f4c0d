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
