//! Webhooks. The signature is verified before the body is parsed.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, read,
};

use crate::wire::{self, Belongings, Paid};

/// Secret that signs webhooks.
pub(crate) const KEY: &str = "webhook-key";

/// Length of an attempt id, in characters.
const ATTEMPT: usize = 32;

/// Verifies and parses one webhook.
///
/// The signature covers the body but no time, so a webhook can be replayed at any time. This is harmless: only a
/// completed payment is reported, which is final; other webhooks make the host query.
pub(crate) fn read(incoming: &CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
    let code = header(&incoming.headers, "signature").and_then(encode::unbase64);
    let code = code.ok_or_else(|| CallbackFailure::Forged("there is no signature".into()))?;
    if !secrets::ready(KEY) {
        return Err(CallbackFailure::Later(format!("secret {KEY} is missing")));
    }
    if !secrets::verify(KEY, Algorithm::HmacSha256, &incoming.body, &code) {
        return Err(CallbackFailure::Forged("the signature is wrong".into()));
    }
    // A malformed body is acknowledged, because Paysafe would only repeat it.
    let event = Json::parse(&incoming.body);
    Ok(CallbackReply {
        notices: event.as_ref().and_then(notice).into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

/// Notice from an event. `None` if it is not about a payment of this gateway.
fn notice(event: &Json) -> Option<Notice> {
    // Paysafe's documentation uses one name, its webhooks the other, some both.
    let named = |field| event.get(field).and_then(Json::text);
    let name = named("eventName").or_else(|| named("eventType"));
    let name = name.or_else(|| named("type")).unwrap_or_default();
    let payload = ["payload", "variables"]
        .into_iter()
        .find_map(|at| event.get(at))?;
    let payload = payload.get("payload").unwrap_or(payload);
    let about = subject(name, payload)?;
    // For a bank debit, COMPLETED only means accepted, and for a returned one that the money was returned. So only
    // Interac payments are reported.
    let interac = read::field(payload, "paymentType") == Some(wire::PAYMENT_TYPE);
    let whole = payload
        .get("currencyCode")
        .and_then(read::currency)
        .is_some();
    let completed = wire::payment(payload)
        .filter(|payment| name == "PAYMENT_COMPLETED" && payment.stands == Paid::Completed)
        .filter(|_| interac && whole && matches!(about, Subject::Attempt(_)));
    Some(Notice {
        about,
        reference: None,
        report: completed.and_then(|payment| payment.report(None, Belongings::default())),
    })
}

/// Subject of a payload: the attempt in the merchant reference, which is also the prefix of a refund's reference,
/// or else the payment that it names.
fn subject(event: &str, payload: &Json) -> Option<Subject> {
    let reference = wire::reference(payload).unwrap_or_default();
    let attempt = reference.split('-').next().filter(|id| is_attempt(id));
    let whole = attempt.filter(|attempt| {
        *attempt == reference || reference.strip_prefix(*attempt).is_some_and(is_order)
    });
    let named = || {
        let of_ours = ["PAYMENT_", "SETTLEMENT_", "REFUND_"];
        let names = ["paymentId", "settlementId"].into_iter();
        let mut names = names.filter_map(|name| read::field(payload, name));
        of_ours
            .iter()
            .any(|kind| event.starts_with(kind))
            .then(|| names.next())?
    };
    match whole {
        Some(attempt) => Some(Subject::Attempt(attempt.to_owned())),
        None => Some(Subject::Reference(named()?.to_owned())),
    }
}

/// Whether this is the suffix of a refund's reference: `-` and the refund order's id.
fn is_order(end: &str) -> bool {
    end.strip_prefix('-').is_some_and(is_attempt)
}

/// Whether a merchant reference has the form of an attempt id.
fn is_attempt(reference: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    reference.len() == ATTEMPT && reference.bytes().all(digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::payment_told;
    use kassette_plugin::provider::{Status, Verb};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    const ID: &str = "0123456789abcdef0123456789abcdef";

    /// A host that accepts 32 bytes with the value of the message's length as its code.
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
            event(
                "SA_CREDIT_COMPLETED",
                "COMPLETED",
                "another shop's reference",
            ),
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
    fn a_refund_leads_to_its_payment_by_what_it_names() {
        let told = |refund: &Value| {
            let told = notices(refund);
            let [notice] = told.as_slice() else {
                panic!("one notice: {told:?}")
            };
            assert_eq!(notice.report, None);
            notice.about.clone()
        };
        for name in ["paymentId", "settlementId"] {
            let mut refund = event("REFUND_COMPLETED", "COMPLETED", "refund of the portal");
            refund["payload"][name] = "3aeb9c63".into();
            assert_eq!(told(&refund), Subject::Reference("3aeb9c63".into()));
        }
        for reference in [ID.to_owned(), format!("{ID}-{}", "0".repeat(32))] {
            let refund = event("REFUND_FAILED", "FAILED", &reference);
            assert_eq!(told(&refund), Subject::Attempt(ID.into()));
        }
        let others = event("REFUND_FAILED", "FAILED", &format!("{ID}-2"));
        assert!(notices(&others).is_empty());
    }

    #[test]
    fn what_looks_like_money_and_is_none_makes_the_host_ask() {
        let paid = || event("PAYMENT_COMPLETED", "COMPLETED", ID);
        let mut debit = paid();
        debit["payload"]["paymentType"] = "EFT".into();
        let mut unpriced = paid();
        unpriced["payload"]["amount"] = Value::Null;
        let mut uncounted = paid();
        uncounted["payload"]["currencyCode"] = Value::Null;
        let returned = event("PAYMENT_RETURN_COMPLETED", "COMPLETED", ID);
        let wrapped =
            json!({ "type": "PAYMENT_RETURN", "variables": { "payload": returned["payload"] } });
        let unknown = event("PAYMENT_REIMAGINED", "COMPLETED", ID);
        for odd in [debit, unpriced, uncounted, returned, wrapped, unknown] {
            let told = notices(&odd);
            assert_eq!(told.len(), 1, "{odd}");
            assert_eq!(told[0].report, None, "{odd}");
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
    fn what_is_signed_and_cannot_be_read_is_acknowledged() {
        for body in ["", "{", "[]", "7", r#"{"payload":[]}"#] {
            let answer = read_keyed(incoming(body)).unwrap();
            assert_eq!((answer.status, answer.notices.len()), (200, 0), "{body}");
        }
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming("{}")
        };
        assert_eq!(read_keyed(get).unwrap().status, 200);
    }
}
