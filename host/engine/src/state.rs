//! State that a user of the engine keeps in memory in addition to the rows.
//!
//! It needs no rows, so nothing has to be written or read for it. [`State`] belongs to the writing thread. Its
//! shared part, which readers see, changes at the same moment as the rows. The state is a type parameter of
//! operations and reads, so that calls to it are static.

use crate::fault::Fault;
use crate::span::Written;

/// State of the writing thread. An operation accesses it through its [`Rows`](crate::Rows), and keeps all of its
/// changes or none.
///
/// Each operation of a group ends with `roll_back` or `keep`. The group ends with `write` and, once it is on disk,
/// `show`.
pub trait State: Send + Sized + 'static {
    /// Shared part of the state, for reads and operations. Changes only in [`show`](Self::show).
    type Shown: Send + Sync + 'static;

    /// Reverts the changes of the current operation.
    fn roll_back(&mut self);

    /// Adds the changes of the current operation to the group.
    fn keep(&mut self);

    /// Whether the current group has changed anything that [`write`](Self::write) writes.
    fn is_changed(&self) -> bool;

    /// Adds rows for the changes of the group with this number.
    ///
    /// # Errors
    /// There is no space. The group is not written, and the database is reopened before another one is.
    fn write(&mut self, group: u64, rows: &mut Written) -> Result<(), Fault>;

    /// Publishes the changes of a group that is on disk. No read runs during the call.
    fn show(&mut self, shown: &Self::Shown);
}
