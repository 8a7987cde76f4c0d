//! The mark of a store in a folder that is being copied to a database, or was: a file that an operator can remove.

use std::io;
use std::path::{Path, PathBuf};

use crate::mark::CopyState;
use crate::sled::open::OpenError;

/// The file, in the store's folder.
fn file(store: &Path) -> PathBuf {
    store.join("moved")
}

/// The mark; none where the store may be served, or none is there.
pub(crate) fn read(store: &Path) -> Result<Option<CopyState>, OpenError> {
    match std::fs::read_to_string(file(store)) {
        Ok(text) => Ok(Some(CopyState::read(&text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(store, error)),
    }
}

/// Refuses a store that has one.
pub(crate) fn check(store: &Path) -> Result<(), OpenError> {
    match read(store)? {
        None => Ok(()),
        Some(_) => Err(OpenError::Moved {
            path: store.to_owned(),
            mark: file(store),
        }),
    }
}

/// Writes the mark, or takes it away.
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
