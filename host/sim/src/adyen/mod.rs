//! Adyen: payment links of the Checkout API, their payments' captures and cancellations, and the
//! standard webhook. What it refuses it refuses as Adyen does.
mod api;
mod notification;
mod problem;
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
    config::{Profile, SimAccount},
    fault::Fault,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{Call, Event, Message, Vendor},
};

/// The vendor; it keeps nothing beside the books.
pub(crate) struct Adyen;

/// Our methods, by their wire ids.
const METHODS: [&str; 5] = ["credit_card", "ideal", "klarna", "paypal", "upi_imps"];

/// Whether the merchant captures what a payer approved by that method, or the money is taken at
/// once.
fn is_captured_by_merchant(method: &str) -> bool {
    matches!(method, "credit_card" | "klarna" | "paypal")
}

/// Name of the merchant account.
fn merchant_account(account: &SimAccount) -> String {
    format!("{}ECOM", account.client_id)
}

fn api_key(account: &SimAccount) -> String {
    format!("AQE{}", account.api_key)
}

/// The key of notifications, which is written down in hexadecimal digits.
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
        if path.starts_with("/v72/paymentLinks") || path.starts_with("/v72/payments/") {
            Call::Payment
        } else {
            Call::Other
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        problem::Problem::of_vendor(status).into_response()
    }

    /// What the merchant captures is only authorised, whether `needs-capture` was ordered or not;
    /// the other methods know no authorisation without money.
    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        let by_merchant = is_captured_by_merchant(&session.method);
        match outcome {
            // Somebody at the merchant's accepts a case of the review queue.
            Outcome::Approve if session.held => {
                session.held = false;
                session.updated_at = now;
                Ok(Some(Happened::InReview))
            }
            Outcome::Approve | Outcome::Review if !session.is_payable(now) => Err(Conflict),
            Outcome::Approve | Outcome::Review => {
                account.faults.take(Fault::NeedsCapture);
                let taken = (!by_merchant).then(|| account.taken(session));
                session.approve(now, taken)?;
                session.extra.insert(wire::PAID.into(), String::new());
                session.held = outcome == Outcome::Review;
                Ok(Some(match (session.held, by_merchant) {
                    (true, _) => Happened::InReview,
                    (false, true) => Happened::Authorised,
                    (false, false) => Happened::Captured,
                }))
            }
            Outcome::Decline => session.decline(now).map(Some),
            Outcome::Pending if session.is_payable(now) => Ok(None),
            Outcome::Pending => Err(Conflict),
            Outcome::Refund => session.refund(now, session.left()).map(Some),
            Outcome::Dispute => session.dispute(now).map(Some),
        }
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        notification::event(account, &event).map(|body| Message::json(&body))
    }

    /// The signature stands in the body.
    fn sign(&self, _: &Account, _: &str, _: &str, _: u64) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn sealed(&self, secret: &str, body: &str) -> String {
        notification::sealed(&hmac_key(secret), body)
    }

    /// The payment page's button leads back to the address as it was given.
    fn returns(&self, _: &Session, _: Outcome) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
