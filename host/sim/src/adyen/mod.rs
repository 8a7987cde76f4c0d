//! Adyen: hosted sessions and payment links of the Checkout API, captures and cancellations of their payments, and
//! the standard webhook. Refusals are Adyen's.
mod api;
mod notification;
mod problem;
mod sessions;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use crate::{
    account::Account,
    afterwards::{Later, Part},
    capture::{CaptureRefusal, Captures, LATER_MS},
    config::{Profile, SimAccount},
    fault::Fault,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{Call, Event, Message, Vendor},
};

/// The provider. The books contain its whole state.
pub(crate) struct Adyen;

/// Wire ids of the supported methods.
const METHODS: [&str; 5] = ["credit_card", "ideal", "klarna", "paypal", "upi_imps"];

/// Whether the merchant captures payments by this method. The others are captured when the payer approves.
fn is_captured_by_merchant(method: &str) -> bool {
    matches!(method, "credit_card" | "klarna" | "paypal")
}

/// Time after a link's end in which a started payment can be finished, in milliseconds.
const UNDER_WAY_MS: u64 = 3_600_000;

/// Whether the payer has started a payment that the bank can still finish.
fn is_under_way(session: &Session, now: u64) -> bool {
    session.extra.contains_key(wire::UNDER_WAY)
        && now < session.expires_at.saturating_add(UNDER_WAY_MS)
}

/// Name of the merchant account.
fn merchant_account(account: &SimAccount) -> String {
    format!("{}ECOM", account.client_id)
}

fn api_key(account: &SimAccount) -> String {
    format!("AQE{}", account.api_key)
}

/// The key of notifications, configured as hexadecimal digits.
fn hmac_key(callback_secret: &str) -> [u8; 32] {
    Sha256::digest(callback_secret.as_bytes()).into()
}

impl Vendor for Adyen {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(account)
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        Profile {
            name: "Adyen",
            methods: &METHODS,
            settings: vec![
                pair("base-url", api.to_owned()),
                pair("merchant-account", merchant_account(account)),
            ],
            secrets: vec![
                pair("api-key", api_key(account)),
                pair(
                    "hmac-key",
                    hex::encode_upper(hmac_key(&account.callback_secret)),
                ),
            ],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path == "/v72/paymentMethods" {
            Call::Other
        } else {
            Call::Payment
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        problem::Problem::of_vendor(status).into_response()
    }

    /// Payments that the merchant captures are only authorized, with or without the fault `needs-capture`; the
    /// other methods have no authorization without a capture.
    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        let by_merchant = is_captured_by_merchant(&session.method);
        if session.is_over(now) && is_under_way(session, now) {
            session.reopen(now);
        }
        match outcome {
            // An operator of the merchant approves a case in the review queue.
            Outcome::Approve if session.held => {
                session.held = false;
                session.updated_at = now;
                Ok(Some(Happened::InReview))
            }
            Outcome::Approve | Outcome::Review if !session.is_payable(now) => Err(Conflict),
            Outcome::Approve | Outcome::Review => {
                account.faults.take(Fault::NeedsCapture);
                let happened = account.approve(session, now, by_merchant)?;
                session.held = outcome == Outcome::Review;
                if happened == Happened::Authorised && !by_merchant {
                    // There is no notification before the bank's confirmation.
                    session.extra.insert(wire::UNDER_WAY.into(), String::new());
                    return Ok(None);
                }
                session.extra.insert(wire::PAID.into(), String::new());
                Ok(match happened {
                    _ if session.held => Some(Happened::InReview),
                    happened => Some(happened),
                })
            }
            Outcome::Decline => session.decline(now).map(Some),
            Outcome::Pending if session.is_payable(now) => {
                if !by_merchant {
                    session.extra.insert(wire::UNDER_WAY.into(), String::new());
                    session.updated_at = now;
                }
                Ok(None)
            }
            Outcome::Pending => Err(Conflict),
        }
    }

    /// The documents "Capture" and "Cancel": requests are only accepted, and webhooks report their outcomes. After
    /// a failed capture the payment stays authorized.
    fn captures(&self) -> Captures {
        Captures {
            after_ms: LATER_MS,
            refusal: CaptureRefusal::Told,
        }
    }

    fn captured(&self, session: &mut Session) -> Happened {
        session.extra.insert(wire::PAID.into(), String::new());
        Happened::Captured
    }

    /// The document "Refund": requests are only accepted, and webhooks report their outcomes, including refusals.
    fn refunds_after_ms(&self, _: &Session) -> u64 {
        LATER_MS
    }

    fn refuses_refunds_later(&self) -> bool {
        true
    }

    fn knows(&self, _: Later) -> bool {
        true
    }

    /// Adyen withdraws the money with the chargeback.
    fn withdraws_at_once(&self) -> bool {
        true
    }

    fn part_id(&self, _: Part, hex: &str) -> String {
        hex.get(..16).unwrap_or(hex).to_uppercase()
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        notification::event(account, &event).map(|body| Message::json(&body))
    }

    /// The signature is inside the body.
    fn sign(&self, _: &Account, _: &str, _: &str, _: u64) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn sealed(&self, secret: &str, body: &str) -> String {
        notification::sealed(&hmac_key(secret), body)
    }

    /// A link's button leads back to the unchanged address; a session's page adds its result.
    fn returns(&self, session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
        if session.reference.starts_with(sessions::PREFIX) {
            sessions::returns(session, outcome)
        } else {
            Vec::new()
        }
    }
}
