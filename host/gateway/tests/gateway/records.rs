//! Routing data of payments that is recorded in the log for replays.

use kassette_domain::id::PaymentId;
use kassette_domain::method::MethodId;
use kassette_domain::payment::{CheckoutMode, Purpose};
use kassette_domain::policy::Policy;
use kassette_domain::routing::{Ground, RoutingRecord};
use kassette_gateway::settings::Settings;

use crate::modules::Script;
use crate::world::{World, account_id, by_api, settings};

/// The log of a method, oldest first, after an orderly stop of the workers.
async fn log(world: &World, method: MethodId) -> Vec<RoutingRecord> {
    world.gateway.run_workers(async {}).await;
    let page = world.store.routing_log(method, None).await.unwrap();
    page.records.into_iter().rev().collect()
}

fn told(record: &RoutingRecord) -> (Purpose, Option<PaymentId>, Option<&str>) {
    let chosen = record.chosen.as_ref().map(|id| id.as_str());
    (record.purpose, record.payment, chosen)
}

#[tokio::test]
async fn each_decision_of_a_payment_is_recorded_once_with_what_the_module_saw_and_said() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::Unavailable]);
    let payment = world.direct().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    let log = log(&world, MethodId::Ideal).await;
    let id = Some(payment.id);
    let expected = [
        (Purpose::Create, id, Some("alpha")),
        (Purpose::Start, id, Some("alpha")),
        (Purpose::Fallback, id, Some("beta")),
    ];
    assert_eq!(log.iter().map(told).collect::<Vec<_>>(), expected);
    let aggregate = world.aggregate(payment.id).await;
    let attempts: Vec<_> = aggregate
        .attempts
        .iter()
        .map(|each| Some(each.id))
        .collect();
    assert_eq!([log[1].attempt, log[2].attempt].as_slice(), attempts);
    assert_eq!(
        (log[0].attempt, log[2].attempt),
        (None, Some(started.attempt.id))
    );
    for record in &log {
        assert_eq!(record.merchant, world.merchant.id);
        assert_eq!(record.context.amount, Some(payment.due.amount));
        let candidates = record.context.candidates.iter();
        let candidates: Vec<_> = candidates.map(|each| each.id.as_str()).collect();
        assert_eq!(candidates, ["alpha", "beta"]);
        let verdicts = record.answer.as_ref().unwrap().as_ref().unwrap();
        let accounts: Vec<_> = verdicts.iter().map(|verdict| verdict.id.as_str()).collect();
        assert_eq!(accounts, ["alpha", "beta"]);
    }
}

#[tokio::test]
async fn what_a_module_refuses_is_recorded_without_a_payment() {
    let mut settings = settings();
    for account in settings.accounts.values_mut() {
        let terms = account.methods.get_mut(&MethodId::Ideal).unwrap();
        let least = kassette_domain::money::Minor(1_000_000);
        let limits = (Some(least), None);
        terms
            .limits
            .insert(kassette_domain::money::Currency::EUR, limits);
    }
    let world = World::with(settings, Policy::default()).await;
    let request = world.request("small", CheckoutMode::Direct);
    world.gateway.create(request, None).await.unwrap_err();
    let log = log(&world, MethodId::Ideal).await;
    assert_eq!(
        log.iter().map(told).collect::<Vec<_>>(),
        [(Purpose::Create, None, None)]
    );
    let verdicts = log[0].answer.as_ref().unwrap().as_ref().unwrap();
    let grounds = verdicts
        .iter()
        .map(|verdict| verdict.outcome.as_ref().unwrap_err().ground);
    assert_eq!(
        grounds.collect::<Vec<_>>(),
        [Ground::Amount, Ground::Amount]
    );
}

#[tokio::test]
async fn a_share_of_the_listings_is_recorded_where_the_setting_says_so() {
    for (percent, expected) in [(0, 0), (50, 2), (100, 4)] {
        let settings = Settings {
            listing_sample_percent: percent,
            ..settings()
        };
        let world = World::with(settings, Policy::default()).await;
        let payment = world.hosted().await;
        for _ in 0..4 {
            let view = world.gateway.checkout(payment.token.expose()).await;
            assert!(!view.unwrap().unwrap().offers.is_empty());
        }
        let log = log(&world, MethodId::Paypal).await;
        assert_eq!(log.len(), expected, "{percent} %");
        for record in &log {
            assert_eq!(told(record), (Purpose::Listing, None, None));
            let candidates = &record.context.candidates;
            assert_eq!(candidates[0].id, account_id("alpha"));
        }
    }
}
