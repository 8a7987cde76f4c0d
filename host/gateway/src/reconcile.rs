//! The reconciler: runs the due actions of payments, one task per payment at a time, and limits how often
//! attempts are queried.

use std::collections::HashMap;

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{Act, ClaimPurpose, NextAction, PaymentAggregate, Step, Via};
use kassette_domain::provider::QueryPurpose;
use kassette_domain::time::Time;
use kassette_store::{About, Fault};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::apply::{AttemptClaim, QUERY_EVERY};

/// Maximum number of live payments reconciled at the same time. Each may wait seconds for a provider and
/// holds a few kilobytes.
pub const RECONCILED_AT_ONCE: usize = 64;
/// Maximum number of test payments reconciled at the same time, in addition to the live ones.
pub const IN_TEST_AT_ONCE: usize = 16;
/// Maximum number of payments in the reconciler, waiting ones included. The worker finds further ones in the
/// store.
pub const WAITING_MOST: usize = 10_000;
/// Maximum number of test payments that are reconciled or wait for it. Enough for all that fall due together
/// after an outage, in most shops.
pub const IN_TEST_MOST: usize = 4_096;
/// Number of queries in a row that notices may cause, because a provider sends a handful of notices per
/// payment.
const LOOKS_IN_A_ROW: u8 = 5;
/// Maximum number of actions in one run for one payment: a capture, closing the remaining attempts, a last
/// query, expiry, and some for callbacks in between. Remaining actions stay due.
const ACTIONS_MOST: usize = 8;
/// Number of attempts in memory at which those without a recent query are removed.
const SWEEP_FROM: usize = 4096;

#[derive(Debug)]
pub(crate) struct Reconciler {
    running: Mutex<Running>,
    live: Semaphore,
    test: Semaphore,
    ended: Notify,
    /// Once cancelled, waiting payments are left to the store, where they are due: another node or the next
    /// start finds them.
    pub(crate) stopping: CancellationToken,
}

#[derive(Debug, Default)]
struct Running {
    of: HashMap<PaymentId, Run>,
    /// Number of payments in `of` that are known to be test payments.
    in_test: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Whether it counts among the test payments.
    in_test: bool,
    /// Something changed during the run, so run again.
    again: bool,
    /// End of the worker's claim in the store. `None` without one. The claim is released at the end of the
    /// run.
    claimed_until: Option<Time>,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            live: Semaphore::new(RECONCILED_AT_ONCE),
            test: Semaphore::new(IN_TEST_AT_ONCE),
            ended: Notify::new(),
            stopping: CancellationToken::new(),
        }
    }
}

impl Reconciler {
    /// Number of payments that the worker may claim now. Test payments do not reduce it, because they have
    /// their own limit.
    pub(crate) fn room(&self) -> usize {
        let running = self.running.lock();
        let others = running.of.len().saturating_sub(running.in_test);
        RECONCILED_AT_ONCE.saturating_sub(others)
    }

    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.running.lock().of.is_empty() {
                return;
            }
            ended.await;
        }
    }

    pub(crate) async fn has_room(&self) {
        loop {
            let ended = self.ended.notified();
            if self.room() > 0 {
                return;
            }
            ended.await;
        }
    }

    /// Adds a payment. False if it is already being reconciled, in which case that run repeats, or if too
    /// many payments wait.
    fn begin(&self, payment: PaymentId, claimed_until: Option<Time>) -> bool {
        let mut running = self.running.lock();
        if let Some(run) = running.of.get_mut(&payment) {
            run.again = true;
            run.claimed_until = claimed_until.or(run.claimed_until);
            return false;
        }
        if running.of.len() >= WAITING_MOST {
            return false;
        }
        let run = Run {
            claimed_until,
            ..Run::default()
        };
        running.of.insert(payment, run);
        true
    }

    const fn permits(&self, environment: Environment) -> &Semaphore {
        match environment {
            Environment::Live => &self.live,
            Environment::Test => &self.test,
        }
    }

    /// Waits until the payment may be reconciled. `None` if too many test payments are reconciled or waiting,
    /// or if the gateway is stopping. The payment is then due again when its claim ends, so that live payments
    /// behind it are claimed.
    async fn permit(
        &self,
        payment: PaymentId,
        environment: Environment,
    ) -> Option<SemaphorePermit<'_>> {
        if environment == Environment::Test {
            let mut running = self.running.lock();
            if running.in_test >= IN_TEST_MOST {
                metrics::counter!("kassette_reconciliations_put_off_total").increment(1);
                return None;
            }
            let run = running.of.get_mut(&payment)?;
            run.in_test = true;
            running.in_test += 1;
            drop(running);
            self.ended.notify_waiters();
        }
        tokio::select! {
            biased;
            permit = self.permits(environment).acquire() => permit.ok(),
            () = self.stopping.cancelled() => None,
        }
    }

    /// What a task does after a run: repeat it, release the claim in the store, or end.
    fn next_step(&self, payment: PaymentId) -> Next {
        let mut running = self.running.lock();
        if let Some(run) = running.of.get_mut(&payment) {
            if std::mem::take(&mut run.again) {
                return Next::Again;
            }
            if let Some(claimed_until) = run.claimed_until.take() {
                return Next::Release(claimed_until);
            }
        }
        running.remove(payment);
        Next::Over
    }
}

