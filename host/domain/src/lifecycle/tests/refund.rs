//! Refunds: how much, once, and until their outcome is known.

use super::*;
use crate::attempt::{End, Stage};
use crate::funds::Funds;

const RESULT_OF_A_LOST_CALL: &str = "time-out";

fn uncertain() -> RefundAnswer {
    RefundAnswer::Uncertain(RESULT_OF_A_LOST_CALL.into())
}

fn operators(number: u8, attempt: u8, amount: Option<u64>) -> NewRefund {
    NewRefund {
        attempt: id(attempt),
        origin: RefundOrigin::Operator,
        ..order(number, amount)
    }
}

/// A report about attempt 1 with a refund, as in the provider's list or notification.
fn listing(refund: ProviderRefund) -> Report {
    let mut report = confirmed();
    report.particulars.refunds.push(refund);
    report
}

fn listed(vendor: u8, order: Option<u8>, amount: u64, state: RefundState) -> ProviderRefund {
    ProviderRefund {
        id: format!("re-{vendor}"),
        order: order.map(refund_id),
        amount: Minor(amount),
        paid_out: None,
        at: None,
        state,
    }
}

fn with_sum(sum: u64) -> Report {
    Report {
        returned: Minor(sum),
        ..confirmed()
    }
}

fn refunds_told(shop: &Shop) -> Vec<(RefundId, u64)> {
    let told = shop.events.iter();
    told.filter(|told| told.kind == EventType::PaymentRefunded)
        .filter_map(refund_of)
        .map(|refund| (refund.refund, refund.amount.0))
        .collect()
}

#[test]
fn a_refund_is_told_once_with_its_id_and_amount_and_the_payment_stays_as_it_is() {
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    assert_eq!(shop.next_action(), Some(NextAction::Refund(refund_id(1))));
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    shop.hear(
        1,
        listing(listed(1, Some(1), 1000, RefundState::Succeeded)),
        Via::Callback,
    );
    assert_eq!(refunds_told(&shop), [(refund_id(1), 1000)]);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Confirmed)
    );
    assert_eq!(shop.aggregate.refunded_amount(), Minor(1000));
    assert!(shop.listed(1).is_empty() && shop.aggregate.refunds().len() == 1);
    assert_eq!(shop.next_action(), None);
}

#[test]
fn no_more_is_ordered_than_was_received_and_is_left() {
    let mut shop = Shop::paid();
    let more = shop.refund(order(1, Some(DUE.0 + 1)));
    assert_eq!(more, Err(Refusal::MoreThanLeft { left: DUE }));
    shop.refund(order(1, Some(4000))).unwrap();
    let left = Minor(DUE.0 - 4000);
    // It counts before the provider has answered.
    assert_eq!(
        shop.refund(order(2, Some(left.0 + 1))),
        Err(Refusal::MoreThanLeft { left })
    );
    shop.refund(order(2, None)).unwrap();
    assert_eq!(shop.refunded(2).amount, left);
    assert_eq!(
        shop.refund(order(3, None)),
        Err(Refusal::MoreThanLeft { left: Minor(0) })
    );
}

#[test]
fn a_merchant_gives_back_of_completed_payments_alone_and_at_most_the_invoice() {
    let mut shop = Shop::started();
    assert_eq!(
        shop.refund(order(1, None)),
        Err(Refusal::WrongStatus(Status::Pending))
    );
    let mut over = confirmed();
    over.status = ProviderStatus::Overpaid;
    over.received = Minor(DUE.0 + 500);
    shop.hear(1, over, Via::Query);
    assert_eq!(
        shop.refund(order(1, Some(DUE.0 + 1))),
        Err(Refusal::MoreThanLeft { left: DUE })
    );
    // Excess belongs to the operators; a refund of it is not reported to the merchant.
    let excess = NewRefund {
        bucket: Bucket::Excess,
        ..operators(2, 1, None)
    };
    shop.refund(excess).unwrap();
    shop.call_refund(refund_id(2), given(2, RefundState::Succeeded));
    assert_eq!(
        (shop.refunded(2).amount, shop.listed(1)),
        (Minor(500), vec![])
    );
    shop.refund(order(3, None)).unwrap();
    assert_eq!(shop.refunded(3).amount, DUE);
}

