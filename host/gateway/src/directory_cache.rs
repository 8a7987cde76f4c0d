//! Cache of keys, merchants, resellers, delegations and webhook endpoints.
//!
//! Every request presents a key and every delivery needs an endpoint, but these rows hardly ever change. A
//! cached row is valid while the store's directory version stays the same. Any change of these rows changes
//! the version before the operator gets an answer, and invalidates the whole cache. If the store reports no
//! version, every read goes to the store.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kassette_domain::delegation::Delegation;
use kassette_domain::id::{EndpointId, MerchantId, ResellerId};
use kassette_domain::key::{ApiKey, KeyOwner, TokenHash};
use kassette_domain::merchant::Merchant;
use kassette_domain::reseller::Reseller;
use kassette_domain::time::Time;
use kassette_store::{Fault, Store};
use quick_cache::sync::Cache;

use crate::webhooks::Recipient;

/// Maximum number of entries of each kind, at a few hundred bytes each.
const CAPACITY: usize = 16_384;

/// A key with its owner: a merchant or a reseller.
#[derive(Debug)]
pub(crate) struct CachedKey<O> {
    pub(crate) key: Arc<ApiKey>,
    pub(crate) owner: Arc<O>,
    /// Time at which its use was last recorded, in milliseconds since the epoch. Zero means never.
    noted: AtomicU64,
}

impl<O> CachedKey<O> {
    fn new(key: ApiKey, owner: Arc<O>) -> Self {
        let noted = key.last_used_at.map_or(0, Time::as_millis);
        Self {
            key: Arc::new(key),
            owner,
            noted: AtomicU64::new(noted),
        }
    }

