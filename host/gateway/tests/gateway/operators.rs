//! An operator's decisions, and new settings while payments flow.

use kassette_domain::ledger::ReviewDecision;
use kassette_domain::money::Minor;
use kassette_domain::payment::{Settlement, Status};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{Subject, VendorStatus, Wish};
use kassette_gateway::review::DecideError;
use kassette_gateway::workers::SettingsRefused;

use crate::world::{World, account_id, audited, settings};

const APPROVE: ReviewDecision = ReviewDecision::Approve { settlement: None };

async fn in_review() -> (
    World,
    kassette_domain::id::PaymentId,
    kassette_domain::id::AttemptId,
) {
    let policy = Policy {
        review_over_usd: Some(Minor(1000)),
        ..Policy::default()
    };
    let world = World::with(settings(), policy).await;
    let (payment, attempt) = world.waiting().await;
    let news = world.vendor.payer(attempt, VendorStatus::Processing);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    world.gateway.do_what_is_due().await.unwrap();
    assert_eq!(world.ledger(payment).await.payment.status, Status::Review);
    assert_eq!(world.vendor.queries(Wish::Finish), 0);
    (world, payment, attempt)
}

#[tokio::test]
async fn an_approval_captures_first() {
    let (world, payment, attempt) = in_review().await;
    let ledger = world
        .gateway
        .review(payment, APPROVE, audited())
        .await
        .unwrap();
    assert_eq!(ledger.payment.status, Status::Completed);
    assert_eq!(ledger.payment.settlement, Settlement::Confirmed);
    assert_eq!(world.vendor.entry(attempt).unwrap().captured, 1);
    let again = world.gateway.review(payment, APPROVE, audited()).await;
    assert!(matches!(again, Err(DecideError::Conflict(_))), "{again:?}");
}

#[tokio::test]
async fn a_decline_voids_first_and_a_silent_vendor_is_a_conflict() {
    let (world, payment, attempt) = in_review().await;
    world.vendor.be_silent(true);
    let refused = world
        .gateway
        .review(payment, ReviewDecision::Decline, audited())
        .await;
    assert!(
        matches!(refused, Err(DecideError::Conflict(_))),
        "{refused:?}"
    );
    world.vendor.be_silent(false);
    world.later(60);
    let decided = world
        .gateway
        .review(payment, ReviewDecision::Decline, audited())
        .await;
    assert_eq!(decided.unwrap().payment.status, Status::Failed);
    let entry = world.vendor.entry(attempt).unwrap();
    assert_eq!((entry.status, entry.captured), (VendorStatus::Declined, 0));
}

#[tokio::test]
async fn a_cancel_closes_the_open_attempt_first() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    world.vendor.be_silent(true);
    let refused = world.gateway.cancel(payment, audited()).await;
    assert!(
        matches!(refused, Err(DecideError::Conflict(_))),
        "{refused:?}"
    );
    world.vendor.be_silent(false);
    world.later(60);
    let ledger = world.gateway.cancel(payment, audited()).await.unwrap();
    assert_eq!(ledger.payment.status, Status::Cancelled);
    assert_eq!(
        world.vendor.entry(attempt).unwrap().status,
        VendorStatus::Declined
    );
}

#[tokio::test]
async fn an_account_with_an_open_attempt_cannot_be_removed_or_moved() {
    let world = World::new().await;
    let (_, _) = world.waiting().await;
    let mut without = settings();
    without.accounts.remove(&account_id("alpha"));
    let refused = world.gateway.configure(without).await;
    assert!(matches!(refused, Err(SettingsRefused::InUse(id)) if id == "alpha"));
    let mut moved = settings();
    let alpha = moved.accounts.get_mut(&account_id("alpha")).unwrap();
    alpha.environment = kassette_domain::key::Environment::Live;
    let refused = world.gateway.configure(moved).await;
    assert!(
        matches!(refused, Err(SettingsRefused::InUse(_))),
        "{refused:?}"
    );
    let mut other = settings();
    other.accounts.remove(&account_id("beta"));
    world.gateway.configure(other).await.unwrap();
    assert_eq!(world.gateway.settings().accounts.len(), 1);
}

#[tokio::test]
async fn an_account_with_a_host_that_is_none_is_refused() {
    let world = World::new().await;
    let mut wrong = settings();
    let alpha = wrong.accounts.get_mut(&account_id("alpha")).unwrap();
    alpha.hosts.push("https://x/".into());
    let refused = world.gateway.configure(wrong).await;
    assert!(matches!(refused, Err(SettingsRefused::Account(why)) if why.contains("alpha")));
}
