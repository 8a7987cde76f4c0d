//! Requests to Razorpay: address and key.
use kassette_plugin::json::Json;
use kassette_plugin::provider::Account;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::http::Verb;

/// Secrets: the two halves of the API key.
pub(crate) const KEY_ID: &str = "key-id";
pub(crate) const KEY_SECRET: &str = "key-secret";

/// Test and live keys use the same address.
const API: &str = "https://api.razorpay.com";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// Sends a change. Payment Links have no idempotency key. A link's reference prevents duplicates; captures and
/// cancellations are safe because they require a certain state.
pub(crate) fn post(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).json(body).send()
}

/// Requests a refund. Razorpay executes it once per key.
pub(crate) fn refund(
    account: &Account,
    path: &str,
    key: &str,
    body: &Json,
) -> Result<Answer, Broken> {
    let call = call(account, Verb::Post, path).header("x-refund-idempotency", key);
    call.json(body).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    let base = base_url(account, API, API);
    Call::new(verb, format!("{base}{path}")).basic(KEY_ID, Some(KEY_SECRET))
}