#[test]
fn what_the_accounts_terms_forbid_is_refused() {
    let terms = |parts, at_most, days| RefundTerms {
        method: MethodId::Ideal,
        parts,
        at_most,
        days,
        whole_units: Vec::new(),
    };
    let mut shop = Shop::paid();
    let ask = |shop: &mut Shop, terms: Option<RefundTerms>, amount| {
        shop.refund(NewRefund {
            terms,
            ..order(1, amount)
        })
    };
    assert_eq!(ask(&mut shop, None, None), Err(Refusal::CannotRefund));
    let units = RefundTerms {
        whole_units: vec!["EUR".into()],
        ..terms(true, None, None)
    };
    let refused = ask(&mut shop, Some(units), Some(1_050));
    let currency = "EUR".to_owned();
    assert_eq!(refused, Err(Refusal::WholeUnitsOnly { currency }));
    let whole = Some(terms(false, None, None));
    let refused = ask(&mut shop, whole.clone(), Some(100));
    assert_eq!(refused, Err(Refusal::WholeOnly { received: DUE }));
    shop.pass(DAY * 31);
    let late = ask(&mut shop, Some(terms(true, None, Some(30))), None);
    assert_eq!(late, Err(Refusal::RefundTooLate { days: 30 }));
    let one = Some(terms(true, Some(1), None));
    ask(&mut shop, one.clone(), Some(100)).unwrap();
    let second = shop.refund(NewRefund {
        terms: one,
        ..order(2, Some(100))
    });
    assert_eq!(second, Err(Refusal::TooManyRefunds));
    shop.call_refund(refund_id(1), RefundAnswer::Refused("no".into()));
    // A failed refund does not count.
    let again = NewRefund {
        terms: whole,
        ..order(2, None)
    };
    shop.refund(again).unwrap();
}

#[test]
fn disputes_lower_what_can_be_given_back_until_they_are_won() {
    let mut shop = Shop::paid();
    let left = |shop: &Shop| shop.attempt(1).left().0;
    for (state, expected) in [
        (DisputeState::Open, DUE.0 - 3000),
        (DisputeState::Lost, DUE.0 - 3000),
        (DisputeState::Won, DUE.0),
    ] {
        shop.hear(1, disputed(state), Via::Callback);
        assert_eq!(left(&shop), expected, "{state:?}");
    }
}

#[test]
fn a_lost_answer_is_asked_about_and_sent_again_only_once_the_vendor_has_none() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    assert!(shop.refunded(1).is_to_send());
    shop.claim_refund(refund_id(1)).unwrap();
    // The task that claimed it is lost, with the result of its call.
    assert!(!shop.refunded(1).is_to_send());
    assert_eq!(shop.next_action(), None);
    shop.pass(LEASE);
    assert_eq!(shop.next_action(), Some(NextAction::Refund(refund_id(1))));
    shop.call_refund(refund_id(1), RefundAnswer::Absent);
    // The request may still be in flight.
    assert!(!shop.refunded(1).is_to_send() && shop.next_action().is_none());
    shop.pass(MINUTE * 2);
    shop.call_refund(refund_id(1), RefundAnswer::Absent);
    assert!(shop.refunded(1).is_to_send());
    assert_eq!(shop.next_action(), Some(NextAction::Refund(refund_id(1))));
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    assert_eq!(refunds_told(&shop), [(refund_id(1), DUE.0)]);
}

#[test]
fn one_task_at_a_time_holds_a_refund() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    shop.claim_refund(refund_id(1)).unwrap();
    assert!(matches!(
        shop.claim_refund(refund_id(1)),
        Err(Refusal::Busy(_))
    ));
    let send = Step::ClaimRefund {
        refund: refund_id(1),
        send: true,
        until: shop.now,
    };
    shop.pass(LEASE);
    assert_eq!(shop.try_step(send), Err(Refusal::WrongRefund));
}

