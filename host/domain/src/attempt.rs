//! One try to be paid at one provider account.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, AttemptId, Digest, PaymentId, Slot};
use crate::method::MethodId;
use crate::money::{Minor, Money};
use crate::payment::RoutingDecision;
use crate::provider::{Particulars, PayerAction, VendorSettlement, VendorStatus};
use crate::returns::Returns;
use crate::secret::Secret;
use crate::time::Time;

/// How a report came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The vendor's callback.
    Callback,
    /// The payer's return.
    Return,
    /// A question of ours.
    Query,
}

impl Via {
    /// The word in timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Callback => "callback",
            Self::Return => "return",
            Self::Query => "query",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Being started, or waiting for the payer.
    Open,
    /// Its start's outcome is unknown: money may move.
    Unknown,
    /// Claimed for capture.
    Capturing,
    /// Authorised, not captured.
    Processing,
    /// Paid, waiting for proof.
    VerificationPending,
    /// The vendor holds it until a person has looked.
    Review,
    /// The payment's money is taken.
    Captured,
    /// The vendor or the payer's bank said no.
    Declined,
    /// The account could not be used; surely nothing was created.
    Unavailable,
    /// Closed, so that another way can be chosen.
    Closed,
    /// Its time has passed, at the vendor too.
    Expired,
    /// Over for good.
    Failed,
    /// Money that is not the payment's: to be refunded or decided upon.
    Surplus,
}

impl AttemptState {
    pub const ALL: [Self; 13] = [
        Self::Open,
        Self::Unknown,
        Self::Capturing,
        Self::Processing,
        Self::VerificationPending,
        Self::Review,
        Self::Captured,
        Self::Declined,
        Self::Unavailable,
        Self::Closed,
        Self::Expired,
        Self::Failed,
        Self::Surplus,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unknown => "unknown",
            Self::Capturing => "capturing",
            Self::Processing => "processing",
            Self::VerificationPending => "verification_pending",
            Self::Review => "review",
            Self::Captured => "captured",
            Self::Declined => "declined",
            Self::Unavailable => "unavailable",
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Surplus => "surplus",
        }
    }

    /// Whether money can still move on it as the payment's own. At most one attempt of a payment is.
    pub const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Unknown
                | Self::Capturing
                | Self::Processing
                | Self::VerificationPending
                | Self::Review
        )
    }
}

/// What the vendor last said, in its own figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorFacts {
    pub status: VendorStatus,
    /// Whether the money is safe there.
    pub settlement: VendorSettlement,
    /// Received so far.
    pub received: Minor,
    pub currency: String,
    /// Given back so far.
    pub returned: Minor,
    /// The vendor's words, for the operator.
    pub detail: String,
    /// When it was said to us.
    pub at: Time,
}

/// One try to be paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Idempotency key and reference at the vendor.
    pub id: AttemptId,
    pub payment: PaymentId,
    pub account: AccountId,
    /// The module that speaks to it.
    pub slot: Slot,
    /// The version that started it.
    pub digest: Digest,
    pub method: MethodId,
    /// What is to be paid.
    pub due: Money,
    pub state: AttemptState,
    /// What the payer does next; none until the start has been recorded.
    pub action: Option<PayerAction>,
    /// Until when `action` can be used again.
    pub until: Option<Time>,
    /// The vendor's ids for it, the newest first.
    pub references: Vec<String>,
    /// Opens `/return/<token>`.
    pub return_token: Secret,
    /// The payer's answers to the module's questions.
    pub answers: Vec<(String, Secret)>,
    /// What is known of the payer, for a repeated start.
    pub payer: crate::provider::Payer,
    /// The raw query with which the payer's browser last came back. A hint, which proves nothing.
    pub returned: Option<Secret>,
    /// Whether a start's outcome was ever unknown: then only the vendor's own word, or the repeat of
    /// the start with an answer, proves that no money can move.
    pub uncertain: bool,
    /// The vendor's last word.
    pub vendor: Option<VendorFacts>,
    /// Until when a task has it claimed, to call the vendor.
    pub busy_until: Option<Time>,
    /// When the vendor is asked next.
    pub next_query: Option<Time>,
    /// How many questions of the schedule were asked; [`Attempt::ALL_ASKED`] after the last.
    pub queries: u8,
    /// How many questions in a row had no answer since its life ended.
    pub silences: u8,
    /// Since when, where there are any.
    pub silent_since: Option<Time>,
    /// How many notices that prove nothing by themselves have arrived.
    pub notices: u32,
    /// How many of them a question has answered that was asked after they came.
    pub notices_answered: u32,
    /// What the schedule of questions and repeats of a start count from: when it was opened, its questions were
    /// answered, it was captured or heard of again.
    pub watched_from: Time,
    /// Before then a capture or a close that had no success is not tried again.
    pub hold_until: Option<Time>,
    /// How often in a row one was tried in vain.
    pub retries: u8,
    /// Until when a start of it may have been under way.
    pub last_sent: Time,
    /// Whether it was claimed to be closed, and not started again since: then its end is not a decline.
    pub closing: bool,
    /// What went back of its money.
    pub returns: Returns,
    /// What the vendor told beside where the money is: the newest of each, its refunds and disputes
    /// left out.
    pub particulars: Particulars,
    /// Reports that already have their line "changed nothing": one for each way and status.
    pub heard: Vec<(Via, VendorStatus)>,
    pub opened_at: Time,
    /// When its own time passes; never after the payment's.
    pub expires_at: Time,
    pub ended_at: Option<Time>,
    /// Why it ended or what is odd about it, for the operator.
    pub detail: String,
}

