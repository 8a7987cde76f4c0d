//! What ends a review, and what an operator may do when.

use super::*;

#[test]
fn the_providers_own_review_ends_with_its_final_word() {
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Review);
    shop.callback(1, VendorStatus::Processing);
    assert_eq!(
        (shop.status(), shop.duty()),
        (Status::Review, None),
        "no final word"
    );
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    for denied in [
        VendorStatus::Declined,
        VendorStatus::Failed,
        VendorStatus::Expired,
    ] {
        let mut shop = Shop::started();
        shop.callback(1, VendorStatus::Review);
        shop.callback(1, denied);
        assert_eq!(
            (shop.status(), shop.settlement()),
            (Status::Failed, Settlement::Failed)
        );
    }
}

#[test]
fn a_final_word_that_is_wrong_or_risky_still_needs_an_operator() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, VendorStatus::Review);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Review);
    let wrong = Report {
        received: Minor(1),
        ..confirmed()
    };
    shop.hear(1, wrong, Via::Callback);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
}

#[test]
fn an_operator_decides_what_the_provider_has_in_review() {
    for (settlement, becomes) in [
        (None, Settlement::Pending),
        (Some(Settlement::Pending), Settlement::Pending),
        (Some(Settlement::Confirmed), Settlement::Confirmed),
    ] {
        let mut shop = Shop::started();
        shop.callback(1, VendorStatus::Review);
        shop.approve(settlement).unwrap();
        assert_eq!(
            (shop.status(), shop.settlement()),
            (Status::Completed, becomes)
        );
        let told = usize::from(becomes == Settlement::Confirmed);
        assert_eq!(shop.told(EventType::PaymentCompleted), told);
        // The provider's word that follows is news of the payment's own money.
        shop.hear(1, confirmed(), Via::Callback);
        assert_eq!(shop.settlement(), Settlement::Confirmed);
        assert_eq!(shop.told(EventType::PaymentCompleted), 1);
        assert!(shop.work.is_empty());
    }
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Review);
    shop.decline().unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Failed, Settlement::Failed)
    );
    // Money that comes all the same is late.
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.listed(1), [WorkKind::Late]);
}

#[test]
fn decisions_outside_review_are_refused() {
    let mut shop = Shop::started();
    let wrong = Refusal::WrongStatus(Status::Pending);
    assert_eq!(shop.approve(None), Err(wrong.clone()));
    assert_eq!(shop.decline(), Err(wrong));
}

#[test]
fn an_open_attempt_is_closed_before_a_review_is_decided_without_money() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.callback(1, VendorStatus::Processing);
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.approve(None), Err(Refusal::VendorFirst(id(2))));
    assert_eq!(
        shop.claim(1, Errand::ApprovedCapture),
        Err(Refusal::AttemptOpen(id(2)))
    );
    shop.close(2);
    assert_eq!(shop.approve(None), Err(Refusal::VendorFirst(id(1))));
    assert_eq!(shop.decline(), Err(Refusal::VendorFirst(id(1))));
}

#[test]
fn an_approved_capture_is_of_reviews_only() {
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Processing);
    assert_eq!(
        shop.claim(1, Errand::ApprovedCapture),
        Err(Refusal::WrongStatus(Status::Processing))
    );
}

#[test]
fn an_approved_capture_that_is_lost_is_looked_after() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, VendorStatus::Processing);
    shop.claim(1, Errand::ApprovedCapture).unwrap();
    assert_eq!(shop.duty(), None);
    shop.pass(LEASE);
    assert_eq!(shop.duty(), Some(Duty::Look(id(1))));
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Review, AttemptState::Captured)
    );
}

#[test]
fn cancel_closes_an_open_attempt_first() {
    let mut shop = Shop::started();
    assert_eq!(shop.act(Act::Cancel), Err(Refusal::VendorFirst(id(1))));
    shop.close(1);
    shop.act(Act::Cancel).unwrap();
    assert_eq!(shop.status(), Status::Cancelled);
    assert_eq!(
        shop.act(Act::Cancel),
        Err(Refusal::WrongStatus(Status::Cancelled))
    );
}

#[test]
fn redaction_erases_the_payer_and_keeps_marks_and_money() {
    let mut shop = Shop::started();
    shop.step(Step::Returned {
        attempt: id(1),
        query: Secret::new("token=1"),
    });
    shop.hear(1, confirmed(), Via::Return);
    shop.ledger.payment.email_mark = Some([7; 32]);
    shop.step(Step::Redact);
    assert_eq!(shop.attempt(1).returned, None);
    assert_eq!(shop.ledger.payment.email_mark, Some([7; 32]));
    assert_eq!(shop.attempt(1).vendor.as_ref().unwrap().received, DUE);
}

#[test]
fn a_capture_for_an_approval_leaves_the_last_word_to_the_approval() {
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Review);
    shop.callback(1, VendorStatus::Processing);
    let approve = Some(Settlement::Confirmed);
    assert_eq!(shop.approve(approve), Err(Refusal::VendorFirst(id(1))));
    shop.claim(1, Errand::ApprovedCapture).unwrap();
    shop.hear(1, report(VendorStatus::Completed), Via::Query);
    assert_eq!(shop.status(), Status::Review);
    shop.approve(approve).unwrap();
    assert_eq!(shop.settlement(), Settlement::Confirmed);
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}
