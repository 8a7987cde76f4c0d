//! An operator's decisions, and new settings while payments flow.

use kassette_domain::lifecycle::NewDecision;
use kassette_domain::money::Minor;
use kassette_domain::movement::{Effect, MovementKind};
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::{Accepted, DecisionState, Resolution, Settlement, Status};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{ProviderStatus, QueryPurpose, Subject};
use kassette_gateway::ledger::{Corrected, CorrectionAsked, CorrectionError};
use kassette_gateway::operator_acts::{DecideError, Decided};
use kassette_gateway::refunds::{RefundAsked, RefundOf, RefundOutcome};
use kassette_gateway::workers::SettingsRefused;

use crate::modules::RefundScript;
use crate::world::{World, account_id, audited, settings};

fn decision(resolution: Resolution) -> NewDecision {
    NewDecision {
        resolution,
        settlement: None,
        vouch: false,
        accept: None,
        despite: vec![],
        operator: "ops".into(),
        actor: "ann".into(),
        reason: "seen".into(),
    }
}

impl World {
    async fn decide(
        &self,
        payment: kassette_domain::id::PaymentId,
        resolution: Resolution,
    ) -> Result<Decided, DecideError> {
        self.gateway
            .review(payment, decision(resolution), audited())
            .await
    }
}

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
    let news = world.vendor.payer(attempt, ProviderStatus::Processing);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    world.gateway.do_what_is_due().await.unwrap();
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Review
    );
    assert_eq!(world.vendor.queries(QueryPurpose::Capture), 0);
    (world, payment, attempt)
}

#[tokio::test]
async fn an_approval_captures_first_and_is_answered_the_same_again() {
    let (world, payment, attempt) = in_review().await;
    for _ in 0..2 {
        let decided = world.decide(payment, Resolution::Approve).await;
        assert_eq!(decided.unwrap(), Decided::Done);
    }
    let payment = world.aggregate(payment).await.payment;
    assert_eq!(
        (payment.status, payment.settlement),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(world.vendor.entry(attempt).unwrap().captured, 1);
    let declined = world.decide(payment.id, Resolution::Decline).await;
    assert!(matches!(declined, Err(DecideError::Conflict(_))));
}

#[tokio::test]
async fn a_decision_waits_for_a_silent_vendor_and_is_finished_by_its_word() {
    let (world, payment, attempt) = in_review().await;
    world.vendor.be_silent(true);
    let decided = world.decide(payment, Resolution::Decline).await;
    assert_eq!(decided.unwrap(), Decided::Waiting);
    let approved = world.decide(payment, Resolution::Approve).await;
    assert!(matches!(approved, Err(DecideError::Conflict(_))));
    world.vendor.be_silent(false);
    world.later(60);
    world.gateway.do_what_is_due().await.unwrap();
    let aggregate = world.aggregate(payment).await;
    assert_eq!(aggregate.payment.status, Status::Failed);
    assert_eq!(
        aggregate.payment.decision.unwrap().state,
        DecisionState::Done
    );
    let entry = world.vendor.entry(attempt).unwrap();
    assert_eq!(
        (entry.status, entry.captured),
        (ProviderStatus::Declined, 0)
    );
}

#[tokio::test]
async fn a_decision_that_the_vendor_never_answers_lapses() {
    let (world, payment, _) = in_review().await;
    world.vendor.be_silent(true);
    let decided = world.decide(payment, Resolution::Approve).await;
    assert_eq!(decided.unwrap(), Decided::Waiting);
    for _ in 0..5 {
        world.later(120);
        world.gateway.do_what_is_due().await.unwrap();
    }
    let aggregate = world.aggregate(payment).await;
    assert_eq!(aggregate.payment.status, Status::Review);
    assert_eq!(
        aggregate.payment.decision.unwrap().state,
        DecisionState::Lapsed
    );
}

#[tokio::test]
async fn a_question_of_an_operator_settles_what_a_lost_notice_left_open() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    world.vendor.payer(attempt, ProviderStatus::Completed);
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Pending
    );
    world.gateway.query(payment, audited()).await.unwrap();
    assert_eq!(
        world.aggregate(payment).await.payment.status,
        Status::Completed
    );
    let none = World::new().await;
    let created = none.direct().await.id;
    let refused = none.gateway.query(created, audited()).await;
    assert!(matches!(refused, Err(DecideError::Conflict(_))));
}

