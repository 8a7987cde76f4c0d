//! Webhooks: proved by their signature before a byte of the body is believed.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{Acknowledged, Incoming, Notice, Refused, Subject, Verb};

use crate::wire::{self, Paid};

/// The secret that signs webhooks.
pub(crate) const KEY: &str = "webhook-key";

/// Length of an attempt's id, in characters.
const ATTEMPT: usize = 32;

/// Verifies and reads one webhook.
///
/// The signature covers the body and no time, so a webhook can be replayed for ever. That is harmless:
/// only a completed payment is reported, which it stays; everything else makes the host ask.
pub(crate) fn read(incoming: &Incoming) -> Result<Acknowledged, Refused> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(Refused::Malformed("not a POST".into()));
    }
    let code = header(&incoming.headers, "signature").and_then(encode::unbase64);
    let code = code.ok_or_else(|| Refused::Forged("there is no signature".into()))?;
    if !secrets::ready(KEY) {
        return Err(Refused::Later(format!("secret {KEY} is missing")));
    }
    if !secrets::verify(KEY, Algorithm::HmacSha256, &incoming.body, &code) {
        return Err(Refused::Forged("the signature is wrong".into()));
    }
    let event = Json::parse(&incoming.body);
    let event = event.ok_or_else(|| Refused::Malformed("the body is no JSON".into()))?;
    let name = event.get("eventType").and_then(Json::text);
    let name = name.ok_or_else(|| Refused::Malformed("not an event".into()))?;
    Ok(Acknowledged {
        notices: notice(name, &event).into_iter().collect(),
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
    let attempt = payload.get("merchantRefNum")?.text()?;
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if attempt.len() != ATTEMPT || !attempt.bytes().all(digit) {
        return None;
    }
    let completed = wire::payment(payload)
        .filter(|(_, payment)| name == "PAYMENT_COMPLETED" && payment.stands == Paid::Completed);
    Some(Notice {
        about: Subject::Attempt(attempt.to_owned()),
        report: completed.map(|(_, payment)| payment.report(None, 0)),
    })
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

    fn incoming(body: &str) -> Incoming {
        let code = vec![u8::try_from(body.len() % 256).unwrap(); 32];
        Incoming {
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

    fn read_keyed(incoming: Incoming) -> Result<Acknowledged, Refused> {
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
            ("REFUND_COMPLETED", "COMPLETED"),
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
        ] {
            assert!(notices(&odd).is_empty(), "{odd}");
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
            assert!(matches!(read_keyed(forged), Err(Refused::Forged(_))));
        }
        assert!(matches!(read(&good), Err(Refused::Later(_))));
    }

    #[test]
    fn what_is_signed_but_no_event_is_malformed() {
        for body in ["", "{", "{}", r#"{"eventType":1}"#] {
            let answer = read_keyed(incoming(body));
            assert!(matches!(answer, Err(Refused::Malformed(_))), "{body}");
        }
        let get = Incoming {
            verb: Verb::Get,
            ..incoming("{}")
        };
        assert!(matches!(read_keyed(get), Err(Refused::Malformed(_))));
    }
}
