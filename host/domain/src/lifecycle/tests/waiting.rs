//! Expiry, reconciliation, unanswered queries, and the next actions that follow from them.

use super::*;

/// Leaves the next action unanswered. Returns its time.
fn live_in_silence_once(shop: &mut Shop) -> Time {
    let due = shop.aggregate.due_at().expect("nothing is due");
    live_in_silence_until(shop, due);
    shop.now
}

/// Leaves every next action unanswered, for `days`.
fn live_in_silence(shop: &mut Shop, days: u32) {
    live_in_silence_until(shop, START.after(DAY * days));
}

fn live_in_silence_until(shop: &mut Shop, end: Time) {
    while let Some(due) = shop.aggregate.due_at().filter(|due| *due <= end) {
        shop.now = shop.now.max(due);
        match shop.next_action().expect("due, and nothing to do") {
            NextAction::Query(_) => {
                shop.silent(1, QueryPurpose::Sync, false);
            }
            NextAction::Capture(_) => {
                shop.claim(1, ClaimPurpose::Capture).unwrap();
                shop.silent(1, QueryPurpose::Capture, false);
            }
            NextAction::Cancel(_) => {
                shop.claim(1, ClaimPurpose::Cancel).unwrap();
                shop.silent(1, QueryPurpose::Cancel, false);
            }
            NextAction::Start(_) => {
                shop.claim(1, ClaimPurpose::Start).unwrap();
                shop.result(1, StartResult::Uncertain("silence".into()));
            }
            NextAction::Expire => {
                shop.act(Act::Expire).unwrap();
            }
            NextAction::CarryOut => {
                shop.act(Act::CarryOut).unwrap();
            }
            NextAction::Authorization(attempt) => {
                shop.act(Act::Authorization(attempt)).unwrap();
            }
            NextAction::Refund(refund) => {
                shop.call_refund(refund, RefundAnswer::Uncertain("silence".into()));
            }
        }
    }
}

/// Makes the starts that are due fail. Returns their delays since `START`.
fn live_in_silence_of_starts(shop: &mut Shop) -> Vec<Duration> {
    let mut repeats = Vec::new();
    while let Some(due) = shop.aggregate.due_at() {
        let before = shop.now;
        shop.now = before.max(due);
        if shop.next_action() != Some(NextAction::Start(id(1))) {
            shop.now = before;
            break;
        }
        shop.claim(1, ClaimPurpose::Start).unwrap();
        shop.result(1, StartResult::Uncertain("time-out".into()));
        repeats.push(shop.now.since(START));
    }
    repeats
}

/// With attempt 1 started, outcome unknown.
fn unknown() -> Shop {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    shop
}

#[test]
fn a_start_without_an_outcome_is_repeated_until_it_has_one() {
    let mut shop = unknown();
    shop.pass(Duration::from_secs(5));
    assert_eq!(shop.next_action(), Some(NextAction::Start(id(1))));
    shop.claim(1, ClaimPurpose::Start).unwrap();
    assert_eq!(shop.next_action(), None, "it is under way");
    shop.result(1, redirect());
    assert_eq!(
        (shop.state(1), shop.next_action()),
        (AttemptState::Open, None)
    );
    assert_eq!(shop.aggregate.attempts.len(), 1);
}

#[test]
fn a_start_that_the_vendor_has_heard_of_is_repeated_for_what_its_payer_is_to_do() {
    let mut shop = unknown();
    shop.callback(1, ProviderStatus::Pending);
    assert_eq!(shop.state(1), AttemptState::Open);
    shop.pass(Duration::from_secs(5));
    assert_eq!(shop.next_action(), Some(NextAction::Start(id(1))));
    shop.claim(1, ClaimPurpose::Start).unwrap();
    shop.result(1, redirect());
    assert_eq!(shop.next_action(), None);
}

#[test]
fn a_start_that_took_long_to_fail_is_repeated_once() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.pass(Duration::from_secs(15));
    shop.result(1, StartResult::Uncertain("time-out".into()));
    assert_eq!(
        live_in_silence_of_starts(&mut shop),
        [Duration::from_secs(30)]
    );
}

#[test]
fn a_start_that_is_lost_is_repeated_when_its_claim_has_ended_and_not_for_ever() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    assert_eq!(shop.aggregate.due_at(), Some(START.after(LEASE)));
    shop.pass(LEASE);
    assert_eq!(shop.next_action(), Some(NextAction::Start(id(1))));
    shop.claim(1, ClaimPurpose::Start).unwrap();
    // The second task is lost too.
    shop.pass(LEASE);
    assert_ne!(shop.next_action(), Some(NextAction::Start(id(1))));
}

