//! Delivery of one event to one endpoint.

use serde::{Deserialize, Serialize};

use super::schedule::ATTEMPTS;
use crate::event::EventType;
use crate::id::{DeliveryId, EndpointId, EventId, PaymentId};
use crate::time::Time;

/// Maximum stored length of a response's text, in bytes.
pub const MAX_RESPONSE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// It will be tried, or tried again.
    Pending,
    /// The receiver responded 2xx.
    Delivered,
    /// All attempts failed, or it was held back for too long.
    Exhausted,
    /// Its endpoint was deleted.
    Cancelled,
}

impl DeliveryStatus {
    pub const ALL: [Self; 4] = [
        Self::Pending,
        Self::Delivered,
        Self::Exhausted,
        Self::Cancelled,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A delivery with the log of its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub event: EventId,
    pub kind: EventType,
    pub endpoint: EndpointId,
    /// The payment of the event; zeros for `webhook.test`.
    pub payment: PaymentId,
    pub status: DeliveryStatus,
    pub created_at: Time,
    /// Time of the next attempt. `None` once it has ended.
    pub next_attempt_at: Option<Time>,
    /// Oldest first, at most [`ATTEMPTS`].
    pub attempts: Vec<DeliveryAttempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryAttempt {
    /// Time at which it started.
    pub at: Time,
    /// HTTP status. `None` without a response.
    pub status: Option<u16>,
    /// Milliseconds from the name lookup to the end of the response.
    pub duration_ms: u32,
    /// Reason for the failure. `None` for a success.
    pub error: Option<String>,
    /// Start of the response's body as text, at most [`MAX_RESPONSE`] bytes.
    pub response: Option<String>,
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// For the log.
    pub attempt: DeliveryAttempt,
    /// Number of earlier attempts at the time of the decision. It reveals a record that comes too late, after the
    /// end of its lease.
    pub after: usize,
    /// Whether the receiver has it.
    pub delivered: bool,
    /// Time of the next attempt, if one is needed.
    pub retry_at: Time,
}

/// Whether an attempt was added to a delivery's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptRecord {
    Taken,
    /// The delivery has ended, or another attempt was recorded: this one's lease had ended.
    Late,
}

impl Delivery {
    /// Adds an attempt to the log and updates the delivery's state. A cancelled delivery that arrived anyway
    /// becomes delivered.
    pub fn record(&mut self, tried: Tried) -> AttemptRecord {
        let over = matches!(
            self.status,
            DeliveryStatus::Delivered | DeliveryStatus::Exhausted
        );
        if over || self.attempts.len() != tried.after {
            return AttemptRecord::Late;
        }
        self.attempts.push(tried.attempt);
        if tried.delivered {
            self.end(DeliveryStatus::Delivered);
        } else if self.status == DeliveryStatus::Pending {
            if self.attempts.len() >= ATTEMPTS {
                self.end(DeliveryStatus::Exhausted);
            } else {
                self.next_attempt_at = Some(tried.retry_at);
            }
        }
        AttemptRecord::Taken
    }

    pub const fn end(&mut self, status: DeliveryStatus) {
        self.status = status;
        self.next_attempt_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn delivery() -> Delivery {
        Delivery {
            id: DeliveryId::from_bytes([1; 16]),
            event: EventId::from_bytes([2; 16]),
            kind: EventType::PaymentCompleted,
            endpoint: EndpointId::from_bytes([3; 16]),
            payment: PaymentId::from_bytes([4; 16]),
            status: DeliveryStatus::Pending,
            created_at: NOW,
            next_attempt_at: Some(NOW),
            attempts: vec![],
        }
    }

    fn tried(after: usize, delivered: bool) -> Tried {
        Tried {
            attempt: DeliveryAttempt {
                at: NOW,
                status: Some(if delivered { 200 } else { 500 }),
                duration_ms: 3,
                error: (!delivered).then(|| "the receiver answered 500".into()),
                response: None,
            },
            after,
            delivered,
            retry_at: Time::from_secs(1_800_000_000 + after as u64 + 1),
        }
    }

    #[test]
    fn statuses_read_back() {
        for status in DeliveryStatus::ALL {
            assert_eq!(DeliveryStatus::parse(status.as_str()), Some(status));
        }
    }

    #[test]
    fn eight_failures_exhaust_and_not_one_more_is_taken() {
        let mut delivery = delivery();
        for made in 0..8 {
            assert_eq!(delivery.status, DeliveryStatus::Pending);
            assert_eq!(delivery.record(tried(made, false)), AttemptRecord::Taken);
        }
        assert_eq!(delivery.status, DeliveryStatus::Exhausted);
        assert_eq!(delivery.next_attempt_at, None);
        assert_eq!(delivery.record(tried(8, true)), AttemptRecord::Late);
        assert_eq!(delivery.attempts.len(), 8);
    }

    #[test]
    fn two_records_of_one_attempt_count_once() {
        let mut delivery = delivery();
        assert_eq!(delivery.record(tried(0, false)), AttemptRecord::Taken);
        assert_eq!(delivery.record(tried(0, true)), AttemptRecord::Late);
        assert_eq!(delivery.attempts.len(), 1);
        assert_eq!(
            delivery.next_attempt_at,
            Some(Time::from_secs(1_800_000_001))
        );
    }

    #[test]
    fn a_cancelled_delivery_stays_so_unless_it_arrived() {
        let mut delivery = delivery();
        delivery.end(DeliveryStatus::Cancelled);
        assert_eq!(delivery.record(tried(0, false)), AttemptRecord::Taken);
        assert_eq!(delivery.status, DeliveryStatus::Cancelled);
        assert_eq!(delivery.next_attempt_at, None);
        assert_eq!(delivery.record(tried(1, true)), AttemptRecord::Taken);
        assert_eq!(delivery.status, DeliveryStatus::Delivered);
    }
}
