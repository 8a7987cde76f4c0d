//! The folder of artifacts: private, bounded, written aside and renamed.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use kassette_files::NewFile;

/// Why a folder is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error("it is no folder, or a link to one; remove it, and it is made anew")]
    NotAFolder,
    #[error("it belongs to another user; remove it, and it is made anew")]
    Foreign,
    #[error(
        "group or others may enter it (mode {0:03o}); look what is in it, then run chmod 700 on it or remove it"
    )]
    Shared(u32),
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub(super) struct Folder {
    path: PathBuf,
    most_bytes: u64,
}

impl Folder {
    /// Makes the folder, or takes one that is this user's alone.
    pub(super) fn open(path: &Path, most_bytes: u64) -> Result<Self, FolderError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_dir() {
            return Err(FolderError::NotAFolder);
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(FolderError::Foreign);
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(FolderError::Shared(mode));
        }
        let folder = Self {
            path: path.to_owned(),
            most_bytes,
        };
        // Half a file that a crash left is of no use.
        for entry in fs::read_dir(path)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                folder.remove(&name);
            }
        }
        Ok(folder)
    }

    /// A file's bytes; none where there is no such file or it cannot be read.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path.join(name);
        // Looked at before it is opened: a pipe would wait for a writer, a link lead elsewhere.
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > self.most_bytes {
            self.remove(name);
            return None;
        }
        fs::read(&path).ok()
    }

    pub(super) fn remove(&self, name: &str) {
        let path = self.path.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{} cannot be removed: {error}", path.display());
            }
            _ => {}
        }
    }

    /// Writes a file whole or not at all.
    pub(super) fn write(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut file = NewFile::beside(&self.path.join(name), 0o600)?;
        file.write_all(head)?;
        file.write_all(body)?;
        file.replace().map(drop)
    }

    /// Removes everything that is not named, and of the named, from the end, what is too much.
    pub(super) fn retain(&self, names: &[String]) {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!("{} cannot be read: {error}", self.path.display());
                return;
            }
        };
        let mut sizes = HashMap::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let size = entry.metadata().map_or(0, |metadata| metadata.len());
            sizes.insert(name, size);
        }
        let mut total = 0_u64;
        for name in names {
            let Some(size) = sizes.get(name) else {
                continue;
            };
            total = total.saturating_add(*size);
            if total <= self.most_bytes {
                sizes.remove(name);
            }
        }
        for name in sizes.keys() {
            self.remove(name);
        }
    }
}
