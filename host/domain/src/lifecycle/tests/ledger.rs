//! The fifteen faults that the ledger was built against, each as a rule.

use super::*;
use crate::provider::{ProviderCapture, ProviderRefund};

fn operators(number: u8, bucket: Bucket, amount: Option<u64>) -> NewRefund {
    NewRefund {
        origin: RefundOrigin::Operator,
        bucket,
        ..order(number, amount)
    }
}

fn listing(id: &str, order: Option<u8>, amount: u64, state: RefundState) -> Report {
    let mut report = confirmed();
    report.particulars.refunds.push(ProviderRefund {
        id: id.into(),
        order: order.map(refund_id),
        amount: Minor(amount),
        paid_out: None,
        at: None,
        state,
    });
    report
}

/// A payment in risk review, with its money captured and confirmed.
fn in_review() -> Shop {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.status(), Status::Review);
    shop
}

#[test]
fn an_answer_from_before_the_notice_of_a_reversal_makes_no_capture_again() {
    let with_capture = |status, id: &str, reversed| {
        let mut report = report(status);
        report.particulars.captures.push(ProviderCapture {
            id: id.into(),
            amount: DUE,
            at: None,
            reversed,
        });
        report
    };
    // The notice may name another id than the query's answer.
    for id in ["capture", "reversal"] {
        let mut shop = Shop::started();
        shop.callback(1, ProviderStatus::Processing);
        let asked = Some(shop.asked(1));
        let failed = with_capture(ProviderStatus::Review, id, true);
        shop.hear(1, failed, Via::Callback);
        let report = with_capture(ProviderStatus::Completed, "capture", false);
        let (attempt, via) = (super::id(1), Via::Query);
        shop.step(Step::Report {
            attempt,
            report,
            via,
            asked,
        });
        assert_eq!(shop.booked(MovementKind::Captured).len(), 1, "{id}");
        assert_eq!(
            (shop.attempt(1).net(), shop.status()),
            (None, Status::Review)
        );
        assert_eq!(shop.approve(None), Err(Refusal::NeedsVouch));
        // The next query can report another capture.
        assert_eq!(shop.next_action(), Some(NextAction::Query(super::id(1))));
        let again = with_capture(ProviderStatus::Completed, id, false);
        shop.hear(1, again, Via::Query);
        assert_eq!(shop.attempt(1).net(), Some((DUE, "EUR")));
    }
}

#[test]
fn excess_is_refunded_once_however_often_it_is_ordered() {
    let mut shop = Shop::started();
    let mut over = confirmed();
    over.status = ProviderStatus::Overpaid;
    over.received = Minor(DUE.0 + 100);
    shop.hear(1, over, Via::Query);
    shop.refund(operators(1, Bucket::Excess, Some(100)))
        .unwrap();
    for number in 2..5 {
        assert_eq!(
            shop.refund(operators(number, Bucket::Excess, Some(100))),
            Err(Refusal::MoreThanLeft { left: Minor::ZERO })
        );
    }
    assert_eq!(
        shop.listed(1),
        [WorkKind::Excess],
        "owed until it has gone out"
    );
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    assert!(shop.work.is_empty());
    assert_eq!(
        shop.booked(MovementKind::Refunded),
        [(Some(Bucket::Excess), 100)]
    );
}

#[test]
fn an_approval_waits_for_no_refund_that_is_pending_and_no_dispute_that_is_open() {
    let mut shop = in_review();
    shop.refund(operators(1, Bucket::Own, Some(1000))).unwrap();
    let id = refund_id(1).to_string();
    assert_eq!(
        shop.approve(None),
        Err(Refusal::NeedsDespite(vec![id.clone()]))
    );
    // Money that is being refunded counts as returned.
    assert!(matches!(
        shop.approve_despite(std::slice::from_ref(&id)),
        Err(Refusal::NotEnough { amount, .. }) if amount == Minor(DUE.0 - 1000)
    ));
    shop.review(|decision| {
        decision.despite = vec![id.clone()];
        decision.accept = Some(Accepted {
            amount: Minor(DUE.0 - 1000),
            currency: "EUR".into(),
            usd: None,
        });
    })
    .unwrap();
    assert_eq!(shop.status(), Status::Completed);

    let mut shop = in_review();
    shop.hear(1, disputed(DisputeState::Open), Via::Callback);
    assert_eq!(
        shop.approve(None),
        Err(Refusal::NeedsDespite(vec!["d".into()]))
    );
    shop.approve_despite(&["d".into()]).unwrap();
    assert_eq!(
        shop.listed(1),
        [WorkKind::Dispute],
        "the dispute is still open"
    );
}

