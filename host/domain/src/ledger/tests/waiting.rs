//! Expiry, reconciliation, silence, and the duties that follow from them.

use super::*;
use crate::ledger::FIRST_QUERIES;
use crate::payment::ReviewCause;

/// Answers every duty that comes with the vendor's silence, for `days`.
fn live_in_silence(shop: &mut Shop, days: u32) -> usize {
    let mut looks = 0;
    while let Some(due) = shop.ledger.due_at() {
        if due > START.after(DAY * days) {
            break;
        }
        shop.now = shop.now.max(due);
        match shop.duty().expect("due, and nothing to do") {
            Duty::Look(_) => {
                looks += 1;
                shop.silent(1, Wish::Look, false);
            }
            Duty::Capture(_) => {
                shop.claim(1, Errand::Capture).unwrap();
                shop.silent(1, Wish::Finish, false);
            }
            Duty::Close(_) => {
                shop.claim(1, Errand::Close).unwrap();
                shop.silent(1, Wish::Close, false);
            }
            Duty::Expire => {
                shop.act(Act::Expire).unwrap();
            }
        }
    }
    looks
}

#[test]
fn a_payment_that_nobody_pays_expires() {
    let mut shop = Shop::new();
    assert_eq!(shop.ledger.due_at(), Some(START.after(DAY)));
    assert_eq!(shop.act(Act::Expire), Ok(Outcome::Nothing), "too early");
    shop.pass(DAY);
    assert_eq!(shop.duty(), Some(Duty::Expire));
    shop.act(Act::Expire).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Expired, Settlement::Pending)
    );
    assert_eq!(shop.told(EventType::PaymentExpired), 1);
    assert_eq!(shop.ledger.due_at(), None);
}

#[test]
fn an_open_attempt_is_closed_when_its_time_passes_and_then_the_payment_expires() {
    let mut shop = Shop::new();
    shop.pass(DAY - MINUTE);
    shop.start(1);
    shop.pass(MINUTE);
    assert_eq!(shop.act(Act::Expire), Err(Refusal::VendorFirst(id(1))));
    assert_eq!(shop.duty(), Some(Duty::Close(id(1))));
    shop.close(1);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Expired, AttemptState::Expired)
    );
    assert_eq!(shop.told(EventType::PaymentExpired), 1);
}

#[test]
fn a_payer_who_was_faster_than_the_close_has_paid() {
    let mut shop = Shop::started();
    shop.pass(HOUR);
    shop.claim(1, Errand::Close).unwrap();
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Completed, AttemptState::Captured)
    );
}

#[test]
fn an_attempt_whose_time_has_passed_leads_back_while_the_payment_lives() {
    let mut shop = Shop::started();
    shop.pass(HOUR);
    shop.close(1);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Created, AttemptState::Expired)
    );
    assert_eq!(shop.ledger.payment.declines, 0);
}

#[test]
fn an_open_attempt_is_asked_about_seven_times_then_a_person_looks() {
    for said in [
        None,
        Some(VendorStatus::Processing),
        Some(VendorStatus::VerificationPending),
    ] {
        let mut shop = Shop::started();
        if let Some(said) = said {
            shop.callback(1, said);
        }
        let looks = live_in_silence(&mut shop, 30);
        assert_eq!(looks, 7, "{said:?}");
        assert_eq!(shop.now, START.after(FIRST_QUERIES[6]));
        assert_eq!(shop.status(), Status::Review);
        assert_eq!(shop.ledger.payment.review, Some(ReviewCause::Silence));
        assert_eq!(shop.ledger.due_at(), None);
        // The provider's final word ends it.
        shop.hear(1, confirmed(), Via::Callback);
        assert_eq!(shop.status(), Status::Completed);
    }
}

#[test]
fn an_operator_can_decide_a_silence() {
    let mut shop = Shop::started();
    live_in_silence(&mut shop, 30);
    shop.decline().unwrap();
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Failed, AttemptState::Failed)
    );
    let mut shop = Shop::started();
    live_in_silence(&mut shop, 30);
    shop.approve(Some(Settlement::Confirmed)).unwrap();
    assert_eq!(shop.status(), Status::Completed);
}

#[test]
fn a_completed_payment_that_is_never_confirmed_ends_on_the_work_list() {
    let mut shop = Shop::started();
    shop.pass(MINUTE);
    shop.callback(1, VendorStatus::Completed);
    assert_eq!(
        shop.ledger.due_at(),
        Some(START.after(MINUTE).after(FIRST_QUERIES[0]))
    );
    assert_eq!(live_in_silence(&mut shop, 30), 7);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Pending)
    );
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
}

