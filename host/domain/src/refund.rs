//! A refund, and the progress of its order.

use serde::{Deserialize, Serialize};

use crate::id::RefundId;
use crate::money::Minor;
use crate::movement::{Booked, Bucket};
use crate::order::IdempotencyKey;
use crate::provider::{ProviderRefund, RefundState};
use crate::secret::Secret;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefundOrigin {
    /// The merchant, through our API.
    Merchant,
    /// A reseller, for a payment that it created.
    Reseller,
    Operator,
    /// Refunded elsewhere, as in the provider's dashboard, and reported by the provider.
    Provider,
}

impl RefundOrigin {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Merchant => "merchant",
            Self::Reseller => "reseller",
            Self::Operator => "operator",
            Self::Provider => "provider",
        }
    }
}

/// Reason why a refund failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundFailure {
    /// The provider did not make it.
    Refused,
    /// An operator found that it was not made.
    NotMade,
    /// It had succeeded, and the provider or the payer's bank returned the money.
    CameBack,
}

impl RefundFailure {
    pub const ALL: [Self; 3] = [Self::Refused, Self::NotMade, Self::CameBack];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NotMade => "not_made",
            Self::CameBack => "came_back",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Drawn at random if it was ordered here, else [`RefundId::derived`].
    pub id: RefundId,
    /// Id under which it was reported before it was recognized as the refund ordered as `id`: both ids find it.
    pub earlier_id: Option<RefundId>,
    /// The provider's id. `None` before the provider reports one, and for refunds known only as part of a sum.
    pub reference: Option<String>,
    /// Minor units of the currency received.
    pub amount: Minor,
    pub state: RefundState,
    pub origin: RefundOrigin,
    /// Bucket of the refunded money.
    pub bucket: Bucket,
    /// Time at which it entered its state, as far as the gateway learned.
    pub at: Time,
    /// Time at which it was ordered, or first reported.
    pub created_at: Time,
    /// Time at which it entered its state by the provider's clock, if reported.
    pub occurred_at: Option<Time>,
    /// URL at which the payer must claim it. Anyone with the URL gets the money.
    pub claim_url: Option<Secret>,
    /// The provider's latest text about it, for the operator.
    pub detail: String,
    /// Booked part that is paid out and did not come back.
    pub out: Minor,
    /// The same as last reported by the provider: more than `out` if the capture is not known yet.
    pub(crate) reported_out: Minor,
    /// Part that was paid out and came back.
    pub reversed: Minor,
    /// Whether the merchant received the event of its success.
    pub succeeded_reported: bool,
    /// Part of `reversed` that the merchant's events reported.
    pub reversed_reported: Minor,
    /// Whether the merchant received the event of its failure.
    pub failed_reported: bool,
    /// Whether the provider lists a dispute's withdrawal under this id: then it moved no money.
    pub is_withdrawal: bool,
    /// Object of its movements. `None` before the first.
    pub(crate) object: Option<String>,
    pub(crate) booked: Booked,
    /// The order. `None` for a refund made elsewhere.
    pub ordered: Option<Box<Ordered>>,
}

/// An order of a refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// Idempotency key of the request.
    pub key: Option<IdempotencyKey>,
    /// Whether the request named no amount, and so meant all the refundable money.
    pub all: bool,
    /// The merchant's reason.
    pub reason: Option<String>,
    /// An operator's decision about an unknown outcome: whether it was made.
    pub settled: Option<bool>,
    /// Whether the provider may have the refund without having reported it.
    pub uncertain: bool,
    /// Time until which a request to make it may have been in flight.
    pub last_sent: Time,
    /// Time of the last claim for a call to the provider.
    pub claimed_at: Time,
    /// End of a task's claim. `None` if unclaimed.
    pub busy_until: Option<Time>,
    /// Time of the next call. `None` once it has ended, or after the schedule's last query.
    pub next_at: Option<Time>,
    /// Number of the schedule's turns so far.
    pub asked: u8,
}

