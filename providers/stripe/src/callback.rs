//! Events: proved by their signature before a byte of the body is believed.
//!
//! No event carries a report. A session's event tells what was asked for, not what was received, and
//! neither says whether a review or a dispute is open: the host asks, and hears all of it at once.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Environment, Notice, Subject, Verb,
};

use crate::api;
use crate::query::is_id;
use crate::wire;

/// The secret that signs events.
pub(crate) const SECRET: &str = "webhook-secret";

/// The header that holds time and codes.
const HEADER: &str = "stripe-signature";

/// How far the signature's time may lie from ours, either way, in seconds; Stripe's own libraries
/// have the same number.
const TOLERANCE_SECONDS: u64 = 300;

/// Codes in one header: while a secret is rolled there are two.
const MOST_CODES: usize = 8;

/// Events about a session: it says itself whose it is.
const OF_SESSION: [&str; 4] = [
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
    "checkout.session.expired",
];

/// Events about a payment or its charge, whose `metadata` say it.
const WITH_METADATA: [&str; 8] = [
    "payment_intent.amount_capturable_updated",
    "payment_intent.canceled",
    "payment_intent.payment_failed",
    "payment_intent.processing",
    "payment_intent.succeeded",
    "charge.refunded",
    "charge.captured",
    // With what Stripe keeps of it, which is not always known when the payment has succeeded.
    "charge.updated",
];

/// Events about something that only names the payment.
const OF_PAYMENT: [&str; 11] = [
    "charge.dispute.created",
    "charge.dispute.updated",
    "charge.dispute.closed",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.funds_reinstated",
    "charge.refund.updated",
    "refund.created",
    "refund.updated",
    "refund.failed",
    "review.opened",
    "review.closed",
];

/// Verifies and reads one event.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    verify(account, incoming)?;
    let event = Json::parse(&incoming.body)
        .filter(|event| event.get("object").and_then(Json::text) == Some("event"))
        .ok_or_else(|| CallbackFailure::Malformed("the body is no event".into()))?;
    let live = event.get("livemode").and_then(Json::flag);
    let live =
        live.ok_or_else(|| CallbackFailure::Malformed("the event has no environment".into()))?;
    // An endpoint of a platform is told of test payments too: none of them is ours.
    let about = if live == (account.environment == Environment::Live) {
        whose(account, &event)?
    } else {
        None
    };
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

fn verify(account: &Account, incoming: &CallbackRequest) -> Result<(), CallbackFailure> {
    let signature = header(&incoming.headers, HEADER)
        .and_then(parse)
        .ok_or_else(|| CallbackFailure::Forged("there is no signature that can be read".into()))?;
    if !secrets::ready(SECRET) {
        return Err(CallbackFailure::Later(format!(
            "secret {SECRET} is missing"
        )));
    }
    let message = [signature.time.as_bytes(), b".", &incoming.body].concat();
    let right = |code: &Vec<u8>| secrets::verify(SECRET, Algorithm::HmacSha256, &message, code);
    if !signature.codes.iter().any(right) {
        return Err(CallbackFailure::Forged("the signature is wrong".into()));
    }
    if signature.seconds.abs_diff(account.now / 1_000) > TOLERANCE_SECONDS {
        return Err(CallbackFailure::Forged(
            "the signature is too old or from the future".into(),
        ));
    }
    Ok(())
}

/// The attempt that an event is about; none for events that are not ours: of another kind, or about
/// payments that the merchant takes without us.
fn whose(account: &Account, event: &Json) -> Result<Option<String>, CallbackFailure> {
    let kind = event.get("type").and_then(Json::text);
    let object = event.path(&["data", "object"]);
    let (Some(kind), Some(object)) = (kind, object) else {
        return Err(CallbackFailure::Malformed(
            "the event cannot be read".into(),
        ));
    };
    let attempt = if OF_SESSION.contains(&kind) {
        let id = object.get("client_reference_id").and_then(Json::text);
        id.map(str::to_owned)
    } else if WITH_METADATA.contains(&kind) {
        wire::attempt_in_metadata(object)
    } else if OF_PAYMENT.contains(&kind) {
        let payment = object.get("payment_intent").and_then(Json::text);
        match (wire::attempt_in_metadata(object), payment) {
            // A refund of ours says whose it is.
            (Some(attempt), _) => Some(attempt),
            (None, Some(payment)) if is_id(payment) => of_payment(account, payment)?,
            (None, _) => None,
        }
    } else {
        None
    };
    Ok(attempt.filter(|attempt| wire::is_ours(attempt)))
}