#[test]
fn the_answer_of_a_call_that_holds_the_refund_no_more_proves_only_what_is_there() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    shop.claim_refund(refund_id(1)).unwrap();
    let held = shop.now.after(LEASE);
    shop.pass(LEASE);
    shop.claim_refund(refund_id(1)).unwrap();
    let mut stale = |answer| {
        shop.step(Step::RefundAnswered {
            refund: refund_id(1),
            held,
            answer,
        });
        shop.refunded(1).state
    };
    for answer in [
        RefundAnswer::Refused("no".into()),
        RefundAnswer::Unavailable("down".into()),
        RefundAnswer::Absent,
    ] {
        assert_eq!(stale(answer), RefundState::Pending);
    }
    assert_eq!(
        stale(given(1, RefundState::Succeeded)),
        RefundState::Succeeded
    );
}

#[test]
fn a_refund_is_asked_about_within_minutes_then_daily_and_a_person_looks_at_last() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    let begun = shop.now;
    let mut asked = Vec::new();
    while let Some(due) = shop.aggregate.due_at() {
        shop.now = due;
        asked.push(due.since(begun).as_secs());
        shop.call_refund(refund_id(1), uncertain());
    }
    let minutes: Vec<u64> = asked[..6].iter().map(|seconds| seconds / 60).collect();
    assert_eq!(
        (minutes, asked.len()),
        (vec![0, 1, 3, 7, 16, 32], 1 + 5 + 35)
    );
    assert_eq!(shop.refunded(1).state, RefundState::Pending);
    assert_eq!(shop.listed(1), [WorkKind::Refund]);
    // The amount of a refund with an unknown outcome is not refundable.
    assert_eq!(shop.attempt(1).left(), Minor(0));
}

#[test]
fn a_refund_that_the_vendor_never_took_fails_after_the_last_turn() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    while let Some(due) = shop.aggregate.due_at() {
        shop.now = due;
        assert!(shop.refunded(1).is_to_send());
        shop.call_refund(refund_id(1), RefundAnswer::Unavailable("down".into()));
    }
    assert_eq!(shop.refunded(1).state, RefundState::Failed);
    assert_eq!(
        (shop.listed(1), shop.attempt(1).left()),
        (vec![WorkKind::Refund], DUE)
    );
}

#[test]
fn a_failed_refund_frees_its_amount_and_a_person_looks() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    shop.call_refund(refund_id(1), RefundAnswer::Refused("too old".into()));
    assert_eq!(shop.refunded(1).state, RefundState::Failed);
    assert_eq!(
        (shop.refunded(1).detail.as_str(), shop.listed(1)),
        ("too old", vec![WorkKind::Refund])
    );
    assert!(refunds_told(&shop).is_empty());
    shop.refund(order(2, None)).unwrap();
}

#[test]
fn a_refusal_has_the_vendor_asked_what_else_it_knows() {
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    // All of it was refunded in the dashboard, and the notification was lost.
    shop.call_refund(refund_id(1), RefundAnswer::Refused("nothing left".into()));
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    let elsewhere = listing(listed(7, None, DUE.0, RefundState::Succeeded));
    shop.hear(1, elsewhere, Via::Query);
    assert_eq!(shop.attempt(1).left(), Minor(0));
    assert_eq!(shop.next_action(), None);
}

#[test]
fn a_refund_that_fails_after_it_succeeded_frees_its_amount_again() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    assert_eq!(shop.attempt(1).left(), Minor(0));
    shop.hear(
        1,
        listing(listed(1, Some(1), DUE.0, RefundState::Failed)),
        Via::Callback,
    );
    assert_eq!(shop.refunded(1).state, RefundState::Failed);
    assert_eq!(
        (shop.listed(1), shop.attempt(1).left()),
        (vec![WorkKind::Refund], DUE)
    );
    // An older notification arrives last.
    shop.hear(
        1,
        listing(listed(1, Some(1), DUE.0, RefundState::Succeeded)),
        Via::Callback,
    );
    assert_eq!(
        (shop.attempt(1).left(), refunds_told(&shop).len()),
        (DUE, 1)
    );
}

#[test]
fn a_notice_that_beats_the_answer_is_the_same_refund() {
    // With or without the id of our order.
    for order_told in [Some(1), None] {
        let mut shop = Shop::paid();
        shop.refund(order(1, Some(1000))).unwrap();
        shop.claim_refund(refund_id(1)).unwrap();
        let notice = listing(listed(1, order_told, 1000, RefundState::Succeeded));
        shop.hear(1, notice.clone(), Via::Callback);
        shop.refund_answered(refund_id(1), given(1, RefundState::Pending));
        shop.hear(1, notice, Via::Callback);
        assert_eq!(shop.aggregate.refunds().len(), 1, "{order_told:?}");
        assert_eq!(shop.refunded(1).state, RefundState::Succeeded);
        assert_eq!(returned(&shop), Minor(1000));
        assert_eq!(refunds_told(&shop).len(), 1);
    }
}

