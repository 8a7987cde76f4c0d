//! API keys.

use kassette_domain::id::{KeyId, MerchantId};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};

use super::Harness;
use super::fixtures::*;
use crate::{KeyIssued, Replaced, Store};

async fn shop(store: &dyn Store, live_approved: bool) -> KeyOwner {
    let made = store
        .create_merchant(merchant(live_approved), audited("merchant.create"), NOW)
        .await;
    KeyOwner::Merchant(made.unwrap().id)
}

pub async fn a_key_lives_from_issue_to_revocation(harness: &dyn Harness) {
    let store = harness.open().await;
    let owner = shop(&*store, false).await;
    let key = api_key("one", owner, Environment::Test);
    let issued = store.issue_key(key.clone(), audited("key.create"), NOW);
    assert_eq!(issued.await, Ok(KeyIssued::Done(key.clone())));
    assert_eq!(store.key(key.hash).await, Ok(Some(key.clone())));
    assert_eq!(store.key_by_id(key.id).await, Ok(Some(key.clone())));
    for seconds in [5, 9] {
        let revoked = store
            .revoke_key(key.id, audited("key.revoke"), later(seconds))
            .await
            .unwrap();
        assert_eq!(revoked.and_then(|key| key.revoked_at), Some(later(5)));
    }
    let kept = store.key(key.hash).await.unwrap().unwrap();
    assert!(!kept.usable(later(5)));
    let nobody = KeyId::from_bytes([0; 16]);
    let revoked = store.revoke_key(nobody, audited("key.revoke"), NOW).await;
    assert_eq!(revoked, Ok(None));
    assert_eq!(store.key(TokenHash::hash("nothing")).await, Ok(None));
    let foreign = api_key("two", KeyOwner::Merchant(MerchantId(99)), Environment::Test);
    let issued = store.issue_key(foreign, audited("key.create"), NOW).await;
    assert_eq!(issued, Ok(KeyIssued::Unknown));
}

pub async fn a_live_key_needs_an_approved_merchant(harness: &dyn Harness) {
    let store = harness.open().await;
    let owner = shop(&*store, false).await;
    let key = api_key("one", owner, Environment::Live);
    let issue = async || {
        store
            .issue_key(key.clone(), audited("key.create"), NOW)
            .await
            .unwrap()
    };
    assert_eq!(issue().await, KeyIssued::NotLiveApproved);
    assert_eq!(store.key(key.hash).await, Ok(None));
    let before = store.merchant(MerchantId(1)).await.unwrap().unwrap();
    let mut after = before.clone();
    after.live_approved = true;
    let replaced = store
        .replace_merchant(before, after, audited("merchant.change"), NOW)
        .await;
    assert!(matches!(replaced, Ok(Replaced::Done(_))));
    assert_eq!(issue().await, KeyIssued::Done(key.clone()));
}

pub async fn a_rotated_key_ends_and_its_successor_goes_on(harness: &dyn Harness) {
    let store = harness.open().await;
    let owner = shop(&*store, true).await;
    let old = api_key("old", owner, Environment::Test);
    store
        .issue_key(old.clone(), audited("key.create"), NOW)
        .await
        .unwrap();
    let rotate = async |old, new: &str, owner, seconds| {
        let new = api_key(new, owner, Environment::Test);
        let audited = audited("key.rotate");
        store
            .rotate_key(old, new, later(100), audited, later(seconds))
            .await
            .unwrap()
    };
    let other = shop(&*store, true).await;
    assert_eq!(rotate(old.id, "x", other, 1).await, KeyIssued::Unknown);
    let issued = rotate(old.id, "new", owner, 1).await;
    assert!(matches!(issued, KeyIssued::Done(_)));
    let ending = store.key(old.hash).await.unwrap().unwrap();
    assert!(ending.usable(later(99)) && !ending.usable(later(100)));
    let next = store.key(TokenHash::hash("new")).await.unwrap().unwrap();
    assert!(next.usable(later(1000)));
    // An expired key cannot be rotated.
    assert_eq!(rotate(old.id, "y", owner, 100).await, KeyIssued::Unknown);
    let nobody = KeyId::from_bytes([0; 16]);
    assert_eq!(rotate(nobody, "z", owner, 1).await, KeyIssued::Unknown);
    assert_eq!(store.key(TokenHash::hash("y")).await, Ok(None));
}

pub async fn keys_are_listed_by_owner_with_their_last_use(harness: &dyn Harness) {
    let store = harness.open().await;
    let owner = shop(&*store, true).await;
    let other = shop(&*store, true).await;
    for (name, owner, seconds) in [("a", owner, 1), ("b", owner, 2), ("c", other, 3)] {
        let mut key = api_key(name, owner, Environment::Test);
        key.created_at = later(seconds);
        store
            .issue_key(key, audited("key.create"), NOW)
            .await
            .unwrap();
    }
    let hash = TokenHash::hash("a");
    let unknown = TokenHash::hash("unknown");
    for seconds in [50, 20] {
        store
            .keys_seen(vec![(hash, later(seconds)), (unknown, later(seconds))])
            .await
            .unwrap();
    }
    // Operations that were submitted before are complete.
    store.probe().await.unwrap();
    let listed = page(store.keys(owner, first(9)).await.unwrap()).items;
    let hashes: Vec<_> = listed.iter().map(|key| key.hash).collect();
    assert_eq!(hashes, [TokenHash::hash("b"), hash]);
    assert_eq!(listed[0].last_used_at, None);
    assert_eq!(listed[1].last_used_at, Some(later(50)));
    assert_eq!(store.key(unknown).await, Ok(None));
}
