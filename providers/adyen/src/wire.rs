//! Parsing of Checkout's JSON. Parsing is lenient: an undocumented value, or a missing or null field, does not
//! hide the rest.
use std::fmt;

use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::Money;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::time;

/// Status of a payment link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkStatus {
    /// Payable, without a payment in progress.
    Active,
    /// A payment by a slow method is in progress.
    Pending,
    /// Paid. The status does not contain the payment's id, nor whether it was captured.
    Completed,
    /// Accepts no new payment. A payment started earlier may still be with the payer's bank.
    Expired,
    /// An undocumented status.
    Unknown,
}

impl LinkStatus {
    /// Adyen's name of the status.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "paymentPending",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

/// A payment link, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: String,
    /// Id of the attempt. This and the next field are `None` if the answer omits them.
    pub(crate) attempt: Option<String>,
    pub(crate) merchant_account: Option<String>,
    pub(crate) status: LinkStatus,
    pub(crate) due: Money,
    /// Empty if the answer omits it.
    pub(crate) url: String,
    /// Milliseconds since 1970, like the next field.
    pub(crate) expires_at: Option<u64>,
    /// Time of the last status change.
    pub(crate) updated_at: Option<u64>,
}

/// A session, from the answer to its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Id of the attempt. This and the next field are `None` if the answer omits them.
    pub(crate) attempt: Option<String>,
    pub(crate) merchant_account: Option<String>,
    pub(crate) due: Money,
    /// Address of the hosted page.
    pub(crate) url: String,
    /// Milliseconds since 1970. `None` if the answer omits it.
    pub(crate) expires_at: Option<u64>,
}

/// Status of a session when the payer left its page. Adyen never changes it afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionStatus {
    /// The payer may continue.
    Active,
    /// A payment by a slow method is in progress.
    Pending,
    /// The payer approved a payment, and it was authorized.
    Completed,
    /// Too many attempts were refused: the payer can no longer pay.
    Refused,
    /// The payer cancelled.
    Canceled,
    /// Expired: the payer can no longer pay.
    Expired,
    /// An undocumented status.
    Unknown,
}

/// Result of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionResult {
    pub(crate) status: SessionStatus,
    /// Id and amount of each authorized payment.
    pub(crate) payments: Vec<(String, Money)>,
    /// The card's brand and last four digits.
    pub(crate) instrument: Option<String>,
    /// Whether risk rules sent the payment to manual review.
    pub(crate) manual_review: bool,
}

/// A refusal. Adyen's error code is more specific than the HTTP status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    kind: String,
    /// Whether it is about an optional field.
    pub(crate) about_optional_field: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {} {}", self.status, self.kind, self.code)
    }
}

/// Parses a link. `None` without an id or an amount.
pub(crate) fn link(body: &[u8]) -> Option<Link> {
    let link = Json::parse(body)?;
    Some(Link {
        id: text(&link, "id").filter(|id| is_plain(id))?,
        attempt: text(&link, "reference"),
        merchant_account: text(&link, "merchantAccount"),
        status: match link.get("status").and_then(Json::text) {
            Some("active") => LinkStatus::Active,
            Some("paymentPending") => LinkStatus::Pending,
            Some("completed" | "paid") => LinkStatus::Completed,
            Some("expired") => LinkStatus::Expired,
            _ => LinkStatus::Unknown,
        },
        due: money(link.get("amount")?)?,
        url: text(&link, "url").unwrap_or_default(),
        expires_at: at(&link, "expiresAt"),
        updated_at: at(&link, "updatedAt"),
    })
}

/// Parses a created session. `None` without an id, an amount or a page.
pub(crate) fn session(body: &[u8]) -> Option<Session> {
    let session = Json::parse(body)?;
    Some(Session {
        id: text(&session, "id").filter(|id| is_plain(id))?,
        attempt: text(&session, "reference"),
        merchant_account: text(&session, "merchantAccount"),
        due: money(session.get("amount")?)?,
        url: text(&session, "url")?,
        expires_at: at(&session, "expiresAt"),
    })
}

