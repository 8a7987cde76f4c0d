//! The outcome of a call, derived from the module's answer and the requests that the host saw.

use kassette_domain::provider::{
    Given, ProviderStatus, QueryFailure, RefundFailure, RefundState, Report, StartFailure, Started,
};

use crate::error::CallError;
use crate::guest::provider::SentRequests;

const UNANSWERED: &str = "a request got no whole answer";

/// Outcome of a start, and whether the provider may have acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOutcome {
    /// The module's answer if it is credible. Otherwise `Unavailable` if no request that changes something was
    /// sent in the call, else `Uncertain`.
    pub result: Result<Started, StartFailure>,
    /// Whether a request other than GET was sent in this call, or may have been. An earlier start of the same
    /// attempt has its own outcome.
    pub sent: bool,
}

/// The outcome of a start.
pub(crate) fn start_outcome(
    answer: Result<Result<Started, StartFailure>, CallError>,
    sent: &SentRequests,
) -> StartOutcome {
    let (unavailable, uncertain) = (StartFailure::Unavailable, StartFailure::Uncertain);
    StartOutcome {
        result: believed(answer, sent, unavailable, uncertain),
        sent: sent.any_sent,
    }
}

/// The outcome of a refund.
pub(crate) fn refund_outcome(
    answer: Result<Result<Given, RefundFailure>, CallError>,
    sent: &SentRequests,
) -> Result<Given, RefundFailure> {
    let (unavailable, uncertain) = (RefundFailure::Unavailable, RefundFailure::Uncertain);
    believed(answer, sent, unavailable, uncertain)
}

fn believed<T, F>(
    answer: Result<Result<T, F>, CallError>,
    sent: &SentRequests,
    unavailable: fn(String) -> F,
    uncertain: fn(String) -> F,
) -> Result<T, F> {
    match answer {
        Err(error) if sent.any_sent => Err(uncertain(error.to_string())),
        Err(error) => Err(unavailable(error.to_string())),
        Ok(_) if sent.any_unanswered() => Err(uncertain(UNANSWERED.into())),
        Ok(result) => result,
    }
}

/// Replaces a final answer with `Unavailable` if a request of the same call got no complete response.
pub(crate) fn query_outcome(
    answer: Result<Report, QueryFailure>,
    sent: &SentRequests,
) -> Result<Report, QueryFailure> {
    let over = match &answer {
        Err(QueryFailure::Unavailable(_)) => false,
        Err(QueryFailure::Absent) => true,
        Ok(report) => matches!(
            report.status,
            ProviderStatus::Declined
                | ProviderStatus::Failed
                | ProviderStatus::Cancelled
                | ProviderStatus::Expired
        ),
    };
    unless_doubtful(answer, over, sent)
}

/// Like [`query_outcome`], for a refund: covers `Absent` and failed refunds.
pub(crate) fn refund_query_outcome(
    answer: Result<Given, QueryFailure>,
    sent: &SentRequests,
) -> Result<Given, QueryFailure> {
    let over = match &answer {
        Err(QueryFailure::Unavailable(_)) => false,
        Err(QueryFailure::Absent) => true,
        Ok(given) => given.state == RefundState::Failed,
    };
    unless_doubtful(answer, over, sent)
}

fn unless_doubtful<T>(
    answer: Result<T, QueryFailure>,
    over: bool,
    sent: &SentRequests,
) -> Result<T, QueryFailure> {
    if over && sent.any_unanswered() {
        return Err(QueryFailure::Unavailable(UNANSWERED.into()));
    }
    answer
}

#[cfg(test)]
mod tests {
    use kassette_domain::money::Minor;
    use kassette_domain::provider::ProviderSettlement;

    use super::*;

    fn sent(answered: bool) -> SentRequests {
        let mut sent = SentRequests::default();
        let sending = sent.sending(7);
        if answered {
            sent.answered(&sending);
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
            settlement: ProviderSettlement::Pending,
            received: Minor(0),
            currency: "EUR".into(),
            returned: Minor(0),
            detail: String::new(),
            particulars: kassette_domain::provider::Particulars::default(),
        };
        for over in [
            Err(QueryFailure::Absent),
            Ok(report(ProviderStatus::Declined)),
        ] {
            let doubtful = query_outcome(over.clone(), &sent(false));
            assert!(matches!(doubtful, Err(QueryFailure::Unavailable(_))));
            assert_eq!(query_outcome(over.clone(), &sent(true)), over);
        }
        let news = Ok(report(ProviderStatus::Completed));
        assert_eq!(query_outcome(news.clone(), &sent(false)), news);
    }

    fn given(state: RefundState) -> Given {
        Given {
            reference: "re_1".into(),
            state,
            claim_url: None,
            detail: String::new(),
            paid_out: None,
        }
    }

    #[test]
    fn a_refund_is_uncertain_once_something_left_unanswered_whatever_the_module_says() {
        for said in [
            Ok(Ok(given(RefundState::Succeeded))),
            Ok(Err(RefundFailure::Refused("no".into()))),
            Ok(Err(RefundFailure::Unavailable("later".into()))),
            Err(CallError::Timeout),
        ] {
            let outcome = refund_outcome(said, &sent(false));
            assert!(matches!(outcome, Err(RefundFailure::Uncertain(_))));
        }
        let nothing_left = refund_outcome(Err(CallError::Trap), &SentRequests::default());
        assert!(matches!(nothing_left, Err(RefundFailure::Unavailable(_))));
        let refused = Err(RefundFailure::Refused("no".into()));
        assert_eq!(refund_outcome(Ok(refused.clone()), &sent(true)), refused);
    }

    #[test]
    fn a_refund_that_gave_nothing_back_is_not_believed_while_a_request_is_unanswered() {
        for over in [Err(QueryFailure::Absent), Ok(given(RefundState::Failed))] {
            let doubtful = refund_query_outcome(over.clone(), &sent(false));
            assert!(matches!(doubtful, Err(QueryFailure::Unavailable(_))));
            assert_eq!(refund_query_outcome(over.clone(), &sent(true)), over);
        }
        let news = Ok(given(RefundState::Succeeded));
        assert_eq!(refund_query_outcome(news.clone(), &sent(false)), news);
    }
}
