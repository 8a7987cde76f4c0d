//! Requests to Razorpay: address and key.
use kassette_plugin::json::Json;
use kassette_plugin::provider::Account;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::http::Verb;

/// Secrets: the API key's two halves.
pub(crate) const KEY_ID: &str = "key-id";
pub(crate) const KEY_SECRET: &str = "key-secret";

/// Test and live keys are for the same address.
const API: &str = "https://api.razorpay.com";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// A change. Payment Links have no idempotency key: a link is kept to one by its reference, a capture
/// and a cancellation by the state that they need.
pub(crate) fn post(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).json(body).send()
}

/// A refund, repeatable under its key.
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
