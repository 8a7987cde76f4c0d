//! Exactly the legal transitions that the decisions list.

use super::super::moves::legal;
use super::*;

#[test]
fn exactly_the_listed_transitions_are_legal() {
    let follows = |from| -> &[Status] {
        match from {
            Status::Created => &[
                Status::Pending,
                Status::Review,
                Status::Expired,
                Status::Cancelled,
            ],
            Status::Pending => &[
                Status::Created,
                Status::Processing,
                Status::Review,
                Status::VerificationPending,
                Status::Completed,
                Status::Failed,
                Status::Cancelled,
                Status::Expired,
            ],
            Status::Processing => &[
                Status::VerificationPending,
                Status::Review,
                Status::Completed,
                Status::Failed,
            ],
            Status::VerificationPending => &[
                Status::Processing,
                Status::Review,
                Status::Completed,
                Status::Failed,
            ],
            Status::Review => &[Status::Completed, Status::Failed],
            Status::Expired | Status::Failed | Status::Cancelled => &[Status::Review],
            Status::Completed => &[],
        }
    };
    for from in Status::ALL {
        for to in Status::ALL {
            assert_eq!(
                legal(from, to),
                follows(from).contains(&to),
                "{from:?} → {to:?}"
            );
        }
    }
}

#[test]
fn each_report_moves_a_pending_payment_where_the_law_says() {
    let rows = [
        (ProviderStatus::Pending, Status::Pending, AttemptState::Open),
        (
            ProviderStatus::Processing,
            Status::Processing,
            AttemptState::Processing,
        ),
        (
            ProviderStatus::VerificationPending,
            Status::VerificationPending,
            AttemptState::VerificationPending,
        ),
        (ProviderStatus::Review, Status::Review, AttemptState::Review),
        (
            ProviderStatus::Completed,
            Status::Completed,
            AttemptState::Captured,
        ),
        (
            ProviderStatus::Declined,
            Status::Created,
            AttemptState::Declined,
        ),
        (
            ProviderStatus::Cancelled,
            Status::Created,
            AttemptState::Cancelled,
        ),
        (
            ProviderStatus::Expired,
            Status::Created,
            AttemptState::Expired,
        ),
        (ProviderStatus::Failed, Status::Failed, AttemptState::Failed),
    ];
    for (said, status, state) in rows {
        let mut shop = Shop::started();
        shop.callback(1, said);
        assert_eq!((shop.status(), shop.state(1)), (status, state), "{said:?}");
        let told = EventType::of_transition(status);
        assert_eq!(
            shop.events.last().map(|told| told.kind),
            match status {
                Status::Created
                    if matches!(state, AttemptState::Declined | AttemptState::Cancelled) =>
                {
                    Some(EventType::PaymentAttemptFailed)
                }
                Status::Pending | Status::Created | Status::Completed => {
                    Some(EventType::PaymentPending)
                }
                _ => told,
            }
        );
        let after = shop.aggregate.clone();
        shop.callback(1, said);
        let events = shop.events.len();
        let lines = shop.unapplied;
        assert!(lines <= 1, "{said:?} was written down {lines} times");
        for _ in 0..10 {
            shop.callback(1, said);
            assert!(
                !shop.last.dirty && shop.last.transitions.is_empty(),
                "{said:?}"
            );
        }
        assert_eq!(
            (shop.status(), events),
            (after.payment.status, shop.events.len())
        );
    }
}

#[test]
fn a_payment_under_way_that_is_denied_has_failed() {
    for under_way in [
        ProviderStatus::Processing,
        ProviderStatus::VerificationPending,
    ] {
        for denied in [
            ProviderStatus::Declined,
            ProviderStatus::Cancelled,
            ProviderStatus::Expired,
            ProviderStatus::Failed,
        ] {
            let mut shop = Shop::started();
            shop.callback(1, under_way);
            shop.callback(1, denied);
            assert_eq!(shop.status(), Status::Failed);
            assert_eq!(shop.settlement(), Settlement::Failed);
            assert_eq!(shop.told(EventType::PaymentFailed), 1);
        }
    }
}

