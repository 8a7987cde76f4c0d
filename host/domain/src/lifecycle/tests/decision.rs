//! An operator's decision is backed by money, made once, and completed by the provider's report.

use super::*;

fn under_risk() -> Shop {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, ProviderStatus::Processing);
    shop
}

/// An approval with a capture in flight.
fn capturing() -> Shop {
    let mut shop = under_risk();
    shop.approve(None).unwrap();
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop
}

fn taken(amount: u64, currency: &str) -> Report {
    Report {
        received: Minor(amount),
        currency: currency.into(),
        ..confirmed()
    }
}

#[test]
fn an_approval_is_finished_by_a_capture_that_is_confirmed_later() {
    let mut shop = capturing();
    // The provider accepted the capture; its notification comes later.
    shop.hear(1, report(ProviderStatus::Processing), Via::Query);
    assert_eq!(
        (shop.status(), shop.decided()),
        (Status::Review, DecisionState::Waiting)
    );
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.settlement(), shop.decided()),
        (
            Status::Completed,
            Settlement::Confirmed,
            DecisionState::Done
        )
    );
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}

#[test]
fn an_approval_whose_capture_is_refused_lapses_without_completing() {
    for refused in [
        ProviderStatus::Declined,
        ProviderStatus::Cancelled,
        ProviderStatus::Expired,
    ] {
        let mut shop = capturing();
        shop.hear(1, report(refused), Via::Query);
        assert_eq!(
            (shop.status(), shop.settlement(), shop.decided()),
            (Status::Review, Settlement::Pending, DecisionState::Lapsed)
        );
        assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Refused));
        assert_eq!(shop.told(EventType::PaymentCompleted), 0);
        // The operator can only decline, or an admin vouch for the money.
        assert_eq!(shop.approve(None), Err(Refusal::NeedsVouch));
        shop.decline().unwrap();
        assert_eq!(shop.status(), Status::Failed);
    }
}

#[test]
fn an_authorization_that_ends_during_a_review_fails_the_payment() {
    let mut shop = under_risk();
    shop.callback(1, ProviderStatus::Cancelled);
    assert_eq!(
        (shop.status(), shop.told(EventType::PaymentFailed)),
        (Status::Failed, 1)
    );
}

#[test]
fn another_amount_or_currency_than_due_does_not_finish_an_approval() {
    for (amount, currency) in [(100, "EUR"), (DUE.0, "USD"), (DUE.0 - 1, "EUR")] {
        let mut shop = capturing();
        shop.hear(1, taken(amount, currency), Via::Query);
        assert_eq!(
            (shop.status(), shop.decided()),
            (Status::Review, DecisionState::Lapsed),
            "{amount} {currency}"
        );
        assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Mismatch));
        // Now the operator has seen it, and may accept exactly that.
        assert_eq!(
            shop.approve(None),
            Err(Refusal::NotEnough {
                amount: Minor(amount),
                currency: currency.into()
            })
        );
        shop.accept(amount + 1, "EUR").unwrap_err();
        shop.accept(amount, currency).unwrap();
        assert_eq!(
            shop.aggregate.payment.short,
            Some((Minor(amount), currency.into()))
        );
        let decision = shop.aggregate.payment.decision.as_ref().unwrap();
        assert_eq!(
            (decision.received, decision.currency.as_str()),
            (Minor(amount), currency)
        );
        assert_eq!(shop.status(), Status::Completed);
    }
}

#[test]
fn money_given_back_during_a_review_cannot_be_approved() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.hear(1, confirmed(), Via::Callback);
    let back = |returned| Report {
        returned: Minor(returned),
        ..confirmed()
    };
    shop.hear(1, back(DUE.0), Via::Callback);
    assert_eq!(shop.approve(None), Err(Refusal::NeedsVouch));
    assert_eq!(shop.status(), Status::Review);

    // Refunded late money: an approval cannot use it.
    let mut shop = Shop::started();
    shop.close(1);
    shop.hear(1, confirmed(), Via::Callback);
    shop.hear(1, back(DUE.0), Via::Callback);
    assert_eq!(shop.approve(None), Err(Refusal::NeedsVouch));
    assert!(shop.work.is_empty(), "nothing is owed");
}

