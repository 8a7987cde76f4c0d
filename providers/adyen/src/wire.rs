//! Checkout's JSON, read strictly: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::Money;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::time;

/// Where a payment link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkStatus {
    /// It can be paid.
    Active,
    /// The payer is at it, by a method that takes its time.
    Pending,
    /// It was paid. Whether anything was captured, and how much, it does not say.
    Completed,
    /// It can no longer be paid.
    Expired,
}

/// A payment link as Adyen tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: String,
    /// Our attempt.
    pub(crate) attempt: String,
    pub(crate) merchant_account: String,
    pub(crate) status: LinkStatus,
    pub(crate) due: Money,
    pub(crate) url: String,
    /// Milliseconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

/// A refusal: Adyen's own number for it says more than the status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    kind: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {} {}", self.status, self.kind, self.code)
    }
}

/// Reads a link; none where anything in it is not as documented.
pub(crate) fn link(body: &[u8]) -> Option<Link> {
    let link = Json::parse(body)?;
    let expires_at = match link.get("expiresAt") {
        Some(at) => Some(time::parse_rfc3339(at.text()?)?),
        None => None,
    };
    Some(Link {
        id: text(&link, "id").filter(|id| is_plain(id))?,
        attempt: text(&link, "reference")?,
        merchant_account: text(&link, "merchantAccount")?,
        status: match link.get("status")?.text()? {
            "active" => LinkStatus::Active,
            "paymentPending" => LinkStatus::Pending,
            "completed" | "paid" => LinkStatus::Completed,
            "expired" => LinkStatus::Expired,
            _ => return None,
        },
        due: money(link.get("amount")?)?,
        url: text(&link, "url")?,
        expires_at,
    })
}

/// Whether a request to capture or cancel was taken in. What became of it is told by a notification.
pub(crate) fn is_received(body: &[u8], payment: &str) -> bool {
    let said = |name: &str| text(&Json::parse(body)?, name);
    said("status").as_deref() == Some("received")
        && said("paymentPspReference").as_deref() == Some(payment)
}

/// Reads a refusal; its fields are empty where there is none.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    // Text of the vendor's that may name the request's data is left out.
    Problem {
        status: answer.status,
        code: text(&body, "errorCode").unwrap_or_default(),
        kind: text(&body, "errorType").unwrap_or_default(),
    }
}

/// An amount in minor units.
pub(crate) fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: value.get("value")?.whole()?,
        currency: text(value, "currency")?,
    })
}

/// The same for Adyen.
pub(crate) fn money_json(money: &Money) -> Json {
    object([
        ("value", money.amount.into()),
        ("currency", money.currency.as_str().into()),
    ])
}

/// Adyen's own ids need no escaping in a path; anything else is none of them.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The text of a field.
pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A link as Adyen would tell it.
    pub(crate) fn told(status: &str) -> Value {
        json!({
            "id": "PL61C53A8B97E6915A", "url": "https://test.adyen.link/PL61C53A8B97E6915A",
            "reference": "attempt-1", "merchantAccount": "ShopECOM", "status": status,
            "amount": { "value": 4990, "currency": "EUR" },
            "expiresAt": "2027-01-15T09:00:00+01:00", "reusable": false,
        })
    }

    fn read(value: &Value) -> Option<Link> {
        link(value.to_string().as_bytes())
    }

    #[test]
    fn a_link_is_read_with_its_status() {
        for (told_as, status) in [
            ("active", LinkStatus::Active),
            ("paymentPending", LinkStatus::Pending),
            ("completed", LinkStatus::Completed),
            ("paid", LinkStatus::Completed),
            ("expired", LinkStatus::Expired),
        ] {
            let link = read(&told(told_as)).unwrap();
            assert_eq!((link.status, link.due.amount), (status, 4990), "{told_as}");
            assert_eq!(link.expires_at, Some(1_800_000_000_000));
        }
        assert_eq!(read(&told("settled")), None);
    }

    #[test]
    fn a_link_that_lacks_anything_is_no_answer() {
        for field in [
            "id",
            "url",
            "reference",
            "merchantAccount",
            "status",
            "amount",
        ] {
            let mut link = told("active");
            link.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&link), None, "{field}");
        }
        for (field, odd) in [
            ("id", json!("PL/../x")),
            ("amount", json!({ "value": "4990", "currency": "EUR" })),
            ("amount", json!({ "value": 49.9, "currency": "EUR" })),
            ("expiresAt", json!("tomorrow")),
        ] {
            let mut link = told("active");
            link[field] = odd;
            assert_eq!(read(&link), None, "{field}");
        }
    }

    #[test]
    fn a_modification_is_received_for_the_payment_that_was_meant() {
        let body = json!({
            "status": "received", "paymentPspReference": "993617894903480A",
            "pspReference": "993617894906488A", "merchantAccount": "ShopECOM",
        });
        let body = body.to_string();
        assert!(is_received(body.as_bytes(), "993617894903480A"));
        assert!(!is_received(body.as_bytes(), "993617894906488A"));
        assert!(!is_received(b"{}", "993617894903480A"));
    }

    #[test]
    fn a_refusal_is_told_by_its_numbers() {
        let body = json!({ "status": 422, "errorCode": "704", "errorType": "validation",
            "message": "request already processed or in progress" });
        let answer = Answer {
            status: 422,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        };
        assert_eq!(problem(&answer).to_string(), "status 422 validation 704");
    }
}
