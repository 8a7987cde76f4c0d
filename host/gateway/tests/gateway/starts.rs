//! Rows "start", "created ↔ pending", "One open attempt", "Unknown outcome" of the decisions.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::method::MethodId;
use kassette_domain::payment::{CheckoutMode, Status};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{PayerAction, ProviderStatus, Subject};
use kassette_domain::secret::Secret;
use kassette_gateway::clock::Clock as _;
use kassette_gateway::create::CreateError;
use kassette_gateway::start::{Start, StartError};
use kassette_store::{Fault, NewMerchant};
use tokio::sync::Notify;

use crate::modules::Script;
use crate::world::{World, account_id, at, audited, by_api, by_page, settings};

#[tokio::test]
async fn a_start_opens_an_attempt_and_starting_again_returns_the_same_address() {
    let world = World::new().await;
    let payment = world.direct().await;
    let first = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&first.attempt), "alpha");
    assert_eq!(first.aggregate.payment.status, Status::Pending);
    assert_eq!(
        first.redirect_url,
        format!("https://pay.example/{}", first.attempt.id)
    );
    let again = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(again.redirect_url, first.redirect_url);
    assert_eq!(world.vendor.starts().len(), 1);
    let decisions = world.store.history(payment.id).await.unwrap().unwrap();
    let said: Vec<_> = decisions
        .decisions
        .iter()
        .map(|each| &each.explanation)
        .collect();
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|words| words.contains("alpha")), "{said:?}");
}

#[tokio::test]
async fn an_unavailable_provider_falls_back_to_the_next_and_the_payment_stays_pending() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::Unavailable]);
    let payment = world.direct().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
    let states: Vec<_> = started
        .aggregate
        .attempts
        .iter()
        .map(|each| each.state())
        .collect();
    assert_eq!(states, [AttemptState::Unavailable, AttemptState::Open]);
    assert_eq!(
        world.events(payment.id).await,
        ["payment.pending", "payment.attempt_failed"]
    );
}

#[tokio::test]
async fn nothing_new_is_routed_to_a_slot_that_is_switched_off_and_what_is_under_way_goes_on() {
    for slot in ["provider.sandbox", "method.ideal"] {
        let world = World::new().await;
        let (payment, attempt) = world.waiting().await;
        let later = world.request("later", CheckoutMode::Hosted);
        let later = world.made(later).await;
        world.vendor.switch(slot, false);
        let refused = world.gateway.start(by_page(&later, MethodId::Ideal)).await;
        assert!(
            matches!(refused, Err(StartError::NotAvailable(_))),
            "{slot}: {refused:?}"
        );
        let refused = world
            .gateway
            .create(world.request("new", CheckoutMode::Direct), None)
            .await;
        assert!(
            matches!(refused, Err(CreateError::NotEligible(_))),
            "{slot}: {refused:?}"
        );
        let report = world.vendor.payer(attempt, ProviderStatus::Completed);
        let told = world
            .callback(Subject::Attempt(attempt), Some(report))
            .await;
        assert_eq!(told.status, 200, "{slot}");
        world.becomes(payment, Status::Completed).await;
        world.vendor.switch(slot, true);
        let started = world.gateway.start(by_page(&later, MethodId::Ideal)).await;
        assert!(started.is_ok(), "{slot}: {started:?}");
    }
}

#[tokio::test]
async fn a_payment_is_under_way_by_a_method_until_it_is_paid() {
    let world = World::new().await;
    let by = |method| world.gateway.payment_under_way(method);
    assert_eq!(by(MethodId::Ideal).await.unwrap(), None);
    let (payment, attempt) = world.waiting().await;
    assert_eq!(by(MethodId::Ideal).await.unwrap(), Some(payment));
    assert_eq!(by(MethodId::Paypal).await.unwrap(), None);
    let report = world.vendor.payer(attempt, ProviderStatus::Completed);
    world
        .callback(Subject::Attempt(attempt), Some(report))
        .await;
    world.becomes(payment, Status::Completed).await;
    assert_eq!(by(MethodId::Ideal).await.unwrap(), None);
}

