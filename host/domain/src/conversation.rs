//! Recorded calls of provider modules, complete enough to repeat each with another version, without the provider.
//!
//! A module's result depends only on its arguments and the host's responses. Records contain no secret: requests
//! are stored as the module wrote them, before the host inserted credentials, and results that the host computed
//! with a secret are stored with a digest of the question.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, PaymentId, Slot};
use crate::money::Money;
use crate::provider::{
    AccountFacts, AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Notice,
    QueryFailure, QueryPurpose, Report, StartFailure, Started, Verb,
};
use crate::secret::Secret;
use crate::time::Time;

/// A call of a provider module: arguments, calls to the host, result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The called slot.
    pub slot: Slot,
    /// Version of its module.
    pub digest: Digest,
    /// The payment. `None` if it is unknown, and for callbacks.
    pub payment: Option<PaymentId>,
    /// The account; its `now` is the time of the call.
    pub account: AccountFacts,
    /// Configured hosts to which the account may send payers.
    pub payer_hosts: Vec<String>,
    /// Whether loopback was allowed, as for simulated accounts.
    pub plain_loopback: bool,
    pub call: ProviderCall,
    /// The module's calls to its host, in order.
    pub exchanges: Vec<HostCall>,
    /// Result of the call, after the host's checks.
    pub outcome: CallOutcome,
}

/// A function of a provider module, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderCall {
    Start(AttemptFacts),
    Callback(CallbackRequest),
    Query {
        attempt: AttemptFacts,
        /// The provider's id for it.
        reference: Option<String>,
        /// Purpose of the query.
        purpose: QueryPurpose,
        /// The raw query with which the payer returned.
        returned: Option<Secret>,
    },
}

impl ProviderCall {
    /// The due amount. `None` for a callback.
    pub const fn due(&self) -> Option<Money> {
        match self {
            Self::Start(attempt) | Self::Query { attempt, .. } => Some(attempt.due),
            Self::Callback(_) => None,
        }
    }
}

/// A module's call to its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCall {
    /// An HTTP request and its outcome.
    Http {
        /// Before credentials were inserted.
        request: HttpRequest,
        /// As the module received it.
        answer: Result<HttpAnswer, SendFailure>,
    },
    /// An operation that requires a secret, so that only the host can do it.
    Secret {
        /// Digest of the question.
        asked: Digest,
        /// A code, or a single byte for yes. `None` for no.
        answer: Option<Vec<u8>>,
    },
}

/// A module's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    pub verb: Verb,
    /// The whole URL.
    pub url: String,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Secrets that the host was asked to insert, with their places, and the token to store.
    pub secrets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAnswer {
    /// HTTP status.
    pub status: u16,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Reason why there is no response. The texts are for the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendFailure {
    /// The request was not sent.
    NotSent(String),
    /// The request may have arrived.
    NoAnswer(String),
}

#[expect(
    clippy::large_enum_variant,
    reason = "one is made for each call and kept briefly"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    Start(Result<Started, StartFailure>),
    Callback(Result<CallbackReply, CallbackFailure>),
    Query(Result<Report, QueryFailure>),
    /// The module gave no valid result: the name of its failure.
    Failed(String),
}

/// First difference in the behavior of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// Other requests to the provider, or another order.
    Requests,
    /// A failure instead of a success, the reverse, or a failure of another kind.
    Failure,
    /// Another reference of the payment at the provider.
    Reference,
    /// Another next action of the payer, or another end of its validity.
    Action,
    /// Another report of the payment's state.
    Report,
    /// Other notices in the callback.
    Notices,
    /// Another response to the callback.
    Reply,
}

impl Deviation {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Failure => "failure",
            Self::Reference => "reference",
            Self::Action => "action",
            Self::Report => "report",
            Self::Notices => "notices",
            Self::Reply => "reply",
        }
    }
}

impl Conversation {
    /// Time of the call.
    pub const fn at(&self) -> Time {
        self.account.now
    }

    /// First difference of another version's same call. Results take precedence over requests.
    pub fn deviation(&self, other: &Self) -> Option<Deviation> {
        let asked_alike = || {
            let mut pairs = self.requests().zip(other.requests());
            self.requests().count() == other.requests().count()
                && pairs.all(|(one, other)| one.is_same(other))
        };
        let deviation = self.outcome.deviation(&other.outcome);
        deviation.or_else(|| (!asked_alike()).then_some(Deviation::Requests))
    }

    fn requests(&self) -> impl Iterator<Item = &HttpRequest> {
        self.exchanges.iter().filter_map(|exchange| match exchange {
            HostCall::Http { request, .. } => Some(request),
            HostCall::Secret { .. } => None,
        })
    }
}

impl HttpRequest {
    /// Whether another request is equal, apart from the order of headers.
    pub fn is_same(&self, other: &Self) -> bool {
        let sorted = |request: &Self| {
            let mut headers = request.headers.clone();
            headers.sort_unstable();
            headers
        };
        self.verb == other.verb
            && self.secrets == other.secrets
            && self.url == other.url
            && self.body == other.body
            && sorted(self) == sorted(other)
    }

    /// Whether another request has the same verb and path.
    pub fn is_similar(&self, other: &Self) -> bool {
        fn path(request: &HttpRequest) -> Option<&str> {
            request.url.split(['?', '#']).next()
        }
        self.verb == other.verb && path(self) == path(other)
    }
}

