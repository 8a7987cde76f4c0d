//! Authentication of callers.

use std::time::Duration;

use kassette_domain::id::KeyId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenHash, TokenKind};
use kassette_domain::money::Minor;
use kassette_domain::secret::Secret;
use kassette_gateway::auth::{AuthError, live_allowed};
use kassette_gateway::clock::Clock;

use crate::world::{World, audited};

async fn issued(world: &World) -> (Secret, KeyId) {
    let kind = TokenKind::Merchant(Environment::Test);
    let mut next = 0_u8;
    let shown = kind.generate(|bytes: &mut [u8]| {
        for byte in bytes {
            *byte = next;
            next = next.wrapping_add(37);
        }
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(shown) = shown;
    let key = ApiKey {
        id: KeyId::from_bytes([1; 16]),
        hash: TokenHash::hash(shown.expose()),
        owner: KeyOwner::Merchant(world.merchant.id),
        environment: Environment::Test,
        scopes: Scope::MERCHANT.to_vec(),
        hint: "abcd".into(),
        created_at: world.clock.now(),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    let now = world.clock.now();
    world.store.issue_key(key, audited(), now).await.unwrap();
    (shown, KeyId::from_bytes([1; 16]))
}

#[tokio::test]
async fn a_key_opens_until_it_is_revoked_and_its_use_is_noted() {
    let world = World::new().await;
    let (key, id) = issued(&world).await;
    let caller = world.gateway.merchant_caller(key.expose()).await.unwrap();
    assert_eq!(caller.merchant.id, world.merchant.id);
    assert!(live_allowed(&caller));
    world.gateway.run_workers(std::future::ready(())).await;
    let now = world.clock.now();
    world.store.revoke_key(id, audited(), now).await.unwrap();
    // Last-used times are written in the background. A later write that was awaited shows them.
    let noted = world.store.key_by_id(id).await.unwrap().unwrap();
    assert!(noted.last_used_at.is_some());
    let refused = world.gateway.merchant_caller(key.expose()).await;
    assert!(matches!(refused, Err(AuthError::Refused)), "{refused:?}");
}

#[tokio::test]
async fn a_change_to_key_or_merchant_holds_from_the_next_request_on() {
    let world = World::new().await;
    let (key, id) = issued(&world).await;
    let now = world.clock.now();
    let caller = async || world.gateway.merchant_caller(key.expose()).await;
    // Used repeatedly, so that everything is in the cache.
    for limit in [7, 9] {
        let before = caller().await.unwrap().merchant;
        let mut after = (*before).clone();
        after.policy.max_usd = Some(Minor(limit));
        let replaced = world
            .store
            .replace_merchant((*before).clone(), after, audited(), now);
        replaced.await.unwrap();
        let merchant = caller().await.unwrap().merchant;
        assert_eq!(merchant.policy.max_usd, Some(Minor(limit)));
    }
    let mut next = caller().await.unwrap().key.as_ref().clone();
    next.id = KeyId::from_bytes([2; 16]);
    next.hash = TokenHash::hash("another");
    let ends = now.after(Duration::from_secs(3600));
    world
        .store
        .rotate_key(id, next, ends, audited(), now)
        .await
        .unwrap();
    assert_eq!(caller().await.unwrap().key.expires_at, Some(ends));
    world.store.revoke_key(id, audited(), now).await.unwrap();
    let refused = caller().await;
    assert!(matches!(refused, Err(AuthError::Refused)), "{refused:?}");
}

#[tokio::test]
async fn a_remembered_key_ends_with_its_time() {
    let world = World::new().await;
    let (key, id) = issued(&world).await;
    let now = world.clock.now();
    let mut next = world.store.key_by_id(id).await.unwrap().unwrap();
    next.id = KeyId::from_bytes([2; 16]);
    next.hash = TokenHash::hash("another");
    let ends = now.after(Duration::from_secs(60));
    world
        .store
        .rotate_key(id, next, ends, audited(), now)
        .await
        .unwrap();
    world.gateway.merchant_caller(key.expose()).await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    let refused = world.gateway.merchant_caller(key.expose()).await;
    assert!(matches!(refused, Err(AuthError::Refused)), "{refused:?}");
}

#[tokio::test]
async fn a_typo_a_stranger_and_another_kind_are_refused() {
    let world = World::new().await;
    let (key, _) = issued(&world).await;
    let typo = format!("{}x", &key.expose()[..key.expose().len() - 1]);
    for presented in [typo.as_str(), "", "kp_test_", "ko_nobody"] {
        let refused = world.gateway.merchant_caller(presented).await;
        assert!(matches!(refused, Err(AuthError::Refused)), "{refused:?}");
    }
    let refused = world.gateway.operator(key.expose()).await;
    assert!(matches!(refused, Err(AuthError::Refused)), "{refused:?}");
}
