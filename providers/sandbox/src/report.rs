//! Reports about sessions.
use kassette_plugin::provider::{Report, Settlement, Status};

use crate::wire::{Phase, Problem, Session};

impl Session {
    /// Report about this session. `declined` only if it is final: `None` if the session was declined and is still
    /// payable. With `kept_open`, such a session is reported as pending instead.
    pub(crate) fn report(self, kept_open: bool) -> Option<Report> {
        let (status, settlement, detail) = match self.phase {
            Phase::Open | Phase::Unknown => (Status::Pending, Settlement::Pending, "open"),
            Phase::Declined if self.payable && kept_open => {
                (Status::Pending, Settlement::Pending, "a try was declined")
            }
            Phase::Declined if self.payable => return None,
            Phase::Declined => (Status::Declined, Settlement::Pending, "declined"),
            Phase::Authorised => (Status::Processing, Settlement::Pending, "authorised"),
            Phase::Capturing => (Status::Processing, Settlement::Pending, "being captured"),
            Phase::Verifying => (
                Status::VerificationPending,
                Settlement::Pending,
                "waits for a proof",
            ),
            // The provider has reversed the capture; an operator has to check.
            Phase::CaptureFailed => {
                let mut report =
                    self.says(Status::Review, Settlement::Pending, "taken back".into());
                report.received.amount = 0;
                return Some(report);
            }
            Phase::Cancelled => (Status::Cancelled, Settlement::Pending, "the payer gave up"),
            Phase::Failed => (Status::Failed, Settlement::Failed, "failed for good"),
            // The money was received; an operator decides whether to deliver.
            Phase::InReview => (Status::Review, Settlement::Confirmed, "held for review"),
            Phase::Captured if self.is_overpaid() => {
                (Status::Overpaid, Settlement::Confirmed, "captured")
            }
            Phase::Captured => (Status::Completed, Settlement::Confirmed, "captured"),
            Phase::Disputed => (Status::Review, Settlement::Pending, "disputed by the payer"),
            Phase::Refunded => (Status::Completed, Settlement::Confirmed, "refunded"),
            // Nothing was captured and nothing can be captured later.
            Phase::Closed => (Status::Declined, Settlement::Pending, "closed"),
            Phase::Expired => (Status::Expired, Settlement::Pending, "expired"),
        };
        Some(self.says(status, settlement, detail.into()))
    }

    /// Report about a session after a refused capture: review if the session is still authorized, because an
    /// operator has to decide. Otherwise the normal report.
    pub(crate) fn refused(mut self, problem: &Problem) -> Option<Report> {
        if self.phase != Phase::Authorised {
            return self.report(false);
        }
        self.particulars.reason = Some(problem.code.clone());
        let detail = format!("the capture was refused: {problem}");
        Some(self.says(Status::Review, Settlement::Pending, detail))
    }

    /// Whether more was received than was due. Only crypto wallets can send more.
    fn is_overpaid(&self) -> bool {
        self.method == "crypto"
            && self.received.currency == self.due.currency
            && self.received.amount > self.due.amount
    }

    fn says(self, status: Status, settlement: Settlement, detail: String) -> Report {
        Report {
            reference: self.id,
            status,
            settlement,
            received: self.received,
            given_back: self.returned,
            detail,
            particulars: self.particulars,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::session_of;
    use crate::wire::tests::{parsed, told};
    use kassette_plugin::amount;
    use kassette_plugin::provider::Money;

    fn report(status: &str, payable: bool, received: &str) -> Option<Report> {
        session_of(&parsed(&told(status, payable, received)))
            .unwrap()
            .report(false)
    }

    #[test]
    fn each_phase_has_its_report() {
        for (told, payable, received, status, settlement) in [
            ("open", true, "0.00", Status::Pending, Settlement::Pending),
            (
                "declined",
                false,
                "0.00",
                Status::Declined,
                Settlement::Pending,
            ),
            (
                "authorised",
                false,
                "0.00",
                Status::Processing,
                Settlement::Pending,
            ),
            (
                "capturing",
                false,
                "0.00",
                Status::Processing,
                Settlement::Pending,
            ),
            (
                "in_review",
                false,
                "49.90",
                Status::Review,
                Settlement::Confirmed,
            ),
            (
                "captured",
                false,
                "49.90",
                Status::Completed,
                Settlement::Confirmed,
            ),
            (
                "disputed",
                false,
                "49.90",
                Status::Review,
                Settlement::Pending,
            ),
            (
                "refunded",
                false,
                "49.90",
                Status::Completed,
                Settlement::Confirmed,
            ),
            (
                "closed",
                false,
                "0.00",
                Status::Declined,
                Settlement::Pending,
            ),
            (
                "expired",
                false,
                "0.00",
                Status::Expired,
                Settlement::Pending,
            ),
        ] {
            let report = report(told, payable, received).unwrap();
            assert_eq!(
                (report.status, report.settlement),
                (status, settlement),
                "{told}"
            );
            assert_eq!(
                amount::format(report.received.amount, "EUR"),
                format!("{received} EUR")
            );
        }
    }

    #[test]
    fn a_decline_that_can_still_be_paid_proves_nothing() {
        assert_eq!(report("declined", true, "0.00"), None);
        let declined = session_of(&parsed(&told("declined", true, "0.00"))).unwrap();
        let kept_open = declined.report(true).unwrap();
        assert_eq!(
            (kept_open.status, kept_open.received.amount),
            (Status::Pending, 0)
        );
    }

    #[test]
    fn an_approval_whose_capture_is_refused_is_for_a_person_and_one_that_is_gone_is_over() {
        let problem = Problem {
            status: 422,
            code: "capture_refused".into(),
            fields: Vec::new(),
        };
        let refused = |status| {
            let session = session_of(&parsed(&told(status, false, "0.00"))).unwrap();
            session.refused(&problem).unwrap()
        };
        let standing = refused("authorised");
        assert_eq!(standing.status, Status::Review);
        let reason = standing.particulars.reason;
        assert_eq!(reason.as_deref(), Some("capture_refused"));
        for over in ["closed", "declined"] {
            assert_eq!(refused(over).status, Status::Declined, "{over}");
        }
    }

    #[test]
    fn what_was_received_is_the_vendors_word() {
        let report = report("captured", false, "49.89").unwrap();
        assert_eq!(
            report.received,
            Money {
                amount: 4989,
                currency: "EUR".into()
            }
        );
    }
}
