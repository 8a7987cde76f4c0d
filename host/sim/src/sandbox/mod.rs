//! The sandbox vendor: a REST API as a good vendor would make it. `providers/README.md` describes
//! the protocol for those who write modules.
mod api;
mod problem;
pub(crate) mod tokens;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{
    account::Account,
    config::{Profile, SimAccount},
    vendor::{Call, Event, Message, Vendor},
};

/// One account's API at the sandbox.
#[derive(Default)]
pub(crate) struct Sandbox {
    tokens: tokens::Tokens,
}

impl Vendor for Sandbox {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(api::Api {
            account,
            vendor: self,
        })
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Profile {
            name: "Sandbox",
            methods: &wire::METHODS,
            settings: vec![pair("base-url", api)],
            secrets: vec![
                pair("client-id", &account.client_id),
                pair("client-secret", &account.api_key),
                pair("callback-secret", &account.callback_secret),
            ],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path.starts_with("/v1/sessions") {
            Call::Payment
        } else {
            Call::Other
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        problem::Problem::of_vendor(status).into_response()
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        Some(Message::json(&wire::event(account, &event)))
    }

    fn sign(
        &self,
        _: &Account,
        secret: &str,
        body: &str,
        now_ms: u64,
    ) -> Vec<(&'static str, String)> {
        let seconds = now_ms / 1_000;
        // A key of any length is taken, so that this cannot fail; no signature is refused anyway.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            return Vec::new();
        };
        mac.update(format!("{seconds}.{body}").as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![("sandbox-signature", format!("t={seconds},v1={code}"))]
    }
}
