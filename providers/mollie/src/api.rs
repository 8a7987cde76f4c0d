//! Requests to Mollie: address, key, idempotency.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Verb};

/// Mollie's only address; the key determines live or test mode.
const VENDOR: &str = "https://api.mollie.com";

/// Secret: the API key.
pub(crate) const KEY: &str = "api-key";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// Sends a change. Mollie executes it once per idempotency key.
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

/// Cancels a payment. This is idempotent, so Mollie accepts no key.
pub(crate) fn delete(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Delete, path).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    let base = base_url(account, VENDOR, VENDOR);
    Call::new(verb, format!("{base}{path}"))
        .header("accept", "application/hal+json")
        .bearer(KEY)
}
