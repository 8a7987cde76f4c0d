//! Parsing of Stripe's objects. Parsing is lenient: an undocumented value, a missing or null field, or a malformed
//! list entry does not hide the rest.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Environment, Money};

use crate::charge::{self, Charge};

/// Key of the attempt's id in `metadata`. A `PaymentIntent` and its charge contain it only there, a session also
/// in `client_reference_id`.
pub(crate) const ATTEMPT: &str = "attempt";

/// `checkout.session.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    Complete,
    Expired,
    /// An undocumented status.
    Unknown,
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
    /// An undocumented status.
    Unknown,
}

/// A Checkout Session with its payment expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Attempt id. `None` if the answer omits it, or the session belongs to other software.
    pub(crate) attempt: Option<String>,
    /// Whether it is a live session. `None` if the answer omits it.
    pub(crate) live: Option<bool>,
    pub(crate) stage: Stage,
    /// Amount due.
    pub(crate) due: Money,
    /// Stripe's page, while the session is open.
    pub(crate) url: Option<String>,
    /// Expiry in seconds since 1970. `None` if the answer omits it.
    pub(crate) expires_at: Option<u64>,
    /// `None` until the payer tries to pay.
    pub(crate) payment: Option<Payment>,
}

/// A `PaymentIntent` with its latest charge and its review expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) phase: Phase,
    /// Amount that can be captured, in minor units.
    pub(crate) capturable: u64,
    pub(crate) received: Money,
    /// Reason of the last failed attempt to pay.
    pub(crate) failed: Option<String>,
    /// Reason of the cancellation.
    pub(crate) canceled: Option<String>,
    /// The review that Radar requested in Stripe's dashboard.
    pub(crate) review: Option<Review>,
    /// The latest charge.
    pub(crate) charge: Option<Charge>,
    /// The card network's early fraud warning, if it was queried.
    pub(crate) fraud_warning: Option<String>,
    /// A sentence about each part that cannot be parsed.
    pub(crate) unreadable: Vec<String>,
}

/// A review requested by Radar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Review {
    /// Nobody has reviewed it yet.
    pub(crate) open: bool,
    /// The reviewer approved it.
    pub(crate) approved: bool,
    /// Why it is open, or how it was closed: "rule", "approved".
    pub(crate) reason: Option<String>,
}

impl Phase {
    /// Stripe's name of the status.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresAction => "requires_action",
            Self::Processing => "processing",
            Self::RequiresCapture => "requires_capture",
            Self::Canceled => "canceled",
            Self::Succeeded => "succeeded",
            Self::Unknown => "unknown",
        }
    }
}

impl Stage {
    /// Stripe's name of the status.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Complete => "complete",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

impl Session {
    /// Whether it belongs to the other environment.
    pub(crate) fn is_of_other_environment(&self, ours: Environment) -> bool {
        self.live
            .is_some_and(|live| live != (ours == Environment::Live))
    }
}

/// A refusal, in Stripe's terms.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// `error.type`
    pub(crate) kind: String,
    /// `error.code`, empty if missing.
    pub(crate) code: String,
    /// `error.param`: the parameter that it is about, empty if missing.
    pub(crate) param: String,
}

impl Problem {
    /// Whether the method or the currency is not activated for the account.
    pub(crate) fn is_about_method(&self) -> bool {
        matches!(
            self.code.as_str(),
            "payment_method_unactivated"
                | "payment_method_not_available"
                | "payment_method_unsupported_type"
                | "payment_method_currency_mismatch"
                | "invalid_currency"
        ) || self.param.starts_with("payment_method_types")
            || self.param.ends_with("currency]")
    }

    /// Whether Stripe refuses an optional field: the payer's e-mail address or a description.
    pub(crate) fn is_about_optional_field(&self) -> bool {
        self.code == "email_invalid"
            || self.param == "customer_email"
            || self.param.contains("description")
    }
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

/// Parses a session. `None` without an id or an amount, or if its payment is not expanded.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    session_of(&Json::parse(body)?)
}

/// Parses a `PaymentIntent`, as returned by a change of it.
pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    payment_of(&Json::parse(body)?)
}

/// The id of a session, and its attempt if it contains one.
type Entry = (String, Option<String>);

/// A page of a list of sessions, and whether there are more pages. An entry without an id cannot belong to this
/// gateway and is skipped.
pub(crate) fn listed(body: &[u8]) -> Option<(Vec<Entry>, bool)> {
    let list = Json::parse(body)?;
    let (items, more) = list_of(&list)?;
    let entry = |item: &Json| {
        Some((
            text(item, "id")?,
            text(item, "client_reference_id").filter(|id| !id.is_empty()),
        ))
    };
    Some((items.iter().filter_map(entry).collect(), more))
}

