//! Events. The signature is verified before the body is parsed.
//!
//! No event results in a report. A session's event contains the amount due, not the amount received, and no event
//! shows whether a review or a dispute is open. So the host queries, which returns everything.
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

/// Secret that signs events.
pub(crate) const SECRET: &str = "webhook-secret";

/// Header with the time and the codes of the signature.
const HEADER: &str = "stripe-signature";

/// Maximum difference between the signature's time and the current time, in seconds, in both directions. Stripe's
/// own libraries use the same value.
const TOLERANCE_SECONDS: u64 = 300;

/// Maximum number of codes in the header; there are two while a secret is being rotated.
const MOST_CODES: usize = 8;

/// Event that is ignored: Stripe creates the payment as soon as a payer opens the page of a known session.
const NO_NEWS: &str = "payment_intent.created";

/// Events about an object that contains only the payment's id, for which the attempt has to be queried.
const OF_PAYMENT: [&str; 13] = [
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
    "radar.early_fraud_warning.created",
    "radar.early_fraud_warning.updated",
];

/// Verifies and parses one event.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    verify(account, incoming)?;
    // Malformed events, and events about payments of other software, are acknowledged, because Stripe disables an
    // endpoint that rejects deliveries. A platform's endpoint receives events about test payments too.
    let event = Json::parse(&incoming.body).unwrap_or(Json::Null);
    let live = event.get("livemode").and_then(Json::flag);
    let same_world = live.is_none_or(|live| live == (account.environment == Environment::Live));
    let about = match event.path(&["data", "object"]).filter(|_| same_world) {
        Some(object) => subject(account, &event, object)?,
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

/// Subject of an event of any type. `None` if it contains nothing that could belong to this gateway. An event
/// without an attempt may contain a payment or a charge that the host knows.
fn subject(
    account: &Account,
    event: &Json,
    object: &Json,
) -> Result<Option<Subject>, CallbackFailure> {
    let field = |name: &str| object.get(name).and_then(Json::text);
    let kind = event.get("type").and_then(Json::text).unwrap_or_default();
    if kind == NO_NEWS {
        return Ok(None);
    }
    let reference = field("client_reference_id").map(str::to_owned);
    let named = [reference, wire::attempt_in_metadata(object)];
    let mut named = named.into_iter().flatten().peekable();
    if named.peek().is_some() {
        let ours = named.find(|attempt| wire::is_ours(attempt));
        return Ok(ours.map(Subject::Attempt));
    }
    // The host may know the id of another object.
    let own = ["checkout.session.", "payment_intent.", "charge."];
    if !OF_PAYMENT.contains(&kind) {
        let id = field("id").filter(|id| is_id(id) && own.iter().any(|own| kind.starts_with(own)));
        return Ok(id.map(|id| Subject::Reference(id.to_owned())));
    }
    if let Some(payment) = field("payment_intent").filter(|id| is_id(id)) {
        let attempt = of_payment(account, payment)?.filter(|attempt| wire::is_ours(attempt));
        return Ok(attempt.map(Subject::Attempt));
    }
    let charge = field("charge").filter(|id| is_id(id));
    Ok(charge.map(|charge| Subject::Reference(charge.to_owned())))
}

/// Reads a payment to find its attempt. Disputes, refunds and reviews contain only the payment's id; they are
/// rare, and no other event reports them.
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
    /// The seconds as text, as in the signed message.
    time: &'a str,
    seconds: u64,
    /// Codes of the scheme `v1`, the only one that counts; the header may contain others.
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

    /// A host that accepts 32 bytes with the value of the message's length as its code, and where every payment
    /// belongs to the test attempt.
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
            // An undocumented event.
            ("charge.odd", json!({ "metadata": null })),
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
        // A code of another scheme does not count.
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
    fn what_is_signed_but_no_event_is_acknowledged() {
        for odd in [
            json!({}),
            json!([]),
            json!({ "object": "event", "data": null }),
        ] {
            let reply = read_keyed(incoming(NOW_SECONDS, &odd)).unwrap();
            assert_eq!((reply.status, reply.notices), (200, Vec::new()), "{odd}");
        }
    }

    #[test]
    fn an_event_without_its_environment_or_of_a_new_kind_makes_the_host_ask() {
        let mut event = event(
            "payment_intent.odd",
            &json!({ "metadata": { "attempt": ATTEMPT } }),
        );
        event.as_object_mut().unwrap().remove("livemode");
        let notices = read_keyed(incoming(NOW_SECONDS, &event)).unwrap().notices;
        assert_eq!(notices[0].about, Subject::Attempt(ATTEMPT.into()));
    }

    #[test]
    fn a_dispute_that_names_its_charge_alone_is_told_by_that() {
        let notices = told("charge.dispute.closed", &json!({ "charge": "ch_1" }));
        assert_eq!(notices[0].about, Subject::Reference("ch_1".into()));
    }

    #[test]
    fn only_posts_are_read() {
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