/// Disputes, refunds and reviews name a payment alone, which says whose it is when asked. They are
/// few, and nothing else tells us of them.
fn of_payment(account: &Account, payment: &str) -> Result<Option<String>, CallbackFailure> {
    let path = format!("/v1/payment_intents/{}", encode::percent(payment));
    let answer = api::get(account, &path).map_err(|broken| CallbackFailure::Later(broken.why()))?;
    match answer.status {
        200 => {
            let object = answer.json();
            let object =
                object.ok_or_else(|| CallbackFailure::Later("the answer cannot be read".into()))?;
            Ok(wire::attempt_in_metadata(&object))
        }
        404 => Ok(None),
        _ => Err(CallbackFailure::Later(wire::problem(&answer).to_string())),
    }
}

/// `t=1800000000,v1=<64 hexadecimal characters>,v1=…,v0=…`
#[derive(Debug, PartialEq, Eq)]
struct Signature<'a> {
    /// The time as it was signed.
    time: &'a str,
    seconds: u64,
    /// Under scheme `v1`, the only one that counts; others may stand beside it.
    codes: Vec<Vec<u8>>,
}

fn parse(value: &str) -> Option<Signature<'_>> {
    let mut time = None;
    let mut codes = Vec::new();
    for part in value.split(',') {
        match part.trim().split_once('=')? {
            ("t", _) if time.is_some() => return None,
            ("t", text) => time = Some(text),
            ("v1", _) if codes.len() == MOST_CODES => return None,
            ("v1", code) if code.len() == 64 => codes.push(encode::unhex(code)?),
            ("v1", _) => return None,
            _ => {}
        }
    }
    let time = time.filter(|time| time.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Signature {
        time,
        seconds: time.parse().ok()?,
        codes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    const ATTEMPT: &str = "00000000000000000000000000000001";
    const NOW_SECONDS: u64 = 1_800_000_000;

    /// A host whose code for every message is 32 times the message's length, and whose every payment
    /// is ours.
    struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == SECRET
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            assert!(request.url.ends_with("/v1/payment_intents/pi_1"));
            let body = json!({ "id": "pi_1", "metadata": { "attempt": ATTEMPT } });
            Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: body.to_string().into_bytes(),
            })
        }
    }

    fn account() -> Account {
        Account {
            id: "stripe-test".into(),
            environment: Environment::Test,
            now: NOW_SECONDS * 1_000,
            callback_url: String::new(),
            settings: Vec::new(),
        }
    }

    fn event(kind: &str, object: &Value) -> Value {
        json!({
            "id": "evt_1", "object": "event", "type": kind, "livemode": false,
            "data": { "object": object },
        })
    }

    fn incoming(seconds: u64, event: &Value) -> CallbackRequest {
        let body = event.to_string().into_bytes();
        let length = u8::try_from((seconds.to_string().len() + 1 + body.len()) % 256).unwrap();
        let code = format!("{length:02x}").repeat(32);
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![("stripe-signature".into(), format!("t={seconds},v1={code}"))],
            body,
        }
    }

    fn read_keyed(incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        with_host(Keyed, move || read(&account(), &incoming))
    }

    fn told(kind: &str, object: &Value) -> Vec<Notice> {
        read_keyed(incoming(NOW_SECONDS, &event(kind, object)))
            .unwrap()
            .notices
    }

    fn completed() -> Value {
        event(
            "checkout.session.completed",
            &json!({ "client_reference_id": ATTEMPT }),
        )
    }

    #[test]
    fn each_kind_of_event_names_the_attempt_and_makes_the_host_ask() {
        for (kind, object) in [
            (
                "checkout.session.completed",
                json!({ "client_reference_id": ATTEMPT }),
            ),
            (
                "payment_intent.payment_failed",
                json!({ "metadata": { "attempt": ATTEMPT } }),
            ),
            (
                "charge.refunded",
                json!({ "metadata": { "attempt": ATTEMPT } }),
            ),
            (
                "charge.dispute.created",
                json!({ "metadata": {}, "payment_intent": "pi_1" }),
            ),
            ("review.opened", json!({ "payment_intent": "pi_1" })),
            (
                "refund.created",
                json!({ "metadata": { "attempt": ATTEMPT }, "payment_intent": "pi_2" }),
            ),
            (
                "charge.refund.updated",
                json!({ "metadata": {}, "payment_intent": "pi_1" }),
            ),
        ] {
            let notices = told(kind, &object);
            let [notice] = notices.as_slice() else {
                panic!("{kind}: {notices:?}")
            };
            assert_eq!(notice.about, Subject::Attempt(ATTEMPT.into()), "{kind}");
            assert_eq!(notice.report, None, "{kind}");
        }
    }

    #[test]
    fn what_is_not_ours_is_acknowledged_and_ignored() {
        for (kind, object) in [
            ("customer.created", json!({})),
            (
                "payment_intent.created",
                json!({ "metadata": { "attempt": ATTEMPT } }),
            ),
            ("payment_intent.succeeded", json!({ "metadata": {} })),
            ("charge.dispute.created", json!({ "payment_intent": null })),
            (
                "checkout.session.completed",
                json!({ "client_reference_id": null }),
            ),
            (
                "checkout.session.completed",
                json!({ "client_reference_id": "cart 7" }),
            ),
        ] {
            assert_eq!(told(kind, &object), [], "{kind} {object}");
        }
    }

    #[test]
    fn a_payment_that_cannot_be_asked_about_brings_the_event_again() {
        struct Silent;
        impl Host for Silent {
            fn ready(&mut self, _: &str) -> bool {
                true
            }
            fn verify(&mut self, _: &str, _: Algorithm, _: &[u8], _: &[u8]) -> bool {
                true
            }
        }
        let dispute = event(
            "charge.dispute.created",
            &json!({ "payment_intent": "pi_1" }),
        );
        let answer = with_host(Silent, || {
            read(&account(), &incoming(NOW_SECONDS, &dispute))
        });
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }

    #[test]
    fn an_event_of_the_other_environment_is_acknowledged_and_ignored() {
        let mut live = completed();
        live["livemode"] = json!(true);
        let answer = read_keyed(incoming(NOW_SECONDS, &live)).unwrap();
        assert_eq!((answer.status, answer.notices), (200, Vec::new()));
    }

    #[test]
    fn a_changed_byte_is_a_forgery() {
        let mut changed = incoming(NOW_SECONDS, &completed());
        changed.body.push(b' ');
        assert!(matches!(
            read_keyed(changed),
            Err(CallbackFailure::Forged(_))
        ));
    }

    #[test]
    fn five_minutes_are_tolerated_and_no_second_more() {
        for seconds in [NOW_SECONDS - 300, NOW_SECONDS + 300] {
            assert!(read_keyed(incoming(seconds, &completed())).is_ok());
        }
        for seconds in [NOW_SECONDS - 301, NOW_SECONDS + 301] {
            let answer = read_keyed(incoming(seconds, &completed()));
            assert!(matches!(answer, Err(CallbackFailure::Forged(_))));
        }
    }

    #[test]
    fn one_right_code_among_several_is_enough() {
        let wrong = "0".repeat(64);
        let mut rolled = incoming(NOW_SECONDS, &completed());
        let (_, value) = rolled.headers.first_mut().unwrap();
        *value = value.replace(",v1=", &format!(",v1={wrong},v0={wrong},v1="));
        assert!(read_keyed(rolled.clone()).is_ok());
        // Under another scheme it is none.
        let (_, value) = rolled.headers.first_mut().unwrap();
        *value = value.replace("v1=", "v0=");
        assert!(matches!(
            read_keyed(rolled),
            Err(CallbackFailure::Forged(_))
        ));
    }

    #[test]
    fn signatures_of_another_form_are_forgeries() {
        let code = "0".repeat(64);
        for value in [
            String::new(),
            format!("v1={code}"),
            format!("t=-1,v1={code}"),
            format!("t=+1,v1={code}"),
            format!("t=1,t=2,v1={code}"),
            format!("t=1,v1={}", &code[1..]),
            format!("t=1{}", format!(",v1={code}").repeat(9)),
        ] {
            assert_eq!(parse(&value), None, "{value}");
        }
        let mut none = incoming(NOW_SECONDS, &completed());
        let mut two = none.clone();
        two.headers.extend(none.headers.clone());
        none.headers.clear();
        for odd in [none, two] {
            assert!(matches!(read_keyed(odd), Err(CallbackFailure::Forged(_))));
        }
    }

    #[test]
    fn without_the_secret_the_vendor_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(NOW_SECONDS, &completed()));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }

    #[test]
    fn what_is_signed_but_no_event_is_malformed() {
        let mut nowhere = completed();
        nowhere.as_object_mut().unwrap().remove("livemode");
        for odd in [json!({}), json!([]), nowhere] {
            let answer = read_keyed(incoming(NOW_SECONDS, &odd));
            assert!(
                matches!(answer, Err(CallbackFailure::Malformed(_))),
                "{odd}"
            );
        }
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(NOW_SECONDS, &completed())
        };
        assert!(matches!(
            read_keyed(get),
            Err(CallbackFailure::Malformed(_))
        ));
    }
}
