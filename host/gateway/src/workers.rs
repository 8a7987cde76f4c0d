//! Background tasks: due payments, deliveries, health probes, last-used times, retention.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::time::Time;
use kassette_store::{Fault, Task};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::auth::SEEN_EVERY;
pub use crate::configure::{SettingsFile, SettingsProblem, SettingsRefused, settings_problems};

/// Lease of a payment that the worker claims: enough for several calls to its providers.
const LEASE: Duration = Duration::from_secs(60);
/// Time during which a due action is left to the request that made it due, which performs it immediately. The
/// worker performs what such a request leaves behind.
const CALLERS_TURN: Duration = Duration::from_secs(1);
/// Minimum pause between two searches for due payments, so that a row that stays due does not cause a busy
/// loop.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// Pause after a failure of the store.
pub(crate) const FAULT_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause between two searches if nothing is due.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The same with several nodes, because another node may have written.
const LONGEST_PAUSE_AMONG_NODES: Duration = Duration::from_secs(5);
/// Maximum number of rounds of [`Gateway::do_what_is_due`]. Enough for years of daily queries.
const ROUNDS_MOST: usize = 1_000;
/// Maximum pause between two deletions of expired data.
const FORGET_EVERY: Duration = Duration::from_secs(3600);
/// Minimum pause between two deletions of expired data.
const FORGET_PAUSE: Duration = Duration::from_secs(60);
/// How long one node is responsible for deletion: until its next round, plus a margin.
const FORGET_LEASE: Duration = Duration::from_secs(3900);
/// Pause between two groups, each of which takes a millisecond of the writing thread, so that payments are
/// not delayed.
const FORGET_GAP: Duration = Duration::from_millis(20);
/// Number of deliveries per group, with about five rows each.
const FORGET_DELIVERIES: usize = 32;
/// Time limit for waiting for providers and receivers. Shorter than the time that its callers wait.
const IDLE_WAIT: Duration = Duration::from_secs(30);

/// Wakes the worker when something becomes due earlier than it planned.
#[derive(Debug)]
pub(crate) struct Alarm {
    wakes_at: AtomicU64,
    ring: Notify,
    /// Held from a claim until its payments are in the reconciler.
    claiming: tokio::sync::Mutex<()>,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            wakes_at: AtomicU64::new(u64::MAX),
            ring: Notify::new(),
            claiming: tokio::sync::Mutex::default(),
        }
    }
}

impl Alarm {
    /// Wakes the worker if it would sleep beyond this time plus [`CALLERS_TURN`].
    pub(crate) fn due(&self, at: Time) {
        let at = at.after(CALLERS_TURN);
        if at.as_millis() < self.wakes_at.load(Ordering::SeqCst) {
            self.ring.notify_one();
        }
    }

    /// From now on every due time wakes the worker. Called before the store is read.
    fn listen(&self) {
        self.wakes_at.store(u64::MAX, Ordering::SeqCst);
    }

    /// From now on only due times before `at` wake the worker.
    fn sleep_until(&self, at: Time) {
        self.wakes_at.store(at.as_millis(), Ordering::SeqCst);
    }
}

impl Gateway {
    /// Runs all background tasks until `shutdown` resolves. Running work is finished first.
    pub async fn run_workers(&self, shutdown: impl Future<Output = ()> + Send) {
        let stop = CancellationToken::new();
        let stopping = async {
            shutdown.await;
            stop.cancel();
        };
        tokio::join!(
            stopping,
            stop.run_until_cancelled(self.work_off()),
            stop.run_until_cancelled(self.keep_probing()),
            stop.run_until_cancelled(self.keep_flushing()),
            self.keep_recording(&stop),
            self.deliver(stop.cancelled()),
            stop.run_until_cancelled(self.keep_forgetting()),
            stop.run_until_cancelled(self.find_reviews()),
            stop.run_until_cancelled(self.judge_trials()),
            stop.run_until_cancelled(self.keep_ledger()),
        );
        if let Err(fault) = self.flush_seen().await {
            tracing::warn!(error = %fault, "last-used times of keys were not written");
        }
        self.finish().await;
        self.write_records().await;
        self.keep_counts().await;
    }

    /// Reconciles payments when they become due.
    async fn work_off(&self) {
        loop {
            let wake = match self.claim_some().await {
                Ok(wake) => wake,
                Err(fault) => {
                    tracing::error!(error = %fault, "due payments could not be claimed");
                    self.now().after(FAULT_PAUSE)
                }
            };
            let alarm = &self.inner.alarm;
            alarm.sleep_until(wake);
            tokio::select! {
                () = self.clock().wait_until(wake) => {}
                () = alarm.ring.notified() => {}
            }
            self.inner.reconciler.has_room().await;
        }
    }

    /// Claims as many due payments as the reconciler can take. Returns the time of the next search.
    async fn claim_some(&self) -> Result<Time, Fault> {
        self.inner.alarm.listen();
        let due_before = self.now().before(CALLERS_TURN);
        let mut next = self.store().next_due().await?;
        if next.is_some_and(|next| next <= due_before) {
            self.claim_and_reconcile(due_before).await?;
            next = self.store().next_due().await?;
        }
        let now = self.now();
        let next = next.map(|next| next.after(CALLERS_TURN));
        let longest = match self.store().live_nodes() {
            1 => LONGEST_PAUSE,
            _ => LONGEST_PAUSE_AMONG_NODES,
        };
        let next = next.unwrap_or(now.after(longest));
        Ok(next.clamp(now.after(LEAST_PAUSE), now.after(longest)))
    }

