//! Recorded calls of provider modules: enough to make each again, by another version, without the vendor.
//!
//! A module knows nothing but what it is told, so the same question and the same answers of its host give the same
//! outcome. No secret is in a record: requests stand as the module wrote them, before the host put credentials in,
//! and what the host computed with a secret is kept by a digest of what it was asked.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, PaymentId, Slot};
use crate::money::Money;
use crate::provider::{
    AccountFacts, AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Notice,
    QueryFailure, QueryPurpose, Report, StartFailure, Started, Verb,
};
use crate::secret::Secret;
use crate::time::Time;

/// A call of a provider's module with all that it was told, asked its host and said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The slot that was called.
    pub slot: Slot,
    /// The version of its module.
    pub digest: Digest,
    /// The payment, where the call was about one that is known: a callback is about none.
    pub payment: Option<PaymentId>,
    /// The account, whose `now` is the time of the call.
    pub account: AccountFacts,
    /// Hosts that the account's payers could be sent to, as they are configured.
    pub payer_hosts: Vec<String>,
    /// Whether loopback was allowed, as for simulated accounts.
    pub plain_loopback: bool,
    pub call: ProviderCall,
    /// What the module asked its host, in its order.
    pub exchanges: Vec<HostCall>,
    /// What the host made of the module's answer.
    pub outcome: CallOutcome,
}

/// A function of a provider's module, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderCall {
    Start(AttemptFacts),
    Callback(CallbackRequest),
    Query {
        attempt: AttemptFacts,
        /// The vendor's id for it.
        reference: Option<String>,
        /// What the query is for.
        purpose: QueryPurpose,
        /// The raw query with which the payer came back.
        returned: Option<Secret>,
    },
}

impl ProviderCall {
    /// What is to be paid; none for a callback.
    pub const fn due(&self) -> Option<Money> {
        match self {
            Self::Start(attempt) | Self::Query { attempt, .. } => Some(attempt.due),
            Self::Callback(_) => None,
        }
    }
}

/// One question of a module to its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCall {
    /// A request, and how it ended.
    Http {
        /// Before credentials were written into it.
        request: HttpRequest,
        /// As the module saw it.
        answer: Result<HttpAnswer, SendFailure>,
    },
    /// Something that only the host can tell, because it takes a secret.
    Secret {
        /// Of the question.
        asked: Digest,
        /// A code, or a single byte for yes; none for no.
        answer: Option<Vec<u8>>,
    },
}

/// A module's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    pub verb: Verb,
    /// The whole address.
    pub url: String,
    /// Names and values, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which secrets the host was asked to add and where, and which token to keep.
    pub secrets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAnswer {
    /// HTTP status.
    pub status: u16,
    /// Names and values, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why nothing came back. The texts are the module's to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendFailure {
    /// The request surely did not leave.
    NotSent(String),
    /// It may have arrived.
    NoAnswer(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    Start(Result<Started, StartFailure>),
    Callback(Result<CallbackReply, CallbackFailure>),
    Query(Result<Report, QueryFailure>),
    /// The module gave no answer that counts: the word for how it failed.
    Failed(String),
}

/// The first thing that another version does otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// It asks the vendor something else, or in another order.
    Requests,
    /// It fails, or for another reason.
    Failure,
    /// It gives the payment another reference at the vendor.
    Reference,
    /// It tells the payer to do something else, or until another time.
    Action,
    /// It reports another state of the payment.
    Report,
    /// It reads other notices from the callback.
    Notices,
    /// It answers the callback otherwise.
    Reply,
}

impl Deviation {
    /// Its name in the API.
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
    /// When the call was made.
    pub const fn at(&self) -> Time {
        self.account.now
    }

    /// The first thing that another version did otherwise in the same call; what came of the call goes before what
    /// was asked for it.
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
    /// Whether another request asks the same: the order of headers means nothing.
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

    /// Whether another request asks for the same thing in another way: the same verb and path.
    pub fn is_similar(&self, other: &Self) -> bool {
        fn path(request: &HttpRequest) -> Option<&str> {
            request.url.split(['?', '#']).next()
        }
        self.verb == other.verb && path(self) == path(other)
    }
}

impl CallOutcome {
    /// Whether a start gave the payer something to do.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Start(Ok(_)))
    }

    /// What another outcome of the same call says otherwise; none where both mean the same. Texts for operators
    /// mean nothing, and a module that failed says the same as none.
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

/// Two failures of one function, which are the same where they are of one kind.
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
        Open, Particulars, PayerAction, Subject, VendorSettlement, VendorStatus,
    };

    fn open(reference: &str, to: &str) -> CallOutcome {
        CallOutcome::Start(Ok(Started::Open(Open {
            reference: reference.into(),
            action: PayerAction::Redirect(to.into()),
            until: None,
        })))
    }

    fn report(status: VendorStatus, detail: &str) -> Report {
        Report {
            reference: "pay_1".into(),
            status,
            settlement: VendorSettlement::Pending,
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
        let (paid, pending) = (VendorStatus::Completed, VendorStatus::Pending);
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
