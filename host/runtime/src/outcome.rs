//! What a call really means, by what the host itself saw leave.

use kassette_domain::provider::{QueryFailure, Report, StartFailure, Started, VendorStatus};

use crate::error::CallError;
use crate::guest::provider::SentRequests;

/// How a start ended, and whether anything can have happened at the vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOutcome {
    /// The module's answer where it can be believed; otherwise what the host knows itself:
    /// `Unavailable` where nothing left this host during the call, else `Uncertain`.
    pub result: Result<Started, StartFailure>,
    /// Whether a request other than GET left, or may have left, during this call. An earlier start
    /// of the same attempt has an outcome of its own.
    pub sent: bool,
}

/// What a start really means, by what the host saw leave.
pub(crate) fn start_outcome(
    answer: Result<Result<Started, StartFailure>, CallError>,
    sent: &SentRequests,
) -> StartOutcome {
    let result = match answer {
        Err(error) if sent.any_sent => Err(StartFailure::Uncertain(error.to_string())),
        Err(error) => Err(StartFailure::Unavailable(error.to_string())),
        Ok(_) if sent.any_unanswered() => Err(StartFailure::Uncertain(
            "a request got no whole answer".into(),
        )),
        Ok(result) => result,
    };
    StartOutcome {
        result,
        sent: sent.any_sent,
    }
}

/// Takes back a certainty that an unanswered request of the same call makes doubtful.
pub(crate) fn query_outcome(
    answer: Result<Report, QueryFailure>,
    sent: &SentRequests,
) -> Result<Report, QueryFailure> {
    let over = match &answer {
        Err(QueryFailure::Unavailable(_)) => false,
        Err(QueryFailure::Absent) => true,
        Ok(report) => matches!(
            report.status,
            VendorStatus::Declined
                | VendorStatus::Failed
                | VendorStatus::Cancelled
                | VendorStatus::Expired
        ),
    };
    if over && sent.any_unanswered() {
        return Err(QueryFailure::Unavailable(
            "a request got no whole answer".into(),
        ));
    }
    answer
}

#[cfg(test)]
mod tests {
    use kassette_domain::money::Minor;
    use kassette_domain::provider::VendorSettlement;

    use super::*;

    fn sent(answered: bool) -> SentRequests {
        let mut sent = SentRequests::default();
        sent.sending(7);
        if answered {
            sent.answered(7);
        }
        sent
    }

    fn asked() -> Result<Result<Started, StartFailure>, CallError> {
        Ok(Ok(Started::Ask(vec![])))
    }

    #[test]
    fn a_failed_call_is_uncertain_once_something_left() {
        for error in [
            CallError::Trap,
            CallError::Deadline,
            CallError::Timeout,
            CallError::BadReply("x"),
        ] {
            let outcome = start_outcome(Err(error.clone()), &sent(true));
            assert!(
                matches!(outcome.result, Err(StartFailure::Uncertain(_))),
                "{error}"
            );
            assert!(outcome.sent);
            let outcome = start_outcome(Err(error.clone()), &SentRequests::default());
            assert!(
                matches!(outcome.result, Err(StartFailure::Unavailable(_))),
                "{error}"
            );
            assert!(!outcome.sent);
        }
    }

    #[test]
    fn an_unanswered_request_is_uncertain_whatever_the_module_says() {
        for said in [asked(), Ok(Err(StartFailure::Declined("no".into())))] {
            let outcome = start_outcome(said, &sent(false));
            assert!(matches!(outcome.result, Err(StartFailure::Uncertain(_))));
        }
        assert_eq!(start_outcome(asked(), &sent(true)).result, asked().unwrap());
    }

    #[test]
    fn an_end_is_not_believed_while_a_request_is_unanswered() {
        let report = |status| Report {
            reference: "r".into(),
            status,
            settlement: VendorSettlement::Pending,
            received: Minor(0),
            currency: "EUR".into(),
            returned: Minor(0),
            detail: String::new(),
            particulars: kassette_domain::provider::Particulars::default(),
        };
        for over in [
            Err(QueryFailure::Absent),
            Ok(report(VendorStatus::Declined)),
        ] {
            let doubtful = query_outcome(over.clone(), &sent(false));
            assert!(matches!(doubtful, Err(QueryFailure::Unavailable(_))));
            assert_eq!(query_outcome(over.clone(), &sent(true)), over);
        }
        let news = Ok(report(VendorStatus::Completed));
        assert_eq!(query_outcome(news.clone(), &sent(false)), news);
    }
}