#[tokio::test]
async fn without_an_available_provider_the_payment_is_created_again() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::Unavailable]);
    world.vendor.script("beta", [Script::Unavailable]);
    let payment = world.direct().await;
    let refused = world.gateway.start(by_api(&payment)).await;
    assert!(
        matches!(refused, Err(StartError::NotAvailable(_))),
        "{refused:?}"
    );
    let aggregate = world.aggregate(payment.id).await;
    assert_eq!(aggregate.payment.status, Status::Created);
    assert!(world.gateway.start(by_api(&payment)).await.is_ok());
}

#[tokio::test]
async fn a_decline_is_told_and_not_passed_on_to_the_next_provider() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::Declined]);
    let payment = world.direct().await;
    let refused = world.gateway.start(by_api(&payment)).await;
    assert!(matches!(refused, Err(StartError::Declined)), "{refused:?}");
    assert_eq!(world.vendor.starts().len(), 1);
    assert_eq!(
        world.aggregate(payment.id).await.payment.status,
        Status::Created
    );
}

#[tokio::test]
async fn an_unknown_outcome_is_never_fallen_back_from_and_the_next_start_repeats_it() {
    let world = World::new().await;
    world.vendor.script("alpha", vec![Script::LostBefore; 3]);
    world.vendor.be_silent(true);
    let payment = world.direct().await;
    let refused = world.gateway.start(by_api(&payment)).await;
    let told = Duration::from_secs(2);
    assert!(
        matches!(refused, Err(StartError::Unsettled { retry_after }) if retry_after == told),
        "{refused:?}"
    );
    let aggregate = world.aggregate(payment.id).await;
    assert_eq!(
        aggregate.open_attempt().unwrap().state(),
        AttemptState::Unknown
    );
    // That the account cannot be used now says nothing about the earlier start.
    world.vendor.script("alpha", vec![Script::Unavailable; 3]);
    let refused = world.gateway.start(by_api(&payment)).await;
    assert!(
        matches!(refused, Err(StartError::Unsettled { .. })),
        "{refused:?}"
    );
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    let starts = world.vendor.starts();
    assert!(
        starts
            .iter()
            .all(|(account, id)| { *account == account_id("alpha") && *id == started.attempt.id })
    );
}

#[tokio::test]
async fn a_payer_who_waits_has_the_payment_open_within_seconds_of_the_provider_s_return() {
    let world = World::new().await;
    // The provider is down for the start, which tries three times, and again after five seconds. Then it
    // recovers.
    world.vendor.script("alpha", vec![Script::LostBefore; 4]);
    world.vendor.be_silent(true);
    let payment = world.hosted().await;
    let began = world.clock.now();
    let waits = world
        .gateway
        .start(by_page(&payment, MethodId::Ideal))
        .await;
    assert!(matches!(waits, Err(StartError::Unsettled { .. })));
    let opened = loop {
        world.later(1);
        world.gateway.do_what_is_due().await.unwrap();
        let aggregate = world.aggregate(payment.id).await;
        let open = aggregate.open_attempt().unwrap();
        if open.action().is_some() {
            break open.clone();
        }
        assert!(world.clock.now().since(began) < Duration::from_secs(14));
    };
    assert_eq!(opened.state(), AttemptState::Open);
    let starts = world.vendor.starts();
    assert_eq!((starts.len(), world.vendor.entries()), (5, 1));
    assert!(starts.iter().all(|(_, id)| *id == opened.id));
}

