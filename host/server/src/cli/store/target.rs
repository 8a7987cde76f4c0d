//! The target of a backup: a temporary file that is synced and then renamed, or standard output.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use kassette_files::NewFile;

/// Size of the write buffer, in bytes.
const BUFFER: usize = 1 << 20;

/// Target of a backup.
pub(super) enum Target {
    /// Standard output.
    Output(io::Stdout),
    File {
        /// Final path of the file.
        path: PathBuf,
        /// Whether an existing file at `path` may be replaced.
        force: bool,
        /// The temporary file.
        new: BufWriter<NewFile>,
    },
}

impl Target {
    /// Opens a path, or standard output for `-`.
    ///
    /// # Errors
    /// A sentence if the file already exists or cannot be created.
    pub(super) fn open(path: &Path, force: bool) -> Result<Self, String> {
        if path == Path::new("-") {
            let output = io::stdout();
            if output.is_terminal() {
                return Err(
                    "a backup is no text for a terminal: name a file, or pipe it on".into(),
                );
            }
            return Ok(Self::Output(output));
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(there(path));
        }
        let new =
            NewFile::beside(path, 0o600).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self::File {
            path: path.to_owned(),
            force,
            new: BufWriter::with_capacity(BUFFER, new),
        })
    }

    /// Whether the target is standard output.
    pub(super) const fn is_output(&self) -> bool {
        matches!(self, Self::Output(_))
    }

    /// Syncs the file and renames it to its final path.
    ///
    /// # Errors
    /// A sentence. Unless only the folder could not be synced, the final path is then unchanged.
    pub(super) fn keep(self) -> Result<(), String> {
        let (path, force, new) = match self {
            Self::Output(mut output) => return output.flush().map_err(|error| error.to_string()),
            Self::File { path, force, new } => (path, force, new),
        };
        let new = new.into_inner().map_err(io::IntoInnerError::into_error);
        let kept = new.and_then(|new| if force { new.replace() } else { new.keep_new() });
        match kept {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(there(&path)),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}

fn there(path: &Path) -> String {
    format!(
        "{} exists: name another file, or say --force to replace it",
        path.display()
    )
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Output(output) => output.write(bytes),
            Self::File { new, .. } => new.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Output(output) => output.flush(),
            Self::File { new, .. } => new.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn written(path: &Path, force: bool, text: &[u8]) -> Result<(), String> {
        let mut target = Target::open(path, force)?;
        target.write_all(text).unwrap();
        target.keep()
    }

    #[test]
    fn a_file_is_nobody_else_s_and_never_replaced_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        written(&path, false, b"one").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(
            written(&path, false, b"two")
                .unwrap_err()
                .contains("--force")
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        written(&path, true, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn a_file_that_turns_up_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let target = Target::open(&path, false).unwrap();
        std::fs::write(&path, "another's").unwrap();
        assert!(target.keep().unwrap_err().contains("--force"));
        assert_eq!(std::fs::read(&path).unwrap(), b"another's");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_planted_where_a_backup_goes_is_neither_followed_nor_kept() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "another's").unwrap();
        for planted in ["backup", ".backup.partial"] {
            std::os::unix::fs::symlink(&other, folder.path().join(planted)).unwrap();
        }
        let path = folder.path().join("backup");
        written(&path, true, b"ours").unwrap();
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600);
        assert_eq!(std::fs::read(&other).unwrap(), b"another's");
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let mut target = Target::open(&path, false).unwrap();
        target.write_all(b"half").unwrap();
        drop(target);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
