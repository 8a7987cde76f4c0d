//! Reports about handles and payments.
use kassette_plugin::provider::read::Unreadable;
use kassette_plugin::provider::{
    Capture, Money, Particulars, RefundState, Report, Settlement, Status,
};

use crate::wire::{Belongings, CURRENCY, Handle, Handled, Paid, Payment, is_word};

impl Handle {
    /// Report about the handle at a time. `None` if a payment has used it.
    ///
    /// A handle cannot be cancelled. If a payer has paid at Interac and no payment has used the handle,
    /// Paysafe makes one automatically at the end of its lifetime: until then the status is not final.
    pub(crate) fn report(&self, now: u64) -> Option<Report> {
        let (status, detail) = match self.stands {
            Handled::Waiting | Handled::Unknown => (Status::Pending, "handle waits for the payer"),
            Handled::Payable => (Status::Processing, "handle PAYABLE"),
            Handled::Failed => (Status::Declined, "handle FAILED"),
            Handled::Cancelled => (Status::Cancelled, "handle CANCELLED"),
            Handled::Expired => (Status::Expired, "handle EXPIRED"),
            Handled::Used => return None,
        };
        let mut report = self.says(status, detail);
        if self.stands == Handled::Payable {
            let lives = self.lives.map(|seconds| seconds.saturating_mul(1_000));
            report.particulars.capture_before = lives.map(|ms| now.saturating_add(ms));
        }
        if self.stands == Handled::Unknown {
            let mut unreadable = Unreadable::default();
            unreadable.unknown_status("handle", &self.id, &self.status);
            report.particulars.unreadable = unreadable.into_sentences();
        }
        Some(report)
    }

    /// A report without received money.
    pub(crate) fn says(&self, status: Status, detail: &str) -> Report {
        let due = self.due.as_ref();
        Report {
            reference: self.id.clone(),
            status,
            settlement: Settlement::Pending,
            received: Money {
                amount: 0,
                currency: due.map_or(CURRENCY, |due| &due.currency).to_owned(),
            },
            given_back: 0,
            detail: detail.into(),
            particulars: Particulars {
                provider_status: provider_status(&self.status),
                ..Particulars::default()
            },
        }
    }
}

/// Paysafe's status, if it has the form of one.
fn provider_status(status: &str) -> Option<String> {
    is_word(status).then(|| status.to_owned())
}

impl Payment {
    /// Whether it has ended without money.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.stands, Paid::Expired | Paid::Failed | Paid::Cancelled)
    }

    /// Report about the payment. `None` if it is completed and its amount is unknown, or if both ids are missing. The
    /// reference is the payment's own id, which refunds require; otherwise the handle's id.
    pub(crate) fn report(&self, handle: Option<&str>, belongings: Belongings) -> Option<Report> {
        let (status, settlement) = match self.stands {
            Paid::Completed => (Status::Completed, Settlement::Confirmed),
            Paid::Held => (Status::Review, Settlement::Pending),
            Paid::UnderWay | Paid::Unknown => (Status::Processing, Settlement::Pending),
            Paid::Expired => (Status::Expired, Settlement::Pending),
            Paid::Cancelled => (Status::Cancelled, Settlement::Pending),
            Paid::Failed => (Status::Declined, Settlement::Pending),
        };
        let reference = self.id.as_deref().or(handle)?.to_owned();
        let taken = self.stands == Paid::Completed;
        let settled = Some(belongings.settled).filter(|sum| *sum > 0);
        let received = match taken {
            true => self.amount.or(settled)?,
            false => 0,
        };
        let mut references = Vec::new();
        for id in self.reconciliation.iter().chain(&belongings.settlements) {
            if *id != reference && !references.contains(id) {
                references.push(id.clone());
            }
        }
        references.truncate(REFERENCES);
        let mut unreadable = belongings.unreadable;
        if self.stands == Paid::Unknown {
            unreadable.unknown_status("payment", &reference, &self.status);
        }
        let refunds = belongings.refunds.iter();
        let refunds: Vec<_> = refunds
            .filter_map(|refund| refund.reported(&mut unreadable))
            .collect();
        let gone = refunds
            .iter()
            .filter(|refund| refund.state == RefundState::Succeeded);
        let captured_at = self.since.filter(|_| taken);
        let capture = Capture {
            id: reference.clone(),
            amount: received,
            at: captured_at,
            reversed: false,
        };
        Some(Report {
            reference,
            status,
            settlement,
            received: Money {
                amount: received,
                currency: self.currency.as_deref().unwrap_or(CURRENCY).to_owned(),
            },
            given_back: gone.fold(0, |sum, refund| sum.saturating_add(refund.amount)),
            detail: match &self.error {
                Some(code) => format!("payment {}, error {code}", self.status),
                None => format!("payment {}", self.status),
            },
            particulars: Particulars {
                provider_status: provider_status(&self.status),
                reason: self.error.clone(),
                references,
                captured_at,
                captures: Some(capture)
                    .filter(|taken| taken.amount > 0)
                    .into_iter()
                    .collect(),
                refunds,
                unreadable: unreadable.into_sentences(),
                ..Particulars::default()
            },
        })
    }
}

