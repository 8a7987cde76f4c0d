//! The JSON of handles and payments: requests and answers.
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::Account,
    money::{Amount, Money},
    paysafe::problem::Problem,
    refund::{Refund, RefundState},
    rfc3339,
    session::{Happened, Session, State},
    vendor::Event,
};

/// Lifetime of a handle, in milliseconds.
pub(crate) const LIFE_MS: u64 = 15 * 60_000;

/// Time for which a `merchantRefNum` is known, in milliseconds.
pub(crate) const DUP_CHECK_MS: u64 = 90 * DAY_MS;

/// Default period of a search without a start date, in milliseconds.
const SEARCH_MS: u64 = 30 * DAY_MS;

const DAY_MS: u64 = 86_400_000;

/// Keys in a session's `extra`: the mark of an approval whose payment will be held, and the handle's token.
const TO_BE_HELD: &str = "to_be_held";
const TOKEN: &str = "token";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateHandle {
    pub(crate) merchant_ref_num: String,
    transaction_type: String,
    payment_type: String,
    pub(crate) amount: u64,
    currency_code: String,
    pub(crate) dup_check: Option<bool>,
    account_id: Option<String>,
    customer_ip: Option<std::net::IpAddr>,
    interac_etransfer: Interac,
    profile: Profile,
    return_links: Vec<Link>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Interac {
    consumer_id: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Profile {
    email: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    rel: String,
    href: String,
    method: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreatePayment {
    pub(crate) merchant_ref_num: String,
    pub(crate) amount: u64,
    pub(crate) currency_code: String,
    pub(crate) payment_handle_token: String,
    pub(crate) settle_with_auth: bool,
    pub(crate) dup_check: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CreateRefund {
    pub(crate) merchant_ref_num: String,
    pub(crate) amount: u64,
    pub(crate) dup_check: Option<bool>,
}

impl CreateHandle {
    /// Amount due.
    pub(crate) fn due(&self) -> Money {
        Money {
            value: Amount(self.amount),
            currency: self.currency_code.clone(),
        }
    }

    /// The payer's return address of this kind, or else the default one.
    pub(crate) fn link(&self, rel: &str) -> String {
        let of = |rel: &str| self.return_links.iter().find(|link| link.rel == rel);
        let link = of(rel).or_else(|| of("default"));
        link.map(|link| link.href.clone()).unwrap_or_default()
    }
}

/// Validates a handle like Paysafe.
pub(crate) fn check(asked: &CreateHandle) -> Result<(), Problem> {
    let field = |good: bool, name: &str| {
        if good {
            Ok(())
        } else {
            Err(Problem::invalid(name))
        }
    };
    let is_address = |text: &String| {
        let whole = text.split_once('@');
        whole.is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
    };
    let names = [&asked.profile.first_name, &asked.profile.last_name];
    let short = |text: &String| text.chars().count() <= 80;
    let rels = ["default", "on_completed", "on_failed", "on_cancelled"];
    let is_link = |link: &Link| {
        rels.contains(&link.rel.as_str())
            && link.method.as_deref().is_none_or(|method| method == "GET")
            && Url::parse(&link.href).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
    };
    let reference = asked.merchant_ref_num.chars().count();
    field((1..=255).contains(&reference), "merchantRefNum")?;
    field(asked.transaction_type == "PAYMENT", "transactionType")?;
    field(asked.payment_type == "INTERAC_ETRANSFER", "paymentType")?;
    field((1..=999_999_999).contains(&asked.amount), "amount")?;
    field(asked.currency_code == "CAD", "currencyCode")?;
    field(
        is_address(&asked.interac_etransfer.consumer_id),
        "interacEtransfer.consumerId",
    )?;
    field(
        asked.interac_etransfer.kind == "EMAIL",
        "interacEtransfer.type",
    )?;
    field(asked.profile.email.iter().all(is_address), "profile.email")?;
    field(names.into_iter().flatten().all(short), "profile")?;
    let digits = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    field(asked.account_id.iter().all(digits), "accountId")?;
    let _any_address_of_the_payer = asked.customer_ip;
    let good = asked.return_links.iter().all(is_link);
    field(good && !asked.return_links.is_empty(), "returnLinks")
}

/// Validates a refund like Paysafe.
pub(crate) fn check_refund(asked: &CreateRefund) -> Result<(), Problem> {
    if !(1..=255).contains(&asked.merchant_ref_num.chars().count()) {
        return Err(Problem::invalid("merchantRefNum"));
    }
    if !(1..=99_999_999_999).contains(&asked.amount) {
        return Err(Problem::invalid("amount"));
    }
    Ok(())
}

/// The `merchantRefNum` and the start of a search, in milliseconds since 1970.
pub(crate) fn refund_search(query: Option<&str>, now: u64) -> Result<(String, u64), Problem> {
    let mut since = now.saturating_sub(SEARCH_MS);
    let mut reference = None;
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "merchantRefNum" if !value.is_empty() => reference = Some(value.into_owned()),
            "limit" if matches!(value.parse(), Ok(1..=50)) => {}
            "startDate" => {
                let begin: Option<jiff::Timestamp> = value.parse().ok();
                let begin = begin.and_then(|begin| u64::try_from(begin.as_millisecond()).ok());
                since = begin.ok_or_else(|| Problem::invalid("startDate"))?;
            }
            _ => return Err(Problem::invalid(name)),
        }
    }
    let reference = reference.ok_or_else(|| Problem::invalid("merchantRefNum"))?;
    Ok((reference, since))
}

/// The session's reference in a settlement's id.
pub(crate) fn settled(id: &str) -> Option<&str> {
    id.strip_prefix('p')
}

/// The mark of an approval whose payment will be held.
pub(crate) fn to_be_held() -> (String, String) {
    (TO_BE_HELD.to_owned(), String::new())
}

/// Whether the payment will be held.
pub(crate) fn is_to_be_held(session: &Session) -> bool {
    session.extra.contains_key(TO_BE_HELD)
}

/// Stores the handle's token in a new session.
pub(crate) fn set_token(session: &mut Session, token: String) {
    session.extra.insert(TOKEN.to_owned(), token);
}

/// The handle's token.
pub(crate) fn token(session: &Session) -> &str {
    session.extra.get(TOKEN).map_or("", String::as_str)
}

/// A handle as the API returns it.
pub(crate) fn handle(account: &Account, session: &Session, now: u64) -> Value {
    let over = now >= session.expires_at || session.voided;
    let status = match session.state {
        // Used by a payment, even a failed one.
        State::Authorised if session.is_asked() => "COMPLETED",
        State::Declined if session.capture_refused => "COMPLETED",
        State::Closed if session.given_up => "CANCELLED",
        State::Open | State::Authorised | State::Closed if over => "EXPIRED",
        State::Open => "INITIATED",
        State::Authorised => "PAYABLE",
        State::Declined | State::Closed => "FAILED",
        State::Captured | State::Refunded => "COMPLETED",
    };
    json!({
        "id": session.reference,
        "paymentHandleToken": token(session),
        "merchantRefNum": session.attempt_id,
        "paymentType": "INTERAC_ETRANSFER",
        "transactionType": "PAYMENT",
        "status": status,
        "usage": "SINGLE_USE",
        "action": "REDIRECT",
        "executionMode": "SYNCHRONOUS",
        "amount": session.due.value.0,
        "currencyCode": session.due.currency,
        "timeToLiveSeconds": session.expires_at.saturating_sub(now) / 1_000,
        "liveMode": account.settings.environment.as_str() == "live",
        "links": [{ "rel": "redirect_payment", "href": account.page_url(session) }],
    })
}

/// The payment made with a handle. `None` if there is none.
pub(crate) fn payment(session: &Session) -> Option<Value> {
    let error = session.capture_refused.then_some("3022");
    let (amount, status) = match &session.received {
        Some(received) if session.held || session.disputed => (received, "HELD"),
        Some(received) => (received, "COMPLETED"),
        None if session.is_asked() => (&session.due, "PROCESSING"),
        None if session.capture_refused => (&session.due, "FAILED"),
        None => return None,
    };
    Some(json!({
        "id": payment_id(session),
        "gatewayReconciliationId": format!("g{}", session.reference),
        "merchantRefNum": session.attempt_id,
        "paymentHandleToken": token(session),
        "paymentType": "INTERAC_ETRANSFER",
        "status": status,
        "amount": amount.value.0,
        "currencyCode": amount.currency,
        "settleWithAuth": true,
        "availableToSettle": 0,
        "txnTime": rfc3339::utc(session.authorised_at.unwrap_or(session.updated_at)),
        "statusTime": rfc3339::utc(session.captured_at.unwrap_or(session.updated_at)),
        "error": error.map(|code| json!({ "code": code, "message": "The payment failed." })),
    }))
}

/// The settlement of a payment. `None` if there is none.
pub(crate) fn settlement(session: &Session) -> Option<Value> {
    let (amount, status) = match &session.received {
        Some(received) => (received, "COMPLETED"),
        None => (session.capturing()?, "PENDING"),
    };
    Some(json!({
        // With immediate settlement, it has the payment's id.
        "id": payment_id(session),
        "merchantRefNum": session.attempt_id,
        "status": status,
        "amount": amount.value.0,
        // The settlement is not batched yet.
        "availableToRefund": 0,
        "gatewayReconciliationId": null,
    }))
}

/// Whether the payer has paid at Interac and the shop has not made the payment in time, so that Paysafe makes it.
pub(crate) fn is_left(session: &Session, now: u64) -> bool {
    session.state == State::Authorised && session.underway.is_none() && now >= session.expires_at
}

fn payment_id(session: &Session) -> String {
    format!("p{}", session.reference)
}

/// The body of a webhook. `None` if Paysafe sends none.
pub(crate) fn event(account: &Account, event: &Event<'_>) -> Option<Value> {
    let session = event.session;
    let (name, payload) = match event.happened {
        Happened::Opened | Happened::RefundPending | Happened::CaptureFailed => return None,
        Happened::Authorised => ("PAYMENT_HANDLE_PAYABLE", handle(account, session, event.at)),
        Happened::Declined if session.given_up => (
            "PAYMENT_HANDLE_CANCELLED",
            handle(account, session, event.at),
        ),
        Happened::Declined => ("PAYMENT_HANDLE_FAILED", handle(account, session, event.at)),
        Happened::InReview | Happened::Disputed => ("PAYMENT_HELD", payment(session)?),
        Happened::Captured | Happened::DisputeWon => ("PAYMENT_COMPLETED", payment(session)?),
        Happened::CaptureRefused => ("PAYMENT_FAILED", payment(session)?),
        Happened::Voided => ("PAYMENT_HANDLE_EXPIRED", handle(account, session, event.at)),
        Happened::Refunded => ("REFUND_COMPLETED", newest_refund(session)?),
        Happened::RefundFailed => ("REFUND_FAILED", newest_refund(session)?),
        // Interac has no event for it.
        Happened::DisputeLost => return None,
    };
    Some(json!({
        // Some of Paysafe's products use one of these names, some the other.
        "eventType": if event.id.ends_with(is_low) { Value::Null } else { name.into() },
        "eventName": name,
        "eventId": event.id,
        "attemptNumber": "1",
        "resourceId": payload["id"],
        "mode": account.settings.environment.as_str(),
        "payload": payload,
    }))
}

/// True for half of all hexadecimal digits.
fn is_low(digit: char) -> bool {
    digit < '8'
}

fn newest_refund(session: &Session) -> Option<Value> {
    Some(refund(session, session.newest_refund()?))
}

/// A refund as the API returns it.
pub(crate) fn refund(session: &Session, refund: &Refund) -> Value {
    // A refund made in the Business Portal has the payment's reference.
    let reference = refund.asked.as_ref().and_then(|asked| asked.key.as_deref());
    let (status, error) = match refund.state {
        RefundState::Pending => ("PENDING", None),
        RefundState::Succeeded => ("COMPLETED", None),
        RefundState::Failed => ("FAILED", Some("3022")),
        RefundState::Cancelled => ("CANCELLED", None),
    };
    json!({
        "id": refund.id,
        "merchantRefNum": reference.unwrap_or(&session.attempt_id),
        "paymentType": "INTERAC_ETRANSFER",
        "status": status,
        "amount": refund.amount.0,
        "txnTime": rfc3339::utc(refund.created_at),
        "statusTime": rfc3339::utc(refund.updated_at),
        "error": error.map(|code| json!({ "code": code, "message": "The refund failed." })),
    })
}
