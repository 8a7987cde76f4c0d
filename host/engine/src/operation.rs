//! What the applier is given: operations, and how their callers are answered.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::rows::Rows;
use crate::state::State;

/// One thing that can happen to the rows. No closures from outside: what can happen is a list.
pub trait Operation<S: State>: Send + 'static {
    /// What it answers.
    type Outcome: Send + 'static;

    /// No caller needs it soon: it waits a few milliseconds for others to share their sync with.
    const CAN_WAIT: bool = false;

    /// Reads and writes rows, and changes the state beside them. What it changed is taken back where it fails.
    ///
    /// # Errors
    /// Why it was not done.
    fn apply(self, rows: &mut Rows<'_, S>) -> Result<Self::Outcome, Fault>;

    /// Its group has ended: it is on the disk, or the disk failed and may have it. Called once before the
    /// caller is answered, even where that has gone away, and not after [`apply`](Self::apply) has failed.
    fn settled(_outcome: &Self::Outcome) {}
}

/// Answers: with what the operation came to, or why it was not done. A caller that is not answered hears
/// [`Fault::Stopping`].
pub(crate) type Settle = Box<dyn FnOnce(Result<(), Fault>) + Send>;

pub(crate) trait Job<S: State>: Send {
    /// The operation's type, without the path to it and what goes around it.
    fn name(&self) -> &'static str;

    fn apply(self: Box<Self>, rows: &mut Rows<'_, S>) -> Settle;

    /// Answers without doing anything.
    fn refuse(self: Box<Self>, fault: Fault);
}

/// An operation and the caller that waits for it.
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
        // Nothing here should panic; where it does, one operation fails and not all of them. The
        // overlay is rolled back to what it was, so nothing half-written is seen.
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