#[test]
fn a_refund_is_found_by_the_id_that_was_reported_before_its_order_answered() {
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    shop.claim_refund(refund_id(1)).unwrap();
    let notice = listing(listed(1, None, 1000, RefundState::Succeeded));
    shop.hear(1, notice, Via::Callback);
    let [(reported, 1000)] = refunds_told(&shop)[..] else {
        panic!("{:?}", refunds_told(&shop));
    };
    assert_ne!(reported, refund_id(1));
    shop.refund_answered(refund_id(1), given(1, RefundState::Pending));
    let (_, refund) = shop.aggregate.refund(reported).unwrap();
    assert_eq!(refund, shop.refunded(1));
    assert_eq!(refund.id, refund_id(1));
    assert_eq!(shop.aggregate.refunds().len(), 1);
}

#[test]
fn a_sum_that_grows_by_our_own_refund_is_no_other_in_whatever_order() {
    let answer =
        |shop: &mut Shop| shop.refund_answered(refund_id(1), given(1, RefundState::Succeeded));
    let sum = |shop: &mut Shop| shop.hear(1, with_sum(1200), Via::Callback);
    let item = |shop: &mut Shop| {
        let listed = listed(1, Some(1), 1000, RefundState::Succeeded);
        shop.hear(1, listing(listed), Via::Callback)
    };
    let told: [&dyn Fn(&mut Shop) -> StepOutcome; 3] = [&answer, &sum, &item];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order_told in orders {
        let mut shop = Shop::paid();
        // The provider already had a refund of 200.
        shop.hear(1, with_sum(200), Via::Callback);
        shop.refund(order(1, Some(1000))).unwrap();
        shop.claim_refund(refund_id(1)).unwrap();
        for which in order_told {
            told[which](&mut shop);
        }
        assert_eq!(returned(&shop), Minor(1200), "{order_told:?}");
        let amounts: Vec<u64> = refunds_told(&shop)
            .into_iter()
            .map(|(_, amount)| amount)
            .collect();
        assert_eq!(amounts, [200, 1000], "{order_told:?}");
        assert_eq!(shop.attempt(1).left(), Minor(DUE.0 - 1200));
    }
}

#[test]
fn what_a_sum_holds_beyond_our_failed_refund_is_found_by_asking() {
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    shop.claim_refund(refund_id(1)).unwrap();
    // A refund in the dashboard looks like our order.
    shop.hear(1, with_sum(1000), Via::Callback);
    shop.refund_answered(refund_id(1), RefundAnswer::Refused("no".into()));
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.hear(1, with_sum(1000), Via::Query);
    assert_eq!(returned(&shop), Minor(1000));
    assert_eq!(shop.attempt(1).left(), Minor(DUE.0 - 1000));
    let refunds = shop.aggregate.refunds();
    assert!(
        refunds
            .iter()
            .any(|(_, refund)| refund.origin == RefundOrigin::Provider)
    );
}

#[test]
fn a_refund_that_was_thought_never_to_be_is_taken_up_again_when_the_vendor_tells_it() {
    let mut shop = Shop::paid();
    shop.refund(order(1, Some(1000))).unwrap();
    shop.call_refund(refund_id(1), RefundAnswer::Refused("no".into()));
    shop.hear(
        1,
        listing(listed(1, Some(1), 1000, RefundState::Succeeded)),
        Via::Callback,
    );
    assert_eq!(shop.refunded(1).state, RefundState::Succeeded);
    assert_eq!(refunds_told(&shop), [(refund_id(1), 1000)]);
}

#[test]
fn an_answer_with_another_refunds_id_proves_nothing() {
    let mut shop = Shop::paid();
    for number in [1, 2] {
        shop.refund(order(number, Some(1000))).unwrap();
    }
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    shop.call_refund(refund_id(2), given(1, RefundState::Succeeded));
    assert_eq!(shop.refunded(2).state, RefundState::Pending);
    assert_eq!(returned(&shop), Minor(1000));
}

