//! The folder of artifacts: private, bounded, and written atomically.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use kassette_files::NewFile;

/// Reason why a folder is not used.
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
    /// Creates the folder, or opens an existing one if only this user has access. Deletes temporary files.
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
        // A crash has left this incomplete file.
        for entry in fs::read_dir(path)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                folder.remove(&name);
            }
        }
        Ok(folder)
    }

    /// Reads a file. `None` if it does not exist or cannot be read. Removes anything that is not a regular file or
    /// is larger than the limit.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path.join(name);
        // Check before opening it: opening a pipe would block, and a link may lead elsewhere.
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

    /// Writes a file atomically.
    pub(super) fn write(&self, name: &str, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut file = NewFile::beside(&self.path.join(name), 0o600)?;
        file.write_all(head)?;
        file.write_all(body)?;
        file.replace().map(drop)
    }

    /// Keeps the files in `names`, in that order, as long as their total size is within the limit. Removes all
    /// others.
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
