//! The sandbox vendor: a REST API as a good vendor would make it. `providers/README.md` describes
//! the protocol for those who write modules.
mod api;
mod problem;
mod tokens;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{
    account::Account,
    vendor::{Call, Event, Vendor},
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

    fn call(&self, path: &str) -> Call {
        if path.starts_with("/v1/sessions") {
            Call::Payment
        } else {
            Call::Other
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        problem::Problem::of_vendor(status).into_response()
    }

    fn event(&self, account: &Account, event: Event<'_>) -> String {
        wire::event(account, &event).to_string()
    }

    fn sign(&self, secret: &str, body: &str, now_ms: u64) -> Vec<(&'static str, String)> {
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
