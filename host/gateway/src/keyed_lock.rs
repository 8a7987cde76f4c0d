//! One lock per key within this process. Starts and captures of a payment wait for each other here instead of
//! conflicting in the store, and a second exchange of a connect code is refused. Between processes, the store
//! decides.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use kassette_domain::id::PaymentId;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Number of locks at which unused locks are removed; afterwards again at each doubling.
const SWEEP_FROM: usize = 1024;

/// The locks of all keys in use.
#[derive(Debug)]
pub(crate) struct KeyedLock<K = PaymentId> {
    locks: Mutex<Locks<K>>,
}

#[derive(Debug)]
struct Locks<K> {
    of: HashMap<K, Weak<tokio::sync::Mutex<()>>>,
    sweep_at: usize,
}

impl<K> Default for KeyedLock<K> {
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

impl<K: Hash + Eq> KeyedLock<K> {
    /// Locks a key. Callers are served in order of arrival.
    pub(crate) async fn lock(&self, key: K) -> OwnedMutexGuard<()> {
        let lock = self.locks.lock().lock_of(key);
        lock.lock_owned().await
    }

    /// Locks a key if it is free. `None` if it is locked.
    pub(crate) fn try_lock(&self, key: K) -> Option<OwnedMutexGuard<()>> {
        self.locks.lock().lock_of(key).try_lock_owned().ok()
    }
}

impl<K: Hash + Eq> Locks<K> {
    fn lock_of(&mut self, key: K) -> Arc<tokio::sync::Mutex<()>> {
        if let Some(lock) = self.of.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        if self.of.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.of.retain(|_, lock| lock.strong_count() > 0);
            self.sweep_at = self.of.len() * 2;
        }
        let lock = Arc::default();
        self.of.insert(key, Arc::downgrade(&lock));
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
    async fn a_payment_is_locked_once_at_a_time() {
        let locks = Arc::new(KeyedLock::default());
        let held = locks.lock(payment(1)).await;
        let waiting = tokio::spawn({
            let locks = Arc::clone(&locks);
            async move { locks.lock(payment(1)).await }
        });
        drop(locks.lock(payment(2)).await);
        assert!(!waiting.is_finished());
        drop(held);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_locked_key_is_refused_until_it_is_released() {
        let locks = KeyedLock::default();
        let held = locks.try_lock(payment(1)).unwrap();
        assert!(locks.try_lock(payment(1)).is_none());
        assert!(locks.try_lock(payment(2)).is_some());
        drop(held);
        assert!(locks.try_lock(payment(1)).is_some());
    }

    #[tokio::test]
    async fn locks_without_a_holder_are_swept_out() {
        let locks = KeyedLock::default();
        let held = locks.lock(payment(0)).await;
        for number in 1..5000 {
            drop(locks.lock(payment(number)).await);
        }
        let locks = locks.locks.lock();
        assert!(locks.of.len() <= SWEEP_FROM && locks.of.contains_key(&payment(0)));
        drop(held);
    }
}