#[test]
fn what_is_left_after_a_partial_refund_can_be_accepted() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.hear(1, confirmed(), Via::Callback);
    let back = Report {
        returned: Minor(90),
        ..confirmed()
    };
    shop.hear(1, back, Via::Callback);
    shop.accept(DUE.0 - 90, "EUR").unwrap();
    assert_eq!(shop.status(), Status::Completed);
    let decision = shop.aggregate.payment.decision.as_ref().unwrap();
    assert_eq!(decision.received, Minor(DUE.0 - 90));
}

#[test]
fn a_refund_that_comes_with_the_capture_makes_an_approval_lapse() {
    let mut shop = capturing();
    let back = Report {
        returned: Minor(90),
        ..confirmed()
    };
    shop.hear(1, back, Via::Query);
    assert_eq!(
        (shop.status(), shop.decided()),
        (Status::Review, DecisionState::Lapsed)
    );
    assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Refund));
}

#[test]
fn a_decision_is_taken_once() {
    let mut shop = capturing();
    assert_eq!(shop.approve(None), Ok(StepOutcome::Nothing));
    let other = Some(Settlement::Confirmed);
    assert_eq!(shop.approve(other), Err(Refusal::DecisionWaits));
    assert_eq!(shop.decline(), Err(Refusal::DecisionWaits));
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        shop.approve(None),
        Ok(StepOutcome::Nothing),
        "done: the same"
    );
    let over = Err(Refusal::WrongStatus(Status::Completed));
    assert_eq!(shop.decline(), over);

    let mut shop = under_risk();
    shop.decline().unwrap();
    assert_eq!(shop.decline(), Ok(StepOutcome::Nothing));
    assert_eq!(shop.approve(None), Err(Refusal::DecisionWaits));
    shop.close(1);
    assert_eq!(
        (shop.status(), shop.decline()),
        (Status::Failed, Ok(StepOutcome::Nothing))
    );
}

#[test]
fn a_decision_lapses_after_five_questions_without_an_answer() {
    let mut shop = capturing();
    for round in 1..=5 {
        assert_eq!(shop.decided(), DecisionState::Waiting, "{round}");
        shop.silent(1, QueryPurpose::Capture, false);
        shop.now = shop.attempt(1).claim.hold_until().unwrap();
        if round < 5 {
            assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
            shop.claim(1, ClaimPurpose::Capture).unwrap();
        }
    }
    assert_eq!(
        (shop.status(), shop.decided()),
        (Status::Review, DecisionState::Lapsed)
    );
    assert_ne!(shop.next_action(), Some(NextAction::Capture(id(1))));
    // An answer in between resets the count.
    let mut shop = capturing();
    for round in 0..8 {
        shop.silent(1, QueryPurpose::Capture, false);
        if round % 4 == 3 {
            shop.hear(1, report(ProviderStatus::Processing), Via::Query);
        }
    }
    assert_eq!(shop.decided(), DecisionState::Waiting);
}

/// Reports `processing` for each due action until the waiting decision lapses, for at most 100 days.
fn live_without_news(shop: &mut Shop) {
    let end = shop.now.after(DAY * 100);
    while shop.decided() == DecisionState::Waiting && shop.now < end {
        let due = shop.aggregate.due_at().expect("a waiting approval is due");
        shop.now = shop.now.max(due);
        match shop.next_action() {
            Some(NextAction::Capture(_)) => {
                shop.claim(1, ClaimPurpose::Capture).unwrap();
            }
            Some(NextAction::Query(_)) => {}
            other => panic!("{other:?}"),
        }
        shop.hear(1, report(ProviderStatus::Processing), Via::Query);
    }
}

