//! Created ↔ pending, one open attempt, unknown outcomes, limits on attempts, questions.

use super::*;
use crate::decline::DeclineCode;
use crate::provider::{Question, QuestionKind};

fn next(shop: &Shop, number: u8) -> Option<Box<Choice>> {
    Some(Box::new(choice(number, MethodId::Ideal, shop.now)))
}

fn unavailable(shop: &mut Shop, number: u8, then: Option<u8>) -> StepOutcome {
    let next = then.and_then(|then| next(shop, then));
    shop.step(Step::Started {
        held: None,
        attempt: id(number),
        result: StartResult::Unavailable("down".into()),
        next,
    })
}

#[test]
fn a_start_that_answers_late_leaves_the_hold_of_the_task_that_repeats_it() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    let late = shop.attempt(1).claim.busy_until();
    shop.pass(LEASE * 2);
    shop.claim(1, ClaimPurpose::Start).unwrap();
    let hold = shop.attempt(1).claim.busy_until();
    assert_ne!(hold, late);
    let answered = |held| Step::Started {
        held,
        attempt: id(1),
        result: StartResult::Uncertain("time-out".into()),
        next: None,
    };
    shop.step(answered(late));
    assert_eq!(shop.attempt(1).claim.busy_until(), hold);
    shop.step(answered(hold));
    assert_eq!(shop.attempt(1).claim.busy_until(), None);
}

#[test]
fn opening_moves_to_pending_before_the_provider_is_called() {
    let mut shop = Shop::new();
    assert_eq!(shop.open(1), Ok(StepOutcome::Opened(id(1))));
    assert_eq!(shop.status(), Status::Pending);
    assert_eq!(shop.told(EventType::PaymentPending), 1);
    assert_eq!(shop.aggregate.payment.method, Some(MethodId::Ideal));
    assert_eq!(shop.open(2), Err(Refusal::AttemptOpen(id(1))));
}

#[test]
fn an_attempt_never_outlives_its_payment() {
    let mut shop = Shop::new();
    shop.pass(DAY - MINUTE);
    shop.open(1).unwrap();
    assert_eq!(shop.attempt(1).expires_at, START.after(DAY));
}

#[test]
fn no_attempt_opens_after_expiry() {
    let mut shop = Shop::new();
    shop.pass(DAY);
    assert_eq!(shop.open(1), Err(Refusal::NotPayable(Status::Created)));
}

#[test]
fn an_unavailable_provider_hands_over_in_the_same_step_without_a_second_event() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    assert_eq!(
        unavailable(&mut shop, 1, Some(2)),
        StepOutcome::Opened(id(2))
    );
    assert_eq!(shop.status(), Status::Pending);
    assert_eq!(shop.state(1), AttemptState::Unavailable);
    assert_eq!(shop.told(EventType::PaymentPending), 1);
    unavailable(&mut shop, 2, None);
    assert_eq!(shop.status(), Status::Created);
    assert_eq!(shop.told(EventType::PaymentAttemptFailed), 2);
    assert_eq!(
        shop.events.len(),
        3,
        "the way back makes no event of its own"
    );
}

#[test]
fn a_hand_over_after_expiry_expires_the_payment() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.pass(DAY);
    assert_eq!(unavailable(&mut shop, 1, Some(2)), StepOutcome::Done);
    assert_eq!(shop.status(), Status::Expired);
    assert_eq!(shop.settlement(), Settlement::Pending);
    assert_eq!(shop.aggregate.attempts.len(), 1);
}

#[test]
fn nothing_falls_back_from_an_unknown_outcome() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    assert_eq!(shop.state(1), AttemptState::Unknown);
    // The provider is queried half a minute later; the start is repeated before that.
    let half_a_minute = START.after(Duration::from_secs(30));
    assert_eq!(shop.attempt(1).queries.next(), Some(half_a_minute));
    assert_eq!(
        shop.aggregate.due_at(),
        Some(START.after(Duration::from_secs(5)))
    );
    shop.claim(1, ClaimPurpose::Start).unwrap();
    assert_eq!(unavailable(&mut shop, 1, Some(2)), StepOutcome::Done);
    assert_eq!(
        shop.state(1),
        AttemptState::Unknown,
        "unavailable proves nothing now"
    );
    assert_eq!(shop.aggregate.attempts.len(), 1);
    shop.claim(1, ClaimPurpose::Start).unwrap();
    shop.result(1, redirect());
    assert_eq!(shop.state(1), AttemptState::Open);
}

