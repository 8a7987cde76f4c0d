//! The payer's side.

use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::method::MethodId;
use kassette_domain::payment::Status;
use kassette_domain::policy::Policy;
use kassette_domain::provider::{PayerAction, ProviderStatus, QueryPurpose};
use kassette_domain::secret::Secret;
use kassette_gateway::start::{Start, StartError};
use tokio::time::timeout;

use crate::modules::Script;
use crate::world::{World, account_id, at, by_api, by_page, settings};

#[tokio::test]
async fn the_page_offers_what_is_eligible_and_shows_nothing_for_a_stranger() {
    let world = World::new().await;
    let payment = world.hosted().await;
    let view = world
        .gateway
        .checkout(payment.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert!(view.can_choose);
    let methods: Vec<_> = view.offers.iter().map(|offer| offer.method).collect();
    assert_eq!(methods, [MethodId::Paypal, MethodId::Ideal]);
    let first: Vec<_> = view.offers[1]
        .providers
        .iter()
        .map(|each| each.id.as_str())
        .collect();
    assert_eq!(first, ["alpha", "beta"]);
    assert!(world.gateway.checkout("nobody").await.unwrap().is_none());
}

#[tokio::test]
async fn an_account_of_which_nothing_recent_is_known_is_not_offered() {
    let world = World::new().await;
    world.later(901);
    let payment = world.hosted().await;
    let view = world
        .gateway
        .checkout(payment.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert!(view.offers.is_empty());
    let refused = world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await;
    assert!(
        matches!(refused, Err(StartError::NotAvailable(_))),
        "{refused:?}"
    );
    world.gateway.do_what_is_due().await.unwrap();
    assert!(
        world
            .gateway
            .start(by_page(&payment, MethodId::Ideal))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn an_account_that_a_probe_finds_down_is_not_used_until_one_finds_it_well() {
    let world = World::new().await;
    let payment = world.hosted().await;
    world.vendor.be_down(true);
    world.gateway.probe_all().await;
    let refused = world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await;
    assert!(
        matches!(refused, Err(StartError::NotAvailable(_))),
        "{refused:?}"
    );
    let alpha = account_id("alpha");
    let health = world.gateway.account_health(&alpha);
    let settings = world.gateway.settings();
    let troubles = world
        .gateway
        .account_troubles(&settings.accounts[&alpha], &health);
    assert_eq!(troubles, ["its vendor says so: down"]);
    world.vendor.switch("provider.sandbox", false);
    let troubles = world
        .gateway
        .account_troubles(&settings.accounts[&alpha], &health);
    assert_eq!(troubles, ["the slot provider.sandbox is disabled"]);
    world.vendor.switch("provider.sandbox", true);
    world.vendor.be_down(false);
    world.later(5);
    world.gateway.do_what_is_due().await.unwrap();
    assert!(
        world
            .gateway
            .start(by_page(&payment, MethodId::Ideal))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn another_method_closes_the_open_attempt_first() {
    let world = World::new().await;
    let payment = world.hosted().await;
    let first = world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await
        .unwrap();
    world.vendor.be_silent(true);
    let refused = world
        .gateway
        .start(by_page(&payment, MethodId::Paypal))
        .await;
    match refused {
        Err(StartError::StillOpen(open)) => assert_eq!(open.attempt.id, first.attempt.id),
        other => panic!("{other:?}"),
    }
    world.vendor.be_silent(false);
    let second = world
        .gateway
        .start(by_page(&payment, MethodId::Paypal))
        .await
        .unwrap();
    assert_ne!(second.attempt.id, first.attempt.id);
    let states: Vec<_> = second
        .aggregate
        .attempts
        .iter()
        .map(|each| each.state())
        .collect();
    assert_eq!(states, [AttemptState::Closed, AttemptState::Open]);
    let left = world.vendor.entry(first.attempt.id).unwrap();
    assert_eq!(left.status, ProviderStatus::Declined);
}

#[tokio::test]
async fn the_page_cannot_choose_for_a_direct_payment() {
    let world = World::new().await;
    let payment = world.direct().await;
    let refused = world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await;
    assert!(
        matches!(refused, Err(StartError::Conflict(_))),
        "{refused:?}"
    );
    let view = world
        .gateway
        .checkout(payment.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert!(!view.can_choose && view.offers.is_empty());
}

#[tokio::test]
async fn another_note_than_the_payer_saw_is_shown_first() {
    let mut config = settings();
    let beta = config.accounts.get_mut(&account_id("beta")).unwrap();
    beta.verification_note = Some("Have your passport ready.".into());
    let world = World::with(config, Policy::default()).await;
    let payment = world.hosted().await;
    let seen = |name: &str| Start {
        seen: Some(account_id(name)),
        ..by_page(&payment, MethodId::Ideal)
    };
    world.vendor.script("alpha", [Script::Unavailable]);
    match world.gateway.start(seen("alpha")).await {
        Err(StartError::AskAgain(account)) => assert_eq!(account, account_id("beta")),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        world.aggregate(payment.id).await.payment.status,
        Status::Created
    );
    let started = world.gateway.start(seen("beta")).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
}

#[tokio::test]
async fn questions_are_answered_on_our_page_and_the_same_attempt_goes_on() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::Ask]);
    let payment = world.direct().await;
    let asked = world.gateway.start(by_api(&payment)).await.unwrap();
    assert!(matches!(asked.attempt.action(), Some(PayerAction::Ask(_))));
    let page = world.gateway.checkout_url(&payment);
    assert_eq!(asked.redirect_url, page);
    let token = payment.token.expose();
    let wrong = vec![("email".to_owned(), Secret::new("nobody"))];
    let still = world.gateway.answer(token, wrong).await.unwrap();
    assert_eq!(still.redirect_url, page);
    let right = vec![("email".to_owned(), Secret::new("a@shop.example"))];
    let started = world.gateway.answer(token, right).await.unwrap();
    assert_eq!(started.attempt.id, asked.attempt.id);
    assert!(matches!(
        started.attempt.action(),
        Some(PayerAction::Redirect(_))
    ));
}

#[tokio::test]
async fn a_payer_who_was_only_asked_can_leave_at_once() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::Ask]);
    let payment = world.hosted().await;
    world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await
        .unwrap();
    let after = world
        .gateway
        .abandon(payment.token.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.payment.status, Status::Created);
    assert_eq!(world.vendor.queries(QueryPurpose::Cancel), 0);
}

#[tokio::test]
async fn a_return_asks_the_vendor_at_most_once_in_five_seconds() {
    let world = World::new().await;
    let (payment, _) = world.waiting().await;
    let token = world.aggregate(payment).await.attempts[0]
        .return_token
        .clone();
    for _ in 0..5 {
        let view = world
            .gateway
            .returned(token.expose(), "a=b")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(view.checkout.aggregate.payment.status, Status::Pending);
    }
    assert_eq!(world.vendor.queries(QueryPurpose::Sync), 1);
    let kept = world.aggregate(payment).await.attempts[0].returned.clone();
    assert_eq!(kept.unwrap().expose(), "a=b");
    assert!(
        world
            .gateway
            .returned("nobody", "")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_returning_payer_does_not_wait_for_a_vendor_that_stalls() {
    let world = World::new().await;
    let (payment, _) = world.waiting().await;
    let token = world.aggregate(payment).await.attempts[0]
        .return_token
        .clone();
    world.vendor.hang("alpha");
    let returned = world.gateway.returned(token.expose(), "");
    let view = timeout(Duration::from_secs(4), returned).await;
    let view = view.expect("what is known").unwrap().unwrap();
    assert_eq!(view.attempt.state(), AttemptState::Open);
}

#[tokio::test]
async fn a_returning_payer_who_approved_sees_it_captured() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    let token = world.aggregate(payment).await.attempts[0]
        .return_token
        .clone();
    world.vendor.payer(attempt, ProviderStatus::Processing);
    let view = world
        .gateway
        .returned(token.expose(), "")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(view.checkout.aggregate.payment.status, Status::Completed);
    assert_eq!(view.attempt.state(), AttemptState::Captured);
}
