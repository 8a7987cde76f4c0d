//! Second captures, late money, wrong amounts, refunds and disputes.

use super::*;

fn received(amount: u64, currency: &str) -> Report {
    Report {
        received: Minor(amount),
        currency: currency.into(),
        ..report(ProviderStatus::Completed)
    }
}

fn completed() -> Shop {
    let mut shop = Shop::started();
    shop.hear(1, confirmed(), Via::Callback);
    shop
}

#[test]
fn a_second_capture_of_a_completed_payment_is_surplus_on_the_work_list() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.hear(2, confirmed(), Via::Callback);
    let outcome = shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(outcome, StepOutcome::Done);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Completed, AttemptState::Surplus)
    );
    assert_eq!(shop.work, [(WorkKind::Surplus, id(1), DUE)]);
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
    assert_eq!(shop.told(EventType::PaymentReview), 0);
    shop.hear(1, confirmed(), Via::Query);
    assert!(shop.last.work.is_empty(), "told twice, listed once");
}

#[test]
fn money_on_a_closed_attempt_of_an_unfinished_payment_goes_to_review() {
    let mut shop = Shop::started();
    shop.close(1);
    assert_eq!(shop.status(), Status::Created);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Review, AttemptState::Surplus)
    );
    assert_eq!(shop.listed(1), [WorkKind::Surplus]);
}

#[test]
fn money_on_one_attempt_closes_the_other_that_is_open() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(2))));
    shop.close(2);
    assert_eq!(
        (shop.status(), shop.state(2)),
        (Status::Review, AttemptState::Closed)
    );
    shop.approve(None).unwrap();
    assert_eq!(
        (shop.state(1), shop.settlement()),
        (AttemptState::Captured, Settlement::Confirmed)
    );
    assert!(shop.work.is_empty(), "approved money makes no work item");
}

#[test]
fn the_payer_who_pays_both_ways_before_the_close_leaves_one_payment_and_one_surplus() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.hear(1, confirmed(), Via::Callback);
    shop.hear(2, confirmed(), Via::Callback);
    assert_eq!(
        (shop.state(1), shop.state(2)),
        (AttemptState::Surplus, AttemptState::Captured)
    );
    assert_eq!(shop.status(), Status::Review);
    shop.approve(None).unwrap();
    assert_eq!(shop.listed(1), [WorkKind::Surplus]);
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}

#[test]
fn an_authorisation_on_a_completed_payment_is_cancelled() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.hear(2, confirmed(), Via::Callback);
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(shop.status(), Status::Completed);
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
    assert!(shop.claim(1, ClaimPurpose::Capture).is_err());
    shop.close(1);
    assert_eq!(shop.aggregate.due_at(), None);
    assert!(shop.work.is_empty());
}

#[test]
fn late_money_moves_a_payment_that_is_over_to_review_never_further() {
    let over: [fn() -> Shop; 3] = [
        || {
            let mut shop = Shop::started();
            shop.callback(1, ProviderStatus::Failed);
            shop
        },
        || {
            let mut shop = Shop::started();
            shop.close(1);
            shop.act(Act::Cancel).unwrap();
            shop
        },
        || {
            let mut shop = Shop::started();
            shop.close(1);
            shop.pass(DAY);
            shop.act(Act::Expire).unwrap();
            shop
        },
    ];
    for make in over {
        let mut shop = make();
        assert!(shop.status().is_final());
        shop.hear(1, confirmed(), Via::Callback);
        assert_eq!(
            (shop.status(), shop.settlement()),
            (Status::Review, Settlement::Pending)
        );
        assert_eq!(shop.listed(1), [WorkKind::Late]);
        assert_eq!(shop.told(EventType::PaymentReview), 1);
        shop.approve(None).unwrap();
        assert_eq!(shop.settlement(), Settlement::Confirmed);
        assert!(shop.work.is_empty());

        let mut shop = make();
        shop.callback(1, ProviderStatus::Processing);
        assert_eq!(shop.status(), Status::Review);
        assert_eq!(
            shop.next_action(),
            None,
            "late approvals wait for the operator"
        );
        shop.approve(None).unwrap();
        assert_eq!(shop.status(), Status::Review);
        shop.claim(1, ClaimPurpose::Capture).unwrap();
        shop.hear(1, confirmed(), Via::Query);
        assert_eq!(
            (shop.status(), shop.state(1)),
            (Status::Completed, AttemptState::Captured)
        );
    }
}

#[test]
fn money_declined_once_does_not_come_back_by_repetition() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.hear(1, confirmed(), Via::Callback);
    shop.decline().unwrap();
    assert_eq!(shop.status(), Status::Failed);
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(shop.status(), Status::Failed);
    assert_eq!(shop.listed(1), [WorkKind::Surplus]);
}