#[tokio::test]
async fn a_provider_that_is_back_after_the_repeats_is_noticed_by_the_first_question() {
    let world = World::new().await;
    world.vendor.script("alpha", vec![Script::LostBefore; 6]);
    world.vendor.be_silent(true);
    let payment = world.hosted().await;
    let waits = world.gateway.start(by_page(&payment, MethodId::Ideal));
    assert!(matches!(waits.await, Err(StartError::Unsettled { .. })));
    let began = world.clock.now();
    let opened = loop {
        world.later(1);
        let passed = world.clock.now().since(began);
        world.vendor.be_silent(passed < Duration::from_secs(40));
        world.gateway.do_what_is_due().await.unwrap();
        let aggregate = world.aggregate(payment.id).await;
        let open = aggregate.open_attempt().unwrap();
        if open.action().is_some() {
            break open.clone();
        }
        assert!(passed < Duration::from_secs(75), "{open:?}");
    };
    let starts = world.vendor.starts();
    assert_eq!((starts.len(), world.vendor.entries()), (7, 1));
    assert!(starts.iter().all(|(_, id)| *id == opened.id));
}

#[tokio::test]
async fn a_provider_that_stays_away_is_not_started_at_for_ever_and_nothing_else_opens() {
    let world = World::new().await;
    world.vendor.script("alpha", vec![Script::LostBefore; 50]);
    world.vendor.be_silent(true);
    let payment = world.direct().await;
    assert!(world.gateway.start(by_api(&payment)).await.is_err());
    for _ in 0..60 {
        world.later(1);
        world.gateway.do_what_is_due().await.unwrap();
    }
    let starts = world.vendor.starts();
    assert_eq!(starts.len(), 3 + 3);
    assert!(starts.iter().all(|(at, _)| *at == account_id("alpha")));
    let aggregate = world.aggregate(payment.id).await;
    assert_eq!(aggregate.attempts.len(), 1);
    assert_eq!(aggregate.attempts[0].state(), AttemptState::Unknown);
}

#[tokio::test]
async fn an_answer_lost_after_its_effect_is_repeated_and_makes_no_second_payment() {
    let world = World::new().await;
    world.vendor.script("alpha", [Script::LostAfter]);
    let payment = world.direct().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(started.aggregate.attempts.len(), 1);
    assert_eq!(
        (world.vendor.starts().len(), world.vendor.entries()),
        (2, 1)
    );
}

#[tokio::test]
async fn two_starts_at_once_make_one_attempt() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::clone(&go))]);
    let payment = world.direct().await;
    let start = || {
        let (gateway, start) = (world.gateway.clone(), by_api(&payment));
        tokio::spawn(async move { gateway.start(start).await })
    };
    let (first, second) = (start(), start());
    world.vendor.reached(1).await;
    go.notify_one();
    let first = first.await.unwrap().unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(first.redirect_url, second.redirect_url);
    assert_eq!(world.vendor.starts().len(), 1);
}

#[tokio::test]
async fn a_start_waits_for_one_in_another_process_and_then_says_come_back() {
    let mut config = settings();
    config.start_deadline = Duration::from_millis(300);
    let world = World::with(config.clone(), Policy::default()).await;
    let go = Arc::new(Notify::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::clone(&go))]);
    let payment = world.direct().await;
    let (gateway, start) = (world.gateway.clone(), by_api(&payment));
    let first = tokio::spawn(async move { gateway.start(start).await });
    world.vendor.reached(1).await;
    let second = world.second().await;
    second.configure(config).await.unwrap();
    let refused = second.start(by_api(&payment)).await;
    assert!(
        matches!(refused, Err(StartError::Unsettled { .. })),
        "{refused:?}"
    );
    go.notify_one();
    let first = first.await.unwrap().unwrap();
    let again = second.start(by_api(&payment)).await.unwrap();
    assert_eq!(first.attempt.id, again.attempt.id);
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_end_the_start() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::clone(&go))]);
    let payment = world.direct().await;
    let (gateway, start) = (world.gateway.clone(), by_api(&payment));
    let caller = tokio::spawn(async move { gateway.start(start).await });
    world.vendor.reached(1).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    go.notify_one();
    world.gateway.finish().await;
    let aggregate = world.aggregate(payment.id).await;
    assert!(aggregate.open_attempt().unwrap().action().is_some());
}

