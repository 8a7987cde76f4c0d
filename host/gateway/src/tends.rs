//! Which payments are being tended, and which attempts were asked about lately: each once at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::time::Time;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::Gateway;

/// Payments tended at once: each may wait seconds for a vendor and holds a handful of kilobytes.
pub(crate) const TENDED_AT_ONCE: usize = 64;
/// Payments that wait to be tended; beyond it the worker finds them in the store.
const WAITING_MOST: usize = 10_000;
/// Least time between two looks at the same attempt that a payer causes, and between those that
/// notices cause once there were [`LOOKS_IN_A_ROW`].
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks that notices cause one right after the other: a vendor sends a handful of them for a payment.
const LOOKS_IN_A_ROW: u8 = 5;
/// Attempts remembered before those whose time has passed are swept out.
const SWEEP_FROM: usize = 4096;

/// Payments that are being tended.
#[derive(Debug)]
pub(crate) struct Tends {
    running: Mutex<HashMap<PaymentId, Tend>>,
    permits: Arc<Semaphore>,
    ended: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tend {
    /// Something happened meanwhile: look once more.
    again: bool,
    /// The worker claimed it in the store, and it is released at the end.
    claimed: bool,
}

impl Default for Tends {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            permits: Arc::new(Semaphore::new(TENDED_AT_ONCE)),
            ended: Notify::new(),
        }
    }
}

impl Tends {
    /// How many more the worker may claim.
    pub(crate) fn room(&self) -> usize {
        TENDED_AT_ONCE.saturating_sub(self.running.lock().len())
    }

    /// Resolves when nothing is being tended.
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

    /// False where it is being tended already, which then looks once more, or where too many wait.
    fn begin(&self, payment: PaymentId, claimed: bool) -> bool {
        let mut running = self.running.lock();
        if let Some(tend) = running.get_mut(&payment) {
            tend.again = true;
            tend.claimed |= claimed;
            return false;
        }
        if running.len() >= WAITING_MOST {
            return false;
        }
        let again = false;
        running.insert(payment, Tend { again, claimed });
        true
    }

    /// Whether to look once more; otherwise whether to release the claim in the store.
    fn turn(&self, payment: PaymentId) -> Turn {
        let mut running = self.running.lock();
        match running.get_mut(&payment) {
            Some(tend) if tend.again => {
                tend.again = false;
                Turn::Again
            }
            Some(tend) if tend.claimed => {
                tend.claimed = false;
                Turn::Release
            }
            _ => {
                running.remove(&payment);
                Turn::Over
            }
        }
    }
}

/// What follows on a tend.
enum Turn {
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
    /// The payment is off the list already, and may be on it again by somebody else's doing.
    fn leave(mut self) {
        self.over = true;
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let tends = &self.gateway.inner.tends;
        if !self.over {
            tends.running.lock().remove(&self.payment);
        }
        tends.ended.notify_waiters();
    }
}

impl Gateway {
    /// Tends a payment in a task of its own, which shutting down waits for.
    pub(crate) fn tend_soon(&self, payment: PaymentId, claimed: bool) {
        if !self.inner.tends.begin(payment, claimed) {
            return;
        }
        let listed = Listed {
            gateway: self.clone(),
            payment,
            over: false,
        };
        self.inner.tasks.spawn(async move {
            let gateway = listed.gateway.clone();
            let permits = Arc::clone(&gateway.inner.tends.permits);
            let _permit = permits.acquire_owned().await;
            loop {
                if let Err(fault) = gateway.tend(payment).await {
                    tracing::error!(payment.id = %payment, error = %fault, "a payment was not tended");
                    // Its row in the store stays due; the claim's lease is the pause.
                    return;
                }
                match gateway.inner.tends.turn(payment) {
                    Turn::Again => {}
                    Turn::Release => gateway.release(payment).await,
                    Turn::Over => return listed.leave(),
                }
            }
        });
    }
}

/// Which attempts were looked at lately.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    of: HashMap<AttemptId, Ask>,
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    began: Time,
    running: bool,
    /// Looks that began within [`LOOK_EVERY`] of the one before.
    in_a_row: u8,
    /// A notice arrived while the question was under way: its answer may be older than the notice.
    again: bool,
}

impl Asked {
    /// Begins a look where none is under way; where `spaced`, nor has begun within [`LOOK_EVERY`].
    pub(crate) fn begin(&mut self, attempt: AttemptId, spaced: bool, now: Time) -> bool {
        if self.of.len() >= SWEEP_FROM {
            self.of
                .retain(|_, ask| ask.running || now.since(ask.began) < LOOK_EVERY);
        }
        let last = self.of.get(&attempt);
        let recent = |ask: &Ask| ask.running || (spaced && now.since(ask.began) < LOOK_EVERY);
        if last.is_some_and(recent) {
            return false;
        }
        let row = last.filter(|last| now.since(last.began) < LOOK_EVERY);
        let ask = Ask {
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
        let (mut asked, id) = (Asked::default(), AttemptId::from_bytes([1; 16]));
        let at = |second: u64| Time::from_secs(1000 + second);
        assert!(asked.begin(id, true, at(0)));
        assert!(!asked.begin(id, false, at(9)));
        assert!(!asked.end(id));
        assert!(!asked.begin(id, true, at(4)) && asked.begin(id, false, at(4)));
        assert!(!asked.end(id));
        assert!(asked.begin(id, true, at(9)));
    }

    #[test]
    fn a_notice_during_a_look_asks_for_another() {
        let (mut asked, id) = (Asked::default(), AttemptId::from_bytes([1; 16]));
        let at = |second: u64| Time::from_secs(1000 + second);
        assert_eq!(asked.next(id, at(0)), at(0));
        assert!(asked.begin(id, true, at(0)));
        assert_eq!(asked.next(id, at(2)), at(2));
        assert!(asked.end(id));
        assert!(!asked.end(id));
        assert_eq!(asked.next(id, at(7)), at(7));
    }

    #[test]
    fn notices_have_five_looks_in_a_row_and_then_one_in_five_seconds() {
        let (mut asked, id) = (Asked::default(), AttemptId::from_bytes([1; 16]));
        let at = |millis: u64| Time::from_millis(1_000_000 + millis);
        for look in 0..5 {
            assert_eq!(asked.next(id, at(look)), at(look));
            assert!(asked.begin(id, false, at(look)));
            asked.end(id);
        }
        assert_eq!(asked.next(id, at(5)), at(4 + 5_000));
        assert!(asked.begin(id, false, at(5_004)));
        asked.end(id);
        assert_eq!(asked.next(id, at(5_005)), at(5_005), "a new row");
    }
}