#[tokio::test]
async fn a_cancel_closes_the_open_attempt_first() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    world.vendor.be_silent(true);
    let refused = world.gateway.cancel(payment, audited()).await;
    assert!(
        matches!(refused, Err(DecideError::NotClosed)),
        "{refused:?}"
    );
    world.vendor.be_silent(false);
    world.later(60);
    world.gateway.cancel(payment, audited()).await.unwrap();
    let payment = world.aggregate(payment).await.payment;
    assert_eq!(payment.status, Status::Cancelled);
    assert_eq!(
        world.vendor.entry(attempt).unwrap().status,
        ProviderStatus::Declined
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
    assert!(
        matches!(refused, Err(SettingsRefused::Problems(all)) if all[0].to_string().contains("alpha"))
    );
}

#[tokio::test]
async fn an_approval_with_a_pending_refund_is_refused_until_it_names_it() {
    let (world, payment, attempt) = in_review().await;
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    world.vendor.script_refunds([RefundScript::Pending]);
    let asked = RefundAsked {
        amount: Some(Minor(1000)),
        key: None,
        reason: None,
    };
    let of = RefundOf::Payment(payment);
    let ordered = world.gateway.refund_by_operator(of, asked, audited());
    let RefundOutcome::Created(given) = ordered.await.unwrap() else {
        panic!("a replay");
    };
    let id = given.refund.id.to_string();
    let refused = world.decide(payment, Resolution::Approve).await;
    assert!(
        matches!(&refused, Err(DecideError::DespiteNeeded(ids)) if *ids == [id.clone()]),
        "{refused:?}"
    );
    let possible = world.aggregate(payment).await;
    let possible = world.gateway.possible(&possible).await.unwrap();
    let approve = possible.approve.unwrap();
    assert_eq!(
        (approve.amount, approve.needs_accept, &approve.despite),
        (Minor(3990), true, &vec![id.clone()])
    );
    let named = NewDecision {
        accept: Some(Accepted {
            amount: Minor(3990),
            currency: "EUR".into(),
            usd: None,
        }),
        despite: vec![id],
        ..decision(Resolution::Approve)
    };
    let decided = world.gateway.review(payment, named, audited()).await;
    assert_eq!(decided.unwrap(), Decided::Done);
    let payment = world.aggregate(payment).await.payment;
    assert_eq!(payment.status, Status::Completed);
    assert_eq!(payment.short, Some((Minor(3990), "EUR".into())));
}

#[tokio::test]
async fn a_correction_is_booked_once_for_each_key() {
    let world = World::new().await;
    let asked = |amount| CorrectionAsked {
        account: account_id("alpha"),
        payment: None,
        effect: Effect::Out,
        bucket: None,
        amount: Minor(amount),
        currency: "EUR".into(),
        occurred_at: None,
        provider_references: vec!["stmt-1".into()],
        key: IdempotencyKey::parse("correction-1").unwrap(),
    };
    let first = world.gateway.correct(asked(700), audited()).await.unwrap();
    let Corrected::Booked(movement) = first else {
        panic!("a replay");
    };
    assert_eq!(
        (movement.kind, movement.effect, movement.payment),
        (MovementKind::Correction, Effect::Out, None)
    );
    let again = world.gateway.correct(asked(700), audited()).await.unwrap();
    assert_eq!(again, Corrected::Replayed(movement));
    let other = world.gateway.correct(asked(800), audited()).await;
    assert!(matches!(other, Err(CorrectionError::Differs("amount"))));
}
