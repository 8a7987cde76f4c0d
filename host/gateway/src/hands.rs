//! One pair of hands per thing within this process: starts and capturing of a payment wait for one
//! another here instead of meeting each other in the store, and a second exchange of a connect code is
//! turned away. Between processes the store decides.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use kassette_domain::id::PaymentId;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Locks that nobody holds any more are swept out when there are this many, and then at each
/// doubling.
const SWEEP_FROM: usize = 1024;

/// The locks of all things that somebody works on, by what they are called.
#[derive(Debug)]
pub(crate) struct Hands<K = PaymentId> {
    locks: Mutex<Locks<K>>,
}

#[derive(Debug)]
struct Locks<K> {
    of: HashMap<K, Weak<tokio::sync::Mutex<()>>>,
    sweep_at: usize,
}

impl<K> Default for Hands<K> {
    fn default() -> Self {
        let locks = Locks {
            of: HashMap::new(),
            sweep_at: 0,
        };
        Self {
            locks: Mutex::new(locks),
        }
    }
}

impl<K: Hash + Eq> Hands<K> {
    /// Takes a thing in hand, in order of arrival.
    pub(crate) async fn take(&self, thing: K) -> OwnedMutexGuard<()> {
        let lock = self.locks.lock().of(thing);
        lock.lock_owned().await
    }

    /// Takes a thing in hand that is in no other; none where it is.
    pub(crate) fn try_take(&self, thing: K) -> Option<OwnedMutexGuard<()>> {
        self.locks.lock().of(thing).try_lock_owned().ok()
    }
}

impl<K: Hash + Eq> Locks<K> {
    fn of(&mut self, thing: K) -> Arc<tokio::sync::Mutex<()>> {
        if let Some(lock) = self.of.get(&thing).and_then(Weak::upgrade) {
            return lock;
        }
        if self.of.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.of.retain(|_, lock| lock.strong_count() > 0);
            self.sweep_at = self.of.len() * 2;
        }
        let lock = Arc::default();
        self.of.insert(thing, Arc::downgrade(&lock));
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
    async fn what_is_in_a_hand_is_taken_by_no_other_until_it_is_let_go() {
        let hands = Hands::default();
        let held = hands.try_take(payment(1)).unwrap();
        assert!(hands.try_take(payment(1)).is_none());
        assert!(hands.try_take(payment(2)).is_some());
        drop(held);
        assert!(hands.try_take(payment(1)).is_some());
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