impl CallOutcome {
    /// Whether a start gave the payer a next action.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Start(Ok(_)))
    }

    /// Difference of another outcome of the same call. `None` if both mean the same. Texts for operators are
    /// ignored. A call in which the module failed differs from every outcome, even from another failure.
    pub fn deviation(&self, other: &Self) -> Option<Deviation> {
        match (self, other) {
            (Self::Start(Ok(one)), Self::Start(Ok(other))) => started(one, other),
            (Self::Query(Ok(one)), Self::Query(Ok(other))) => {
                (!is_same_report(one, other)).then_some(Deviation::Report)
            }
            (Self::Callback(Ok(one)), Self::Callback(Ok(other))) => replied(one, other),
            (Self::Start(Err(one)), Self::Start(Err(other))) => failed(one, other),
            (Self::Query(Err(one)), Self::Query(Err(other))) => failed(one, other),
            (Self::Callback(Err(one)), Self::Callback(Err(other))) => failed(one, other),
            _ => Some(Deviation::Failure),
        }
    }
}

/// Compares two failures of one function by their kind.
fn failed<F>(one: &F, other: &F) -> Option<Deviation> {
    let kind = std::mem::discriminant::<F>;
    (kind(one) != kind(other)).then_some(Deviation::Failure)
}

fn started(one: &Started, other: &Started) -> Option<Deviation> {
    let (Started::Open(one), Started::Open(other)) = (one, other) else {
        return (one != other).then_some(Deviation::Action);
    };
    if one.reference != other.reference {
        return Some(Deviation::Reference);
    }
    let is_same = one.action == other.action && one.until == other.until;
    (!is_same).then_some(Deviation::Action)
}

fn replied(one: &CallbackReply, other: &CallbackReply) -> Option<Deviation> {
    let mut pairs = one.notices.iter().zip(&other.notices);
    let is_same = |(one, other): (&Notice, &Notice)| {
        let reports = match (&one.report, &other.report) {
            (Some(one), Some(other)) => is_same_report(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        one.about == other.about && one.reference == other.reference && reports
    };
    if one.notices.len() != other.notices.len() || !pairs.all(is_same) {
        return Some(Deviation::Notices);
    }
    let (read, again) = (
        (one.proved, one.status, &one.media_type, &one.body),
        (other.proved, other.status, &other.media_type, &other.body),
    );
    (read != again).then_some(Deviation::Reply)
}

fn is_same_report(one: &Report, other: &Report) -> bool {
    let plain = |report: &Report| Report {
        detail: String::new(),
        ..report.clone()
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Minor;
    use crate::provider::{
        Open, Particulars, PayerAction, ProviderSettlement, ProviderStatus, Subject,
    };

    fn open(reference: &str, to: &str) -> CallOutcome {
        CallOutcome::Start(Ok(Started::Open(Open {
            reference: reference.into(),
            action: PayerAction::Redirect(to.into()),
            until: None,
        })))
    }

    fn report(status: ProviderStatus, detail: &str) -> Report {
        Report {
            reference: "pay_1".into(),
            status,
            settlement: ProviderSettlement::Pending,
            received: Minor(100),
            currency: "EUR".into(),
            returned: Minor(0),
            detail: detail.into(),
            particulars: Particulars::default(),
        }
    }

    fn reply(report: Option<Report>, status: u16) -> CallOutcome {
        CallOutcome::Callback(Ok(CallbackReply {
            proved: true,
            notices: vec![Notice {
                about: Subject::Reference("pay_1".into()),
                reference: None,
                report,
            }],
            status,
            media_type: "text/plain".into(),
            body: "ok".into(),
        }))
    }

    #[test]
    fn outcomes_differ_by_what_they_mean_and_not_by_texts_for_operators() {
        use Deviation::{Action, Failure, Notices, Reference, Reply, Report as Reported};
        let declined = |why: &str| CallOutcome::Start(Err(StartFailure::Declined(why.into())));
        let unavailable = CallOutcome::Start(Err(StartFailure::Unavailable("x".into())));
        let queried = |status, detail: &str| CallOutcome::Query(Ok(report(status, detail)));
        let absent = CallOutcome::Query(Err(QueryFailure::Absent));
        let (paid, pending) = (ProviderStatus::Completed, ProviderStatus::Pending);
        for (one, other, expected) in [
            (open("a", "https://x"), open("a", "https://x"), None),
            (
                open("a", "https://x"),
                open("b", "https://x"),
                Some(Reference),
            ),
            (open("a", "https://x"), open("a", "https://y"), Some(Action)),
            (open("a", "https://x"), declined("no"), Some(Failure)),
            (declined("no"), declined("not at all"), None),
            (declined("no"), unavailable, Some(Failure)),
            (queried(paid, "a"), queried(paid, "b"), None),
            (queried(paid, "a"), queried(pending, "a"), Some(Reported)),
            (queried(paid, "a"), absent, Some(Failure)),
            (reply(None, 200), reply(None, 200), None),
            (reply(None, 200), reply(None, 202), Some(Reply)),
            (
                reply(None, 200),
                reply(Some(report(paid, "")), 200),
                Some(Notices),
            ),
            (
                reply(Some(report(paid, "a")), 200),
                reply(Some(report(paid, "b")), 200),
                None,
            ),
            (
                reply(Some(report(paid, "")), 200),
                reply(Some(report(pending, "")), 200),
                Some(Notices),
            ),
            (
                CallOutcome::Failed("trap".into()),
                CallOutcome::Failed("trap".into()),
                Some(Failure),
            ),
        ] {
            assert_eq!(one.deviation(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.deviation(&one), expected, "{other:?} {one:?}");
        }
    }
}
