//! The bytes that receivers get, and their signature.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Serialize, Serializer};
use sha2::Sha256;

use crate::event::{Event, EventSubject, EventType};
use crate::extras::Metadata;
use crate::id::{EventId, MerchantId, PaymentId};
use crate::key::Environment;
use crate::money::{Currency, Minor, Money};
use crate::order::ClientRef;
use crate::payment::{Payment, Settlement, Status};
use crate::provider::Encoding;
use crate::secret::Secret;
use crate::time::Time;

/// Prefix of a signature.
pub const SIGNATURE_VERSION: &str = "v1=";

/// Signs a body: HMAC-SHA256 over timestamp, event and body, keyed with the bytes of the whole shown secret.
///
/// `timestamp` is in Unix seconds. Returns the header's value: `v1=` and 64 hexadecimal characters.
pub fn sign(secret: &Secret, timestamp: u64, event: EventId, body: &[u8]) -> String {
    // HMAC accepts keys of any length, so this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{timestamp}.{event}.").as_bytes());
    mac.update(body);
    format!(
        "{SIGNATURE_VERSION}{}",
        hex::encode(mac.finalize().into_bytes())
    )
}

/// Value of `webhook-signature` for the libraries of Standard Webhooks: a signature with each secret, separated by
/// spaces.
pub fn sign_standard<'a>(
    secrets: impl Iterator<Item = &'a Secret>,
    timestamp: u64,
    event: EventId,
    body: &[u8],
) -> String {
    let event = event.to_string();
    let signatures = secrets.filter_map(|secret| standard(secret, timestamp, &event, body));
    signatures.collect::<Vec<_>>().join(" ")
}

/// `v1,` and the base64 of HMAC-SHA256 over id, timestamp and body, keyed with the base64-decoded text after
/// `whsec_`. `None` if that text is not base64.
fn standard(secret: &Secret, timestamp: u64, id: &str, body: &[u8]) -> Option<String> {
    let key = Encoding::Base64.key(secret)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
    Some(format!("v1,{signature}"))
}

/// An event with all data of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The event's id.
    pub id: EventId,
    pub kind: EventType,
    /// Time of the event.
    pub created_at: Time,
    pub payment: PaymentId,
    pub order_id: &'a str,
    /// The payment's status at that time.
    pub status: Status,
    /// Its settlement at that time.
    pub settlement: Settlement,
    /// Invoice amount.
    pub due: Money,
    /// Invoice amount in US cents.
    pub usd: Minor,
    pub environment: Environment,
    /// Subject in addition to the payment.
    pub subject: Option<&'a EventSubject>,
    /// Amount and currency that an operator accepted instead of the invoice's.
    pub short: Option<&'a (Minor, String)>,
    pub additions: Additions<'a>,
}

/// Fields that are added to an event's stored body when it is sent: the merchant's notes can be erased, and a reseller
/// gets more fields than the merchant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Additions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<&'a Metadata>,
    /// The reseller's reference. Only for the reseller that created the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ref: Option<&'a ClientRef>,
    /// Likewise: the payment's merchant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merchant_id: Option<MerchantId>,
}

impl Additions<'_> {
    /// Adds these fields to a body that [`Message::body`] returned without them.
    pub fn add_to(&self, body: String) -> String {
        // Text and numbers in memory: serialization cannot fail.
        let additions = serde_json::to_string(self).unwrap_or_default();
        let (Some(fields), Some(head)) = (additions.strip_prefix('{'), body.strip_suffix("}}"))
        else {
            return body;
        };
        match fields {
            "}" => body,
            fields => format!("{head},{fields}}}"),
        }
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    id: String,
    r#type: &'static str,
    created_at: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    payment_id: String,
    order_id: &'a str,
    status: &'static str,
    amount: String,
    currency: &'static str,
    usd_amount: String,
    settlement_status: &'static str,
    test_mode: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    short: Option<Short<'a>>,
    #[serde(flatten)]
    subject: Option<Subject<'a>>,
    #[serde(flatten)]
    additions: Additions<'a>,
}

