//! Parsing of Mollie's JSON. Parsing is lenient: an unknown, null or missing status, field or entry does not hide
//! the rest.
use std::fmt;

use kassette_plugin::amount;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::read;
use kassette_plugin::provider::{Environment, Money};

use crate::particulars::{self, Belongings};

/// Status of a payment at Mollie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Open,
    Pending,
    Authorized,
    Paid,
    Canceled,
    Expired,
    Failed,
    /// An undocumented status.
    Unknown,
}

/// A payment, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    /// Attempt id. `None` if the payment contains no text as metadata.
    pub(crate) attempt: Option<String>,
    /// Mode of the payment. `None` if the answer omits it.
    pub(crate) environment: Option<Environment>,
    pub(crate) stands: Stands,
    pub(crate) amount: Money,
    /// Captured amount. `None` if the answer omits it, as for methods without captures.
    pub(crate) captured: Option<Money>,
    pub(crate) refunded: u64,
    pub(crate) charged_back: u64,
    pub(crate) is_cancelable: bool,
    /// Address of the payment page. `None` after the payment.
    pub(crate) checkout: Option<String>,
    /// Expiry in milliseconds since 1970.
    pub(crate) expires: Option<u64>,
    /// Its parts and details.
    pub(crate) belongings: Belongings,
}

/// A refusal: Mollie's message, and the field that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) detail: String,
    pub(crate) field: String,
}

impl Problem {
    /// Whether it is about this field or a part of it, such as `amount.currency`.
    pub(crate) fn is_about(&self, field: &str) -> bool {
        self.field.split('.').any(|part| part == field)
    }
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
    pub(crate) environment: Option<Environment>,
    /// `unverified`, `verified` or `blocked`.
    pub(crate) status: String,
}

/// Parses a payment. `None` without an id, a status or an amount.
pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    let value = Json::parse(body)?;
    let amount = money(value.get("amount")?)?;
    let captured = value.get("amountCaptured").and_then(money);
    // Refunds and chargebacks use the captured currency.
    let taken_in = &captured.as_ref().unwrap_or(&amount).currency;
    let given_back = |name| {
        let sum = value.get(name).and_then(money);
        let sum = sum.filter(|sum| sum.currency == *taken_in);
        sum.map_or(0, |sum| sum.amount)
    };
    let checkout = value.path(&["_links", "checkout", "href"]);
    Some(Payment {
        id: text(&value, "id").filter(|id| is_id(id))?,
        attempt: text(&value, "metadata"),
        environment: mode(&value),
        stands: stands(read::field(&value, "status")?),
        refunded: given_back("amountRefunded"),
        charged_back: given_back("amountChargedBack"),
        is_cancelable: value.get("isCancelable").and_then(Json::flag) == Some(true),
        checkout: checkout.and_then(Json::text).map(str::to_owned),
        expires: value.get("expiresAt").and_then(read::time),
        belongings: particulars::read(&value, taken_in),
        captured,
        amount,
    })
}

/// Parses the current profile.
pub(crate) fn profile(body: &[u8]) -> Option<Profile> {
    let value = Json::parse(body)?;
    Some(Profile {
        environment: mode(&value),
        status: text(&value, "status")?,
    })
}

/// Parses a refusal. Missing fields are empty.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    Problem {
        status: answer.status,
        detail: text(&body, "detail").unwrap_or_default(),
        field: text(&body, "field").unwrap_or_default(),
    }
}

/// An amount in Mollie's notation.
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

/// Whether this has the form of a payment's id, which needs no escaping in a path.
pub(crate) fn is_id(id: &str) -> bool {
    id.strip_prefix("tr_").is_some_and(|rest| {
        (1..=64).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// Whether a text has the form of the host's ids: 32 lowercase hexadecimal digits.
pub(crate) fn is_ours(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(plain)
}

fn stands(status: &str) -> Stands {
    match status {
        "open" => Stands::Open,
        "pending" => Stands::Pending,
        "authorized" => Stands::Authorized,
        "paid" => Stands::Paid,
        "canceled" | "cancelled" => Stands::Canceled,
        "expired" => Stands::Expired,
        "failed" => Stands::Failed,
        _ => Stands::Unknown,
    }
}

fn mode(value: &Json) -> Option<Environment> {
    match read::field(value, "mode")? {
        "live" => Some(Environment::Live),
        "test" => Some(Environment::Test),
        _ => None,
    }
}

/// Reads an amount without its sign: Mollie writes some refunds and chargebacks with a minus.
pub(crate) fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: read::units(value.get("value")?)?,
        currency: value.get("currency").and_then(read::currency)?,
    })
}

fn text(value: &Json, name: &str) -> Option<String> {
    read::field(value, name).map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A payment as Mollie would return it.
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
    fn what_is_missing_or_odd_hides_nothing_else() {
        assert_eq!(payment(b"{"), None);
        for field in ["id", "status", "amount"] {
            let mut told = told("open");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        for id in ["ord_1", "tr_../1"] {
            assert_eq!(with("paid", "id", json!(id)), None, "{id}");
        }
        for (field, value) in [
            ("resource", json!(null)),
            ("mode", json!("both")),
            ("method", json!(null)),
            ("amount", json!({ "value": 49.9, "currency": "eur" })),
            ("amountCaptured", json!(null)),
            (
                "amountRefunded",
                json!({ "value": "1.00", "currency": "USD" }),
            ),
            ("details", json!([])),
            ("_embedded", json!({ "refunds": null, "captures": 7 })),
        ] {
            let paid = with("paid", field, value.clone()).unwrap();
            assert_eq!(
                (paid.stands, paid.amount.amount),
                (Stands::Paid, 4990),
                "{field}"
            );
            assert_eq!(paid.refunded, 0, "{field}");
        }
        assert_eq!(read(&told("paid_maybe")).unwrap().stands, Stands::Unknown);
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