#[test]
fn a_dispute_during_a_review_is_reported_and_so_is_its_end() {
    let mut shop = in_review();
    shop.hear(1, disputed(DisputeState::Open), Via::Callback);
    assert_eq!(shop.told(EventType::PaymentDisputed), 1);
    shop.hear(1, disputed(DisputeState::Lost), Via::Callback);
    assert_eq!(shop.told(EventType::PaymentDisputeClosed), 1);
    assert_eq!(
        shop.booked(MovementKind::FundsWithdrawn),
        [(Some(Bucket::Own), 3000)]
    );
    shop.hear(1, disputed(DisputeState::Won), Via::Callback);
    assert_eq!(shop.told(EventType::PaymentDisputeClosed), 2);
    assert_eq!(
        shop.booked(MovementKind::FundsReinstated),
        [(Some(Bucket::Own), 3000)]
    );
    assert!(shop.work.is_empty());
}

#[test]
fn a_payment_whose_money_is_gone_or_disputed_is_not_confirmed() {
    let mut shop = in_review();
    shop.approve(Some(Settlement::Pending)).unwrap();
    shop.refund(operators(1, Bucket::Own, None)).unwrap();
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    shop.hear(
        1,
        listing("re-1", Some(1), DUE.0, RefundState::Succeeded),
        Via::Query,
    );
    assert_eq!(shop.settlement(), Settlement::Pending);
    assert_eq!(shop.told(EventType::PaymentCompleted), 0);

    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Completed);
    shop.hear(1, disputed(DisputeState::Open), Via::Callback);
    assert_eq!(shop.settlement(), Settlement::Pending);
    shop.hear(1, disputed(DisputeState::Won), Via::Callback);
    assert_eq!(shop.settlement(), Settlement::Confirmed);
}

#[test]
fn less_than_the_invoice_is_accepted_only_by_its_exact_amount_and_leaves_a_mark() {
    let mut shop = Shop::started();
    let mut short = confirmed();
    short.received = Minor(100);
    shop.hear(1, short.clone(), Via::Callback);
    assert!(matches!(shop.approve(None), Err(Refusal::NotEnough { .. })));
    assert_eq!(shop.accept(DUE.0, "EUR"), Err(Refusal::AcceptsTooMuch));
    // The amount has changed since the operator saw it.
    short.received = Minor(150);
    shop.hear(1, short, Via::Callback);
    assert!(matches!(
        shop.accept(100, "EUR"),
        Err(Refusal::NotEnough {
            amount: Minor(150),
            ..
        })
    ));
    shop.accept(150, "EUR").unwrap();
    assert_eq!(
        shop.aggregate.payment.short,
        Some((Minor(150), "EUR".into()))
    );
    assert_eq!(shop.settlement(), Settlement::Confirmed);
}

#[test]
fn the_fee_of_a_short_payment_is_that_of_what_was_accepted() {
    let mut live = payment(Environment::Live, false);
    live.fee_refundable = true;
    let mut shop = Shop::with(live);
    shop.start(1);
    let mut short = confirmed();
    short.received = Minor(DUE.0 / 2);
    shop.hear(1, short, Via::Callback);
    shop.accept(DUE.0 / 2, "EUR").unwrap();
    assert_eq!(shop.aggregate.payment.fee, Some(Minor(27)));
    assert_eq!(shop.booked(MovementKind::PlatformFee), [(None, 27)]);
    shop.refund(order(1, None)).unwrap();
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    assert_eq!(shop.booked(MovementKind::PlatformFeeReversed), [(None, 27)]);
}

#[test]
fn each_failed_refund_has_an_item_of_its_own() {
    let mut shop = Shop::paid();
    for (number, amount) in [(1, 1000), (2, 500)] {
        shop.refund(order(number, Some(amount))).unwrap();
        shop.call_refund(refund_id(number), RefundAnswer::Refused("no".into()));
    }
    let amounts: Vec<_> = shop.work.iter().map(|(_, _, amount)| amount.0).collect();
    assert_eq!(amounts, [1000, 500]);
    assert_eq!(shop.told(EventType::PaymentRefundFailed), 2);
    // A later refund of at least the amount replaces it.
    shop.refund(order(3, Some(700))).unwrap();
    shop.call_refund(refund_id(3), given(3, RefundState::Succeeded));
    let amounts: Vec<_> = shop.work.iter().map(|(_, _, amount)| amount.0).collect();
    assert_eq!(amounts, [1000]);
}