/// Maximum number of ids in a report.
const REFERENCES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{handle_told, payment_told, read};
    use crate::wire::{handle, payment};
    use serde_json::json;

    #[test]
    fn each_status_of_a_handle_has_its_report() {
        for (told, status) in [
            ("INITIATED", Some(Status::Pending)),
            ("PROCESSING", Some(Status::Pending)),
            ("PAYABLE", Some(Status::Processing)),
            ("FAILED", Some(Status::Declined)),
            ("CANCELLED", Some(Status::Cancelled)),
            ("ODD", Some(Status::Pending)),
            ("EXPIRED", Some(Status::Expired)),
            ("COMPLETED", None),
        ] {
            let handle = handle(&read(&handle_told(told))).unwrap();
            let report = handle.report(1_000);
            assert!(report.iter().all(|report| report.received.amount == 0));
            let words = |report: &Report| report.particulars.provider_status.clone();
            assert!(
                report
                    .iter()
                    .all(|report| words(report).as_deref() == Some(told))
            );
            assert_eq!(report.map(|report| report.status), status, "{told}");
        }
    }

    #[test]
    fn a_payable_handle_tells_until_when_the_money_can_be_asked_for() {
        let handle = handle(&read(&handle_told("PAYABLE"))).unwrap();
        let report = handle.report(1_000).unwrap();
        assert_eq!(report.particulars.capture_before, Some(900_000));
    }

    #[test]
    fn each_status_of_a_payment_has_its_report() {
        use Settlement::{Confirmed, Pending};
        for (told, status, settlement, received) in [
            ("COMPLETED", Status::Completed, Confirmed, 4990),
            ("HELD", Status::Review, Pending, 0),
            ("ERROR", Status::Review, Pending, 0),
            ("RECEIVED", Status::Processing, Pending, 0),
            ("PENDING", Status::Processing, Pending, 0),
            ("PROCESSING", Status::Processing, Pending, 0),
            ("EXPIRED", Status::Expired, Pending, 0),
            ("FAILED", Status::Declined, Pending, 0),
            ("CANCELLED", Status::Cancelled, Pending, 0),
            ("ODD", Status::Processing, Pending, 0),
        ] {
            let payment = payment(&read(&payment_told(told))).unwrap();
            let report = payment.report(None, Belongings::default()).unwrap();
            assert_eq!(
                (report.status, report.settlement, report.received.amount),
                (status, settlement, received),
                "{told}"
            );
        }
    }

    #[test]
    fn a_decline_that_tells_its_error_alone_is_a_decline() {
        let bare =
            json!({ "id": "3aeb9c63", "merchantRefNum": "attempt-1", "error": { "code": "3022" } });
        let payment = payment(&read(&bare)).unwrap();
        let report = payment.report(None, Belongings::default()).unwrap();
        assert_eq!(report.status, Status::Declined);
        assert_eq!(report.detail, "payment FAILED, error 3022");
        assert_eq!(report.particulars.reason.as_deref(), Some("3022"));
    }

    #[test]
    fn the_ids_of_paysafes_statements_are_told_once_each() {
        let mut told = payment_told("COMPLETED");
        told["gatewayReconciliationId"] = json!("8e13f7fe");
        told["statusTime"] = json!("2027-01-15T08:00:00Z");
        let payment = payment(&read(&told)).unwrap();
        let id = payment.id.clone().unwrap();
        let belongings = Belongings {
            settlements: vec![id.clone(), "s1".into()],
            ..Belongings::default()
        };
        let report = payment.report(None, belongings).unwrap();
        assert_eq!(report.reference, id);
        let particulars = report.particulars;
        assert_eq!(particulars.references, ["8e13f7fe", "s1"]);
        assert_eq!(particulars.captured_at, Some(1_800_000_000_000));
    }

    #[test]
    fn refunds_of_the_business_portal_are_reported_by_their_ids() {
        let payment = payment(&read(&payment_told("COMPLETED"))).unwrap();
        let refunds = [
            json!({ "id": "r1", "status": "COMPLETED", "amount": 990 }),
            json!({ "id": "r2", "status": "PENDING", "amount": 10 }),
        ];
        let refunds: Vec<_> = refunds.iter().map(read).collect();
        let mut belongings = Belongings::default();
        belongings.refund(&refunds.iter().collect::<Vec<_>>());
        let report = payment.report(None, belongings).unwrap();
        let ids: Vec<_> = report
            .particulars
            .refunds
            .iter()
            .map(|each| each.id.as_str())
            .collect();
        assert_eq!((ids, report.given_back), (vec!["r1", "r2"], 990));
        assert_eq!(report.particulars.captures[0].amount, 4990);
    }

    #[test]
    fn a_payment_without_an_amount_received_what_its_settlements_amount_to() {
        let mut told = payment_told("COMPLETED");
        told["amount"] = json!(null);
        let payment = payment(&read(&told)).unwrap();
        assert!(payment.report(None, Belongings::default()).is_none());
        let belongings = Belongings {
            settled: 4990,
            ..Belongings::default()
        };
        let report = payment.report(None, belongings).unwrap();
        assert_eq!(report.received.amount, 4990);
    }
}
