//! One refund: what is known of it, and how far the order to give it back has come.

use serde::{Deserialize, Serialize};

use crate::id::RefundId;
use crate::money::Minor;
use crate::order::IdempotencyKey;
use crate::provider::{RefundState, VendorRefund};
use crate::secret::Secret;
use crate::time::Time;
use crate::work::WorkKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefundOrigin {
    /// The merchant, through our API.
    Merchant,
    Operator,
    /// It was given back elsewhere, as in the vendor's dashboard; the vendor told us.
    Provider,
}

impl RefundOrigin {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Merchant => "merchant",
            Self::Operator => "operator",
            Self::Provider => "provider",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Drawn at random where it was ordered here, else [`RefundId::derived`].
    pub id: RefundId,
    /// The vendor's id; none before the vendor has told one, and for what it tells as part of a sum alone.
    pub reference: Option<String>,
    /// Minor units of the currency received.
    pub amount: Minor,
    pub state: RefundState,
    pub origin: RefundOrigin,
    /// When it came to be in its state, as far as the host heard.
    pub at: Time,
    /// When it was ordered, or first heard of.
    pub created_at: Time,
    /// Where the payer must claim it: the money is the one's who has the address.
    pub claim_url: Option<Secret>,
    /// The vendor's last words about it, for the operator.
    pub detail: String,
    /// How much of the vendor's own sum is put down to it. One elsewhere that succeeded, or that only the sum
    /// tells, is in it as a whole.
    pub in_sum: Minor,
    /// The order; none for what was given back elsewhere.
    pub ordered: Option<Box<Ordered>>,
}

/// An order to give money back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// Makes the request idempotent.
    pub key: Option<IdempotencyKey>,
    /// Whether all that was left was asked for, without an amount.
    pub all: bool,
    /// The merchant's reason.
    pub reason: Option<String>,
    /// The kind of the attempt's line on the work list that it settles.
    pub line: Option<WorkKind>,
    /// Whether the vendor may have the refund without having said so.
    pub uncertain: bool,
    /// Until when a request to make it may have been under way.
    pub last_sent: Time,
    /// When a task took it in hand last, to call the vendor.
    pub claimed_at: Time,
    /// Until when a task has it in hand.
    pub busy_until: Option<Time>,
    /// When it is sent or asked about next; none once it has ended, or was asked about in vain for long.
    pub next_at: Option<Time>,
    /// How many turns of the schedule were taken.
    pub asked: u8,
}

impl Refund {
    /// The merchant's reason.
    pub fn reason(&self) -> Option<&str> {
        self.ordered.as_ref()?.reason.as_deref()
    }

    /// The order of a refund that has not ended.
    pub(crate) fn pending_order(&self) -> Option<&Ordered> {
        let pending = self.state == RefundState::Pending;
        self.ordered.as_deref().filter(|_| pending)
    }

    /// Whether it was ordered here and has not ended.
    pub fn is_order_pending(&self) -> bool {
        self.pending_order().is_some()
    }

    /// Whether the vendor surely has nothing of it yet, so that the order is sent; else it is asked about.
    pub fn is_to_send(&self) -> bool {
        let unsent = |ordered: &Ordered| !ordered.uncertain && self.reference.is_none();
        self.pending_order().is_some_and(unsent)
    }

    /// Whether its money is gone or may go.
    pub(crate) const fn counts(&self) -> bool {
        !matches!(self.state, RefundState::Failed)
    }

    /// Whether it was ordered to settle a line of the work list.
    pub(crate) fn is_for(&self, line: WorkKind) -> bool {
        let ordered = self.ordered.as_ref();
        ordered.is_some_and(|ordered| ordered.line == Some(line))
    }

    /// Whether it is only known as part of the vendor's sum.
    pub(crate) const fn is_of_sum(&self) -> bool {
        self.ordered.is_none() && self.reference.is_none()
    }

    /// Whether it ended without the vendor ever having had it, as far as the host knows: then any word of
    /// the vendor's about it is news.
    pub(crate) const fn never_was(&self) -> bool {
        matches!(self.state, RefundState::Failed)
            && self.ordered.is_some()
            && self.reference.is_none()
    }

    /// Whether a vendor's word is about it.
    pub(crate) fn is_told_by(&self, told: &VendorRefund) -> bool {
        self.ordered.is_some() && told.order == Some(self.id)
            || self.reference.as_deref() == Some(told.id.as_str())
    }
}
