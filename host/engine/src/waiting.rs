//! Callers of a group that is on disk, and how they are woken.
//!
//! Waking a task of a runtime from a thread that is none of its own takes a lock and a call into the
//! kernel, about as long as applying its operation does. So the thread that syncs wakes one task, which
//! wakes the others from within, where a wake-up is little more than a push to a queue.

use std::sync::OnceLock;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::operation::Settle;

/// Callers from which on a task is worth its making.
const WORTH_A_TASK: usize = 4;

/// The runtime that most callers are tasks of.
#[derive(Default)]
pub(crate) struct Callers(OnceLock<Handle>);

impl Callers {
    /// Notes the runtime of a caller. One that runs on its callers' thread alone does nothing once
    /// they have left it, so it is passed over.
    pub(crate) fn note(&self) {
        if self.0.get().is_some() {
            return;
        }
        if let Ok(handle) = Handle::try_current()
            && handle.runtime_flavor() == RuntimeFlavor::MultiThread
        {
            // Another caller may have been first.
            let _known = self.0.set(handle);
        }
    }

    /// Answers the callers that what they asked for is on disk.
    pub(crate) fn answer(&self, settles: Vec<Settle>) {
        let mut answers = Answers(settles);
        match self.0.get() {
            Some(runtime) if answers.0.len() >= WORTH_A_TASK => {
                runtime.spawn(async move { answers.give() });
            }
            _ => answers.give(),
        }
    }
}

/// Answers that callers wait for.
struct Answers(Vec<Settle>);

impl Answers {
    /// Gives those that are not given yet.
    fn give(&mut self) {
        for settle in self.0.drain(..) {
            settle(Ok(()));
        }
    }
}

/// The fallback: a runtime that has ended drops the task without running it, and no caller may be forgotten.
impl Drop for Answers {
    fn drop(&mut self) {
        self.give();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    const CALLERS: usize = WORTH_A_TASK * 4;

    fn settles() -> (Vec<Settle>, Receiver<String>) {
        let (answered, answers) = channel();
        let settle = |_| -> Settle {
            let answered = answered.clone();
            Box::new(move |done| {
                assert_eq!(done, Ok(()));
                let by = std::thread::current().name().unwrap_or_default().to_owned();
                answered.send(by).unwrap();
            })
        };
        ((0..CALLERS).map(settle).collect(), answers)
    }

    fn workers() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("worker")
            .build()
            .unwrap()
    }

    #[test]
    fn callers_are_answered_from_within_their_runtime() {
        let (callers, runtime) = (Callers::default(), workers());
        runtime.block_on(async { callers.note() });
        let (settles, answers) = settles();
        callers.answer(settles);
        for _ in 0..CALLERS {
            let by = answers.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(by, "worker");
        }
    }

    #[test]
    fn callers_are_answered_where_their_runtime_has_ended() {
        let (callers, runtime) = (Callers::default(), workers());
        runtime.block_on(async { callers.note() });
        drop(runtime);
        let (settles, answers) = settles();
        callers.answer(settles);
        assert_eq!(answers.try_iter().count(), CALLERS);
    }

    #[test]
    fn callers_of_a_runtime_on_their_own_thread_are_answered_without_it() {
        let callers = Callers::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async { callers.note() });
        let (settles, answers) = settles();
        callers.answer(settles);
        assert_eq!(answers.try_iter().count(), CALLERS);
    }
}