impl Running {
    fn remove(&mut self, payment: PaymentId) {
        if self.of.remove(&payment).is_some_and(|run| run.in_test) {
            self.in_test -= 1;
        }
    }
}

enum Next {
    Again,
    /// Release the claim in the store that lasts until this time.
    Release(Time),
    Over,
}

/// Removes the payment from the reconciler even if its task panics.
struct RunGuard {
    gateway: Gateway,
    payment: PaymentId,
    over: bool,
}

impl RunGuard {
    /// Ends the guard without removing the payment: it was removed already, and another task may have added
    /// it again.
    fn leave(mut self) {
        self.over = true;
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let reconciler = &self.gateway.inner.reconciler;
        if !self.over {
            reconciler.running.lock().remove(self.payment);
        }
        reconciler.ended.notify_waiters();
    }
}

impl Gateway {
    /// Reconciles a payment in a separate task, which shutdown waits for.
    pub(crate) fn reconcile_soon(&self, payment: PaymentId) {
        self.spawn_reconciliation(payment, None, None);
    }

    /// Like [`Self::reconcile_soon`], for a payment that the worker has claimed until the given time.
    pub(crate) fn reconcile_claimed(&self, payment: PaymentId, until: Time) {
        self.spawn_reconciliation(payment, Some(until), None);
    }

    /// Like [`Self::reconcile_soon`], for a payment that was just read or changed.
    pub(crate) fn reconcile_known(&self, aggregate: PaymentAggregate) {
        self.spawn_reconciliation(aggregate.payment.id, None, Some(Box::new(aggregate)));
    }

    fn spawn_reconciliation(
        &self,
        payment: PaymentId,
        claimed_until: Option<Time>,
        mut known: Option<Box<PaymentAggregate>>,
    ) {
        if !self.inner.reconciler.begin(payment, claimed_until) {
            return;
        }
        let guard = RunGuard {
            gateway: self.clone(),
            payment,
            over: false,
        };
        self.inner.tasks.spawn(async move {
            let gateway = guard.gateway.clone();
            let reconciler = &gateway.inner.reconciler;
            // On failure, its row in the store stays due. The remaining time of the claim is the pause.
            let failed = |fault| {
                tracing::error!(payment.id = %payment, error = %fault, "a payment was not reconciled");
            };
            let environment = match &known {
                Some(known) => known.payment.environment,
                None => match gateway.store().payment(payment).await {
                    Ok(Some(stored)) => stored.environment,
                    Ok(None) => return,
                    Err(fault) => return failed(fault),
                },
            };
            // Waiting tasks must not keep the payment in memory.
            if reconciler.permits(environment).available_permits() == 0 {
                known = None;
            }
            let Some(_permit) = reconciler.permit(payment, environment).await else {
                return;
            };
            loop {
                // Boxed, so that waiting tasks need little memory.
                if let Err(fault) = Box::pin(gateway.reconcile(payment, known.take())).await {
                    return failed(fault);
                }
                match reconciler.next_step(payment) {
                    Next::Again => {}
                    Next::Release(until) => gateway.release(payment, until).await,
                    Next::Over => return guard.leave(),
                }
            }
        });
    }

