//! The mark of a store that is being copied to a database or was copied: a file that an operator can remove.

use std::io;
use std::path::{Path, PathBuf};

use crate::mark::CopyState;
use crate::sled::open::OpenError;

/// Path of the mark in the store's folder.
fn file(store: &Path) -> PathBuf {
    store.join("moved")
}

/// Reads the mark. `None` if there is no mark.
pub(crate) fn read(store: &Path) -> Result<Option<CopyState>, OpenError> {
    match std::fs::read_to_string(file(store)) {
        Ok(text) => Ok(Some(CopyState::read(&text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(store, error)),
    }
}

/// Refuses a store with a mark.
pub(crate) fn check(store: &Path) -> Result<(), OpenError> {
    match read(store)? {
        None => Ok(()),
        Some(_) => Err(OpenError::Moved {
            path: store.to_owned(),
            mark: file(store),
        }),
    }
}

/// Writes or removes the mark.
pub(crate) fn write(store: &Path, mark: Option<CopyState>) -> Result<(), OpenError> {
    let (path, text) = (file(store), mark.map(CopyState::as_str));
    match text {
        Some(text) => kassette_files::write(&path, 0o600, text.as_bytes()),
        None => std::fs::remove_file(&path),
    }
    .map_err(|error| failed(store, error))
}

fn failed(store: &Path, source: io::Error) -> OpenError {
    kassette_engine::OpenError::Io {
        path: file(store),
        source,
    }
    .into()
}