#[test]
fn processing_and_verification_pending_lead_to_one_another() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    shop.callback(1, ProviderStatus::VerificationPending);
    assert_eq!(shop.status(), Status::VerificationPending);
    shop.callback(1, ProviderStatus::Processing);
    assert_eq!(shop.status(), Status::Processing);
}

#[test]
fn an_older_status_that_arrives_late_changes_nothing_and_is_written_down_once() {
    let mut shop = Shop::started();
    shop.callback(1, ProviderStatus::Processing);
    let outcome = shop.callback(1, ProviderStatus::Pending);
    assert_eq!(outcome, StepOutcome::Nothing);
    let line = &shop.last.transitions[0];
    assert_eq!(
        (line.from, line.to, line.applied),
        (Status::Processing, Status::Pending, false)
    );
    shop.callback(1, ProviderStatus::Pending);
    assert!(shop.last.transitions.is_empty() && !shop.last.dirty);
    assert_eq!(shop.state(1), AttemptState::Processing);
}

#[test]
fn completed_is_final_whatever_is_said_or_done() {
    let mut shop = Shop::started();
    shop.hear(1, confirmed(), Via::Callback);
    for said in [
        ProviderStatus::Pending,
        ProviderStatus::Processing,
        ProviderStatus::VerificationPending,
        ProviderStatus::Review,
        ProviderStatus::Declined,
        ProviderStatus::Failed,
        ProviderStatus::Cancelled,
        ProviderStatus::Expired,
    ] {
        shop.callback(1, said);
        assert_eq!(shop.status(), Status::Completed, "{said:?}");
        assert_eq!(shop.settlement(), Settlement::Confirmed, "{said:?}");
        assert_eq!(shop.state(1), AttemptState::Captured, "{said:?}");
    }
    let wrong = Refusal::WrongStatus(Status::Completed);
    assert_eq!(shop.act(Act::Cancel), Err(wrong.clone()));
    assert_eq!(shop.act(Act::Expire), Err(wrong.clone()));
    assert_eq!(shop.decline(), Err(wrong.clone()));
    assert_eq!(shop.approve(None), Err(wrong));
    assert_eq!(shop.told(EventType::PaymentCompleted), 1);
}

#[test]
fn callback_return_and_query_in_any_order_make_one_transition_and_one_event() {
    let ways = [Via::Callback, Via::Return, Via::Query];
    for first in 0..3 {
        for second in (0..3).filter(|second| *second != first) {
            let third = 3 - first - second;
            let mut shop = Shop::new();
            shop.open(1).unwrap();
            for (turn, way) in [first, second, third].into_iter().enumerate() {
                shop.hear(1, confirmed(), ways[way]);
                if turn == 0 {
                    // The result of the start is recorded after the report.
                    shop.result(1, redirect());
                }
            }
            assert_eq!(
                shop.applied,
                [
                    (Status::Created, Status::Pending),
                    (Status::Pending, Status::Completed)
                ]
            );
            assert_eq!(shop.told(EventType::PaymentCompleted), 1);
            assert!(
                shop.attempt(1).action().is_some(),
                "the start was not recorded"
            );
            assert!(shop.work.is_empty());
        }
    }
}

#[test]
fn unusable_news_is_refused() {
    let mut shop = Shop::started();
    let nothing = Report {
        received: Minor(0),
        ..report(ProviderStatus::Completed)
    };
    let nameless = Report {
        currency: String::new(),
        ..report(ProviderStatus::Completed)
    };
    let lost = Report {
        reference: String::new(),
        ..report(ProviderStatus::Pending)
    };
    for bad in [nothing, nameless, lost] {
        let step = Step::Report {
            attempt: id(1),
            report: bad,
            via: Via::Callback,
            asked: None,
        };
        assert!(matches!(shop.try_step(step), Err(Refusal::BadReport(_))));
    }
    let stranger = Step::AskAt {
        attempt: id(9),
        at: START,
    };
    assert_eq!(shop.try_step(stranger), Err(Refusal::NoSuchAttempt));
}
