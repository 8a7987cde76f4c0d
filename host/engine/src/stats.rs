//! Counters of the applier, for metrics and for tests that watch how groups form.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::rows::Touched;

/// Counters since the engine was opened.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// Operations in all groups, before they were written.
    pub(crate) taken: AtomicU64,
    /// Groups that are durable.
    pub(crate) commits: AtomicU64,
    /// Bytes of keys and values in these groups.
    pub(crate) bytes: AtomicU64,
    /// Maximum cost of an operation, by name. Unset if it is not recorded.
    pub(crate) most: OnceLock<Mutex<BTreeMap<&'static str, Took>>>,
    /// Maximum cost of a read slice, by type name. Unset if it is not recorded.
    pub(crate) most_read: OnceLock<Mutex<BTreeMap<&'static str, Touched>>>,
}

/// Cost of an operation for the writing thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Rows read or written.
    pub rows: usize,
    /// Bytes of their keys and values.
    pub bytes: usize,
    /// Time that applying it took.
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

    /// Records a slice of a read.
    pub(crate) fn read(&self, name: &'static str, touched: Touched) {
        let Some(all) = self.most_read.get() else {
            return;
        };
        let mut all = all.lock();
        let most = all.entry(name).or_default();
        most.rows = most.rows.max(touched.rows);
        most.bytes = most.bytes.max(touched.bytes);
    }

    /// Records a group before it is written; `depth` operations still wait.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn took(&self, operations: usize, depth: usize) {
        self.taken.fetch_add(operations as u64, Ordering::Relaxed);
        metrics::histogram!("kassette_store_group_operations").record(operations as f64);
        metrics::gauge!("kassette_store_queue_operations").set(depth as f64);
    }

    /// Records a group that is on disk.
    pub(crate) fn committed(&self, bytes: usize, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        metrics::histogram!("kassette_store_commit_seconds").record(took.as_secs_f64());
    }
}
