//! What runs by itself: due payments, deliveries, health probes, last-used times, retention.

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

/// How long a payment is held for the worker that claimed it: several calls to its vendors.
const LEASE: Duration = Duration::from_secs(60);
/// How long what is due is left to the request that made it due, which does it at once. The worker does what such
/// a request left behind.
const CALLERS_TURN: Duration = Duration::from_secs(1);
/// The least pause between two looks for due payments, so that a row that stays due cannot spin.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// The pause after the store failed.
pub(crate) const FAULT_PAUSE: Duration = Duration::from_secs(1);
/// Without anything due the store is read this often all the same.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// So often where other nodes serve it too, which may have written.
const LONGEST_PAUSE_AMONG_NODES: Duration = Duration::from_secs(5);
/// Rounds of [`Gateway::do_what_is_due`]: years of daily questions fit.
const ROUNDS_MOST: usize = 1_000;
/// How often it is looked whether something need not be kept any longer.
const FORGET_EVERY: Duration = Duration::from_secs(3600);
/// The least pause between two such looks.
const FORGET_PAUSE: Duration = Duration::from_secs(60);
/// How long one node does it for all: until its next look, and a while.
const FORGET_LEASE: Duration = Duration::from_secs(3900);
/// The pause between two groups, a millisecond of the writing thread each: payments come first.
const FORGET_GAP: Duration = Duration::from_millis(20);
/// Deliveries that are looked at at once: some five rows each.
const FORGET_DELIVERIES: usize = 32;
/// How long it waits for vendors and receivers, which may be silent: less than its callers wait for it.
const IDLE_WAIT: Duration = Duration::from_secs(30);

/// Wakes the worker when something is due sooner than it sleeps.
#[derive(Debug)]
pub(crate) struct Alarm {
    wakes_at: AtomicU64,
    ring: Notify,
    /// Held from a claim until its payments are on the list of those being reconciled.
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
    /// Something is due then.
    pub(crate) fn due(&self, at: Time) {
        let at = at.after(CALLERS_TURN);
        if at.as_millis() < self.wakes_at.load(Ordering::SeqCst) {
            self.ring.notify_one();
        }
    }

    /// From now on everything that becomes due rings; called before the store is read.
    fn listen(&self) {
        self.wakes_at.store(u64::MAX, Ordering::SeqCst);
    }

    /// Only what is due sooner rings.
    fn sleep_until(&self, at: Time) {
        self.wakes_at.store(at.as_millis(), Ordering::SeqCst);
    }
}

impl Gateway {
    /// Runs until `shutdown` resolves; what is under way is finished first.
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
        );
        if let Err(fault) = self.flush_seen().await {
            tracing::warn!(error = %fault, "last-used times of keys were not written");
        }
        self.finish().await;
        self.write_records().await;
        self.keep_counts().await;
    }

    /// Reconciles payments as they fall due.
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

    /// Claims as many due payments as there is room for; says when to look again.
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

    /// Claims payments that were due then and reconciles them; how many there were.
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

    /// Forgets what need not be kept for ever as its time passes.
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
            // New settings may shorten a time at any moment.
            let soonest = self.now().after(FORGET_PAUSE);
            self.clock().wait_until(next.max(soonest)).await;
        }
    }

    /// Forgets where no other node does it; says when there is more.
    async fn forget_in_turn(&self) -> Result<Option<Time>, Fault> {
        if self.store().take_task(Task::Forget, FORGET_LEASE).await? {
            return self.forget_due().await;
        }
        Ok(None)
    }

    /// Forgets all that need not be kept any longer, a small group at a time; says when there is more.
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

    /// Removes deliveries that are over from the log when their time has passed; how many, and whether
    /// the store failed on the way. What is pending stays, however old it is.
    async fn prune_deliveries(&self) -> (u64, Result<(), Fault>) {
        let (mut deliveries, mut after) = (0, None);
        // Again for each group: the setting may change meanwhile.
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

    /// Does everything that is due now, and says when nothing is any more: after the clock of `dev`
    /// was moved.
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
        // A vendor that stays silent is no reason to wait for ever; the worker goes on.
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