impl Refund {
    /// A refund that is ordered here.
    pub(crate) fn ordered(
        id: RefundId,
        amount: Minor,
        origin: RefundOrigin,
        bucket: Bucket,
        ordered: Ordered,
        now: Time,
    ) -> Self {
        Self {
            origin,
            ordered: Some(Box::new(ordered)),
            ..Self::elsewhere(id, amount, bucket, now)
        }
    }

    /// A refund that was made at the provider.
    pub fn elsewhere(id: RefundId, amount: Minor, bucket: Bucket, now: Time) -> Self {
        Self {
            id,
            earlier_id: None,
            reference: None,
            amount,
            state: RefundState::Pending,
            origin: RefundOrigin::Provider,
            bucket,
            at: now,
            created_at: now,
            occurred_at: None,
            claim_url: None,
            detail: String::new(),
            out: Minor::ZERO,
            reported_out: Minor::ZERO,
            reversed: Minor::ZERO,
            succeeded_reported: false,
            reversed_reported: Minor::ZERO,
            failed_reported: false,
            is_withdrawal: false,
            object: None,
            booked: Booked::default(),
            ordered: None,
        }
    }

    /// The ids that find it.
    pub fn ids(&self) -> impl Iterator<Item = RefundId> {
        std::iter::once(self.id).chain(self.earlier_id)
    }

    /// Reason why it failed. `None` if it did not fail.
    pub fn failure(&self) -> Option<RefundFailure> {
        if self.state != RefundState::Failed {
            return None;
        }
        let settled = self.ordered.as_ref().and_then(|ordered| ordered.settled);
        Some(if self.reversed > Minor::ZERO {
            RefundFailure::CameBack
        } else if settled == Some(false) {
            RefundFailure::NotMade
        } else {
            RefundFailure::Refused
        })
    }

    /// Whether an order with the same idempotency key made it. The merchant, the reseller and operators each have
    /// their own keys.
    pub fn is_ordered_by(&self, origin: RefundOrigin, key: &IdempotencyKey) -> bool {
        let ordered = self.ordered.as_ref();
        self.origin == origin && ordered.is_some_and(|ordered| ordered.key.as_ref() == Some(key))
    }

    /// The merchant's reason.
    pub fn reason(&self) -> Option<&str> {
        self.ordered.as_ref()?.reason.as_deref()
    }

    /// The order of a pending refund. `None` for other refunds.
    pub(crate) fn pending_order(&self) -> Option<&Ordered> {
        let pending = self.state == RefundState::Pending;
        self.ordered.as_deref().filter(|_| pending)
    }

    /// Whether it was ordered here and is pending.
    pub fn is_order_pending(&self) -> bool {
        self.pending_order().is_some()
    }

    /// Whether the provider has nothing of it yet, so that the order is sent instead of queried.
    pub fn is_to_send(&self) -> bool {
        let unsent = |ordered: &Ordered| !ordered.uncertain && self.reference.is_none();
        self.pending_order().is_some_and(unsent)
    }

    /// Whether its money is or may be paid out.
    pub(crate) const fn counts(&self) -> bool {
        !matches!(self.state, RefundState::Failed)
    }

    /// Part that may still be paid out.
    pub fn committed(&self) -> Minor {
        if self.state == RefundState::Pending {
            self.amount.less(self.out)
        } else {
            Minor::ZERO
        }
    }

    /// Whether it is known only as part of the provider's sum.
    pub(crate) const fn is_of_sum(&self) -> bool {
        self.ordered.is_none() && self.reference.is_none()
    }

    /// Whether it failed without the provider ever having had it, as far as is known: then any report about it is
    /// new.
    pub(crate) fn never_was(&self) -> bool {
        let ordered = self.ordered.as_ref();
        let not_made = ordered.is_some_and(|ordered| ordered.settled == Some(false));
        self.state == RefundState::Failed
            && ordered.is_some()
            && (self.reference.is_none() || not_made)
    }

    /// Whether a provider's report is about it.
    pub(crate) fn is_told_by(&self, told: &ProviderRefund) -> bool {
        self.ordered.is_some() && told.order == Some(self.id)
            || self.reference.as_deref() == Some(told.id.as_str())
    }
}
