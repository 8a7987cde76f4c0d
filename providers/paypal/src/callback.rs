//! Webhooks: which events matter, and what they prove.
//!
//! [`signature`] has proved that PayPal sent an event before any of it is read. It covers no more of the body
//! than a CRC-32, though, which a reader of one delivery can match with a body of his own. So no event
//! proves money: what tells of a capture or a refund has the host ask for the order. An approval is reported,
//! for it moves nothing, and the capture that follows reads the order first. Disputes are told here alone,
//! with the money of the capture as PayPal's API tells it: an order does not tell of them.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Broken;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Condition, Dispute, DisputeState,
    Notice, Report, Settlement, Status, Subject, Verb,
};
use kassette_plugin::{settings, time};

use crate::capture::{self, Lone};
use crate::wire::{self, CLOSED, Phase};
use crate::{api, money, signature};

/// How old an approval may be that is reported, in milliseconds: PayPal repeats a delivery for three days.
/// What is sent again later, by hand, only makes the host ask.
const OLDEST: u64 = 4 * 86_400_000;

/// Length of an attempt's id, in characters.
const ATTEMPT: usize = 32;

/// What an event is about, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The payer has approved: the body is the order.
    Approved,
    /// Something happened to an order or a capture, which the order tells.
    Changed,
    /// The payer wants the money back, or that was decided; the order does not tell.
    Disputed,
}

fn kind(event: &str) -> Option<Kind> {
    Some(match event {
        _ if event.starts_with("PAYMENT.REFUND.") => Kind::Changed,
        "CHECKOUT.ORDER.APPROVED" => Kind::Approved,
        "CHECKOUT.PAYMENT-APPROVAL.REVERSED"
        | "PAYMENT.CAPTURE.COMPLETED"
        | "PAYMENT.CAPTURE.PENDING"
        | "PAYMENT.CAPTURE.DECLINED"
        | "PAYMENT.CAPTURE.DENIED"
        | "PAYMENT.CAPTURE.REFUNDED"
        | "PAYMENT.CAPTURE.REVERSED" => Kind::Changed,
        "CUSTOMER.DISPUTE.CREATED" | "CUSTOMER.DISPUTE.UPDATED" | "CUSTOMER.DISPUTE.RESOLVED" => {
            Kind::Disputed
        }
        _ => return None,
    })
}

/// Reads one webhook, once it is proved to be PayPal's. What is about none of ours is acknowledged: an app
/// that other software uses too must not have its deliveries held back.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    signature::verify(account, incoming)?;
    read_event(account, &incoming.body)
}

/// Reads what PayPal has signed.
fn read_event(account: &Account, body: &[u8]) -> Result<CallbackReply, CallbackFailure> {
    let event = Json::parse(body);
    let event = event.ok_or_else(|| CallbackFailure::Malformed("the body is no JSON".into()))?;
    let Some((kind, found, resource)) = about(&event) else {
        return Ok(acknowledged(Vec::new()));
    };
    let notices = match (kind, found) {
        (Kind::Disputed, found) => dispute(account, found, resource)?,
        (_, Found::Ours(attempt)) => vec![Notice {
            about: Subject::Attempt(attempt),
            reference: order_of(resource),
            report: approval(kind, resource).filter(|_| is_fresh(&event, account.now)),
        }],
        (_, Found::Capture(id)) => {
            let lone = capture(account, &id)?;
            lone.and_then(|lone| Some((ours(lone.attempt.as_deref()?)?, lone.order)))
                .map(asking)
                .into_iter()
                .collect()
        }
    };
    Ok(acknowledged(notices))
}

/// A notice that has the host ask, about an order where it is known.
fn asking((attempt, order): (String, Option<String>)) -> Notice {
    Notice {
        about: Subject::Attempt(attempt),
        reference: order,
        report: None,
    }
}

/// The order that an event is, or names beside a capture.
fn order_of(resource: &Json) -> Option<String> {
    let id = match resource.get("purchase_units") {
        Some(_) => resource.get("id"),
        None => resource.path(&["supplementary_data", "related_ids", "order_id"]),
    };
    let id = id?.text().filter(|id| wire::is_id(id))?;
    Some(id.to_owned())
}

