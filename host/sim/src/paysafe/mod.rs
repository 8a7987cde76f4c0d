//! Paysafe as far as its Payments API serves Interac e-Transfer: handles, payments,
//! settlements, refunds, webhooks.
//!
//! The payer's approval makes the handle payable; the money is taken when the merchant makes a payment
//! with it, so the fault `needs-capture` changes nothing. The answer to that is always `PROCESSING`: the
//! webhook that follows tells how it ended. `decline` fails the handle, `review` has the payment held,
//! and so does `dispute`, for Interac knows none. A handle cannot be called off and lives 15 minutes; an
//! approval whose money was not asked for until then is paid by itself, when it is next looked at.
mod api;
mod problem;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{
    account::Account,
    afterwards::Part,
    capture::{CaptureRefusal, Captures, LATER_MS},
    config::{Profile, SimAccount},
    fault::Fault,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{Call, Event, Message, Vendor},
};

/// One account's API at Paysafe.
#[derive(Default)]
pub(crate) struct Paysafe;

impl Vendor for Paysafe {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(account)
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Profile {
            name: "Paysafe",
            methods: &["interac"],
            settings: vec![pair("base-url", api)],
            secrets: vec![
                pair("api-user", &account.client_id),
                pair("api-password", &account.api_key),
                pair("webhook-key", &account.callback_secret),
            ],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path.ends_with("/paymentmethods") {
            Call::Other
        } else {
            Call::Payment
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        problem::Problem::of_vendor(status).into_response()
    }

    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        match outcome {
            Outcome::Approve if session.held => session.release(now).map(Some),
            Outcome::Approve => {
                // Used up all the same, so that it does not wait for a payment of another day.
                let _as_always = account.faults.take(Fault::NeedsCapture);
                account.approve(session, now, true).map(Some)
            }
            Outcome::Review => {
                let happened = account.approve(session, now, true)?;
                session.extra.extend([wire::to_be_held()]);
                Ok(Some(happened))
            }
            Outcome::Decline => {
                let happened = session.decline(now)?;
                session.payable = false;
                Ok(Some(happened))
            }
            Outcome::Pending if session.is_payable(now) => Ok(None),
            Outcome::Pending => Err(Conflict),
        }
    }

    /// The document "Interac e-Transfer": a payment is in progress when it is answered, and a webhook
    /// tells its end. A handle is good for one payment, whatever becomes of that.
    fn captures(&self) -> Captures {
        Captures {
            after_ms: LATER_MS,
            refusal: CaptureRefusal::Ends,
        }
    }

    fn captured(&self, session: &mut Session) -> Happened {
        session.held = wire::is_to_be_held(session);
        if session.held {
            Happened::InReview
        } else {
            Happened::Captured
        }
    }

    /// A refund is on its way when it is answered, and a webhook tells its end.
    fn refunds_after_ms(&self, _: &Session) -> u64 {
        LATER_MS
    }

    fn part_id(&self, _: Part, hex: &str) -> String {
        hex.to_owned()
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        wire::event(account, &event).map(|told| Message::json(&told))
    }

    fn sign(&self, _: &Account, secret: &str, body: &str, _: u64) -> Vec<(&'static str, String)> {
        // A key of any length is taken, so that this cannot fail; no signature is refused anyway.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            return Vec::new();
        };
        mac.update(body.as_bytes());
        vec![("signature", STANDARD.encode(mac.finalize().into_bytes()))]
    }
}
