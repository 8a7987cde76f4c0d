//! Notifications of the standard webhook: proved by their signatures before anything is believed.
//!
//! There is no time in what Adyen signs, so that an old notification cannot be told from a new one:
//! all that a repeated one can do is to say again what was true.
use kassette_plugin::json::Json;
use kassette_plugin::provider::secrets;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Environment, Verb,
};

use crate::api;
use crate::events;
use crate::notification::{self, HMAC_KEY, Item, Unbelieved};
use crate::wire;

/// Most items in one notification; Adyen sends one.
const ITEMS: usize = 64;

/// Verifies and reads one notification.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(malformed("not a POST"));
    }
    if !secrets::ready(HMAC_KEY) {
        return Err(CallbackFailure::Later(format!(
            "secret {HMAC_KEY} is missing"
        )));
    }
    let body = Json::parse(&incoming.body).ok_or_else(|| malformed("the body cannot be read"))?;
    let items = match body.get("notificationItems") {
        Some(Json::List(items)) if (1..=ITEMS).contains(&items.len()) => items,
        _ => return Err(malformed("there are no notificationItems")),
    };
    let items: Vec<Option<Item>> = items
        .iter()
        .map(notification::read)
        .collect::<Result<_, _>>()
        .map_err(|unbelieved| match unbelieved {
            Unbelieved::Forged => CallbackFailure::Forged("a signature is missing or wrong".into()),
            Unbelieved::Malformed => malformed("an item cannot be read"),
        })?;
    let live = body.get("live").and_then(Json::text);
    if live
        != Some(if account.environment == Environment::Live {
            "true"
        } else {
            "false"
        })
    {
        return Err(malformed("it is of the other environment"));
    }
    let mut notices = Vec::new();
    for item in items.iter().flatten() {
        // Payments of the merchant's other systems are told here too.
        let ours = item.merchant_account == api::merchant_account(account)
            && wire::is_ours(&item.reference);
        if ours {
            notices.extend(events::notices(account, item)?);
        }
    }
    Ok(CallbackReply {
        notices,
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    })
}

fn malformed(why: &str) -> CallbackFailure {
    CallbackFailure::Malformed(why.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::notification::tests::{ATTEMPT, Keyed, item_of, signed_item};
    use crate::tests::account;
    use kassette_plugin::encode;
    use kassette_plugin::provider::secrets::Algorithm;
    use kassette_plugin::provider::{Notice, Report, Subject};
    use kassette_plugin::testing::with_host;
    use serde_json::{Value, json};

    fn incoming(items: &[Value]) -> CallbackRequest {
        let items: Vec<&Value> = items.iter().collect();
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: Vec::new(),
            body: json!({ "live": "false", "notificationItems": items })
                .to_string()
                .into_bytes(),
        }
    }

    /// What a notification of these items reports.
    pub(crate) fn heard(account: &Account, items: &[Value]) -> Vec<Report> {
        let answer = with_host(Keyed, || read(account, &incoming(items))).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
        let report = |notice: Notice| {
            assert_eq!(notice.about, Subject::Attempt(ATTEMPT.into()));
            notice.report
        };
        answer.notices.into_iter().filter_map(report).collect()
    }

    /// What an event of our attempt reports.
    pub(crate) fn told(event: &str, success: bool, original: &str, extra: Value) -> Vec<Report> {
        heard(&account(), &[signed_item(event, success, original, extra)])
    }

    #[test]
    fn other_events_and_other_systems_payments_are_acknowledged_and_ignored() {
        for (event, success) in [
            ("REPORT_AVAILABLE", true),
            ("OFFER_CLOSED", true),
            ("CANCELLATION", false),
            ("TECHNICAL_CANCEL", false),
            ("MANUAL_REVIEW_ACCEPT", true),
            ("NOTIFICATION_OF_FRAUD", true),
            ("SOMETHING_NEW", true),
        ] {
            assert_eq!(told(event, success, "", json!({})), [], "{event}");
        }
        let upper = "A".repeat(32);
        for reference in ["order-1", "shop:123", "", "a:b:c", &upper] {
            let theirs = item_of(reference, "AUTHORISATION", true, "", json!({}));
            let ours = signed_item("CAPTURE", true, "882617898204183A", json!({}));
            assert_eq!(heard(&account(), &[theirs, ours]).len(), 1, "{reference}");
        }
    }

    #[test]
    fn news_without_an_amount_is_acknowledged() {
        let mut item = signed_item("REPORT_AVAILABLE", true, "", json!({}));
        let fields = item["NotificationRequestItem"].as_object_mut().unwrap();
        fields.remove("amount");
        let code = format!("993617898204183D::ShopECOM:{ATTEMPT}:::REPORT_AVAILABLE:true");
        let sign = || secrets::sign(HMAC_KEY, Algorithm::HmacSha256, code.as_bytes());
        let signature = encode::base64(&with_host(Keyed, sign).unwrap());
        item["NotificationRequestItem"]["additionalData"]["hmacSignature"] = json!(signature);
        assert_eq!(heard(&account(), &[item]), []);
    }

    #[test]
    fn a_refusal_whose_link_cannot_be_asked_about_comes_again() {
        let extra = json!({ "paymentLinkId": "PL61C53A8B97E6915A" });
        let item = signed_item("AUTHORISATION", false, "", extra);
        let answer = with_host(Keyed, || read(&account(), &incoming(&[item])));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }

    #[test]
    fn one_wrong_signature_spoils_the_whole() {
        let good = signed_item("CAPTURE", true, "882617898204183A", json!({}));
        let mut bad = good.clone();
        bad["NotificationRequestItem"]["amount"]["value"] = json!(1);
        let answer = with_host(Keyed, || read(&account(), &incoming(&[good, bad])));
        assert!(matches!(answer, Err(CallbackFailure::Forged(_))));
    }

    #[test]
    fn what_is_no_notification_of_this_environment_is_malformed() {
        let item = signed_item("CAPTURE", true, "882617898204183A", json!({}));
        let mut live = incoming(std::slice::from_ref(&item));
        live.body = json!({ "live": "true", "notificationItems": [item] })
            .to_string()
            .into_bytes();
        for odd in [
            incoming(&[]),
            live,
            CallbackRequest {
                verb: Verb::Get,
                ..incoming(&[])
            },
        ] {
            let answer = with_host(Keyed, || read(&account(), &odd));
            assert!(matches!(answer, Err(CallbackFailure::Malformed(_))));
        }
    }

    #[test]
    fn without_the_key_adyen_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(&[]));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }
}
