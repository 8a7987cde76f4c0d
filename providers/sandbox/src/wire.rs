//! Parsing of the provider's JSON. Parsing is lenient: an unknown or missing status, field or entry does not hide
//! the rest.
use std::fmt;

use kassette_plugin::amount;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::http::Response;
use kassette_plugin::provider::{Action, Form, Instructions, Money, Particulars, read};

use crate::particulars;

/// Status of a session at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Declined,
    Authorised,
    /// The capture was requested and is not confirmed yet.
    Capturing,
    /// The capture was requested, and the provider waits for a proof.
    Verifying,
    /// A confirmed capture was reversed.
    CaptureFailed,
    /// The payer cancelled.
    Cancelled,
    /// Failed permanently.
    Failed,
    /// An undocumented status.
    Unknown,
    InReview,
    Captured,
    Disputed,
    Refunded,
    Closed,
    Expired,
}

/// A session, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Id of the attempt (`merchant_reference`).
    pub(crate) attempt: String,
    pub(crate) phase: Phase,
    /// Whether the payer could still pay.
    pub(crate) payable: bool,
    pub(crate) method: String,
    pub(crate) due: Money,
    pub(crate) received: Money,
    pub(crate) returned: u64,
    pub(crate) expires_at: Option<u64>,
    /// Next action of the payer. `None` for sessions that have ended.
    pub(crate) action: Option<Action>,
    pub(crate) particulars: Particulars,
}

/// A refusal: the HTTP status, the provider's code, and the fields that it is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) fields: Vec<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {}", self.status, self.code)
    }
}

/// Parses a session. `None` without an id, a merchant reference or an amount.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    session_of(&Json::parse(body)?)
}

/// Parses the answer to a search. `None` if it cannot be parsed, `Some(None)` if the search found no session.
pub(crate) fn found(body: &[u8]) -> Option<Option<Session>> {
    let answer = Json::parse(body)?;
    let Json::List(sessions) = answer.get("sessions")? else {
        return None;
    };
    match sessions.first() {
        Some(first) => Some(Some(session_of(first)?)),
        None => Some(None),
    }
}

/// Parses the session in a callback. `None` if the event has none or it cannot be parsed.
pub(crate) fn event(body: &[u8]) -> Option<Session> {
    session_of(Json::parse(body)?.get("session")?)
}

/// Environment of the credentials, from the answer about the account.
pub(crate) fn environment(body: &[u8]) -> Option<String> {
    text(&Json::parse(body)?, "environment")
}

/// Parses a refusal. The code is empty if the body contains none.
pub(crate) fn problem(answer: &Response) -> Problem {
    let body = Json::parse(&answer.body).unwrap_or(Json::Null);
    let error = body.get("error").unwrap_or(&Json::Null);
    let fields = error.get("fields").map_or(&[][..], Json::items);
    Problem {
        status: answer.status,
        code: text(error, "code").unwrap_or_default(),
        fields: fields
            .iter()
            .filter_map(Json::text)
            .map(str::to_owned)
            .collect(),
    }
}

/// An amount in the provider's notation: units with two decimals.
pub(crate) fn money_json(money: &Money) -> Json {
    let value = format!(
        "{}.{:02}",
        money.amount / amount::MINOR_UNITS,
        money.amount % amount::MINOR_UNITS
    );
    object([
        ("value", value.into()),
        ("currency", money.currency.as_str().into()),
    ])
}

/// Reads a session from parsed JSON, with the same `None` cases as [`session`].
pub(crate) fn session_of(value: &Json) -> Option<Session> {
    let due = money(value.get("amount")?)?;
    let nothing = Money {
        amount: 0,
        currency: due.currency.clone(),
    };
    Some(Session {
        id: text(value, "id")?,
        attempt: text(value, "merchant_reference")?,
        phase: phase(read::field(value, "status").unwrap_or_default()),
        payable: value.get("payable").and_then(Json::flag) == Some(true),
        method: text(value, "method").unwrap_or_default(),
        received: value.get("received").and_then(money).unwrap_or(nothing),
        returned: value
            .get("returned")
            .and_then(money)
            .map_or(0, |sum| sum.amount),
        expires_at: value.get("expires_at").and_then(Json::whole),
        action: value.get("next_action").and_then(action),
        particulars: particulars::read(value),
        due,
    })
}

