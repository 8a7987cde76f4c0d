//! What an order and its disputes say.
use kassette_plugin::provider::{Money, Report, Settlement, Status};

use crate::wire::{Dispute, Order, Stands, Tried, Verdict};

/// Whether the payer's last try was declined and nothing else is under way. He could try again, so
/// that the order is closed before anybody is told.
pub(crate) fn is_declined(order: &Order) -> bool {
    let over = |tried| tried == Tried::Ended;
    order.stands == Stands::Pending
        && !order.payments.is_empty()
        && order.payments.iter().all(|payment| over(payment.tried))
}

/// What the order says. `over` tells that the attempt's time has passed: an order that fails for lack
/// of payment fails then.
pub(crate) fn report(order: Order, disputes: &[Dispute], over: bool) -> Report {
    let received = received(&order);
    let open = disputes
        .iter()
        .any(|dispute| dispute.verdict == Verdict::Open);
    let lost: u64 = disputes
        .iter()
        .filter(|dispute| dispute.verdict == Verdict::Lost)
        .filter(|dispute| dispute.amount.currency == received.currency)
        .fold(0, |sum, dispute| sum.saturating_add(dispute.amount.amount));
    let (status, settlement, detail) = match order.stands {
        Stands::Pending => (Status::Pending, Settlement::Pending, "pending"),
        // The payer has entered something; nothing is approved yet.
        Stands::Processing => (Status::Pending, Settlement::Pending, "processing"),
        Stands::Authorised => (Status::Processing, Settlement::Pending, "authorised"),
        Stands::Completed if open => (Status::Review, Settlement::Pending, "disputed"),
        Stands::Completed if lost > 0 => (Status::Completed, Settlement::Confirmed, "dispute lost"),
        Stands::Completed => (Status::Completed, Settlement::Confirmed, "completed"),
        // Nothing was taken and nothing can be any more.
        Stands::Cancelled => (Status::Declined, Settlement::Pending, "cancelled"),
        Stands::Failed if over && order.payments.is_empty() => {
            (Status::Expired, Settlement::Pending, "failed unpaid")
        }
        Stands::Failed => (Status::Declined, Settlement::Pending, "failed"),
    };
    let declined = order.payments.iter().rev().find_map(|p| p.decline.clone());
    let detail = match declined {
        Some(why) if status == Status::Declined => {
            format!("{detail}, {}", why.chars().take(100).collect::<String>())
        }
        _ => detail.to_owned(),
    };
    Report {
        reference: order.id,
        status,
        settlement,
        received,
        returned: order.refunded.saturating_add(lost),
        detail,
    }
}

/// What was taken: the payments themselves where they are told, else what is no longer outstanding.
fn received(order: &Order) -> Money {
    let mut taken = order
        .payments
        .iter()
        .filter(|payment| payment.tried == Tried::Captured)
        .map(|payment| &payment.amount);
    match taken.next() {
        Some(first) => Money {
            // An order is paid by one payment; were there two, in one currency, both were taken.
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
    use crate::wire::tests::{ID, read, told, tried};
    use serde_json::{Value, json};

    fn of(told: &Value, disputes: &[Dispute], over: bool) -> Report {
        report(read(told).unwrap(), disputes, over)
    }

    fn dispute(verdict: Verdict) -> Dispute {
        Dispute {
            verdict,
            amount: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            order: ID.into(),
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
            let report = of(&order, &[], false);
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
        assert_eq!(of(&told("failed"), &[], true).status, Status::Expired);
        let declined = tried("failed", "declined", 4990);
        assert_eq!(of(&declined, &[], true).status, Status::Declined);
    }

    #[test]
    fn what_was_taken_is_the_payments_word() {
        let mut order = tried("completed", "completed", 4989);
        assert_eq!(of(&order, &[], false).received.amount, 4989);
        order["payments"][0]["currency"] = json!("USD");
        assert_eq!(of(&order, &[], false).received.currency, "USD");
        let mut untold = told("completed");
        untold["outstanding_amount"] = json!(0);
        assert_eq!(of(&untold, &[], false).received.amount, 4990);
    }

    #[test]
    fn refunds_and_lost_disputes_are_money_given_back() {
        let mut order = tried("completed", "completed", 4990);
        order["refunded_amount"] = json!(1000);
        let refunded = of(&order, &[], false);
        assert_eq!(
            (refunded.status, refunded.returned),
            (Status::Completed, 1000)
        );
        let lost = of(
            &tried("completed", "completed", 4990),
            &[dispute(Verdict::Lost)],
            false,
        );
        assert_eq!((lost.status, lost.returned), (Status::Completed, 4990));
    }

    #[test]
    fn an_open_dispute_is_for_a_person_and_a_won_one_is_over() {
        let order = tried("completed", "completed", 4990);
        let open = of(
            &order,
            &[dispute(Verdict::Won), dispute(Verdict::Open)],
            false,
        );
        assert_eq!(
            (open.status, open.settlement),
            (Status::Review, Settlement::Pending)
        );
        let won = of(&order, &[dispute(Verdict::Won)], false);
        assert_eq!((won.status, won.returned), (Status::Completed, 0));
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
            of(&order, &[], false).detail,
            "cancelled, insufficient_funds"
        );
    }
}