/// Whether an object belongs to the live environment. `None` if it does not specify it.
pub(crate) fn is_live(body: &[u8]) -> Option<bool> {
    Json::parse(body)?.get("livemode")?.flag()
}

/// The attempt in an object's `metadata`.
pub(crate) fn attempt_in_metadata(object: &Json) -> Option<String> {
    let attempt = object.path(&["metadata", ATTEMPT])?.text()?;
    Some(attempt.to_owned())
}

/// Whether a text has the form of the host's ids: 32 lowercase hexadecimal digits.
pub(crate) fn is_ours(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(plain)
}

/// Parses a refusal. Missing fields are empty.
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
    let payment = match value.get("payment_intent") {
        None | Some(Json::Null) => None,
        Some(payment) => Some(payment),
    };
    // A session without an amount may have a payment with an amount.
    let due = |from: &Json, amount| {
        Some(Money {
            amount: from.get(amount)?.whole()?,
            currency: currency(from)?,
        })
    };
    let due = due(value, "amount_total").or_else(|| due(payment?, "amount"))?;
    Some(Session {
        id: text(value, "id")?,
        attempt: text(value, "client_reference_id").or_else(|| attempt_in_metadata(value)),
        live: value.get("livemode").and_then(Json::flag),
        stage: match value.get("status").and_then(Json::text) {
            Some("open") => Stage::Open,
            Some("complete") => Stage::Complete,
            Some("expired") => Stage::Expired,
            _ => Stage::Unknown,
        },
        due,
        url: text(value, "url"),
        expires_at: value.get("expires_at").and_then(Json::whole),
        payment: match payment {
            None => None,
            Some(payment) => Some(payment_of(payment)?),
        },
    })
}

fn payment_of(value: &Json) -> Option<Payment> {
    let currency = currency(value)?;
    let mut unreadable = Vec::new();
    let phase = match value.get("status").and_then(Json::text) {
        Some("requires_payment_method") => Phase::RequiresPaymentMethod,
        Some("requires_confirmation") => Phase::RequiresConfirmation,
        Some("requires_action") => Phase::RequiresAction,
        Some("processing") => Phase::Processing,
        Some("requires_capture") => Phase::RequiresCapture,
        Some("canceled") => Phase::Canceled,
        Some("succeeded") => Phase::Succeeded,
        _ => {
            unreadable.push("the payment has an unknown status".into());
            Phase::Unknown
        }
    };
    let whole = |name| value.get(name).and_then(Json::whole);
    let charge = match value.get("latest_charge") {
        None | Some(Json::Null) => None,
        Some(charge) => {
            let read = charge::charge(charge, &mut unreadable);
            if read.is_none() {
                unreadable.push("the charge cannot be read".into());
            }
            read
        }
    };
    let received = whole("amount_received");
    let capturable = whole("amount_capturable");
    Some(Payment {
        id: text(value, "id")?,
        phase,
        capturable: match phase {
            // The amount of an authorization must be known.
            Phase::RequiresCapture => capturable?,
            _ => capturable.unwrap_or(0),
        },
        received: Money {
            amount: match phase {
                Phase::Succeeded => received.or_else(|| whole("amount"))?,
                _ => received.unwrap_or(0),
            },
            currency,
        },
        failed: match value.get("last_payment_error") {
            None | Some(Json::Null) => None,
            Some(error) => Some(failure(error)),
        },
        canceled: code(value, "cancellation_reason"),
        review: match value.get("review") {
            None | Some(Json::Null) => None,
            Some(review) => {
                let read = review_of(review);
                if read.is_none() {
                    unreadable.push("the review cannot be read".into());
                }
                // A malformed review counts as open, so that an operator checks it.
                Some(read.unwrap_or(Review {
                    open: true,
                    approved: false,
                    reason: None,
                }))
            }
        },
        charge,
        fraud_warning: None,
        unreadable,
    })
}

fn review_of(value: &Json) -> Option<Review> {
    Some(Review {
        open: value.get("open")?.flag()?,
        approved: matches!(
            text(value, "closed_reason").as_deref(),
            Some("approved" | "acknowledged")
        ),
        reason: code(value, "reason"),
    })
}

/// Reason of a failed attempt to pay: "card_declined insufficient_funds". An error without codes results in its
/// type.
fn failure(error: &Json) -> String {
    let words = ["code", "decline_code"].map(|name| code(error, name).unwrap_or_default());
    let words = words.join(" ").trim().to_owned();
    if words.is_empty() {
        return code(error, "type").unwrap_or_default();
    }
    words
}

