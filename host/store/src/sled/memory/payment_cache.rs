//! Payments with their attempts as they were last read: shops ask for the same one again and again until it is
//! paid, its page asks while it is open, and finding, checking and opening rows takes several times longer than all
//! else about the answer.
//!
//! Payments are read and remembered while no group is shown, and a group that is shown makes what it has written
//! forgotten before any reader has its turn. A step writes the payment's own row whatever else it writes.

use std::ops::Bound;
use std::sync::Arc;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::payment::Payment;
use kassette_engine::Written;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::rows::schema::{self, Position};

/// Most payments, attempts, refunds and disputes in all, at some 600 bytes each.
const CAPACITY: usize = 16_384;

/// A payment with its attempts, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedPayment {
    pub(crate) payment: Arc<Payment>,
    attempts: Arc<[Attempt]>,
}

impl From<PaymentAggregate> for CachedPayment {
    fn from(aggregate: PaymentAggregate) -> Self {
        Self {
            payment: Arc::new(aggregate.payment),
            attempts: aggregate.attempts.into(),
        }
    }
}

impl CachedPayment {
    pub(crate) fn aggregate(&self) -> PaymentAggregate {
        PaymentAggregate {
            payment: Payment::clone(&self.payment),
            attempts: self.attempts.to_vec(),
        }
    }
}

/// Counts what a payment has.
#[derive(Clone, Debug)]
pub(crate) struct Parts;

impl Weighter<PaymentId, CachedPayment> for Parts {
    fn weight(&self, _: &PaymentId, cached: &CachedPayment) -> u64 {
        let returns = cached.attempts.iter().map(|attempt| &attempt.returns);
        let attempts = returns.map(|returns| 1 + returns.refunds.len() + returns.disputes.len());
        1 + attempts.sum::<usize>() as u64
    }
}

/// What was read of payments lately.
pub(crate) struct PaymentCache {
    pub(crate) payments: Cache<PaymentId, CachedPayment, Parts>,
    /// Which payment is at a position of the payment index; it stays there.
    pub(crate) ids: Cache<Position, PaymentId>,
}

impl Default for PaymentCache {
    fn default() -> Self {
        Self {
            payments: Cache::with_weighter(CAPACITY, CAPACITY as u64, Parts),
            ids: Cache::new(CAPACITY),
        }
    }
}

impl PaymentCache {
    /// Forgets what a group has written.
    pub(crate) fn invalidate(&self, written: &Written) {
        for id in payments_in(written) {
            self.payments.remove(&id);
        }
    }

    /// Forgets everything: what is on disk is not known.
    pub(crate) fn clear(&self) {
        self.payments.clear();
        self.ids.clear();
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

    fn payment(id: PaymentId) -> CachedPayment {
        let mut payment = Payment::new(new_payment("a"), None, NOW);
        payment.id = id;
        PaymentAggregate::new(payment).into()
    }

    fn written(id: PaymentId) -> Written {
        Written::from([(schema::payment(id), None), (schema::attempt(id, 0), None)])
    }

    #[test]
    fn a_payment_is_remembered_until_it_is_written() {
        let (cache, ids) = (PaymentCache::default(), [1, 2].map(|each| [each; 16]));
        for id in ids.map(PaymentId::from_bytes) {
            cache.payments.insert(id, payment(id));
        }
        let [written_id, other] = ids.map(PaymentId::from_bytes);
        cache.invalidate(&written(written_id));
        assert_eq!(cache.payments.get(&written_id), None);
        assert_eq!(cache.payments.get(&other), Some(payment(other)));
        cache.clear();
        assert_eq!(cache.payments.get(&other), None);
    }

    #[test]
    fn many_payments_cost_bounded_memory() {
        let cache = PaymentCache::default();
        for at in 0..u32::try_from(CAPACITY * 2).unwrap() {
            let mut bytes = [0; 16];
            bytes[12..].copy_from_slice(&at.to_be_bytes());
            let id = PaymentId::from_bytes(bytes);
            cache.payments.insert(id, payment(id));
        }
        assert!(
            cache.payments.weight() <= CAPACITY as u64,
            "{}",
            cache.payments.weight()
        );
    }
}
