//! Checkout's JSON, read strictly: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::Money;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::time;

/// Where a payment link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkStatus {
    /// It can be paid, and no payment is under way.
    Active,
    /// The payer is at it, by a method that takes its time.
    Pending,
    /// It was paid, once. Which payment that was it does not say, nor whether it was captured.
    Completed,
    /// No payment can be begun by it any more. One that was begun before may still be in the payer's
    /// bank's hands.
    Expired,
}

impl LinkStatus {
    /// Adyen's word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "paymentPending",
            Self::Completed => "completed",
            Self::Expired => "expired",
        }
    }
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
    /// Milliseconds since 1970, as the next one.
    pub(crate) expires_at: Option<u64>,
    /// When its status last changed.
    pub(crate) updated_at: Option<u64>,
}

/// A session as its creation is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Our attempt.
    pub(crate) attempt: String,
    pub(crate) merchant_account: String,
    pub(crate) due: Money,
    /// The hosted page.
    pub(crate) url: String,
    /// Milliseconds since 1970.
    pub(crate) expires_at: u64,
}

/// Where a session stood when the payer left its page. Adyen never changes it afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionStatus {
    /// The payer may go on.
    Active,
    /// The payer is at it, by a method that takes its time.
    Pending,
    /// The payer approved a payment, and it was authorised.
    Completed,
    /// Too many tries were refused: the payer can no longer pay.
    Refused,
    /// The payer gave up.
    Canceled,
    /// Its time passed: the payer can no longer pay.
    Expired,
}

/// A session's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionResult {
    pub(crate) status: SessionStatus,
    /// Authorised payments, each with its id and amount.
    pub(crate) payments: Vec<(String, Money)>,
    /// The card's brand and last four digits.
    pub(crate) instrument: Option<String>,
    /// Risk rules have sent the payment to manual review.
    pub(crate) manual_review: bool,
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
    let at = |name: &str| match link.get(name) {
        None | Some(Json::Null) => Some(None),
        Some(at) => Some(Some(time::parse_rfc3339(at.text()?)?)),
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
        expires_at: at("expiresAt")?,
        updated_at: at("updatedAt")?,
    })
}

/// Reads a created session; none where anything in it is not as documented.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    let session = Json::parse(body)?;
    Some(Session {
        id: text(&session, "id").filter(|id| is_plain(id))?,
        attempt: text(&session, "reference")?,
        merchant_account: text(&session, "merchantAccount")?,
        due: money(session.get("amount")?)?,
        url: text(&session, "url")?,
        expires_at: time::parse_rfc3339(session.get("expiresAt")?.text()?)?,
    })
}

/// Reads a session's result; none where it is not as documented, or not that session's and attempt's.
pub(crate) fn session_result(body: &[u8], id: &str, attempt: &str) -> Option<SessionResult> {
    let result = Json::parse(body)?;
    let is = |name: &str, wanted: &str| match result.get(name) {
        None | Some(Json::Null) => true,
        Some(told) => told.text() == Some(wanted),
    };
    if !is("id", id) || !is("reference", attempt) {
        return None;
    }
    let payments = match result.get("payments") {
        None | Some(Json::Null) => &[],
        Some(Json::List(payments)) => payments.as_slice(),
        Some(_) => return None,
    };
    let authorised = payments
        .iter()
        .filter(|payment| payment.get("resultCode").and_then(Json::text) == Some("Authorised"));
    let payment = |payment: &Json| {
        let id = text(payment, "pspReference").filter(|id| is_plain(id))?;
        Some((id, money(payment.get("amount")?)?))
    };
    let additional = |name: &str| result.path(&["additionalData", name]).and_then(Json::text);
    let digits = additional("cardSummary");
    let brand = payments
        .first()
        .and_then(|payment| payment.path(&["paymentMethod", "brand"])?.text());
    Some(SessionResult {
        status: match result.get("status")?.text()? {
            "active" => SessionStatus::Active,
            "paymentPending" => SessionStatus::Pending,
            "completed" => SessionStatus::Completed,
            "refused" => SessionStatus::Refused,
            "canceled" => SessionStatus::Canceled,
            "expired" => SessionStatus::Expired,
            _ => return None,
        },
        payments: authorised.map(payment).collect::<Option<_>>()?,
        instrument: card(brand, digits),
        manual_review: additional("fraudManualReview") == Some("true"),
    })
}