#[test]
fn a_process_that_dies_in_a_start_is_followed_by_one_that_repeats_the_same_attempt() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (dying, living) = (runtime(), runtime());
    let world = living.block_on(World::new());
    world
        .vendor
        .script("alpha", [Script::Slow(Arc::new(Notify::new()))]);
    let payment = living.block_on(world.direct());
    let (gateway, start) = (world.gateway.clone(), by_api(&payment));
    dying.spawn(async move { gateway.start(start).await });
    living.block_on(world.vendor.reached(1));
    dying.shutdown_background();
    living.block_on(async {
        let second = world.second().await;
        world.later(60);
        second.do_what_is_due().await.unwrap();
        let started = second.start(by_api(&payment)).await.unwrap();
        let starts = world.vendor.starts();
        assert_eq!(starts.len(), 2);
        assert!(starts.iter().all(|(_, id)| *id == started.attempt.id));
        assert_eq!(world.vendor.entries(), 1);
    });
}

#[tokio::test]
async fn a_reference_of_another_attempt_is_not_believed() {
    let world = World::new().await;
    let (_, first) = world.waiting().await;
    let taken = format!("ref-{first}");
    world
        .vendor
        .script("alpha", vec![Script::Reference(taken); 3]);
    let request = world.request("other", CheckoutMode::Direct);
    let other = match world.gateway.create(request, None).await.unwrap() {
        kassette_gateway::create::CreateOutcome::Created(payment) => payment,
        replayed => panic!("{replayed:?}"),
    };
    let refused = world.gateway.start(by_api(&other)).await;
    assert!(
        matches!(refused, Err(StartError::Unsettled { .. })),
        "{refused:?}"
    );
    let aggregate = world.aggregate(other.id).await;
    let references = &aggregate.open_attempt().unwrap().references;
    assert!(
        !references.contains(&format!("ref-{first}")),
        "{references:?}"
    );
}

#[tokio::test]
async fn choosing_a_provider_needs_the_policy_and_has_no_fallback() {
    let world = World::new().await;
    let payment = world.direct().await;
    let named = |name: &str| Start {
        provider: Some(account_id(name)),
        ..by_api(&payment)
    };
    let refused = world.gateway.start(named("beta")).await;
    assert!(
        matches!(refused, Err(StartError::ProviderChoice)),
        "{refused:?}"
    );

    let before = world
        .store
        .merchant(world.merchant.id)
        .await
        .unwrap()
        .unwrap();
    let mut after = before.clone();
    after.policy.provider_choice = true;
    let now = kassette_gateway::clock::Clock::now(&*world.clock);
    let replaced = world.store.replace_merchant(before, after, audited(), now);
    replaced.await.unwrap();
    let refused = world.gateway.start(named("gamma")).await;
    assert!(
        matches!(refused, Err(StartError::NotAvailable(_))),
        "{refused:?}"
    );
    world.vendor.script("beta", [Script::Unavailable]);
    let refused = world.gateway.start(named("beta")).await;
    assert!(
        matches!(refused, Err(StartError::NotAvailable(_))),
        "{refused:?}"
    );
    let started = world.gateway.start(named("beta")).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
}

