//! Requests to the Greenfield API: address and credential.
use kassette_plugin::encode::percent;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Verb};
use kassette_plugin::settings;

/// Setting: the store whose invoices are created.
pub(crate) const STORE_ID: &str = "store-id";
/// Secret: API key sent with every request.
pub(crate) const API_KEY: &str = "api-key";

/// Id of the store. Empty if the setting is missing; the host prevents this.
pub(crate) fn store_id(account: &Account) -> &str {
    settings::text(&account.settings, STORE_ID).unwrap_or_default()
}

/// Path of an invoice. It includes the store, which servers before 2.4 require and later ones accept.
pub(crate) fn invoice(account: &Account, id: &str) -> String {
    format!("{}/{id}", invoices(account))
}

/// Path of the store's invoices.
pub(crate) fn invoices(account: &Account) -> String {
    format!("/stores/{}/invoices", percent(store_id(account)))
}

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// Sends a change. The server does not support idempotency keys.
pub(crate) fn post(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).json(body).send()
}

/// Sends a removal, which is idempotent.
pub(crate) fn delete(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Delete, path).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    // Each account has its own server: there is no common address.
    let url = format!("{}/api/v1{path}", base_url(account, "", ""));
    Call::new(verb, url)
        .header("accept", "application/json")
        .secret_header("authorization", "token ", API_KEY)
}
