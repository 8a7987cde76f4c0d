//! The way of a group to the disk: applied and batched, flushed, synced, answered. Each of the three
//! is done by a thread of its own, so that a group is made while the one before is on its way.
//!
//! A group is answered only after its own sync, and groups are synced in order: whoever is answered
//! depends on nothing that could still be lost.
//!
//! **The bytes of unsynced groups stay below one segment of sled's log.** sled uses a segment anew
//! once what replaced it lies at least one whole segment behind what was flushed, flushed as sled
//! understands it: handed to the kernel. It is on the disk too if a sync lies in between, and it does
//! as long as less than a segment is written between two syncs. While one group is synced at most
//! two more are written ([`super::applier::GROUP_BYTES`], [`super::open::SEGMENT_BYTES`]).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use ::sled::Tree;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::applier::Settle;
use super::durable::Durable;
use super::inbox::Inbox;
use super::nudge::Nudge;
use super::rows::Written;
use super::stats::Stats;
use crate::Fault;

/// What a group has written, while it is not yet on disk.
pub(super) struct Group {
    written: Written,
    /// None until it is known whether the group is on disk.
    durable: watch::Sender<Option<bool>>,
}

impl Group {
    /// What it has written.
    pub(super) const fn written(&self) -> &Written {
        &self.written
    }

    /// Returns when the group is on disk.
    pub(super) async fn settled(&self) -> Result<(), Fault> {
        let mut durable = self.durable.subscribe();
        let is_durable = durable.wait_for(Option::is_some).await;
        match is_durable.as_deref() {
            Ok(Some(true)) => Ok(()),
            _ => Err(Fault::Stopping),
        }
    }
}

/// Groups that are not yet on disk, the oldest first.
#[derive(Default)]
pub(super) struct Unsynced(RwLock<VecDeque<Arc<Group>>>);

impl Unsynced {
    /// Adds a group, before the tree shows any of it.
    pub(super) fn add(&self, written: Written) -> Arc<Group> {
        let group = Arc::new(Group {
            written,
            durable: watch::Sender::new(None),
        });
        self.0.write().push_back(Arc::clone(&group));
        group
    }

    /// The last group that `touches` holds for: when it is on disk, so are those before.
    pub(super) fn last(&self, touches: impl Fn(&Written) -> bool) -> Option<Arc<Group>> {
        let groups = self.0.read();
        let last = groups.iter().rev().find(|group| touches(&group.written));
        last.cloned()
    }

    /// The oldest group is on disk.
    fn synced(&self, group: &Group) {
        group.durable.send_replace(Some(true));
        self.0.write().pop_front();
    }

    /// Tells those who wait that none of the groups may be on disk.
    pub(super) fn give_up(&self) {
        for group in self.0.write().drain(..) {
            group.durable.send_replace(Some(false));
        }
    }
}

/// A group in the tree, on its way to the disk.
pub(super) struct Batched {
    /// None where it has written nothing. What it read may be of the group before all the same, so
    /// it waits its turn.
    pub(super) group: Option<Arc<Group>>,
    pub(super) number: u64,
    pub(super) bytes: usize,
    pub(super) began: Instant,
    pub(super) settles: Vec<Settle>,
}

/// Runs a thread of the pipeline; where it panics, no more groups are made.
pub(super) fn guarded(inbox: &Inbox, run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        inbox.fail("the storage engine panicked".into());
    }
}

/// Hands groups to the kernel, in order. Ends with the first that fails: it and those behind it are
/// dropped, and their callers hear `Stopping`, when everybody can know of the failure.
pub(super) fn flush(
    groups: &Receiver<Batched>,
    next: &SyncSender<Batched>,
    tree: &Tree,
    nudge: &Nudge,
    inbox: &Inbox,
) {
    while let Ok(batched) = groups.recv() {
        if batched.group.is_some()
            && let Err(error) = nudge.flush(tree)
        {
            return inbox.fail(format!("a batch was not flushed: {error}"));
        }
        if next.send(batched).is_err() {
            // Its thread has said why.
            return;
        }
        inbox.handed_over();
    }
}

/// Makes groups durable, tells `committed` of each, and answers them, in order. Ends as [`flush`] does.
pub(super) fn sync(
    groups: &Receiver<Batched>,
    durable: &mut dyn Durable,
    acknowledged: &AtomicU64,
    unsynced: &Unsynced,
    committed: impl Fn(u64, &Arc<Group>),
    inbox: &Inbox,
    stats: &Stats,
) {
    while let Ok(batched) = groups.recv() {
        if let Some(group) = &batched.group {
            let synced = durable
                .sync()
                .and_then(|()| durable.acknowledge(batched.number));
            if let Err(error) = synced {
                return inbox.fail(format!("a batch was not synced: {error}"));
            }
            acknowledged.store(batched.number, Ordering::Release);
            // Before anybody knows that it is on the disk: see `Listener::settled`.
            committed(batched.number, group);
            unsynced.synced(group);
            stats.committed(batched.bytes, batched.began.elapsed());
        }
        for settle in batched.settles {
            settle(Ok(()));
        }
    }
}
