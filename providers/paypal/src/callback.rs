//! Webhooks: the events that matter, and the facts that they prove.
//!
//! [`signature`] has verified that PayPal sent the event. But the signature only covers a CRC-32 of the body, and
//! anyone who has seen one delivery can construct another body with the same checksum. So no event proves a
//! capture: events about captures and refunds make the host query the order. An approval is reported, because it
//! moves no money and the following capture reads the order first. Disputes are reported only here, with the
//! capture's amount from PayPal's API, because an order does not contain them.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Broken;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Condition, Dispute, DisputeState,
    Notice, Report, Settlement, Status, Subject, Verb,
};
use kassette_plugin::{settings, time};

use crate::capture::{self, Lone};
use crate::wire::{self, CLOSED, Phase};
use crate::{api, dispute, signature};

/// Maximum age of an approval that is reported, in milliseconds. PayPal retries a delivery for three days; a
/// delivery that is resent manually later only makes the host query.
const OLDEST: u64 = 4 * 86_400_000;

/// Length of an attempt id, in characters.
const ATTEMPT: usize = 32;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The payer has approved; the event contains the order.
    Approved,
    /// An order or a capture has changed; the order contains the result.
    Changed,
    /// The payer disputes the payment, or the dispute was decided; the order does not contain this.
    Disputed,
    /// An unknown event.
    Unknown,
}

/// Kind of the event with this name. An undocumented event makes the host query if it names an attempt.
fn kind(event: &str) -> Kind {
    match event {
        "CHECKOUT.ORDER.APPROVED" => Kind::Approved,
        _ if event.starts_with("CUSTOMER.DISPUTE.") => Kind::Disputed,
        _ if event.starts_with("PAYMENT.CAPTURE.") || event.starts_with("PAYMENT.REFUND.") => {
            Kind::Changed
        }
        "CHECKOUT.PAYMENT-APPROVAL.REVERSED" => Kind::Changed,
        _ => Kind::Unknown,
    }
}

/// Verifies and parses one webhook. Events about payments of other software are acknowledged: other software may
/// use the same app, and PayPal would hold back its deliveries.
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

/// Parses an event after verification.
pub(crate) fn read_event(account: &Account, body: &[u8]) -> Result<CallbackReply, CallbackFailure> {
    let event = Json::parse(body).unwrap_or(Json::Null);
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
            match lone {
                Some(lone) => {
                    let ours = lone.attempt.as_deref().and_then(ours);
                    let ours = ours.map(|attempt| asking((attempt, lone.order)));
                    ours.into_iter().collect()
                }
                // The host may know the capture by its id.
                None => vec![Notice {
                    about: Subject::Reference(id),
                    reference: None,
                    report: None,
                }],
            }
        }
    };
    Ok(acknowledged(notices))
}

/// A notice without a report, which makes the host query the attempt. Contains the order's id if it is known.
fn asking((attempt, order): (String, Option<String>)) -> Notice {
    Notice {
        about: Subject::Attempt(attempt),
        reference: order,
        report: None,
    }
}

/// Id of the order that an event contains, or that its capture refers to.
fn order_of(resource: &Json) -> Option<String> {
    let id = match resource.get("purchase_units") {
        Some(_) => resource.get("id"),
        None => resource.path(&["supplementary_data", "related_ids", "order_id"]),
    };
    let id = id?.text().filter(|id| wire::is_id(id))?;
    Some(id.to_owned())
}

