//! Outcomes of payments and the events that report them, by their wire names.

use super::*;

/// A sequence of steps of a payment.
type Course = fn(&mut Shop);

/// Opens an attempt and applies these reports of the provider.
fn says(shop: &mut Shop, said: impl IntoIterator<Item = Report>) {
    shop.open(1).unwrap();
    for report in said {
        shop.hear(1, report, Via::Callback);
    }
}

fn gives_back() -> Report {
    Report {
        returned: Minor(100),
        ..confirmed()
    }
}

const PENDING: &str = "payment.pending";
const FAILED: &str = "payment.attempt_failed";

#[test]
fn what_becomes_of_a_payment_is_told_by_these_events_and_no_others() {
    let rows: [(Course, &str, &[&str]); 14] = [
        (|shop| says(shop, []), "pending", &[PENDING]),
        (
            |shop| says(shop, [report(ProviderStatus::Declined)]),
            "created",
            &[PENDING, FAILED],
        ),
        (
            |shop| {
                says(shop, [report(ProviderStatus::Expired)]);
                shop.open(2).unwrap();
            },
            "pending",
            &[PENDING, PENDING],
        ),
        (
            |shop| says(shop, [report(ProviderStatus::Processing)]),
            "processing",
            &[PENDING, "payment.processing"],
        ),
        (
            |shop| says(shop, [report(ProviderStatus::VerificationPending)]),
            "verification_pending",
            &[PENDING, "payment.verification_pending"],
        ),
        (
            |shop| says(shop, [report(ProviderStatus::Review)]),
            "review",
            &[PENDING, "payment.review"],
        ),
        // Paid, but not confirmed.
        (
            |shop| says(shop, [report(ProviderStatus::Completed)]),
            "completed",
            &[PENDING],
        ),
        (
            |shop| says(shop, [confirmed()]),
            "completed",
            &[PENDING, "payment.completed"],
        ),
        (
            |shop| {
                let paid = report(ProviderStatus::Completed);
                says(shop, [paid, confirmed(), confirmed()]);
            },
            "completed",
            &[PENDING, "payment.completed"],
        ),
        (
            |shop| says(shop, [report(ProviderStatus::Failed)]),
            "failed",
            &[PENDING, "payment.failed"],
        ),
        (
            |shop| {
                shop.act(Act::Cancel).unwrap();
            },
            "cancelled",
            &["payment.cancelled"],
        ),
        (
            |shop| {
                shop.pass(DAY);
                shop.act(Act::Expire).unwrap();
            },
            "expired",
            &["payment.expired"],
        ),
        (
            |shop| says(shop, [confirmed(), gives_back(), gives_back()]),
            "completed",
            &[PENDING, "payment.completed", "payment.refunded"],
        ),
        (
            |shop| says(shop, [confirmed(), disputed(DisputeState::Open)]),
            "completed",
            &[PENDING, "payment.completed", "payment.disputed"],
        ),
    ];
    for (place, (course, status, events)) in rows.into_iter().enumerate() {
        let mut shop = Shop::new();
        course(&mut shop);
        let told: Vec<_> = shop.events.iter().map(|told| told.kind.as_str()).collect();
        assert_eq!(
            (shop.status().as_str(), &told[..]),
            (status, events),
            "{place}"
        );
    }
}

#[test]
fn a_failed_attempt_is_told_while_the_payment_goes_on_and_with_its_reason() {
    let decline = |shop: &Shop| match &shop.events.last().unwrap().subject {
        Some(EventSubject::Decline(code)) => Some(code.as_str()),
        _ => None,
    };
    let refused = |reason: &str| {
        let mut refused = report(ProviderStatus::Declined);
        refused.particulars.reason = Some(reason.into());
        refused
    };
    let mut shop = Shop::new();
    for (number, (said, code)) in [
        (report(ProviderStatus::Declined), "declined"),
        (report(ProviderStatus::Cancelled), "cancelled"),
        (refused("insufficient_funds"), "insufficient_funds"),
        (refused("do_not_honor"), "declined"),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u8::try_from(number).unwrap() + 1;
        shop.open(number).unwrap();
        shop.hear(number, said, Via::Callback);
        assert_eq!(
            shop.told(EventType::PaymentAttemptFailed),
            usize::from(number)
        );
        assert_eq!(decline(&shop), Some(code));
        assert_eq!(shop.events.last().unwrap().status, Status::Created);
    }
    // The last of five declines fails the payment, and only that event is sent.
    for number in [5, 6] {
        shop.open(number).unwrap();
        shop.hear(number, report(ProviderStatus::Declined), Via::Callback);
    }
    assert_eq!(shop.status(), Status::Failed);
    assert_eq!(shop.told(EventType::PaymentAttemptFailed), 5);
}

#[test]
fn neither_an_attempt_that_was_closed_nor_one_that_expired_failed() {
    let mut shop = Shop::new();
    says(&mut shop, [report(ProviderStatus::Expired)]);
    shop.start(2);
    shop.close(2);
    assert_eq!(shop.state(2), AttemptState::Closed);
    assert_eq!(shop.told(EventType::PaymentAttemptFailed), 0);
}
