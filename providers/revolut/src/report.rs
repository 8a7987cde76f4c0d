//! Reports about orders and their disputes.
use kassette_plugin::provider::{Capture, Money, Report, Settlement, Status};

use crate::particulars;
use crate::wire::{Dispute, Order, Problem, Stands, Tried, Verdict};

/// Whether every try was declined and the order is still pending. The payer could try again on Revolut's page
/// until the order is cancelled.
pub(crate) fn is_declined(order: &Order) -> bool {
    let over = |tried| tried == Tried::Ended;
    order.stands == Stands::Pending
        && !order.payments.is_empty()
        && order.payments.iter().all(|payment| over(payment.tried))
}

/// Report about an order. With `over`, the attempt has expired: then an order that failed without a payment is
/// reported as expired.
pub(crate) fn report(order: Order, disputes: &[Dispute], over: bool) -> Report {
    let received = received(&order);
    let open = disputes
        .iter()
        .any(|dispute| dispute.verdict == Verdict::Open);
    let lost: u64 = disputes
        .iter()
        .filter(|dispute| dispute.verdict == Verdict::Lost)
        .filter(|dispute| dispute.amount.currency == received.currency)
        .fold(0, |sum: u64, dispute| {
            sum.saturating_add(dispute.amount.amount)
        });
    // Revolut can report disputes over more than was paid; at most the rest is lost.
    let lost = lost.min(received.amount.saturating_sub(order.refunded));
    let moving = order
        .payments
        .iter()
        .any(|each| each.tried == Tried::Moving);
    let approved = order.payments.iter().any(|payment| payment.approved);
    let (status, settlement, detail) = match order.stands {
        Stands::Pending if is_declined(&order) => {
            (Status::Pending, Settlement::Pending, "a try was declined")
        }
        Stands::Pending | Stands::Unknown => (Status::Pending, Settlement::Pending, "pending"),
        Stands::Processing if approved => {
            (Status::Processing, Settlement::Pending, "being captured")
        }
        // The payer has entered data; nothing is approved yet.
        Stands::Processing => (Status::Pending, Settlement::Pending, "processing"),
        Stands::Authorised => (Status::Processing, Settlement::Pending, "authorised"),
        Stands::Completed if open => (Status::Review, Settlement::Pending, "disputed"),
        Stands::Completed if lost > 0 => (Status::Completed, Settlement::Confirmed, "dispute lost"),
        Stands::Completed => (Status::Completed, Settlement::Confirmed, "completed"),
        // Contradictory: an order that has ended should not have a captured payment.
        Stands::Cancelled | Stands::Failed if received.amount > 0 => {
            (Status::Review, Settlement::Pending, "over, but paid")
        }
        Stands::Cancelled | Stands::Failed if moving => {
            (Status::Pending, Settlement::Pending, "over, but being paid")
        }
        // Nothing was captured and nothing can be captured later.
        Stands::Cancelled => (Status::Declined, Settlement::Pending, "cancelled"),
        Stands::Failed if over && order.payments.is_empty() => {
            (Status::Expired, Settlement::Pending, "failed unpaid")
        }
        Stands::Failed => (Status::Declined, Settlement::Pending, "failed"),
    };
    let mut particulars = particulars::gathered(&order, disputes);
    if received.amount > 0 {
        particulars.captures.push(Capture {
            id: order.id.clone(),
            amount: received.amount,
            at: particulars.captured_at,
            reversed: false,
        });
    }
    let detail = match &particulars.reason {
        Some(why) => format!("{detail}, {why}"),
        None => detail.to_owned(),
    };
    Report {
        reference: order.id,
        status,
        settlement,
        received,
        given_back: order.refunded.saturating_add(lost),
        detail,
        particulars,
    }
}

/// Report about an order after a refused capture: review if the order is still authorized and Revolut does not
/// capture it automatically. Otherwise the normal report.
pub(crate) fn refused(order: Order, problem: &Problem, over: bool) -> Report {
    let stuck = order.stands == Stands::Authorised && order.manual;
    let mut report = report(order, &[], over);
    if stuck {
        report.status = Status::Review;
        report.detail = format!("the capture was refused, status {}", problem.status);
        report.particulars.reason = Some(problem.code.clone());
    }
    report
}