#[derive(Serialize)]
struct Short<'a> {
    amount: String,
    currency: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Subject<'a> {
    Decline {
        decline_code: &'static str,
    },
    Refund {
        refund_id: String,
        refund_amount: String,
        refund_currency: &'a str,
        origin: &'static str,
        reversed_amount: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        late: Option<bool>,
    },
    Dispute {
        dispute_id: &'a str,
        kind: &'static str,
        dispute_amount: String,
        dispute_currency: &'a str,
        reason: Option<&'a str>,
        respond_by: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'static str>,
    },
    CaptureReversed {
        reversed_amount: String,
        reversed_currency: &'a str,
    },
    EndpointDisabled {
        endpoint_id: String,
    },
}

impl<'a> Subject<'a> {
    fn new(subject: &'a EventSubject) -> Self {
        match subject {
            EventSubject::Decline(code) => Self::Decline {
                decline_code: code.as_str(),
            },
            EventSubject::Refund(refund) => Self::Refund {
                refund_id: refund.refund.to_string(),
                refund_amount: refund.amount.to_string(),
                refund_currency: &refund.currency,
                origin: refund.origin.as_str(),
                reversed_amount: refund.reversed.to_string(),
                late: refund.late,
            },
            EventSubject::Dispute(dispute) => Self::Dispute {
                dispute_id: &dispute.id,
                kind: dispute.kind.as_str(),
                dispute_amount: dispute.amount.to_string(),
                dispute_currency: &dispute.currency,
                reason: dispute.reason.as_deref(),
                respond_by: dispute.respond_by.map(|at| at.rfc3339()),
                outcome: dispute.outcome.map(|outcome| outcome.as_str()),
            },
            EventSubject::CaptureReversed(amount, currency) => Self::CaptureReversed {
                reversed_amount: amount.to_string(),
                reversed_currency: currency,
            },
            EventSubject::EndpointDisabled(endpoint) => Self::EndpointDisabled {
                endpoint_id: endpoint.to_string(),
            },
        }
    }
}

impl<'a> Message<'a> {
    /// Message of a payment's event. Status and settlement come from the event; all other data never changes.
    pub fn about(event: &'a Event, payment: &'a Payment) -> Self {
        Self {
            id: event.id,
            kind: event.kind,
            created_at: event.created_at,
            payment: payment.id,
            order_id: payment.order_id.as_str(),
            status: event.status,
            settlement: event.settlement,
            due: payment.due,
            usd: payment.usd,
            environment: payment.environment,
            subject: event.subject.as_deref(),
            short: event.short.as_ref(),
            additions: Additions::default(),
        }
    }

    /// A connectivity test with complete data of a payment that does not exist (decisions, "webhook.test").
    pub const fn test(id: EventId, now: Time) -> Message<'static> {
        let one = Minor(100);
        Message {
            id,
            kind: EventType::WebhookTest,
            created_at: now,
            payment: PaymentId::from_bytes([0; 16]),
            order_id: "webhook-test",
            status: Status::Created,
            settlement: Settlement::Pending,
            due: Money {
                amount: one,
                currency: Currency::USD,
            },
            usd: one,
            environment: Environment::Test,
            subject: None,
            short: None,
            additions: Additions {
                metadata: None,
                client_ref: None,
                merchant_id: None,
            },
        }
    }

    /// Message to the owner's other endpoints about a disabled one: the data of a test event, and `subject`.
    pub const fn disabled(
        id: EventId,
        subject: &'a EventSubject,
        environment: Environment,
        now: Time,
    ) -> Self {
        Message {
            kind: EventType::WebhookDisabled,
            environment,
            subject: Some(subject),
            ..Message::test(id, now)
        }
    }

    /// The body, the same for every delivery of the event.
    pub fn body(&self) -> String {
        // Text and booleans in memory: serialization cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn envelope(&self) -> Envelope<'_> {
        Envelope {
            id: self.id.to_string(),
            r#type: self.kind.as_str(),
            created_at: self.created_at.rfc3339(),
            data: Data {
                payment_id: self.payment.to_string(),
                order_id: self.order_id,
                status: self.status.as_str(),
                amount: self.due.amount.to_string(),
                currency: self.due.currency.code(),
                usd_amount: self.usd.to_string(),
                settlement_status: self.settlement.as_str(),
                test_mode: self.environment == Environment::Test,
                short: self.short.map(|(amount, currency)| Short {
                    amount: amount.to_string(),
                    currency,
                }),
                subject: self.subject.map(Subject::new),
                additions: self.additions,
            },
        }
    }
}