#[test]
fn answers_that_settle_nothing_count_as_questions_of_the_schedule() {
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Completed);
    let mut questions = 0;
    while let Some(due) = shop.ledger.due_at() {
        shop.now = due;
        assert_eq!(shop.duty(), Some(Duty::Look(id(1))));
        shop.hear(1, report(VendorStatus::Completed), Via::Query);
        questions += 1;
    }
    assert_eq!(questions, 7);
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
}

#[test]
fn after_an_outage_of_ours_the_questions_are_not_asked_all_at_once() {
    let mut shop = Shop::started();
    shop.pass(DAY * 10);
    let mut asked = Vec::new();
    while let Some(due) = shop.ledger.due_at() {
        shop.now = shop.now.max(due);
        match shop.duty() {
            Some(Duty::Look(_)) => {
                asked.push(shop.now);
                shop.silent(1, Wish::Look, false);
            }
            Some(Duty::Close(_)) => {
                shop.claim(1, Errand::Close).unwrap();
                shop.silent(1, Wish::Close, false);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(asked.len(), 7);
    assert!(
        asked
            .windows(2)
            .all(|two| two[1].since(two[0]) >= MINUTE * 5)
    );
}

#[test]
fn a_payment_unknown_to_the_vendor_is_over_only_when_no_request_can_be_under_way() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    shop.pass(Duration::from_secs(30));
    assert_eq!(shop.duty(), Some(Duty::Look(id(1))));
    shop.silent(1, Wish::Look, true);
    assert_eq!(shop.state(1), AttemptState::Unknown, "too early to believe");
    assert_eq!(shop.ledger.due_at(), Some(START.after(MINUTE * 2)));
    shop.now = START.after(MINUTE * 2);
    shop.silent(1, Wish::Look, true);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Created, AttemptState::Unavailable)
    );
}

#[test]
fn a_vendor_that_forgets_what_it_had_approved_is_not_believed() {
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Processing);
    shop.pass(HOUR);
    shop.silent(1, Wish::Look, true);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Processing, AttemptState::Processing)
    );
}

#[test]
fn a_notice_brings_the_question_forward_and_does_not_use_up_the_schedule() {
    let mut shop = Shop::started();
    shop.step(Step::AskAt {
        attempt: id(1),
        at: START,
    });
    assert_eq!(shop.duty(), Some(Duty::Look(id(1))));
    shop.silent(1, Wish::Look, false);
    assert_eq!(shop.duty(), None);
    assert_eq!(shop.attempt(1).queries, 0);
    // Asked with growing pauses until the schedule's own turn.
    while shop.attempt(1).queries == 0 {
        shop.now = shop.ledger.due_at().unwrap();
        shop.silent(1, Wish::Look, false);
    }
    assert_eq!(shop.now, START.after(FIRST_QUERIES[0]));
    shop.step(Step::AskAt {
        attempt: id(1),
        at: START.after(DAY),
    });
    assert_eq!(shop.attempt(1).next_query, Some(START.after(HOUR)));
}

#[test]
fn a_late_notice_for_a_closed_attempt_is_looked_at() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.step(Step::AskAt {
        attempt: id(1),
        at: shop.now,
    });
    assert_eq!(shop.duty(), Some(Duty::Look(id(1))));
    shop.hear(1, report(VendorStatus::Declined), Via::Query);
    assert_eq!(
        shop.ledger.due_at(),
        Some(START.after(DAY)),
        "only expiry is left"
    );
}

#[test]
fn nothing_is_due_while_a_worker_holds_the_payment() {
    let mut shop = Shop::started();
    shop.ledger.payment.claimed_until = Some(START.after(DAY));
    assert_eq!(shop.ledger.due_at(), Some(START.after(DAY)));
    shop.step(Step::Release);
    assert_eq!(shop.ledger.due_at(), Some(START.after(FIRST_QUERIES[0])));
}

#[test]
fn an_attempt_that_the_vendor_forgot_is_not_closed_for_ever() {
    let mut shop = Shop::started();
    shop.callback(1, VendorStatus::Pending);
    shop.pass(MINUTE * 5);
    shop.silent(1, Wish::Look, true);
    assert_eq!(shop.status(), Status::Created);
    assert_eq!(
        shop.ledger.due_at(),
        Some(START.after(DAY)),
        "only expiry is left"
    );
}
