//! Webhooks: signed, but without amounts, so that they only make the host ask. What remains is to say
//! which order they are about.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, Verb,
};

use crate::{api, signature, wire};

/// Events after which an order may stand elsewhere.
const ORDER_EVENTS: [&str; 6] = [
    "ORDER_COMPLETED",
    "ORDER_AUTHORISED",
    "ORDER_CANCELLED",
    "ORDER_FAILED",
    "ORDER_PAYMENT_DECLINED",
    "ORDER_PAYMENT_FAILED",
];

/// Events about a dispute.
const DISPUTE_EVENTS: [&str; 4] = [
    "DISPUTE_ACTION_REQUIRED",
    "DISPUTE_UNDER_REVIEW",
    "DISPUTE_WON",
    "DISPUTE_LOST",
];

/// Verifies and reads one webhook.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    signature::verify(account, incoming)?;
    let event = Json::parse(&incoming.body)
        .ok_or_else(|| CallbackFailure::Malformed("the body is no JSON".into()))?;
    let text = |name| event.get(name).and_then(Json::text);
    let id = |name| text(name).filter(|id| wire::is_id(id));
    // What is none of ours is acknowledged all the same: Revolut would only repeat it.
    let about = match text("event") {
        Some(name) if ORDER_EVENTS.contains(&name) => match id("order_id") {
            Some(order) => order_of(account, order, text("merchant_order_ext_ref"))?,
            None => None,
        },
        Some(name) if DISPUTE_EVENTS.contains(&name) => match id("dispute_id") {
            Some(dispute) => disputed_order(account, dispute)?,
            None => None,
        },
        _ => None,
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

/// Our own id where the event carries it: it is known to the host even where the answer to `start` was
/// lost. Else the order may be a refund's, which only says itself what it gives back, or another shop's.
fn order_of(
    account: &Account,
    order: &str,
    reference: Option<&str>,
) -> Result<Option<Subject>, CallbackFailure> {
    if let Some(attempt) = reference.filter(|reference| is_attempt(reference)) {
        return Ok(Some(Subject::Attempt(attempt.to_owned())));
    }
    let body = fetch(account, &format!("/api/orders/{order}"))?;
    let Some(order) = body.as_deref().and_then(wire::order) else {
        return Ok(None);
    };
    let attempt = order.attempt.filter(|attempt| is_attempt(attempt));
    let given_back = order.related.map(Subject::Reference);
    Ok(given_back.or_else(|| attempt.map(Subject::Attempt)))
}

fn disputed_order(account: &Account, dispute: &str) -> Result<Option<Subject>, CallbackFailure> {
    let body = fetch(account, &format!("/api/disputes/{dispute}"))?;
    let dispute = body.as_deref().and_then(wire::dispute);
    Ok(dispute.map(|dispute| Subject::Reference(dispute.order)))
}

/// None where Revolut has nothing to tell; without an answer it is asked to send the webhook again.
fn fetch(account: &Account, path: &str) -> Result<Option<Vec<u8>>, CallbackFailure> {
    match api::get(account, path) {
        Ok(answer) if answer.status == 200 => Ok(Some(answer.body)),
        Ok(answer) if matches!(answer.status, 403 | 404) => Ok(None),
        Ok(answer) => Err(CallbackFailure::Later(wire::problem(&answer).to_string())),
        Err(broken) => Err(CallbackFailure::Later(format!("{broken:?}"))),
    }
}

/// Whether a merchant's reference has the form of our attempts' ids: there may be other shops on the
/// same account.
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

    /// Signs as [`Keyed`] does and answers every request with this.
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
        for event in ORDER_EVENTS {
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
    fn other_events_are_acknowledged_and_ignored() {
        for event in [
            "PAYOUT_COMPLETED",
            "SUBSCRIPTION_OVERDUE",
            "ORDER_PAYMENT_AUTHENTICATED",
            "SOMETHING_NEW",
        ] {
            let event =
                json!({ "event": event, "order_id": ID, "merchant_order_ext_ref": ATTEMPT });
            assert_eq!(read_with(Vendor(500, json!(null)), &event), Ok(Vec::new()));
        }
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
        // Another shop's order at the same account.
        let event = json!({ "event": "ORDER_COMPLETED", "order_id": ID, "merchant_order_ext_ref": "shop:123" });
        let read = read_with(Vendor(200, told("completed")), &event);
        assert_eq!(read, Ok(Vec::new()));
    }

    #[test]
    fn what_is_signed_but_no_json_is_malformed() {
        let incoming = signed(NOW, b"{");
        let read = with_host(Vendor(500, json!(null)), || read(&account(), &incoming));
        assert!(matches!(read, Err(CallbackFailure::Malformed(_))));
    }
}
