//! Mollie's JSON. Reading is strict: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::amount;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Environment, Money};
use kassette_plugin::time;

use crate::particulars::{self, Belongings};

/// Where a payment stands at Mollie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Open,
    Pending,
    Authorized,
    Paid,
    Canceled,
    Expired,
    Failed,
}

/// A payment as Mollie tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    /// Our attempt; none where we did not make the payment.
    pub(crate) attempt: Option<String>,
    pub(crate) environment: Environment,
    pub(crate) stands: Stands,
    pub(crate) amount: Money,
    /// Where the method knows captures.
    pub(crate) captured: Option<Money>,
    pub(crate) refunded: u64,
    pub(crate) charged_back: u64,
    pub(crate) is_cancelable: bool,
    /// Where the payer pays; gone once he has.
    pub(crate) checkout: Option<String>,
    /// When it expires, in milliseconds.
    pub(crate) expires: Option<u64>,
    /// What belongs to it.
    pub(crate) belongings: Belongings,
}

/// A refusal: what Mollie says, and about which field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) detail: String,
    pub(crate) field: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        if !self.field.is_empty() {
            write!(f, " {}", self.field)?;
        }
        write!(f, " {}", self.detail)
    }
}

/// The website profile that the key belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) environment: Environment,
    /// `unverified`, `verified` or `blocked`.
    pub(crate) status: String,
}

/// Reads a payment; none where anything in it is not as documented.
pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    let value = Json::parse(body)?;
    if value.get("resource")?.text()? != "payment" {
        return None;
    }
    let optional = |name| match value.get(name) {
        None | Some(Json::Null) => Some(None),
        Some(amount) => money(amount).map(Some),
    };
    let amount = money(value.get("amount")?)?;
    let captured = optional("amountCaptured")?;
    // What is given back is in the currency of what was taken.
    let taken_in = &captured.as_ref().unwrap_or(&amount).currency;
    let given_back = |name| match optional(name)? {
        None => Some(0),
        Some(sum) if sum.currency == *taken_in => Some(sum.amount),
        Some(_) => None,
    };
    let refunded = given_back("amountRefunded")?;
    let charged_back = given_back("amountChargedBack")?;
    let belongings = particulars::read(&value, taken_in)?;
    let checkout = value.path(&["_links", "checkout", "href"]);
    let expires = value.get("expiresAt").and_then(Json::text);
    Some(Payment {
        id: text(&value, "id").filter(|id| is_id(id))?,
        attempt: text(&value, "metadata"),
        environment: mode(&value)?,
        stands: stands(value.get("status")?.text()?)?,
        captured,
        amount,
        refunded,
        charged_back,
        is_cancelable: value.get("isCancelable").and_then(Json::flag) == Some(true),
        checkout: checkout.and_then(Json::text).map(str::to_owned),
        expires: expires.and_then(time::parse_rfc3339),
        belongings,
    })
}

/// Reads the current profile.
pub(crate) fn profile(body: &[u8]) -> Option<Profile> {
    let value = Json::parse(body)?;
    Some(Profile {
        environment: mode(&value)?,
        status: text(&value, "status")?,
    })
}

/// Reads a refusal; its texts are empty where there are none.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    Problem {
        status: answer.status,
        detail: text(&body, "detail").unwrap_or_default(),
        field: text(&body, "field").unwrap_or_default(),
    }
}

/// An amount as Mollie writes it.
pub(crate) fn money_json(money: &Money) -> Json {
    let (units, minor) = (
        money.amount / amount::MINOR_UNITS,
        money.amount % amount::MINOR_UNITS,
    );
    object([
        ("currency", money.currency.as_str().into()),
        ("value", format!("{units}.{minor:02}").into()),
    ])
}

