//! What the applier does, counted: for metrics, and for tests that watch groups form.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub(super) struct Stats {
    /// Operations that were taken.
    pub(super) taken: AtomicU64,
    /// Groups that were made durable.
    pub(super) commits: AtomicU64,
    /// Bytes of keys and values in them.
    pub(super) bytes: AtomicU64,
}

impl Stats {
    /// A group was taken; so many operations wait.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(super) fn took(&self, operations: usize, depth: usize) {
        self.taken.fetch_add(operations as u64, Ordering::Relaxed);
        metrics::histogram!("kassette_store_group_operations").record(operations as f64);
        metrics::gauge!("kassette_store_queue_operations").set(depth as f64);
    }

    /// A group is on disk.
    pub(super) fn committed(&self, bytes: usize, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        metrics::histogram!("kassette_store_commit_seconds").record(took.as_secs_f64());
    }
}
