//! Creating, and what can change with time.

use std::time::Duration;

use kassette_domain::money::{Currency, Minor};
use kassette_domain::payment::CheckoutMode;
use kassette_domain::policy::Policy;
use kassette_domain::site::ReturnUrl;
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
async fn domain_eligibility_and_limit_are_checked() {
    let policy = Policy {
        max_usd: Some(Minor(100_000)),
        ..Policy::default()
    };
    let world = World::with(settings(), policy).await;
    let mut elsewhere = world.request("a", CheckoutMode::Hosted);
    elsewhere.return_url = Some(ReturnUrl::parse("https://evil.example/").unwrap());
    let refused = world.gateway.create(elsewhere, None).await;
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
