//! Callback, return and query: one transition in any order, one capture, late money, expiry.

use std::sync::Arc;

use kassette_domain::attempt::AttemptState;
use kassette_domain::id::AttemptId;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::payment::{CheckoutMode, Request, ReviewCause, Settlement, Status};
use kassette_domain::policy::{MethodPolicy, Policy};
use kassette_domain::provider::{CallbackFailure, ProviderStatus, QueryPurpose, Subject};
use kassette_gateway::limits::Kind;
use tokio::sync::Notify;

use crate::modules::Script;
use crate::world::{World, account_id, at, by_api, called_back, heard, incoming, settings};

#[tokio::test]
async fn an_approval_is_captured_without_further_help() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    let news = world.vendor.payer(attempt, ProviderStatus::Processing);
    let answer = world.callback(Subject::Attempt(attempt), Some(news)).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
    world.gateway.finish().await;
    let aggregate = world.aggregate(payment).await;
    assert_eq!(aggregate.payment.status, Status::Completed);
    assert_eq!(aggregate.payment.settlement, Settlement::Confirmed);
    assert_eq!(world.vendor.entry(attempt).unwrap().captured, 1);
    let events = world.events(payment).await;
    assert_eq!(
        events,
        ["payment.pending", "payment.processing", "payment.completed"]
    );
}

#[tokio::test]
async fn a_callback_before_the_start_was_recorded_is_not_lost() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::clone(&go))]);
    let payment = world.direct().await;
    let (gateway, start) = (world.gateway.clone(), by_api(&payment));
    let starting = tokio::spawn(async move { gateway.start(start).await });
    world.vendor.reached(1).await;
    let attempt = world.vendor.starts()[0].1;
    let news = world.vendor.payer(attempt, ProviderStatus::Processing);
    let by_reference = Subject::Reference(news.reference.clone());
    let answer = world.callback(by_reference, Some(news)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        world.aggregate(payment.id).await.payment.status,
        Status::Pending
    );
    go.notify_one();
    starting.await.unwrap().unwrap();
    world.becomes(payment.id, Status::Completed).await;
    assert_eq!(world.vendor.entry(attempt).unwrap().captured, 1);
}

#[tokio::test]
async fn callback_return_and_query_at_once_make_one_transition_and_one_event() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    let token = world.aggregate(payment).await.attempts[0]
        .return_token
        .clone();
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    world.later(301);
    let callbacks = async {
        for _ in 0..4 {
            let news = Some(news.clone());
            world.callback(Subject::Attempt(attempt), news).await;
        }
    };
    let (_, back, due) = tokio::join!(
        callbacks,
        world.gateway.returned(token.expose(), "status=ok"),
        world.gateway.do_what_is_due(),
    );
    due.unwrap();
    assert!(back.unwrap().is_some());
    world.gateway.finish().await;
    assert_eq!(world.transitions_to(payment, Status::Completed).await, 1);
    let events = world.events(payment).await;
    assert_eq!(events, ["payment.pending", "payment.completed"]);
}

#[tokio::test]
async fn many_callbacks_in_two_processes_capture_once() {
    let world = World::new().await;
    let second = world.second().await;
    let (payment, attempt) = world.waiting().await;
    let news = world.vendor.payer(attempt, ProviderStatus::Processing);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..16 {
        let heard = heard(Subject::Attempt(attempt), Some(news.clone()));
        world.vendor.answer_callback(Ok(heard));
        let gateway = if number % 2 == 0 {
            &world.gateway
        } else {
            &second
        };
        let gateway = gateway.clone();
        calls.spawn(async move { called_back(&gateway, "alpha").await });
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(answer.unwrap().status, 200);
    }
    world.gateway.finish().await;
    second.finish().await;
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Completed
    );
    assert_eq!(world.vendor.queries(QueryPurpose::Capture), 1);
    assert_eq!(world.vendor.entry(attempt).unwrap().captured, 1);
}

