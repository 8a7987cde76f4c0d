//! Callbacks. The signature is verified before the body is parsed.
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Header, Notice, Subject,
};

use crate::wire::{self, Phase, Session};

/// Secret that signs callbacks.
pub(crate) const SECRET: &str = "callback-secret";

/// Header with the time and the code of the signature.
const HEADER: &str = "sandbox-signature";

/// Maximum difference between the signature's time and the current time, in seconds, in both directions.
const TOLERANCE_SECONDS: u64 = 300;

/// Verifies and parses one callback.
pub(crate) fn read(
    account: &Account,
    incoming: &CallbackRequest,
) -> Result<CallbackReply, CallbackFailure> {
    let signature =
        signature(&incoming.headers).map_err(|why| CallbackFailure::Forged(why.into()))?;
    if !secrets::ready(SECRET) {
        return Err(CallbackFailure::Later(format!(
            "secret {SECRET} is missing"
        )));
    }
    let message = [signature.time.as_bytes(), b".", &incoming.body].concat();
    if !secrets::verify(SECRET, Algorithm::HmacSha256, &message, &signature.code) {
        return Err(CallbackFailure::Forged("the signature is wrong".into()));
    }
    if signature.seconds.abs_diff(account.now / 1_000) > TOLERANCE_SECONDS {
        return Err(CallbackFailure::Forged(
            "the signature is too old or from the future".into(),
        ));
    }
    // A body that cannot be parsed results in no notice, and so does a payment of another shop that uses the same
    // account. Both are acknowledged, because the provider would otherwise repeat them and hold back later
    // callbacks.
    let session = wire::event(&incoming.body);
    let ours = session.filter(|session| is_attempt(&session.attempt));
    let notice = |session: Session| Notice {
        // The host knows its attempt id even if the answer to `start` was lost.
        about: Subject::Attempt(session.attempt.clone()),
        reference: None,
        // A notice without a report makes the host query. It is used for an unknown status, and for a declined
        // session that is still payable.
        report: Some(session)
            .filter(|session| session.phase != Phase::Unknown)
            .and_then(|session| session.report(false)),
    };
    Ok(CallbackReply {
        notices: ours.map(notice).into_iter().collect(),
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    })
}

/// Whether a merchant reference has the form of an attempt id: 32 lowercase hexadecimal digits.
fn is_attempt(reference: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    reference.len() == 32 && reference.bytes().all(digit)
}

/// `t=1800000000,v1=<64 hexadecimal characters>`
#[derive(Debug, PartialEq, Eq)]
struct Signature<'a> {
    /// The text that was signed: the seconds.
    time: &'a str,
    seconds: u64,
    code: [u8; 32],
}

fn signature(headers: &[Header]) -> Result<Signature<'_>, &'static str> {
    let mut values = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(HEADER));
    let (_, value) = values.next().ok_or("there is no signature")?;
    if values.next().is_some() {
        return Err("there are two signatures");
    }
    parse(value).ok_or("the signature cannot be read")
}

