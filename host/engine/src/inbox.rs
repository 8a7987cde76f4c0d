//! Queue of operations for the writing thread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::fault::Fault;
use crate::operation::Job;
use crate::state::State;

/// Maximum length of the queue. At 20,000 operations per second this is a delay of 0.2 seconds; beyond that,
/// callers should try again instead of waiting.
const QUEUE: usize = 4096;

/// Maximum time that an operation with `CAN_WAIT` waits for another one to share a group with.
const WAITS_MOST: Duration = Duration::from_millis(10);

/// Next step of the writing thread.
pub(crate) enum Next<S> {
    /// Apply an operation.
    Job(Box<dyn Job<S>>),
    /// Write the current group.
    Write,
    /// End: the engine is shutting down and the queue is empty.
    Closed,
    /// End: a group or checkpoint could not be written.
    Failed(String),
}

/// How a pause ended.
pub(crate) enum Pause {
    /// The time has passed.
    Over,
    /// The engine is shutting down.
    Closing,
}

pub(crate) struct Inbox<S> {
    state: Mutex<Waiting<S>>,
    changed: Condvar,
}

struct Waiting<S> {
    jobs: VecDeque<Box<dyn Job<S>>>,
    /// Time at which a group starts although every queued operation can wait.
    begins_at: Option<Instant>,
    /// No further operations are accepted.
    closed: bool,
    failed: Option<String>,
}

impl<S> Default for Inbox<S> {
    fn default() -> Self {
        Self {
            state: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                begins_at: None,
                closed: false,
                failed: None,
            }),
            changed: Condvar::new(),
        }
    }
}

impl<S: State> Inbox<S> {
    /// Adds an operation to the queue. With `can_wait` it may wait up to [`WAITS_MOST`] before its group starts.
    pub(crate) fn push(&self, job: Box<dyn Job<S>>, can_wait: bool) -> Result<(), Fault> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::Stopping);
        }
        if state.jobs.len() >= QUEUE {
            metrics::counter!("kassette_store_queue_full_total").increment(1);
            return Err(Fault::Busy);
        }
        if !can_wait {
            state.begins_at = None;
        } else if state.jobs.is_empty() {
            state.begins_at = Some(Instant::now() + WAITS_MOST);
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }

    /// Accepts no further operations. Those in the queue are still done.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Accepts no further operations and drops the queue.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        drop(dropped);
    }

    /// Waits for the next step. `begun` and `room` say whether the current group has operations and whether it can
    /// take more.
    pub(crate) fn next(&self, begun: bool, room: bool) -> Next<S> {
        let mut state = self.state.lock();
        loop {
            if let Some(why) = &state.failed {
                return Next::Failed(why.clone());
            }
            if let Some(at) = state.begins_at
                && !begun
                && !state.closed
                && !self.changed.wait_until(&mut state, at).timed_out()
            {
                continue;
            }
            if room && let Some(job) = state.jobs.pop_front() {
                state.begins_at = None;
                return Next::Job(job);
            }
            if begun {
                return Next::Write;
            }
            if state.closed && state.jobs.is_empty() {
                return Next::Closed;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Reports a failed write. The first reason is kept.
    pub(crate) fn fail(&self, why: String) {
        self.state.lock().failed.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Takes the reason why writing failed, if it did, and allows writing again.
    pub(crate) fn restart(&self) -> Option<String> {
        self.state.lock().failed.take()
    }

    /// Refuses all operations for some time.
    pub(crate) fn pause(&self, time: Duration, fault: &Fault) -> Pause {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                job.refuse(fault.clone());
            }
            if state.closed {
                return Pause::Closing;
            }
            if self.changed.wait_until(&mut state, until).timed_out() {
                return Pause::Over;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Settle;
    use crate::rows::Rows;
    use crate::span::Written;

    /// State with nothing in it.
    struct Stateless;

    impl State for Stateless {
        type Shown = ();

        fn roll_back(&mut self) {}

        fn keep(&mut self) {}

        fn is_changed(&self) -> bool {
            false
        }

        fn write(&mut self, _: u64, _: &mut Written) -> Result<(), Fault> {
            Ok(())
        }

        fn show(&mut self, (): &()) {}
    }

    /// Operation that does nothing.
    struct Idle;

    impl Job<Stateless> for Idle {
        fn name(&self) -> &'static str {
            "Idle"
        }

        fn apply(self: Box<Self>, _: &mut Rows<'_, Stateless>) -> Settle {
            Box::new(|_| {})
        }

        fn refuse(self: Box<Self>, _: Fault) {}
    }

    fn is_job(next: &Next<Stateless>) -> bool {
        matches!(next, Next::Job(_))
    }

    #[test]
    fn what_can_wait_begins_a_group_when_its_time_is_over() {
        let (inbox, began) = (Inbox::default(), Instant::now());
        inbox.push(Box::new(Idle), true).unwrap();
        assert!(is_job(&inbox.next(false, true)));
        assert!(began.elapsed() >= WAITS_MOST);
    }

    #[test]
    fn what_can_wait_goes_with_the_next_that_cannot() {
        let inbox = Inbox::default();
        inbox.push(Box::new(Idle), true).unwrap();
        inbox.push(Box::new(Idle), false).unwrap();
        assert_eq!(inbox.state.lock().begins_at, None);
        assert!(is_job(&inbox.next(false, true)) && is_job(&inbox.next(true, true)));
        inbox.push(Box::new(Idle), true).unwrap();
        assert!(is_job(&inbox.next(true, true)), "nor where one is begun");
        assert!(matches!(inbox.next(true, true), Next::Write));
        inbox.close();
        assert!(matches!(inbox.next(false, true), Next::Closed));
    }
}
