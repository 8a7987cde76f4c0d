//! Razorpay's JSON: requests and answers.
use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::Account,
    config::Environment,
    money::Amount,
    razorpay::{payment, problem::Problem},
    refund::Asked,
    session::{Phase, Session},
};

/// Key in a payment's `extra`: the notes of its link.
pub(crate) const NOTES: &str = "notes";
/// Key in a payment's `extra`: its link was cancelled after Razorpay had refunded the payment.
pub(crate) const CANCELLED: &str = "cancelled";

/// Minimum lifetime of a link, in seconds: a quarter of an hour.
const LEAST_LIFE: u64 = 15 * 60;
/// Maximum lifetime of a link, in seconds: half a year.
const MOST_LIFE: u64 = 183 * 24 * 60 * 60;
/// Minimum amount in paise: one rupee.
const LEAST: u64 = 100;
/// Maximum amount of a UPI payment in paise: 1 lakh rupees.
const MOST: u64 = 10_000_000;

/// Body of `POST /v1/payment_links`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    pub(crate) amount: u64,
    #[serde(default = "inr")]
    pub(crate) currency: String,
    #[serde(default)]
    accept_partial: bool,
    #[serde(default)]
    upi_link: bool,
    pub(crate) expire_by: Option<u64>,
    #[serde(default)]
    pub(crate) reference_id: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    #[expect(dead_code, reason = "nothing is sent here; the shape is checked")]
    notify: Notify,
    #[serde(default)]
    #[expect(dead_code, reason = "nothing is sent here; the shape is checked")]
    reminder_enable: bool,
    #[serde(default)]
    pub(crate) notes: Notes,
    #[serde(default = "stays")]
    pub(crate) callback_url: String,
    callback_method: Option<String>,
    options: Option<Options>,
    #[serde(default)]
    #[expect(dead_code, reason = "no message is sent here; the field is known")]
    customer: Option<IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "partial payments are refused; the field is known")]
    first_min_partial_amount: Option<IgnoredAny>,
}

/// Destination of a payer whose link contains no address.
fn stays() -> String {
    "https://razorpay.example/".to_owned()
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Notify {
    sms: bool,
    email: bool,
    whatsapp: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    checkout: Checkout,
}

/// Options of the link's page, of which only the methods matter here.
#[derive(Deserialize)]
struct Checkout {
    method: Option<BTreeMap<String, Value>>,
}

fn inr() -> String {
    "INR".to_owned()
}

/// Body of a capture.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capture {
    pub(crate) amount: u64,
    #[serde(default = "inr")]
    pub(crate) currency: String,
}

/// Body of a refund. Without a body or an amount the rest is refunded.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GiveBack {
    amount: Option<u64>,
    speed: Option<String>,
    notes: Notes,
    receipt: Option<String>,
}

/// Body of a change of a refund.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(crate) notes: Notes,
}

/// Notes: texts and numbers by name. Razorpay writes empty notes as an empty list.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Notes {
    Some(BTreeMap<String, Value>),
    None([(); 0]),
}

impl Default for Notes {
    fn default() -> Self {
        Self::None([])
    }
}

impl Notes {
    /// The notes as Razorpay returns them.
    ///
    /// # Errors
    /// If there are too many, or if a note is too long or neither text nor a number.
    pub(crate) fn told(&self) -> Result<Value, Problem> {
        let Self::Some(notes) = self else {
            return Ok(json!([]));
        };
        let good = |(name, value): (&String, &Value)| {
            let length = value.as_str().map_or(0, |text| text.chars().count());
            name.chars().count() <= 256 && length <= 256 && (value.is_string() || value.is_number())
        };
        if notes.len() > 15 || !notes.iter().all(good) {
            return Err(Problem::bad("Notes are too many or too long.").field("notes"));
        }
        Ok(json!(notes))
    }
}

