//! One pair of hands per payment within this process: starts and capturing wait for one another here
//! instead of meeting each other's leases. Between processes the leases in the store decide.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use kassette_domain::id::PaymentId;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Locks that nobody holds any more are swept out when there are this many, and then at each
/// doubling.
const SWEEP_FROM: usize = 1024;

/// The locks of all payments that somebody works on.
#[derive(Debug, Default)]
pub(crate) struct Hands {
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    of: HashMap<PaymentId, Weak<tokio::sync::Mutex<()>>>,
    sweep_at: usize,
}

impl Hands {
    /// Takes a payment in hand, in order of arrival.
    pub(crate) async fn take(&self, payment: PaymentId) -> OwnedMutexGuard<()> {
        let lock = self.locks.lock().of(payment);
        lock.lock_owned().await
    }
}

impl Locks {
    fn of(&mut self, payment: PaymentId) -> Arc<tokio::sync::Mutex<()>> {
        if let Some(lock) = self.of.get(&payment).and_then(Weak::upgrade) {
            return lock;
        }
        if self.of.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.of.retain(|_, lock| lock.strong_count() > 0);
            self.sweep_at = self.of.len() * 2;
        }
        let lock = Arc::default();
        self.of.insert(payment, Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment(number: u32) -> PaymentId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        PaymentId::from_bytes(bytes)
    }

    #[tokio::test]
    async fn a_payment_is_in_one_hand_at_a_time() {
        let hands = Arc::new(Hands::default());
        let held = hands.take(payment(1)).await;
        let waiting = tokio::spawn({
            let hands = Arc::clone(&hands);
            async move { hands.take(payment(1)).await }
        });
        drop(hands.take(payment(2)).await);
        assert!(!waiting.is_finished());
        drop(held);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn locks_that_nobody_holds_are_swept_out() {
        let hands = Hands::default();
        let held = hands.take(payment(0)).await;
        for number in 1..5000 {
            drop(hands.take(payment(number)).await);
        }
        let locks = hands.locks.lock();
        assert!(locks.of.len() <= SWEEP_FROM && locks.of.contains_key(&payment(0)));
        drop(held);
    }
}
