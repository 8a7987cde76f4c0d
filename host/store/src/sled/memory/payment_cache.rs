//! Cache of payments with their attempts. Shops request the same payment repeatedly until it is paid, and so
//! does its page, and reading, checking and opening rows takes several times longer than the rest of the
//! answer.
//!
//! Payments are read and cached only while no group is being shown. Showing a group removes the payments that
//! it has written from the cache before any reader continues. A step always writes the row of its payment.

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

/// Maximum total number of payments, attempts, refunds and disputes, at about 600 bytes each.
const CAPACITY: usize = 16_384;

/// A payment with its attempts, as stored.
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

/// Counts the parts of a payment.
#[derive(Clone, Debug)]
pub(crate) struct Parts;

impl Weighter<PaymentId, CachedPayment> for Parts {
    fn weight(&self, _: &PaymentId, cached: &CachedPayment) -> u64 {
        let returns = cached.attempts.iter().map(|attempt| &attempt.funds);
        let attempts = returns.map(|returns| 1 + returns.refunds.len() + returns.disputes.len());
        1 + attempts.sum::<usize>() as u64
    }
}

/// Recently read payments.
pub(crate) struct PaymentCache {
    pub(crate) payments: Cache<PaymentId, CachedPayment, Parts>,
    /// The payment at a position of the payment index. This never changes.
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
    /// Removes the payments that a group has written.
    pub(crate) fn invalidate(&self, written: &Written) {
        for id in payments_in(written) {
            self.payments.remove(&id);
        }
    }

    /// Removes everything, because the state of the disk is unknown.
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