/// The entries of a list, and whether there are more. `None` if it is not a list.
pub(crate) fn list_of(value: &Json) -> Option<(&[Json], bool)> {
    match value.get("data")? {
        Json::List(items) => {
            let more = value.get("has_more").and_then(Json::flag);
            Some((items, more.unwrap_or(false)))
        }
        _ => None,
    }
}

/// The currency in upper case; Stripe uses lower case.
pub(crate) fn currency(value: &Json) -> Option<String> {
    let code = value.get("currency")?.text()?;
    let plain = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_alphabetic());
    plain.then(|| code.to_ascii_uppercase())
}

/// Time in a field, converted from seconds to milliseconds since 1970.
pub(crate) fn seconds(value: &Json, name: &str) -> Option<u64> {
    value.get(name)?.whole()?.checked_mul(1_000)
}

/// Maximum length of a code in a report, in bytes.
const MOST_CODE: usize = 64;

/// A code of Stripe. `None` if it is empty or longer than `MOST_CODE`.
pub(crate) fn code(value: &Json, name: &str) -> Option<String> {
    text(value, name).filter(|code| !code.is_empty() && code.len() <= MOST_CODE)
}

pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A session as Stripe would return it before the payment.
    pub(crate) fn told(status: &str) -> Value {
        json!({
            "id": "cs_test_1", "object": "checkout.session", "livemode": false,
            "client_reference_id": "attempt-1", "metadata": { "attempt": "attempt-1" },
            "amount_total": 4990, "currency": "eur", "status": status, "payment_status": "unpaid",
            "url": if status == "open" { json!("https://checkout.stripe.com/c/pay/cs_test_1") } else { Value::Null },
            "expires_at": 1_800_003_600, "payment_intent": null,
        })
    }

    /// The same with a payment in that state and nothing received.
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

    /// The same with an authorized payment.
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
    fn only_an_id_and_an_amount_make_an_answer() {
        assert!(session(b"{").is_none());
        let mut told = paid();
        told["id"] = json!(null);
        assert_eq!(read(&told), None);
        for field in ["id", "currency"] {
            let mut told = paid();
            told["payment_intent"][field] = json!(null);
            assert_eq!(read(&told), None, "payment_intent.{field}");
        }
        for field in [
            "object",
            "livemode",
            "status",
            "amount_total",
            "currency",
            "expires_at",
            "url",
        ] {
            let mut told = paid();
            told[field] = json!(null);
            let payment = read(&told).and_then(|session| session.payment);
            assert_eq!(payment.unwrap().received.amount, 4990, "{field}");
        }
        for field in [
            "object",
            "status",
            "amount_capturable",
            "latest_charge",
            "last_payment_error",
        ] {
            let mut told = paid();
            told["payment_intent"][field] = json!(null);
            let payment = read(&told).and_then(|session| session.payment);
            assert_eq!(
                payment.unwrap().received.amount,
                4990,
                "payment_intent.{field}"
            );
        }
    }

    #[test]
    fn a_charge_or_a_review_that_is_not_expanded_is_named() {
        let mut session = paid();
        session["payment_intent"]["latest_charge"] = json!("ch_1");
        let payment = read(&session).unwrap().payment.unwrap();
        assert_eq!(payment.unreadable, ["the charge cannot be read"]);
        let mut session = paid();
        session["payment_intent"]["review"] = json!("prv_1");
        let payment = read(&session).unwrap().payment.unwrap();
        assert!(payment.review.unwrap().open);
        // An unexpanded payment does not show whether it was paid.
        let mut session = paid();
        session["payment_intent"] = json!("pi_1");
        assert_eq!(read(&session), None);
    }

    #[test]
    fn a_state_that_is_not_documented_leaves_the_money_readable() {
        assert_eq!(read(&told("paused")).unwrap().stage, Stage::Unknown);
        let mut session = paid();
        session["payment_intent"]["status"] = json!("settled");
        let payment = read(&session).unwrap().payment.unwrap();
        assert_eq!(
            (payment.phase, payment.received.amount),
            (Phase::Unknown, 4990)
        );
        assert_eq!(payment.unreadable, ["the payment has an unknown status"]);
    }

    #[test]
    fn an_error_without_a_code_is_told_by_its_type() {
        let mut session = paying("open", "requires_payment_method");
        session["payment_intent"]["last_payment_error"] = json!({ "type": "card_error" });
        let payment = read(&session).unwrap().payment.unwrap();
        assert_eq!(payment.failed.as_deref(), Some("card_error"));
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
