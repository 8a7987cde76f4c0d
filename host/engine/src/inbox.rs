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
    /// Takes no more.
    closed: bool,
    failed: Option<String>,
}

impl<S> Default for Inbox<S> {
    fn default() -> Self {
        Self {
            state: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                closed: false,
                failed: None,
            }),
            changed: Condvar::new(),
        }
    }
}

impl<S: State> Inbox<S> {
    /// Lets an operation wait.
    pub(crate) fn push(&self, job: Box<dyn Job<S>>) -> Result<(), Fault> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::Stopping);
        }
        if state.jobs.len() >= QUEUE {
            metrics::counter!("kassette_store_queue_full_total").increment(1);
            return Err(Fault::Busy);
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// How many wait.
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
            if room && let Some(job) = state.jobs.pop_front() {
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
