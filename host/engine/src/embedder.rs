//! The user of the engine: how its database is opened, and what it hears of each group.

use crate::fault::OpenError;
use crate::folder::Folder;
use crate::open::Opened;
use crate::span::Written;
use crate::state::State;

/// The user of an engine.
pub trait Embedder: Send + Sync + 'static {
    /// What stands in memory beside its rows.
    type State: State;

    /// Opens the database of a folder and reads its state, as at the first time. The engine asks for it after
    /// the disk has failed.
    ///
    /// # Errors
    /// Why it does not open. [`OpenError::Io`] and [`OpenError::Locked`] may pass: the engine asks again.
    fn open(&self, folder: &Folder) -> Result<Opened<Self::State>, OpenError>;

    /// A group is on the disk and is shown, and no caller has heard of it yet. Readers wait meanwhile.
    fn committed(&self, rows: &Written);

    /// The same once readers have their turn again: for what takes longer, such as a line of the log.
    fn shown(&self, _rows: &Written) {}

    /// The database was opened anew: groups may be there that [`committed`](Self::committed) has not told of.
    fn reopened(&self);
}
