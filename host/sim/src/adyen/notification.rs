//! Notifications of the standard webhook, and the signature inside them.
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::{
    account::Account,
    adyen::{is_captured_by_merchant, merchant_account, wire},
    config::Environment,
    money::Money,
    session::{Happened, Session, State},
    vendor::Event,
};

/// What is signed of an item, in this order, with colons between.
const SIGNED: [&str; 4] = [
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
];

/// A notification about an event, unsigned; none where Adyen tells nothing.
pub(crate) fn event(account: &Account, event: &Event<'_>) -> Option<Value> {
    let session = event.session;
    let item = told(session, event.happened)?;
    let payment = session.reference.trim_start_matches("PL");
    let own_id = event.id.trim_start_matches("evt_");
    let own_id = own_id.get(..16).unwrap_or(own_id).to_uppercase();
    let mut additional = Map::new();
    if item.of_payment {
        additional.insert("paymentLinkId".into(), session.reference.as_str().into());
        if session.held {
            additional.insert("fraudManualReview".into(), "true".into());
            additional.insert("fraudResultType".into(), "AMBER".into());
        }
    }
    let live = account.settings.environment == Environment::Live;
    let psp_reference = if item.of_payment { payment } else { &own_id };
    Some(json!({
        "live": live.to_string(),
        "notificationItems": [{ "NotificationRequestItem": {
            "additionalData": additional,
            "amount": wire::sum(&item.amount),
            "eventCode": item.code,
            "eventDate": wire::time(event.at),
            "merchantAccountCode": merchant_account(&account.settings),
            "merchantReference": session.attempt_id,
            "originalReference": if item.of_payment { "" } else { payment },
            "paymentMethod": session.method,
            "pspReference": psp_reference,
            "reason": item.reason,
            "success": item.success.to_string(),
        } }],
    }))
}

struct Told {
    code: &'static str,
    success: bool,
    reason: &'static str,
    amount: Money,
    /// Whether the item is about the payment itself, not about a modification.
    of_payment: bool,
}

fn told(session: &Session, happened: Happened) -> Option<Told> {
    let received = session.received.as_ref().unwrap_or(&session.due).clone();
    let of_payment = |code, success, reason| Told {
        code,
        success,
        reason,
        amount: received.clone(),
        of_payment: true,
    };
    let modified = |code, amount: Money| Told {
        code,
        success: true,
        reason: "",
        amount,
        of_payment: false,
    };
    Some(match happened {
        Happened::Opened => return None,
        Happened::InReview if !session.held => modified("MANUAL_REVIEW_ACCEPT", received),
        Happened::Captured if is_captured_by_merchant(&session.method) => {
            modified("CAPTURE", received)
        }
        Happened::Authorised | Happened::InReview | Happened::Captured => {
            of_payment("AUTHORISATION", true, "")
        }
        // What was cancelled had been approved before.
        Happened::Declined if session.state == State::Closed => {
            modified("CANCELLATION", session.due.clone())
        }
        Happened::Declined => of_payment("AUTHORISATION", false, "Refused"),
        Happened::Refunded => modified(
            "REFUND",
            Money {
                value: session.returned,
                currency: received.currency,
            },
        ),
        Happened::Disputed => modified("CHARGEBACK", received),
    })
}

/// The same body with the signature in each item.
pub(crate) fn sealed(key: &[u8], body: &str) -> String {
    let Ok(mut notification) = serde_json::from_str::<Value>(body) else {
        return body.to_owned();
    };
    let items = notification
        .get_mut("notificationItems")
        .and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        let Some(item) = item.get_mut("NotificationRequestItem") else {
            continue;
        };
        let signature = signature(key, item);
        if let Some(additional) = item
            .get_mut("additionalData")
            .and_then(Value::as_object_mut)
        {
            additional.insert("hmacSignature".into(), signature.into());
        }
    }
    notification.to_string()
}

fn signature(key: &[u8], item: &Value) -> String {
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let mut fields: Vec<String> = SIGNED.iter().map(|name| text(item.get(name))).collect();
    fields.push(text(item.pointer("/amount/value")));
    fields.push(text(item.pointer("/amount/currency")));
    fields.push(text(item.get("eventCode")));
    fields.push(text(item.get("success")));
    // A key of any length is taken, so that this cannot fail; no signature is refused anyway.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(fields.join(":").as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Adyen's own libraries, which they test themselves with.
    #[test]
    fn the_signature_is_the_documented_one() {
        let key = hex::decode("44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056");
        let item = json!({
            "pspReference": "7914073381342284",
            "originalReference": "",
            "merchantAccountCode": "TestMerchant",
            "merchantReference": "TestPayment-1407325143704",
            "amount": { "value": 1130, "currency": "EUR" },
            "eventCode": "AUTHORISATION",
            "success": "true",
        });
        assert_eq!(
            signature(&key.unwrap(), &item),
            "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="
        );
    }
}
