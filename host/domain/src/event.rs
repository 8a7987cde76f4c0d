//! Events for merchants (spec, "Events"; decisions, "Webhooks").

use serde::{Deserialize, Serialize};

use crate::decline::DeclineCode;
use crate::id::{EndpointId, EventId, PaymentId, RefundId};
use crate::money::Minor;
use crate::payment::{Payment, Settlement, Status};
use crate::provider::{DisputeKind, DisputeState};
use crate::refund::RefundOrigin;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventType {
    #[serde(rename = "payment.pending")]
    PaymentPending,
    #[serde(rename = "payment.processing")]
    PaymentProcessing,
    #[serde(rename = "payment.verification_pending")]
    PaymentVerificationPending,
    #[serde(rename = "payment.review")]
    PaymentReview,
    #[serde(rename = "payment.completed")]
    PaymentCompleted,
    #[serde(rename = "payment.failed")]
    PaymentFailed,
    #[serde(rename = "payment.cancelled")]
    PaymentCancelled,
    #[serde(rename = "payment.expired")]
    PaymentExpired,
    #[serde(rename = "payment.refunded")]
    PaymentRefunded,
    #[serde(rename = "payment.disputed")]
    PaymentDisputed,
    #[serde(rename = "webhook.test")]
    WebhookTest,
    #[serde(rename = "payment.attempt_failed")]
    PaymentAttemptFailed,
    #[serde(rename = "payment.refund_failed")]
    PaymentRefundFailed,
    #[serde(rename = "payment.dispute_closed")]
    PaymentDisputeClosed,
    #[serde(rename = "payment.capture_reversed")]
    PaymentCaptureReversed,
    #[serde(rename = "webhook.disabled")]
    WebhookDisabled,
}

impl EventType {
    pub const ALL: [Self; 16] = [
        Self::PaymentPending,
        Self::PaymentProcessing,
        Self::PaymentVerificationPending,
        Self::PaymentReview,
        Self::PaymentCompleted,
        Self::PaymentFailed,
        Self::PaymentCancelled,
        Self::PaymentExpired,
        Self::PaymentRefunded,
        Self::PaymentDisputed,
        Self::WebhookTest,
        Self::PaymentRefundFailed,
        Self::PaymentDisputeClosed,
        Self::PaymentCaptureReversed,
        Self::WebhookDisabled,
        Self::PaymentAttemptFailed,
    ];

    /// Types that an endpoint receives which names none.
    pub const BY_DEFAULT: &'static [Self] = Self::ALL.split_at(15).0;

    /// Whether endpoints receive it by default.
    pub const fn is_by_default(self) -> bool {
        !matches!(self, Self::PaymentAttemptFailed)
    }

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PaymentPending => "payment.pending",
            Self::PaymentProcessing => "payment.processing",
            Self::PaymentVerificationPending => "payment.verification_pending",
            Self::PaymentReview => "payment.review",
            Self::PaymentCompleted => "payment.completed",
            Self::PaymentFailed => "payment.failed",
            Self::PaymentCancelled => "payment.cancelled",
            Self::PaymentExpired => "payment.expired",
            Self::PaymentRefunded => "payment.refunded",
            Self::PaymentDisputed => "payment.disputed",
            Self::WebhookTest => "webhook.test",
            Self::PaymentAttemptFailed => "payment.attempt_failed",
            Self::PaymentRefundFailed => "payment.refund_failed",
            Self::PaymentDisputeClosed => "payment.dispute_closed",
            Self::PaymentCaptureReversed => "payment.capture_reversed",
            Self::WebhookDisabled => "webhook.disabled",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }

    /// The event of a transition into `status`. `None` for `created` (a failed attempt has its own event), and for
    /// `completed`, which is reported once the settlement is confirmed too.
    pub const fn of_transition(status: Status) -> Option<Self> {
        match status {
            Status::Created | Status::Completed => None,
            Status::Pending => Some(Self::PaymentPending),
            Status::Processing => Some(Self::PaymentProcessing),
            Status::VerificationPending => Some(Self::PaymentVerificationPending),
            Status::Review => Some(Self::PaymentReview),
            Status::Failed => Some(Self::PaymentFailed),
            Status::Cancelled => Some(Self::PaymentCancelled),
            Status::Expired => Some(Self::PaymentExpired),
        }
    }
}

