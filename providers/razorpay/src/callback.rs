//! Events. The signature is verified before the body is parsed.
//!
//! The signature covers no time, so an event can be replayed at any time. No event results in a report; a replay
//! only makes the host query the current state.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Notice, QueryFailure, Subject, Verb,
};

use crate::query::{self, is_id};
use crate::wire;

/// Secret that signs events.
pub(crate) const SECRET: &str = "webhook-secret";

const HEADER: &str = "x-razorpay-signature";

/// Verifies and parses one event. Malformed events, and events about payments of other software, are acknowledged,
/// because Razorpay disables a webhook that rejects deliveries.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    verify(incoming)?;
    let payload = Json::parse(&incoming.body).and_then(|event| event.get("payload").cloned());
    let about = match payload {
        Some(payload) => subject(account, &payload)?,
        None => None,
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

/// Subject of an event of any type. `None` if it contains nothing that could belong to this gateway. An event
/// without an attempt may contain a link or a payment that the host knows.
fn subject(account: &Account, payload: &Json) -> Result<Option<Subject>, CallbackFailure> {
    let entity = |name| payload.path(&[name, "entity"]);
    let field = |name, field| entity(name)?.get(field)?.text();
    let link = field("payment_link", "reference_id").filter(|id| !id.is_empty());
    let noted = ["payment", "order"].map(|name| entity(name).and_then(wire::attempt_of));
    let mut named = link
        .map(str::to_owned)
        .into_iter()
        .chain(noted.into_iter().flatten())
        .peekable();
    // If Razorpay omits a payment's notes, the payment's order contains the attempt.
    let order = field("payment", "order_id").filter(|id| is_id(id));
    if named.peek().is_some() {
        return Ok(named.find(|id| is_attempt(id)).map(Subject::Attempt));
    }
    if let Some(order) = order {
        let attempt = of_order(account, order)?;
        return Ok(attempt.filter(|id| is_attempt(id)).map(Subject::Attempt));
    }
    let known = [
        field("payment_link", "id"),
        field("payment", "id"),
        field("refund", "payment_id"),
        field("dispute", "payment_id"),
    ];
    let known = known.into_iter().flatten().find(|id| is_id(id));
    Ok(known.map(|id| Subject::Reference(id.to_owned())))
}

fn of_order(account: &Account, order: &str) -> Result<Option<String>, CallbackFailure> {
    match query::attempt_of(account, order) {
        Ok(attempt) => Ok(attempt),
        Err(QueryFailure::Unavailable(why)) => Err(CallbackFailure::Later(why)),
        Err(QueryFailure::Absent) => Ok(None),
    }
}

/// Whether a text has the form of the host's ids: 32 lowercase hexadecimal digits.
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

    /// A host that accepts 32 bytes with the value of the message's length as its code, and knows two orders: one
    /// of the test attempt and one of another shop.
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
            // Not in Razorpay's documented format. A rejection would make Razorpay disable the webhook.
            json!({}),
            json!([]),
            json!({ "entity": "event" }),
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
    fn what_is_signed_and_no_json_is_acknowledged() {
        let mut odd = incoming(&json!({}));
        odd.body = b"{{".to_vec();
        assert_eq!(read_keyed(odd).unwrap().notices, []);
    }

    #[test]
    fn an_event_without_our_id_names_the_payment_that_the_host_may_know() {
        for (payload, id) in [
            (
                json!({ "payment_link": { "entity": { "id": "plink_1", "reference_id": "" } } }),
                "plink_1",
            ),
            (
                json!({ "refund": { "entity": { "id": "rfnd_1", "payment_id": "pay_1", "receipt": ATTEMPT } } }),
                "pay_1",
            ),
            (
                json!({ "dispute": { "entity": { "id": "disp_1", "payment_id": "pay_1" } } }),
                "pay_1",
            ),
        ] {
            let notices = read_keyed(incoming(&event("some.event", &payload)))
                .unwrap()
                .notices;
            let about: Vec<&Subject> = notices.iter().map(|notice| &notice.about).collect();
            assert_eq!(about, [&Subject::Reference(id.into())], "{payload}");
        }
    }
}
