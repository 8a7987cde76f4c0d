//! Paysafe's Payments API for Interac e-Transfer: handles, payments, settlements, refunds, webhooks.
//!
//! The payer's approval makes the handle payable, and the payment that the merchant makes with it captures the
//! money, so the fault `needs-capture` has no effect. The answer to that is always `PROCESSING`, and a webhook
//! reports the result. `decline` fails the handle. `review` has the payment held, and so does `dispute`, because
//! Interac has no disputes. A handle cannot be cancelled and lives 15 minutes. If the payer has approved and the
//! merchant makes no payment by then, the simulator makes it at the next query.
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
                pair("webhook-key", &shown_key(&account.callback_secret)),
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
                // Used up nevertheless, so that it does not wait for a later payment.
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

    /// The document "Interac e-Transfer": a payment is in progress when it is answered, and a webhook reports its
    /// result. A handle can be used for one payment only, even if that fails.
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

    /// A refund is pending when it is answered, and a webhook reports its result.
    fn refunds_after_ms(&self, _: &Session) -> u64 {
        LATER_MS
    }

    /// A handle that the payer cancels at Interac has ended.
    fn give_up(&self, session: &mut Session, now: u64) -> Result<Option<Happened>, Conflict> {
        session.give_up(now).map(Some)
    }

    fn part_id(&self, _: Part, hex: &str) -> String {
        hex.to_owned()
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        wire::event(account, &event).map(|told| Message::json(&told))
    }

    fn sign(&self, _: &Account, secret: &str, body: &str, _: u64) -> Vec<(&'static str, String)> {
        // HMAC accepts keys of any length, so this cannot fail; a missing signature would be rejected.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&hmac_key(secret)) else {
            return Vec::new();
        };
        mac.update(body.as_bytes());
        vec![("signature", STANDARD.encode(mac.finalize().into_bytes()))]
    }
}

/// The HMAC key as the Business Portal shows it, in base64. A callback secret that is not base64 is encoded.
fn shown_key(secret: &str) -> String {
    match STANDARD.decode(secret) {
        Ok(_) => secret.to_owned(),
        Err(_) => STANDARD.encode(secret),
    }
}

/// The bytes of the key.
fn hmac_key(secret: &str) -> Vec<u8> {
    let decoded = STANDARD.decode(secret);
    decoded.unwrap_or_else(|_| secret.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paysafe's published test vector.
    #[test]
    fn the_key_is_decoded_before_it_signs() {
        const KEY: &str = "Y+83Kt6imrf2eQBVojCfVAx9iDNwtgN7UzZydbpqUgNq3WzgJOhiNpdAF5b9UJ4Ymf++HMgdrgClOmwfq8qItCNcVaCT/MPhMGYgiMb+oLtc2K3nmJxvPxTR6caFalI8qKr6BgX0K1tqKDka2xJZhUZXCVjBsBmKJLT/XQ0+cTSGUfLOwOF+jo0Mgm8oHYnIdOTYlA1XIDJH867WhK8iWe54SONltkRZgNxejUoygtvwdUVxKKa+Mm57RXpH6pI7qh3gkKxcwlrUJ1LhkMLxSNwr78WH4zAd/ILHfEFWORJHgNilzyqyBMZutCtPHhDIBnzkgqfgv1eE6EcDozRT+Q==";
        let mut mac = Hmac::<Sha256>::new_from_slice(&hmac_key(KEY)).unwrap();
        mac.update(br#"{"id":1,"name":"John Smith"}"#);
        let code = STANDARD.encode(mac.finalize().into_bytes());
        assert_eq!(code, "cQPmKNg51k2mAcp8y6eh2oOl0OSbDwbK+chWLuifUxU=");
        assert_eq!(shown_key(KEY), KEY);
        for secret in ["no base64", "dGV4dA=="] {
            assert_eq!(
                STANDARD.decode(shown_key(secret)).unwrap(),
                hmac_key(secret)
            );
        }
    }
}