/// A stored event, written in the transaction of the change that causes it. It freezes the payment's fields, so
/// that its body is the same at any time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its id, the same for every receiver.
    pub id: EventId,
    pub kind: EventType,
    /// Time of the transaction.
    pub created_at: Time,
    pub payment: PaymentId,
    /// The payment's status at that time.
    pub status: Status,
    /// Its settlement at that time.
    pub settlement: Settlement,
    /// Subject in addition to the payment. `None` for events that a status describes completely.
    pub subject: Option<Box<EventSubject>>,
    /// Amount and currency that an operator had accepted instead of the invoice's.
    pub short: Option<(Minor, String)>,
}

/// Subject of an event in addition to the payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventSubject {
    /// For [`EventType::PaymentAttemptFailed`]: why the attempt ended.
    Decline(DeclineCode),
    /// For [`EventType::PaymentRefunded`] and [`EventType::PaymentRefundFailed`].
    Refund(RefundEvent),
    /// For [`EventType::PaymentDisputed`] and [`EventType::PaymentDisputeClosed`].
    Dispute(DisputeEvent),
    /// For [`EventType::PaymentCaptureReversed`]: the current reversed total, and its currency's code.
    CaptureReversed(Minor, String),
    /// The endpoint of an [`EventType::WebhookDisabled`].
    EndpointDisabled(EndpointId),
}

/// A refund, as an event reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundEvent {
    pub refund: RefundId,
    /// Minor units of `currency`.
    pub amount: Minor,
    pub currency: String,
    pub origin: RefundOrigin,
    /// Part that came back, in minor units.
    pub reversed: Minor,
    /// Only for [`EventType::PaymentRefundFailed`]: whether its success had been reported.
    pub late: Option<bool>,
}

/// A dispute or inquiry, as an event reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeEvent {
    /// The provider's id.
    pub id: String,
    pub kind: DisputeKind,
    /// The disputed amount, in minor units of `currency`.
    pub amount: Minor,
    pub currency: String,
    /// The provider's code.
    pub reason: Option<String>,
    /// Deadline for a response.
    pub respond_by: Option<Time>,
    /// Only for [`EventType::PaymentDisputeClosed`]: won or lost.
    pub outcome: Option<DisputeState>,
}

impl Event {
    /// An event about a payment's current state.
    pub fn about(payment: &Payment, id: EventId, kind: EventType, created_at: Time) -> Self {
        Self {
            id,
            kind,
            created_at,
            payment: payment.id,
            status: payment.status,
            settlement: payment.settlement,
            subject: None,
            short: payment.short.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_that_a_payment_moves_to_is_told_by_the_event_of_its_name() {
        let told = Status::ALL.map(|status| {
            let event = EventType::of_transition(status);
            (status.as_str(), event.map(EventType::as_str))
        });
        let expected = [
            ("created", None),
            ("pending", Some("payment.pending")),
            ("processing", Some("payment.processing")),
            ("review", Some("payment.review")),
            ("verification_pending", Some("payment.verification_pending")),
            ("completed", None),
            ("failed", Some("payment.failed")),
            ("cancelled", Some("payment.cancelled")),
            ("expired", Some("payment.expired")),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn only_a_failed_attempt_is_told_to_those_alone_that_ask_for_it() {
        let by_default = EventType::ALL
            .into_iter()
            .filter(|kind| kind.is_by_default());
        assert!(by_default.eq(EventType::BY_DEFAULT.iter().copied()));
        assert_eq!(EventType::BY_DEFAULT.len() + 1, EventType::ALL.len());
        assert!(!EventType::PaymentAttemptFailed.is_by_default());
    }

    #[test]
    fn every_event_reads_back() {
        for event in EventType::ALL {
            assert_eq!(EventType::parse(event.as_str()), Some(event));
        }
    }
}