/// Kind, subject and resource of an event. `None` if it does not matter, or is about payments of other software
/// that uses the same app.
fn about(event: &Json) -> Option<(Kind, Found, &Json)> {
    let resource = event.get("resource")?;
    let kind = kind(
        event
            .get("event_type")
            .and_then(Json::text)
            .unwrap_or_default(),
    );
    let found = subject(resource)?;
    let lone = kind == Kind::Unknown && matches!(found, Found::Capture(_));
    (!lone).then_some((kind, found, resource))
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

/// Subject of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// The id of the attempt.
    Ours(String),
    /// Only the id of the capture.
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
    const CAPTURES: &str = "/v2/payments/captures/";
    let refunded = wire::linked(resource, "up", CAPTURES).or_else(|| related(resource));
    let names = [
        named(unit.first(), "custom_id"),
        named(unit.first(), "invoice_id"),
        named(Some(resource), "custom_id"),
        // A refund's `invoice_id` is the refund order's id, which has the same form as an attempt id.
        named(Some(resource), "invoice_id").filter(|_| refunded.is_none()),
        named(disputed.first(), "custom"),
        named(disputed.first(), "invoice_number"),
    ];
    if names.iter().any(Option::is_some) {
        return names.into_iter().flatten().find_map(ours).map(Found::Ours);
    }
    let capture = match disputed.first() {
        Some(_) => seller_transaction(resource),
        None => refunded.or_else(|| wire::linked(resource, "self", CAPTURES)),
    };
    capture.map(Found::Capture)
}

/// Id of the capture that a refund or a reversal refers to.
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

/// The attempt id in one of PayPal's custom fields, with or without the suffix of a closed order.
fn ours(name: &str) -> Option<String> {
    let id = name.strip_suffix(CLOSED).unwrap_or(name);
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (id.len() == ATTEMPT && id.bytes().all(digit)).then(|| id.to_owned())
}

/// Report about an approval. `None` for other events and for closed orders.
fn approval(kind: Kind, resource: &Json) -> Option<Report> {
    let order = (kind == Kind::Approved).then(|| wire::order(resource, None))??;
    // A closed order needs no report: the host queries.
    (order.phase == Phase::Approved && !order.closed).then(|| order.report())?
}

/// Notices about a dispute. It contains the transaction's id; the capture with this id contains the attempt, the
/// order and the amount.
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
    // If the dispute has ended without a known decision, read it from PayPal's API.
    let asked = match dispute::is_undecided(resource) {
        true => dispute::fetch(account, resource).unwrap_or(None),
        false => None,
    };
    let resource = asked.as_ref().unwrap_or(resource);
    let told = dispute::read(resource, &lone.capture);
    let Some((order, dispute)) = lone.order.clone().zip(told) else {
        return Ok(vec![asking((attempt, lone.order))]);
    };
    // After a decision the host queries the order too, because PayPal books the returned money as a separate
    // refund.
    let decided = dispute.state != DisputeState::Open;
    let asked = decided.then(|| asking((attempt.clone(), Some(order.clone()))));
    let notice = Notice {
        about: Subject::Attempt(attempt),
        reference: Some(order.clone()),
        report: Some(disputed(&order, &lone, dispute, resource)),
    };
    Ok([notice].into_iter().chain(asked).collect())
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

/// Reads a capture. `None` if PayPal does not know the id, or the answer cannot be parsed.
fn capture(account: &Account, id: &str) -> Result<Option<Lone>, CallbackFailure> {
    let answer = api::get(account, &format!("/v2/payments/captures/{id}")).map_err(later)?;
    match answer.status {
        200 => Ok(answer.json().as_ref().and_then(capture::lone)),
        404 => Ok(None),
        _ => Err(CallbackFailure::Later(api::problem(&answer).to_string())),
    }
}

fn later(broken: Broken) -> CallbackFailure {
    match broken {
        Broken::NotSent(why) | Broken::NoAnswer(why) => CallbackFailure::Later(why),
    }
}

/// Lists the app's webhooks. This verifies the address and the credentials, and detects a missing webhook or a
/// wrong webhook id before a notification is lost.
pub(crate) fn health(account: &Account) -> Condition {
    if let Err(why) = signature::simulator(&account.settings) {
        return Condition::Down(why);
    }
    let answer = match api::get(account, "/v1/notifications/webhooks") {
        Ok(answer) => answer,
        Err(Broken::NotSent(why) | Broken::NoAnswer(why)) => return Condition::Down(why),
    };
    // Compares only the path, because a proxy may use another host name.
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
