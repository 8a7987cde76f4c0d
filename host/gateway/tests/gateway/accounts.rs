//! Rows "Health of an account", "Payer pages on other hosts" and "start" (429 and 503) of the decisions.

use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::provider::{ProviderStatus, QueryPurpose};
use kassette_domain::routing::Availability;
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_gateway::health::UnhealthyReason;
use kassette_store::{Listed, Paging};

use crate::modules::Script;
use crate::world::{World, account_id, at, by_api};

/// Starts a new payment. Returns the account that processes it.
async fn start(world: &World, name: &str) -> String {
    let request = world.request(name, kassette_domain::payment::CheckoutMode::Direct);
    let payment = world.made(request).await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    at(&started.attempt).to_owned()
}

async fn lines(world: &World) -> Vec<WorkItem> {
    let paging = Paging {
        limit: 10,
        cursor: None,
    };
    match world.store.work(true, paging).await.unwrap() {
        Listed::Page(page) => page.items,
        Listed::BadCursor => panic!("no cursor"),
    }
}

#[tokio::test]
async fn refusals_of_a_request_leave_an_account_well_and_failures_do_not() {
    let world = World::new().await;
    let state = || {
        let health = world.gateway.account_health(&account_id("alpha"));
        health.health.status
    };
    let script = |script: Script| vec![script; 8];
    world.vendor.script("alpha", script(Script::Refused));
    for number in 0..8 {
        assert_eq!(start(&world, &format!("refused-{number}")).await, "beta");
    }
    assert_eq!(state(), Availability::Operational);
    world.vendor.script("alpha", script(Script::Unavailable));
    for number in 0..6 {
        start(&world, &format!("failed-{number}")).await;
    }
    assert_eq!(state(), Availability::Down);
}

#[tokio::test]
async fn a_method_that_an_account_refuses_three_times_is_omitted_until_it_works_again() {
    let world = World::new().await;
    world.vendor.script("alpha", vec![Script::NotActivated; 3]);
    for number in 0..3 {
        assert!(lines(&world).await.is_empty());
        assert_eq!(start(&world, &format!("refused-{number}")).await, "beta");
    }
    let line = lines(&world).await.remove(0);
    assert_eq!(
        (line.key.kind, line.account),
        (WorkKind::MethodRefused, account_id("alpha"))
    );
    for words in ["ideal", "EUR", "the method is not activated"] {
        assert!(line.detail.contains(words), "{}", line.detail);
    }
    let health = world.gateway.account_health(&account_id("alpha"));
    assert_eq!(health.health.status, Availability::Operational);
    // It is not called, although it would accept the payment.
    assert_eq!(start(&world, "omitted").await, "beta");
    world.later(15 * 60);
    world.gateway.probe_all().await;
    assert_eq!(start(&world, "again").await, "alpha");
    assert!(lines(&world).await.is_empty());
}

#[tokio::test]
async fn a_payment_whose_page_the_account_does_not_allow_is_closed_and_the_next_account_takes_it() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::AnotherHost]);
    let payment = world.direct().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
    let first = &started.aggregate.attempts[0];
    assert_eq!(first.state(), AttemptState::Unavailable);
    assert!(
        first.detail.contains("checkout.vendor.example"),
        "{}",
        first.detail
    );
    assert_eq!(world.vendor.queries(QueryPurpose::Cancel), 1);
    assert_eq!(
        world.vendor.entry(first.id).unwrap().status,
        ProviderStatus::Declined
    );
    let (alpha, settings) = (account_id("alpha"), world.gateway.settings());
    let health = world.gateway.account_health(&alpha);
    assert_eq!(health.unwell, Some(UnhealthyReason::Misconfigured));
    let troubles = world
        .gateway
        .account_troubles(&settings.accounts[&alpha], &health);
    assert!(
        troubles[0].contains("checkout.vendor.example"),
        "{troubles:?}"
    );
    // An allowed page shows that the account is configured correctly again.
    assert_eq!(start(&world, "well").await, "alpha");
    assert_eq!(world.gateway.account_health(&alpha).unwell, None);
}

#[tokio::test]
async fn a_payment_whose_refused_page_cannot_be_closed_goes_to_no_other_account() {
    let world = World::new().await;
    world.vendor.be_silent(true);
    world.vendor.script("alpha", vec![Script::AnotherHost; 8]);
    let payment = world.direct().await;
    assert!(world.gateway.start(by_api(&payment)).await.is_err());
    let aggregate = world.aggregate(payment.id).await;
    assert_eq!(aggregate.attempts.len(), 1);
    assert_eq!(aggregate.attempts[0].state(), AttemptState::Unknown);
}

#[tokio::test]
async fn an_overloaded_provider_is_started_at_once_more_when_it_says_so_and_soon() {
    for (wait, starts) in [(0, ["alpha", "alpha"]), (6, ["alpha", "beta"])] {
        let world = World::new().await;
        let overloaded = Script::Overloaded(Duration::from_secs(wait));
        world.vendor.script("alpha", [overloaded]);
        let account = start(&world, "one").await;
        assert_eq!(account, starts[1]);
        let seen: Vec<_> = world
            .vendor
            .starts()
            .into_iter()
            .map(|(account, _)| account)
            .collect();
        assert_eq!(seen, starts.map(account_id), "{wait} s");
    }
    let world = World::new().await;
    let overloaded = || Script::Overloaded(Duration::ZERO);
    world
        .vendor
        .script("alpha", [overloaded(), overloaded(), overloaded()]);
    assert_eq!(start(&world, "busy").await, "beta");
    assert_eq!(
        world.vendor.starts().len(),
        3,
        "once more, then the next account"
    );
}
