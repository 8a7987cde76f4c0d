//! The operators' work list.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, AttemptId, MerchantId, PaymentId, WorkId};
use crate::key::Environment;
use crate::money::Minor;
use crate::time::Time;

/// Reason why an item is on the list. Stored by number: new kinds are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A second capture, or one of a declined payment: to be refunded.
    Surplus,
    /// Money that arrived after the payment had ended.
    Late,
    /// More received than was due.
    Excess,
    /// A refund that failed, or whose outcome stayed unknown.
    Refund,
    /// A dispute or inquiry that is open or was lost.
    Dispute,
    /// Completed without a confirmation, or ended without certainty that no money was captured.
    Unsettled,
    /// Captured money of an attempt that the store does not know.
    Unknown,
    /// More returned than received.
    Negative,
    /// An authorization that ends soon.
    Authorization,
    /// A method that an account refuses because it is not activated there.
    MethodRefused,
    /// A part of the provider's answer that the module could not read.
    Unreadable,
    /// The provider's early fraud warning.
    FraudWarning,
    /// A merchant's own exchange rate that is old.
    RateOld,
}

impl WorkKind {
    pub const ALL: [Self; 13] = [
        Self::Surplus,
        Self::Late,
        Self::Excess,
        Self::Refund,
        Self::Dispute,
        Self::Unsettled,
        Self::Unknown,
        Self::Negative,
        Self::Authorization,
        Self::MethodRefused,
        Self::Unreadable,
        Self::FraudWarning,
        Self::RateOld,
    ];

    /// The name in the admin API and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Surplus => "surplus",
            Self::Late => "late",
            Self::Excess => "excess",
            Self::Refund => "refund",
            Self::Dispute => "dispute",
            Self::Unsettled => "unsettled",
            Self::Unknown => "unknown",
            Self::Negative => "negative",
            Self::Authorization => "authorization",
            Self::MethodRefused => "method_refused",
            Self::Unreadable => "unreadable",
            Self::FraudWarning => "fraud_warning",
            Self::RateOld => "rate_old",
        }
    }
}

/// Identity of an item: at most one open item of a payment has the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkKey {
    pub attempt: AttemptId,
    pub kind: WorkKind,
    /// Id of the refund or dispute; empty if the item is about the attempt's money as a whole.
    pub subject: String,
}

/// An item of the list, open until its subject is settled or an operator marks it done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    pub id: WorkId,
    pub key: WorkKey,
    /// `None` if the store does not know the payment.
    pub payment: Option<PaymentId>,
    pub merchant: Option<MerchantId>,
    pub order_id: Option<String>,
    pub environment: Environment,
    pub account: AccountId,
    /// Amount owed or disputed, in minor units.
    pub amount: Minor,
    /// The provider's code.
    pub currency: String,
    /// Amount that the attempt received, in minor units of the same currency.
    pub received: Minor,
    /// A sentence for the operator.
    pub detail: String,
    /// Deadline for an operator's action.
    pub deadline: Option<Time>,
    pub opened_at: Time,
    /// Time at which an operator marked it done, or its subject was settled.
    pub done_at: Option<Time>,
}
