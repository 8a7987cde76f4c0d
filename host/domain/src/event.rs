//! What merchants are told (spec, "Events"; decisions, "Webhooks").

use serde::{Deserialize, Serialize};

use crate::decline::DeclineCode;
use crate::id::{EventId, PaymentId, RefundId};
use crate::money::Minor;
use crate::payment::{Payment, Settlement, Status};
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
}

impl EventType {
    pub const ALL: [Self; 12] = [
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
        Self::PaymentAttemptFailed,
    ];

    /// Those that an endpoint hears of which names none.
    pub const BY_DEFAULT: &'static [Self] = Self::ALL.split_at(11).0;

    /// Whether an endpoint that names no types hears of it.
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
        }
    }

    /// Reads a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }

    /// The event of a transition into `status`; none for `created` (an attempt that leads back
    /// emits nothing) and for `completed`, which is told once `confirmed` holds too.
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

/// An event row, written in the transaction of the change that causes it. The payment's fields are
/// frozen here so that the body can be made at any time and is always the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its id, the same for every receiver.
    pub id: EventId,
    pub kind: EventType,
    /// The time given to the transaction.
    pub created_at: Time,
    pub payment: PaymentId,
    /// The payment's status then.
    pub status: Status,
    /// Its settlement then.
    pub settlement: Settlement,
    /// The refund that [`EventType::PaymentRefunded`] tells of; none in rows from before refunds had ids.
    pub refund: Option<GivenBack>,
    /// Why the attempt ended that [`EventType::PaymentAttemptFailed`] tells of.
    pub decline: Option<DeclineCode>,
}

/// A refund that succeeded, as an event tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    pub refund: RefundId,
    /// Minor units of the currency received.
    pub amount: Minor,
}

impl Event {
    /// An event about a payment as it stands.
    pub fn about(payment: &Payment, id: EventId, kind: EventType, created_at: Time) -> Self {
        Self {
            id,
            kind,
            created_at,
            payment: payment.id,
            status: payment.status,
            settlement: payment.settlement,
            refund: None,
            decline: None,
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
