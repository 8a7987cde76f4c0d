//! Stripe's objects. Reading is strict: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::Money;
use kassette_plugin::provider::call::Answer;

use crate::charge::{self, Charge};

/// Where the attempt's id stands in `metadata`, besides `client_reference_id`: a `PaymentIntent`
/// and its charge have only that.
pub(crate) const ATTEMPT: &str = "attempt";

/// `checkout.session.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    Complete,
    Expired,
}

/// `payment_intent.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    Processing,
    RequiresCapture,
    Canceled,
    Succeeded,
}

/// A Checkout Session with its payment expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Our attempt; none where the session is not one of ours.
    pub(crate) attempt: Option<String>,
    pub(crate) live: bool,
    pub(crate) stage: Stage,
    /// What the payer is asked for.
    pub(crate) due: Money,
    /// Stripe's page, while the session is open.
    pub(crate) url: Option<String>,
    /// Seconds since 1970.
    pub(crate) expires_at: u64,
    /// None until the payer tries to pay.
    pub(crate) payment: Option<Payment>,
}

/// A `PaymentIntent` with its latest charge and its review expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) phase: Phase,
    /// What a capture would take.
    pub(crate) capturable: u64,
    pub(crate) received: Money,
    /// Why the last try failed.
    pub(crate) failed: Option<String>,
    /// Why it was canceled.
    pub(crate) canceled: Option<String>,
    /// Radar wanted a person to look at it in Stripe's dashboard.
    pub(crate) review: Option<Review>,
    /// The newest try's.
    pub(crate) charge: Option<Charge>,
}

/// What Radar wants a person to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Review {
    /// No person has looked yet.
    pub(crate) open: bool,
    /// The person who looked found nothing wrong.
    pub(crate) approved: bool,
    /// Why it is open, or how it was closed: "rule", "approved".
    pub(crate) reason: Option<String>,
}

impl Phase {
    /// Stripe's own word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresAction => "requires_action",
            Self::Processing => "processing",
            Self::RequiresCapture => "requires_capture",
            Self::Canceled => "canceled",
            Self::Succeeded => "succeeded",
        }
    }
}

impl Stage {
    /// Stripe's own word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Complete => "complete",
            Self::Expired => "expired",
        }
    }
}

/// A refusal in the vendor's words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// `error.type`
    pub(crate) kind: String,
    /// `error.code`, empty where there is none.
    pub(crate) code: String,
    /// The parameter that it is about, empty where there is none.
    pub(crate) param: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        for word in [&self.kind, &self.code, &self.param] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

/// Reads a session; none where anything in it is not as documented, or its payment is not expanded.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    session_of(&Json::parse(body)?)
}

/// Reads a `PaymentIntent`, as a change of it is answered.
pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    payment_of(&Json::parse(body)?)
}

/// The id of a session, and the attempt that it belongs to where it names one.
type Entry = (String, Option<String>);

/// A page of a list of sessions, and whether there are more.
pub(crate) fn listed(body: &[u8]) -> Option<(Vec<Entry>, bool)> {
    let list = Json::parse(body)?;
    let (items, more) = list_of(&list)?;
    let entry = |item: &Json| {
        Some((
            text(item, "id")?,
            text(item, "client_reference_id").filter(|id| !id.is_empty()),
        ))
    };
    Some((items.iter().map(entry).collect::<Option<_>>()?, more))
}

/// Whether an object is of the live environment.
pub(crate) fn is_live(body: &[u8]) -> Option<bool> {
    Json::parse(body)?.get("livemode")?.flag()
}

/// The attempt in an object's `metadata`.
pub(crate) fn attempt_in_metadata(object: &Json) -> Option<String> {
    let attempt = object.path(&["metadata", ATTEMPT])?.text()?;
    Some(attempt.to_owned())
}

/// Whether a text has the form of the host's ids: 32 hexadecimal characters.
pub(crate) fn is_ours(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(plain)
}