#[tokio::test]
async fn a_lost_capture_is_tried_again() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    let news = world.vendor.payer(attempt, ProviderStatus::Processing);
    world.vendor.be_silent(true);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    world.gateway.do_what_is_due().await.unwrap();
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Processing
    );
    world.vendor.be_silent(false);
    world.later(60);
    world.becomes(payment, Status::Completed).await;
    assert_eq!(world.vendor.entry(attempt).unwrap().captured, 1);
}

#[tokio::test]
async fn money_after_expiry_goes_to_review() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    world.later(25 * 3600);
    world.becomes(payment, Status::Expired).await;
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    let aggregate = world.aggregate(payment).await;
    assert_eq!(aggregate.payment.status, Status::Review);
    assert_eq!(aggregate.payment.review, Some(ReviewCause::LateMoney));
}

#[tokio::test]
async fn expiry_closes_the_open_attempt_at_the_vendor_first() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    world.vendor.be_silent(true);
    world.later(25 * 3600);
    world.gateway.do_what_is_due().await.unwrap();
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Pending
    );
    assert!(world.vendor.queries(QueryPurpose::Cancel) >= 1);
    world.vendor.be_silent(false);
    world.later(3600);
    let aggregate = world.becomes(payment, Status::Expired).await;
    assert_eq!(aggregate.attempts[0].state(), AttemptState::Expired);
    assert_eq!(
        world.vendor.entry(attempt).unwrap().status,
        ProviderStatus::Declined
    );
}

#[tokio::test]
async fn notices_without_a_report_have_five_looks_in_a_row_and_none_is_lost() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    for _ in 0..20 {
        let answer = world.callback(Subject::Attempt(attempt), None).await;
        assert_eq!(answer.status, 200);
        // A notice that arrives during a query causes another one, so each waits for the query before it.
        world.gateway.do_what_is_due().await.unwrap();
    }
    assert_eq!(world.vendor.queries(QueryPurpose::Sync), 5);
    world.vendor.payer(attempt, ProviderStatus::Completed);
    world.callback(Subject::Attempt(attempt), None).await;
    world.later(6);
    world.becomes(payment, Status::Completed).await;
}

#[tokio::test]
async fn news_reaches_no_attempt_of_another_account() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    let by_id = Subject::Attempt(attempt);
    let answer = world.callback_of("beta", by_id, Some(news.clone())).await;
    assert_eq!(answer.status, 200);
    let by_reference = Subject::Reference(news.reference.clone());
    world.callback_of("beta", by_reference, Some(news)).await;
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Pending
    );
}

#[tokio::test]
async fn forged_malformed_unknown_and_broken_callbacks_have_their_answers() {
    let world = World::new().await;
    for (refused, status) in [
        (CallbackFailure::Forged("x".into()), 401),
        (CallbackFailure::Malformed("x".into()), 400),
        (CallbackFailure::Later("x".into()), 503),
    ] {
        world.vendor.answer_callback(Err(refused));
        assert_eq!(called_back(&world.gateway, "alpha").await.status, status);
    }
    assert_eq!(called_back(&world.gateway, "alpha").await.status, 500);
    assert_eq!(called_back(&world.gateway, "gamma").await.status, 404);
}

#[tokio::test]
async fn unproved_notices_about_unknown_payments_push_out_no_proved_one() {
    let world = World::new().await;
    let reference = |name: &str| Subject::Reference(name.to_owned());
    let payment = world.direct().await;
    let answer = Arc::new(Notify::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::clone(&answer))]);
    let gateway = world.gateway.clone();
    let start = tokio::spawn(async move { gateway.start(by_api(&payment)).await });
    world.vendor.reached(1).await;
    let attempt = world.vendor.starts()[0].1;
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    let genuine = reference(&news.reference);
    assert_eq!(world.callback(genuine, Some(news)).await.status, 200);
    for number in 0..11_000 {
        let forged = reference(&format!("flood-{number}"));
        assert_eq!(world.unproved(forged, [198, 51, 100, 7]).await.status, 200);
    }
    answer.notify_one();
    let started = start.await.unwrap().unwrap();
    assert_eq!(started.aggregate.payment.status, Status::Completed);
}

