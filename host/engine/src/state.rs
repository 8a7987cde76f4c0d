//! What a user of the engine keeps in memory beside the rows.
//!
//! What is found in memory costs a row neither to write nor to read. [`State`] is the part of it that the
//! writing thread has to itself; what it shows to readers changes in the same moment as the rows do. The
//! state is a type parameter of everything that an operation or a read goes through, so that it costs no
//! more than code that was written for it alone.

use crate::fault::Fault;
use crate::span::Written;

/// State beside the rows, as the writing thread changes it. An operation reaches it by way of its
/// [`Rows`](crate::Rows), and each either keeps all that it has changed or nothing.
///
/// Operations of a group follow one another: `roll_back` or `keep` ends each. The group ends with `write`,
/// and, once it is on the disk, `show`.
pub trait State: Send + Sized + 'static {
    /// What reads see of it, and operations too. It is shared, and changes in [`show`](Self::show) alone.
    type Shown: Send + Sync + 'static;

    /// Takes back what the operation under way has changed.
    fn roll_back(&mut self);

    /// What the operation under way has changed belongs to the group.
    fn keep(&mut self);

    /// Whether the group in the making has changed anything that [`write`](Self::write) writes.
    fn is_changed(&self) -> bool;

    /// Adds the rows of what the group has changed. The group has this number.
    ///
    /// # Errors
    /// That there is no room. The group is then not written, and neither is any other before the database
    /// was opened anew.
    fn write(&mut self, group: u64, rows: &mut Written) -> Result<(), Fault>;

    /// Shows what a group has changed that is on the disk by now. No read is under way.
    fn show(&mut self, shown: &Self::Shown);
}