#[test]
fn a_start_counts_from_the_answers_that_it_carries() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    let asks = StartResult::Open {
        reference: None,
        action: PayerAction::Ask(Vec::new()),
        until: None,
    };
    shop.result(1, asks);
    shop.pass(MINUTE / 2);
    assert_eq!(shop.next_action(), None, "the payer is to answer first");
    shop.step(Step::Answered {
        attempt: id(1),
        answers: Vec::new(),
        busy_until: shop.now.after(LEASE),
    });
    shop.result(1, StartResult::Uncertain("time-out".into()));
    let answered = MINUTE / 2;
    let after = |seconds| answered + Duration::from_secs(seconds);
    assert_eq!(live_in_silence_of_starts(&mut shop), [5, 10, 20].map(after));
}

#[test]
fn what_the_payer_wants_to_leave_is_not_started_again() {
    let mut shop = unknown();
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.silent(1, QueryPurpose::Cancel, false);
    assert_eq!(live_in_silence_of_starts(&mut shop), []);
    // Unless the payer wants it after all.
    shop.claim(1, ClaimPurpose::Start).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    assert_eq!(live_in_silence_of_starts(&mut shop).len(), 3);
}

#[test]
fn a_payment_in_review_starts_nothing() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.open(2).unwrap();
    shop.result(2, StartResult::Uncertain("time-out".into()));
    shop.hear(1, confirmed(), Via::Callback);
    assert_eq!(
        (shop.status(), shop.state(2)),
        (Status::Review, AttemptState::Unknown)
    );
    shop.pass(MINUTE);
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(2))));
    shop.claim(2, ClaimPurpose::Cancel).unwrap();
    shop.silent(2, QueryPurpose::Cancel, false);
    assert_ne!(shop.next_action(), Some(NextAction::Start(id(2))));
}

#[test]
fn an_attempt_whose_time_has_passed_is_closed_and_not_started_again() {
    let mut shop = Shop::new();
    shop.pass(DAY - Duration::from_secs(4));
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    shop.pass(Duration::from_secs(5));
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
}

#[test]
fn a_payment_that_nobody_pays_expires() {
    let mut shop = Shop::new();
    assert_eq!(shop.aggregate.due_at(), Some(START.after(DAY)));
    assert_eq!(shop.act(Act::Expire), Ok(StepOutcome::Nothing), "too early");
    shop.pass(DAY);
    assert_eq!(shop.next_action(), Some(NextAction::Expire));
    shop.act(Act::Expire).unwrap();
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Expired, Settlement::Pending)
    );
    assert_eq!(shop.told(EventType::PaymentExpired), 1);
    assert_eq!(shop.aggregate.due_at(), None);
}

#[test]
fn an_open_attempt_is_closed_when_its_time_passes_and_then_the_payment_expires() {
    let mut shop = Shop::new();
    shop.pass(DAY - MINUTE);
    shop.start(1);
    shop.pass(MINUTE);
    assert_eq!(shop.act(Act::Expire), Err(Refusal::ProviderFirst(id(1))));
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
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
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
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
    assert_eq!(shop.aggregate.payment.declines, 0);
}

/// The time of a query of the default schedule, for an attempt that expires after an hour.
fn turn(number: u8) -> Time {
    let end = Some(START.after(HOUR));
    QuerySchedule::default()
        .turn(id(1).as_bytes(), START, end, number)
        .unwrap()
}

#[test]
fn an_answered_question_is_no_silence_and_methods_that_take_days_end_by_themselves() {
    for said in [
        ProviderStatus::Processing,
        ProviderStatus::VerificationPending,
    ] {
        let mut shop = Shop::started();
        shop.callback(1, ProviderStatus::VerificationPending);
        while shop.now < START.after(DAY * 30) {
            shop.now = shop.now.max(shop.aggregate.due_at().unwrap());
            match shop.next_action() {
                Some(NextAction::Query(_)) => {
                    shop.hear(1, report(ProviderStatus::VerificationPending), Via::Query)
                }
                other => panic!("{other:?}"),
            };
        }
        assert_eq!(shop.status(), Status::VerificationPending, "{said:?}");
        shop.hear(1, confirmed(), Via::Query);
        assert_eq!(shop.status(), Status::Completed);
    }
}

#[test]
fn an_approval_that_is_lost_on_every_way_is_found_within_minutes() {
    let mut shop = Shop::started();
    assert_eq!(shop.aggregate.due_at(), Some(turn(0)));
    assert!(turn(0) <= START.after(MINUTE + MINUTE / 10));
    shop.now = turn(0);
    shop.hear(1, report(ProviderStatus::Pending), Via::Query);
    shop.now = shop.aggregate.due_at().unwrap();
    assert_eq!(shop.now, turn(1));
    shop.hear(1, report(ProviderStatus::Processing), Via::Query);
    assert_eq!(shop.next_action(), Some(NextAction::Capture(id(1))));
}

