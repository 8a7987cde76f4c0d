//! Webhooks. They are signed but contain no amounts, so they only make the host query. This file determines the
//! order that they are about.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, read,
};

use crate::{api, signature, wire};

/// Events that may be about a refund's order; only that order itself contains the id of the refunded order.
const REFUND_EVENTS: [&str; 3] = ["ORDER_COMPLETED", "ORDER_FAILED", "ORDER_CANCELLED"];

/// Verifies and parses one webhook.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    signature::verify(account, incoming)?;
    // Malformed webhooks, and webhooks about payments of other software, are acknowledged, because Revolut would
    // only repeat them.
    let event = Json::parse(&incoming.body).unwrap_or(Json::Null);
    let text = |name| read::field(&event, name);
    let id = |name| text(name).filter(|id| wire::is_id(id));
    let about = match (id("order_id"), id("dispute_id")) {
        (Some(order), _) => {
            let name = text("event").unwrap_or_default();
            order_of(account, name, order, text("merchant_order_ext_ref"))?
        }
        (None, Some(dispute)) => disputed_order(account, dispute)?,
        (None, None) => None,
    };
    let notice = |about| Notice {
        about,
        reference: None,
        report: None,
    };
    Ok(CallbackReply {
        notices: about.map(notice).into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

/// Subject of an event about an order. The attempt's id is used if the event contains it, because the host knows
/// it even if the answer to `start` was lost. Otherwise the order may be a refund's or another shop's.
fn order_of(
    account: &Account,
    event: &str,
    order: &str,
    reference: Option<&str>,
) -> Result<Option<Subject>, CallbackFailure> {
    if let Some(attempt) = reference.filter(|reference| is_attempt(reference)) {
        return Ok(Some(Subject::Attempt(attempt.to_owned())));
    }
    if reference.is_some() && !REFUND_EVENTS.contains(&event) {
        return Ok(None);
    }
    let itself = || Some(Subject::Reference(order.to_owned()));
    if !REFUND_EVENTS.contains(&event) {
        return Ok(itself());
    }
    let Some(body) = fetch(account, &format!("/api/orders/{order}"))? else {
        return Ok(None);
    };
    let Some(order) = wire::order(&body) else {
        return Ok(itself());
    };
    let attempt = order.attempt.filter(|attempt| is_attempt(attempt));
    let given_back = order.related.map(Subject::Reference);
    Ok(given_back.or_else(|| attempt.map(Subject::Attempt)))
}

fn disputed_order(account: &Account, dispute: &str) -> Result<Option<Subject>, CallbackFailure> {
    let body = fetch(account, &format!("/api/disputes/{dispute}"))?;
    let dispute = body.as_deref().and_then(wire::dispute);
    Ok(dispute
        .and_then(|dispute| dispute.order)
        .map(Subject::Reference))
}

/// Answer to a GET. `None` if Revolut answers 403 or 404. For other failures the error makes Revolut retry the
/// webhook.
fn fetch(account: &Account, path: &str) -> Result<Option<Vec<u8>>, CallbackFailure> {
    match api::get(account, path) {
        Ok(answer) if answer.status == 200 => Ok(Some(answer.body)),
        Ok(answer) if matches!(answer.status, 403 | 404) => Ok(None),
        Ok(answer) => Err(CallbackFailure::Later(wire::problem(&answer).to_string())),
        Err(broken) => Err(CallbackFailure::Later(format!("{broken:?}"))),
    }
}

/// Whether a merchant reference has the form of an attempt id: 32 lowercase hexadecimal digits. Other shops may
/// use the same account.
fn is_attempt(reference: &str) -> bool {
    reference.len() == 32
        && reference
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::tests::{Keyed, NOW, account, signed};
    use crate::wire::tests::{ID, told};
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::provider::secrets::Algorithm;
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    const ATTEMPT: &str = "00000000000000000000000000000007";
    const OTHER: &str = "6852e9a6-5cf0-ac65-8182-6a9c251011ce";

    /// Verifies like [`Keyed`] and answers every request with this.
    struct Vendor(u16, Value);
    impl Host for Vendor {
        fn send(&mut self, _: &Request) -> Result<Response, SendFailure> {
            Ok(Response {
                status: self.0,
                headers: Vec::new(),
                body: self.1.to_string().into_bytes(),
            })
        }
        fn ready(&mut self, name: &str) -> bool {
            Keyed.ready(name)
        }
        fn sign(&mut self, name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Keyed.sign(name, algorithm, message)
        }
    }

    fn read_with(vendor: Vendor, event: &Value) -> Result<Vec<Subject>, CallbackFailure> {
        let incoming = signed(NOW, event.to_string().as_bytes());
        let answer = with_host(vendor, || read(&account(), &incoming))?;
        assert_eq!(answer.status, 200);
        assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
        Ok(answer
            .notices
            .into_iter()
            .map(|notice| notice.about)
            .collect())
    }

    #[test]
    fn our_own_reference_needs_no_question() {
        for event in ["ORDER_COMPLETED", "ORDER_AUTHORISED", "SOMETHING_NEW"] {
            let event =
                json!({ "event": event, "order_id": ID, "merchant_order_ext_ref": ATTEMPT });
            let about = read_with(Vendor(500, json!(null)), &event);
            assert_eq!(about, Ok(vec![Subject::Attempt(ATTEMPT.into())]));
        }
    }

    #[test]
    fn a_refund_leads_to_the_order_that_it_gives_back() {
        let mut refund = told("completed");
        refund["id"] = json!(OTHER);
        refund["type"] = json!("refund");
        refund["related_order_id"] = json!(ID);
        let event = json!({ "event": "ORDER_COMPLETED", "order_id": OTHER });
        let about = read_with(Vendor(200, refund), &event);
        assert_eq!(about, Ok(vec![Subject::Reference(ID.into())]));
    }

    #[test]
    fn a_dispute_leads_to_its_order() {
        let dispute = json!({
            "id": OTHER, "state": "needs_response", "amount": 4990, "currency": "EUR",
            "payment": { "id": OTHER, "order_id": ID },
        });
        let event = json!({ "event": "DISPUTE_ACTION_REQUIRED", "dispute_id": OTHER });
        let about = read_with(Vendor(200, dispute), &event);
        assert_eq!(about, Ok(vec![Subject::Reference(ID.into())]));
    }

    #[test]
    fn what_cannot_be_looked_up_now_is_sent_again() {
        let event = json!({ "event": "ORDER_COMPLETED", "order_id": OTHER, "merchant_order_ext_ref": "shop-7" });
        let asked = read_with(Vendor(500, json!(null)), &event);
        assert!(matches!(asked, Err(CallbackFailure::Later(_))));
        assert_eq!(read_with(Vendor(404, json!(null)), &event), Ok(Vec::new()));
    }

    #[test]
    fn events_of_other_things_are_acknowledged_and_ignored() {
        for event in [
            json!({ "event": "PAYOUT_COMPLETED", "payout_id": ID }),
            json!({ "event": "SUBSCRIPTION_INITIATED", "subscription_id": ID, "external_reference": ATTEMPT }),
            json!({ "event": "TransactionStateChanged", "data": { "id": ID } }),
        ] {
            assert_eq!(read_with(Vendor(500, json!(null)), &event), Ok(Vec::new()));
        }
        // An event with only an order id: the host decides whether it knows the order.
        let named = json!({ "event": "ORDER_INCREMENTAL_AUTHORISATION_DECLINED", "order_id": ID });
        let about = read_with(Vendor(500, json!(null)), &named);
        assert_eq!(about, Ok(vec![Subject::Reference(ID.into())]));
    }

    #[test]
    fn what_is_none_of_ours_is_acknowledged_and_ignored() {
        for event in [
            json!({}),
            json!([]),
            json!({ "event": "ORDER_COMPLETED", "order_id": "../x" }),
        ] {
            let read = read_with(Vendor(500, json!(null)), &event);
            assert_eq!(read, Ok(Vec::new()), "{event}");
        }
        // Another shop's order on the same account.
        let event = json!({ "event": "ORDER_COMPLETED", "order_id": ID, "merchant_order_ext_ref": "shop:123" });
        let read = read_with(Vendor(200, told("completed")), &event);
        assert_eq!(read, Ok(Vec::new()));
    }

    #[test]
    fn what_is_signed_and_cannot_be_read_is_acknowledged() {
        for body in [&b"{"[..], b"", b"[]", b"7"] {
            let incoming = signed(NOW, body);
            let read = with_host(Vendor(500, json!(null)), || read(&account(), &incoming));
            let reply = read.unwrap();
            assert_eq!((reply.status, reply.notices.len()), (200, 0));
        }
    }
}