/// Validates a refund like Razorpay.
pub(crate) fn refund_of(asked: &GiveBack, of: &Session) -> Result<Asked, Problem> {
    let amount = Amount(asked.amount.unwrap_or(of.left().0));
    if asked.amount.is_some_and(|amount| amount < LEAST) {
        return Err(Problem::bad("The amount must be atleast INR 1.00").field("amount"));
    }
    let speed = asked.speed.as_deref().unwrap_or("normal");
    if !matches!(speed, "normal" | "optimum") {
        return Err(Problem::bad("The selected speed is invalid.").field("speed"));
    }
    let note = json!({ "notes": asked.notes.told()?, "speed": speed });
    Ok(Asked {
        amount,
        order: asked.receipt.clone(),
        note: Some(note.to_string()),
        ..Asked::default()
    })
}

/// Body of a cancellation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Validates a creation like Razorpay.
pub(crate) fn check(create: &Create, environment: Environment, now: u64) -> Result<(), Problem> {
    if create.amount < LEAST {
        return Err(Problem::bad("The amount must be atleast INR 1.00").field("amount"));
    }
    if create.amount > MOST {
        return Err(Problem::bad("Amount exceeds maximum amount allowed.").field("amount"));
    }
    if create.currency != "INR" {
        return Err(Problem::bad("Currency is not supported").field("currency"));
    }
    if create.upi_link && environment == Environment::Test {
        return Err(Problem::bad(
            "UPI Payment Links is not supported in Test Mode",
        ));
    }
    if create.accept_partial {
        return Err(Problem::bad("partial payments are not taken here").field("accept_partial"));
    }
    let too_long = |text: &str, most: usize| text.chars().count() > most;
    if too_long(&create.reference_id, 40) {
        return Err(
            Problem::bad("The reference id may not be greater than 40 characters.")
                .field("reference_id"),
        );
    }
    if too_long(&create.description, 2_048) {
        return Err(Problem::bad("The description is too long.").field("description"));
    }
    create.notes.told()?;
    let address = Url::parse(&create.callback_url);
    if !address.is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        return Err(Problem::bad("The callback url format is invalid.").field("callback_url"));
    }
    if !matches!(create.callback_method.as_deref(), Some("get") | None) {
        return Err(Problem::bad("callback_method must be get").field("callback_method"));
    }
    if create
        .options
        .as_ref()
        .is_some_and(|options| !options.is_known())
    {
        return Err(Problem::bad(
            "options is/are not required and should not be sent",
        ));
    }
    let life = create.expire_by.map(|at| at.checked_sub(now / 1_000));
    let good = life
        .is_none_or(|life| life.is_some_and(|seconds| (LEAST_LIFE..=MOST_LIFE).contains(&seconds)));
    if !good {
        let description = "expire_by should be at least 15 minutes after current time.";
        return Err(Problem::bad(description).field("expire_by"));
    }
    Ok(())
}

impl Options {
    fn is_known(&self) -> bool {
        let Some(method) = &self.checkout.method else {
            return true;
        };
        let on = |value: &Value| [json!("1"), json!(1), json!(true)].contains(value);
        let off = |value: &Value| [json!("0"), json!(0), json!(false)].contains(value);
        let known = |(name, value): (&String, &Value)| {
            matches!(name.as_str(), "upi" | "card" | "netbanking" | "wallet")
                && (on(value) || off(value))
        };
        // At least one method must be enabled, and here that is UPI.
        method.iter().all(known) && method.get("upi").is_none_or(on)
    }
}

/// Expiry of a link in milliseconds since 1970, with the default for links without one.
pub(crate) fn expires_at(create: &Create, now: u64) -> u64 {
    let at = create.expire_by.unwrap_or(now / 1_000 + MOST_LIFE);
    at.saturating_mul(1_000)
}

