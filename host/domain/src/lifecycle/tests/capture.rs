//! Authorization and capture, risk review, settlement, fee.

use super::*;

fn authorised() -> Shop {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    shop
}

#[test]
fn an_approval_is_claimed_once_then_captured() {
    let mut shop = authorised();
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    assert_eq!(shop.state(1), AttemptState::Capturing);
    let busy = Refusal::Busy(START.after(LEASE));
    assert_eq!(shop.claim(1, ClaimPurpose::Capture), Err(busy));
    assert_eq!(shop.next_action(), None);
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
    assert_eq!(shop.aggregate.due_at(), None);
}

#[test]
fn a_capture_that_the_provider_holds_does_not_end_with_the_authorization() {
    let mut shop = Shop::started();
    let mut approved = report(ProviderStatus::Processing);
    approved.particulars.authorised_at = Some(shop.now);
    approved.particulars.capture_before = Some(shop.now.after(HOUR * 3));
    shop.hear(1, approved, Via::Callback);
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop.hear(1, report(ProviderStatus::Review), Via::Query);
    shop.pass(HOUR * 4);
    let authorization = Some(NextAction::Authorization(id(1)));
    assert_ne!(shop.next_action(), authorization);
    shop.act(Act::Authorization(id(1))).unwrap();
    assert_eq!(shop.status(), Status::Review);
}

#[test]
fn a_capture_whose_answer_is_lost_is_repeated_when_its_lease_is_over() {
    let mut shop = authorised();
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    // A callback repeats the authorization during the capture: the claim stays.
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(shop.state(1), AttemptState::Capturing);
    shop.pass(LEASE);
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
    assert!(shop.claim(1, ClaimPurpose::Capture).is_ok());
}

#[test]
fn an_answer_that_comes_late_leaves_the_claim_of_the_next_one() {
    let mut shop = authorised();
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    let late = Query {
        purpose: QueryPurpose::Capture,
        ..shop.asked(1)
    };
    shop.pass(LEASE);
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    let busy = shop.attempt(1).claim.busy_until().unwrap();
    let silence = Step::QueryFailed {
        attempt: id(1),
        asked: late,
        absent: false,
        scheduled: false,
    };
    let approval = Step::Report {
        attempt: id(1),
        report: report(ProviderStatus::Processing),
        via: Via::Query,
        asked: Some(late),
    };
    for step in [silence, approval] {
        shop.step(step);
        let again = shop.claim(1, ClaimPurpose::Capture);
        assert_eq!(again, Err(Refusal::Busy(busy)), "it captures meanwhile");
    }
    // The result of the newer capture ends it.
    shop.silent(1, QueryPurpose::Capture, false);
    assert_eq!(shop.attempt(1).claim.busy_until(), None);
}

#[test]
fn a_capture_in_vain_is_repeated_with_growing_pauses() {
    let mut shop = authorised();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        shop.claim(1, ClaimPurpose::Capture).unwrap();
        shop.silent(1, QueryPurpose::Capture, false);
        let ready = shop.attempt(1).claim.hold_until().unwrap();
        pauses.push(ready.since(shop.now).as_secs());
        shop.now = ready;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn only_an_approval_is_captured() {
    let mut shop = Shop::started();
    let wrong = Refusal::WrongState(AttemptState::Open);
    assert_eq!(shop.claim(1, ClaimPurpose::Capture), Err(wrong));
    shop.callback(1, ProviderStatus::Declined);
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(
        shop.status(),
        Status::Review,
        "an approval of an ended attempt"
    );
    let wrong = Refusal::WrongStatus(Status::Review);
    assert_eq!(shop.claim(1, ClaimPurpose::Capture), Err(wrong));
}

#[test]
fn risk_review_comes_before_capture() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.next_action(), None, "the authorisation waits");
    assert!(shop.claim(1, ClaimPurpose::Capture).is_err());
    shop.approve(None).unwrap();
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(
        shop.applied.last(),
        Some(&(Status::Review, Status::Completed))
    );
    assert!(!shop.aggregate.payment.risk_review);
}

#[test]
fn risk_review_comes_instead_of_completion_where_money_moves_in_one_step() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Review, Settlement::Pending)
    );
    shop.approve(Some(Settlement::Pending)).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Pending)
    );
    assert_eq!(shop.told(EventType::PaymentCompleted), 0);
}

#[test]
fn a_declined_authorisation_is_closed_first() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, ProviderStatus::Processing);
    shop.decline().unwrap();
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
    shop.close(1);
    assert_eq!(shop.state(1), AttemptState::Closed);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Failed, Settlement::Failed)
    );
    assert!(shop.work.is_empty());
}

#[test]
fn confirmation_may_come_later_and_is_told_then() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Completed);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Pending)
    );
    assert_eq!(shop.told(EventType::PaymentCompleted), 0);
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(shop.settlement(), Settlement::Confirmed);
    assert_eq!(
        shop.events.last(),
        Some(&NewEvent {
            kind: EventType::PaymentCompleted,
            status: Status::Completed,
            settlement: Settlement::Confirmed,
            subject: None,
        })
    );
    let line = &shop.last.transitions[0];
    assert!(line.applied && line.settlement == Settlement::Confirmed);
}

#[test]
fn settlement_facts_that_come_early_are_kept_until_completion() {
    let mut shop = Shop::started();
    let early = Report {
        settlement: ProviderSettlement::Confirmed,
        ..report(ProviderStatus::VerificationPending)
    };
    shop.hear(1, early, Via::Callback);
    assert_eq!(shop.settlement(), Settlement::Pending);
    shop.callback(1, ProviderStatus::Completed);
    assert_eq!(shop.settlement(), Settlement::Confirmed);
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}

#[test]
fn money_that_will_not_settle_is_listed_and_never_called_confirmed() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Completed);
    let lost = Report {
        settlement: ProviderSettlement::Failed,
        ..report(ProviderStatus::Completed)
    };
    shop.hear(1, lost, Via::Callback);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Failed)
    );
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
    assert_eq!(shop.told(EventType::PaymentCompleted), 0);
}

#[test]
fn the_fee_is_recorded_on_completed_live_payments_only() {
    for (environment, fee) in [
        (Environment::Live, Some(Minor(54))),
        (Environment::Test, None),
    ] {
        let mut shop = Shop::with(payment(environment, false));
        shop.start(1);
        assert_eq!(shop.aggregate.payment.fee, None);
        shop.callback(1, ProviderStatus::Completed);
        assert_eq!(shop.aggregate.payment.fee, fee);
    }
}

#[test]
fn a_failed_payment_never_settles_and_the_unpaid_stay_pending() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Failed);
    assert_eq!(shop.settlement(), Settlement::Failed);
    let mut shop = Shop::new();
    shop.act(Act::Cancel).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Cancelled, Settlement::Pending)
    );
    assert_eq!(shop.told(EventType::PaymentCancelled), 1);
}
