//! Requests to Revolut: address, version, key.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Verb};

const LIVE: &str = "https://merchant.revolut.com";
const TEST: &str = "https://sandbox-merchant.revolut.com";

/// API version that this module supports.
pub(crate) const VERSION: &str = "2026-04-20";

/// Secret: the Merchant API's Secret key.
pub(crate) const KEY: &str = "secret-key";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// Sends a change with a body. It has no idempotency key.
pub(crate) fn post(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).json(body).send()
}

/// Requests a refund. Revolut executes it once per key.
pub(crate) fn refund(
    account: &Account,
    path: &str,
    key: &str,
    body: &Json,
) -> Result<Answer, Broken> {
    let call = call(account, Verb::Post, path).header("idempotency-key", key);
    call.json(body).send()
}

/// Sends a change without a body.
pub(crate) fn act(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    let base = base_url(account, LIVE, TEST);
    Call::new(verb, format!("{base}{path}"))
        .header("accept", "application/json")
        .header("revolut-api-version", VERSION)
        .bearer(KEY)
}