#[test]
fn an_approval_whose_capture_is_never_confirmed_lapses_after_the_last_query() {
    let lapsed = || {
        let mut shop = capturing();
        live_without_news(&mut shop);
        assert_eq!(
            (shop.status(), shop.decided(), shop.listed(1)),
            (
                Status::Review,
                DecisionState::Lapsed,
                vec![WorkKind::Unsettled]
            )
        );
        assert!(shop.now.since(START) >= DAY * 35);
        assert_eq!(
            shop.aggregate.due_at(),
            None,
            "an operator decides what follows"
        );
        shop
    };
    // After another approval, capture and queries start again.
    let mut shop = lapsed();
    let again = shop.now;
    shop.approve(None).unwrap();
    assert_eq!(
        (shop.decided(), shop.work.len()),
        (DecisionState::Waiting, 0)
    );
    live_without_news(&mut shop);
    assert_eq!(shop.decided(), DecisionState::Lapsed);
    assert!(shop.now.since(again) >= DAY * 35);
    // A late notice does not complete the payment, because an operator decides.
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!((shop.status(), shop.work.len()), (Status::Review, 0));
    shop.approve(None).unwrap();
    assert_eq!(shop.status(), Status::Completed);

    let mut shop = lapsed();
    shop.decline().unwrap();
    assert_eq!(
        (shop.status(), shop.settlement(), shop.listed(1)),
        (
            Status::Failed,
            Settlement::Pending,
            vec![WorkKind::Unsettled]
        )
    );
    let mut shop = lapsed();
    shop.vouch(None).unwrap();
    assert_eq!(shop.status(), Status::Completed);
}

#[test]
fn a_declined_payment_that_the_provider_holds_is_queried_weekly_until_180_days_after_its_start() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Review);
    shop.decline().unwrap();
    let mut asked = Vec::new();
    while let Some(due) = shop.aggregate.due_at() {
        shop.now = shop.now.max(due);
        if shop.next_action() == Some(NextAction::CarryOut) {
            shop.act(Act::CarryOut).unwrap();
        } else {
            asked.push(shop.now.since(START));
            shop.hear(1, report(ProviderStatus::Review), Via::Query);
        }
        assert!(shop.now < START.after(DAY * 200), "queried for ever");
    }
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
    let late: Vec<_> = asked.iter().filter(|at| **at > DAY * 40).collect();
    assert!(
        late.windows(2).all(|pair| *pair[1] - *pair[0] == DAY * 7),
        "{late:?}"
    );
    assert!(
        late.last()
            .is_some_and(|last| **last > DAY * 173 && **last <= DAY * 180),
        "{late:?}"
    );
    // The provider's denial ends it.
    shop.hear(1, report(ProviderStatus::Declined), Via::Query);
    assert_eq!(
        (shop.settlement(), shop.work.len()),
        (Settlement::Failed, 0)
    );
}

#[test]
fn an_approval_that_the_vendor_forgets_lapses_and_a_decline_goes_through() {
    let mut shop = capturing();
    for _ in 0..5 {
        shop.silent(1, QueryPurpose::Capture, true);
    }
    assert_eq!(shop.decided(), DecisionState::Lapsed);
    shop.decline().unwrap();
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.silent(1, QueryPurpose::Cancel, true);
    assert_eq!(
        (shop.status(), shop.state(1), shop.decided()),
        (Status::Failed, AttemptState::Closed, DecisionState::Done)
    );
    // No provider has confirmed that no money was captured.
    assert_eq!(
        (shop.settlement(), shop.listed(1)),
        (Settlement::Pending, vec![WorkKind::Unsettled])
    );
    assert!(
        shop.aggregate.due_at().is_some(),
        "the provider is asked further"
    );
    shop.hear(1, report(ProviderStatus::Declined), Via::Query);
    assert_eq!(
        (shop.settlement(), shop.listed(1)),
        (Settlement::Failed, vec![])
    );
}

#[test]
fn a_decline_that_meets_a_capture_leaves_its_money_on_the_list() {
    let mut shop = under_risk();
    shop.decline().unwrap();
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.decided()),
        (Status::Failed, DecisionState::Done)
    );
    assert_eq!(shop.work, [(WorkKind::Surplus, id(1), DUE)]);
}

