//! What waits for the writing thread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::fault::Fault;
use crate::operation::Job;
use crate::state::State;

/// Operations that may wait. At 20,000 a second this is a fifth of a second: a later caller is
/// better told to try again than kept waiting.
const QUEUE: usize = 4096;

/// How long operations that can wait do so for another one.
const WAITS_MOST: Duration = Duration::from_millis(10);

/// What the writing thread does next.
pub(crate) enum Next<S> {
    /// Apply an operation.
    Job(Box<dyn Job<S>>),
    /// Write the group that was made.
    Write,
    /// End: the engine is being shut down, and nothing waits.
    Closed,
    /// End: a group could not be written.
    Failed(String),
}

/// What a pause between two tries ended with.
pub(crate) enum Pause {
    /// Its time had passed.
    Over,
    /// The engine is being shut down.
    Closing,
}

/// The queue.
pub(crate) struct Inbox<S> {
    state: Mutex<Waiting<S>>,
    changed: Condvar,
}

struct Waiting<S> {
    jobs: VecDeque<Box<dyn Job<S>>>,
    /// When a group of these is begun, where all of them can wait.
    begins_at: Option<Instant>,
    /// Takes no more.
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
    /// Lets an operation wait, at most [`WAITS_MOST`] longer than it must where it `can_wait`.
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

    /// Takes no more; what waits is done.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes no more, and drops what waits.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        drop(dropped);
    }

    /// What to do next. A group that is begun takes all that waits, as long as there is `room` in it.
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

    /// A group could not be written. The first reason counts.
    pub(crate) fn fail(&self, why: String) {
        self.state.lock().failed.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Why groups could not be written, if they could not; from here on they can again.
    pub(crate) fn restart(&self) -> Option<String> {
        self.state.lock().failed.take()
    }

    /// Refuses what is asked for some time.
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

    /// No state beside the rows.
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

    /// An operation that does nothing.
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