#[tokio::test]
async fn a_hosted_a_finished_and_another_method_s_payment_are_conflicts() {
    let world = World::new().await;
    let hosted = world.hosted().await;
    let refused = world.gateway.start(by_api(&hosted)).await;
    assert!(
        matches!(refused, Err(StartError::Conflict(_))),
        "{refused:?}"
    );

    let world = World::new().await;
    let direct = world.direct().await;
    let other = Start {
        method: MethodId::Paypal,
        ..by_api(&direct)
    };
    let refused = world.gateway.start(other).await;
    assert!(
        matches!(refused, Err(StartError::OtherMethod)),
        "{refused:?}"
    );
    let started = world.gateway.start(by_api(&direct)).await.unwrap();
    let news = world
        .vendor
        .payer(started.attempt.id, ProviderStatus::Completed);
    world
        .callback(Subject::Attempt(started.attempt.id), Some(news))
        .await;
    let refused = world.gateway.start(by_api(&direct)).await;
    assert!(
        matches!(refused, Err(StartError::Conflict(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_switched_off_account_gets_no_new_attempt() {
    let world = World::new().await;
    let other = world.second().await;
    let alpha = account_id("alpha");
    assert!(other.account_enabled(&alpha));
    assert!(
        world
            .gateway
            .set_account_enabled(&alpha, false, audited())
            .await
            .unwrap()
    );
    assert!(!world.gateway.account_enabled(&alpha));
    let payment = world.direct().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
    assert!(!world.second().await.account_enabled(&alpha));
    // The same at a node that had cached the account as enabled.
    let payment = world
        .made(world.request("order-2", CheckoutMode::Direct))
        .await;
    let started = other.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
    assert!(!other.account_enabled(&alpha));
    other.finish().await;
}

#[tokio::test]
async fn an_account_that_is_switched_off_while_another_one_fails_gets_no_fallback() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    let slow = [Script::SlowlyUnavailable(Arc::clone(&go))];
    world.vendor.script("alpha", slow);
    let payment = world.direct().await;
    let gateway = world.gateway.clone();
    let start = by_api(&payment);
    let starting = tokio::spawn(async move { gateway.start(start).await });
    while world.aggregate(payment.id).await.attempts.is_empty() {
        tokio::task::yield_now().await;
    }
    let beta = account_id("beta");
    let off = world.gateway.set_account_enabled(&beta, false, audited());
    assert!(off.await.unwrap());
    go.notify_one();
    let refused = starting.await.unwrap();
    assert!(
        matches!(refused, Err(StartError::NotAvailable(_))),
        "{refused:?}"
    );
    let attempts = world.aggregate(payment.id).await.attempts;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
}

/// A module version may require more settings than the one for which its accounts were configured.
#[tokio::test]
async fn an_account_that_lacks_what_its_module_needs_gets_no_new_attempt() {
    let mut settings = settings();
    let beta = settings.accounts.get_mut(&account_id("beta")).unwrap();
    beta.settings = vec![("profile".into(), "pfl_1".into())];
    let world = World::with(settings, Policy::default()).await;
    let payment = world.direct().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "alpha");
    world.vendor.need("profile");
    let request = world.request("order-2", CheckoutMode::Direct);
    let payment = world.made(request).await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "beta");
    world.vendor.need("region");
    let request = world.request("order-3", CheckoutMode::Direct);
    let refused = world.gateway.create(request, None).await;
    assert!(
        matches!(refused, Err(CreateError::NotEligible(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_merchant_whose_provider_hangs_leaves_starts_of_others_alone() {
    let world = World::new().await;
    let mut other = world.merchant.clone();
    other.name = "Other shop".into();
    let new = NewMerchant { merchant: other };
    let made = world.store.create_merchant(new, audited(), world.later(0));
    let other = made.await.unwrap();
    let never = Arc::new(Notify::new());
    let mut hanging = Vec::new();
    // The maximum of one merchant at one account in test.
    let slow = std::iter::repeat_n(Script::Slow(never), 8);
    world.vendor.script("alpha", slow);
    for number in 0..100 {
        let request = world.request(&format!("hangs-{number}"), CheckoutMode::Direct);
        let payment = world.made(request).await;
        let gateway = world.gateway.clone();
        hanging.push(tokio::spawn(async move {
            gateway.start(by_api(&payment)).await
        }));
    }
    // Starts beyond the merchant's share are answered.
    while hanging.iter().filter(|start| start.is_finished()).count() < 50 {
        tokio::task::yield_now().await;
    }
    let mut request = world.request("other", CheckoutMode::Direct);
    request.merchant = other.id;
    let payment = world.made(request).await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "alpha");
    for start in hanging {
        start.abort();
    }
}

#[tokio::test]
async fn a_start_that_finds_no_permit_is_told_to_come_back_and_uses_up_no_attempt() {
    let world = World::new().await;
    let never = Arc::new(Notify::new());
    for account in ["alpha", "beta"] {
        let slow = std::iter::repeat_n(Script::Slow(Arc::clone(&never)), 24);
        world.vendor.script(account, slow);
    }
    let mut starts = tokio::task::JoinSet::new();
    for number in 0..30 {
        let request = world.request(&format!("waits-{number}"), CheckoutMode::Direct);
        let payment = world.made(request).await;
        let gateway = world.gateway.clone();
        starts.spawn(async move { (payment.id, gateway.start(by_api(&payment)).await) });
    }
    // More than a merchant's maximum at both accounts together.
    for _ in 0..6 {
        let (payment, refused) = starts.join_next().await.unwrap().unwrap();
        assert!(
            matches!(refused, Err(StartError::Store(Fault::Busy))),
            "{refused:?}"
        );
        let aggregate = world.aggregate(payment).await;
        assert_eq!(aggregate.payment.status, Status::Created);
        assert!(aggregate.attempts.is_empty(), "{aggregate:?}");
    }
}

/// The maximum number of starts of one merchant at one account in test. They hang until they are notified.
async fn crowded(world: &World, account: &str) -> (Arc<Notify>, tokio::task::JoinSet<()>) {
    const MOST: usize = 8;
    let go = Arc::new(Notify::new());
    let slow = std::iter::repeat_n(Script::Slow(Arc::clone(&go)), MOST);
    world.vendor.script(account, slow);
    let before = world.vendor.starts().len();
    let mut starts = tokio::task::JoinSet::new();
    for number in 0..MOST {
        let request = world.request(&format!("hangs-{number}"), CheckoutMode::Direct);
        let start = Start {
            provider: Some(account_id(account)),
            ..by_api(&world.made(request).await)
        };
        let gateway = world.gateway.clone();
        starts.spawn(async move { gateway.start(start).await.map(drop).unwrap() });
    }
    world.vendor.reached(before + MOST).await;
    (go, starts)
}

fn choosing() -> Policy {
    Policy {
        provider_choice: true,
        ..Policy::default()
    }
}

#[tokio::test]
async fn a_fallback_that_finds_no_permit_is_told_to_come_back_and_opens_no_attempt() {
    let world = World::with(settings(), choosing()).await;
    let (go, starts) = crowded(&world, "beta").await;
    world.vendor.script("alpha", [Script::Unavailable]);
    let payment = world.direct().await;
    let refused = world.gateway.start(by_api(&payment)).await;
    assert!(
        matches!(refused, Err(StartError::Store(Fault::Busy))),
        "{refused:?}"
    );
    let attempts = world.aggregate(payment.id).await.attempts;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!(attempts[0].state(), AttemptState::Unavailable);
    go.notify_waiters();
    starts.join_all().await;
    let started = world.gateway.start(by_api(&payment)).await.unwrap();
    assert_eq!(at(&started.attempt), "alpha");
}

#[tokio::test]
async fn answers_that_find_no_permit_are_not_used_up() {
    let world = World::with(settings(), choosing()).await;
    world.vendor.script("alpha", [Script::Ask]);
    let payment = world.direct().await;
    world.gateway.start(by_api(&payment)).await.unwrap();
    let (go, starts) = crowded(&world, "alpha").await;
    let token = payment.token.expose();
    let answers = || vec![("email".to_owned(), Secret::new("a@shop.example"))];
    let refused = world.gateway.answer(token, answers()).await;
    assert!(
        matches!(refused, Err(StartError::Store(Fault::Busy))),
        "{refused:?}"
    );
    go.notify_waiters();
    starts.join_all().await;
    let started = world.gateway.answer(token, answers()).await.unwrap();
    assert!(matches!(
        started.attempt.action(),
        Some(PayerAction::Redirect(_))
    ));
}
