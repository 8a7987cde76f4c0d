//! Limits of resellers' keys: requests and nonces.

use axum::body::Body;
use futures_util::future::join_all;
use kassette_domain::key::{Environment, KeyOwner, Scope};
use kassette_domain::signing::SignedRequest;

use super::world::{Answer, NARROW, World};

/// The cheapest request.
const MERCHANTS: &str = "/api/v1/reseller/merchants?limit=1";

/// A signed read.
async fn read(world: &World, key: &str, nonce: &str) -> Answer {
    read_from(world, key, MERCHANTS, nonce).await
}

async fn read_from(world: &World, key: &str, target: &str, nonce: &str) -> Answer {
    use kassette_gateway::clock::Clock as _;
    let timestamp = world.clock.now().as_secs().to_string();
    let signed = SignedRequest {
        method: "GET",
        target,
        timestamp: &timestamp,
        nonce,
        body: b"",
    };
    let (bearer, signature) = (format!("Bearer {key}"), signed.sign(key));
    let headers = [
        ("authorization", bearer.as_str()),
        ("x-service-timestamp", &timestamp),
        ("x-service-nonce", nonce),
        ("x-service-signature", &signature),
    ];
    world.ask("GET", target, &headers, Body::empty()).await
}

#[tokio::test]
async fn each_key_of_a_reseller_has_its_own_rate() {
    let world = World::new().await;
    let owner = KeyOwner::Reseller(world.reseller().await);
    for environment in [Environment::Test, Environment::Live] {
        let key = world.key_of(owner, environment, &Scope::RESELLER).await;
        let nonce = |each| format!("{environment}-{each:0>16}");
        for each in 0..NARROW.burst {
            read(&world, &key, &nonce(each)).await.expect(200);
        }
        let limited = read(&world, &key, &nonce(99)).await.expect(429);
        limited.error();
        for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
            assert_ne!(limited.header(name), "", "{name}");
        }
        // A refused request has used no nonce.
        world.clock.advance(std::time::Duration::from_secs(1));
        read(&world, &key, &nonce(99)).await.expect(200);
    }
}

#[tokio::test]
async fn a_page_of_merchants_is_priced_by_its_size_before_its_nonce_is_used() {
    let world = World::new().await;
    let owner = KeyOwner::Reseller(world.reseller().await);
    let live = Environment::Live;
    let key = world.key_of(owner, live, &Scope::RESELLER).await;
    let plain = MERCHANTS.trim_end_matches("?limit=1");
    let page = async |target: &str, nonce: &str| read_from(&world, &key, target, nonce).await;
    // Each page takes ten of twenty tokens.
    for nonce in ["the-first-is-paid", "the-second-is-paid"] {
        page(plain, nonce).await.expect(200);
    }
    page(plain, "the-third-is-not").await.expect(429);
    world.clock.advance(std::time::Duration::from_secs(2));
    let half = format!("{plain}?limit=101");
    page(&half, "the-third-is-not").await.expect(200);
    read(&world, &key, "nothing-is-left").await.expect(429);
    // If the bucket is smaller than the price, a page takes all of it.
    world
        .configure(|settings| settings.rate_limit.burst = 5)
        .await;
    world.clock.advance(std::time::Duration::from_secs(60));
    page(plain, "the-whole-bucket").await.expect(200);
    page(plain, "the-next-has-none").await.expect(429);
}

#[tokio::test]
async fn a_flood_of_nonces_is_bounded_however_many_keys_there_are() {
    let world = World::new().await;
    let reseller = world.reseller().await;
    let owner = KeyOwner::Reseller(reseller);
    let live = Environment::Live;
    let bound = 4 * (601 * NARROW.per_second + NARROW.burst);
    let mut taken = 0;
    let mut full = None;
    while full.is_none() {
        assert!(taken <= bound, "{taken} nonces were taken");
        let key = world.key_of(owner, live, &Scope::RESELLER).await;
        let asked = (0..NARROW.burst).map(|each| {
            let nonce = format!("flood-{:0>16}", taken + each);
            let (world, key) = (&world, &key);
            async move { read(world, key, &nonce).await }
        });
        for answer in join_all(asked).await {
            match answer.status {
                200 => taken += 1,
                429 => full = Some(answer),
                status => panic!("{status}: {}", answer.text),
            }
        }
    }
    assert_eq!(taken, bound);
    let after: u64 = full.unwrap().header("retry-after").parse().unwrap();
    assert!((1..=601).contains(&after), "{after}");
    // Other resellers are unaffected, and so is this one once some nonces have expired.
    let other = KeyOwner::Reseller(world.reseller().await);
    let theirs = world.key_of(other, live, &Scope::RESELLER).await;
    read(&world, &theirs, "another-resellers").await.expect(200);
    world.clock.advance(std::time::Duration::from_secs(602));
    let key = world.key_of(owner, live, &Scope::RESELLER).await;
    read(&world, &key, "after-the-flood-is-over")
        .await
        .expect(200);
}
