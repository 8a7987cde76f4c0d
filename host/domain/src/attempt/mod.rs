//! An attempt to collect a payment at one provider account.

mod claim;
mod queries;
mod stage;

pub use claim::Claim;
pub(crate) use queries::Advanced;
pub use queries::Queries;
pub use stage::{AttemptState, Doubt, End, Live, PayerStep, Stage};

use serde::{Deserialize, Serialize};

use crate::funds::Funds;
use crate::id::{AccountId, AttemptId, Digest, PaymentId, Slot};
use crate::method::MethodId;
use crate::money::{Minor, Money};
use crate::movement::positive;
use crate::payment::{RoutingDecision, Settlement};
use crate::provider::{Particulars, Payer, PayerAction, ProviderSettlement, ProviderStatus};
use crate::secret::Secret;
use crate::time::Time;

/// How a report was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The provider's callback.
    Callback,
    /// The payer's return.
    Return,
    /// A query by the gateway.
    Query,
}

impl Via {
    /// The text in timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Callback => "callback",
            Self::Return => "return",
            Self::Query => "query",
        }
    }
}

/// The provider's latest report, in its own figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFacts {
    pub status: ProviderStatus,
    /// Whether the money is safe at the provider.
    pub settlement: ProviderSettlement,
    /// Amount received so far, in minor units of `currency`.
    pub received: Minor,
    pub currency: String,
    /// The provider's text, for the operator.
    pub detail: String,
    /// Time at which the gateway learned of it.
    pub at: Time,
}

/// Progress of the watch over an authorization's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthorizationWatch {
    /// Nothing was done.
    #[default]
    None,
    /// It ends within a day and is on the work list.
    Warned,
    /// Its end has passed by our clock, and a query to the provider is due.
    Asked,
    /// A query after that time was answered: the provider still holds the money, so only its reports count now.
    Held,
}

/// An attempt to collect a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Idempotency key and reference at the provider.
    pub id: AttemptId,
    pub payment: PaymentId,
    pub account: AccountId,
    /// The module that handles the account.
    pub slot: Slot,
    /// The module's version that started the attempt.
    pub digest: Digest,
    pub method: MethodId,
    /// Invoice amount.
    pub due: Money,
    /// Secret of the URL `/return/<token>`.
    pub return_token: Secret,
    pub opened_at: Time,
    /// Time at which the attempt expires; never after the payment's.
    pub expires_at: Time,
    pub stage: Stage,
    pub queries: Queries,
    pub claim: Claim,
    /// The provider's ids for it, newest first.
    pub references: Vec<String>,
    /// The payer's answers to the module's questions.
    pub answers: Vec<(String, Secret)>,
    /// Known data of the payer, for a repeated start.
    pub payer: Payer,
    /// The raw query with which the payer's browser last returned. A hint, which proves nothing.
    pub returned: Option<Secret>,
    /// The provider's latest report. `None` before the first.
    pub vendor: Option<ProviderFacts>,
    /// Captures, refunds and disputes of the attempt, and their balance.
    pub funds: Funds,
    /// Further facts that the provider reported, the newest of each. Its lists of captures, refunds and disputes
    /// are empty: see `funds`.
    pub particulars: Particulars,
    pub authorization: AuthorizationWatch,
    /// Reports that already have a timeline entry "changed nothing": one for each source and status.
    pub heard: Vec<(Via, ProviderStatus)>,
    /// Reason for its end or for a doubt about it, for the operator.
    pub detail: String,
}

impl Attempt {
    pub const fn state(&self) -> AttemptState {
        self.stage.state()
    }

    /// Whether money can still move on it as the payment's own.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Live { .. })
    }

    /// Whether it holds the payment's money.
    pub const fn is_captured(&self) -> bool {
        matches!(self.stage, Stage::Captured { .. })
    }

    /// The payer's next action.
    pub fn action(&self) -> Option<&PayerAction> {
        self.stage.step().map(|step| &step.action)
    }

    /// Time until which the payer's next action can be used.
    pub fn usable_until(&self) -> Time {
        let until = self.stage.step().and_then(|step| step.until);
        until.map_or(self.expires_at, |until| until.min(self.expires_at))
    }

    /// The newest reference.
    pub fn reference(&self) -> Option<&str> {
        self.references.first().map(String::as_str)
    }

    /// Whether a task has claimed it now.
    pub fn is_busy(&self, now: Time) -> bool {
        self.claim.busy_until().is_some_and(|until| now < until)
    }

    /// Whether the provider's latest report is an authorization without a capture: one to be captured now, or one
    /// held for a review.
    pub fn is_authorised(&self) -> bool {
        let held = self.particulars.authorised_at.is_some()
            && self.particulars.captured_at.is_none()
            && self.net().is_none();
        let authorised = self
            .vendor
            .as_ref()
            .is_some_and(|facts| match facts.status {
                ProviderStatus::Processing => true,
                ProviderStatus::Review => held,
                _ => false,
            });
        authorised && !matches!(self.stage, Stage::Captured { .. } | Stage::Surplus { .. })
    }

    /// End of its authorization. `None` if it has none, or if the provider still held the money after that time.
    pub fn authorization_end(&self) -> Option<Time> {
        let is_held = self.authorization == AuthorizationWatch::Held;
        let end = self.particulars.capture_before?;
        (self.is_open() && self.is_authorised() && !is_held).then_some(end)
    }

    /// Captured money that was not returned, with its currency's code. `None` if there is none. An authorization
    /// does not count.
    pub fn net(&self) -> Option<(Minor, &str)> {
        let net = positive(self.funds.balance.total().net());
        (net > Minor::ZERO).then(|| (net, self.received_currency()))
    }

    /// Whether the provider's latest status is not final.
    pub(crate) fn is_undecided(&self) -> bool {
        self.vendor.as_ref().is_some_and(|facts| {
            matches!(
                facts.status,
                ProviderStatus::Pending
                    | ProviderStatus::Processing
                    | ProviderStatus::VerificationPending
                    | ProviderStatus::Review
            )
        })
    }

    /// Whether its account must stay configured: money can still move on it, it needs further queries, or its
    /// captured money is not known to be safe.
    pub fn needs_account(&self, settlement: Settlement) -> bool {
        let unsure = match self.stage {
            Stage::Live { .. } => true,
            Stage::Captured { .. } => settlement == Settlement::Pending,
            Stage::Surplus { .. } => false,
            Stage::Ended { .. } => self.is_undecided(),
        };
        unsure || self.queries.next().is_some() || self.funds.is_order_pending()
    }

    /// Whether it has captured money that was not returned.
    pub(crate) fn holds_money(&self) -> bool {
        self.funds.balance.total().net() > 0
    }
}

/// Data of a new attempt; the caller draws ids and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub attempt: AttemptId,
    /// Secret of the URL `/return/<token>`.
    pub return_token: Secret,
    pub account: AccountId,
    /// The account's module.
    pub slot: Slot,
    /// The module's version.
    pub digest: Digest,
    pub method: MethodId,
    /// Time at which the attempt expires; capped at the payment's.
    pub expires_at: Time,
    /// End of the claim for the start that follows.
    pub busy_until: Time,
    /// Known data of the payer.
    pub payer: Payer,
    /// The decision that chose this account.
    pub decision: Option<RoutingDecision>,
}
