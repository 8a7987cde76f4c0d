//! What the applier is given: operations, and how their callers are answered.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::rows::Rows;
use crate::Fault;

/// One thing that can happen to the store. No closures from outside: what can happen is a list.
pub(super) trait Operation: Send + 'static {
    /// What it answers.
    type Outcome: Send + 'static;

    /// Reads and writes rows. What it wrote is taken back where it fails.
    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault>;
}

/// Answers: with what the operation came to, or why it was not done. A caller that is not answered hears
/// [`Fault::Stopping`].
pub(super) type Settle = Box<dyn FnOnce(Result<(), Fault>) + Send>;

pub(super) trait Job: Send {
    /// The operation's type, without the path to it and what goes around it.
    #[cfg(any(test, feature = "suite"))]
    fn name(&self) -> &'static str;

    fn apply(self: Box<Self>, rows: &mut Rows<'_>) -> Settle;

    /// Answers without doing anything.
    fn refuse(self: Box<Self>, fault: Fault);
}

/// An operation and the caller that waits for it.
pub(super) struct Submission<O: Operation> {
    pub(super) operation: O,
    pub(super) reply: oneshot::Sender<Result<O::Outcome, Fault>>,
}

impl<O: Operation> Job for Submission<O> {
    #[cfg(any(test, feature = "suite"))]
    fn name(&self) -> &'static str {
        let name = std::any::type_name::<O>().trim_end_matches('>');
        name.rsplit([':', '<']).next().unwrap_or(name)
    }

    fn apply(self: Box<Self>, rows: &mut Rows<'_>) -> Settle {
        let Self { operation, reply } = *self;
        rows.begin();
        // Nothing here should panic; where it does, one payment suffers and not all of them. The
        // overlay is rolled back to what it was, so nothing half-written is seen.
        let outcome = catch_unwind(AssertUnwindSafe(|| operation.apply(rows)))
            .unwrap_or_else(|_| Err(Fault::Unavailable("the operation panicked".into())));
        match outcome {
            Ok(_) => rows.keep(),
            Err(_) => rows.roll_back(),
        }
        Box::new(move |done| {
            // The caller may be gone.
            let _gone = reply.send(done.and(outcome));
        })
    }

    fn refuse(self: Box<Self>, fault: Fault) {
        let _gone = self.reply.send(Err(fault));
    }
}
