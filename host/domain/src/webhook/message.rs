//! The bytes that receivers get, and the signature over exactly these.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Serialize, Serializer};
use sha2::Sha256;

use crate::decline::DeclineCode;
use crate::event::{Event, EventType, GivenBack};
use crate::id::{EventId, PaymentId};
use crate::key::Environment;
use crate::money::{Currency, Minor, Money};
use crate::payment::{Payment, Settlement, Status};
use crate::secret::Secret;
use crate::time::Time;

/// What a signature begins with.
pub const SIGNATURE_VERSION: &str = "v1=";

/// Signs a body: HMAC-SHA256, keyed with the bytes of the whole secret as it was shown, over
/// timestamp, event and body.
///
/// `timestamp` is in Unix seconds. The answer is the header's value: `v1=` and 64 hex characters.
pub fn sign(secret: &Secret, timestamp: u64, event: EventId, body: &[u8]) -> String {
    // HMAC takes keys of any length, so there is no error to meet.
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

/// What an event tells, with everything that its body shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The event's id.
    pub id: EventId,
    pub kind: EventType,
    /// When.
    pub created_at: Time,
    pub payment: PaymentId,
    pub order_id: &'a str,
    /// The payment's status then.
    pub status: Status,
    /// Its settlement then.
    pub settlement: Settlement,
    /// The invoice.
    pub due: Money,
    /// The invoice in US cents.
    pub usd: Minor,
    pub environment: Environment,
    /// The refund that it tells of.
    pub refund: Option<GivenBack>,
    /// Why the attempt ended that it tells of.
    pub decline: Option<DeclineCode>,
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
    refund_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_amount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_code: Option<&'static str>,
}

impl<'a> Message<'a> {
    /// An event of a payment. Beside status and settlement, which the event froze, nothing of what
    /// is told can change.
    pub fn of(event: &Event, payment: &'a Payment) -> Self {
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
            refund: event.refund,
            decline: event.decline,
        }
    }

    /// A connectivity test: full data of a payment that never is (decisions, "webhook.test").
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
            refund: None,
            decline: None,
        }
    }

    /// The body: frozen when the event is queued and sent as it is from then on.
    pub fn body(&self) -> String {
        // Text and booleans in memory: nothing here can fail.
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
                refund_id: self.refund.map(|given| given.refund.to_string()),
                refund_amount: self.refund.map(|given| given.amount.to_string()),
                decline_code: self.decline.map(DeclineCode::as_str),
            },
        }
    }
}

/// As the body that receivers get.
impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.envelope().serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RefundId;
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
    fn a_refund_is_told_with_its_id_and_amount() {
        let refund = GivenBack {
            refund: RefundId::from_bytes([0xcd; 16]),
            amount: Minor(250),
        };
        let message = Message {
            refund: Some(refund),
            ..Message::test(EventId::from_bytes([1; 16]), NOW)
        };
        let read: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
        assert_eq!(read["data"]["refund_id"], "cd".repeat(16));
        assert_eq!(read["data"]["refund_amount"], "2.50");
    }

    #[test]
    fn a_failed_attempt_is_told_with_its_reason() {
        let message = Message {
            decline: Some(DeclineCode::InsufficientFunds),
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
