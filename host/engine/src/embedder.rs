//! The interface between the engine and its user: opening the database, and notification of each group.

use crate::fault::OpenError;
use crate::folder::Folder;
use crate::open::Opened;
use crate::span::Written;
use crate::state::State;

/// The user of an engine.
pub trait Embedder: Send + Sync + 'static {
    /// State in memory in addition to the rows.
    type State: State;

    /// Opens the database of a folder and reads its state. The engine calls it to reopen the database after a disk
    /// error.
    ///
    /// # Errors
    /// Why the database does not open. After [`OpenError::Io`] and [`OpenError::Locked`] the engine tries again.
    fn open(&self, folder: &Folder) -> Result<Opened<Self::State>, OpenError>;

    /// Called when a group is on disk and visible, before its callers are answered. Readers are locked out during
    /// the call.
    fn committed(&self, rows: &Written);

    /// Called after [`committed`](Self::committed), when readers are no longer locked out: for slower work such as
    /// logging.
    fn shown(&self, _rows: &Written) {}

    /// Called when the database was opened again. It may contain groups for which [`committed`](Self::committed)
    /// was not called.
    fn reopened(&self);
}
