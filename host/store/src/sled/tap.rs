//! Where a backup hears of the groups that are committed while it reads the rows.
//!
//! The writing thread hands every group over that is on the disk, while nobody can read: whoever listens
//! hears of all that the memtable does not show yet. It never waits: what nobody has taken yet is bounded,
//! and whoever listens too slowly is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::applier::Shared;
use super::rows::{Made, Written};

/// Bytes of groups that may wait to be taken. A reader that falls this far behind what is written
/// does not catch up; memory is needed for payments.
const MAX_WAITING: usize = 32 << 20;
/// What a row takes in memory beside its key and value.
const ROW_COST: usize = 64;

/// The place where a listener is put.
#[derive(Default)]
pub(super) struct Tap(Mutex<Option<Ear>>);

struct Ear {
    groups: mpsc::UnboundedSender<Heard>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    waiting: AtomicUsize,
    cut_off: AtomicBool,
    told: Notify,
}

impl State {
    fn cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }
}

/// A group that is on the disk.
pub(super) struct Heard {
    /// Its number.
    pub(super) number: u64,
    /// What it did.
    pub(super) made: Arc<Made>,
    cost: usize,
}

impl Tap {
    fn listen(&self) -> Option<(mpsc::UnboundedReceiver<Heard>, Arc<State>)> {
        let mut ear = self.0.lock();
        if ear.as_ref().is_some_and(|ear| !ear.groups.is_closed()) {
            return None;
        }
        let (sender, groups) = mpsc::unbounded_channel();
        let state = Arc::new(State::default());
        *ear = Some(Ear {
            groups: sender,
            state: Arc::clone(&state),
        });
        Some((groups, state))
    }

    /// Hands a committed group over, where somebody listens.
    pub(super) fn committed(&self, number: u64, made: &Arc<Made>) {
        let mut ear = self.0.lock();
        let Some(listening) = &*ear else { return };
        let cost = cost(&made.written);
        let waiting = listening.state.waiting.fetch_add(cost, Ordering::SeqCst) + cost;
        let heard = Heard {
            number,
            made: Arc::clone(made),
            cost,
        };
        let full = waiting > MAX_WAITING;
        if full {
            listening.state.cut_off();
        }
        if full || listening.groups.send(heard).is_err() {
            *ear = None;
        }
    }

    fn close(&self) {
        *self.0.lock() = None;
    }

    /// Groups may follow that nobody hears of.
    pub(super) fn cut_off(&self) {
        if let Some(ear) = self.0.lock().take() {
            ear.state.cut_off();
        }
    }
}

fn cost(written: &Written) -> usize {
    let row = |(key, value): (&Vec<u8>, &Option<sled::IVec>)| {
        ROW_COST + key.len() + value.as_ref().map_or(0, |value| value.len())
    };
    written.iter().map(row).sum()
}

/// Hears of groups, until it is dropped.
pub(super) struct Listener {
    groups: mpsc::UnboundedReceiver<Heard>,
    state: Arc<State>,
    shared: Arc<Shared>,
}

impl Listener {
    /// Listens to an applier: hears of every group that is committed from now on. None where somebody
    /// listens already.
    pub(super) fn to(shared: &Arc<Shared>) -> Option<Self> {
        let (groups, state) = shared.tap.listen()?;
        Some(Self {
            groups,
            state,
            shared: Arc::clone(shared),
        })
    }

    /// The next group that waits, in order.
    pub(super) fn take(&mut self) -> Option<Heard> {
        let heard = self.groups.try_recv().ok()?;
        self.state.waiting.fetch_sub(heard.cost, Ordering::SeqCst);
        Some(heard)
    }

    /// Whether groups were lost: too many waited, or the disk failed.
    pub(super) fn is_cut_off(&self) -> bool {
        self.state.cut_off.load(Ordering::SeqCst)
    }

    /// Resolves when groups are lost.
    pub(super) async fn cut_off(&self) {
        let told = self.state.told.notified();
        if !self.is_cut_off() {
            told.await;
        }
    }

    /// Hears of no further groups; those that wait can still be taken.
    pub(super) fn close(&self) {
        self.shared.tap.close();
    }
}