#[test]
fn operators_give_back_surplus_in_parts_and_its_line_closes_with_the_last() {
    let mut shop = Shop::paid();
    shop.now = START.after(MINUTE);
    // A second attempt of the same payment was also captured.
    shop.aggregate.attempts.push(Attempt {
        id: id(2),
        stage: Stage::Ended {
            how: End::Declined,
            at: shop.now,
            closing: false,
        },
        vendor: None,
        funds: Funds::default(),
        references: Vec::new(),
        ..shop.attempt(1).clone()
    });
    shop.hear(2, confirmed(), Via::Callback);
    assert_eq!(shop.listed(2), [WorkKind::Surplus]);
    let not_the_merchants = NewRefund {
        attempt: id(2),
        ..order(1, None)
    };
    for origin in [RefundOrigin::Merchant, RefundOrigin::Reseller] {
        let order = NewRefund {
            origin,
            ..not_the_merchants.clone()
        };
        assert!(shop.refund(order).is_err(), "{origin:?}");
    }
    // When the payment's own money is refunded, only operators are led to the surplus.
    let mut emptied = shop.aggregate.clone();
    emptied.attempts[0].funds = Funds::default();
    for (origin, attempt) in [
        (RefundOrigin::Merchant, 1),
        (RefundOrigin::Reseller, 1),
        (RefundOrigin::Operator, 2),
    ] {
        let found = emptied.attempt_to_refund(origin).map(|found| found.id);
        assert_eq!(found, Some(id(attempt)), "{origin:?}");
    }
    for (number, amount, listed) in [(1, Some(1000), vec![WorkKind::Surplus]), (2, None, vec![])] {
        let order = NewRefund {
            bucket: Bucket::Surplus,
            ..operators(number, 2, amount)
        };
        shop.refund(order).unwrap();
        shop.call_refund(refund_id(number), given(number, RefundState::Succeeded));
        assert_eq!(shop.listed(2), listed);
    }
    assert_eq!(shop.refunded(2).amount, Minor(DUE.0 - 1000));
    // Only operators receive reports about money that never was the order's.
    assert_eq!(shop.told(EventType::PaymentRefunded), 0);
    // It fails after all: its item is open again.
    let mut failed = listing(listed(2, Some(2), DUE.0 - 1000, RefundState::Failed));
    failed.reference = "ref".into();
    shop.hear(2, failed, Via::Callback);
    assert!(shop.listed(2).contains(&WorkKind::Surplus));
}

#[test]
fn operators_give_back_late_money_whatever_the_payments_state() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.act(Act::Cancel).unwrap();
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.listed(1)),
        (Status::Review, vec![WorkKind::Late])
    );
    shop.refund(NewRefund {
        bucket: Bucket::Late,
        ..operators(1, 1, None)
    })
    .unwrap();
    shop.call_refund(refund_id(1), given(1, RefundState::Succeeded));
    assert_eq!((shop.status(), shop.listed(1)), (Status::Review, vec![]));
    shop.decline().unwrap();
    assert_eq!(shop.status(), Status::Failed);
}

#[test]
fn the_same_key_is_a_replay_only_with_the_same_data() {
    let mut shop = Shop::paid();
    shop.refund(order(1, None)).unwrap();
    let known = shop.refunded(1);
    assert_eq!(order(2, None).differs(known), None);
    assert_eq!(order(2, Some(DUE.0)).differs(known), None);
    assert_eq!(order(2, Some(1)).differs(known), Some("amount"));
    let reason = Some("broken".into());
    let other = NewRefund {
        reason,
        ..order(2, None)
    };
    assert_eq!(other.differs(known), Some("reason"));
    // Operators and resellers have their own keys.
    let key = known.ordered.as_ref().unwrap().key.clone().unwrap();
    assert!(known.is_ordered_by(RefundOrigin::Merchant, &key));
    for origin in [RefundOrigin::Operator, RefundOrigin::Reseller] {
        assert!(!known.is_ordered_by(origin, &key), "{origin:?}");
    }
    shop.refund(order(3, Some(100))).unwrap_err();
}