#[test]
fn without_money_an_admin_vouches_and_that_is_shown_for_good() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Review);
    assert_eq!(shop.approve(None), Err(Refusal::NeedsVouch));
    shop.vouch(None).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Pending)
    );
    assert!(shop.aggregate.payment.vouched);
    assert_eq!(shop.vouch(None), Ok(StepOutcome::Nothing), "the same again");
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
    assert_eq!(shop.told(EventType::PaymentCompleted), 0);
    // Money that arrives after all is the payment's own.
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.settlement(), Settlement::Confirmed);
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
    assert!(shop.aggregate.payment.vouched);
}

#[test]
fn a_refused_capture_can_be_vouched_for_and_its_money_is_still_looked_for() {
    let mut shop = capturing();
    shop.hear(1, report(ProviderStatus::Declined), Via::Query);
    shop.vouch(Some(Settlement::Confirmed)).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
}

#[test]
fn a_vouched_approval_replaces_one_that_waits_and_captures_where_it_still_can() {
    let mut shop = capturing();
    shop.silent(1, QueryPurpose::Capture, false);
    shop.vouch(None).unwrap();
    assert_eq!(shop.status(), Status::Completed);
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.settlement(), Settlement::Confirmed);

    let mut shop = under_risk();
    shop.vouch(None).unwrap();
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.aggregate.payment.vouched),
        (Status::Completed, false)
    );
}

#[test]
fn a_completed_payment_that_never_settles_can_be_vouched_for() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Completed);
    let over = Err(Refusal::WrongStatus(Status::Completed));
    assert_eq!(shop.approve(Some(Settlement::Confirmed)), over);
    assert_eq!(shop.vouch(None), over);
    shop.vouch(Some(Settlement::Confirmed)).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
    assert_eq!(
        shop.vouch(Some(Settlement::Confirmed)),
        Ok(StepOutcome::Nothing)
    );
}

#[test]
fn an_operator_sends_what_hangs_to_review_and_decides_it() {
    let mut shop = Shop::started();
    assert_eq!(
        shop.act(Act::ToReview),
        Err(Refusal::WrongStatus(Status::Pending))
    );
    shop.callback(1, ProviderStatus::VerificationPending);
    shop.act(Act::ToReview).unwrap();
    assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Operator));
    // The provider's report does not end a review that an operator requested.
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Review, AttemptState::Captured)
    );
    shop.approve(None).unwrap();
    assert_eq!(shop.settlement(), Settlement::Confirmed);
}

#[test]
fn another_attempt_is_closed_before_a_late_authorisation_is_captured() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.start(2);
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(shop.status(), Status::Review);
    shop.approve(None).unwrap();
    assert!(shop.claim(1, ClaimPurpose::Capture).is_err());
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(2))));
    shop.close(2);
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(shop.status(), Status::Completed);
}

#[test]
fn the_operator_names_the_settlement_that_a_capture_does_not_prove() {
    let mut shop = under_risk();
    shop.approve(Some(Settlement::Confirmed)).unwrap();
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop.hear(1, report(ProviderStatus::Completed), Via::Query);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}

#[test]
fn an_authorisation_that_the_vendor_holds_for_review_is_captured_by_an_approval() {
    let held = || {
        let mut report = report(ProviderStatus::Review);
        report.particulars.authorised_at = Some(START);
        report
    };
    let mut shop = Shop::started();
    shop.hear(1, held(), Via::Callback);
    assert_eq!((shop.status(), shop.next_action()), (Status::Review, None));
    shop.approve(None).unwrap();
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    // A notification that repeats it proves nothing about the capture; as the capture's result it is a refusal.
    shop.hear(1, held(), Via::Callback);
    assert_eq!(shop.decided(), DecisionState::Waiting);
    shop.hear(1, held(), Via::Query);
    assert_eq!(
        (shop.status(), shop.decided()),
        (Status::Review, DecisionState::Lapsed)
    );
    // The provider's own review: its final status still ends it.
    assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Vendor));
    shop.approve(None).unwrap();
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.decided()),
        (Status::Completed, DecisionState::Done)
    );
    let mut shop = Shop::started();
    shop.hear(1, held(), Via::Callback);
    shop.decline().unwrap();
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
    shop.close(1);
    assert_eq!(shop.status(), Status::Failed);
}