#[test]
fn a_wrong_amount_or_currency_is_looked_at_never_completed() {
    for (amount, currency) in [
        (DUE.0 - 1, "EUR"),
        (DUE.0 + 1, "EUR"),
        (DUE.0, "USD"),
        (DUE.0, "XBT"),
    ] {
        let mut shop = Shop::started();
        shop.hear(1, received(amount, currency), Via::Callback);
        assert_eq!(shop.status(), Status::Review, "{amount} {currency}");
        // Only an operator ends it, regardless of later reports.
        shop.hear(1, confirmed(), Via::Query);
        assert_eq!(shop.status(), Status::Review);
        shop.decline().unwrap();
        assert_eq!(
            (shop.status(), shop.state(1)),
            (Status::Failed, AttemptState::Surplus)
        );
        let expected: &[_] = if amount > DUE.0 {
            &[WorkKind::Excess, WorkKind::Surplus]
        } else {
            &[WorkKind::Surplus]
        };
        assert_eq!(shop.listed(1), expected);
    }
}

#[test]
fn an_approval_over_a_wrong_amount_is_not_captured() {
    let mut shop = Shop::started();
    let authorised = Report {
        status: ProviderStatus::Processing,
        ..received(DUE.0 * 2, "EUR")
    };
    shop.hear(1, authorised, Via::Callback);
    assert_eq!((shop.status(), shop.next_action()), (Status::Review, None));
}

#[test]
fn overpaid_over_the_invoice_completes_with_its_excess_listed_and_below_it_does_not() {
    let received = |amount, currency| Report {
        status: ProviderStatus::Overpaid,
        ..received(amount, currency)
    };
    let mut shop = Shop::started();
    shop.hear(1, received(DUE.0 + 7, "EUR"), Via::Callback);
    assert_eq!(shop.status(), Status::Completed);
    assert_eq!(shop.work, [(WorkKind::Excess, id(1), Minor(7))]);
    shop.hear(1, received(DUE.0 + 9, "EUR"), Via::Callback);
    assert_eq!(shop.work, [(WorkKind::Excess, id(1), Minor(9))]);
    for (amount, currency) in [(DUE.0 - 1, "EUR"), (DUE.0 + 7, "USD")] {
        let mut shop = Shop::started();
        shop.hear(1, received(amount, currency), Via::Callback);
        assert_eq!(shop.status(), Status::Review);
    }
    // Partly paid when it expired: the money stays visible to operators.
    let mut shop = Shop::started();
    let partly = Report {
        status: ProviderStatus::Expired,
        ..received(5, "EUR")
    };
    shop.hear(1, partly, Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    shop.decline().unwrap();
    assert_eq!(shop.work, [(WorkKind::Surplus, id(1), Minor(5))]);
}

#[test]
fn money_given_back_before_completion_is_looked_at() {
    let mut shop = Shop::started();
    let back = Report {
        returned: Minor(1),
        ..confirmed()
    };
    shop.hear(1, back, Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.told(EventType::PaymentRefunded), 0);
}

#[test]
fn each_refund_after_completion_is_told_and_changes_neither_status_nor_settlement() {
    let mut shop = completed();
    for (total, told) in [(100, 1), (100, 1), (50, 1), (300, 2)] {
        let back = Report {
            returned: Minor(total),
            ..confirmed()
        };
        shop.hear(1, back, Via::Callback);
        assert_eq!(shop.told(EventType::PaymentRefunded), told, "{total}");
        assert_eq!(
            (shop.status(), shop.settlement()),
            (Status::Completed, Settlement::Confirmed)
        );
    }
    assert!(shop.work.is_empty());
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}

#[test]
fn a_dispute_after_completion_is_told_once_and_listed() {
    let mut shop = completed();
    shop.hear(1, disputed(DisputeState::Open), Via::Callback);
    shop.hear(1, disputed(DisputeState::Open), Via::Query);
    assert_eq!(shop.told(EventType::PaymentDisputed), 1);
    assert_eq!(shop.work, [(WorkKind::Dispute, id(1), Minor(3000))]);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
}

#[test]
fn a_refund_of_surplus_closes_its_item_and_is_not_told_to_the_merchant() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.hear(2, confirmed(), Via::Callback);
    shop.hear(1, confirmed(), Via::Callback);
    let back = Report {
        returned: DUE,
        ..confirmed()
    };
    shop.hear(1, back, Via::Callback);
    assert!(
        shop.work.is_empty(),
        "the surplus went back by another route"
    );
    assert_eq!(shop.told(EventType::PaymentRefunded), 0);
}

#[test]
fn a_vendor_that_takes_unconfirmed_money_back_puts_it_on_the_list() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Completed);
    shop.callback(1, ProviderStatus::Declined);
    assert_eq!(shop.status(), Status::Completed);
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
}
