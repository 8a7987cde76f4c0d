//! Webhooks: events and signatures.
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    account::Account,
    paypal::{authority::Authority, returns, time, wire},
    session::{Happened, Session},
    vendor::{Event, Message},
};

/// The webhook's id.
pub(crate) const ID: &str = "1JE4291016473214C";

pub(crate) const ALGORITHM: &str = "SHA256withRSA";
/// Path of the certificates.
pub(crate) const CERTIFICATES: &str = "/v1/notifications/certs/";

/// The callback about an event. `None` if PayPal sends none.
pub(crate) fn event(account: &Account, event: &Event<'_>) -> Option<Message> {
    let id = format!(
        "WH-{}",
        event.id.trim_start_matches("evt_").to_ascii_uppercase()
    );
    let told = tell(account, &id, event.happened, event.at, event.session)?;
    Some(Message::json(&told))
}

fn tell(
    account: &Account,
    id: &str,
    happened: Happened,
    at: u64,
    session: &Session,
) -> Option<Value> {
    let dispute = |name| {
        let dispute = session.newest_dispute()?;
        Some((name, "dispute", returns::dispute(session, dispute)))
    };
    let (name, kind, resource) = match happened {
        Happened::Opened | Happened::Authorised => (
            "CHECKOUT.ORDER.APPROVED",
            "checkout-order",
            wire::order(account, session, at),
        ),
        // No document describes a webhook about a failed refund; only the order shows it.
        Happened::CaptureRefused
        | Happened::CaptureFailed
        | Happened::RefundPending
        | Happened::RefundFailed => {
            return None;
        }
        Happened::Declined | Happened::Voided => (
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
        Happened::Refunded => {
            let refund = returns::refund(session, session.newest_refund()?);
            ("PAYMENT.CAPTURE.REFUNDED", "refund", refund)
        }
        Happened::Disputed => dispute("CUSTOMER.DISPUTE.CREATED")?,
        Happened::DisputeWon | Happened::DisputeLost => dispute("CUSTOMER.DISPUTE.RESOLVED")?,
    };
    Some(json!({
        "id": id,
        "event_version": "1.0",
        "create_time": time::rfc3339(at),
        "resource_type": kind,
        "resource_version": "2.0",
        "event_type": name,
        "summary": "simulated",
        "resource": resource,
        "links": [],
    }))
}

/// The headers of a delivery.
///
/// # Errors
/// If the delivery cannot be signed.
pub(crate) fn sign(
    account: &Account,
    secret: &str,
    body: &str,
    now_ms: u64,
) -> Result<Vec<(&'static str, String)>, String> {
    let authority = Authority::derive(secret, account.settings.environment);
    let authority = authority.map_err(|error| error.to_string())?;
    let signer = authority.signer().map_err(ToString::to_string)?;
    let base = account.api_base().ok_or("the API is not served")?;
    let time = time::rfc3339(now_ms);
    let digest = format!("{}{time}{body}", account.settings.provider_id);
    let digest = hex::encode(Sha256::digest(digest.as_bytes()));
    let transmission = format!("t{}", digest.get(..32).unwrap_or_default());
    let message = message(&transmission, &time, body.as_bytes());
    let signature = signer.sign(&message).map_err(|error| error.to_string())?;
    Ok(vec![
        ("paypal-transmission-id", transmission),
        ("paypal-transmission-time", time),
        ("paypal-transmission-sig", signature),
        ("paypal-auth-algo", ALGORITHM.to_owned()),
        (
            "paypal-cert-url",
            format!("{base}{CERTIFICATES}{}", signer.name),
        ),
    ])
}

/// The message that is signed.
pub(crate) fn message(transmission: &str, time: &str, body: &[u8]) -> String {
    format!("{transmission}|{time}|{ID}|{}", crc32fast::hash(body))
}
