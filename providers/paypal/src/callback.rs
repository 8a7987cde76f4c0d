//! Webhooks. Nothing that arrives is believed but the event's id: PayPal is asked for the event of that
//! id, and its own copy is read.
//!
//! This proves more than the signature of the delivery would, which PayPal too checks only on request:
//! type and content come over a connection that PayPal alone can answer, whoever called us. An id that
//! PayPal does not know is a forgery; a true id in a forged body leads to the true event.
//!
//! Asking costs a request, so what can be refused or ignored without it is. An event is reported where
//! it proves the whole state; where it tells one part of it (a refund, a pending capture that may long
//! be complete) the host asks for the order.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Broken;
use kassette_plugin::provider::{
    Account, Acknowledged, Condition, Incoming, Notice, Refused, Report, Settlement, Status,
    Subject, Verb,
};
use kassette_plugin::time;

use crate::api;
use crate::wire::{self, CLOSED, Lone, Phase, Taken};

/// How old an event may be that is reported by itself, in milliseconds: PayPal repeats a delivery for
/// three days. What is sent again later, by hand or by a stranger, only makes the host ask.
const OLDEST: u64 = 4 * 86_400_000;

/// Longest id of an event.
const LONGEST_ID: usize = 50;

/// Length of an attempt's id, in characters.
const ATTEMPT: usize = 32;

/// What an event is about, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The payer has approved: the body is the order.
    Approved,
    /// A capture is complete: the body is the capture.
    Captured,
    /// Something happened to an order or a capture; only the order tells the whole.
    Changed,
    /// The payer wants the money back; the order does not tell.
    Disputed,
}

fn kind(event: &str) -> Option<Kind> {
    Some(match event {
        "CHECKOUT.ORDER.APPROVED" => Kind::Approved,
        "PAYMENT.CAPTURE.COMPLETED" => Kind::Captured,
        "CHECKOUT.PAYMENT-APPROVAL.REVERSED"
        | "PAYMENT.CAPTURE.PENDING"
        | "PAYMENT.CAPTURE.DECLINED"
        | "PAYMENT.CAPTURE.DENIED"
        | "PAYMENT.CAPTURE.REFUNDED"
        | "PAYMENT.CAPTURE.REVERSED"
        | "CUSTOMER.DISPUTE.RESOLVED" => Kind::Changed,
        "CUSTOMER.DISPUTE.CREATED" => Kind::Disputed,
        _ => return None,
    })
}

/// Reads one webhook, as PayPal itself tells it.
pub(crate) fn read(account: &Account, incoming: &Incoming) -> Result<Acknowledged, Refused> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(Refused::Malformed("not a POST".into()));
    }
    let claim = Json::parse(&incoming.body);
    let claim = claim.ok_or_else(|| Refused::Malformed("the body is no JSON".into()))?;
    let Some(id) = claim
        .get("id")
        .and_then(Json::text)
        .filter(|id| is_event_id(id))
    else {
        return Err(Refused::Malformed("the body names no event".into()));
    };
    if about(&claim).is_none() {
        return Ok(acknowledged(None));
    }
    let event = event(account, id)?;
    let Some((kind, found, resource)) = about(&event) else {
        return Ok(acknowledged(None));
    };
    let notice = match (kind, found) {
        (Kind::Disputed, _) => dispute(account, resource)?,
        (_, Found::Ours(attempt)) => Some(Notice {
            about: Subject::Attempt(attempt),
            report: proved(kind, resource).filter(|_| is_fresh(&event, account.now)),
        }),
        (_, Found::Capture(id)) => capture(account, &id)?.and_then(|lone| {
            let attempt = lone.attempt.as_deref().and_then(ours)?;
            Some(Notice {
                about: Subject::Attempt(attempt),
                report: None,
            })
        }),
    };
    Ok(acknowledged(notice))
}

/// What an event is about; none where it does not matter, or is about payments of other software that
/// uses the same app.
fn about(event: &Json) -> Option<(Kind, Found, &Json)> {
    let resource = event.get("resource")?;
    let kind = kind(event.get("event_type")?.text()?)?;
    Some((kind, subject(resource)?, resource))
}

/// PayPal's own copy of an event.
fn event(account: &Account, id: &str) -> Result<Json, Refused> {
    let path = format!("/v1/notifications/webhooks-events/{id}");
    let answer = api::get(account, &path).map_err(later)?;
    match answer.status {
        200 => {
            let event = answer.json();
            let same = |event: &Json| event.get("id").and_then(Json::text) == Some(id);
            event
                .filter(same)
                .ok_or_else(|| Refused::Later("the event cannot be read".into()))
        }
        400 | 404 => Err(Refused::Forged("PayPal knows no event of that id".into())),
        _ => Err(Refused::Later(api::problem(&answer).to_string())),
    }
}

fn is_fresh(event: &Json, now: u64) -> bool {
    let made = event.get("create_time").and_then(Json::text);
    let made = made.and_then(time::parse_rfc3339).unwrap_or(0);
    made.saturating_add(OLDEST) >= now
}

/// PayPal's ids of events need no escaping in a path; anything else is not one.
fn is_event_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(plain)
}

