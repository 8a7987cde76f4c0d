//! The vendor's JSON. Reading is strict: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::amount;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::http::Response;
use kassette_plugin::provider::{Action, Form, Instructions, Money, Particulars};

use crate::particulars;

/// Where a session stands at the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Declined,
    Authorised,
    /// The capture was asked for and is not confirmed yet.
    Capturing,
    InReview,
    Captured,
    Disputed,
    Refunded,
    Closed,
    Expired,
}

/// A session as the vendor tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Our attempt.
    pub(crate) attempt: String,
    pub(crate) phase: Phase,
    /// Whether the payer could still pay.
    pub(crate) payable: bool,
    pub(crate) method: String,
    pub(crate) due: Money,
    pub(crate) received: Money,
    pub(crate) returned: u64,
    pub(crate) expires_at: u64,
    pub(crate) action: Action,
    pub(crate) particulars: Particulars,
}

/// A refusal: the vendor's code, and which fields it is about.
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

/// Reads a session; none where anything in it is not as documented.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    session_of(&Json::parse(body)?)
}

/// Reads the answer to a search: the session, or none where there is none. The outer none says
/// that the answer cannot be read.
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

/// Reads the session in a callback: none inside where the event is about something else. The outer
/// none says that the event cannot be read.
pub(crate) fn event(body: &[u8]) -> Option<Option<Session>> {
    let event = Json::parse(body)?;
    event.get("type")?.text()?;
    match event.get("session") {
        None | Some(Json::Null) => Some(None),
        Some(session) => session_of(session).map(Some),
    }
}

/// Which environment the credentials are for.
pub(crate) fn environment(body: &[u8]) -> Option<String> {
    text(&Json::parse(body)?, "environment")
}

/// Reads a refusal; the code is empty where there is none.
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

/// An amount as the vendor writes it.
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

/// Reads a session out of what holds it.
pub(crate) fn session_of(value: &Json) -> Option<Session> {
    Some(Session {
        id: text(value, "id")?,
        attempt: text(value, "merchant_reference")?,
        phase: phase(value.get("status")?.text()?)?,
        payable: value.get("payable")?.flag()?,
        method: text(value, "method")?,
        due: money(value.get("amount")?)?,
        received: money(value.get("received")?)?,
        returned: money(value.get("returned")?)?.amount,
        expires_at: value.get("expires_at")?.whole()?,
        action: action(value.get("next_action")?)?,
        particulars: particulars::read(value)?,
    })
}

fn phase(status: &str) -> Option<Phase> {
    Some(match status {
        "open" => Phase::Open,
        "declined" => Phase::Declined,
        "authorised" => Phase::Authorised,
        "capturing" => Phase::Capturing,
        "in_review" => Phase::InReview,
        "captured" => Phase::Captured,
        "disputed" => Phase::Disputed,
        "refunded" => Phase::Refunded,
        "closed" => Phase::Closed,
        "expired" => Phase::Expired,
        _ => return None,
    })
}

pub(crate) fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: amount::parse(value.get("value")?.text()?)?,
        currency: text(value, "currency")?,
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

/// The text of a field.
pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The same for the module.
    pub(crate) fn parsed(value: &Value) -> Json {
        Json::parse(value.to_string().as_bytes()).unwrap()
    }

    /// An attempt's id.
    pub(crate) const ATTEMPT: &str = "00000000000000000000000000000001";

    /// A session as the vendor would tell it.
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
    fn an_answer_that_lacks_anything_is_no_answer() {
        assert!(session(b"{").is_none());
        for field in [
            "id",
            "merchant_reference",
            "status",
            "payable",
            "method",
            "amount",
            "received",
            "returned",
            "expires_at",
            "next_action",
        ] {
            let mut told = told("open", true, "0.00");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(session_of(&parsed(&told)), None, "{field}");
        }
        assert_eq!(
            session_of(&parsed(&told("captured_maybe", false, "49.90"))),
            None
        );
        assert_eq!(session_of(&parsed(&told("captured", false, "49.9"))), None);
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
