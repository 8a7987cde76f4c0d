//! The webhook. It contains a payment's id and no signature. So each payment has its own webhook address, which
//! contains the attempt's id and an HMAC that requires the API key. Anyone can forge a call without them. In both
//! cases the call only makes the host query.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, Attempt, CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, read,
};

use crate::api::KEY;
use crate::wire;

/// Fields of the address's query.
const ATTEMPT: &str = "attempt";
const PROOF: &str = "proof";

/// The message of the HMAC.
fn proved(attempt: &str) -> Vec<u8> {
    [b"webhook of ", attempt.as_bytes()].concat()
}

/// Webhook address of an attempt. The plain callback address if the host cannot sign.
pub(crate) fn address(account: &Account, attempt: &Attempt) -> String {
    let plain = &account.callback_url;
    match secrets::sign(KEY, Algorithm::HmacSha256, &proved(&attempt.id)) {
        Some(proof) => [
            plain,
            "?",
            ATTEMPT,
            "=",
            &attempt.id,
            "&",
            PROOF,
            "=",
            &encode::hex(&proof),
        ]
        .concat(),
        None => plain.clone(),
    }
}

/// The attempt in a call's address, if its HMAC is valid. After a change of the API key the addresses of older
/// payments are no longer valid, and only the payment's id is used.
fn addressed(query: &str) -> Option<String> {
    let fields = encode::parse_form(query)?;
    let [(attempt_name, attempt), (proof_name, proof)] = fields.as_slice() else {
        return None;
    };
    let proof = encode::unhex(proof)?;
    let named = attempt_name == ATTEMPT && proof_name == PROOF;
    (named && secrets::verify(KEY, Algorithm::HmacSha256, &proved(attempt), &proof))
        .then(|| attempt.clone())
}

/// Parses one call of the webhook. A call without a payment's id is acknowledged: Mollie's check of the address,
/// and events about payment links, orders and subscriptions.
pub(crate) fn read(incoming: &CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
    let id = payment(&incoming.body).filter(|id| wire::is_id(id));
    let notice = id.map(|id| Notice {
        about: addressed(&incoming.query)
            .map_or_else(|| Subject::Reference(id.clone()), Subject::Attempt),
        reference: Some(id),
        report: None,
    });
    Ok(CallbackReply {
        notices: notice.into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

/// The id that a call contains: in a form field, or as the entity of an event. `None` if a form has several.
fn payment(body: &[u8]) -> Option<String> {
    if let Some(event) = Json::parse(body) {
        return read::field(&event, "entityId")
            .or_else(|| read::field(&event, "id"))
            .map(str::to_owned);
    }
    let fields = encode::parse_form(std::str::from_utf8(body).ok()?)?;
    let mut ids = fields.into_iter().filter(|(name, _)| name == "id");
    let (_, id) = ids.next()?;
    ids.next().is_none().then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::{account, attempt};
    use kassette_plugin::provider::Verb;
    use kassette_plugin::testing::{Host, with_host};

    /// A host that accepts 32 bytes with the value of the message's length as its code.
    struct Keyed;
    impl Host for Keyed {
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
    }

    fn incoming(body: &[u8]) -> CallbackRequest {
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![(
                "content-type".into(),
                "application/x-www-form-urlencoded".into(),
            )],
            body: body.to_vec(),
        }
    }

    #[test]
    fn a_call_names_a_payment_and_proves_nothing() {
        let answer = read(&incoming(b"id=tr_5B8cwPMGnU6qLbRvo7qEZo")).unwrap();
        assert_eq!(
            answer.notices,
            [Notice {
                about: Subject::Reference("tr_5B8cwPMGnU6qLbRvo7qEZo".into()),
                reference: Some("tr_5B8cwPMGnU6qLbRvo7qEZo".into()),
                report: None,
            }]
        );
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    }

    #[test]
    fn a_call_to_the_address_of_an_attempt_is_about_that_attempt() {
        let attempt = attempt("ideal");
        let address = with_host(Keyed, || address(&account(), &attempt));
        let (plain, query) = address.split_once('?').unwrap();
        assert_eq!(plain, account().callback_url);
        let about = |query: &str| {
            let call = CallbackRequest {
                query: query.to_owned(),
                ..incoming(b"id=tr_1")
            };
            let answer = with_host(Keyed, || read(&call));
            answer.unwrap().notices[0].about.clone()
        };
        assert_eq!(about(query), Subject::Attempt(attempt.id.clone()));
        let altered = query.replace("attempt=", "attempt=1");
        for other in [&query[1..], altered.as_str(), "attempt=a&proof=zz", ""] {
            assert_eq!(about(other), Subject::Reference("tr_1".into()), "{other}");
        }
    }

    #[test]
    fn whatever_else_a_call_claims_is_not_read() {
        let answer = read(&incoming(b"id=tr_1&status=paid&amount=49.90")).unwrap();
        assert_eq!(answer.notices.len(), 1);
        assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    }

    #[test]
    fn other_things_are_acknowledged_and_ignored() {
        for body in ["id=ord_1", "id=pl_1", "id=sub_1", "id=tr_..%2F1", "id="] {
            let answer = read(&incoming(body.as_bytes())).unwrap();
            assert_eq!((answer.notices.len(), answer.status), (0, 200), "{body}");
        }
    }

    #[test]
    fn what_names_no_payment_is_acknowledged() {
        for body in [
            &b""[..],
            b"{}",
            b"[1]",
            b"ID=tr_1",
            b"testByMollie=1",
            b"id=tr_1&id=tr_2",
            b"id=%zz",
            b"\xff",
            br#"{"resource":"event","type":"payment-link.paid","entityId":"pl_1"}"#,
        ] {
            let answer = read(&incoming(body)).unwrap();
            assert_eq!((answer.status, answer.notices.len()), (200, 0), "{body:?}");
        }
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(b"")
        };
        assert_eq!(read(&get).unwrap().status, 200);
    }

    #[test]
    fn an_event_of_the_next_generation_about_a_payment_makes_the_host_ask() {
        let event = br#"{"resource":"event","id":"whe_1","type":"payment.paid","entityId":"tr_1"}"#;
        let answer = read(&incoming(event)).unwrap();
        assert_eq!(answer.notices[0].about, Subject::Reference("tr_1".into()));
    }
}
