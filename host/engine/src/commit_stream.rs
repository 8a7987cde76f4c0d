//! Stream of committed groups. A backup subscribes to get the groups that are committed while it reads the rows.
//!
//! The applier sends each group while it locks readers out, so a subscriber gets every group that the memtable did
//! not show when it subscribed. Sending never blocks: the queue has a limit in bytes, and a subscriber that
//! exceeds it is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::rows::Made;
use crate::span::Written;

/// Maximum bytes of groups in the queue. A subscriber that falls this far behind will not catch up.
const MAX_WAITING: usize = 32 << 20;
/// Bytes of memory that a row needs in addition to its key and value.
const ROW_COST: usize = 64;

/// The stream, with at most one subscriber.
#[derive(Default)]
pub(crate) struct CommitStream(Mutex<Option<Subscriber>>);

struct Subscriber {
    groups: mpsc::UnboundedSender<Commit>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    waiting: AtomicUsize,
    cut_off: AtomicBool,
    lost: Notify,
}

impl State {
    fn cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
        self.lost.notify_waiters();
    }
}

/// A group that is on disk.
pub struct Commit {
    pub number: u64,
    pub made: Arc<Made>,
    cost: usize,
}

impl CommitStream {
    /// Subscribes to all groups committed from now on. `None` if there is already a subscriber.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Option<Subscription> {
        let mut subscriber = self.0.lock();
        if subscriber.as_ref().is_some_and(|it| !it.groups.is_closed()) {
            return None;
        }
        let (sender, groups) = mpsc::unbounded_channel();
        let state = Arc::new(State::default());
        *subscriber = Some(Subscriber {
            groups: sender,
            state: Arc::clone(&state),
        });
        Some(Subscription {
            groups,
            state,
            stream: Arc::clone(self),
        })
    }

    /// Sends a committed group to the subscriber, if any.
    pub(crate) fn committed(&self, number: u64, made: &Arc<Made>) {
        let mut subscriber = self.0.lock();
        let Some(subscribed) = &*subscriber else {
            return;
        };
        let cost = cost(&made.written);
        let waiting = subscribed.state.waiting.fetch_add(cost, Ordering::SeqCst) + cost;
        let commit = Commit {
            number,
            made: Arc::clone(made),
            cost,
        };
        let full = waiting > MAX_WAITING;
        if full {
            subscribed.state.cut_off();
        }
        if full || subscribed.groups.send(commit).is_err() {
            *subscriber = None;
        }
    }

    fn close(&self) {
        *self.0.lock() = None;
    }

    /// Cuts the subscriber off, because groups may become visible without passing through the stream.
    pub(crate) fn cut_off(&self) {
        if let Some(subscriber) = self.0.lock().take() {
            subscriber.state.cut_off();
        }
    }
}

fn cost(written: &Written) -> usize {
    let row = |(key, value): (&Vec<u8>, &Option<sled::IVec>)| {
        ROW_COST + key.len() + value.as_ref().map_or(0, |value| value.len())
    };
    written.iter().map(row).sum()
}

/// Receives groups. Dropping it ends the subscription.
pub struct Subscription {
    groups: mpsc::UnboundedReceiver<Commit>,
    state: Arc<State>,
    stream: Arc<CommitStream>,
}

impl Subscription {
    /// Takes the oldest group from the queue. `None` if the queue is empty.
    pub fn take(&mut self) -> Option<Commit> {
        let commit = self.groups.try_recv().ok()?;
        self.state.waiting.fetch_sub(commit.cost, Ordering::SeqCst);
        Some(commit)
    }

    /// Whether groups were lost because the queue was full or the disk failed.
    pub fn is_cut_off(&self) -> bool {
        self.state.cut_off.load(Ordering::SeqCst)
    }

    /// Resolves once groups are lost.
    pub async fn cut_off(&self) {
        let lost = self.state.lost.notified();
        if !self.is_cut_off() {
            lost.await;
        }
    }

    /// Ends the subscription. Groups in the queue can still be taken.
    pub fn close(&self) {
        self.stream.close();
    }
}
