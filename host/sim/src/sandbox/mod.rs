//! The sandbox provider: an exemplary REST API. `providers/README.md` describes the protocol for authors of
//! modules.
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
    afterwards::Later,
    config::{Profile, SimAccount},
    money::Amount,
    session::{Conflict, Happened, Session},
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

    fn knows(&self, _: Later) -> bool {
        true
    }

    fn give_up(&self, session: &mut Session, now: u64) -> Result<Option<Happened>, Conflict> {
        session.give_up(now).map(Some)
    }

    fn has_test_amounts(&self) -> bool {
        true
    }

    fn fee(&self, _: &Session, received: Amount) -> Amount {
        wire::fee(received)
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
        // HMAC accepts keys of any length, so this cannot fail; a missing signature would be rejected.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            return Vec::new();
        };
        mac.update(format!("{seconds}.{body}").as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![("sandbox-signature", format!("t={seconds},v1={code}"))]
    }
}
