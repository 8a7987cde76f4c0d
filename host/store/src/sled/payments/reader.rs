//! Reading payments through the cache.

use std::sync::Arc;

use kassette_domain::id::PaymentId;

use crate::rows::records;
use crate::rows::schema;
use crate::rows::seal::{Fingerprint, Sealer};
use crate::sled::memory::View;
use crate::sled::memory::payment_cache::{CachedPayment, PaymentCache};
use crate::sled::memory::payment_index::LookupKey;
use crate::sled::memory::payment_index_rows::Ids;
use crate::sled::payments::aggregates;
use crate::sled::store::SledStore;
use crate::{Fault, StoreFuture};

/// Reads payments as stored, and caches them.
pub(crate) struct PaymentReader<'a> {
    pub(crate) view: &'a View<'a>,
    cache: &'a PaymentCache,
    sealer: &'a Sealer,
}

impl SledStore {
    /// Reads payments, immediately if their rows were written recently or are cached.
    pub(crate) fn read_payments<T: Send + 'static>(
        &self,
        read: impl Fn(&PaymentReader<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (cache, secrets) = (self.payment_cache(), Arc::clone(&self.secrets));
        self.read_few(move |view| {
            read(&PaymentReader {
                view,
                cache: &cache,
                sealer: &secrets.sealer,
            })
        })
    }
}

impl PaymentReader<'_> {
    /// Payments that may match a fingerprint, newest first. The caller compares their rows.
    ///
    /// # Errors
    /// Errors of the view about rows of the payment index.
    pub(crate) fn found(
        &self,
        key: LookupKey,
        fingerprint: Fingerprint,
    ) -> Result<Vec<PaymentId>, Fault> {
        let positions: Vec<_> = self.view.shown().read().found(key, fingerprint).collect();
        let mut rows = Ids::default();
        let id = |position| {
            let ids = &self.cache.ids;
            if let Some(id) = ids.get(&position) {
                return Ok(id);
            }
            let id = rows.at(self.view, position)?;
            ids.insert(position, id);
            Ok(id)
        };
        positions.into_iter().map(id).collect()
    }

    /// Returns a payment with its attempts. `None` if it does not exist.
    ///
    /// # Errors
    /// Errors of the view about its rows.
    pub(crate) fn load(&self, id: PaymentId) -> Result<Option<CachedPayment>, Fault> {
        let PaymentCache { payments, .. } = self.cache;
        if let Some(cached) = payments.get(&id) {
            return Ok(Some(cached));
        }
        let loaded = aggregates::load(self.view, self.sealer, id)?;
        let read = loaded.map(|loaded| CachedPayment::from(loaded.aggregate));
        if let Some(read) = &read {
            payments.insert(id, read.clone());
        }
        Ok(read)
    }

    /// Returns a payment that an index refers to.
    ///
    /// # Errors
    /// Those of [`Self::load`], and [`Fault::Corrupt`] if it is missing.
    pub(crate) fn expect(&self, id: PaymentId) -> Result<CachedPayment, Fault> {
        self.load(id)?
            .ok_or_else(|| records::damaged(&schema::payment(id), "it is missing"))
    }
}