fn phase(status: &str) -> Phase {
    match status {
        "open" => Phase::Open,
        "declined" => Phase::Declined,
        "authorised" => Phase::Authorised,
        "capturing" => Phase::Capturing,
        "verifying" => Phase::Verifying,
        "capture_failed" => Phase::CaptureFailed,
        "cancelled" => Phase::Cancelled,
        "failed" => Phase::Failed,
        "in_review" => Phase::InReview,
        "captured" => Phase::Captured,
        "disputed" => Phase::Disputed,
        "refunded" => Phase::Refunded,
        "closed" => Phase::Closed,
        "expired" => Phase::Expired,
        _ => Phase::Unknown,
    }
}

pub(crate) fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: read::units(value.get("value")?)?,
        currency: value.get("currency").and_then(read::currency)?,
    })
}

fn action(value: &Json) -> Option<Action> {
    match value.get("type")?.text()? {
        "redirect" => Some(Action::Redirect(text(value, "url")?)),
        "form" => Some(Action::Post(Form {
            url: text(value, "url")?,
            fields: pairs(value, "fields")?,
        })),
        "instructions" => Some(Action::Show(Instructions {
            text: text(value, "text")?,
            details: pairs(value, "details")?,
            qr: text(value, "qr"),
            link: text(value, "link"),
        })),
        _ => None,
    }
}

fn pairs(value: &Json, name: &str) -> Option<Vec<(String, String)>> {
    let pair = |pair: &Json| match pair.items() {
        [Json::Text(name), Json::Text(value)] => Some((name.clone(), value.clone())),
        _ => None,
    };
    match value.get(name)? {
        Json::List(pairs) => pairs.iter().map(pair).collect(),
        _ => None,
    }
}

/// Text of a field.
pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    read::field(value, name).map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Converts a value to the module's JSON type.
    pub(crate) fn parsed(value: &Value) -> Json {
        Json::parse(value.to_string().as_bytes()).unwrap()
    }

    pub(crate) const ATTEMPT: &str = "00000000000000000000000000000001";

    /// A session as the provider would return it.
    pub(crate) fn told(status: &str, payable: bool, received: &str) -> Value {
        json!({
            "id": "sbx_1", "merchant_reference": ATTEMPT, "status": status, "payable": payable,
            "amount": { "value": "49.90", "currency": "EUR" },
            "received": { "value": received, "currency": "EUR" },
            "returned": { "value": "0.00", "currency": "EUR" },
            "method": "ideal", "created_at": 1, "updated_at": 2, "expires_at": 3,
            "next_action": { "type": "redirect", "url": "https://pay.example/1" },
            "charge": null, "fee": null, "instrument": null, "reason": null,
            "authorised_at": null, "captured_at": null, "capture_before": null,
            "refunds": [], "disputes": [],
        })
    }

    #[test]
    fn what_is_missing_hides_nothing_else() {
        assert!(session(b"{").is_none());
        for field in ["id", "merchant_reference", "amount"] {
            let mut told = told("open", true, "0.00");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(session_of(&parsed(&told)), None, "{field}");
        }
        for field in ["payable", "method", "returned", "expires_at", "next_action"] {
            let mut told = told("captured", false, "49.9");
            told[field] = Value::Null;
            let read = session_of(&parsed(&told)).unwrap();
            assert_eq!(
                (read.phase, read.received.amount),
                (Phase::Captured, 4990),
                "{field}"
            );
        }
        let odd = session_of(&parsed(&told("captured_maybe", false, "49.90"))).unwrap();
        assert_eq!(odd.phase, Phase::Unknown);
    }

    #[test]
    fn every_kind_of_action_is_read() {
        let form = json!({ "type": "form", "url": "u", "fields": [["a", "b"]] });
        assert_eq!(
            action(&parsed(&form)),
            Some(Action::Post(Form {
                url: "u".into(),
                fields: vec![("a".into(), "b".into())]
            }))
        );
        let show =
            json!({ "type": "instructions", "text": "t", "details": [["l", "v"]], "qr": "q" });
        assert!(matches!(
            action(&parsed(&show)),
            Some(Action::Show(Instructions { link: None, .. }))
        ));
        assert_eq!(
            action(&parsed(
                &json!({ "type": "form", "url": "u", "fields": [["a", 1]] })
            )),
            None
        );
        assert_eq!(action(&parsed(&json!({ "type": "teleport" }))), None);
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
}
