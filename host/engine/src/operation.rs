//! Operations that the applier runs, and the replies to their callers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::rows::Rows;
use crate::state::State;

/// A change to the rows. A type rather than a closure, so that the list of possible changes is closed.
pub trait Operation<S: State>: Send + 'static {
    /// Result for the caller.
    type Outcome: Send + 'static;

    /// Whether the operation may wait some milliseconds to share a sync with others, because no caller needs it
    /// soon.
    const CAN_WAIT: bool = false;

    /// Reads and writes rows and changes the state. On an error all changes are rolled back.
    ///
    /// # Errors
    /// Why it was not done.
    fn apply(self, rows: &mut Rows<'_, S>) -> Result<Self::Outcome, Fault>;

    /// Called before the caller gets its result, even if the caller is gone: when the group is on disk, or was
    /// given up before it was written. Not called if [`apply`](Self::apply) failed, or if writing the group
    /// failed.
    fn settled(_outcome: &Self::Outcome) {}
}

/// Replies to the caller with the outcome, or with the fault of its group. A caller gets [`Fault::Stopping`] if
/// this is dropped.
pub(crate) type Settle = Box<dyn FnOnce(Result<(), Fault>) + Send>;

pub(crate) trait Job<S: State>: Send {
    /// The operation's type name, without path and generic wrappers.
    fn name(&self) -> &'static str;

    fn apply(self: Box<Self>, rows: &mut Rows<'_, S>) -> Settle;

    /// Replies with a fault, without running the operation.
    fn refuse(self: Box<Self>, fault: Fault);
}

/// An operation and its waiting caller.
pub(crate) struct Submission<O, T> {
    pub(crate) operation: O,
    pub(crate) reply: oneshot::Sender<Result<T, Fault>>,
}

impl<S: State, O: Operation<S>> Job<S> for Submission<O, O::Outcome> {
    fn name(&self) -> &'static str {
        let name = std::any::type_name::<O>().trim_end_matches('>');
        name.rsplit([':', '<']).next().unwrap_or(name)
    }

    fn apply(self: Box<Self>, rows: &mut Rows<'_, S>) -> Settle {
        let Self { operation, reply } = *self;
        rows.begin();
        // No operation should panic. If one does, only that one fails: the rollback removes its partial changes.
        let outcome = catch_unwind(AssertUnwindSafe(|| operation.apply(rows)))
            .unwrap_or_else(|_| Err(Fault::Unavailable("the operation panicked".into())));
        match outcome {
            Ok(_) => rows.keep(),
            Err(_) => rows.roll_back(),
        }
        Box::new(move |done| {
            if let Ok(outcome) = &outcome {
                O::settled(outcome);
            }
            // The caller may be gone.
            let _gone = reply.send(done.and(outcome));
        })
    }

    fn refuse(self: Box<Self>, fault: Fault) {
        let _gone = self.reply.send(Err(fault));
    }
}
