//! Events: proved by their signature before a byte of the body is believed.
//!
//! The signature covers no time, so that an event can be repeated for ever: none carries a report, and
//! a repeated one only makes the host ask what is true now.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Notice, QueryFailure, Subject, Verb,
};

use crate::query::{self, is_id};
use crate::wire;

/// The secret that signs events.
pub(crate) const SECRET: &str = "webhook-secret";

const HEADER: &str = "x-razorpay-signature";

/// What the names of events about a link begin with.
const OF_LINK: &str = "payment_link.";
/// What those begin with that hold a payment, which says nothing of its link.
const OF_PAYMENT: [&str; 2] = ["payment.", "refund."];

/// Verifies and reads one event.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    verify(incoming)?;
    let event = Json::parse(&incoming.body)
        .filter(|event| event.get("entity").and_then(Json::text) == Some("event"))
        .ok_or_else(|| CallbackFailure::Malformed("the body is no event".into()))?;
    let about = whose(account, &event)?;
    let notice = |attempt| Notice {
        about: Subject::Attempt(attempt),
        reference: None,
        report: None,
    };
    Ok(CallbackReply {
        notices: about.map(notice).into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    })
}

fn verify(incoming: &CallbackRequest) -> Result<(), CallbackFailure> {
    let code = header(&incoming.headers, HEADER)
        .filter(|code| code.len() == 64)
        .and_then(encode::unhex)
        .ok_or_else(|| CallbackFailure::Forged("there is no signature that can be read".into()))?;
    if !secrets::ready(SECRET) {
        return Err(CallbackFailure::Later(format!(
            "secret {SECRET} is missing"
        )));
    }
    if secrets::verify(SECRET, Algorithm::HmacSha256, &incoming.body, &code) {
        Ok(())
    } else {
        Err(CallbackFailure::Forged("the signature is wrong".into()))
    }
}

/// The attempt that an event is about; none for events that are not ours: of another kind, or about
/// payments that the merchant takes without us.
fn whose(account: &Account, event: &Json) -> Result<Option<String>, CallbackFailure> {
    let Some(kind) = event.get("event").and_then(Json::text) else {
        return Err(CallbackFailure::Malformed(
            "the event cannot be read".into(),
        ));
    };
    let attempt = if kind.starts_with(OF_LINK) {
        let reference = event.path(&["payload", "payment_link", "entity", "reference_id"]);
        reference.and_then(Json::text).map(str::to_owned)
    } else if OF_PAYMENT.iter().any(|start| kind.starts_with(start)) {
        match event.path(&["payload", "payment", "entity"]) {
            Some(payment) => of_payment(account, payment)?,
            None => None,
        }
    } else {
        None
    };
    Ok(attempt.filter(|attempt| is_attempt(attempt)))
}

/// A payment has the notes of its link; where it has none, its order is asked for.
fn of_payment(account: &Account, payment: &Json) -> Result<Option<String>, CallbackFailure> {
    if let Some(attempt) = wire::attempt_of(payment) {
        return Ok(Some(attempt));
    }
    let order = payment.get("order_id").and_then(Json::text);
    let Some(order) = order.filter(|id| is_id(id)) else {
        return Ok(None);
    };
    match query::attempt_of(account, order) {
        Ok(attempt) => Ok(attempt),
        Err(QueryFailure::Unavailable(why)) => Err(CallbackFailure::Later(why)),
        Err(QueryFailure::Absent) => Ok(None),
    }
}

/// The host's ids: 32 hexadecimal characters.
fn is_attempt(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::provider::Environment;
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    const ATTEMPT: &str = "00000000000000000000000000000001";

    /// A host whose code for every message is 32 times the message's length, and which knows one order
    /// of ours and one of a shop beside us.
    struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == SECRET
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            let (status, body) = match request.url.rsplit('/').next() {
                Some("order_1") => (200, json!({ "notes": [], "receipt": ATTEMPT })),
                Some("order_2") => (200, json!({ "notes": [], "receipt": "TS1989" })),
                _ => (
                    400,
                    json!({ "error": { "description": "The id provided does not exist" } }),
                ),
            };
            Ok(Response {
                status,
                headers: Vec::new(),
                body: body.to_string().into_bytes(),
            })
        }
    }

    fn account() -> Account {
        Account {
            id: "razorpay-test".into(),
            environment: Environment::Test,
            now: 0,
            callback_url: String::new(),
            settings: Vec::new(),
        }
    }

    fn incoming(event: &Value) -> CallbackRequest {
        let body = event.to_string().into_bytes();
        let length = u8::try_from(body.len() % 256).unwrap();
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![(HEADER.into(), format!("{length:02x}").repeat(32))],
            body,
        }
    }

    fn read_keyed(incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        with_host(Keyed, move || read(&account(), &incoming))
    }

    fn event(kind: &str, payload: &Value) -> Value {
        json!({ "entity": "event", "event": kind, "payload": payload })
    }

    fn paid() -> Value {
        let link = json!({ "payment_link": { "entity": { "reference_id": ATTEMPT } } });
        event("payment_link.paid", &link)
    }

    #[test]
    fn each_kind_of_event_names_the_attempt_and_makes_the_host_ask() {
        let payment = json!({ "payment": { "entity": { "id": "pay_1", "order_id": "order_1" } } });
        let noted = json!({ "payment": { "entity": {
            "id": "pay_1", "order_id": "order_0", "notes": { "attempt": ATTEMPT },
        } } });
        for event in [
            paid(),
            event("payment.authorized", &noted),
            event("payment.failed", &payment),
            event("refund.processed", &payment),
            event("payment.dispute.created", &payment),
        ] {
            let notices = read_keyed(incoming(&event)).unwrap().notices;
            let [notice] = notices.as_slice() else {
                panic!("{event}: {notices:?}")
            };
            assert_eq!(notice.about, Subject::Attempt(ATTEMPT.into()), "{event}");
            assert_eq!(notice.report, None);
        }
    }

    #[test]
    fn what_is_not_ours_is_acknowledged_and_ignored() {
        let link = json!({ "payment_link": { "entity": { "reference_id": "TS1989" } } });
        let of_order = |order: Value| json!({ "payment": { "entity": { "order_id": order } } });
        for event in [
            event("payment.captured", &of_order(json!("order_2"))),
            event("payment.captured", &of_order(json!("order_3"))),
            event("refund.processed", &of_order(json!(null))),
            event("settlement.processed", &json!({})),
            event("payment_link.paid", &link),
            event("payment.captured", &json!({})),
        ] {
            assert_eq!(read_keyed(incoming(&event)).unwrap().notices, [], "{event}");
        }
    }

    #[test]
    fn what_is_not_signed_is_a_forgery() {
        let mut changed = incoming(&paid());
        changed.body.push(b' ');
        let mut none = incoming(&paid());
        let mut two = none.clone();
        two.headers.extend(none.headers.clone());
        none.headers.clear();
        let mut short = incoming(&paid());
        short.headers = vec![(HEADER.into(), "00".into())];
        for odd in [changed, none, two, short] {
            assert!(matches!(read_keyed(odd), Err(CallbackFailure::Forged(_))));
        }
    }

    #[test]
    fn without_the_secret_the_vendor_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(&paid()));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }

    #[test]
    fn what_is_signed_but_no_event_is_malformed() {
        for odd in [json!({}), json!([]), json!({ "entity": "event" })] {
            let answer = read_keyed(incoming(&odd));
            assert!(
                matches!(answer, Err(CallbackFailure::Malformed(_))),
                "{odd}"
            );
        }
    }
}