#[test]
fn a_refund_that_fails_after_it_was_reported_is_reported_as_late() {
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    shop.hear(
        1,
        listing("re-1", Some(1), 1000, RefundState::Failed),
        Via::Callback,
    );
    let late: Vec<_> = shop
        .events
        .iter()
        .filter(|event| event.kind == EventType::PaymentRefundFailed)
        .filter_map(refund_of)
        .map(|refund| (refund.late, refund.reversed))
        .collect();
    assert_eq!(late, [(Some(true), Minor(1000))]);
    assert_eq!(
        shop.booked(MovementKind::RefundReversed),
        [(Some(Bucket::Own), 1000)]
    );
    assert_eq!(shop.aggregate.refunded_amount(), Minor::ZERO);
}

#[test]
fn an_unknown_outcome_is_settled_by_an_operator_and_the_provider_has_the_last_word() {
    let settle = |shop: &mut Shop, made: Option<u64>| {
        shop.try_step(Step::SettleRefund {
            refund: refund_id(1),
            made: made.map(Minor),
        })
    };
    let lost = || RefundAnswer::Uncertain("lost".into());
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    shop.call_refund(refund_id(1), lost());
    assert_eq!(settle(&mut shop, None), Err(Refusal::SettledTooEarly));
    shop.pass(DAY);
    settle(&mut shop, Some(0)).unwrap();
    assert_eq!(shop.refunded(1).state, RefundState::Failed);
    assert_eq!(shop.attempt(1).left(), DUE, "its amount is free again");
    assert_eq!(settle(&mut shop, Some(0)), Ok(StepOutcome::Nothing));
    assert_eq!(
        settle(&mut shop, None),
        Err(Refusal::RefundEnded(RefundState::Failed))
    );
    shop.hear(
        1,
        listing("re-1", Some(1), DUE.0, RefundState::Succeeded),
        Via::Query,
    );
    assert_eq!(shop.refunded(1).state, RefundState::Succeeded);
    assert_eq!(shop.attempt(1).left(), Minor::ZERO);

    // Partly made: the rest is reported as come back.
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    shop.call_refund(refund_id(1), lost());
    shop.pass(DAY);
    settle(&mut shop, Some(400)).unwrap();
    let refund = shop.refunded(1);
    assert_eq!((refund.out, refund.reversed), (Minor(400), Minor(600)));
    assert_eq!(shop.attempt(1).left(), Minor(DUE.0 - 400));
    assert_eq!(shop.told(EventType::PaymentRefunded), 1);
}

#[test]
fn failed_refunds_do_not_use_up_the_number_that_a_payment_can_have() {
    let mut shop = Shop::paid();
    for number in 0..65_u8 {
        let new = NewRefund {
            id: RefundId::from_bytes([number + 1; 16]),
            key: None,
            ..order(1, Some(10))
        };
        shop.refund(new).unwrap();
        let id = RefundId::from_bytes([number + 1; 16]);
        shop.call_refund(id, RefundAnswer::Refused("no".into()));
    }
    shop.refund(order(1, Some(10))).unwrap();
}

#[test]
fn an_inquiry_and_a_dispute_that_a_refund_ends_block_no_refund() {
    let with = |change: fn(&mut Dispute)| {
        let mut report = confirmed();
        let mut dispute = dispute("d", DUE.0, DisputeState::Open);
        change(&mut dispute);
        report.particulars.disputes.push(dispute);
        report
    };
    let mut shop = Shop::paid();
    shop.hear(
        1,
        with(|dispute| dispute.kind = DisputeKind::Inquiry),
        Via::Callback,
    );
    assert_eq!(shop.attempt(1).left(), DUE);
    assert_eq!(
        shop.booked(MovementKind::DisputeOpened),
        [],
        "no money is at risk"
    );

    let mut shop = Shop::paid();
    shop.hear(
        1,
        with(|dispute| dispute.ends_by_refund = true),
        Via::Callback,
    );
    shop.refund(order(1, None)).unwrap();
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    assert!(shop.attempt(1).funds.disputes[0].ended_by_refund);
    assert_eq!(shop.told(EventType::PaymentDisputeClosed), 1);
    assert!(shop.work.is_empty());

    let mut shop = Shop::paid();
    shop.hear(1, with(|_| ()), Via::Callback);
    assert_eq!(
        shop.refund(order(1, None)),
        Err(Refusal::MoreThanLeft { left: Minor::ZERO })
    );
}

