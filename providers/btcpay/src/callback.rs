//! Webhooks: proved by their signature, and then only a reason to ask. They name no amounts, and no
//! time that a redelivery would not renew.
use kassette_plugin::encode::unhex;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, Verb,
};

use crate::api;
use crate::wire::text;

/// The secret that signs webhooks.
pub(crate) const WEBHOOK_SECRET: &str = "webhook-secret";

/// The header that holds the code.
const HEADER: &str = "btcpay-sig";

/// Events after which an invoice may stand elsewhere.
const EVENTS: [&str; 6] = [
    "InvoiceReceivedPayment",
    "InvoicePaymentSettled",
    "InvoiceProcessing",
    "InvoiceSettled",
    "InvoiceExpired",
    "InvoiceInvalid",
];

/// Verifies and reads one webhook.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    let code = header(&incoming.headers, HEADER)
        .and_then(|value| value.strip_prefix("sha256="))
        .and_then(unhex)
        .ok_or_else(|| CallbackFailure::Forged("there is no signature that can be read".into()))?;
    if !secrets::ready(WEBHOOK_SECRET) {
        return Err(CallbackFailure::Later(format!(
            "secret {WEBHOOK_SECRET} is missing"
        )));
    }
    if !secrets::verify(WEBHOOK_SECRET, Algorithm::HmacSha256, &incoming.body, &code) {
        return Err(CallbackFailure::Forged("the signature is wrong".into()));
    }
    let event = Json::parse(&incoming.body)
        .ok_or_else(|| CallbackFailure::Malformed("the body is no JSON".into()))?;
    // What is none of ours is acknowledged all the same: the server would only repeat it.
    let matters = text(&event, "type").is_some_and(|kind| EVENTS.contains(&kind.as_str()));
    let notice = attempt(account, &event)
        .filter(|_| matters)
        .map(|attempt| Notice {
            about: Subject::Attempt(attempt),
            reference: None,
            report: None,
        });
    Ok(CallbackReply {
        notices: notice.into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

/// Our attempt; none for invoices that the store's other systems made.
fn attempt(account: &Account, event: &Json) -> Option<String> {
    let ours = event.get("storeId")?.text()? == api::store_id(account);
    let id = event.path(&["metadata", "orderId"])?.text()?;
    let digits = id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (ours && id.len() == 32 && digits).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::account;
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    /// A host whose code for every message is 32 times the message's length.
    struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == WEBHOOK_SECRET
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
    }

    const ATTEMPT: &str = "0123456789abcdef0123456789abcdef";

    fn event(kind: &str) -> Value {
        json!({
            "deliveryId": "d", "webhookId": "w", "originalDeliveryId": "d", "isRedelivery": false,
            "type": kind, "timestamp": 1_800_000_000, "storeId": "shop",
            "invoiceId": "HMprBnL9BTXWuPvpoKBS6e", "metadata": { "orderId": ATTEMPT },
        })
    }

    fn incoming(body: &Value) -> CallbackRequest {
        let body = body.to_string().into_bytes();
        let code = format!("{:02x}", body.len() % 256).repeat(32);
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![(HEADER.into(), format!("sha256={code}"))],
            body,
        }
    }

    fn subjects(body: &Value) -> Vec<Subject> {
        let answer = with_host(Keyed, || read(&account(), &incoming(body))).unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
        answer
            .notices
            .into_iter()
            .map(|notice| notice.about)
            .collect()
    }

    #[test]
    fn news_of_our_invoices_makes_the_host_ask() {
        for kind in EVENTS {
            assert_eq!(
                subjects(&event(kind)),
                [Subject::Attempt(ATTEMPT.into())],
                "{kind}"
            );
        }
    }

    #[test]
    fn other_events_stores_and_invoices_are_acknowledged_and_ignored() {
        for kind in ["InvoiceCreated", "PayoutCreated", "SomethingNew"] {
            assert_eq!(subjects(&event(kind)), [], "{kind}");
        }
        for (field, other) in [
            ("storeId", json!("other")),
            ("metadata", json!({})),
            ("metadata", json!({ "orderId": "order-1" })),
            ("metadata", json!({ "orderId": "shop:123" })),
            ("type", Value::Null),
            ("metadata", Value::Null),
        ] {
            let mut event = event("InvoiceSettled");
            event[field] = other;
            assert_eq!(subjects(&event), [], "{field}");
        }
    }

    #[test]
    fn what_is_not_signed_as_documented_is_a_forgery() {
        let good = incoming(&event("InvoiceSettled"));
        let mut changed = good.clone();
        changed.body.push(b' ');
        let mut none = good.clone();
        none.headers.clear();
        let mut two = good.clone();
        two.headers.extend(good.headers.clone());
        let with = |value: &str| CallbackRequest {
            headers: vec![(HEADER.into(), value.into())],
            ..good.clone()
        };
        for odd in [
            changed,
            none,
            two,
            with(&"0".repeat(64)),
            with("sha256="),
            with("sha256=zz"),
            with(&format!("sha1={}", "0".repeat(40))),
        ] {
            let answer = with_host(Keyed, || read(&account(), &odd));
            assert!(
                matches!(answer, Err(CallbackFailure::Forged(_))),
                "{:?}",
                odd.headers
            );
        }
    }

    #[test]
    fn what_is_signed_but_no_json_is_malformed() {
        assert_eq!(subjects(&json!({})), []);
        let mut odd = incoming(&json!("padded"));
        odd.body = b"unquoted".to_vec();
        let answer = with_host(Keyed, || read(&account(), &odd));
        assert!(matches!(answer, Err(CallbackFailure::Malformed(_))));
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(&event("InvoiceSettled"))
        };
        let answer = with_host(Keyed, || read(&account(), &get));
        assert!(matches!(answer, Err(CallbackFailure::Malformed(_))));
    }

    #[test]
    fn without_the_secret_the_server_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(&event("InvoiceSettled")));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }
}
