//! Notifications of the standard webhook, and their signatures.
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

/// The card schemes' reason code of disputes: fraud in a card-not-present payment.
const CHARGEBACK: &str = "10.4";

/// First signed fields of an item, in the order of the signature, joined with colons.
const SIGNED: [&str; 4] = [
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
];

/// A notification about an event, without signatures. `None` if Adyen sends none.
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
        // A refused authorization is a separate payment.
        None if item.of_payment && item.success => payment,
        None => &own_id,
    };
    let item = json!({ "NotificationRequestItem": {
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
    } });
    let mut items = vec![item];
    // Adyen signs no reports, and may send a report together with a payment.
    if event.id.bytes().last().is_some_and(|byte| byte % 3 == 0) {
        items.push(report(account, event.at));
    }
    Some(json!({ "live": live.to_string(), "notificationItems": items }))
}

/// Notification of a finished report: an item without a signature.
fn report(account: &Account, at: u64) -> Value {
    json!({ "NotificationRequestItem": {
        "amount": { "currency": "EUR", "value": 0 },
        "eventCode": "REPORT_AVAILABLE",
        "eventDate": wire::time(at),
        "merchantAccountCode": merchant_account(&account.settings),
        "merchantReference": "",
        "pspReference": "settlement_detail_report_batch_1.csv",
        "reason": "https://ca-test.adyen.example/reports/download/settlement_detail_report_batch_1.csv",
        "success": "true",
    } })
}

struct NotificationItem {
    code: &'static str,
    success: bool,
    reason: &'static str,
    amount: Money,
    /// Whether the item is about the payment itself, not about a modification.
    of_payment: bool,
    /// The modification's psp reference, if several items are about it.
    own: Option<String>,
    /// The merchant's reference of the modification, if any.
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
            // For a card: the authorization code, the last four digits and the expiry month.
            let is_card = session.method == "credit_card";
            let reason = if is_card { "033899:1111:03/2030" } else { "" };
            of_payment("AUTHORISATION", true, reason)
        }
        // A cancelled payment was authorized before.
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
        // The capture failed; the payment stays authorized.
        Happened::CaptureRefused => NotificationItem {
            success: false,
            reason: "Insufficient balance on payment",
            ..modified("CAPTURE", session.due.clone())
        },
        // The document "Webhook structure and types": an authorization that was not captured in time.
        Happened::Voided => modified("EXPIRE", session.due.clone()),
        Happened::CaptureFailed => modified("CAPTURE_FAILED", received),
        Happened::Refunded => refund("REFUND", session)?,
        Happened::RefundFailed if session.newest_refund()?.made => {
            refund("REFUND_FAILED", session)?
        }
        // The refund was never sent.
        Happened::RefundFailed => NotificationItem {
            success: false,
            reason: "Insufficient balance on payment",
            ..refund("REFUND", session)?
        },
        Happened::Disputed if is_inquiry(session) => dispute("REQUEST_FOR_INFORMATION", session)?,
        Happened::DisputeWon if is_inquiry(session) => {
            dispute("ISSUER_RESPONSE_TIMEFRAME_EXPIRED", session)?
        }
        Happened::Disputed => dispute("CHARGEBACK", session)?,
        Happened::DisputeWon => dispute("CHARGEBACK_REVERSED", session)?,
        // The money was withdrawn with the chargeback; no event reports that it stays withdrawn.
        Happened::DisputeLost => return None,
    })
}

/// An item about one refund, with its own psp reference.
fn refund(code: &'static str, session: &Session) -> Option<NotificationItem> {
    let refund = session.newest_refund()?;
    let asked = refund.asked.as_ref();
    Some(NotificationItem {
        reference: asked.and_then(|asked| asked.note.clone()),
        ..of_part(code, session, &refund.id, refund.amount)?
    })
}

fn is_inquiry(session: &Session) -> bool {
    session
        .newest_dispute()
        .is_some_and(|dispute| dispute.inquiry)
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

/// The body with a signature in each item.
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
    // HMAC accepts keys of any length, so this cannot fail; the empty signature would be rejected.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(fields.join(":").as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the tests of Adyen's own libraries.
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