    /// Performs the due actions of a payment one after the other. `known` is the payment as the caller has
    /// just read it. Returns the payment when nothing is due any longer.
    pub(crate) async fn reconcile(
        &self,
        payment: PaymentId,
        known: Option<Box<PaymentAggregate>>,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let locks = &self.inner.payment_locks;
        let (_guard, known) = match locks.try_lock(payment) {
            Some(guard) => (guard, known),
            // Another task may change the payment during the wait.
            None => (locks.lock(payment).await, None),
        };
        self.reconcile_locked(payment, known.map(|known| *known))
            .await
    }

    /// Like [`Self::reconcile`], if the caller holds the lock of the payment.
    pub(crate) async fn reconcile_locked(
        &self,
        payment: PaymentId,
        known: Option<PaymentAggregate>,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let mut known = match known {
            Some(known) => Some(known),
            None => self.store().aggregate(About::Payment(payment)).await?,
        };
        for _ in 0..ACTIONS_MOST {
            let Some(aggregate) = known else {
                return Ok(None);
            };
            let Some(next_action) = aggregate.next_action(self.now()) else {
                return Ok(Some(aggregate));
            };
            known = self.perform(&aggregate, next_action).await?;
        }
        tracing::warn!(payment.id = %payment, "a payment has more due than is done in one go");
        Ok(None)
    }

    /// Performs one action. Returns the payment afterwards. `None` if another task performs it.
    async fn perform(
        &self,
        aggregate: &PaymentAggregate,
        next_action: NextAction,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let limit = self.settings().provider_deadline;
        let about = About::Payment(aggregate.payment.id);
        let attempt = match next_action {
            NextAction::Capture(id)
            | NextAction::Cancel(id)
            | NextAction::Query(id)
            | NextAction::Start(id) => aggregate.attempt(id),
            NextAction::Refund(id) => aggregate.refund(id).map(|(attempt, _)| attempt),
            NextAction::Expire | NextAction::CarryOut | NextAction::Authorization(_) => None,
        };
        if let Some(attempt) = attempt
            && self.module_and_access(attempt).is_none()
            && self.others_differ().await?
        {
            // A node that has the account will find it due.
            return Ok(None);
        }
        let done = match next_action {
            NextAction::Capture(id) => return self.capture(id).await,
            NextAction::Cancel(id) => return self.close(id, limit).await,
            NextAction::Query(id) => {
                let after = self.query_now(aggregate, id, Via::Query, false).await?;
                if after.is_none() {
                    // A query is running; its answer may be older than the event that made this action due.
                    self.inner.query_throttle.lock().next(id, self.now());
                }
                return Ok(after);
            }
            NextAction::Start(id) => self.repeat_start(id).await?,
            NextAction::Refund(id) => self.call_about_refund(id).await?,
            NextAction::Expire => self.act_due(&about, Act::Expire).await?,
            NextAction::CarryOut => self.act_due(&about, Act::CarryOut).await?,
            NextAction::Authorization(id) => self.act_due(&about, Act::Authorization(id)).await?,
        };
        match done {
            true => self.store().aggregate(about).await,
            false => Ok(None),
        }
    }

    /// Performs an action that is due only because time has passed.
    async fn act_due(&self, about: &About, act: Act) -> Result<bool, Fault> {
        self.step(about.clone(), Step::Act(act), None).await?;
        Ok(true)
    }