/// Reads a refusal; its words are empty where there are none.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let error = body.get("error").unwrap_or(&Json::Null);
    let word = |name| code(error, name).unwrap_or_default();
    Problem {
        status: answer.status,
        kind: word("type"),
        code: word("code"),
        param: word("param"),
    }
}

fn session_of(value: &Json) -> Option<Session> {
    is(value, "checkout.session")?;
    let currency = currency(value)?;
    Some(Session {
        id: text(value, "id")?,
        attempt: text(value, "client_reference_id"),
        live: value.get("livemode")?.flag()?,
        stage: match value.get("status")?.text()? {
            "open" => Stage::Open,
            "complete" => Stage::Complete,
            "expired" => Stage::Expired,
            _ => return None,
        },
        due: Money {
            amount: value.get("amount_total")?.whole()?,
            currency,
        },
        url: text(value, "url"),
        expires_at: value.get("expires_at")?.whole()?,
        payment: match value.get("payment_intent")? {
            Json::Null => None,
            payment => Some(payment_of(payment)?),
        },
    })
}

fn payment_of(value: &Json) -> Option<Payment> {
    is(value, "payment_intent")?;
    let currency = currency(value)?;
    Some(Payment {
        id: text(value, "id")?,
        phase: match value.get("status")?.text()? {
            "requires_payment_method" => Phase::RequiresPaymentMethod,
            "requires_confirmation" => Phase::RequiresConfirmation,
            "requires_action" => Phase::RequiresAction,
            "processing" => Phase::Processing,
            "requires_capture" => Phase::RequiresCapture,
            "canceled" => Phase::Canceled,
            "succeeded" => Phase::Succeeded,
            _ => return None,
        },
        capturable: value.get("amount_capturable")?.whole()?,
        received: Money {
            amount: value.get("amount_received")?.whole()?,
            currency,
        },
        failed: match value.get("last_payment_error") {
            None | Some(Json::Null) => None,
            Some(error) => Some(failure(error)),
        },
        canceled: code(value, "cancellation_reason"),
        review: match value.get("review") {
            None | Some(Json::Null) => None,
            Some(review) => Some(review_of(review)?),
        },
        charge: match value.get("latest_charge")? {
            Json::Null => None,
            charge => Some(charge::charge(charge)?),
        },
    })
}

fn review_of(value: &Json) -> Option<Review> {
    is(value, "review")?;
    Some(Review {
        open: value.get("open")?.flag()?,
        approved: matches!(
            text(value, "closed_reason").as_deref(),
            Some("approved" | "acknowledged")
        ),
        reason: code(value, "reason"),
    })
}

/// The words for a failed try: "card_declined insufficient_funds".
fn failure(error: &Json) -> String {
    let words = ["code", "decline_code"].map(|name| code(error, name).unwrap_or_default());
    words.join(" ").trim().to_owned()
}

pub(crate) fn list_of(value: &Json) -> Option<(&[Json], bool)> {
    is(value, "list")?;
    match value.get("data")? {
        Json::List(items) => Some((items, value.get("has_more")?.flag()?)),
        _ => None,
    }
}

pub(crate) fn is(value: &Json, object: &str) -> Option<()> {
    (value.get("object")?.text()? == object).then_some(())
}

/// Stripe writes currencies in lower case.
pub(crate) fn currency(value: &Json) -> Option<String> {
    let code = value.get("currency")?.text()?;
    let plain = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_lowercase());
    plain.then(|| code.to_ascii_uppercase())
}

/// A time, in milliseconds; Stripe writes seconds.
pub(crate) fn seconds(value: &Json, name: &str) -> Option<u64> {
    value.get(name)?.whole()?.checked_mul(1_000)
}

/// Longest code that a report takes, in bytes.
const MOST_CODE: usize = 64;

/// A word of Stripe's for a reason; none that is longer than a report takes.
pub(crate) fn code(value: &Json, name: &str) -> Option<String> {
    text(value, name).filter(|code| code.len() <= MOST_CODE)
}

pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A session as Stripe would tell it before the payer has paid.
    pub(crate) fn told(status: &str) -> Value {
        json!({
            "id": "cs_test_1", "object": "checkout.session", "livemode": false,
            "client_reference_id": "attempt-1", "metadata": { "attempt": "attempt-1" },
            "amount_total": 4990, "currency": "eur", "status": status, "payment_status": "unpaid",
            "url": if status == "open" { json!("https://checkout.stripe.com/c/pay/cs_test_1") } else { Value::Null },
            "expires_at": 1_800_003_600, "payment_intent": null,
        })
    }

    /// The same with a payment in that state, nothing received.
    pub(crate) fn paying(status: &str, payment: &str) -> Value {
        let mut session = told(status);
        session["payment_intent"] = json!({
            "id": "pi_1", "object": "payment_intent", "status": payment, "amount": 4990,
            "currency": "eur", "amount_received": 0, "amount_capturable": 0,
            "last_payment_error": null, "review": null, "latest_charge": null,
            "metadata": { "attempt": "attempt-1" },
        });
        session
    }

    /// The same, paid.
    pub(crate) fn paid() -> Value {
        let mut session = paying("complete", "succeeded");
        let payment = &mut session["payment_intent"];
        payment["amount_received"] = json!(4990);
        payment["latest_charge"] = charge(4990);
        session
    }

    /// The same with its payment held by the payer's bank until it is captured.
    pub(crate) fn authorised() -> Value {
        let mut session = paying("complete", "requires_capture");
        session["payment_intent"]["amount_capturable"] = json!(4990);
        session["payment_intent"]["latest_charge"] = charge(0);
        session
    }

    fn charge(captured: u64) -> Value {
        json!({
            "id": "ch_1", "object": "charge", "amount": 4990, "amount_captured": captured,
            "amount_refunded": 0, "disputed": false, "created": 1_800_000_000,
            "refunds": { "object": "list", "data": [], "has_more": false },
        })
    }

    pub(crate) fn read(value: &Value) -> Option<Session> {
        session(value.to_string().as_bytes())
    }

    #[test]
    fn a_paid_session_is_read_with_what_was_received() {
        let session = read(&paid()).unwrap();
        assert_eq!(session.attempt.as_deref(), Some("attempt-1"));
        let payment = session.payment.unwrap();
        assert_eq!(payment.phase, Phase::Succeeded);
        assert_eq!(
            (payment.received.amount, payment.received.currency.as_str()),
            (4990, "EUR")
        );
    }

    #[test]
    fn an_answer_that_lacks_anything_is_no_answer() {
        assert!(session(b"{").is_none());
        for field in [
            "id",
            "object",
            "livemode",
            "status",
            "amount_total",
            "currency",
            "expires_at",
            "payment_intent",
        ] {
            let mut told = paid();
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        for field in [
            "id",
            "status",
            "currency",
            "amount_received",
            "amount_capturable",
            "latest_charge",
        ] {
            let mut told = paid();
            told["payment_intent"]
                .as_object_mut()
                .unwrap()
                .remove(field);
            assert_eq!(read(&told), None, "payment_intent.{field}");
        }
    }

    #[test]
    fn what_is_not_expanded_is_not_guessed() {
        let mut session = paid();
        session["payment_intent"]["latest_charge"] = json!("ch_1");
        assert_eq!(read(&session), None);
        let mut session = paid();
        session["payment_intent"]["review"] = json!("prv_1");
        assert_eq!(read(&session), None);
        let mut session = paid();
        session["payment_intent"] = json!("pi_1");
        assert_eq!(read(&session), None);
    }

    #[test]
    fn a_state_that_is_not_documented_is_not_guessed() {
        assert_eq!(read(&told("paused")), None);
        assert_eq!(read(&paying("complete", "settled")), None);
    }

    #[test]
    fn a_refusal_is_told_with_the_vendors_words() {
        let answer = Answer {
            status: 400,
            headers: Vec::new(),
            body: br#"{"error":{"type":"invalid_request_error","code":"amount_too_small","param":"line_items"}}"#
                .to_vec(),
        };
        assert_eq!(
            problem(&answer).to_string(),
            "status 400 invalid_request_error amount_too_small line_items"
        );
    }
}
