//! The stream of commits, from which a backup takes the groups that are committed while it reads the rows.
//!
//! The applier hands over every group that is on the disk, while it keeps all readers out: a subscriber gets
//! all that the memtable does not show yet. The applier never waits: what is not taken yet is bounded, and a
//! subscriber that is too slow is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::rows::Made;
use crate::span::Written;

/// Bytes of groups that may wait to be taken. A reader that falls this far behind what is written
/// does not catch up; memory is needed for other work.
const MAX_WAITING: usize = 32 << 20;
/// What a row takes in memory beside its key and value.
const ROW_COST: usize = 64;

/// Every group that is committed; at most one subscriber.
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

/// A group that is on the disk.
pub struct Commit {
    pub number: u64,
    pub made: Arc<Made>,
    cost: usize,
}

impl CommitStream {
    /// Subscribes to every group that is committed from now on. None where there is a subscriber already.
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

    /// Hands a committed group to the subscriber, where there is one.
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

    /// Groups may follow that do not come by here.
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

/// Receives groups until it is dropped.
pub struct Subscription {
    groups: mpsc::UnboundedReceiver<Commit>,
    state: Arc<State>,
    stream: Arc<CommitStream>,
}

impl Subscription {
    /// The next group that waits, in order.
    pub fn take(&mut self) -> Option<Commit> {
        let commit = self.groups.try_recv().ok()?;
        self.state.waiting.fetch_sub(commit.cost, Ordering::SeqCst);
        Some(commit)
    }

    /// Whether groups were lost: too many waited, or the disk failed.
    pub fn is_cut_off(&self) -> bool {
        self.state.cut_off.load(Ordering::SeqCst)
    }

    /// Resolves when groups are lost.
    pub async fn cut_off(&self) {
        let lost = self.state.lost.notified();
        if !self.is_cut_off() {
            lost.await;
        }
    }

    /// Takes no further groups in; those that wait can still be taken.
    pub fn close(&self) {
        self.stream.close();
    }
}