#[test]
fn an_outage_of_half_an_hour_sends_nothing_to_review() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    shop.pass(HOUR);
    let up_again = shop.now.after(MINUTE * 30);
    while shop.now < up_again {
        let due = shop.aggregate.due_at().unwrap();
        shop.now = shop.now.max(due);
        match shop.next_action().unwrap() {
            NextAction::Capture(_) => {
                shop.claim(1, ClaimPurpose::Capture).unwrap();
                shop.silent(1, QueryPurpose::Capture, false);
            }
            NextAction::Query(_) => {
                shop.silent(1, QueryPurpose::Sync, false);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shop.status(), Status::Processing);
    assert!(shop.attempt(1).queries.silences() > QuerySchedule::SILENCES);
}

#[test]
fn a_day_of_silence_since_its_life_ended_leads_to_review_and_the_questions_go_on() {
    for said in [
        None,
        Some(ProviderStatus::Processing),
        Some(ProviderStatus::VerificationPending),
    ] {
        let mut shop = Shop::started();
        if let Some(said) = said {
            shop.callback(1, said);
        }
        while shop.status() != Status::Review {
            assert!(
                live_in_silence_once(&mut shop) < START.after(DAY * 7),
                "{said:?}"
            );
        }
        assert!(shop.now >= START.after(DAY + HOUR));
        assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Silence));
        assert!(
            shop.aggregate.due_at().is_some(),
            "the daily questions go on"
        );
        // The provider's final status ends it.
        shop.hear(1, confirmed(), Via::Query);
        assert_eq!(shop.status(), Status::Completed);
    }
}

#[test]
fn after_the_last_question_nothing_is_asked_any_more_but_at_a_persons_wish() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::VerificationPending);
    live_in_silence(&mut shop, 60);
    assert_eq!(shop.aggregate.due_at(), None);
    assert!(shop.attempt(1).queries.is_exhausted());
    assert!(shop.now <= START.after(DAY * 35 + DAY * 4));
    shop.decline().unwrap();
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Failed, AttemptState::Failed)
    );
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
}

#[test]
fn a_completed_payment_that_is_never_confirmed_ends_on_the_work_list() {
    let mut shop = Shop::started();
    shop.pass(MINUTE);
    shop.callback(1, ProviderStatus::Completed);
    let first = QuerySchedule::default().turn(id(1).as_bytes(), shop.now, None, 0);
    assert_eq!(shop.aggregate.due_at(), first);
    // Unanswered queries add it after a day, once; the end of the schedule does not add it again.
    while shop.work.is_empty() {
        live_in_silence_once(&mut shop);
    }
    assert!(shop.now >= START.after(DAY));
    shop.items.clear();
    live_in_silence(&mut shop, 30);
    assert!(shop.work.is_empty());
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Completed, Settlement::Pending)
    );
}

#[test]
fn answers_that_settle_nothing_count_as_questions_of_the_schedule() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Completed);
    let mut questions = 0;
    while let Some(due) = shop.aggregate.due_at() {
        shop.now = due;
        assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
        shop.hear(1, report(ProviderStatus::Completed), Via::Query);
        questions += 1;
    }
    assert_eq!(questions, 5 + 35);
    assert_eq!(shop.listed(1), [WorkKind::Unsettled]);
}

#[test]
fn after_an_outage_of_ours_the_questions_are_not_asked_all_at_once() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::VerificationPending);
    shop.pass(DAY * 10);
    let mut asked = Vec::new();
    while asked.len() < 5 {
        shop.now = shop.now.max(shop.aggregate.due_at().unwrap());
        assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
        asked.push(shop.now);
        shop.hear(1, report(ProviderStatus::VerificationPending), Via::Query);
    }
    assert!(asked[4].since(asked[0]) >= DAY * 3);
}

#[test]
fn a_notice_beside_a_capture_is_looked_at_right_after_it() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    shop.claim(1, ClaimPurpose::Capture).unwrap();
    let question = shop.asked(1);
    shop.step(Step::AskAt {
        attempt: id(1),
        at: shop.now,
    });
    assert_eq!(shop.next_action(), None, "the capture is under way");
    // The answer is older than the notification.
    shop.step(Step::Report {
        attempt: id(1),
        report: report(ProviderStatus::Processing),
        via: Via::Query,
        asked: Some(question),
    });
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.hear(1, report(ProviderStatus::Review), Via::Query);
    assert_eq!(shop.status(), Status::Review);
    assert_eq!(shop.next_action(), None);
}