#[tokio::test]
async fn an_unproved_notice_that_is_early_has_the_provider_asked_after_the_start() {
    let world = World::new().await;
    let payment = world.direct().await;
    let answer = Arc::new(Notify::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::clone(&answer))]);
    let (gateway, id) = (world.gateway.clone(), payment.id);
    let start = tokio::spawn(async move { gateway.start(by_api(&payment)).await });
    world.vendor.reached(1).await;
    let attempt = world.vendor.starts()[0].1;
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    let early = Subject::Reference(news.reference);
    world.unproved(early, [198, 51, 100, 7]).await;
    answer.notify_one();
    start.await.unwrap().unwrap();
    world.becomes(id, Status::Completed).await;
}

#[tokio::test]
async fn an_unproved_notice_of_an_unknown_attempt_costs_the_provider_no_request() {
    let world = World::new().await;
    let unknown = Subject::Attempt(AttemptId::from_bytes([7; 16]));
    let answer = world.unproved(unknown, [198, 51, 100, 7]).await;
    assert_eq!(
        (answer.status, world.vendor.queries(QueryPurpose::Sync)),
        (200, 0)
    );
}

#[tokio::test]
async fn a_notice_of_an_unknown_attempt_is_repeated_until_the_vendor_can_be_asked() {
    let world = World::new().await;
    let unknown = Subject::Attempt(AttemptId::from_bytes([7; 16]));
    for (silent, status) in [(true, 503), (false, 200)] {
        world.vendor.be_silent(silent);
        let answer = world.callback(unknown.clone(), None).await;
        assert_eq!(answer.status, status);
    }
    assert_eq!(world.vendor.queries(QueryPurpose::Sync), 2);
}

#[tokio::test]
async fn a_silent_vendor_never_makes_the_workers_spin() {
    let world = World::new().await;
    let (payment, _) = world.waiting().await;
    world.vendor.be_silent(true);
    world.later(301);
    world.gateway.do_what_is_due().await.unwrap();
    assert_eq!(world.vendor.queries(QueryPurpose::Sync), 1);
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Pending
    );
}

#[tokio::test]
async fn questions_that_hang_in_test_hold_up_no_live_payment() {
    /// They are due before the live payment: with shared permits, all of them would be queried first.
    const IN_TEST: usize = 1_000;
    let mut settings = settings();
    let beta = settings.accounts.get_mut(&account_id("beta")).unwrap();
    beta.environment = Environment::Live;
    let mut policy = Policy::default();
    let enabled = MethodPolicy {
        enabled: true,
        providers: None,
        min: None,
        max: None,
    };
    policy.methods.insert(MethodId::Ideal, enabled);
    let world = World::with(settings, policy).await;
    for number in 0..IN_TEST {
        let request = world.request(&format!("test-{number}"), CheckoutMode::Direct);
        let payment = world.made(request).await;
        world.gateway.start(by_api(&payment)).await.unwrap();
    }
    let live = world.made(Request {
        environment: Environment::Live,
        ..world.request("live", CheckoutMode::Direct)
    });
    let live = live.await;
    let started = world.gateway.start(by_api(&live)).await.unwrap();
    world.vendor.hang("alpha");
    world
        .vendor
        .payer(started.attempt.id, ProviderStatus::Completed);
    world.later(301);
    let stop = Arc::new(Notify::new());
    let workers = {
        let (gateway, stop) = (world.gateway.clone(), Arc::clone(&stop));
        tokio::spawn(async move { gateway.run_workers(stop.notified()).await })
    };
    while world.aggregate(live.id).await.payment.status != Status::Completed {
        tokio::task::yield_now().await;
    }
    let asked = world.vendor.queries(QueryPurpose::Sync);
    assert!(asked < IN_TEST / 2, "{asked} queries before it");
    workers.abort();
}

