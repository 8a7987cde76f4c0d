//! What merchants are told (spec, "Events"; decisions, "Webhooks").

use serde::{Deserialize, Serialize};

use crate::id::{EventId, PaymentId};
use crate::payment::{Payment, Settlement, Status};
use crate::time::Time;

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the wire names say it")]
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
}

impl EventType {
    /// All of them.
    pub const ALL: [Self; 11] = [
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
    ];

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
    /// What happened.
    pub kind: EventType,
    /// The time given to the transaction.
    pub created_at: Time,
    /// Which payment.
    pub payment: PaymentId,
    /// The payment's status then.
    pub status: Status,
    /// Its settlement then.
    pub settlement: Settlement,
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
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::attempt::Choice;
    use crate::id::{AccountId, AttemptId, Digest, MerchantId, Slot};
    use crate::key::Environment;
    use crate::ledger::{Act, Ledger, Step, Via};
    use crate::method::MethodId;
    use crate::money::{Currency, Minor, Money};
    use crate::order::{IdempotencyKey, OrderId};
    use crate::payment::{CheckoutMode, NewPayment, Origin, Request};
    use crate::provider::{Payer, Report, VendorSettlement, VendorStatus};
    use crate::secret::Secret;

    const NOW: Time = Time::from_secs(1_800_000_000);
    const DUE: Minor = Minor(4990);
    const ATTEMPT: AttemptId = AttemptId::from_bytes([2; 16]);

    fn ledger() -> Ledger {
        let new = NewPayment {
            id: PaymentId::from_bytes([1; 16]),
            request: Request {
                merchant: MerchantId(1),
                origin: Origin::Merchant {
                    idempotency_key: IdempotencyKey::parse("key-1-key-1-key-1").unwrap(),
                },
                environment: Environment::Test,
                order_id: OrderId::parse("order-1").unwrap(),
                due: Money {
                    amount: DUE,
                    currency: Currency::EUR,
                },
                mode: CheckoutMode::Hosted,
                method: None,
                email: None,
                return_url: None,
            },
            usd: Minor(5350),
            token: Secret::new("token"),
            expires_at: NOW,
            risk_review: false,
            decision: None,
        };
        Ledger::new(Payment::new(new, None, NOW.before(Duration::from_secs(60))))
    }

    fn opens() -> Step {
        open(ATTEMPT)
    }

    fn again() -> Step {
        open(AttemptId::from_bytes([3; 16]))
    }

    fn open(attempt: AttemptId) -> Step {
        Step::Open(Box::new(Choice {
            attempt,
            return_token: Secret::new("token"),
            account: AccountId::parse("sandbox-test").unwrap(),
            slot: Slot::parse("provider.sandbox").unwrap(),
            digest: Digest::of(b"module"),
            method: MethodId::Ideal,
            expires_at: NOW,
            busy_until: NOW,
            payer: Payer::default(),
            decision: None,
        }))
    }

    fn news(status: VendorStatus, settlement: VendorSettlement, returned: Minor) -> Step {
        let paid = status == VendorStatus::Completed;
        Step::News {
            attempt: ATTEMPT,
            report: Report {
                reference: "ref".into(),
                status,
                settlement,
                received: if paid { DUE } else { Minor(0) },
                currency: "EUR".into(),
                returned,
                detail: String::new(),
            },
            via: Via::Callback,
        }
    }

    fn says(status: VendorStatus) -> Step {
        news(status, VendorSettlement::Pending, Minor(0))
    }

    fn confirms() -> Step {
        news(
            VendorStatus::Completed,
            VendorSettlement::Confirmed,
            Minor(0),
        )
    }

    fn gives_back() -> Step {
        news(
            VendorStatus::Completed,
            VendorSettlement::Confirmed,
            Minor(100),
        )
    }

    /// Does steps one minute before a payment expires, and one minute later where its time has to have
    /// passed; says where the payment stands and what was told of it.
    fn told_of(steps: Vec<Step>) -> (&'static str, Vec<&'static str>) {
        let mut ledger = ledger();
        let mut told = Vec::new();
        for step in steps {
            let early = NOW.before(Duration::from_secs(60));
            let at = match step {
                Step::Act(Act::Expire) => NOW,
                _ => early,
            };
            let (_, change) = ledger.step(step, at).unwrap();
            told.extend(change.events.iter().map(|(event, ..)| event.as_str()));
        }
        (ledger.payment.status.as_str(), told)
    }

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
    fn what_becomes_of_a_payment_is_told_by_these_events_and_no_others() {
        let pending = "payment.pending";
        let rows: [(&str, Vec<Step>, &str, &[&str]); 14] = [
            ("opened", vec![opens()], "pending", &[pending]),
            (
                "back to created",
                vec![opens(), says(VendorStatus::Declined)],
                "created",
                &[pending],
            ),
            (
                "opened again",
                vec![opens(), says(VendorStatus::Expired), again()],
                "pending",
                &[pending, pending],
            ),
            (
                "approved by the payer",
                vec![opens(), says(VendorStatus::Processing)],
                "processing",
                &[pending, "payment.processing"],
            ),
            (
                "to be verified",
                vec![opens(), says(VendorStatus::VerificationPending)],
                "verification_pending",
                &[pending, "payment.verification_pending"],
            ),
            (
                "looked at",
                vec![opens(), says(VendorStatus::Review)],
                "review",
                &[pending, "payment.review"],
            ),
            (
                "paid",
                vec![opens(), says(VendorStatus::Completed)],
                "completed",
                &[pending],
            ),
            (
                "paid for certain",
                vec![opens(), confirms()],
                "completed",
                &[pending, "payment.completed"],
            ),
            (
                "paid, and certain later",
                vec![
                    opens(),
                    says(VendorStatus::Completed),
                    confirms(),
                    confirms(),
                ],
                "completed",
                &[pending, "payment.completed"],
            ),
            (
                "failed",
                vec![opens(), says(VendorStatus::Failed)],
                "failed",
                &[pending, "payment.failed"],
            ),
            (
                "called off",
                vec![Step::Act(Act::Cancel)],
                "cancelled",
                &["payment.cancelled"],
            ),
            (
                "too late",
                vec![Step::Act(Act::Expire)],
                "expired",
                &["payment.expired"],
            ),
            (
                "given back",
                vec![opens(), confirms(), gives_back(), gives_back()],
                "completed",
                &[pending, "payment.completed", "payment.refunded"],
            ),
            (
                "disputed",
                vec![opens(), confirms(), says(VendorStatus::Review)],
                "completed",
                &[pending, "payment.completed", "payment.disputed"],
            ),
        ];
        for (what, steps, status, events) in rows {
            assert_eq!(told_of(steps), (status, events.to_vec()), "{what}");
        }
    }

    #[test]
    fn every_event_reads_back() {
        for event in EventType::ALL {
            assert_eq!(EventType::parse(event.as_str()), Some(event));
        }
    }
}