/// A card's brand with its last four digits, where they are that.
pub(crate) fn card(brand: Option<&str>, digits: Option<&str>) -> Option<String> {
    let four = |digits: &&str| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
    let digits = digits.filter(four)?;
    Some(format!("{} {digits}", brand.unwrap_or("card")))
}

/// Whether a request to capture or cancel was taken in. What became of it is told by a notification.
pub(crate) fn is_received(body: &[u8], payment: &str) -> bool {
    let said = |name: &str| text(&Json::parse(body)?, name);
    said("status").as_deref() == Some("received")
        && said("paymentPspReference").as_deref() == Some(payment)
}

/// Our reference of a refund: the attempt, which tells whose it is, and the order.
pub(crate) fn refund_reference(attempt: &str, order: &str) -> String {
    format!("{attempt}-{order}")
}

/// The attempt that a reference names, and the refund's order where it is a refund's.
pub(crate) fn named(reference: &str) -> (&str, Option<&str>) {
    match reference.split_once('-') {
        Some((attempt, order)) if is_ours(attempt) && is_ours(order) => (attempt, Some(order)),
        _ => (reference, None),
    }
}

/// Whether a text has the form of the host's ids: 32 hexadecimal characters.
pub(crate) fn is_ours(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 32 && text.bytes().all(plain)
}

/// Adyen's id of a refund that was taken in; none where the answer is not about that payment and amount.
pub(crate) fn refund(body: &[u8], payment: &str, amount: &Money) -> Option<String> {
    let told = Json::parse(body)?;
    let same = is_received(body, payment) && money(told.get("amount")?)? == *amount;
    text(&told, "pspReference").filter(|id| same && is_plain(id))
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

    /// A session as Adyen would tell it.
    pub(crate) fn opened() -> Value {
        json!({
            "id": "CS451F2AB1ED897A94", "url": "https://test.adyen.link/CS451F2AB1ED897A94",
            "reference": "attempt-1", "merchantAccount": "ShopECOM", "mode": "hosted",
            "amount": { "value": 4990, "currency": "EUR" },
            "expiresAt": "2027-01-15T09:00:00+01:00", "returnUrl": "https://pay.example/return/1",
        })
    }

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
            ("updatedAt", json!("yesterday")),
        ] {
            let mut link = told("active");
            link[field] = odd;
            assert_eq!(read(&link), None, "{field}");
        }
    }

    #[test]
    fn a_session_that_lacks_anything_is_no_answer() {
        let read = |value: &Value| session(value.to_string().as_bytes());
        assert_eq!(
            read(&opened()).map(|session| session.expires_at),
            Some(1_800_000_000_000)
        );
        for field in [
            "id",
            "url",
            "reference",
            "merchantAccount",
            "amount",
            "expiresAt",
        ] {
            let mut session = opened();
            session.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&session), None, "{field}");
        }
    }

    #[test]
    fn a_result_names_the_authorised_payments_of_its_own_session() {
        let told = |status: &str| {
            json!({
                "id": "CS1", "reference": "attempt-1", "status": status,
                "payments": [
                    { "pspReference": "993617898204183D", "resultCode": "Authorised",
                      "amount": { "value": 4990, "currency": "EUR" },
                      "paymentMethod": { "brand": "visa", "type": "scheme" } },
                    { "pspReference": "993617898204183E", "resultCode": "Pending" },
                ],
                "additionalData": { "cardSummary": "1111" },
            })
        };
        let read = |value: &Value| session_result(value.to_string().as_bytes(), "CS1", "attempt-1");
        let result = read(&told("completed")).unwrap();
        assert_eq!(result.status, SessionStatus::Completed);
        assert_eq!(result.instrument.as_deref(), Some("visa 1111"));
        let ids: Vec<_> = result.payments.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["993617898204183D"]);
        assert_eq!(read(&told("settled")), None);
        for (field, odd) in [
            ("id", json!("CS2")),
            ("reference", json!("attempt-2")),
            ("payments", json!({})),
        ] {
            let mut other = told("completed");
            other[field] = odd;
            assert_eq!(read(&other), None, "{field}");
        }
    }

    #[test]
    fn four_digits_of_a_card_are_told_and_no_more() {
        assert_eq!(
            card(Some("visa"), Some("1111")).as_deref(),
            Some("visa 1111")
        );
        assert_eq!(card(Some("visa"), Some("4111111111111111")), None);
        assert_eq!(card(Some("visa"), None), None);
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