#[test]
fn a_start_that_was_lost_counts_as_unknown_when_it_is_repeated() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    assert_eq!(
        shop.claim(1, ClaimPurpose::Start),
        Err(Refusal::Busy(START.after(LEASE)))
    );
    shop.pass(LEASE);
    shop.claim(1, ClaimPurpose::Start).unwrap();
    unavailable(&mut shop, 1, Some(2));
    assert_eq!(shop.state(1), AttemptState::Unknown);
}

#[test]
fn an_unknown_start_that_is_declined_on_repetition_is_over() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    shop.claim(1, ClaimPurpose::Start).unwrap();
    shop.result(1, StartResult::Declined("no".into()));
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Created, AttemptState::Declined)
    );
}

#[test]
fn five_declines_fail_the_payment() {
    let mut shop = Shop::new();
    for number in 1..=4 {
        shop.open(number).unwrap();
        if number % 2 == 0 {
            shop.result(number, StartResult::Declined("no".into()));
        } else {
            shop.result(number, redirect());
            shop.callback(number, ProviderStatus::Declined);
        }
        assert_eq!(shop.status(), Status::Created);
    }
    shop.start(5);
    shop.callback(5, ProviderStatus::Declined);
    assert_eq!(
        (shop.status(), shop.settlement()),
        (Status::Failed, Settlement::Failed)
    );
    assert_eq!(shop.told(EventType::PaymentFailed), 1);
    assert_eq!(shop.open(6), Err(Refusal::NotPayable(Status::Failed)));
}

#[test]
fn twenty_attempts_are_the_limit_and_ways_left_by_choice_are_no_declines() {
    let mut shop = Shop::new();
    for number in 1..=20 {
        shop.start(number);
        shop.close(number);
        assert_eq!(shop.state(number), AttemptState::Closed);
        assert_eq!(
            (shop.status(), shop.aggregate.payment.declines),
            (Status::Created, 0)
        );
    }
    assert_eq!(shop.open(21), Err(Refusal::TooManyAttempts));
}

#[test]
fn a_close_that_is_not_certain_leaves_the_attempt_open() {
    let mut shop = Shop::started();
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.hear(1, report(ProviderStatus::Pending), Via::Query);
    assert_eq!(shop.state(1), AttemptState::Open);
    assert_eq!(shop.open(2), Err(Refusal::AttemptOpen(id(1))));
    // The task that had claimed it is done, so closing can be tried again.
    assert!(shop.claim(1, ClaimPurpose::Cancel).is_ok());
}

#[test]
fn an_attempt_that_is_started_again_is_not_being_closed_any_more() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.result(1, StartResult::Uncertain("time-out".into()));
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    let closing = shop.asked(1);
    shop.silent(1, QueryPurpose::Cancel, false);
    assert!(shop.attempt(1).stage.is_closing());
    shop.claim(1, ClaimPurpose::Start).unwrap();
    assert!(!shop.attempt(1).stage.is_closing());
    // A late answer about the closing does not end the start's claim.
    shop.step(Step::QueryFailed {
        attempt: id(1),
        asked: closing,
        absent: false,
        scheduled: false,
    });
    assert!(shop.attempt(1).is_busy(shop.now));
    shop.result(1, redirect());
    assert_eq!(shop.attempt(1).claim.busy_until(), None);
    // A close that claimed the attempt after a lost start keeps its claim when that start's result arrives.
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.pass(LEASE);
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.result(1, redirect());
    assert!(shop.attempt(1).stage.is_closing() && shop.attempt(1).is_busy(shop.now));
}

#[test]
fn answers_to_questions_end_a_closing_that_was_lost() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    let asks = StartResult::Open {
        reference: None,
        action: PayerAction::Ask(Vec::new()),
        until: None,
    };
    shop.result(1, asks);
    shop.claim(1, ClaimPurpose::Cancel).unwrap();
    shop.pass(LEASE);
    shop.step(Step::Answered {
        attempt: id(1),
        answers: Vec::new(),
        busy_until: shop.now.after(LEASE),
    });
    assert!(!shop.attempt(1).stage.is_closing());
    shop.result(1, redirect());
    assert_eq!(shop.attempt(1).claim.busy_until(), None);
}

#[test]
fn what_the_payer_approved_is_not_closed_for_another_choice() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(
        shop.claim(1, ClaimPurpose::Cancel),
        Err(Refusal::WrongState(AttemptState::Processing))
    );
}