#[test]
fn a_declined_payment_that_the_provider_still_holds_waits_a_day_and_is_watched_on() {
    let mut shop = Shop::risky();
    shop.start(1);
    shop.callback(1, ProviderStatus::Review);
    shop.decline().unwrap();
    assert_eq!(
        shop.status(),
        Status::Review,
        "the provider has not decided"
    );
    shop.pass(DAY);
    shop.act(Act::CarryOut).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement(), shop.listed(1)),
        (
            Status::Failed,
            Settlement::Pending,
            vec![WorkKind::Unsettled]
        )
    );
    assert!(shop.aggregate.due_at().is_some());
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.listed(1)),
        (Status::Review, vec![WorkKind::Late])
    );
}

#[test]
fn a_lost_dispute_that_is_listed_as_a_refund_too_counts_once() {
    let lost = || {
        let mut report = confirmed();
        let mut dispute = dispute("d", 3000, DisputeState::Lost);
        dispute.listed_as_refund = true;
        report.particulars.disputes.push(dispute);
        report
    };
    let listed = || listing("re-9", None, 3000, RefundState::Succeeded);
    for first in [lost(), listed()] {
        let mut shop = Shop::paid();
        let dispute_first = !first.particulars.disputes.is_empty();
        shop.hear(1, first, Via::Callback);
        shop.hear(
            1,
            if dispute_first { listed() } else { lost() },
            Via::Callback,
        );
        let balance = shop.attempt(1).funds.balance.bucket(Bucket::Own);
        assert_eq!(balance.net(), i128::from(DUE.0 - 3000), "{dispute_first}");
        assert_eq!(shop.told(EventType::PaymentRefundFailed), 0);
        assert_eq!(shop.booked(MovementKind::FundsWithdrawn).len(), 1);
        assert!(shop.aggregate.refunds().len() == 1, "the id stays readable");
    }
}

#[test]
fn a_capture_that_is_taken_back_counts_no_more_and_is_no_dispute() {
    let captured = |reversed| {
        let mut report = confirmed();
        report.particulars.captures.push(ProviderCapture {
            id: "psp-1".into(),
            amount: DUE,
            at: None,
            reversed,
        });
        report
    };
    let mut shop = Shop::started();
    shop.hear(1, captured(false), Via::Callback);
    shop.hear(1, captured(true), Via::Callback);
    shop.hear(1, captured(true), Via::Query);
    assert_eq!(
        shop.booked(MovementKind::CaptureReversed),
        [(Some(Bucket::Own), DUE.0)]
    );
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
    assert_eq!(shop.told(EventType::PaymentCaptureReversed), 1);
    assert_eq!(shop.told(EventType::PaymentDisputed), 0);
    assert_eq!(shop.attempt(1).left(), Minor::ZERO);
    shop.hear(1, captured(false), Via::Callback);
    assert_eq!(shop.told(EventType::PaymentCaptureReversed), 2);
    assert!(shop.work.is_empty());
}

#[test]
fn a_refund_that_is_reported_before_its_capture_is_booked_with_the_capture() {
    let refunded_in = |currency: &str| {
        let mut refunded = report(ProviderStatus::Pending);
        refunded.currency = currency.into();
        refunded
    };
    let mut shop = Shop::started();
    let mut refunded = refunded_in("EUR");
    refunded.particulars.refunds.push(ProviderRefund {
        id: "refund-1".into(),
        order: None,
        amount: Minor(100),
        paid_out: None,
        at: None,
        state: RefundState::Succeeded,
    });
    shop.hear(1, refunded, Via::Callback);
    assert!(shop.movements.is_empty());
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        shop.booked(MovementKind::Refunded),
        [(Some(Bucket::Own), 100)]
    );
    assert_eq!(shop.attempt(1).left(), DUE.less(Minor(100)));
    // A refund reported before a late capture returns that money and no other.
    let mut shop = Shop::started();
    let mut declined = report(ProviderStatus::Declined);
    declined.returned = Minor(1);
    shop.hear(1, declined, Via::Callback);
    shop.hear(1, confirmed(), Via::Callback);
    let captured = shop.booked(MovementKind::Captured);
    assert_ne!(captured[0].0, Some(Bucket::Own));
    assert_eq!(shop.booked(MovementKind::Refunded), [(captured[0].0, 1)]);
    // A sum in a currency other than the capture's does not count.
    let mut shop = Shop::started();
    let mut refunded = refunded_in("HUF");
    refunded.returned = Minor(100);
    shop.hear(1, refunded, Via::Callback);
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(shop.booked(MovementKind::Refunded), []);
}