/// Serializes the body that receivers get.
impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.envelope().serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decline::DeclineCode;
    use crate::event::{DisputeEvent, RefundEvent};
    use crate::id::RefundId;
    use crate::provider::{DisputeKind, DisputeState};
    use crate::refund::RefundOrigin;
    use proptest::prelude::*;

    const NOW: Time = Time::from_millis(1_795_253_400_123);

    #[test]
    fn the_body_is_the_spec_s_envelope() {
        let body = Message::test(EventId::from_bytes([0xab; 16]), NOW).body();
        let expected = concat!(
            r#"{"id":"abababababababababababababababab","type":"webhook.test","#,
            r#""created_at":"2026-11-21T09:30:00.123Z","data":{"#,
            r#""payment_id":"00000000000000000000000000000000","order_id":"webhook-test","#,
            r#""status":"created","amount":"1.00","currency":"USD","usd_amount":"1.00","#,
            r#""settlement_status":"pending","test_mode":true}}"#,
        );
        assert_eq!(body, expected);
    }

    #[test]
    fn what_is_added_to_a_stored_body_is_what_the_whole_message_shows() {
        let id = EventId::from_bytes([0xab; 16]);
        let stored = Message::test(id, NOW).body();
        assert_eq!(Additions::default().add_to(stored.clone()), stored);
        let mut metadata = Metadata::default();
        metadata.add("cart".into(), "\"}}{\u{7}".into()).unwrap();
        let client_ref = ClientRef::parse("order-1042").unwrap();
        let refund = EventSubject::CaptureReversed(Minor(100), "EUR".into());
        for subject in [None, Some(&refund)] {
            let message = Message {
                subject,
                ..Message::test(id, NOW)
            };
            let additions = Additions {
                metadata: Some(&metadata),
                client_ref: Some(&client_ref),
                merchant_id: Some(MerchantId(7)),
            };
            let whole = Message {
                additions,
                ..message.clone()
            };
            assert_eq!(additions.add_to(message.body()), whole.body());
            let sent: serde_json::Value = serde_json::from_str(&whole.body()).unwrap();
            assert_eq!(sent["data"]["metadata"]["cart"], "\"}}{\u{7}");
            assert_eq!(sent["data"]["client_ref"], "order-1042");
            assert_eq!(sent["data"]["merchant_id"], 7);
        }
    }

    #[test]
    fn a_refund_is_told_with_its_id_and_amount() {
        let refund = EventSubject::Refund(RefundEvent {
            refund: RefundId::from_bytes([0xcd; 16]),
            amount: Minor(250),
            currency: "EUR".into(),
            origin: RefundOrigin::Merchant,
            reversed: Minor::ZERO,
            late: None,
        });
        let message = Message {
            subject: Some(&refund),
            ..Message::test(EventId::from_bytes([1; 16]), NOW)
        };
        let read: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
        assert_eq!(read["data"]["refund_id"], "cd".repeat(16));
        assert_eq!(read["data"]["refund_amount"], "2.50");
        assert_eq!(read["data"]["refund_currency"], "EUR");
        assert_eq!(read["data"]["origin"], "merchant");
        assert_eq!(read["data"]["reversed_amount"], "0.00");
        assert_eq!(read["data"].get("late"), None);
    }

    #[test]
    fn a_dispute_is_reported_with_its_kind_deadline_and_outcome() {
        let dispute = EventSubject::Dispute(DisputeEvent {
            id: "du_1".into(),
            kind: DisputeKind::Inquiry,
            amount: Minor(3000),
            currency: "EUR".into(),
            reason: None,
            respond_by: Some(NOW),
            outcome: Some(DisputeState::Lost),
        });
        let message = Message {
            subject: Some(&dispute),
            ..Message::test(EventId::from_bytes([1; 16]), NOW)
        };
        let read: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
        let data = &read["data"];
        assert_eq!(data["dispute_id"], "du_1");
        assert_eq!(data["kind"], "inquiry");
        assert_eq!(data["dispute_amount"], "30.00");
        assert_eq!(data["respond_by"], "2026-11-21T09:30:00.123Z");
        assert_eq!(data["outcome"], "lost");
        assert!(data["reason"].is_null());
    }

    #[test]
    fn a_failed_attempt_is_told_with_its_reason() {
        let message = Message {
            subject: Some(&EventSubject::Decline(DeclineCode::InsufficientFunds)),
            ..Message::test(EventId::from_bytes([1; 16]), NOW)
        };
        let read: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
        assert_eq!(read["data"]["decline_code"], "insufficient_funds");
    }

    #[test]
    fn a_signature_is_the_one_that_any_other_program_computes() {
        // printf '%s' '1700000000.0101…01.{"a":1}' | openssl dgst -sha256 -hmac whsec_test
        let signature = sign(
            &Secret::new("whsec_test"),
            1_700_000_000,
            EventId::from_bytes([1; 16]),
            br#"{"a":1}"#,
        );
        assert_eq!(
            signature,
            "v1=2a31df598e5b9e5136b1a884d2aae5faa805b8b9fe406235dfacaad48684b34d"
        );
    }

    #[test]
    fn the_example_of_standard_webhooks_has_its_published_signature() {
        let signature = standard(
            &Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            1_614_265_330,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            br#"{"test": 2432232314}"#,
        );
        let published = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature.as_deref(), Some(published));
    }

    #[test]
    fn every_secret_signs_for_the_libraries_of_standard_webhooks() {
        let (old, new) = (Secret::new("whsec_b2xk"), Secret::new("whsec_bmV3"));
        let event = EventId::from_bytes([1; 16]);
        let sign = |secrets: &[&Secret]| sign_standard(secrets.iter().copied(), 1, event, b"{}");
        let (first, second) = (sign(&[&old]), sign(&[&new]));
        assert_ne!(first, second);
        assert_eq!(sign(&[&old, &new]), format!("{first} {second}"));
    }

    proptest! {
        #[test]
        fn an_order_of_any_text_stands_in_the_body_as_it_is(order in "\\PC{1,150}") {
            let message = Message { order_id: &order, ..Message::test(EventId::from_bytes([1; 16]), NOW) };
            let read: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
            prop_assert_eq!(read["data"]["order_id"].as_str(), Some(order.as_str()));
        }

        #[test]
        fn a_signature_covers_every_byte_the_time_and_the_event(
            body in prop::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
            seconds in 1_000_000_000_u64..9_999_999_999,
        ) {
            let (secret, event) = (Secret::new("whsec_x"), EventId::from_bytes([7; 16]));
            let signature = sign(&secret, seconds, event, &body);
            prop_assert_eq!(signature.len(), 67);
            let mut other = body.clone();
            other[at.index(body.len())] ^= 1 << bit;
            prop_assert_ne!(&sign(&secret, seconds, event, &other), &signature);
            prop_assert_ne!(&sign(&secret, seconds + 1, event, &body), &signature);
            let other = EventId::from_bytes([8; 16]);
            prop_assert_ne!(&sign(&secret, seconds, other, &body), &signature);
            prop_assert_ne!(&sign(&Secret::new("whsec_y"), seconds, event, &body), &signature);
        }
    }
}