#[test]
fn a_notice_that_comes_while_the_money_is_taken_is_looked_at_too() {
    let mut shop = Shop::started();
    let question = shop.asked(1);
    shop.step(Step::AskAt {
        attempt: id(1),
        at: shop.now,
    });
    shop.step(Step::Report {
        attempt: id(1),
        report: confirmed(),
        via: Via::Query,
        asked: Some(question),
    });
    assert_eq!(
        (shop.status(), shop.next_action()),
        (Status::Completed, Some(NextAction::Query(id(1))))
    );
    shop.hear(1, confirmed(), Via::Query);
    assert_eq!(shop.aggregate.due_at(), None);
}

#[test]
fn a_payment_unknown_to_the_vendor_is_over_only_when_no_request_can_be_under_way() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    let repeats = live_in_silence_of_starts(&mut shop);
    assert_eq!(repeats, [5, 10, 20].map(Duration::from_secs));
    let last = shop.now;
    shop.now = shop.aggregate.due_at().unwrap();
    assert_eq!(shop.now, START.after(Duration::from_secs(30)));
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.silent(1, QueryPurpose::Sync, true);
    assert_eq!(shop.state(1), AttemptState::Unknown, "too early to believe");
    let again = Some(NextAction::Start(id(1)));
    assert_eq!(shop.next_action(), again, "it answers again");
    shop.now = last.after(MINUTE * 2);
    shop.silent(1, QueryPurpose::Sync, true);
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Created, AttemptState::Unavailable)
    );
}

#[test]
fn a_vendor_that_forgets_what_it_had_approved_is_not_believed() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    shop.pass(HOUR);
    shop.silent(1, QueryPurpose::Sync, true);
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
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.silent(1, QueryPurpose::Sync, false);
    assert_eq!(shop.next_action(), None);
    assert_eq!(shop.attempt(1).queries.sent(), Some(0));
    // Queried with growing pauses until the schedule's own turn.
    while shop.attempt(1).queries.sent() == Some(0) {
        shop.now = shop.aggregate.due_at().unwrap();
        shop.silent(1, QueryPurpose::Sync, false);
    }
    assert_eq!(shop.now, turn(0));
    shop.step(Step::AskAt {
        attempt: id(1),
        at: START.after(DAY),
    });
    assert_eq!(shop.attempt(1).queries.next(), Some(turn(1)));
}

#[test]
fn a_late_notice_for_a_closed_attempt_is_looked_at() {
    let mut shop = Shop::started();
    shop.close(1);
    shop.step(Step::AskAt {
        attempt: id(1),
        at: shop.now,
    });
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.hear(1, report(ProviderStatus::Declined), Via::Query);
    assert_eq!(
        shop.aggregate.due_at(),
        Some(START.after(DAY)),
        "only expiry is left"
    );
}

#[test]
fn nothing_is_due_while_a_worker_holds_the_payment() {
    let mut shop = Shop::started();
    let claimed_until = START.after(DAY);
    shop.aggregate.payment.claimed_until = Some(claimed_until);
    assert_eq!(shop.aggregate.due_at(), Some(claimed_until));
    shop.step(Step::Release {
        claimed_until: START.after(MINUTE),
    });
    assert_eq!(
        shop.aggregate.due_at(),
        Some(claimed_until),
        "a worker whose claim has run out ends no other's"
    );
    shop.step(Step::Release { claimed_until });
    assert_eq!(shop.aggregate.due_at(), Some(turn(0)));
}

#[test]
fn an_attempt_that_the_vendor_knew_and_forgot_ends_before_a_person() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Pending);
    shop.pass(MINUTE * 5);
    shop.silent(1, QueryPurpose::Sync, true);
    assert_eq!(shop.status(), Status::Pending, "it proves nothing");
    while shop.status() == Status::Pending {
        assert!(live_in_silence_once(&mut shop) < START.after(DAY * 3));
    }
    assert_eq!(shop.aggregate.payment.review, Some(ReviewCause::Silence));
    shop.decline().unwrap();
    while shop.next_action() != Some(NextAction::Cancel(id(1))) {
        shop.now = shop.now.max(shop.aggregate.due_at().unwrap()).after(MINUTE);
    }
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.silent(1, QueryPurpose::Cancel, true);
    assert_eq!(shop.status(), Status::Failed);
}

#[test]
fn a_payer_who_takes_long_to_answer_questions_keeps_the_attempt() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(
        1,
        StartResult::Open {
            reference: None,
            action: PayerAction::Ask(Vec::new()),
            until: None,
        },
    );
    while shop.now < START.after(MINUTE * 50) {
        shop.now = shop.now.max(shop.aggregate.due_at().unwrap());
        shop.silent(1, QueryPurpose::Sync, true);
        assert_eq!(
            (shop.status(), shop.state(1)),
            (Status::Pending, AttemptState::Open)
        );
    }
    shop.now = START.after(HOUR);
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.silent(1, QueryPurpose::Cancel, true);
    assert_eq!(shop.status(), Status::Created);
}
