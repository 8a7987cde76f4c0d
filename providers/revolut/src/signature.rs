//! The webhook's signature, verified before the body is parsed.
use kassette_plugin::encode;
use kassette_plugin::provider::call::header;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{Account, CallbackFailure, CallbackRequest};

/// Secret that signs webhooks.
pub(crate) const SECRET: &str = "webhook-secret";

const SIGNATURE: &str = "revolut-signature";
const TIMESTAMP: &str = "revolut-request-timestamp";

/// Scheme of the signature, which is part of the signed message.
const SCHEME: &str = "v1";

/// Maximum difference between the webhook's time and the current time, in milliseconds, in both directions.
const TOLERANCE: u64 = 300_000;

/// Maximum number of signatures that are checked: one for each currently valid secret.
const SIGNATURES: usize = 8;

/// Rejects a request that Revolut did not sign, or not within the last minutes.
pub(crate) fn verify(account: &Account, incoming: &CallbackRequest) -> Result<(), CallbackFailure> {
    let forged = |why: &str| CallbackFailure::Forged(why.into());
    let signatures = header(&incoming.headers, SIGNATURE)
        .ok_or_else(|| forged("there is not exactly one signature header"))?;
    let timestamp = header(&incoming.headers, TIMESTAMP)
        .ok_or_else(|| forged("there is not exactly one timestamp"))?;
    let digits = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let time: u64 = timestamp
        .parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| forged("the timestamp cannot be read"))?;
    if !secrets::ready(SECRET) {
        return Err(CallbackFailure::Later(format!(
            "secret {SECRET} is missing"
        )));
    }
    let head = format!("{SCHEME}.{timestamp}.");
    let message = [head.as_bytes(), &incoming.body].concat();
    // During a rotation of the secret there is one signature for each secret, separated by commas.
    let right = signatures.split(',').take(SIGNATURES).any(|signature| {
        let code = signature.trim().strip_prefix(SCHEME);
        let code = code.and_then(|rest| rest.strip_prefix('='));
        code.filter(|code| code.len() == 64)
            .and_then(encode::unhex)
            .is_some_and(|code| secrets::verify(SECRET, Algorithm::HmacSha256, &message, &code))
    });
    if !right {
        return Err(forged("the signature is wrong"));
    }
    if time.abs_diff(account.now) > TOLERANCE {
        return Err(forged("the timestamp is too old or from the future"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kassette_plugin::provider::{Environment, Verb};
    use kassette_plugin::testing::{Host, with_host};

    pub(crate) const NOW: u64 = 1_800_000_000_000;

    /// A host that accepts 32 bytes with the value of the message's length as its code.
    pub(crate) struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == SECRET
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(vec![u8::try_from(message.len() % 256).unwrap(); 32])
        }
    }

    pub(crate) fn account() -> Account {
        Account {
            id: "revolut-test".into(),
            environment: Environment::Test,
            now: NOW,
            callback_url: String::new(),
            settings: Vec::new(),
        }
    }

    fn code(time: u64, body: &[u8]) -> String {
        let length = format!("v1.{time}.").len() + body.len();
        format!("{:02x}", length % 256).repeat(32)
    }

    /// A webhook that [`Keyed`] accepts.
    pub(crate) fn signed(time: u64, body: &[u8]) -> CallbackRequest {
        CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![
                (TIMESTAMP.into(), time.to_string()),
                (SIGNATURE.into(), format!("v1={}", code(time, body))),
            ],
            body: body.to_vec(),
        }
    }

    fn judged(incoming: &CallbackRequest) -> Result<(), CallbackFailure> {
        with_host(Keyed, || verify(&account(), incoming))
    }

    #[test]
    fn a_changed_byte_is_a_forgery() {
        let mut changed = signed(NOW, b"{}");
        assert_eq!(judged(&changed), Ok(()));
        changed.body.push(b' ');
        assert!(matches!(judged(&changed), Err(CallbackFailure::Forged(_))));
    }

    #[test]
    fn five_minutes_are_tolerated_and_nothing_more() {
        for time in [NOW - 300_000, NOW + 300_000] {
            assert_eq!(judged(&signed(time, b"{}")), Ok(()));
        }
        for time in [NOW - 300_001, NOW + 300_001] {
            assert!(matches!(
                judged(&signed(time, b"{}")),
                Err(CallbackFailure::Forged(_))
            ));
        }
    }

    #[test]
    fn one_right_signature_among_several_is_enough() {
        let mut rotated = signed(NOW, b"{}");
        rotated.headers[1].1 = format!("v1={},{}", "0".repeat(64), rotated.headers[1].1);
        assert_eq!(judged(&rotated), Ok(()));
    }

    #[test]
    fn signatures_of_another_form_are_forgeries() {
        let right = code(NOW, b"{}");
        for value in [
            String::new(),
            right.clone(),
            format!("v2={right}"),
            format!("v1={}", &right[1..]),
            format!("v1={right}00"),
            format!("v1:{right}"),
            "v1=".into(),
        ] {
            let mut odd = signed(NOW, b"{}");
            odd.headers[1].1.clone_from(&value);
            assert!(
                matches!(judged(&odd), Err(CallbackFailure::Forged(_))),
                "{value}"
            );
        }
        for time in ["", "-1", "+1800000000000", "1.8e12"] {
            let mut odd = signed(NOW, b"{}");
            odd.headers[0].1 = time.into();
            assert!(
                matches!(judged(&odd), Err(CallbackFailure::Forged(_))),
                "{time}"
            );
        }
        let mut twice = signed(NOW, b"{}");
        twice.headers.extend(twice.headers.clone());
        let mut none = signed(NOW, b"{}");
        none.headers.clear();
        for odd in [twice, none] {
            assert!(matches!(judged(&odd), Err(CallbackFailure::Forged(_))));
        }
    }

    #[test]
    fn without_the_secret_the_vendor_is_asked_to_come_again() {
        let judged = verify(&account(), &signed(NOW, b"{}"));
        assert!(matches!(judged, Err(CallbackFailure::Later(_))));
    }
}