#[test]
fn questions_are_answered_once_and_the_start_goes_on() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    let question = Question {
        name: "email".into(),
        label: "E-mail".into(),
        kind: QuestionKind::Email,
        required: true,
        choices: Vec::new(),
    };
    shop.result(
        1,
        StartResult::Open {
            reference: None,
            action: PayerAction::Ask(vec![question]),
            until: None,
        },
    );
    let busy_until = shop.now.after(LEASE);
    let answers = |text: &str| Step::Answered {
        attempt: id(1),
        answers: vec![("email".into(), Secret::new(text))],
        busy_until,
    };
    shop.step(answers("a@b.example"));
    assert_eq!(shop.try_step(answers("x")), Err(Refusal::Busy(busy_until)));
    assert_eq!(shop.attempt(1).answers.len(), 1);
    // Nothing was created when it asked: after an unavailable account the next one is used.
    assert_eq!(
        unavailable(&mut shop, 1, Some(2)),
        StepOutcome::Opened(id(2))
    );
    shop.result(2, redirect());
    let late = Step::Answered {
        attempt: id(2),
        answers: Vec::new(),
        busy_until,
    };
    assert_eq!(
        shop.try_step(late),
        Err(Refusal::WrongState(AttemptState::Open))
    );
    shop.step(Step::Redact);
    assert!(shop.attempt(1).answers.is_empty());
}

#[test]
fn an_open_payment_needs_a_reference_and_keeps_few() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    let blank = StartResult::Open {
        reference: Some(String::new()),
        action: PayerAction::Redirect("https://pay.example".into()),
        until: None,
    };
    let step = Step::Started {
        held: None,
        attempt: id(1),
        result: blank,
        next: None,
    };
    assert!(matches!(shop.try_step(step), Err(Refusal::BadReport(_))));
    for number in 0..20 {
        let named = Report {
            reference: format!("ref-{number}"),
            ..report(ProviderStatus::Pending)
        };
        shop.hear(1, named, Via::Callback);
    }
    assert_eq!(
        shop.attempt(1).references.len(),
        PaymentAggregate::MAX_REFERENCES
    );
}

#[test]
fn a_start_recorded_after_the_attempt_ended_only_leaves_its_reference() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.callback(1, ProviderStatus::Declined);
    shop.result(
        1,
        StartResult::Open {
            reference: Some("late".into()),
            action: PayerAction::Redirect("https://pay.example".into()),
            until: None,
        },
    );
    assert_eq!(shop.state(1), AttemptState::Declined);
    assert_eq!(shop.attempt(1).references[0], "late");
    // It exists there after all, so the provider is queried and the payment closed if necessary.
    assert_eq!(shop.next_action(), Some(NextAction::Query(id(1))));
    shop.hear(1, report(ProviderStatus::Pending), Via::Query);
    shop.pass(MINUTE);
    assert_eq!(shop.next_action(), Some(NextAction::Cancel(id(1))));
}

#[test]
fn a_provider_that_reported_the_payment_cannot_call_it_never_created() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    shop.callback(1, ProviderStatus::Pending);
    assert_eq!(unavailable(&mut shop, 1, Some(2)), StepOutcome::Done);
    assert_eq!(shop.state(1), AttemptState::Unknown);
}

#[test]
fn attempts_that_the_payer_called_off_do_not_count_as_declines() {
    let mut shop = Shop::new();
    for number in 1..=7 {
        shop.start(number);
        shop.callback(number, ProviderStatus::Cancelled);
        assert_eq!(
            (shop.status(), shop.state(number)),
            (Status::Created, AttemptState::Cancelled)
        );
        let told = shop.events.last().unwrap();
        assert_eq!(told.kind, EventType::PaymentAttemptFailed);
        let cancelled = EventSubject::Decline(DeclineCode::Cancelled);
        assert_eq!(told.subject, Some(cancelled));
    }
    assert_eq!(shop.aggregate.payment.declines, 0);
}

#[test]
fn an_answer_that_is_asked_for_again_leaves_the_others() {
    let mut shop = Shop::new();
    shop.open(1).unwrap();
    let ask = |name: &str| StartResult::Open {
        reference: None,
        action: PayerAction::Ask(vec![Question {
            name: name.into(),
            label: name.into(),
            kind: QuestionKind::Text,
            required: true,
            choices: vec![],
        }]),
        until: None,
    };
    let answer = |name: &str, value: &str| Step::Answered {
        attempt: id(1),
        answers: vec![(name.into(), Secret::new(value))],
        busy_until: START.after(LEASE),
    };
    shop.result(1, ask("city"));
    shop.pass(LEASE);
    shop.try_step(answer("city", "Utrecht")).unwrap();
    for wrong in ["1", "2", "3", "4", "5", "6"] {
        shop.result(1, ask("postal-code"));
        shop.try_step(answer("postal-code", wrong)).unwrap();
    }
    assert_eq!(
        (shop.status(), shop.state(1)),
        (Status::Pending, AttemptState::Open)
    );
    let known = shop.attempt(1).answers.iter();
    let known: Vec<_> = known
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(known, [("city", "Utrecht"), ("postal-code", "6")]);
    assert_eq!(shop.aggregate.payment.declines, 0);
}