/// What an event is about; none where it does not matter, or is about payments of other software that
/// uses the same app.
fn about(event: &Json) -> Option<(Kind, Found, &Json)> {
    let resource = event.get("resource")?;
    let kind = kind(event.get("event_type")?.text()?)?;
    Some((kind, subject(resource)?, resource))
}

fn is_fresh(event: &Json, now: u64) -> bool {
    let made = event.get("create_time").and_then(Json::text);
    let made = made.and_then(time::parse_rfc3339).unwrap_or(0);
    made.saturating_add(OLDEST) >= now
}

fn acknowledged(notices: Vec<Notice>) -> CallbackReply {
    CallbackReply {
        notices,
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
    let refunded = wire::linked(resource, "/v2/payments/captures/").or_else(|| related(resource));
    let names = [
        named(unit.first(), "custom_id"),
        named(unit.first(), "invoice_id"),
        named(Some(resource), "custom_id"),
        // A refund's is its own, of the same form as an attempt's id.
        named(Some(resource), "invoice_id").filter(|_| refunded.is_none()),
        named(disputed.first(), "custom"),
        named(disputed.first(), "invoice_number"),
    ];
    if names.iter().any(Option::is_some) {
        return names.into_iter().flatten().find_map(ours).map(Found::Ours);
    }
    let capture = match disputed.first() {
        Some(_) => seller_transaction(resource),
        None => refunded,
    };
    capture.map(Found::Capture)
}

/// The capture that a refund or a reversal names beside.
fn related(refund: &Json) -> Option<String> {
    let id = refund.path(&["supplementary_data", "related_ids", "capture_id"])?;
    let id = id.text().filter(|id| wire::is_id(id))?;
    Some(id.to_owned())
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

/// What an approval says by itself.
fn approval(kind: Kind, resource: &Json) -> Option<Report> {
    let order = (kind == Kind::Approved).then(|| wire::order(resource))??;
    // That one was closed is no news: the host asks.
    (order.phase == Phase::Approved && !order.closed).then(|| order.report())?
}

/// A dispute names its transaction; the capture of that id tells the attempt, the order, the money.
fn dispute(
    account: &Account,
    found: Found,
    resource: &Json,
) -> Result<Vec<Notice>, CallbackFailure> {
    let told = match found {
        Found::Ours(attempt) => Some(attempt),
        Found::Capture(_) => None,
    };
    let lone = match seller_transaction(resource) {
        Some(id) => capture(account, &id)?,
        None => None,
    };
    let Some(lone) = lone else {
        let told = told.map(|attempt| asking((attempt, None)));
        return Ok(told.into_iter().collect());
    };
    let Some(attempt) = lone.attempt.as_deref().and_then(ours).or(told) else {
        return Ok(Vec::new());
    };
    let Some((order, dispute)) = lone.order.clone().zip(item(resource, &lone)) else {
        return Ok(vec![asking((attempt, lone.order))]);
    };
    // Of a decided one the host asks for the order too: the money goes back as a refund of its own.
    let decided = dispute.state != DisputeState::Open;
    let asked = decided.then(|| asking((attempt.clone(), Some(order.clone()))));
    let notice = Notice {
        about: Subject::Attempt(attempt),
        reference: Some(order.clone()),
        report: Some(disputed(&order, &lone, dispute, resource)),
    };
    Ok([notice].into_iter().chain(asked).collect())
}

/// The dispute by itself; none where it has no id.
///
/// One that was lost counts nothing: what PayPal takes away for it, it books as a refund of the capture (the
/// event `PAYMENT.CAPTURE.REVERSED` is about one, as `PAYMENT.CAPTURE.REFUNDED` is), and the order lists it
/// as such. It must not be counted twice.
fn item(resource: &Json, lone: &Lone) -> Option<Dispute> {
    let state = state(resource);
    let claimed = resource.get("dispute_amount").and_then(money::read);
    let claimed = claimed.filter(|money| money.currency == lone.capture.amount.currency);
    let amount = claimed.map_or(lone.capture.amount.amount, |money| money.amount);
    let due = resource.get("seller_response_due_date");
    Some(Dispute {
        id: wire::word(resource.get("dispute_id"))?,
        amount: if state == DisputeState::Lost {
            0
        } else {
            amount
        },
        state,
        reason: wire::word(resource.get("reason")),
        respond_by: due.and_then(Json::text).and_then(time::parse_rfc3339),
    })
}

/// Where a dispute stands. A decision that is not known is none.
fn state(resource: &Json) -> DisputeState {
    let outcome = resource.path(&["dispute_outcome", "outcome_code"]);
    match outcome.and_then(Json::text) {
        Some("RESOLVED_BUYER_FAVOUR" | "ACCEPTED") => DisputeState::Lost,
        // PayPal pays out of its own pocket; the buyer gives up; PayPal refuses; another one goes on.
        Some(
            "RESOLVED_SELLER_FAVOUR"
            | "RESOLVED_WITH_PAYOUT"
            | "CANCELED_BY_BUYER"
            | "DENIED"
            | "NONE",
        ) => DisputeState::Won,
        _ => DisputeState::Open,
    }
}

fn disputed(order: &str, lone: &Lone, dispute: Dispute, resource: &Json) -> Report {
    let capture = &lone.capture;
    let received = if capture.taken.is_received() {
        capture.amount.amount
    } else {
        0
    };
    let mut report = capture.report(order, received, 0);
    let outcome = wire::word(resource.path(&["dispute_outcome", "outcome_code"]));
    let words = [dispute.reason.clone(), outcome];
    let words: Vec<String> = words.into_iter().flatten().collect();
    report.detail = format!("dispute {}, {}", dispute.id, words.join(", "));
    if dispute.state == DisputeState::Open {
        report.status = Status::Review;
        report.settlement = Settlement::Pending;
        report.particulars.reason = dispute.reason.clone();
    }
    report.particulars.disputes = vec![dispute];
    report
}

/// Reads a capture; none where PayPal knows none of that id.
fn capture(account: &Account, id: &str) -> Result<Option<Lone>, CallbackFailure> {
    let answer = api::get(account, &format!("/v2/payments/captures/{id}")).map_err(later)?;
    match answer.status {
        200 => match answer.json().as_ref().and_then(capture::lone) {
            Some(lone) => Ok(Some(lone)),
            None => Err(CallbackFailure::Later("the capture cannot be read".into())),
        },
        404 => Ok(None),
        _ => Err(CallbackFailure::Later(api::problem(&answer).to_string())),
    }
}

fn later(broken: Broken) -> CallbackFailure {
    match broken {
        Broken::NotSent(why) | Broken::NoAnswer(why) => CallbackFailure::Later(why),
    }
}

/// Asks for the app's webhooks: a cheap read that proves address and credentials, and finds that none
/// leads to this account, or one of another id, before a payment misses its news.
pub(crate) fn health(account: &Account) -> Condition {
    if let Err(why) = signature::simulator(&account.settings) {
        return Condition::Down(why);
    }
    let answer = match api::get(account, "/v1/notifications/webhooks") {
        Ok(answer) => answer,
        Err(Broken::NotSent(why) | Broken::NoAnswer(why)) => return Condition::Down(why),
    };
    // By its path: a proxy may stand before us under another name.
    let path = format!("/callbacks/{}", account.id);
    let ours =
        |webhook: &&Json| named(Some(webhook), "url").is_some_and(|url| url.ends_with(&path));
    let known = settings::text(&account.settings, signature::WEBHOOK_ID);
    let same = |webhook: &Json| known.is_some() && named(Some(webhook), "id") == known;
    let body = answer.json().unwrap_or(Json::Null);
    let webhooks = body.get("webhooks").map_or(&[][..], Json::items);
    match answer.status {
        200 if webhooks.iter().filter(ours).any(same) => Condition::Operational,
        200 if webhooks.iter().any(|webhook| ours(&webhook)) => Condition::Degraded(format!(
            "the webhook that leads to {path} has another id than the setting {}",
            signature::WEBHOOK_ID
        )),
        200 => Condition::Degraded(format!("no webhook of the app leads to {path}")),
        429 => Condition::Degraded("rate limited".into()),
        _ => Condition::Down(api::problem(&answer).to_string()),
    }
}

#[cfg(test)]
mod tests;