/// Parses a session's result. `None` if it is not JSON, or names another session or attempt.
pub(crate) fn session_result(body: &[u8], id: &str, attempt: &str) -> Option<SessionResult> {
    let result = Json::parse(body)?;
    let is = |name: &str, wanted: &str| match result.get(name) {
        None | Some(Json::Null) => true,
        Some(told) => told.text() == Some(wanted),
    };
    if !is("id", id) || !is("reference", attempt) {
        return None;
    }
    let payments = result.get("payments").map_or(&[][..], Json::items);
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
        status: match result.get("status").and_then(Json::text) {
            Some("active") => SessionStatus::Active,
            Some("paymentPending") => SessionStatus::Pending,
            Some("completed") => SessionStatus::Completed,
            Some("refused") => SessionStatus::Refused,
            Some("canceled") => SessionStatus::Canceled,
            Some("expired") => SessionStatus::Expired,
            _ => SessionStatus::Unknown,
        },
        payments: authorised.filter_map(payment).collect(),
        instrument: card(brand, digits),
        manual_review: additional("fraudManualReview") == Some("true"),
    })
}

/// Time in a field, in milliseconds since 1970.
fn at(value: &Json, name: &str) -> Option<u64> {
    time::parse_rfc3339(value.get(name)?.text()?)
}

/// A card's brand with its last four digits. `None` unless `digits` is exactly four digits.
pub(crate) fn card(brand: Option<&str>, digits: Option<&str>) -> Option<String> {
    let four = |digits: &&str| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
    let digits = digits.filter(four)?;
    Some(format!("{} {digits}", brand.unwrap_or("card")))
}

/// Whether Adyen accepted a modification. A notification reports its outcome.
pub(crate) fn is_received(body: &[u8], payment: &str) -> bool {
    let Some(told) = Json::parse(body) else {
        return false;
    };
    // The answer may omit the payment's id.
    let of = text(&told, "paymentPspReference");
    text(&told, "status").as_deref() == Some("received") && of.is_none_or(|of| of == payment)
}

/// Merchant reference of a refund: `<attempt>-<order>`.
pub(crate) fn refund_reference(attempt: &str, order: &str) -> String {
    format!("{attempt}-{order}")
}

/// The attempt in a merchant reference, and the refund order if it contains one. A reference of another form is
/// returned unchanged.
pub(crate) fn named(reference: &str) -> (&str, Option<&str>) {
    match reference.split_once('-') {
        Some((attempt, order)) if is_ours(attempt) && is_ours(order) => (attempt, Some(order)),
        _ => (reference, None),
    }
}

/// Whether a text has the form of the host's ids: 32 lowercase hexadecimal digits.
pub(crate) fn is_ours(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 32 && text.bytes().all(plain)
}

/// Adyen's id of an accepted refund. `None` if the answer is about another payment or amount.
pub(crate) fn refund(body: &[u8], payment: &str, amount: &Money) -> Option<String> {
    let told = Json::parse(body)?;
    let of = told.get("amount").and_then(money);
    let same = is_received(body, payment) && of.is_none_or(|of| of == *amount);
    text(&told, "pspReference").filter(|id| same && is_plain(id))
}

/// Parses a refusal. Fields that the body does not contain are empty.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    // Adyen's message may contain data of the request, so it is not kept.
    Problem {
        status: answer.status,
        code: text(&body, "errorCode").unwrap_or_default(),
        kind: text(&body, "errorType").unwrap_or_default(),
        about_optional_field: is_about_optional_field(&body),
    }
}

/// Whether Adyen refuses an optional field. Some answers list the fields, others name them only in the message.
fn is_about_optional_field(refusal: &Json) -> bool {
    const OPTIONAL: [&str; 4] = [
        "shopperemail",
        "shopperip",
        "merchantorderreference",
        "description",
    ];
    let listed = refusal.get("invalidFields").map_or(&[][..], Json::items);
    let listed = listed.iter().filter_map(|field| text(field, "name"));
    let words: String = listed.chain(text(refusal, "message")).collect();
    let words = words.to_ascii_lowercase();
    OPTIONAL.iter().any(|name| words.contains(name)) || words.contains("email")
}