    /// Claims payments that were due at `due_before` and reconciles them. Returns their number.
    async fn claim_and_reconcile(&self, due_before: Time) -> Result<usize, Fault> {
        let _claiming = self.inner.alarm.claiming.lock().await;
        let room = self.inner.reconciler.room();
        if room == 0 {
            return Ok(0);
        }
        let due = self.store().claim_due(due_before, LEASE, room).await?;
        for payment in &due {
            self.reconcile_claimed(*payment, due_before.after(LEASE));
        }
        Ok(due.len())
    }

    async fn keep_probing(&self) {
        loop {
            let next = self.probe_due().await;
            tokio::select! {
                () = self.clock().wait_until(next) => {}
                () = self.inner.measured.unwell.notified() => {}
            }
        }
    }

    async fn keep_flushing(&self) {
        loop {
            let next = self.now().after(SEEN_EVERY);
            self.clock().wait_until(next).await;
            if let Err(fault) = self.flush_seen().await {
                tracing::warn!(error = %fault, "last-used times of keys were not written");
            }
        }
    }

    /// Deletes expired data continuously.
    async fn keep_forgetting(&self) {
        loop {
            let again = self.now().after(FORGET_EVERY);
            let next = match self.forget_in_turn().await {
                Ok(next) => next.map_or(again, |next| next.min(again)),
                Err(fault) => {
                    tracing::warn!(error = %fault, "what is over its time is not forgotten yet");
                    again
                }
            };
            // New settings may shorten a retention time at any moment.
            let soonest = self.now().after(FORGET_PAUSE);
            self.clock().wait_until(next.max(soonest)).await;
        }
    }

    /// Deletes expired data unless another node does so. Returns the time at which more expires.
    async fn forget_in_turn(&self) -> Result<Option<Time>, Fault> {
        if self.store().take_task(Task::Forget, FORGET_LEASE).await? {
            return self.forget_due().await;
        }
        Ok(None)
    }

    /// Deletes all expired data in small groups. Returns the time at which more expires.
    async fn forget_due(&self) -> Result<Option<Time>, Fault> {
        let (mut decisions, mut redacted, mut routing_records) = (0, 0, 0);
        let done = loop {
            let now = self.now();
            let retention = self.settings().retention;
            let forgotten = match self.store().forget(retention, now).await {
                Ok(forgotten) => forgotten,
                Err(fault) => break Err(fault),
            };
            decisions += forgotten.decisions;
            redacted += forgotten.redacted;
            routing_records += forgotten.routing_records;
            match forgotten.next {
                Some(next) if next <= now => tokio::time::sleep(FORGET_GAP).await,
                next => break Ok(next),
            }
        };
        let (deliveries, pruned) = self.prune_deliveries().await;
        if decisions + redacted + deliveries > 0 {
            self.tell_forgotten(decisions, redacted, deliveries).await?;
        }
        if routing_records > 0 {
            tracing::info!(
                routing_records,
                "the routing log is no longer than it may be"
            );
        }
        pruned.and(done)
    }

    /// Removes expired ended deliveries from the log. Returns their number, and the failure of the store, if
    /// any. Pending deliveries stay, regardless of their age.
    async fn prune_deliveries(&self) -> (u64, Result<(), Fault>) {
        let (mut deliveries, mut after) = (0, None);
        // Read again for each group, because the setting may change in between.
        while let Some(keep) = self.settings().webhooks.keep {
            let before = self.now().before(keep);
            let pruned = self
                .store()
                .prune_deliveries(before, after, FORGET_DELIVERIES)
                .await;
            let pruned = match pruned {
                Ok(pruned) => pruned,
                Err(fault) => return (deliveries, Err(fault)),
            };
            deliveries += pruned.deliveries;
            if pruned.next.is_none() {
                break;
            }
            after = pruned.next;
            tokio::time::sleep(FORGET_GAP).await;
        }
        (deliveries, Ok(()))
    }

    async fn tell_forgotten(
        &self,
        decisions: u64,
        redacted: u64,
        deliveries: u64,
    ) -> Result<(), Fault> {
        tracing::info!(
            decisions,
            redacted,
            deliveries,
            "what need not be kept for ever was forgotten"
        );
        let audited = Audited {
            reason: Some("as the retention settings say".into()),
            after: Some(format!(
                "{{\"decisions\":{decisions},\"personal_data\":{redacted},\"deliveries\":{deliveries}}}"
            )),
            ..Audited::of_system("store.forget", "store".into())
        };
        self.store().audit(audited, self.now()).await.map(drop)
    }

    /// Performs everything that is due now, and returns when nothing is due any longer: used after the clock
    /// of `dev` was moved.
    ///
    /// # Errors
    /// The store's.
    pub async fn do_what_is_due(&self) -> Result<(), Fault> {
        self.probe_due().await;
        let work = async {
            for _ in 0..ROUNDS_MOST {
                let claimed = self.claim_and_reconcile(self.now()).await?;
                self.inner.reconciler.idle().await;
                if claimed == 0 {
                    break;
                }
            }
            self.delivered().await;
            self.write_records().await;
            Ok(())
        };
        // A silent provider must not block this call. The worker continues.
        tokio::time::timeout(IDLE_WAIT, work)
            .await
            .unwrap_or(Ok(()))?;
        self.forget_due().await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn what_a_request_made_due_does_not_wake_the_worker_before_the_requests_turn_is_over() {
        let alarm = Alarm::default();
        let woken = || alarm.ring.notified().now_or_never().is_some();
        let now = Time::from_secs(1000);
        alarm.sleep_until(now.after(CALLERS_TURN));
        alarm.due(now);
        assert!(!woken(), "it wakes then by itself");
        alarm.sleep_until(now.after(Duration::from_secs(60)));
        alarm.due(now);
        assert!(woken());
    }
}
