//! Notifications of the standard webhook. Signatures are verified before the content is used.
//!
//! Adyen signs no time, so an old notification cannot be distinguished from a new one: a replay can only repeat a
//! statement that was true.
use kassette_plugin::json::Json;
use kassette_plugin::provider::secrets;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Environment, Notice, Subject, Verb,
};

use crate::api;
use crate::events;
use crate::notification::{self, Forged, HMAC_KEY, Item, Read};
use crate::wire;

/// Maximum number of notices that the host accepts in one reply.
const MOST_NOTICES: usize = 256;

/// Verifies and parses one notification. Fails only if the request is not a POST, if a signature is wrong, or if a
/// retry may help (`Later`): Adyen retries a rejected notification for thirty days and holds back the following ones.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    if !secrets::ready(HMAC_KEY) {
        return Err(CallbackFailure::Later(format!(
            "secret {HMAC_KEY} is missing"
        )));
    }
    let merchant_account = api::merchant_account(account);
    let body = Json::parse(&incoming.body).unwrap_or(Json::Null);
    let items = body.get("notificationItems").map_or(&[][..], Json::items);
    let items = items
        .iter()
        .map(|item| notification::read(item, merchant_account))
        .collect::<Result<Vec<Read>, Forged>>()
        .map_err(|Forged| CallbackFailure::Forged("a signature is wrong".into()))?;
    let live = body.get("live").and_then(Json::flag);
    let same_world = live.is_none_or(|live| live == (account.environment == Environment::Live));
    let mut notices = Vec::new();
    for item in items.into_iter().filter(|_| same_world) {
        match item {
            Read::Signed(item) => notices.extend(about(account, &item, merchant_account)?),
            Read::Unsigned(about) => notices.extend(about.map(asking)),
            Read::Nothing => {}
        }
    }
    if notices.len() > MOST_NOTICES {
        return Err(CallbackFailure::Later("too many items at once".into()));
    }
    Ok(CallbackReply {
        notices,
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    })
}

/// Notices from a signed item. Items about payments of the merchant's other systems are ignored. An item without a
/// merchant reference is about the payment whose id it contains.
fn about(
    account: &Account,
    item: &Item,
    merchant_account: &str,
) -> Result<Vec<Notice>, CallbackFailure> {
    if item.merchant_account != merchant_account {
        return Ok(Vec::new());
    }
    let mut notices = events::notices(account, item)?;
    if wire::is_ours(&item.reference) {
        return Ok(notices);
    }
    let payment = [&item.original, &item.psp_reference];
    let payment = payment.into_iter().find(|id| wire::is_plain(id));
    let Some(payment) = payment.filter(|_| item.reference.is_empty()) else {
        return Ok(Vec::new());
    };
    for notice in &mut notices {
        notice.about = Subject::Reference(payment.clone());
    }
    Ok(notices)
}

/// A notice without a report, which makes the host query.
fn asking(about: Subject) -> Notice {
    Notice {
        about,
        reference: None,
        report: None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::notification::tests::{ATTEMPT, Keyed, item_of, signed_item};
    use crate::tests::account;
    use kassette_plugin::encode;
    use kassette_plugin::provider::Report;
    use kassette_plugin::provider::secrets::Algorithm;
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

    /// Reports from a notification with these items.
    pub(crate) fn heard(account: &Account, items: &[Value]) -> Vec<Report> {
        let answer = with_host(Keyed, || read(account, &incoming(items))).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
        let report = |notice: Notice| {
            assert_eq!(notice.about, Subject::Attempt(ATTEMPT.into()));
            notice.report
        };
        answer.notices.into_iter().filter_map(report).collect()
    }

    /// Reports from an event about the test attempt.
    pub(crate) fn told(event: &str, success: bool, original: &str, extra: Value) -> Vec<Report> {
        heard(&account(), &[signed_item(event, success, original, extra)])
    }

    #[test]
    fn other_events_and_other_systems_payments_are_acknowledged_and_ignored() {
        for (event, success) in [
            ("REPORT_AVAILABLE", true),
            ("CANCELLATION", false),
            ("TECHNICAL_CANCEL", false),
            ("MANUAL_REVIEW_ACCEPT", true),
            ("SOMETHING_NEW", true),
        ] {
            assert_eq!(told(event, success, "", json!({})), [], "{event}");
        }
        let upper = "A".repeat(32);
        for reference in ["order-1", "shop:123", "a:b:c", &upper] {
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
    fn what_is_no_notification_of_this_environment_is_acknowledged() {
        let item = signed_item("CAPTURE", true, "882617898204183A", json!({}));
        let mut live = incoming(std::slice::from_ref(&item));
        live.body = json!({ "live": "true", "notificationItems": [item] })
            .to_string()
            .into_bytes();
        let mut no_json = incoming(&[]);
        no_json.body = b"{".to_vec();
        for odd in [incoming(&[]), incoming(&[json!({})]), live, no_json] {
            let reply = with_host(Keyed, || read(&account(), &odd)).unwrap();
            assert_eq!((reply.status, reply.notices), (200, Vec::new()));
        }
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(&[])
        };
        let answer = with_host(Keyed, || read(&account(), &get));
        assert!(matches!(answer, Err(CallbackFailure::Malformed(_))));
    }

    #[test]
    fn an_unsigned_item_is_acknowledged_and_hides_no_signed_one() {
        let mut report = signed_item("REPORT_AVAILABLE", true, "", json!({}));
        let fields = &mut report["NotificationRequestItem"];
        fields["additionalData"] = Value::Null;
        fields["merchantReference"] = json!("");
        fields["pspReference"] = json!("settlement_report.csv");
        let signed = signed_item("CAPTURE", true, "882617898204183A", json!({}));
        assert_eq!(heard(&account(), &[report.clone(), signed]).len(), 1);
        assert_eq!(heard(&account(), &[report]), []);
        // An unsigned item about an attempt of this gateway only makes the host query.
        let mut expire = signed_item("EXPIRE", true, "882617898204183A", json!({}));
        expire["NotificationRequestItem"]["additionalData"] = Value::Null;
        let reply = with_host(Keyed, || read(&account(), &incoming(&[expire]))).unwrap();
        assert_eq!(reply.notices, [asking(Subject::Attempt(ATTEMPT.into()))]);
    }

    #[test]
    fn live_may_be_a_flag_or_missing() {
        for live in [json!(false), json!("false"), Value::Null] {
            let item = signed_item("CAPTURE", true, "882617898204183A", json!({}));
            let mut incoming = incoming(&[]);
            incoming.body = json!({ "live": live, "notificationItems": [item] })
                .to_string()
                .into_bytes();
            let reply = with_host(Keyed, || read(&account(), &incoming)).unwrap();
            assert_eq!(reply.notices.len(), 1, "{live}");
        }
    }

    #[test]
    fn a_signed_item_without_a_reference_is_about_the_payment_that_it_names() {
        let item = item_of("", "CANCELLATION", true, "882617898204183A", json!({}));
        let reply = with_host(Keyed, || read(&account(), &incoming(&[item]))).unwrap();
        let [notice] = reply.notices.as_slice() else {
            panic!("{:?}", reply.notices)
        };
        assert_eq!(notice.about, Subject::Reference("882617898204183A".into()));
        assert!(notice.report.is_some());
    }

    #[test]
    fn without_the_key_adyen_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(&[]));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }
}
