//! Notifications of the standard webhook, and the signature inside them.
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::{
    account::Account,
    adyen::{is_captured_by_merchant, merchant_account, sessions, wire},
    config::Environment,
    money::{Amount, Money},
    session::{Happened, Session, State},
    vendor::Event,
};

/// The card schemes' code of a dispute here: fraud, the card not being present.
const CHARGEBACK: &str = "10.4";

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
    let payment = wire::psp_reference(session);
    let own_id = event.id.trim_start_matches("evt_");
    let own_id = own_id.get(..16).unwrap_or(own_id).to_uppercase();
    let mut additional = Map::new();
    if item.of_payment {
        let page = if session.reference.starts_with(sessions::PREFIX) {
            "checkoutSessionId"
        } else {
            "paymentLinkId"
        };
        additional.insert(page.into(), session.reference.as_str().into());
        match session.method.as_str() {
            "credit_card" => additional.insert("cardSummary".into(), wire::CARD.into()),
            "ideal" if item.success => {
                additional.insert("iDealConsumerBIC".into(), "TESTNL01".into())
            }
            _ => None,
        };
        if session.held {
            additional.insert("fraudManualReview".into(), "true".into());
            additional.insert("fraudResultType".into(), "AMBER".into());
        }
    }
    if let (Happened::Disputed | Happened::DisputeWon, Some(dispute)) =
        (event.happened, session.newest_dispute())
    {
        let ends = wire::time(dispute.respond_by);
        additional.insert("chargebackReasonCode".into(), CHARGEBACK.into());
        additional.insert("defensePeriodEndsAt".into(), ends.into());
        let status = match event.happened {
            Happened::Disputed => "Undefended",
            _ => "Won",
        };
        additional.insert("disputeStatus".into(), status.into());
    }
    let live = account.settings.environment == Environment::Live;
    let psp_reference = match &item.own {
        Some(own) => own,
        // A try that was refused is a payment of its own.
        None if item.of_payment && item.success => payment,
        None => &own_id,
    };
    Some(json!({
        "live": live.to_string(),
        "notificationItems": [{ "NotificationRequestItem": {
            "additionalData": additional,
            "amount": wire::sum(&item.amount),
            "eventCode": item.code,
            "eventDate": wire::time(event.at),
            "merchantAccountCode": merchant_account(&account.settings),
            "merchantReference": item.reference.as_deref().unwrap_or(&session.attempt_id),
            "originalReference": if item.of_payment { "" } else { payment },
            "paymentMethod": wire::brand(&session.method),
            "pspReference": psp_reference,
            "reason": item.reason,
            "success": item.success.to_string(),
        } }],
    }))
}

struct NotificationItem {
    code: &'static str,
    success: bool,
    reason: &'static str,
    amount: Money,
    /// Whether the item is about the payment itself, not about a modification.
    of_payment: bool,
    /// The modification's own psp reference, where more than one item is about it.
    own: Option<String>,
    /// The merchant's reference of the modification, where it has one.
    reference: Option<String>,
}

fn told(session: &Session, happened: Happened) -> Option<NotificationItem> {
    let received = session.received.as_ref().unwrap_or(&session.due).clone();
    let of_payment = |code, success, reason| NotificationItem {
        code,
        success,
        reason,
        amount: received.clone(),
        of_payment: true,
        own: None,
        reference: None,
    };
    let modified = |code, amount: Money| NotificationItem {
        code,
        success: true,
        reason: "",
        amount,
        of_payment: false,
        own: None,
        reference: None,
    };
    Some(match happened {
        Happened::Opened | Happened::RefundPending => return None,
        Happened::InReview if !session.held => modified("MANUAL_REVIEW_ACCEPT", received),
        Happened::Captured if is_captured_by_merchant(&session.method) => {
            modified("CAPTURE", received)
        }
        Happened::Authorised | Happened::InReview | Happened::Captured => {
            // Of a card: the authorisation's code, the last four digits and the month of expiry.
            let is_card = session.method == "credit_card";
            let reason = if is_card { "033899:1111:03/2030" } else { "" };
            of_payment("AUTHORISATION", true, reason)
        }
        // What was cancelled had been approved before.
        Happened::Declined if session.state == State::Closed => {
            let technical = session.extra.contains_key(wire::VOIDED);
            let code = if technical {
                "TECHNICAL_CANCEL"
            } else {
                "CANCELLATION"
            };
            modified(code, session.due.clone())
        }
        Happened::Declined => of_payment("AUTHORISATION", false, "Refused"),
        // The capture was no more possible; the authorisation stays.
        Happened::CaptureRefused => NotificationItem {
            success: false,
            reason: "Insufficient balance on payment",
            ..modified("CAPTURE", session.due.clone())
        },
        // The document "Webhook structure and types": an authorisation that was not captured in time.
        Happened::Voided => modified("EXPIRE", session.due.clone()),
        Happened::Refunded => refund("REFUND", session)?,
        Happened::RefundFailed if session.newest_refund()?.made => {
            refund("REFUND_FAILED", session)?
        }
        // It never went out.
        Happened::RefundFailed => NotificationItem {
            success: false,
            reason: "Insufficient balance on payment",
            ..refund("REFUND", session)?
        },
        Happened::Disputed => dispute("CHARGEBACK", session)?,
        Happened::DisputeWon => dispute("CHARGEBACK_REVERSED", session)?,
        // The money went when the chargeback came; that it stays away is told by nothing else.
        Happened::DisputeLost => return None,
    })
}

/// Of one refund alone, under its own psp reference.
fn refund(code: &'static str, session: &Session) -> Option<NotificationItem> {
    let refund = session.newest_refund()?;
    let asked = refund.asked.as_ref();
    Some(NotificationItem {
        reference: asked.and_then(|asked| asked.note.clone()),
        ..of_part(code, session, &refund.id, refund.amount)?
    })
}

fn dispute(code: &'static str, session: &Session) -> Option<NotificationItem> {
    let dispute = session.newest_dispute()?;
    of_part(code, session, &dispute.id, dispute.amount)
}

fn of_part(
    code: &'static str,
    session: &Session,
    id: &str,
    value: Amount,
) -> Option<NotificationItem> {
    let money = session.received.as_ref().unwrap_or(&session.due);
    let currency = money.currency.clone();
    Some(NotificationItem {
        code,
        success: true,
        reason: "",
        amount: Money { value, currency },
        of_payment: false,
        own: Some(id.to_owned()),
        reference: None,
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
