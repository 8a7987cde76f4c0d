//! Requests to Mollie: address, key, idempotency.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Verb};

/// Mollie's only address; the key decides between live and test.
const VENDOR: &str = "https://api.mollie.com";

/// Secret: the API key.
pub(crate) const KEY: &str = "api-key";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// A change that is made once per idempotency key.
pub(crate) fn post(
    account: &Account,
    path: &str,
    key: &str,
    body: &Json,
) -> Result<Answer, Broken> {
    call(account, Verb::Post, path)
        .header("idempotency-key", key)
        .json(body)
        .send()
}

/// Calls a payment off. Doing it twice is the same as once, so Mollie takes no key here.
pub(crate) fn delete(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Delete, path).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    let base = base_url(account, VENDOR, VENDOR);
    Call::new(verb, format!("{base}{path}"))
        .header("accept", "application/hal+json")
        .bearer(KEY)
}
