//! What the applier does, counted: for metrics, and for tests that watch groups form.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::rows::Touched;

/// Counters since the engine was opened.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Operations that were taken.
    pub(crate) taken: AtomicU64,
    /// Groups that were made durable.
    pub(crate) commits: AtomicU64,
    /// Bytes of keys and values in them.
    pub(crate) bytes: AtomicU64,
    /// The most that one operation of each name took, where that is watched.
    pub(crate) most: OnceLock<Mutex<BTreeMap<&'static str, Took>>>,
    /// The most that one slice of each read touched, where that is watched.
    pub(crate) most_read: OnceLock<Mutex<BTreeMap<&'static str, Touched>>>,
}

/// What an operation took of the writing thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Rows that it read or wrote.
    pub rows: usize,
    /// Bytes of their keys and values.
    pub bytes: usize,
    /// How long it was applied.
    pub time: Duration,
}

impl Took {
    pub(crate) const fn new(Touched { rows, bytes }: Touched, time: Duration) -> Self {
        Self { rows, bytes, time }
    }
}

impl Stats {
    pub(crate) fn applied(&self, name: &'static str, took: Took) {
        let Some(all) = self.most.get() else { return };
        let mut all = all.lock();
        let most = all.entry(name).or_default();
        most.rows = most.rows.max(took.rows);
        most.bytes = most.bytes.max(took.bytes);
        most.time = most.time.max(took.time);
    }

    /// A slice of a read was done.
    pub(crate) fn read(&self, name: &'static str, touched: Touched) {
        let Some(all) = self.most_read.get() else {
            return;
        };
        let mut all = all.lock();
        let most = all.entry(name).or_default();
        most.rows = most.rows.max(touched.rows);
        most.bytes = most.bytes.max(touched.bytes);
    }

    /// A group was taken; so many operations wait.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn took(&self, operations: usize, depth: usize) {
        self.taken.fetch_add(operations as u64, Ordering::Relaxed);
        metrics::histogram!("kassette_store_group_operations").record(operations as f64);
        metrics::gauge!("kassette_store_queue_operations").set(depth as f64);
    }

    /// A group is on disk.
    pub(crate) fn committed(&self, bytes: usize, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        metrics::histogram!("kassette_store_commit_seconds").record(took.as_secs_f64());
    }
}
