//! The operators' work list: money that a person has to look at.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, AttemptId, PaymentId, WorkId};
use crate::money::Minor;
use crate::time::Time;

/// Why a line stands on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    /// Captured a second time: to be refunded.
    Surplus,
    /// Money on an expired, failed or cancelled payment.
    Late,
    /// More received than was due.
    Excess,
    /// The vendor reports money as returned.
    Refund,
    /// The vendor reports a dispute after completion.
    Dispute,
    /// Completed, and never confirmed.
    Unsettled,
    /// Captured money of an attempt that the store does not know.
    Unknown,
}

impl WorkKind {
    pub const ALL: [Self; 7] = [
        Self::Surplus,
        Self::Late,
        Self::Excess,
        Self::Refund,
        Self::Dispute,
        Self::Unsettled,
        Self::Unknown,
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
        }
    }
}

/// A line of the list, open until an operator marks it done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    pub id: WorkId,
    pub kind: WorkKind,
    /// Which payment; none where the store knows none.
    pub payment: Option<PaymentId>,
    pub attempt: AttemptId,
    pub account: AccountId,
    /// How much, minor units.
    pub amount: Minor,
    /// Of what; the vendor's code.
    pub currency: String,
    /// A sentence for the operator.
    pub detail: String,
    pub opened_at: Time,
    /// When an operator marked it done.
    pub done_at: Option<Time>,
}
