//! Requests to Stripe: address, version, key, idempotency.
use kassette_plugin::provider::Account;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::http::Verb;

/// Secret: the API key.
pub(crate) const SECRET_KEY: &str = "secret-key";

/// Test and live keys use the same address.
const API: &str = "https://api.stripe.com";

/// API version that `wire` parses; overrides the account's default version.
const VERSION: &str = "2025-03-31.basil";

/// Header that marks an answer as a repetition of an earlier one under the same key.
const REPLAYED: &str = "idempotent-replayed";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// Sends a change. Stripe executes it once per key and answers a repetition with the first answer.
pub(crate) fn post(
    account: &Account,
    path: &str,
    key: &str,
    fields: &[(&str, &str)],
) -> Result<Answer, Broken> {
    call(account, Verb::Post, path)
        .header("idempotency-key", key)
        .form(fields)
        .send()
}

/// Sends a change that the payment's own state protects from a double execution. A refusal that Stripe stored
/// under the key may be out of date, so the request is sent again under a new key.
pub(crate) fn change(
    account: &Account,
    path: &str,
    key: &str,
    fields: &[(&str, &str)],
) -> Result<Answer, Broken> {
    let answer = post(account, path, key, fields)?;
    if answer.is_success() || !is_replayed(&answer) {
        return Ok(answer);
    }
    post(account, path, &format!("{key}-{}", account.now), fields)
}

/// Whether an answer repeats an earlier one and may be out of date.
pub(crate) fn is_replayed(answer: &Answer) -> bool {
    answer.header(REPLAYED) == Some("true")
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    let base = base_url(account, API, API);
    Call::new(verb, format!("{base}{path}"))
        .bearer(SECRET_KEY)
        .header("stripe-version", VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::provider::Environment;
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::testing::{Host, with_host};
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Repeats a stored refusal under one key, and succeeds under any other.
    struct Stale(Rc<RefCell<Vec<String>>>);
    impl Host for Stale {
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            let mut headers = request.headers.iter();
            let (_, key) = headers.find(|(name, _)| name == "idempotency-key").unwrap();
            self.0.borrow_mut().push(key.clone());
            let stale = key == "attempt-1-expire";
            Ok(Response {
                status: if stale { 400 } else { 200 },
                headers: vec![(REPLAYED.into(), stale.to_string())],
                body: b"{}".to_vec(),
            })
        }
    }

    #[test]
    fn a_refusal_from_an_earlier_time_is_asked_anew() {
        let account = Account {
            id: "stripe-test".into(),
            environment: Environment::Test,
            now: 7,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let keys = Rc::default();
        let answer = with_host(Stale(Rc::clone(&keys)), || {
            change(&account, "/v1/x", "attempt-1-expire", &[])
        });
        assert_eq!(answer.unwrap().status, 200);
        assert_eq!(*keys.borrow(), ["attempt-1-expire", "attempt-1-expire-7"]);
    }
}