/// Whether this is a payment's id, and nothing that could change a path.
pub(crate) fn is_id(id: &str) -> bool {
    id.strip_prefix("tr_").is_some_and(|rest| {
        (1..=64).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// Whether a text has the form of the host's ids: 32 hexadecimal characters.
pub(crate) fn is_ours(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(plain)
}

fn stands(status: &str) -> Option<Stands> {
    Some(match status {
        "open" => Stands::Open,
        "pending" => Stands::Pending,
        "authorized" => Stands::Authorized,
        "paid" => Stands::Paid,
        "canceled" => Stands::Canceled,
        "expired" => Stands::Expired,
        "failed" => Stands::Failed,
        _ => return None,
    })
}

fn mode(value: &Json) -> Option<Environment> {
    match value.get("mode")?.text()? {
        "live" => Some(Environment::Live),
        "test" => Some(Environment::Test),
        _ => None,
    }
}

pub(crate) fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: amount::parse(value.get("value")?.text()?)?,
        currency: text(value, "currency")?,
    })
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A payment as Mollie would tell it.
    pub(crate) fn told(status: &str) -> Value {
        json!({
            "resource": "payment", "id": "tr_1", "mode": "test", "status": status,
            "amount": { "value": "49.90", "currency": "EUR" },
            "description": "order-1 - Shop", "metadata": "attempt-1", "method": "creditcard",
            "isCancelable": false, "sequenceType": "oneoff", "profileId": "pfl_1",
            "createdAt": "2027-01-15T08:00:00+00:00", "expiresAt": "2027-01-15T08:30:00+00:00",
            "redirectUrl": "https://x.example/r",
            "_links": {
                "self": { "href": "https://api.mollie.com/v2/payments/tr_1", "type": "application/hal+json" },
                "checkout": { "href": "https://www.mollie.com/checkout/1", "type": "text/html" },
            },
        })
    }

    pub(crate) fn read(value: &Value) -> Option<Payment> {
        payment(value.to_string().as_bytes())
    }

    pub(crate) fn with(status: &str, name: &str, value: Value) -> Option<Payment> {
        let mut told = told(status);
        told.as_object_mut().unwrap().insert(name.into(), value);
        read(&told)
    }

    #[test]
    fn an_answer_that_lacks_anything_is_no_answer() {
        assert_eq!(payment(b"{"), None);
        for field in ["resource", "id", "mode", "status", "amount"] {
            let mut told = told("open");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        for (field, value) in [
            ("status", json!("paid_maybe")),
            ("mode", json!("both")),
            ("id", json!("ord_1")),
            ("id", json!("tr_../1")),
            ("amount", json!({ "value": "49.9", "currency": "EUR" })),
            ("amount", json!({ "value": 49.90, "currency": "EUR" })),
            ("amountCaptured", json!("49.90")),
            (
                "amountRefunded",
                json!({ "value": "1.00", "currency": "USD" }),
            ),
        ] {
            assert_eq!(with("paid", field, value.clone()), None, "{field} {value}");
        }
    }

    #[test]
    fn a_payment_of_another_integration_has_no_attempt() {
        for metadata in [json!(null), json!({ "order": 1 }), json!(["attempt-1"])] {
            let payment = with("open", "metadata", metadata).unwrap();
            assert_eq!(payment.attempt, None);
        }
    }

    #[test]
    fn amounts_are_written_with_two_decimals() {
        for (amount, written) in [(1, "0.01"), (4990, "49.90"), (100, "1.00")] {
            let money = Money {
                amount,
                currency: "HUF".into(),
            };
            let said = money_json(&money);
            let text = |name| said.get(name).and_then(Json::text);
            assert_eq!(
                (text("value"), text("currency")),
                (Some(written), Some("HUF"))
            );
        }
    }

    #[test]
    fn only_ids_of_payments_are_used_in_paths() {
        assert!(is_id("tr_5B8cwPMGnU6qLbRvo7qEZo"));
        for odd in ["", "tr_", "tr_a/b", "tr_a?b", "tr_..", "ord_1", "tr_%2f"] {
            assert!(!is_id(odd), "{odd}");
        }
    }
}
