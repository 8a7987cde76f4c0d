//! Webhooks: proved by their signature before a byte of the body is believed.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, Verb,
};

use crate::wire::{self, Given, Paid};

/// The secret that signs webhooks.
pub(crate) const KEY: &str = "webhook-key";

/// Length of an attempt's id, in characters.
const ATTEMPT: usize = 32;

/// Verifies and reads one webhook.
///
/// The signature covers the body and no time, so a webhook can be replayed for ever. That is harmless:
/// only a completed payment is reported, which it stays; everything else makes the host ask.
pub(crate) fn read(incoming: &CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    let code = header(&incoming.headers, "signature").and_then(encode::unbase64);
    let code = code.ok_or_else(|| CallbackFailure::Forged("there is no signature".into()))?;
    if !secrets::ready(KEY) {
        return Err(CallbackFailure::Later(format!("secret {KEY} is missing")));
    }
    if !secrets::verify(KEY, Algorithm::HmacSha256, &incoming.body, &code) {
        return Err(CallbackFailure::Forged("the signature is wrong".into()));
    }
    let event = Json::parse(&incoming.body);
    let event = event.ok_or_else(|| CallbackFailure::Malformed("the body is no JSON".into()))?;
    // Paysafe's pages have the one, what it sends the other, some both.
    let named = |field| event.get(field).and_then(Json::text);
    let name = named("eventName").or_else(|| named("eventType"));
    Ok(CallbackReply {
        notices: name
            .and_then(|name| notice(name, &event))
            .into_iter()
            .collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

/// The news of an event; none where it is not about a payment of ours.
fn notice(name: &str, event: &Json) -> Option<Notice> {
    let about = |kind: &str| name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty());
    if !["PAYMENT_", "SETTLEMENT_", "REFUND_"]
        .into_iter()
        .any(about)
    {
        return None;
    }
    let payload = event.get("payload")?;
    let about = subject(name, payload)?;
    let completed = wire::payment(payload)
        .filter(|(_, payment)| name == "PAYMENT_COMPLETED" && payment.stands == Paid::Completed)
        .filter(|_| matches!(about, Subject::Attempt(_)));
    Some(Notice {
        about,
        reference: None,
        report: completed.map(|(_, payment)| payment.report(&Given::default())),
    })
}

/// Which payment a payload is about: ours by its own reference, or what was given back of one that it
/// names, under whatever reference that was made: ours has the form of an attempt's id too, and is none.
fn subject(event: &str, payload: &Json) -> Option<Subject> {
    let text = |name| payload.get(name).and_then(Json::text);
    let own = !event.starts_with("REFUND_");
    let reference = text("merchantRefNum").filter(|reference| own && is_attempt(reference));
    let made_for = || text("paymentId").or_else(|| text("settlementId"));
    reference
        .map(|attempt| Subject::Attempt(attempt.to_owned()))
        .or_else(|| Some(Subject::Reference(made_for()?.to_owned())))
}

/// Whether a merchant's reference has the form of our attempts' ids.
fn is_attempt(reference: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    reference.len() == ATTEMPT && reference.bytes().all(digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::payment_told;
    use kassette_plugin::provider::Status;
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    const ID: &str = "0123456789abcdef0123456789abcdef";

    /// A host whose code for every message is 32 times the message's length.
    struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == KEY
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
    }

    fn incoming(body: &str) -> CallbackRequest {
        let code = vec![u8::try_from(body.len() % 256).unwrap(); 32];
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![("signature".into(), encode::base64(&code))],
            body: body.into(),
        }
    }

    fn event(name: &str, status: &str, reference: &str) -> Value {
        let mut payload = payment_told(status);
        payload["merchantRefNum"] = reference.into();
        json!({ "eventType": name, "payload": payload, "attemptNumber": "1", "mode": "live" })
    }

    fn read_keyed(incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        with_host(Keyed, move || read(&incoming))
    }

    fn notices(event: &Value) -> Vec<Notice> {
        read_keyed(incoming(&event.to_string())).unwrap().notices
    }

    #[test]
    fn a_completed_payment_is_reported_with_its_money() {
        let told = notices(&event("PAYMENT_COMPLETED", "COMPLETED", ID));
        let [notice] = told.as_slice() else {
            panic!("one notice")
        };
        assert_eq!(notice.about, Subject::Attempt(ID.into()));
        let report = notice.report.as_ref().unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Completed, 4990)
        );
    }

    #[test]
    fn everything_else_about_a_payment_makes_the_host_ask() {
        for (name, status) in [
            ("PAYMENT_HANDLE_PAYABLE", "PAYABLE"),
            ("PAYMENT_HANDLE_FAILED", "FAILED"),
            ("PAYMENT_PROCESSING", "PROCESSING"),
            ("PAYMENT_FAILED", "FAILED"),
            ("PAYMENT_HELD", "HELD"),
            ("PAYMENT_COMPLETED", "HELD"),
            ("SETTLEMENT_COMPLETED", "COMPLETED"),
        ] {
            let told = notices(&event(name, status, ID));
            assert_eq!(told.len(), 1, "{name}");
            assert!(told.iter().all(|notice| notice.report.is_none()), "{name}");
        }
    }

    #[test]
    fn what_is_none_of_ours_is_acknowledged() {
        for odd in [
            event("SA_CREDIT_COMPLETED", "COMPLETED", ID),
            event("PAYMENT_", "COMPLETED", ID),
            event("PAYMENT_COMPLETED", "COMPLETED", "another shop's reference"),
            json!({ "eventType": "PAYMENT_COMPLETED" }),
            json!({ "eventType": 1 }),
            json!({ "type": "PAYMENT" }),
            json!({}),
        ] {
            assert!(notices(&odd).is_empty(), "{odd}");
        }
    }

    #[test]
    fn an_event_is_known_by_either_of_its_names() {
        let mut renamed = event("PAYMENT_COMPLETED", "COMPLETED", ID);
        let name = renamed.as_object_mut().unwrap().remove("eventType");
        renamed["eventName"] = name.unwrap();
        renamed["type"] = "PAYMENT".into();
        let told = notices(&renamed);
        assert!(told.iter().any(|notice| notice.report.is_some()));
    }

    #[test]
    fn a_refund_under_a_reference_of_its_own_leads_to_its_payment() {
        for name in ["paymentId", "settlementId"] {
            for made_under in ["refund of the portal", ID] {
                let mut refund = event("REFUND_COMPLETED", "COMPLETED", made_under);
                refund["payload"][name] = "3aeb9c63".into();
                let told = notices(&refund);
                let [notice] = told.as_slice() else {
                    panic!("one notice")
                };
                assert_eq!(notice.about, Subject::Reference("3aeb9c63".into()));
                assert_eq!(notice.report, None);
            }
        }
    }

    #[test]
    fn a_changed_byte_and_an_odd_signature_are_forgeries() {
        let good = incoming(&event("PAYMENT_COMPLETED", "COMPLETED", ID).to_string());
        let mut longer = good.clone();
        longer.body.push(b' ');
        let mut none = good.clone();
        none.headers.clear();
        let mut twice = good.clone();
        twice.headers.extend(good.headers.clone());
        let mut odd = good.clone();
        odd.headers[0].1 = "not base64!".into();
        for forged in [longer, none, twice, odd] {
            assert!(matches!(
                read_keyed(forged),
                Err(CallbackFailure::Forged(_))
            ));
        }
        assert!(matches!(read(&good), Err(CallbackFailure::Later(_))));
    }

    #[test]
    fn what_is_signed_but_no_json_is_malformed() {
        for body in ["", "{"] {
            let answer = read_keyed(incoming(body));
            assert!(
                matches!(answer, Err(CallbackFailure::Malformed(_))),
                "{body}"
            );
        }
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming("{}")
        };
        assert!(matches!(
            read_keyed(get),
            Err(CallbackFailure::Malformed(_))
        ));
    }
}
