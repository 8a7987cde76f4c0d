//! The vendor's JSON. Reading is strict: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::amount;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::http::Response;
use kassette_plugin::provider::{Action, Form, Instructions, Money, Report, Settlement, Status};

/// Where a session stands at the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    Declined,
    Authorised,
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
    pub(crate) due: Money,
    pub(crate) received: Money,
    pub(crate) returned: u64,
    pub(crate) expires_at: u64,
    pub(crate) action: Action,
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

/// Reads the session in a callback.
pub(crate) fn event(body: &[u8]) -> Option<Session> {
    session_of(Json::parse(body)?.get("session")?)
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

fn session_of(value: &Json) -> Option<Session> {
    Some(Session {
        id: text(value, "id")?,
        attempt: text(value, "merchant_reference")?,
        phase: phase(value.get("status")?.text()?)?,
        payable: value.get("payable")?.flag()?,
        due: money(value.get("amount")?)?,
        received: money(value.get("received")?)?,
        returned: money(value.get("returned")?)?.amount,
        expires_at: value.get("expires_at")?.whole()?,
        action: action(value.get("next_action")?)?,
    })
}

fn phase(status: &str) -> Option<Phase> {
    Some(match status {
        "open" => Phase::Open,
        "declined" => Phase::Declined,
        "authorised" => Phase::Authorised,
        "in_review" => Phase::InReview,
        "captured" => Phase::Captured,
        "disputed" => Phase::Disputed,
        "refunded" => Phase::Refunded,
        "closed" => Phase::Closed,
        "expired" => Phase::Expired,
        _ => return None,
    })
}

fn money(value: &Json) -> Option<Money> {
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

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

impl Session {
    /// What this session says. `declined` only where it is certain: while the payer could still
    /// try again there is no report.
    pub(crate) fn report(self) -> Option<Report> {
        let (status, settlement, detail) = match self.phase {
            Phase::Open => (Status::Pending, Settlement::Pending, "open"),
            Phase::Declined if self.payable => return None,
            Phase::Declined => (Status::Declined, Settlement::Pending, "declined"),
            Phase::Authorised => (Status::Processing, Settlement::Pending, "authorised"),
            // The money is there; whether to deliver is what a person has to decide.
            Phase::InReview => (Status::Review, Settlement::Confirmed, "held for review"),
            Phase::Captured => (Status::Completed, Settlement::Confirmed, "captured"),
            Phase::Disputed => (Status::Review, Settlement::Pending, "disputed by the payer"),
            Phase::Refunded => (Status::Completed, Settlement::Confirmed, "refunded"),
            // Nothing was taken and nothing can be any more.
            Phase::Closed => (Status::Declined, Settlement::Pending, "closed"),
            Phase::Expired => (Status::Expired, Settlement::Pending, "expired"),
        };
        Some(Report {
            reference: self.id,
            status,
            settlement,
            received: self.received,
            returned: self.returned,
            detail: detail.into(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The same for the module.
    fn read(value: &Value) -> Json {
        Json::parse(value.to_string().as_bytes()).unwrap()
    }

    /// A session as the vendor would tell it.
    pub(crate) fn told(status: &str, payable: bool, received: &str) -> Value {
        json!({
            "id": "sbx_1", "merchant_reference": "attempt-1", "status": status, "payable": payable,
            "amount": { "value": "49.90", "currency": "EUR" },
            "received": { "value": received, "currency": "EUR" },
            "returned": { "value": "0.00", "currency": "EUR" },
            "method": "ideal", "created_at": 1, "updated_at": 2, "expires_at": 3,
            "next_action": { "type": "redirect", "url": "https://pay.example/1" },
        })
    }

    fn report(status: &str, payable: bool, received: &str) -> Option<Report> {
        session_of(&read(&told(status, payable, received)))
            .unwrap()
            .report()
    }

    #[test]
    fn each_phase_has_its_report() {
        for (told, payable, received, status, settlement) in [
            ("open", true, "0.00", Status::Pending, Settlement::Pending),
            (
                "declined",
                false,
                "0.00",
                Status::Declined,
                Settlement::Pending,
            ),
            (
                "authorised",
                false,
                "0.00",
                Status::Processing,
                Settlement::Pending,
            ),
            (
                "in_review",
                false,
                "49.90",
                Status::Review,
                Settlement::Confirmed,
            ),
            (
                "captured",
                false,
                "49.90",
                Status::Completed,
                Settlement::Confirmed,
            ),
            (
                "disputed",
                false,
                "49.90",
                Status::Review,
                Settlement::Pending,
            ),
            (
                "refunded",
                false,
                "49.90",
                Status::Completed,
                Settlement::Confirmed,
            ),
            (
                "closed",
                false,
                "0.00",
                Status::Declined,
                Settlement::Pending,
            ),
            (
                "expired",
                false,
                "0.00",
                Status::Expired,
                Settlement::Pending,
            ),
        ] {
            let report = report(told, payable, received).unwrap();
            assert_eq!(
                (report.status, report.settlement),
                (status, settlement),
                "{told}"
            );
            assert_eq!(
                amount::format(report.received.amount, "EUR"),
                format!("{received} EUR")
            );
        }
    }

    #[test]
    fn a_decline_that_can_still_be_paid_proves_nothing() {
        assert_eq!(report("declined", true, "0.00"), None);
    }

    #[test]
    fn what_was_received_is_the_vendors_word() {
        let report = report("captured", false, "49.89").unwrap();
        assert_eq!(
            report.received,
            Money {
                amount: 4989,
                currency: "EUR".into()
            }
        );
    }

    #[test]
    fn an_answer_that_lacks_anything_is_no_answer() {
        assert!(session(b"{").is_none());
        for field in [
            "id",
            "merchant_reference",
            "status",
            "payable",
            "amount",
            "received",
            "returned",
            "expires_at",
            "next_action",
        ] {
            let mut told = told("open", true, "0.00");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(session_of(&read(&told)), None, "{field}");
        }
        assert_eq!(
            session_of(&read(&told("captured_maybe", false, "49.90"))),
            None
        );
        assert_eq!(session_of(&read(&told("captured", false, "49.9"))), None);
    }

    #[test]
    fn every_kind_of_action_is_read() {
        let form = json!({ "type": "form", "url": "u", "fields": [["a", "b"]] });
        assert_eq!(
            action(&read(&form)),
            Some(Action::Post(Form {
                url: "u".into(),
                fields: vec![("a".into(), "b".into())]
            }))
        );
        let show =
            json!({ "type": "instructions", "text": "t", "details": [["l", "v"]], "qr": "q" });
        assert!(matches!(
            action(&read(&show)),
            Some(Action::Show(Instructions { link: None, .. }))
        ));
        assert_eq!(
            action(&read(
                &json!({ "type": "form", "url": "u", "fields": [["a", 1]] })
            )),
            None
        );
        assert_eq!(action(&read(&json!({ "type": "teleport" }))), None);
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
