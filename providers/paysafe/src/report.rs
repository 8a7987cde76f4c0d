//! What handles and payments say.
use kassette_plugin::provider::{Money, Particulars, Report, Settlement, Status};

use crate::wire::{Given, Handle, Handled, Paid, Payment};

impl Handle {
    /// What the handle says by itself at a time; none where a payment was made with it.
    ///
    /// A handle cannot be called off, and where a payer has paid at Interac and no payment was made
    /// with it, Paysafe makes one itself when its time is over: until then nothing is certain.
    pub(crate) fn report(&self, now: u64) -> Option<Report> {
        let (status, detail) = match self.stands {
            Handled::Waiting => (Status::Pending, "handle waits for the payer"),
            Handled::Payable => (Status::Processing, "handle PAYABLE"),
            Handled::Failed => (Status::Declined, "handle FAILED"),
            Handled::Expired => (Status::Expired, "handle EXPIRED"),
            Handled::Used => return None,
        };
        let mut report = self.says(status, detail);
        if self.stands == Handled::Payable {
            let lives = self.lives.map(|seconds| seconds.saturating_mul(1_000));
            report.particulars.capture_before = lives.map(|ms| now.saturating_add(ms));
        }
        Some(report)
    }

    /// A report of which nothing was taken.
    pub(crate) fn says(&self, status: Status, detail: &str) -> Report {
        Report {
            reference: self.id.clone(),
            status,
            settlement: Settlement::Pending,
            received: Money {
                amount: 0,
                currency: self.due.currency.clone(),
            },
            given_back: 0,
            detail: detail.into(),
            particulars: Particulars {
                provider_status: Some(self.status.clone()),
                ..Particulars::default()
            },
        }
    }
}

impl Payment {
    /// Whether it is over without money.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.stands, Paid::Expired | Paid::Failed)
    }

    /// What the payment says, after what its settlements gave back. It has its own id, which refunds
    /// name; the host knows the handle's from the start.
    pub(crate) fn report(&self, given: &Given) -> Report {
        let (status, settlement) = match self.stands {
            Paid::Completed => (Status::Completed, Settlement::Confirmed),
            Paid::Held => (Status::Review, Settlement::Pending),
            Paid::UnderWay => (Status::Processing, Settlement::Pending),
            Paid::Expired => (Status::Expired, Settlement::Pending),
            Paid::Failed => (Status::Declined, Settlement::Pending),
        };
        let taken = self.stands == Paid::Completed;
        let received = if taken { self.amount.amount } else { 0 };
        let mut references = Vec::new();
        for id in self.reconciliation.iter().chain(&given.settlements) {
            if *id != self.id && !references.contains(id) {
                references.push(id.clone());
            }
        }
        references.truncate(REFERENCES);
        Report {
            reference: self.id.clone(),
            status,
            settlement,
            received: Money {
                amount: received,
                currency: self.amount.currency.clone(),
            },
            given_back: given.back,
            detail: match &self.error {
                Some(code) => format!("payment {}, error {code}", self.status),
                None => format!("payment {}", self.status),
            },
            particulars: Particulars {
                provider_status: Some(self.status.clone()),
                reason: self.error.clone(),
                references,
                captured_at: self.since.filter(|_| taken),
                ..Particulars::default()
            },
        }
    }
}

/// Ids that a report may tell.
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
            ("CANCELLED", Some(Status::Declined)),
            ("EXPIRED", Some(Status::Expired)),
            ("COMPLETED", None),
        ] {
            let (attempt, handle) = handle(&read(&handle_told(told))).unwrap();
            assert_eq!(attempt, "attempt-1");
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
        let (_, handle) = handle(&read(&handle_told("PAYABLE"))).unwrap();
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
            ("CANCELLED", Status::Declined, Pending, 0),
        ] {
            let (_, payment) = payment(&read(&payment_told(told))).unwrap();
            let report = payment.report(&Given::default());
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
        let (_, payment) = payment(&read(&bare)).unwrap();
        let report = payment.report(&Given::default());
        assert_eq!(report.status, Status::Declined);
        assert_eq!(report.detail, "payment FAILED, error 3022");
        assert_eq!(report.particulars.reason.as_deref(), Some("3022"));
    }

    #[test]
    fn the_ids_of_paysafes_statements_are_told_once_each() {
        let mut told = payment_told("COMPLETED");
        told["gatewayReconciliationId"] = json!("8e13f7fe");
        told["statusTime"] = json!("2027-01-15T08:00:00Z");
        let (_, payment) = payment(&read(&told)).unwrap();
        let given = Given {
            back: 990,
            settlements: vec![payment.id.clone(), "s1".into()],
        };
        let report = payment.report(&given);
        assert_eq!(
            (report.reference.as_str(), report.given_back),
            (payment.id.as_str(), 990)
        );
        let particulars = report.particulars;
        assert_eq!(particulars.references, ["8e13f7fe", "s1"]);
        assert_eq!(particulars.captured_at, Some(1_800_000_000_000));
    }
}
