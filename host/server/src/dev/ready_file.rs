//! The ready file of a running `dev`, updated when processes are restarted.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::ready::Ready;
use crate::serve::ServeError;

/// The content of the file, and its path.
pub(super) struct ReadyFile {
    path: Option<PathBuf>,
    ready: Mutex<Ready>,
}

impl ReadyFile {
    /// Writes the file if a path is given.
    pub(super) fn write(path: Option<&Path>, ready: Ready) -> Result<Self, ServeError> {
        if let Some(path) = path {
            let written = ready.write(path);
            written.map_err(|error| ServeError::folder(path, error))?;
        }
        Ok(Self {
            path: path.map(Path::to_owned),
            ready: Mutex::new(ready),
        })
    }

    /// Changes the content and writes the file again.
    pub(super) fn change(&self, change: impl FnOnce(&mut Ready)) {
        let mut ready = self.ready.lock();
        change(&mut ready);
        if let Some(Err(error)) = self.path.as_deref().map(|path| ready.write(path)) {
            tracing::error!("the ready file is not written: {error}");
        }
    }
}
