//! The file that a backup goes to: written beside, synced, and only then under its name.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// Where a backup goes.
pub(super) enum Target {
    /// To standard output.
    Output(io::Stdout),
    /// To a file.
    File(NewFile),
}

/// A file that is not there yet.
pub(super) struct NewFile {
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
    /// Whether another file may be there.
    force: bool,
    kept: bool,
}

impl Target {
    /// Opens what a path names; `-` is standard output.
    ///
    /// # Errors
    /// A sentence: a file is there already, or none can be made.
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
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let name = path
            .file_name()
            .ok_or_else(|| format!("{} is no name for a file", path.display()))?;
        let beside = path.with_file_name(format!(".{}.partial", name.to_string_lossy()));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&beside)
            .map_err(failed)?;
        file.try_lock().map_err(|_| {
            format!(
                "{}: another backup is being written there",
                beside.display()
            )
        })?;
        file.set_len(0).map_err(failed)?;
        Ok(Self::File(NewFile {
            path: path.to_owned(),
            beside,
            file: BufWriter::with_capacity(BUFFER, file),
            force,
            kept: false,
        }))
    }

    /// Whether it is standard output.
    pub(super) const fn is_output(&self) -> bool {
        matches!(self, Self::Output(_))
    }

    /// Makes what was written last, under its name.
    ///
    /// # Errors
    /// A sentence; then no file has the name that had not before.
    pub(super) fn keep(self) -> Result<(), String> {
        let mut new = match self {
            Self::Output(mut output) => return output.flush().map_err(|error| error.to_string()),
            Self::File(new) => new,
        };
        let path = new.path.clone();
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        new.file.flush().map_err(failed)?;
        new.file.get_ref().sync_all().map_err(failed)?;
        let flags = match new.force {
            true => RenameFlags::empty(),
            false => RenameFlags::NOREPLACE,
        };
        renameat_with(CWD, &new.beside, CWD, &new.path, flags).map_err(|error| match error {
            rustix::io::Errno::EXIST => there(&new.path),
            error => failed(error.into()),
        })?;
        new.kept = true;
        let folder = match new.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
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
            Self::File(new) => new.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Output(output) => output.flush(),
            Self::File(new) => new.file.flush(),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // Half a backup is of no use; the next one to the same name would truncate it.
            let _left = std::fs::remove_file(&self.beside);
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
    fn what_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let mut target = Target::open(&path, false).unwrap();
        assert!(Target::open(&path, false).is_err(), "one at a time");
        target.write_all(b"half").unwrap();
        drop(target);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