/// A Payment Link.
pub(crate) fn link(account: &Account, of: &Session, now: u64) -> Value {
    let status = match of.phase(now) {
        // The refund of an uncaptured authorization does not change its link.
        Phase::Closed if of.voided && !of.extra.contains_key(CANCELLED) => {
            if now < of.expires_at {
                "created"
            } else {
                "expired"
            }
        }
        Phase::Open | Phase::Authorised => "created",
        Phase::Declined if of.payable => "created",
        Phase::Declined | Phase::Closed => "cancelled",
        Phase::Expired => "expired",
        Phase::InReview | Phase::Captured | Phase::Disputed | Phase::Refunded => "paid",
    };
    // Only captured payments are listed here.
    let payments = of.received.as_ref().map(|money| {
        json!([{
            "amount": money.value.0,
            "created_at": of.updated_at / 1_000,
            "method": "upi",
            "payment_id": payment::id(of),
            "plink_id": of.reference,
            "status": "captured",
            "updated_at": of.updated_at / 1_000,
        }])
    });
    let seconds = |yes: bool, at: u64| if yes { at / 1_000 } else { 0 };
    json!({
        "accept_partial": false,
        "amount": of.due.value.0,
        "amount_paid": of.received.as_ref().map_or(0, |money| money.value.0),
        "callback_method": "get",
        "callback_url": of.return_url,
        "cancelled_at": seconds(status == "cancelled", of.updated_at),
        "created_at": of.created_at / 1_000,
        "currency": of.due.currency,
        "customer": {},
        "description": of.order,
        "expire_by": of.expires_at / 1_000,
        "expired_at": seconds(status == "expired", of.expires_at),
        "first_min_partial_amount": 0,
        "id": of.reference,
        "notes": of.extra.get(NOTES).and_then(|notes| serde_json::from_str::<Value>(notes).ok()),
        "notify": { "email": false, "sms": false },
        "order_id": payment::is_tried(of).then(|| payment::order_id(of)),
        "payments": payments,
        "reference_id": of.attempt_id,
        "reminder_enable": false,
        "reminders": [],
        "short_url": account.page_url(of),
        "status": status,
        "updated_at": of.updated_at / 1_000,
        "upi_link": account.settings.environment == Environment::Live,
        "user_id": "",
    })
}

pub(crate) fn collection(items: &[Value]) -> Value {
    json!({ "entity": "collection", "count": items.len(), "items": items })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn read(change: &Value, environment: Environment) -> Result<(), String> {
        let mut body = json!({
            "amount": 4990, "currency": "INR", "reference_id": "a1", "expire_by": 1_800_000_900,
            "callback_url": "https://x.example/r", "callback_method": "get",
        });
        for (name, value) in change.as_object().unwrap() {
            body[name.as_str()] = value.clone();
        }
        let create: Create = serde_json::from_value(body).map_err(|error| error.to_string())?;
        check(&create, environment, NOW).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn what_razorpay_would_refuse_is_refused() {
        assert_eq!(read(&json!({}), Environment::Test), Ok(()));
        let library = json!({
            "customer": { "name": "P" }, "notify": { "whatsapp": true }, "notes": { "n": 1 },
            "reference_id": "", "callback_method": null, "first_min_partial_amount": 100,
            "options": { "checkout": { "name": "Shop", "method": { "card": 0, "upi": true } } },
        });
        assert_eq!(read(&library, Environment::Test), Ok(()));
        assert_eq!(
            read(&json!({ "upi_link": true }), Environment::Live),
            Ok(())
        );
        for change in [
            json!({ "amount": 99 }),
            json!({ "amount": 10_000_001 }),
            json!({ "amount": "4990" }),
            json!({ "amount": 49.9 }),
            json!({ "currency": "EUR" }),
            json!({ "upi_link": true }),
            json!({ "reference_id": "a".repeat(41) }),
            json!({ "notes": { "a": "b".repeat(257) } }),
            json!({ "description": "a".repeat(2_049) }),
            json!({ "expire_by": 1_800_000_899 }),
            json!({ "callback_url": "nowhere" }),
            json!({ "callback_method": "post" }),
            json!({ "options": { "checkout": { "method": { "upi": "0" } } } }),
            json!({ "idempotency_key": "a1" }),
        ] {
            assert!(read(&change, Environment::Test).is_err(), "{change}");
        }
    }
}
