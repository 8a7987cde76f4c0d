//! Creating payments, and conditions that can change with time.

use std::collections::BTreeMap;
use std::time::Duration;

use kassette_domain::money::{Currency, Margin, Minor, Rate};
use kassette_domain::payment::CheckoutMode;
use kassette_domain::policy::Policy;
use kassette_domain::rates::{RateSource, RateTable, TableRef};
use kassette_domain::site::{ReturnUrl, VerifiedDomain};
use kassette_gateway::clock::Clock as _;
use kassette_gateway::create::{CreateError, CreateOutcome};

use crate::world::{World, audited, settings};

#[tokio::test]
async fn a_payment_has_its_dollars_its_end_and_a_token_of_43_characters() {
    let world = World::new().await;
    let payment = world.direct().await;
    assert_eq!(payment.usd, Minor(5389));
    assert_eq!(payment.token.expose().len(), 43);
    let life = payment.expires_at.since(payment.created_at);
    assert!(life <= Duration::from_secs(24 * 3600) && life > Duration::from_secs(24 * 3600 - 60));
    let history = world.store.history(payment.id).await.unwrap().unwrap();
    assert_eq!(history.decisions.len(), 1);
}

#[tokio::test]
async fn a_replay_checks_nothing_that_changes_with_time() {
    let world = World::new().await;
    let payment = world.direct().await;
    let before = world
        .store
        .merchant(world.merchant.id)
        .await
        .unwrap()
        .unwrap();
    let mut after = before.clone();
    after.rates.clear();
    let now = payment.created_at;
    world
        .store
        .replace_merchant(before, after, audited(), now)
        .await
        .unwrap();
    let request = world.request("order", CheckoutMode::Direct);
    match world.gateway.create(request, None).await.unwrap() {
        CreateOutcome::Replayed(same) => assert_eq!(same.id, payment.id),
        other => panic!("{other:?}"),
    }
    let new = world.request("new", CheckoutMode::Direct);
    let refused = world.gateway.create(new, None).await;
    assert!(
        matches!(refused, Err(CreateError::NoRate(Currency::EUR))),
        "{refused:?}"
    );
    let mut other = world.request("order", CheckoutMode::Direct);
    other.due.amount = Minor(1);
    let refused = world.gateway.create(other, None).await;
    assert!(
        matches!(refused, Err(CreateError::Differs { field: "amount" })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_rate_of_a_source_stays_with_the_payment_that_it_converted() {
    let policy = Policy {
        fx_margin: Margin::parse("0.02").ok(),
        ..Policy::default()
    };
    let world = World::with(settings(), policy).await;
    let table = |source, date, gbp: &str| {
        let rates = BTreeMap::from([(Currency::GBP, Rate::parse(gbp).unwrap())]);
        RateTable::of_dollars(TableRef { source, date }, rates)
    };
    let request = |name: &str| {
        let mut request = world.request(name, CheckoutMode::Hosted);
        request.due.currency = Currency::GBP;
        request
    };
    let refused = world.gateway.create(request("a"), None).await;
    assert!(
        matches!(refused, Err(CreateError::NoRate(Currency::GBP))),
        "{refused:?}"
    );
    let now = world.clock.now();
    let (file, bank) = (
        now.before(Duration::from_secs(2)),
        now.before(Duration::from_secs(1)),
    );
    world
        .gateway
        .take_rates(table(RateSource::Ecb, bank, "1.5"));
    world
        .gateway
        .take_rates(table(RateSource::File, file, "1.25"));
    let payment = world.made(request("b")).await;
    // 49.90 × 1.225 = 61.1275
    assert_eq!(
        (payment.rate.to_string(), payment.usd),
        ("1.225".into(), Minor(6113))
    );
    world.gateway.drop_rates(RateSource::File);
    let next = world.made(request("c")).await;
    assert_eq!(next.rate.to_string(), "1.47");
    for (payment, source, date) in [
        (payment, RateSource::File, file),
        (next, RateSource::Ecb, bank),
    ] {
        let stored = world.store.payment(payment.id).await.unwrap().unwrap();
        assert_eq!(stored.rate_table, Some(TableRef { source, date }));
        assert_eq!(stored.rate, payment.rate);
    }
    assert_eq!(world.hosted().await.rate_table, None, "the merchant's own");
}

#[tokio::test]
async fn domain_eligibility_and_limit_are_checked() {
    let policy = Policy {
        max_usd: Some(Minor(100_000)),
        ..Policy::default()
    };
    let world = World::with(settings(), policy).await;
    let mut elsewhere = world.request("a", CheckoutMode::Hosted);
    elsewhere.return_url = Some(ReturnUrl::parse("https://evil.example/", false).unwrap());
    let refused = world.gateway.create(elsewhere, None).await;
    assert!(
        matches!(refused, Err(CreateError::UnverifiedReturnUrl)),
        "{refused:?}"
    );

    // `serve` never sends a payer to its own machine, even if a domain was verified under `dev`.
    let local = VerifiedDomain {
        domain: "localhost".into(),
        include_subdomains: false,
    };
    let loopback = ReturnUrl::parse("http://localhost:3000/", true).unwrap();
    assert!(loopback.lies_under(std::slice::from_ref(&local), true));
    let before = world.store.merchant(world.merchant.id).await;
    let before = before.unwrap().unwrap();
    let mut after = before.clone();
    after.domains.push(local);
    let now = world.clock.now();
    let verified = world.store.replace_merchant(before, after, audited(), now);
    verified.await.unwrap();
    let mut back = world.request("c", CheckoutMode::Hosted);
    back.return_url = Some(loopback);
    let refused = world.gateway.create(back, None).await;
    assert!(
        matches!(refused, Err(CreateError::UnverifiedReturnUrl)),
        "{refused:?}"
    );

    let mut klarna = world.request("b", CheckoutMode::Direct);
    klarna.method = Some(kassette_domain::method::MethodId::Klarna);
    let refused = world.gateway.create(klarna, None).await;
    assert!(
        matches!(refused, Err(CreateError::NotEligible(_))),
        "{refused:?}"
    );

    let mut large = world.request("c", CheckoutMode::Hosted);
    large.due.amount = Minor(1_000_000);
    let refused = world.gateway.create(large, None).await;
    assert!(
        matches!(refused, Err(CreateError::OverLimit)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn sixty_four_creates_at_once_make_one_payment() {
    let world = World::new().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (gateway, request) = (
            world.gateway.clone(),
            world.request("x", CheckoutMode::Direct),
        );
        calls.spawn(async move { gateway.create(request, None).await.unwrap() });
    }
    let all = calls.join_all().await;
    let new = all
        .iter()
        .filter(|each| matches!(each, CreateOutcome::Created(_)))
        .count();
    assert_eq!((all.len(), new), (64, 1));
}
