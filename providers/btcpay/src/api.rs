//! Requests to the Greenfield API: address and credential.
use kassette_plugin::encode::percent;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Verb};
use kassette_plugin::settings;

/// Setting: whose invoices are made.
pub(crate) const STORE_ID: &str = "store-id";
/// Secret: the credential of every request.
pub(crate) const API_KEY: &str = "api-key";

/// The store; empty where the setting is missing, which the host does not let happen.
pub(crate) fn store_id(account: &Account) -> &str {
    settings::text(&account.settings, STORE_ID).unwrap_or_default()
}

/// Where the store's invoices are.
pub(crate) fn invoices(account: &Account) -> String {
    format!("/stores/{}/invoices", percent(store_id(account)))
}

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// A change. The server knows no idempotency keys.
pub(crate) fn post(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).json(body).send()
}

/// A change that is the same however often it is made.
pub(crate) fn put(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Put, path).json(body).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    // Each account has a server of its own: there is no address of the vendor's.
    let url = format!("{}/api/v1{path}", base_url(account, "", ""));
    Call::new(verb, url)
        .header("accept", "application/json")
        .secret_header("authorization", "token ", API_KEY)
}