fn acknowledged(notice: Option<Notice>) -> Acknowledged {
    Acknowledged {
        notices: notice.into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    }
}

/// Whose payment an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// By our own id.
    Ours(String),
    /// It names only the capture.
    Capture(String),
}

fn named<'a>(place: Option<&'a Json>, name: &str) -> Option<&'a str> {
    place?.get(name)?.text()
}

fn subject(resource: &Json) -> Option<Found> {
    let unit = resource.get("purchase_units").map_or(&[][..], Json::items);
    let disputed = resource
        .get("disputed_transactions")
        .map_or(&[][..], Json::items);
    let names = [
        named(unit.first(), "custom_id"),
        named(unit.first(), "invoice_id"),
        named(Some(resource), "custom_id"),
        named(Some(resource), "invoice_id"),
        named(disputed.first(), "custom"),
        named(disputed.first(), "invoice_number"),
    ];
    if names.iter().any(Option::is_some) {
        return names.into_iter().flatten().find_map(ours).map(Found::Ours);
    }
    let capture = match disputed.first() {
        Some(_) => seller_transaction(resource),
        None => wire::linked(resource, "/v2/payments/captures/"),
    };
    capture.map(Found::Capture)
}

fn seller_transaction(dispute: &Json) -> Option<String> {
    let disputed = dispute.get("disputed_transactions")?.items().first()?;
    let id = disputed.get("seller_transaction_id")?.text()?;
    wire::is_id(id).then(|| id.to_owned())
}

/// The attempt that one of PayPal's fields for us names.
fn ours(name: &str) -> Option<String> {
    let id = name.strip_suffix(CLOSED).unwrap_or(name);
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (id.len() == ATTEMPT && id.bytes().all(digit)).then(|| id.to_owned())
}

/// The report that an event proves by itself.
fn proved(kind: Kind, resource: &Json) -> Option<Report> {
    match kind {
        Kind::Approved => {
            let order = wire::order(resource)?;
            (order.phase == Phase::Approved).then(|| order.report())?
        }
        Kind::Captured => {
            let Lone { capture, order, .. } = wire::lone(resource)?;
            let received = capture.amount.amount;
            let credited = capture.taken == Taken::Credited;
            credited.then_some(capture.report(&order?, received, 0))
        }
        Kind::Changed | Kind::Disputed => None,
    }
}

/// A dispute names its transaction; the capture of that id tells the attempt, the order, the money.
fn dispute(account: &Account, resource: &Json) -> Result<Option<Notice>, Refused> {
    let Some(id) = seller_transaction(resource) else {
        return Ok(None);
    };
    let Some(lone) = capture(account, &id)? else {
        return Ok(None);
    };
    let Some(attempt) = lone.attempt.as_deref().and_then(ours) else {
        return Ok(None);
    };
    let word = |name| {
        let text = resource.get(name).and_then(Json::text).unwrap_or_default();
        text.chars()
            .filter(char::is_ascii)
            .take(48)
            .collect::<String>()
    };
    let report = lone.order.map(|order| Report {
        reference: order,
        status: Status::Review,
        settlement: Settlement::Pending,
        received: lone.capture.amount,
        returned: 0,
        detail: format!("dispute {}, {}", word("dispute_id"), word("reason")),
    });
    Ok(Some(Notice {
        about: Subject::Attempt(attempt),
        report,
    }))
}

/// Reads a capture; none where PayPal knows none of that id.
fn capture(account: &Account, id: &str) -> Result<Option<Lone>, Refused> {
    let answer = api::get(account, &format!("/v2/payments/captures/{id}")).map_err(later)?;
    match answer.status {
        200 => match answer.json().as_ref().and_then(wire::lone) {
            Some(lone) => Ok(Some(lone)),
            None => Err(Refused::Later("the capture cannot be read".into())),
        },
        404 => Ok(None),
        _ => Err(Refused::Later(api::problem(&answer).to_string())),
    }
}

fn later(broken: Broken) -> Refused {
    match broken {
        Broken::NotSent(why) | Broken::NoAnswer(why) => Refused::Later(why),
    }
}

/// Asks for the app's webhooks: a cheap read that proves address and credentials, and finds that none
/// leads to this account before a payment misses its news.
pub(crate) fn health(account: &Account) -> Condition {
    let answer = match api::get(account, "/v1/notifications/webhooks") {
        Ok(answer) => answer,
        Err(Broken::NotSent(why) | Broken::NoAnswer(why)) => return Condition::Down(why),
    };
    // By its path: a proxy may stand before us under another name.
    let path = format!("/callbacks/{}", account.id);
    let ours = |webhook: &Json| named(Some(webhook), "url").is_some_and(|url| url.ends_with(&path));
    let body = answer.json().unwrap_or(Json::Null);
    let webhooks = body.get("webhooks").map_or(&[][..], Json::items);
    match answer.status {
        200 if webhooks.iter().any(ours) => Condition::Operational,
        200 => Condition::Degraded(format!("no webhook of the app leads to {path}")),
        429 => Condition::Degraded("rate limited".into()),
        _ => Condition::Down(api::problem(&answer).to_string()),
    }
}

#[cfg(test)]
mod tests;
