//! Wakes the callers of a group that is on disk.
//!
//! Waking a task from a thread outside its runtime takes a lock and a system call, about as long as applying its
//! operation. The writing thread therefore wakes a single task, which wakes the others from within the runtime,
//! where this is little more than a push to a queue.

use std::sync::OnceLock;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::operation::Settle;

/// Number of callers from which a separate task pays off.
const WORTH_A_TASK: usize = 4;

/// The runtime of the first caller on a multi-threaded runtime, once there is one.
#[derive(Default)]
pub(crate) struct Callers(OnceLock<Handle>);

impl Callers {
    /// Remembers the runtime of a caller. Single-threaded runtimes are skipped: they run no tasks after their
    /// callers have left.
    pub(crate) fn note(&self) {
        if self.0.get().is_some() {
            return;
        }
        if let Ok(handle) = Handle::try_current()
            && handle.runtime_flavor() == RuntimeFlavor::MultiThread
        {
            // Another caller may have been faster.
            let _known = self.0.set(handle);
        }
    }

    /// Notifies the callers that their group is on disk.
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

/// Replies that callers wait for.
struct Answers(Vec<Settle>);

impl Answers {
    /// Sends the remaining replies.
    fn give(&mut self) {
        for settle in self.0.drain(..) {
            settle(Ok(()));
        }
    }
}

/// Sends the remaining replies if a runtime that has ended drops the task without running it.
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
