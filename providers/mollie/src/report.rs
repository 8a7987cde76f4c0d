//! Reports about payments.
use kassette_plugin::provider::{Capture, Money, Report, Settlement, Status};

use crate::wire::{Payment, Stands};

impl Payment {
    /// Whether the full authorized amount was captured.
    pub(crate) fn is_captured_whole(&self) -> bool {
        self.captured.as_ref() == Some(&self.amount)
    }

    /// Report about this payment.
    pub(crate) fn report(self) -> Report {
        let nothing = Money {
            amount: 0,
            currency: self.amount.currency.clone(),
        };
        let charged_back = self.belongings.charged_back(self.charged_back);
        let refunded = self.belongings.refunded(self.refunded);
        let stuck = self.belongings.could_not_be_captured() && self.captured.is_none();
        let taken_at = self.belongings.rest.captured_at;
        let received = match self.stands {
            // Without separate captures the full amount was captured.
            Stands::Paid => self.captured.unwrap_or(self.amount),
            _ => self.captured.unwrap_or(nothing),
        };
        let over = matches!(
            self.stands,
            Stands::Canceled | Stands::Expired | Stands::Failed
        );
        let (status, settlement, detail) = match self.stands {
            Stands::Open => (Status::Pending, Settlement::Pending, "open"),
            Stands::Unknown => (Status::Pending, Settlement::Pending, "unknown"),
            Stands::Pending => (Status::Pending, Settlement::Pending, "pending"),
            Stands::Authorized if stuck => {
                (Status::Review, Settlement::Pending, "the capture failed")
            }
            Stands::Authorized => (Status::Processing, Settlement::Pending, "authorized"),
            // The bank has withdrawn the money and may return it; an operator has to check.
            Stands::Paid if charged_back > 0 => {
                (Status::Review, Settlement::Pending, "charged back")
            }
            Stands::Paid if refunded > 0 => {
                (Status::Completed, Settlement::Confirmed, "paid, refunded")
            }
            Stands::Paid => (Status::Completed, Settlement::Confirmed, "paid"),
            // Contradictory: a partial capture should make a payment paid.
            _ if over && received.amount > 0 => {
                (Status::Review, Settlement::Pending, "over, but captured")
            }
            Stands::Canceled => (Status::Cancelled, Settlement::Pending, "canceled"),
            Stands::Expired => (Status::Expired, Settlement::Pending, "expired"),
            // Final according to "Handling payment status"; the payer may try again with a new payment.
            Stands::Failed => (Status::Declined, Settlement::Pending, "failed"),
        };
        let reason = self.belongings.rest.reason.as_ref();
        let detail = match reason.filter(|_| self.stands == Stands::Failed) {
            Some(why) => format!("failed, {why}"),
            None => detail.to_owned(),
        };
        let mut particulars = self.belongings.particulars();
        if received.amount > 0 {
            // One entry under the payment's id, as in Mollie's statements, independent of the number of captures.
            particulars.captures.push(Capture {
                id: self.id.clone(),
                amount: received.amount,
                at: taken_at,
                reversed: false,
            });
        }
        Report {
            reference: self.id,
            status,
            settlement,
            received,
            given_back: refunded.saturating_add(charged_back),
            detail,
            particulars,
        }
    }