    /// Whether to record a use at this time: the last record is at least `every` milliseconds old. Returns
    /// true to only one of several concurrent callers.
    pub(crate) fn is_worth_a_note(&self, now: Time, every: u64) -> bool {
        let now = now.as_millis();
        let noted = self.noted.load(Ordering::Relaxed);
        let due = noted == 0 || now.saturating_sub(noted) >= every;
        due && self
            .noted
            .compare_exchange(noted, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// The cached rows.
#[derive(Debug, Default)]
pub(crate) struct DirectoryCache {
    keys: VersionedCache<TokenHash, CachedKey<Merchant>>,
    merchants: VersionedCache<MerchantId, Merchant>,
    reseller_keys: VersionedCache<TokenHash, CachedKey<Reseller>>,
    resellers: VersionedCache<ResellerId, Reseller>,
    delegations: VersionedCache<(ResellerId, MerchantId), Delegation>,
    recipients: VersionedCache<EndpointId, Recipient>,
}

impl DirectoryCache {
    /// Returns a merchant's key, usable or not, with its merchant. `None` if no merchant has this key.
    pub(crate) async fn key(
        &self,
        store: &dyn Store,
        hash: TokenHash,
    ) -> Result<Option<Arc<CachedKey<Merchant>>>, Fault> {
        // Read first: data that is read afterwards is at least as new as this version.
        let version = store.directory_version();
        if let Some(cached) = self.keys.get(&hash, version) {
            return Ok(Some(cached));
        }
        let Some(key) = store.key(hash).await? else {
            return Ok(None);
        };
        let KeyOwner::Merchant(owner) = key.owner else {
            return Ok(None);
        };
        let Some(merchant) = self.merchant(store, owner).await? else {
            return Ok(None);
        };
        let cached = Arc::new(CachedKey::new(key, merchant));
        self.keys.put(hash, version, &cached);
        Ok(Some(cached))
    }

    /// Returns a reseller's key, usable or not, with its reseller. `None` if no reseller has this key.
    pub(crate) async fn reseller_key(
        &self,
        store: &dyn Store,
        hash: TokenHash,
    ) -> Result<Option<Arc<CachedKey<Reseller>>>, Fault> {
        let version = store.directory_version();
        if let Some(cached) = self.reseller_keys.get(&hash, version) {
            return Ok(Some(cached));
        }
        let Some(key) = store.key(hash).await? else {
            return Ok(None);
        };
        let KeyOwner::Reseller(owner) = key.owner else {
            return Ok(None);
        };
        let Some(reseller) = self.reseller(store, owner).await? else {
            return Ok(None);
        };
        let cached = Arc::new(CachedKey::new(key, reseller));
        self.reseller_keys.put(hash, version, &cached);
        Ok(Some(cached))
    }

    pub(crate) async fn reseller(
        &self,
        store: &dyn Store,
        id: ResellerId,
    ) -> Result<Option<Arc<Reseller>>, Fault> {
        let version = store.directory_version();
        if let Some(cached) = self.resellers.get(&id, version) {
            return Ok(Some(cached));
        }
        let reseller = store.reseller(id).await?.map(Arc::new);
        if let Some(reseller) = &reseller {
            self.resellers.put(id, version, reseller);
        }
        Ok(reseller)
    }

    /// Returns a merchant's delegation to a reseller, revoked or not.
    pub(crate) async fn delegation(
        &self,
        store: &dyn Store,
        reseller: ResellerId,
        merchant: MerchantId,
    ) -> Result<Option<Arc<Delegation>>, Fault> {
        let version = store.directory_version();
        if let Some(cached) = self.delegations.get(&(reseller, merchant), version) {
            return Ok(Some(cached));
        }
        let delegation = store.delegation(reseller, merchant).await?.map(Arc::new);
        if let Some(delegation) = &delegation {
            self.delegations
                .put((reseller, merchant), version, delegation);
        }
        Ok(delegation)
    }

    /// Returns an endpoint with its secrets, enabled or not.
    pub(crate) async fn recipient(
        &self,
        store: &dyn Store,
        id: EndpointId,
    ) -> Result<Option<Arc<Recipient>>, Fault> {
        let version = store.directory_version();
        if let Some(cached) = self.recipients.get(&id, version) {
            return Ok(Some(cached));
        }
        let Some((endpoint, secrets)) = store.endpoint_secrets(id).await? else {
            return Ok(None);
        };
        let recipient = Arc::new(Recipient::new(endpoint, secrets));
        self.recipients.put(id, version, &recipient);
        Ok(Some(recipient))
    }

    pub(crate) async fn merchant(
        &self,
        store: &dyn Store,
        id: MerchantId,
    ) -> Result<Option<Arc<Merchant>>, Fault> {
        let version = store.directory_version();
        if let Some(cached) = self.merchants.get(&id, version) {
            return Ok(Some(cached));
        }
        let merchant = store.merchant(id).await?.map(Arc::new);
        if let Some(merchant) = &merchant {
            self.merchants.put(id, version, merchant);
        }
        Ok(merchant)
    }
}

/// Values by key, each with the directory version at which it was read.
#[derive(Debug)]
struct VersionedCache<K, V>(Cache<K, (u64, Arc<V>)>);

impl<K: Hash + Eq, V> Default for VersionedCache<K, V> {
    fn default() -> Self {
        Self(Cache::new(CAPACITY))
    }
}

impl<K: Hash + Eq, V> VersionedCache<K, V> {
    /// Returns the value if it was read at this version.
    fn get(&self, key: &K, version: Option<u64>) -> Option<Arc<V>> {
        let version = version?;
        let (read_at, value) = self.0.get(key)?;
        (read_at == version).then_some(value)
    }

    /// Stores a value that was read after the version.
    fn put(&self, key: K, version: Option<u64>, value: &Arc<V>) {
        if let Some(version) = version {
            self.0.insert(key, (version, Arc::clone(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_only_under_the_version_it_was_read_under() {
        let cache = VersionedCache::default();
        cache.put(7, Some(1), &Arc::new("old"));
        assert_eq!(cache.get(&7, Some(1)).as_deref(), Some(&"old"));
        assert_eq!(cache.get(&7, Some(2)), None);
        assert_eq!(cache.get(&7, None), None);
        cache.put(7, Some(2), &Arc::new("new"));
        assert_eq!(cache.get(&7, Some(2)).as_deref(), Some(&"new"));
    }

    #[test]
    fn a_store_that_cannot_tell_is_never_remembered() {
        let cache = VersionedCache::default();
        cache.put(7, None, &Arc::new(()));
        assert_eq!(cache.get(&7, Some(0)), None);
    }

    #[test]
    fn many_keys_cost_bounded_memory() {
        let cache = VersionedCache::default();
        for key in 0..CAPACITY * 3 {
            cache.put(key, Some(1), &Arc::new(()));
        }
        assert!(cache.0.len() <= CAPACITY, "{}", cache.0.len());
    }
}