impl Attempt {
    /// The newest reference.
    pub fn reference(&self) -> Option<&str> {
        self.references.first().map(String::as_str)
    }

    /// Whether a task has it claimed now.
    pub fn is_busy(&self, now: Time) -> bool {
        self.busy_until.is_some_and(|until| now < until)
    }

    /// Whether the vendor's last word is an authorisation that is not captured: one to be captured
    /// now, or one that it holds until a person has looked.
    pub fn is_authorised(&self) -> bool {
        let held = self.particulars.authorised_at.is_some()
            && self.particulars.captured_at.is_none()
            && self.net().is_none();
        let authorised = self
            .vendor
            .as_ref()
            .is_some_and(|facts| match facts.status {
                VendorStatus::Processing => true,
                VendorStatus::Review => held,
                _ => false,
            });
        authorised && !matches!(self.state, AttemptState::Captured | AttemptState::Surplus)
    }

    /// [`Attempt::queries`] when the whole schedule was asked.
    pub const ALL_ASKED: u8 = u8::MAX;

    /// Whether all questions of the schedule were asked in vain.
    pub fn is_exhausted(&self) -> bool {
        self.queries == Self::ALL_ASKED
    }

    /// Captured money that is not given back, as far as the vendor told; an authorisation is none.
    pub fn net(&self) -> Option<(Minor, &str)> {
        let facts = self.vendor.as_ref()?;
        let taken = !matches!(
            facts.status,
            VendorStatus::Pending | VendorStatus::Processing | VendorStatus::VerificationPending
        );
        let net = facts.received.0.saturating_sub(facts.returned.0);
        (taken && net > 0).then_some((Minor(net), facts.currency.as_str()))
    }

    /// Whether the vendor's last word leaves open what becomes of it.
    pub(crate) fn is_undecided(&self) -> bool {
        self.vendor.as_ref().is_some_and(|facts| {
            matches!(
                facts.status,
                VendorStatus::Pending
                    | VendorStatus::Processing
                    | VendorStatus::VerificationPending
                    | VendorStatus::Review
            )
        })
    }

    /// Money of it that the vendor holds for us as far as it told.
    pub(crate) fn holds_money(&self) -> bool {
        self.vendor
            .as_ref()
            .is_some_and(|facts| facts.received > facts.returned)
    }
}

/// What a new attempt is opened with; ids and tokens are drawn by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub attempt: AttemptId,
    /// Opens `/return/<token>`.
    pub return_token: Secret,
    pub account: AccountId,
    /// Its module.
    pub slot: Slot,
    /// The module's version.
    pub digest: Digest,
    pub method: MethodId,
    /// When the attempt's own time passes; capped at the payment's.
    pub expires_at: Time,
    /// Until when the start that follows holds it.
    pub busy_until: Time,
    /// What is known of the payer.
    pub payer: crate::provider::Payer,
    /// Why this account.
    pub decision: Option<RoutingDecision>,
}