fn parse(value: &str) -> Option<Signature<'_>> {
    let (time, code) = value.strip_prefix("t=")?.split_once(",v1=")?;
    if !time.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds = time.parse().ok()?;
    Some(Signature {
        time,
        seconds,
        code: unhex(code)?,
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |b: &u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    if text.len() != 64 {
        return None;
    }
    let mut code = [0; 32];
    for (byte, pair) in code.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{ATTEMPT, told};
    use kassette_plugin::provider::{Environment, Status, Verb};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::json;

    /// A host that accepts 32 bytes with the value of the message's length as its code.
    struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == SECRET
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
    }

    const NOW_SECONDS: u64 = 1_800_000_000;

    fn account() -> Account {
        Account {
            id: "sandbox-test".into(),
            environment: Environment::Test,
            now: NOW_SECONDS * 1_000,
            callback_url: String::new(),
            settings: Vec::new(),
        }
    }

    fn incoming(seconds: u64, session: &serde_json::Value) -> CallbackRequest {
        let body = json!({ "id": "evt_1", "type": "captured", "session": session })
            .to_string()
            .into_bytes();
        let length = u8::try_from((seconds.to_string().len() + 1 + body.len()) % 256).unwrap();
        let code = format!("{length:02x}").repeat(32);
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![("Sandbox-Signature".into(), format!("t={seconds},v1={code}"))],
            body,
        }
    }

    fn read_keyed(incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        with_host(Keyed, || read(&account(), &incoming))
    }

    #[test]
    fn signed_news_is_told_with_its_report() {
        let told = told("captured", false, "49.90");
        let answer = read_keyed(incoming(NOW_SECONDS, &told)).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
        let [notice] = answer.notices.as_slice() else {
            panic!("one notice")
        };
        assert_eq!(notice.about, Subject::Attempt(ATTEMPT.into()));
        let report = notice.report.as_ref().unwrap();
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Completed, 4990)
        );
    }

    #[test]
    fn a_decline_that_can_still_be_paid_makes_the_host_ask() {
        let answer = read_keyed(incoming(NOW_SECONDS, &told("declined", true, "0.00"))).unwrap();
        assert_eq!(
            answer.notices.first().map(|notice| notice.report.is_none()),
            Some(true)
        );
    }

    #[test]
    fn signed_news_of_something_else_is_acknowledged_and_ignored() {
        let mut others = told("captured", false, "49.90");
        others["merchant_reference"] = json!("shop:123");
        for none_of_ours in [others, json!(null)] {
            let answer = read_keyed(incoming(NOW_SECONDS, &none_of_ours)).unwrap();
            assert_eq!((answer.status, answer.notices), (200, Vec::new()));
        }
    }

    #[test]
    fn a_changed_byte_is_a_forgery() {
        let mut changed = incoming(NOW_SECONDS, &told("open", true, "0.00"));
        changed.body.push(b' ');
        assert!(matches!(
            read_keyed(changed),
            Err(CallbackFailure::Forged(_))
        ));
    }

    #[test]
    fn five_minutes_are_tolerated_and_no_second_more() {
        let session = told("open", true, "0.00");
        for seconds in [NOW_SECONDS - 300, NOW_SECONDS + 300] {
            assert!(read_keyed(incoming(seconds, &session)).is_ok());
        }
        for seconds in [NOW_SECONDS - 301, NOW_SECONDS + 301] {
            assert!(matches!(
                read_keyed(incoming(seconds, &session)),
                Err(CallbackFailure::Forged(_))
            ));
        }
    }

    #[test]
    fn signatures_of_another_form_are_forgeries() {
        let code = "0".repeat(64);
        for value in [
            String::new(),
            format!("v1={code}"),
            format!("t=1,v0={code}"),
            format!("t=-1,v1={code}"),
            format!("t=+1,v1={code}"),
            format!("t=,v1={code}"),
            format!("t=1,v1={}", "A".repeat(64)),
            format!("t=1,v1={}", &code[1..]),
            format!("t=1,v1={code},v1={code}"),
        ] {
            assert_eq!(parse(&value), None, "{value}");
        }
        let mut none = incoming(NOW_SECONDS, &told("open", true, "0.00"));
        let mut two = none.clone();
        two.headers.extend(none.headers.clone());
        none.headers.clear();
        for odd in [none, two] {
            assert!(matches!(read_keyed(odd), Err(CallbackFailure::Forged(_))));
        }
    }

    #[test]
    fn without_the_secret_the_vendor_is_asked_to_come_again() {
        let session = told("open", true, "0.00");
        let answer = read(&account(), &incoming(NOW_SECONDS, &session));
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }

    #[test]
    fn what_is_signed_and_cannot_be_read_is_acknowledged() {
        let mut text = incoming(NOW_SECONDS, &json!({}));
        let length = text.body.len();
        text.body = vec![b'x'; length];
        let get = CallbackRequest {
            verb: Verb::Get,
            ..incoming(NOW_SECONDS, &json!({}))
        };
        for odd in [incoming(NOW_SECONDS, &json!({})), text, get] {
            let answer = read_keyed(odd).unwrap();
            assert_eq!((answer.status, answer.notices.len()), (200, 0));
        }
    }
}
