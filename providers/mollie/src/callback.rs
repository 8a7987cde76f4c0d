//! The webhook. It carries a payment's id and no signature. So each payment is given an address of its
//! own, with the attempt's id and a proof that only the holder of the API key can make. A call without
//! them can be written by any caller. Neither says more than that the host is to ask.
use kassette_plugin::encode;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, Attempt, CallbackFailure, CallbackReply, CallbackRequest, Notice, Subject, Verb,
};

use crate::api::KEY;
use crate::wire;

/// Fields of the address's query.
const ATTEMPT: &str = "attempt";
const PROOF: &str = "proof";

/// What the proof is made of.
fn proved(attempt: &str) -> Vec<u8> {
    [b"webhook of ", attempt.as_bytes()].concat()
}

/// The address for the news about an attempt.
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

/// The attempt that a call's address names, where its proof is right. After the API key was replaced
/// that of an older payment is not, and the payment's id has to do.
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

/// Reads one call of the webhook.
pub(crate) fn read(incoming: &CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(CallbackFailure::Malformed("not a POST".into()));
    }
    let fields = std::str::from_utf8(&incoming.body)
        .ok()
        .and_then(encode::parse_form)
        .ok_or_else(|| CallbackFailure::Malformed("the body is no form".into()))?;
    let mut ids = fields.iter().filter(|(name, _)| name == "id");
    let (Some((_, id)), None) = (ids.next(), ids.next()) else {
        return Err(CallbackFailure::Malformed(
            "there is not exactly one id".into(),
        ));
    };
    // Payment links, orders and subscriptions have ids of other kinds; none of them is ours.
    let notices = match wire::is_id(id) {
        true => vec![Notice {
            about: addressed(&incoming.query)
                .map_or_else(|| Subject::Reference(id.clone()), Subject::Attempt),
            reference: Some(id.clone()),
            report: None,
        }],
        false => Vec::new(),
    };
    Ok(CallbackReply {
        notices,
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::{account, attempt};
    use kassette_plugin::testing::{Host, with_host};

    /// A host whose code for every message is 32 times the message's length.
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
    fn what_mollie_does_not_send_is_malformed() {
        for body in [
            &b""[..],
            b"{}",
            b"ID=tr_1",
            b"id=tr_1&id=tr_2",
            b"id=%zz",
            b"\xff",
        ] {
            assert!(matches!(
                read(&incoming(body)),
                Err(CallbackFailure::Malformed(_))
            ));
        }
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(b"id=tr_1")
        };
        assert!(matches!(read(&get), Err(CallbackFailure::Malformed(_))));
    }
}
