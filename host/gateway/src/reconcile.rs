//! The reconciler: payments whose due actions run now, each once at a time, and how often attempts are
//! asked about.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::time::Time;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::Gateway;

/// Payments reconciled at once: each may wait seconds for a vendor and holds a handful of kilobytes.
pub(crate) const RECONCILED_AT_ONCE: usize = 64;
/// Payments that wait to be reconciled; beyond it the worker finds them in the store.
const WAITING_MOST: usize = 10_000;
/// Least time between two looks at the same attempt that a payer causes, and between those that
/// notices cause once there were [`LOOKS_IN_A_ROW`].
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks that notices cause one right after the other: a vendor sends a handful of them for a payment.
const LOOKS_IN_A_ROW: u8 = 5;
/// Attempts remembered before those whose time has passed are swept out.
const SWEEP_FROM: usize = 4096;

/// Payments that are being reconciled.
#[derive(Debug)]
pub(crate) struct Reconciler {
    running: Mutex<HashMap<PaymentId, Run>>,
    permits: Arc<Semaphore>,
    ended: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Something happened meanwhile: look once more.
    again: bool,
    /// The worker claimed it in the store, and it is released at the end.
    claimed: bool,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            permits: Arc::new(Semaphore::new(RECONCILED_AT_ONCE)),
            ended: Notify::new(),
        }
    }
}

impl Reconciler {
    /// How many more the worker may claim.
    pub(crate) fn room(&self) -> usize {
        RECONCILED_AT_ONCE.saturating_sub(self.running.lock().len())
    }

    /// Resolves when nothing is being reconciled.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.running.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Resolves when there is room for more.
    pub(crate) async fn has_room(&self) {
        loop {
            let ended = self.ended.notified();
            if self.room() > 0 {
                return;
            }
            ended.await;
        }
    }

    /// False where it is being reconciled already, which then looks once more, or where too many wait.
    fn begin(&self, payment: PaymentId, claimed: bool) -> bool {
        let mut running = self.running.lock();
        if let Some(run) = running.get_mut(&payment) {
            run.again = true;
            run.claimed |= claimed;
            return false;
        }
        if running.len() >= WAITING_MOST {
            return false;
        }
        let again = false;
        running.insert(payment, Run { again, claimed });
        true
    }

    /// Whether to look once more; otherwise whether to release the claim in the store.
    fn next_step(&self, payment: PaymentId) -> Next {
        let mut running = self.running.lock();
        match running.get_mut(&payment) {
            Some(run) if run.again => {
                run.again = false;
                Next::Again
            }
            Some(run) if run.claimed => {
                run.claimed = false;
                Next::Release
            }
            _ => {
                running.remove(&payment);
                Next::Over
            }
        }
    }
}

/// What follows on a run.
enum Next {
    Again,
    Release,
    Over,
}

/// Takes the payment off the list even where its task fails.
struct Listed {
    gateway: Gateway,
    payment: PaymentId,
    over: bool,
}

impl Listed {
    /// The payment is off the list already, and may be on it again for another caller.
    fn leave(mut self) {
        self.over = true;
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let reconciler = &self.gateway.inner.reconciler;
        if !self.over {
            reconciler.running.lock().remove(&self.payment);
        }
        reconciler.ended.notify_waiters();
    }
}

impl Gateway {
    /// Reconciles a payment in a task of its own, which shutting down waits for.
    pub(crate) fn reconcile_soon(&self, payment: PaymentId, claimed: bool) {
        if !self.inner.reconciler.begin(payment, claimed) {
            return;
        }
        let listed = Listed {
            gateway: self.clone(),
            payment,
            over: false,
        };
        self.inner.tasks.spawn(async move {
            let gateway = listed.gateway.clone();
            let permits = Arc::clone(&gateway.inner.reconciler.permits);
            let _permit = permits.acquire_owned().await;
            loop {
                if let Err(fault) = gateway.reconcile(payment).await {
                    tracing::error!(payment.id = %payment, error = %fault, "a payment was not reconciled");
                    // Its row in the store stays due; the claim's lease is the pause.
                    return;
                }
                match gateway.inner.reconciler.next_step(payment) {
                    Next::Again => {}
                    Next::Release => gateway.release(payment).await,
                    Next::Over => return listed.leave(),
                }
            }
        });
    }
}

/// When attempts were last asked about, which spaces the next queries.
#[derive(Debug, Default)]
pub(crate) struct QueryThrottle {
    of: HashMap<AttemptId, QueryState>,
}

#[derive(Clone, Copy, Debug)]
struct QueryState {
    began: Time,
    running: bool,
    /// Looks that began within [`LOOK_EVERY`] of the one before.
    in_a_row: u8,
    /// A notice arrived while the question was under way: its answer may be older than the notice.
    again: bool,
}

impl QueryThrottle {
    /// Begins a look where none is under way; where `spaced`, nor has begun within [`LOOK_EVERY`].
    pub(crate) fn begin(&mut self, attempt: AttemptId, spaced: bool, now: Time) -> bool {
        if self.of.len() >= SWEEP_FROM {
            self.of
                .retain(|_, ask| ask.running || now.since(ask.began) < LOOK_EVERY);
        }
        let last = self.of.get(&attempt);
        let recent =
            |ask: &QueryState| ask.running || (spaced && now.since(ask.began) < LOOK_EVERY);
        if last.is_some_and(recent) {
            return false;
        }
        let row = last.filter(|last| now.since(last.began) < LOOK_EVERY);
        let ask = QueryState {
            began: now,
            running: true,
            in_a_row: row.map_or(1, |last| last.in_a_row.saturating_add(1)),
            again: false,
        };
        self.of.insert(attempt, ask);
        true
    }

    /// Ends a look; whether a notice arrived meanwhile.
    pub(crate) fn end(&mut self, attempt: AttemptId) -> bool {
        self.of.get_mut(&attempt).is_some_and(|ask| {
            ask.running = false;
            std::mem::take(&mut ask.again)
        })
    }

    /// When an attempt can be looked at because of a notice that arrived now.
    pub(crate) fn next(&mut self, attempt: AttemptId, now: Time) -> Time {
        self.of.get_mut(&attempt).map_or(now, |ask| {
            ask.again |= ask.running;
            if ask.in_a_row < LOOKS_IN_A_ROW {
                now
            } else {
                ask.began.after(LOOK_EVERY).max(now)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(throttle.next(id, at(5_005)), at(5_005), "a new row");
    }
}