/// Amount received: the sum of the captured payments, or, if they are not listed, the amount that is not
/// outstanding.
fn received(order: &Order) -> Money {
    let mut taken = order
        .payments
        .iter()
        .filter(|payment| payment.tried == Tried::Captured)
        .map(|payment| &payment.amount);
    match taken.next() {
        Some(first) => Money {
            // An order is paid by one payment; if there are two in one currency, both were captured.
            amount: taken
                .filter(|more| more.currency == first.currency)
                .fold(first.amount, |sum, more| sum.saturating_add(more.amount)),
            currency: first.currency.clone(),
        },
        None if order.stands == Stands::Completed => Money {
            amount: order.amount.amount.saturating_sub(order.outstanding),
            currency: order.amount.currency.clone(),
        },
        None => Money {
            amount: 0,
            currency: order.amount.currency.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{ID, PAYMENT, read, told, tried};
    use serde_json::{Value, json};

    fn reported(told: &Value, disputes: &[Dispute], over: bool) -> Report {
        report(read(told).unwrap(), disputes, over)
    }

    fn dispute(verdict: Verdict) -> Dispute {
        Dispute {
            id: PAYMENT.into(),
            verdict,
            amount: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            order: Some(ID.into()),
            opened: None,
            reason: None,
            respond_by: None,
            arn: None,
        }
    }

    #[test]
    fn each_state_has_its_report() {
        for (order, status, settlement, received) in [
            (told("pending"), Status::Pending, Settlement::Pending, 0),
            (
                tried("processing", "authorisation_started", 4990),
                Status::Pending,
                Settlement::Pending,
                0,
            ),
            (
                tried("processing", "capture_started", 4990),
                Status::Processing,
                Settlement::Pending,
                0,
            ),
            (
                tried("authorised", "authorised", 4990),
                Status::Processing,
                Settlement::Pending,
                0,
            ),
            (
                tried("completed", "completed", 4990),
                Status::Completed,
                Settlement::Confirmed,
                4990,
            ),
            (
                tried("cancelled", "declined", 4990),
                Status::Declined,
                Settlement::Pending,
                0,
            ),
            (told("failed"), Status::Declined, Settlement::Pending, 0),
        ] {
            let report = reported(&order, &[], false);
            assert_eq!(
                (report.status, report.settlement, report.received.amount),
                (status, settlement, received),
                "{}",
                report.detail
            );
        }
    }

    #[test]
    fn an_order_that_failed_unpaid_at_its_end_has_expired() {
        assert_eq!(reported(&told("failed"), &[], true).status, Status::Expired);
        let declined = tried("failed", "declined", 4990);
        assert_eq!(reported(&declined, &[], true).status, Status::Declined);
    }

    #[test]
    fn what_was_taken_is_the_payments_word() {
        let mut order = tried("completed", "completed", 4989);
        assert_eq!(reported(&order, &[], false).received.amount, 4989);
        order["payments"][0]["currency"] = json!("USD");
        assert_eq!(reported(&order, &[], false).received.currency, "USD");
        let mut untold = told("completed");
        untold["outstanding_amount"] = json!(0);
        assert_eq!(reported(&untold, &[], false).received.amount, 4990);
    }

    #[test]
    fn refunds_and_lost_disputes_are_money_given_back() {
        let mut order = tried("completed", "completed", 4990);
        order["refunded_amount"] = json!(1000);
        let refunded = reported(&order, &[], false);
        assert_eq!(
            (refunded.status, refunded.given_back),
            (Status::Completed, 1000)
        );
        let lost = reported(
            &tried("completed", "completed", 4990),
            &[dispute(Verdict::Lost)],
            false,
        );
        assert_eq!((lost.status, lost.given_back), (Status::Completed, 4990));
    }

    #[test]
    fn an_open_dispute_is_for_a_person_and_a_won_one_is_over() {
        let order = tried("completed", "completed", 4990);
        let open = reported(
            &order,
            &[dispute(Verdict::Won), dispute(Verdict::Open)],
            false,
        );
        assert_eq!(
            (open.status, open.settlement),
            (Status::Review, Settlement::Pending)
        );
        let won = reported(&order, &[dispute(Verdict::Won)], false);
        assert_eq!((won.status, won.given_back), (Status::Completed, 0));
    }

    #[test]
    fn an_order_that_is_over_is_declined_only_where_no_payment_of_it_can_move() {
        for state in ["cancelled", "failed"] {
            for (payment, status, received) in [
                ("declined", Status::Declined, 0),
                ("authentication_challenge", Status::Declined, 0),
                ("authorisation_started", Status::Pending, 0),
                ("authorised", Status::Pending, 0),
                ("captured", Status::Review, 4990),
            ] {
                let report = reported(&tried(state, payment, 4990), &[], true);
                assert_eq!(
                    (report.status, report.received.amount),
                    (status, received),
                    "{state} {payment}"
                );
            }
        }
    }

    #[test]
    fn a_declined_try_leaves_the_order_open() {
        let mut order = tried("pending", "declined", 4990);
        order["payments"][0]["decline_reason"] = json!("do_not_honour");
        let report = reported(&order, &[], false);
        assert_eq!(report.status, Status::Pending);
        assert_eq!(report.detail, "a try was declined, do_not_honour");
    }

    #[test]
    fn a_refused_capture_is_for_a_person_while_the_approval_stands() {
        let problem = Problem {
            status: 422,
            code: "bad_state".into(),
            message: "no".into(),
        };
        let refused = |state: &str, mode: &str| {
            let mut order = tried(state, "authorised", 4990);
            order["capture_mode"] = json!(mode);
            refused(read(&order).unwrap(), &problem, false)
        };
        let stuck = refused("authorised", "manual");
        assert_eq!(stuck.status, Status::Review);
        assert_eq!(stuck.particulars.reason.as_deref(), Some("bad_state"));
        let taken_by_revolut = refused("authorised", "automatic");
        assert_eq!(taken_by_revolut.status, Status::Processing);
    }

    #[test]
    fn only_a_decline_with_nothing_under_way_is_one() {
        assert!(is_declined(
            &read(&tried("pending", "declined", 4990)).unwrap()
        ));
        assert!(!is_declined(&read(&told("pending")).unwrap()));
        assert!(!is_declined(
            &read(&tried("processing", "declined", 4990)).unwrap()
        ));
        let mut again = tried("pending", "declined", 4990);
        let mut second = again["payments"][0].clone();
        second["state"] = json!("authentication_challenge");
        again["payments"].as_array_mut().unwrap().push(second);
        assert!(!is_declined(&read(&again).unwrap()));
    }

    #[test]
    fn why_it_was_declined_is_told_to_the_operator() {
        let mut order = tried("cancelled", "declined", 4990);
        order["payments"][0]["decline_reason"] = json!("insufficient_funds");
        assert_eq!(
            reported(&order, &[], false).detail,
            "cancelled, insufficient_funds"
        );
    }
}
