//! What becomes of a payment, and by which events it is told: by their names, whatever the code calls
//! them.

use super::*;

/// What happens to a payment.
type Course = fn(&mut Shop);

/// An attempt begins, and the vendor says so much.
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

#[test]
fn what_becomes_of_a_payment_is_told_by_these_events_and_no_others() {
    let rows: [(Course, &str, &[&str]); 14] = [
        (|shop| says(shop, []), "pending", &[PENDING]),
        (
            |shop| says(shop, [report(VendorStatus::Declined)]),
            "created",
            &[PENDING],
        ),
        (
            |shop| {
                says(shop, [report(VendorStatus::Expired)]);
                shop.open(2).unwrap();
            },
            "pending",
            &[PENDING, PENDING],
        ),
        (
            |shop| says(shop, [report(VendorStatus::Processing)]),
            "processing",
            &[PENDING, "payment.processing"],
        ),
        (
            |shop| says(shop, [report(VendorStatus::VerificationPending)]),
            "verification_pending",
            &[PENDING, "payment.verification_pending"],
        ),
        (
            |shop| says(shop, [report(VendorStatus::Review)]),
            "review",
            &[PENDING, "payment.review"],
        ),
        // Paid, and not for certain.
        (
            |shop| says(shop, [report(VendorStatus::Completed)]),
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
                let paid = report(VendorStatus::Completed);
                says(shop, [paid, confirmed(), confirmed()]);
            },
            "completed",
            &[PENDING, "payment.completed"],
        ),
        (
            |shop| says(shop, [report(VendorStatus::Failed)]),
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
            |shop| says(shop, [confirmed(), report(VendorStatus::Review)]),
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
