//! A file that has a temporary name until it is complete and on disk.
//!
//! The name is random and must not exist yet (`O_EXCL`), so the kernel neither follows a link nor opens a file
//! that another user put there in advance. The mode is set on the descriptor, so it depends neither on the umask
//! nor on an older file of that name.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file that is being written. Dropping it deletes the temporary file.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl NewFile {
    /// Creates a temporary file with the given mode, in the folder of `path`.
    ///
    /// # Errors File system errors, or a path without a file name.
    pub fn beside(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::other("this is no name for a file"))?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let permissions = Permissions::from_mode(mode);
        let file = Builder::new()
            .prefix(&prefix)
            .permissions(permissions.clone())
            .tempfile_in(folder_of(path))?;
        file.as_file().set_permissions(permissions)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Syncs the file and gives it its final name. Replaces a file of that name; a link is itself replaced, not
    /// its target.
    ///
    /// # Errors File system errors. The old file then remains, unless only the sync of the folder has failed.
    pub fn replace(self) -> io::Result<File> {
        self.keep(|file, path| file.persist(path))
    }

    /// Like [`NewFile::replace`], but never replaces a file.
    ///
    /// # Errors Like [`NewFile::replace`], and [`io::ErrorKind::AlreadyExists`] if the name is in use.
    pub fn keep_new(self) -> io::Result<File> {
        self.keep(|file, path| file.persist_noclobber(path))
    }

    fn keep(
        self,
        name: impl FnOnce(NamedTempFile, &Path) -> Result<File, tempfile::PersistError>,
    ) -> io::Result<File> {
        self.file.as_file().sync_all()?;
        let file = name(self.file, &self.path).map_err(|error| error.error)?;
        // The new name is durable only after its folder has been synced.
        File::open(folder_of(&self.path))?.sync_all()?;
        Ok(file)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// Writes a file with the given mode atomically, replacing an existing one.
///
/// # Errors File system errors. The old file then remains, unless only the sync of the folder has failed.
pub fn write(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::beside(path, mode)?;
    file.write_all(bytes)?;
    file.replace().map(drop)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_replaces_the_old_one_whole_and_keeps_nothing_of_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.json");
        fs::write(&path, "planted, rather long").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let mut planted = File::open(&path).unwrap();
        write(&path, 0o600, b"ours").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(names(folder.path()), ["secret.json"]);
        // A process that has the old file open does not see the new content.
        let mut seen = String::new();
        io::Read::read_to_string(&mut planted, &mut seen).unwrap();
        assert_eq!(seen, "planted, rather long");
        write(&path, 0o644, b"ours").unwrap();
        assert_eq!(mode(&path), 0o644);
    }

    #[test]
    fn a_link_under_the_file_s_name_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (
            folder.path().join("ready.json"),
            folder.path().join("other"),
        );
        fs::write(&other, "another's").unwrap();
        symlink(&other, &path).unwrap();
        write(&path, 0o600, b"ours").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"another's");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_name_aside_cannot_be_known_in_advance() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready.json");
        let (one, other) = (NewFile::beside(&path, 0o600), NewFile::beside(&path, 0o600));
        let aside = names(folder.path());
        assert_eq!(aside.len(), 2);
        let pid = std::process::id().to_string();
        for name in aside {
            let name = name.to_string_lossy().into_owned();
            let drawn = name.strip_prefix(".ready.json.").unwrap();
            assert!(drawn.len() >= 6 && drawn != pid, "{name}");
        }
        drop((one, other));
        assert!(names(folder.path()).is_empty(), "nothing is left aside");
    }

    #[test]
    fn what_turns_up_meanwhile_is_only_replaced_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let new = NewFile::beside(&path, 0o600).unwrap();
        symlink("nowhere", &path).unwrap();
        let refused = new.keep_new().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("nowhere"));
        assert_eq!(names(folder.path()), ["backup"]);
        NewFile::beside(&path, 0o600).unwrap().replace().unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