#[tokio::test]
async fn questions_that_hang_hold_as_many_places_as_are_theirs_and_none_of_a_start() {
    /// Half of the permits for queries in test.
    const PLACES: usize = Kind::Query.permits(Environment::Test) / 2;
    let world = World::new().await;
    let opened = async |order: &str| {
        let payment = world.made(world.request(order, CheckoutMode::Direct)).await;
        let started = world.gateway.start(by_api(&payment)).await.unwrap();
        (payment.id, started.attempt)
    };
    let (waits, _) = opened("waits").await;
    world.vendor.script("alpha", [Script::Unavailable]);
    let (elsewhere, at_beta) = opened("elsewhere").await;
    world.vendor.payer(at_beta.id, ProviderStatus::Completed);
    world.vendor.hang("alpha");
    // Each causes a query about an attempt that the store does not contain.
    let asking: Vec<_> = (0..16)
        .map(|number| {
            let about = Subject::Attempt(AttemptId::from_bytes([number; 16]));
            let news = heard(about, None);
            world.vendor.answer_callback(Ok(news));
            let gateway = world.gateway.clone();
            tokio::spawn(async move { called_back(&gateway, "alpha").await })
        })
        .collect();
    while asking.iter().filter(|task| task.is_finished()).count() < asking.len() - PLACES {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.vendor.queries(QueryPurpose::Sync), PLACES);
    // Due queries at this account do not run now; those at another account do.
    world.later(301);
    world.gateway.do_what_is_due().await.unwrap();
    let status = async |payment| world.aggregate(payment).await.payment.status;
    assert_eq!(status(waits).await, Status::Pending);
    assert_eq!(status(elsewhere).await, Status::Completed);
    assert_eq!(world.vendor.queries(QueryPurpose::Sync), PLACES + 1);
    let (_, started) = opened("starts").await;
    assert_eq!(at(&started), "alpha");
    for task in asking {
        task.abort();
    }
}

#[tokio::test]
async fn the_workers_wake_for_what_falls_due_and_end_in_order() {
    let world = World::new().await;
    let stop = Arc::new(Notify::new());
    let workers = {
        let (gateway, stop) = (world.gateway.clone(), Arc::clone(&stop));
        tokio::spawn(async move { gateway.run_workers(stop.notified()).await })
    };
    let (payment, attempt) = world.waiting().await;
    world.vendor.payer(attempt, ProviderStatus::Completed);
    world.later(301);
    loop {
        let aggregate = world.aggregate(payment).await;
        if aggregate.payment.status == Status::Completed {
            break;
        }
        tokio::task::yield_now().await;
    }
    stop.notify_one();
    workers.await.unwrap();
}

#[tokio::test]
async fn a_module_that_waits_over_strangers_callbacks_leaves_known_and_other_accounts_theirs() {
    let world = World::new().await;
    world.vendor.stick_to_strangers("alpha");
    let strangers: Vec<_> = (0..20)
        .map(|last| {
            let gateway = world.gateway.clone();
            let from = [192, 0, 2, last].into();
            tokio::spawn(async move {
                let (account, incoming) = (account_id("alpha"), incoming());
                let judged = gateway.judge_callback(&account, &incoming, Some(from));
                let judged = judged.await;
                assert!(!judged.unproved(), "no module has read it");
                gateway.handle_callback(&account, judged, from).await.status
            })
        })
        .collect();
    // Half of the permits for strangers in test are in use; the other callbacks are answered.
    while strangers.iter().filter(|task| task.is_finished()).count() < 16 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.vendor.stuck_calls(), 2);
    let about = || Subject::Reference("none".into());
    assert_eq!(world.callback(about(), None).await.status, 200);
    world.vendor.answer_callback(Ok(heard(about(), None)));
    let beta = account_id("beta");
    let from = [192, 0, 2, 99].into();
    let judged = world
        .gateway
        .judge_callback(&beta, &incoming(), Some(from))
        .await;
    assert!(judged.proved());
    let (_, attempt) = world.waiting().await;
    assert!(world.vendor.entry(attempt).is_some());
    for task in strangers {
        task.abort();
    }
}
