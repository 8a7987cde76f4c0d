//! Webhooks: what is told, how it is signed, and telling it again when the merchant asks for it by id.
//!
//! An event's id names its order and what happened, so that it can be told again after a restart; an id
//! of something that never happened is unknown.
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    account::Account,
    money::Amount,
    paypal::{ids, time, wire},
    session::{Happened, Session, State},
    vendor::{Event, Message},
};

const ALGORITHM: &str = "SHA256withRSA";
const CERTIFICATE: &str =
    "https://api.paypal.example/v1/notifications/certs/CERT-360caa42-fca2a594";

/// What is told, each with the letter that stands for it in an event's id.
const TOLD: [(Happened, char); 6] = [
    (Happened::Authorised, 'A'),
    (Happened::Declined, 'D'),
    (Happened::InReview, 'P'),
    (Happened::Captured, 'C'),
    (Happened::Refunded, 'R'),
    (Happened::Disputed, 'U'),
];

/// The callback about an event; none where PayPal tells nothing of it.
pub(crate) fn event(account: &Account, event: &Event<'_>) -> Option<Message> {
    let (_, letter) = TOLD.iter().find(|(told, _)| *told == event.happened)?;
    let id = format!("WH{}{}{letter}", event.session.reference, event.at);
    let told = tell(account, &id, event.happened, event.at, event.session);
    Some(Message::json(&told))
}

/// The event of that id, where it happened.
pub(crate) fn of_id(account: &Account, id: &str) -> Option<Value> {
    let (order, rest) = id.strip_prefix("WH")?.split_at_checked(ids::LENGTH)?;
    let letter = rest.chars().last()?;
    let (happened, _) = *TOLD.iter().find(|(_, known)| *known == letter)?;
    let at = rest.strip_suffix(letter)?.parse().ok()?;
    let session = account.by_reference(order)?;
    let then = as_it_stood(session, happened)?;
    Some(tell(account, id, happened, at, &then))
}

/// The payment as it stood when that happened; none where it did not.
fn as_it_stood(session: Session, happened: Happened) -> Option<Session> {
    let was_held = session.extra.contains_key(wire::TO_BE_HELD);
    let captured = session.received.is_some();
    let approved = captured || session.state == State::Authorised;
    let before = Session {
        returned: Amount(0),
        disputed: false,
        held: false,
        ..session.clone()
    };
    match happened {
        Happened::Authorised if approved => Some(Session {
            state: State::Authorised,
            received: None,
            ..before
        }),
        Happened::Declined if session.state == State::Declined => Some(session),
        Happened::InReview if captured && was_held => Some(Session {
            state: State::Captured,
            held: true,
            ..before
        }),
        Happened::Captured if captured && !session.held => Some(Session {
            state: State::Captured,
            ..before
        }),
        Happened::Refunded if session.returned.0 > 0 => Some(session),
        Happened::Disputed if session.disputed => Some(session),
        _ => None,
    }
}

fn tell(account: &Account, id: &str, happened: Happened, at: u64, session: &Session) -> Value {
    let (name, kind, resource) = match happened {
        Happened::Opened | Happened::Authorised => (
            "CHECKOUT.ORDER.APPROVED",
            "checkout-order",
            wire::order(account, session, at),
        ),
        Happened::Declined => (
            "CHECKOUT.PAYMENT-APPROVAL.REVERSED",
            "payment-approval",
            wire::reversal(session),
        ),
        Happened::InReview => ("PAYMENT.CAPTURE.PENDING", "capture", wire::capture(session)),
        Happened::Captured => (
            "PAYMENT.CAPTURE.COMPLETED",
            "capture",
            wire::capture(session),
        ),
        Happened::Refunded => ("PAYMENT.CAPTURE.REFUNDED", "refund", wire::refund(session)),
        Happened::Disputed => (
            "CUSTOMER.DISPUTE.CREATED",
            "dispute",
            wire::dispute(session),
        ),
    };
    json!({
        "id": id,
        "event_version": "1.0",
        "create_time": time::rfc3339(at),
        "resource_type": kind,
        "resource_version": "2.0",
        "event_type": name,
        "summary": "simulated",
        "resource": resource,
        "links": [],
    })
}

/// The headers of a delivery. PayPal signs with a certificate's key; as merchants here read the event
/// back and verify nothing themselves, a MAC stands in its place.
pub(crate) fn sign(
    account: &str,
    secret: &str,
    body: &str,
    now_ms: u64,
) -> Vec<(&'static str, String)> {
    let time = time::rfc3339(now_ms);
    let digest = hex::encode(Sha256::digest(format!("{account}{time}{body}").as_bytes()));
    let transmission = format!("t{}", digest.get(..32).unwrap_or_default());
    // A key of any length is taken, so that this cannot fail; no signature is refused anyway.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return Vec::new();
    };
    mac.update(format!("{transmission}|{time}|{body}").as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    vec![
        ("paypal-transmission-id", transmission),
        ("paypal-transmission-time", time),
        ("paypal-transmission-sig", signature),
        ("paypal-auth-algo", ALGORITHM.to_owned()),
        ("paypal-cert-url", CERTIFICATE.to_owned()),
    ]
}