    /// Report about a payment after a refused capture: review if it is still authorized, because an operator has
    /// to decide. Otherwise the normal report.
    pub(crate) fn refused(self, why: &str) -> Report {
        let stuck = self.stands == Stands::Authorized
            && !self.is_captured_whole()
            && !self.belongings.is_being_captured();
        let mut report = self.report();
        if stuck {
            report.status = Status::Review;
            let why: String = why.chars().filter(char::is_ascii).take(100).collect();
            report.detail = format!("the capture was refused, {why}");
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{read, told, with};
    use kassette_plugin::provider::{DisputeState, RefundState};
    use serde_json::{Value, json};

    fn euros(value: &str) -> Value {
        json!({ "value": value, "currency": "EUR" })
    }

    #[test]
    fn each_status_has_its_report() {
        for (told_status, status, settlement, received) in [
            ("open", Status::Pending, Settlement::Pending, 0),
            ("pending", Status::Pending, Settlement::Pending, 0),
            ("authorized", Status::Processing, Settlement::Pending, 0),
            ("paid", Status::Completed, Settlement::Confirmed, 4990),
            ("canceled", Status::Cancelled, Settlement::Pending, 0),
            ("frozen", Status::Pending, Settlement::Pending, 0),
            ("expired", Status::Expired, Settlement::Pending, 0),
            ("failed", Status::Declined, Settlement::Pending, 0),
        ] {
            let report = read(&told(told_status)).unwrap().report();
            assert_eq!(
                (report.status, report.settlement, report.received.amount),
                (status, settlement, received),
                "{told_status}"
            );
            let words = report.particulars.provider_status;
            assert_eq!(words.as_deref(), Some(told_status));
        }
    }

    #[test]
    fn what_was_captured_is_what_was_received() {
        let paid = with("paid", "amountCaptured", euros("49.89")).unwrap();
        assert_eq!(paid.report().received.amount, 4989);
        let partly = with("authorized", "amountCaptured", euros("10.00")).unwrap();
        assert!(!partly.is_captured_whole());
        assert_eq!(partly.report().received.amount, 1000);
        assert!(
            with("authorized", "amountCaptured", euros("49.90"))
                .unwrap()
                .is_captured_whole()
        );
    }

    #[test]
    fn money_on_a_payment_that_is_over_is_for_a_person() {
        for status in ["canceled", "expired", "failed"] {
            let odd = with(status, "amountCaptured", euros("10.00")).unwrap();
            assert_eq!(odd.report().status, Status::Review, "{status}");
        }
    }

    #[test]
    fn a_refund_stays_completed_and_a_chargeback_is_for_a_person() {
        let refunded = with("paid", "amountRefunded", euros("10.00"))
            .unwrap()
            .report();
        assert_eq!(
            (refunded.status, refunded.given_back),
            (Status::Completed, 1000)
        );
        let untouched = with("paid", "amountRefunded", euros("0.00")).unwrap();
        assert_eq!(untouched.report().detail, "paid");
        let back = with("paid", "amountChargedBack", euros("49.90"))
            .unwrap()
            .report();
        // It cannot be defended: the money is withdrawn.
        assert_eq!(
            (back.status, back.settlement, back.given_back),
            (Status::Review, Settlement::Pending, 4990)
        );
    }

    #[test]
    fn refunds_and_chargebacks_are_told_one_by_one() {
        let mut told = told("paid");
        told["amountRefunded"] = euros("14.90");
        told["_embedded"] = json!({
            "refunds": [
                { "id": "re_2", "amount": euros("5.00"), "status": "queued" },
                { "id": "re_1", "amount": euros("9.90"), "status": "refunded" },
            ],
            "chargebacks": [
                { "id": "chb_1", "amount": euros("35.00"), "reversedAt": "2027-01-15T08:00:00+00:00" },
            ],
        });
        let report = read(&told).unwrap().report();
        assert_eq!((report.status, report.given_back), (Status::Completed, 990));
        let states: Vec<RefundState> = report
            .particulars
            .refunds
            .iter()
            .map(|each| each.state)
            .collect();
        assert_eq!(states, [RefundState::Pending, RefundState::Succeeded]);
        assert_eq!(report.particulars.disputes[0].state, DisputeState::Won);
    }

    #[test]
    fn why_it_failed_is_told_to_the_operator() {
        let details = json!({ "failureReason": "insufficient_funds" });
        let failed = with("failed", "details", details).unwrap().report();
        assert_eq!(failed.detail, "failed, insufficient_funds");
        let reason = failed.particulars.reason;
        assert_eq!(reason.as_deref(), Some("insufficient_funds"));
    }

    #[test]
    fn an_approval_that_cannot_be_captured_is_for_a_person() {
        let refused = |status| read(&told(status)).unwrap().refused("status 422");
        assert_eq!(refused("authorized").status, Status::Review);
        assert_eq!(refused("canceled").status, Status::Cancelled);
        let capture = |status: &str| {
            let captures = json!({ "captures": [{ "id": "cpt_1", "status": status }] });
            with("authorized", "_embedded", captures).unwrap()
        };
        assert_eq!(capture("failed").report().status, Status::Review);
        assert_eq!(capture("pending").refused("x").status, Status::Processing);
    }

    #[test]
    fn what_was_taken_is_reported_under_the_payments_id() {
        let paid = with("paid", "paidAt", json!("2027-01-15T08:00:09+00:00")).unwrap();
        let [capture] = paid.report().particulars.captures.try_into().unwrap();
        assert_eq!((capture.id.as_str(), capture.amount), ("tr_1", 4990));
        assert_eq!(capture.at, Some(1_800_000_009_000));
        assert!(
            read(&told("failed"))
                .unwrap()
                .report()
                .particulars
                .captures
                .is_empty()
        );
    }
}