/// Parses an amount in minor units. `None` unless the currency has three letters.
pub(crate) fn money(value: &Json) -> Option<Money> {
    let currency = text(value, "currency")?.to_ascii_uppercase();
    let plain = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    Some(Money {
        amount: value.get("value")?.whole()?,
        currency: plain.then_some(currency)?,
    })
}

/// Writes an amount in minor units.
pub(crate) fn money_json(money: &Money) -> Json {
    object([
        ("value", money.amount.into()),
        ("currency", money.currency.as_str().into()),
    ])
}

/// Whether an id has the form of Adyen's ids, which need no escaping in a path: 1 to 64 letters, digits, `_` or
/// `-`.
pub(crate) fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !id.is_empty() && id.len() <= 64 && id.bytes().all(plain)
}

/// Text of a field.
pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A session as Adyen would return it.
    pub(crate) fn opened() -> Value {
        json!({
            "id": "CS451F2AB1ED897A94", "url": "https://test.adyen.link/CS451F2AB1ED897A94",
            "reference": "attempt-1", "merchantAccount": "ShopECOM", "mode": "hosted",
            "amount": { "value": 4990, "currency": "EUR" },
            "expiresAt": "2027-01-15T09:00:00+01:00", "returnUrl": "https://pay.example/return/1",
        })
    }

    /// A link as Adyen would return it.
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
        assert_eq!(read(&told("settled")).unwrap().status, LinkStatus::Unknown);
    }

    #[test]
    fn only_an_id_and_an_amount_make_an_answer() {
        for field in ["id", "amount"] {
            let mut link = told("active");
            link.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&link), None, "{field}");
        }
        for (field, odd) in [
            ("id", json!("PL/../x")),
            ("amount", json!({ "value": 49.9, "currency": "EUR" })),
        ] {
            let mut link = told("active");
            link[field] = odd;
            assert_eq!(read(&link), None, "{field}");
        }
        for (field, odd) in [
            ("url", json!(null)),
            ("reference", json!(null)),
            ("merchantAccount", json!(null)),
            ("status", json!(null)),
            ("amount", json!({ "value": "4990", "currency": "eur" })),
            ("expiresAt", json!("tomorrow")),
            ("updatedAt", json!("yesterday")),
        ] {
            let mut link = told("active");
            link[field] = odd;
            let link = read(&link).unwrap();
            assert_eq!((link.due.amount, link.due.currency.as_str()), (4990, "EUR"));
        }
    }

    #[test]
    fn a_session_needs_a_page_an_id_and_an_amount() {
        let read = |value: &Value| session(value.to_string().as_bytes());
        let expires = read(&opened()).and_then(|session| session.expires_at);
        assert_eq!(expires, Some(1_800_000_000_000));
        for field in ["id", "url", "amount"] {
            let mut session = opened();
            session[field] = json!(null);
            assert_eq!(read(&session), None, "{field}");
        }
        for field in ["reference", "merchantAccount", "expiresAt"] {
            let mut session = opened();
            session[field] = json!(null);
            assert!(read(&session).is_some(), "{field}");
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
        let odd = read(&told("settled")).unwrap();
        assert_eq!(
            (odd.status, odd.payments.len()),
            (SessionStatus::Unknown, 1)
        );
        for (field, odd) in [("id", json!("CS2")), ("reference", json!("attempt-2"))] {
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
        assert!(is_received(br#"{"status":"received"}"#, "993617894903480A"));
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
        let problem = problem(&answer);
        assert_eq!(problem.to_string(), "status 422 validation 704");
        assert!(!problem.about_optional_field);
    }

    #[test]
    fn a_refusal_of_a_field_that_only_describes_is_known() {
        for body in [
            json!({ "errorCode": "14_004", "message": "Invalid shopper email" }),
            json!({ "invalidFields": [{ "name": "shopperEmail", "message": "is malformed" }] }),
        ] {
            let answer = Answer {
                status: 422,
                headers: Vec::new(),
                body: body.to_string().into_bytes(),
            };
            assert!(problem(&answer).about_optional_field, "{body}");
        }
    }
}
