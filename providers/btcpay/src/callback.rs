//! Webhooks. The signature is verified, and then they only make the host query. They contain no amounts, and no
//! time that distinguishes a redelivery.
use kassette_plugin::encode::unhex;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, read,
};

use crate::api;
use crate::wire::is_plain;

/// Secret that signs webhooks.
pub(crate) const WEBHOOK_SECRET: &str = "webhook-secret";

/// Header with the code.
const HEADER: &str = "btcpay-sig";

/// Events that do not change an invoice's status.
const SILENT: [&str; 1] = ["InvoiceCreated"];

/// Verifies and parses one webhook.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
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
    // Malformed webhooks, and webhooks about payments of other systems, are acknowledged, because the server would
    // only repeat them.
    let event = Json::parse(&incoming.body);
    let about = event.as_ref().and_then(|event| subject(account, event));
    let notice = about.map(|about| Notice {
        about,
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

/// Subject of an event: the attempt, or the invoice if the event contains no order id. `None` for events that
/// change no status, for another store, and for invoices of the store's other systems.
fn subject(account: &Account, event: &Json) -> Option<Subject> {
    let silent = |kind| SILENT.contains(&kind);
    if read::field(event, "type").is_some_and(silent) {
        return None;
    }
    let store = read::field(event, "storeId");
    if store.is_some_and(|store| store != api::store_id(account)) {
        return None;
    }
    let Some(id) = event.path(&["metadata", "orderId"]).and_then(read::word) else {
        let invoice = read::field(event, "invoiceId").filter(|id| is_plain(id))?;
        return Some(Subject::Reference(invoice.to_owned()));
    };
    let digits = id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (id.len() == 32 && digits).then(|| Subject::Attempt(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::account;
    use kassette_plugin::provider::Verb;
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    /// A host that accepts 32 bytes with the value of the message's length as its code.
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
        for kind in [
            "InvoiceSettled",
            "InvoiceExpired",
            "InvoicePaymentSettled",
            "SomethingNew",
        ] {
            assert_eq!(
                subjects(&event(kind)),
                [Subject::Attempt(ATTEMPT.into())],
                "{kind}"
            );
        }
    }

    #[test]
    fn an_event_that_names_an_invoice_alone_is_about_that_invoice() {
        for metadata in [json!({}), Value::Null] {
            let mut event = event("InvoiceSettled");
            event["metadata"] = metadata;
            assert_eq!(
                subjects(&event),
                [Subject::Reference("HMprBnL9BTXWuPvpoKBS6e".into())]
            );
        }
    }

    #[test]
    fn other_events_stores_and_invoices_are_acknowledged_and_ignored() {
        assert_eq!(subjects(&event("InvoiceCreated")), []);
        for (field, other) in [
            ("storeId", json!("other")),
            ("metadata", json!({ "orderId": "order-1" })),
            ("metadata", json!({ "orderId": "shop:123" })),
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
    fn what_is_signed_and_cannot_be_read_is_acknowledged() {
        for body in [
            json!({}),
            json!([]),
            json!("text"),
            json!({ "metadata": 1 }),
        ] {
            assert_eq!(subjects(&body), [], "{body}");
        }
        let mut odd = incoming(&json!("padded"));
        odd.body = b"unquoted".to_vec();
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(&event("InvoiceSettled"))
        };
        for odd in [odd, get] {
            let answer = with_host(Keyed, || read(&account(), &odd));
            assert_eq!(answer.unwrap().status, 200);
        }
    }

    #[test]
    fn without_the_secret_the_server_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(&event("InvoiceSettled")));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }
}