    /// Captures an attempt that the payer approved. Returns the payment afterwards. `None` if the claim was
    /// refused, because another task captures it or a capture is no longer wanted.
    async fn capture(&self, id: AttemptId) -> Result<Option<PaymentAggregate>, Fault> {
        let AttemptClaim::Taken(aggregate) = self.claim(id, ClaimPurpose::Capture).await? else {
            return Ok(None);
        };
        let limit = self.settings().provider_deadline;
        let after = self
            .ask(&aggregate, id, QueryPurpose::Capture, Via::Query, limit)
            .await?;
        let state = after.as_ref().and_then(|after| after.attempt(id));
        let outcome = match state.map(Attempt::state) {
            Some(AttemptState::Captured) => "captured",
            Some(state) if state.is_open() => "open",
            _ => "over",
        };
        metrics::counter!(
            "kassette_captures_total",
            "outcome" => outcome, "environment" => aggregate.payment.environment.as_str()
        )
        .increment(1);
        tracing::info!(attempt.id = %id, capture.outcome = outcome, "a capture was asked for");
        Ok(after)
    }

    /// Releases the worker's claim on a payment. If the payment is still due, the claim stays: its remaining
    /// time is the pause before the next try.
    async fn release(&self, payment: PaymentId, claimed_until: Time) {
        let about = About::Payment(payment);
        let released = async {
            let aggregate = self.store().aggregate(about.clone()).await?;
            let now = self.now();
            if aggregate.is_some_and(|aggregate| aggregate.next_action(now).is_none()) {
                self.step(about, Step::Release { claimed_until }, None)
                    .await?;
            }
            Ok::<_, Fault>(())
        };
        if let Err(fault) = released.await {
            tracing::error!(payment.id = %payment, error = %fault, "a payment was not released");
        }
    }
}

/// Times of the last queries about attempts, which determine when the next ones may run.
#[derive(Debug, Default)]
pub(crate) struct QueryThrottle {
    of: HashMap<AttemptId, QueryState>,
}

#[derive(Clone, Copy, Debug)]
struct QueryState {
    began: Time,
    running: bool,
    /// Number of queries in a row when this one started. Decreases by one for each [`QUERY_EVERY`] that has
    /// passed since.
    in_a_row: u8,
    /// A notice arrived while the query ran. Its answer may be older than the notice.
    again: bool,
}

impl QueryState {
    fn in_a_row_at(&self, now: Time) -> u8 {
        let passed = now.since(self.began).as_secs() / QUERY_EVERY.as_secs();
        let passed = u8::try_from(passed).unwrap_or(u8::MAX);
        self.in_a_row.min(LOOKS_IN_A_ROW).saturating_sub(passed)
    }
}

impl QueryThrottle {
    /// Starts a query. False if one is running or, if `spaced`, one has started within [`QUERY_EVERY`].
    pub(crate) fn begin(&mut self, attempt: AttemptId, spaced: bool, now: Time) -> bool {
        if self.of.len() >= SWEEP_FROM {
            self.of
                .retain(|_, ask| ask.running || ask.in_a_row_at(now) > 0);
        }
        let last = self.of.get(&attempt);
        let recent =
            |ask: &QueryState| ask.running || (spaced && now.since(ask.began) < QUERY_EVERY);
        if last.is_some_and(recent) {
            return false;
        }
        let ask = QueryState {
            began: now,
            running: true,
            in_a_row: last
                .map_or(0, |last| last.in_a_row_at(now))
                .saturating_add(1),
            again: false,
        };
        self.of.insert(attempt, ask);
        true
    }

    /// Ends a query. Returns whether a notice arrived while it ran.
    pub(crate) fn end(&mut self, attempt: AttemptId) -> bool {
        self.of.get_mut(&attempt).is_some_and(|ask| {
            ask.running = false;
            std::mem::take(&mut ask.again)
        })
    }