#[test]
fn amounts_in_another_currency_than_was_received_are_not_booked_and_are_told() {
    let captured = |id: &str, amount, currency: &str, reversed| {
        let mut report = confirmed();
        report.currency = currency.into();
        report.received = amount;
        report.particulars.captures.push(ProviderCapture {
            id: id.into(),
            amount,
            at: None,
            reversed,
        });
        report
    };
    let mut shop = Shop::started();
    shop.hear(1, captured("capture-1", DUE, "EUR", false), Via::Callback);
    shop.hear(
        1,
        captured("capture-2", Minor(200), "HUF", false),
        Via::Query,
    );
    let total = |shop: &Shop| shop.aggregate.attempts[0].funds.balance.total();
    assert_eq!(total(&shop).received, DUE);
    assert_eq!(shop.listed(1), [WorkKind::Unreadable]);
    // A capture known by its id still counts.
    shop.hear(
        1,
        captured("capture-1", Minor(200), "HUF", true),
        Via::Query,
    );
    assert_eq!(total(&shop).net(), 0);
}

#[test]
fn a_reversal_under_an_id_of_its_own_takes_the_capture_of_its_amount_back_once() {
    let captured = |id: &str, reversed| {
        let mut report = confirmed();
        report.particulars.captures.push(ProviderCapture {
            id: id.into(),
            amount: DUE,
            at: Some(START.before(DAY)),
            reversed,
        });
        report
    };
    let mut shop = Shop::started();
    shop.hear(1, captured("capture-1", false), Via::Callback);
    for _ in 0..2 {
        shop.hear(1, captured("failure-1", true), Via::Callback);
    }
    let own = [(Some(Bucket::Own), DUE.0)];
    assert_eq!(shop.booked(MovementKind::Captured), own);
    assert_eq!(shop.booked(MovementKind::CaptureReversed), own);
    let reversal = shop.movements.last().unwrap();
    assert_eq!(reversal.occurred_at, shop.now, "not when it was captured");
    shop.hear(1, captured("capture-2", false), Via::Callback);
    shop.hear(1, captured("failure-1", true), Via::Callback);
    let balance = shop.attempt(1).funds.balance.total();
    assert_eq!(balance.net(), i128::from(DUE.0));
}

#[test]
fn a_refund_that_comes_back_is_recorded_at_its_own_time() {
    let (out, back) = (START.before(DAY), START.before(HOUR));
    for (told, recorded) in [(out, START), (back, back)] {
        let listed = |state, at| {
            let mut report = listing("re-1", None, 500, state);
            report.particulars.refunds[0].at = Some(at);
            report
        };
        let mut shop = Shop::paid();
        shop.hear(1, listed(RefundState::Succeeded, out), Via::Callback);
        shop.hear(1, listed(RefundState::Failed, told), Via::Callback);
        let reversed = |movement: &&Movement| movement.kind == MovementKind::RefundReversed;
        let reversed = shop.movements.iter().find(reversed).unwrap();
        assert_eq!(reversed.occurred_at, recorded);
    }
}

#[test]
fn a_report_may_name_a_new_refund_before_it_takes_an_older_one_back() {
    let mut shop = Shop::paid();
    let made = listing("re-1", None, DUE.0, RefundState::Succeeded);
    shop.hear(1, made.clone(), Via::Callback);
    let mut both = listing("re-2", None, DUE.0, RefundState::Succeeded);
    both.particulars.refunds.extend(made.particulars.refunds);
    both.particulars.refunds[1].state = RefundState::Failed;
    shop.hear(1, both, Via::Query);
    assert_eq!(returned(&shop), DUE);
}

#[test]
fn a_refund_after_a_chargeback_is_recorded_and_leaves_less_than_nothing() {
    let mut shop = Shop::paid();
    shop.hear(1, disputed(DisputeState::Lost), Via::Callback);
    let refunded = listing("re-1", None, DUE.0, RefundState::Succeeded);
    shop.hear(1, refunded, Via::Callback);
    let balance = shop.attempt(1).funds.balance.total();
    assert_eq!(balance.net(), -3000);
    assert!(shop.listed(1).contains(&WorkKind::Negative));
}

