//! Payments as they were last read: a merchant asks for the same one again and again until it is paid,
//! and finding, checking and opening its row takes several times longer than all else about the answer.
//!
//! What is remembered is what is on disk. A group that has written a payment makes it forgotten after
//! its sync and before any caller hears of it; a read that was under way meanwhile is not remembered.
//!
//! Decided 2026-11-25: not `quick_cache`, which keeps answers and the directory's rows, because the crate cannot
//! refuse a single read without making others wait. A read that began before a write must not be remembered after
//! it, and the guard that `quick_cache` has for such cases lets all other readers of a payment wait for the one
//! that reads it.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use kassette_domain::id::PaymentId;
use kassette_domain::payment::Payment;
use kassette_engine::Written;
use parking_lot::Mutex;

use crate::rows::schema;

/// Locks that share the payments between them.
const SHARDS: usize = 64;
/// Most payments of a shard, 16,384 in all at some 600 bytes each. A full shard is emptied: what is
/// still asked for is read again.
const SHARD_CAPACITY: usize = 256;

/// Payments as they were last read.
pub(crate) struct PaymentCache {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// Counts what was forgotten because it was written.
    written: u64,
    payments: HashMap<PaymentId, Arc<Payment>>,
}

/// When a read began, as far as its payment's shard is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(u64);

impl Default for PaymentCache {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl PaymentCache {
    fn shard(&self, id: PaymentId) -> &Mutex<Shard> {
        // Ids are random in their last bytes.
        let [.., last] = *id.as_bytes();
        &self.shards[usize::from(last) % SHARDS]
    }

    /// A payment as it is on disk.
    ///
    /// # Errors
    /// Where it has to be read: when that began.
    pub(crate) fn get(&self, id: PaymentId) -> Result<Arc<Payment>, Began> {
        let shard = self.shard(id).lock();
        let known = shard.payments.get(&id).cloned();
        known.ok_or(Began(shard.written))
    }

    /// Remembers a payment that was read, unless something was written since the read began.
    pub(crate) fn insert(&self, began: Began, payment: &Arc<Payment>) {
        let mut shard = self.shard(payment.id).lock();
        if shard.written != began.0 {
            return;
        }
        if shard.payments.len() >= SHARD_CAPACITY {
            shard.payments.clear();
        }
        shard.payments.insert(payment.id, Arc::clone(payment));
    }

    /// Forgets what a group has written.
    pub(crate) fn invalidate(&self, written: &Written) {
        for key in payments_in(written) {
            let mut shard = self.shard(key).lock();
            shard.written += 1;
            shard.payments.remove(&key);
        }
    }

    /// Forgets everything: what is on disk is not known.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.written += 1;
            shard.payments.clear();
        }
    }
}

/// The payments whose own rows a group has written.
fn payments_in(written: &Written) -> impl Iterator<Item = PaymentId> {
    let rows = written.range::<[u8], _>((Bound::Included(schema::PAYMENTS), Bound::Unbounded));
    rows.map_while(|(key, _)| key.strip_prefix(schema::PAYMENTS))
        .filter_map(|id| id.try_into().ok().map(PaymentId::from_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixtures::{NOW, new_payment};

    fn payment(name: &str) -> Arc<Payment> {
        Arc::new(Payment::new(new_payment(name), None, NOW))
    }

    fn began(cache: &PaymentCache, id: PaymentId) -> Began {
        cache.get(id).expect_err("it is remembered")
    }

    fn written(id: PaymentId) -> Written {
        Written::from([(schema::payment(id), None), (schema::attempt(id, 0), None)])
    }

    #[test]
    fn a_payment_is_remembered_until_it_is_written() {
        let (cache, payment) = (PaymentCache::default(), payment("a"));
        cache.insert(began(&cache, payment.id), &payment);
        assert_eq!(cache.get(payment.id).unwrap(), payment);
        cache.invalidate(&written(payment.id));
        began(&cache, payment.id);
    }

    #[test]
    fn what_was_read_before_a_write_is_not_remembered_after_it() {
        let (cache, payment) = (PaymentCache::default(), payment("a"));
        let began_before = began(&cache, payment.id);
        cache.invalidate(&written(payment.id));
        cache.insert(began_before, &payment);
        let began_before = began(&cache, payment.id);
        cache.clear();
        cache.insert(began_before, &payment);
        began(&cache, payment.id);
    }

    #[test]
    fn many_payments_cost_bounded_memory() {
        let cache = PaymentCache::default();
        for at in 0..u32::try_from(SHARDS * SHARD_CAPACITY * 2).unwrap() {
            let mut bytes = [0; 16];
            bytes[12..].copy_from_slice(&at.to_be_bytes());
            let mut payment = Payment::new(new_payment("a"), None, NOW);
            payment.id = PaymentId::from_bytes(bytes);
            cache.insert(began(&cache, payment.id), &Arc::new(payment));
        }
        let shards = cache.shards.iter();
        let held: usize = shards.map(|shard| shard.lock().payments.len()).sum();
        assert!(held <= SHARDS * SHARD_CAPACITY, "{held}");
    }
}