    /// Time at which an attempt can be queried because of a notice that arrived now.
    pub(crate) fn next(&mut self, attempt: AttemptId, now: Time) -> Time {
        self.of.get_mut(&attempt).map_or(now, |ask| {
            ask.again |= ask.running;
            if ask.in_a_row_at(now) < LOOKS_IN_A_ROW {
                now
            } else {
                ask.began.after(QUERY_EVERY).max(now)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn test_payments_take_no_room_and_no_permit_of_live_ones() {
        let reconciler = Arc::new(Reconciler::default());
        let room = reconciler.room();
        let id = |number: usize| PaymentId::from_bytes((number as u128).to_be_bytes());
        let left_alone = Arc::new(Mutex::new(0));
        for number in 0..IN_TEST_MOST + 100 {
            assert!(reconciler.begin(id(number), Some(Time::default())));
            let (reconciler, left_alone) = (Arc::clone(&reconciler), Arc::clone(&left_alone));
            tokio::spawn(async move {
                let permit = reconciler.permit(id(number), Environment::Test).await;
                if permit.is_some() {
                    std::future::pending::<()>().await;
                }
                reconciler.running.lock().remove(id(number));
                *left_alone.lock() += 1;
            });
        }
        while *left_alone.lock() < 100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reconciler.room(), room);
        let live = id(usize::MAX);
        assert!(reconciler.begin(live, Some(Time::default())));
        assert_eq!(reconciler.room(), room - 1);
        assert!(reconciler.permit(live, Environment::Live).await.is_some());
        reconciler.running.lock().remove(live);
        assert_eq!(reconciler.room(), room);
    }

    #[tokio::test]
    async fn payments_that_wait_are_left_to_the_store_where_the_gateway_stops() {
        let reconciler = Reconciler::default();
        let waits = PaymentId::from_bytes([1; 16]);
        assert!(reconciler.begin(waits, None));
        let all = u32::try_from(RECONCILED_AT_ONCE).unwrap();
        let busy = reconciler.live.acquire_many(all).await.unwrap();
        reconciler.stopping.cancel();
        assert!(reconciler.permit(waits, Environment::Live).await.is_none());
        drop(busy);
        // A payment that need not wait still gets a permit.
        assert!(reconciler.permit(waits, Environment::Live).await.is_some());
    }

    #[test]
    fn an_attempt_is_looked_at_once_at_a_time_and_once_in_five_seconds() {
        let (mut throttle, id) = (QueryThrottle::default(), AttemptId::from_bytes([1; 16]));
        let at = |second: u64| Time::from_secs(1000 + second);
        assert!(throttle.begin(id, true, at(0)));
        assert!(!throttle.begin(id, false, at(9)));
        assert!(!throttle.end(id));
        assert!(!throttle.begin(id, true, at(4)) && throttle.begin(id, false, at(4)));
        assert!(!throttle.end(id));
        assert!(throttle.begin(id, true, at(9)));
    }

    #[test]
    fn a_notice_during_a_look_asks_for_another() {
        let (mut throttle, id) = (QueryThrottle::default(), AttemptId::from_bytes([1; 16]));
        let at = |second: u64| Time::from_secs(1000 + second);
        assert_eq!(throttle.next(id, at(0)), at(0));
        assert!(throttle.begin(id, true, at(0)));
        assert_eq!(throttle.next(id, at(2)), at(2));
        assert!(throttle.end(id));
        assert!(!throttle.end(id));
        assert_eq!(throttle.next(id, at(7)), at(7));
    }

    #[test]
    fn notices_have_five_looks_in_a_row_and_then_one_in_five_seconds() {
        let (mut throttle, id) = (QueryThrottle::default(), AttemptId::from_bytes([1; 16]));
        let at = |millis: u64| Time::from_millis(1_000_000 + millis);
        for look in 0..5 {
            assert_eq!(throttle.next(id, at(look)), at(look));
            assert!(throttle.begin(id, false, at(look)));
            throttle.end(id);
        }
        assert_eq!(throttle.next(id, at(5)), at(4 + 5_000));
        assert!(throttle.begin(id, false, at(5_004)));
        throttle.end(id);
        assert_eq!(throttle.next(id, at(5_005)), at(5_004 + 5_000));
        // Unused queries are available again.
        assert_eq!(throttle.next(id, at(10_004)), at(10_004));
        for look in 0..4 {
            assert!(throttle.begin(id, false, at(30_004 + look)));
            throttle.end(id);
            assert_eq!(throttle.next(id, at(30_005 + look)), at(30_005 + look));
        }
    }
}