#[test]
fn a_lower_sum_is_believed_only_when_a_second_query_confirms_it() {
    let sum = |returned| Report {
        returned: Minor(returned),
        ..confirmed()
    };
    let mut shop = Shop::paid();
    shop.hear(1, sum(300), Via::Callback);
    shop.hear(1, sum(200), Via::Callback);
    shop.hear(1, sum(200), Via::Query);
    assert_eq!(returned(&shop), Minor(300), "one answer is not enough");
    assert_eq!(shop.aggregate.due_at(), Some(shop.now.after(MINUTE)));
    shop.pass(MINUTE);
    shop.hear(1, sum(200), Via::Query);
    assert_eq!(returned(&shop), Minor(200));
    assert_eq!(
        shop.booked(MovementKind::RefundReversed),
        [(Some(Bucket::Own), 100)]
    );
}

#[test]
fn an_authorization_that_ends_is_warned_of_a_day_before_and_fails_the_payment_by_the_providers_report()
 {
    let mut shop = Shop::risky();
    shop.start(1);
    let mut held = report(ProviderStatus::Processing);
    let end = shop.now.after(DAY * 3);
    held.particulars.capture_before = Some(end);
    shop.hear(1, held, Via::Callback);
    assert!(shop.work.is_empty());
    shop.now = end.before(DAY);
    shop.act(Act::Authorization(id(1))).unwrap();
    assert_eq!(shop.listed(1), [WorkKind::Authorization]);
    shop.now = end;
    assert_eq!(shop.approve(None), Err(Refusal::AuthorizationEnded));
    // Our clock cannot end the attempt: the provider is queried, once.
    shop.act(Act::Authorization(id(1))).unwrap();
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.act(Act::Authorization(id(1))).unwrap();
    assert_eq!(shop.listed(1), [WorkKind::Authorization]);
    shop.hear(1, report(ProviderStatus::Cancelled), Via::Query);
    assert_eq!(
        (shop.status(), shop.told(EventType::PaymentFailed)),
        (Status::Failed, 1)
    );
    assert!(shop.work.is_empty());
}

#[test]
fn an_authorization_that_the_provider_confirms_after_its_end_can_be_approved_until_it_says_otherwise()
 {
    let mut shop = Shop::risky();
    shop.start(1);
    let mut authorized = report(ProviderStatus::Processing);
    let end = shop.now.after(DAY * 3);
    authorized.particulars.capture_before = Some(end);
    shop.hear(1, authorized.clone(), Via::Callback);
    shop.now = end;
    shop.act(Act::Authorization(id(1))).unwrap();
    assert_eq!(shop.approve(None), Err(Refusal::AuthorizationEnded));
    // The same report, as the answer to a query.
    shop.hear(1, authorized.clone(), Via::Query);
    assert!(shop.work.is_empty());
    assert_ne!(shop.next_action(), Some(NextAction::Authorization(id(1))));
    // After an extension the operator is warned again.
    authorized.particulars.capture_before = Some(end.after(DAY * 7));
    shop.hear(1, authorized, Via::Callback);
    shop.now = end.after(DAY * 6);
    shop.act(Act::Authorization(id(1))).unwrap();
    assert_eq!(shop.listed(1), [WorkKind::Authorization]);
    shop.approve(None).unwrap();
}

#[test]
fn money_that_the_provider_still_holds_after_an_authorizations_end_stays_with_the_operator() {
    for held in [ProviderStatus::Processing, ProviderStatus::Review] {
        let mut shop = Shop::risky();
        shop.start(1);
        let mut authorized = report(ProviderStatus::Processing);
        let end = shop.now.after(DAY * 3);
        authorized.particulars.authorised_at = Some(shop.now);
        authorized.particulars.capture_before = Some(end);
        shop.hear(1, authorized, Via::Callback);
        shop.now = end;
        shop.act(Act::Authorization(id(1))).unwrap();
        shop.hear(1, report(held), Via::Query);
        shop.pass(DAY);
        let authorization = Some(NextAction::Authorization(id(1)));
        assert_ne!(shop.next_action(), authorization, "{held:?}");
        shop.act(Act::Authorization(id(1))).unwrap();
        assert_eq!(shop.status(), Status::Review, "{held:?}");
        assert_eq!(shop.told(EventType::PaymentFailed), 0, "{held:?}");
    }
}
