//! BTCPay Server: invoices of the Greenfield API, their refunds and their webhooks. Refusals are the server's.
//!
//! A chain has no declines, disputes or captures. Here a payer who declines lets the invoice expire, a dispute is
//! a conflict, and `needs-capture` has no effect.
//!
//! A refund is a pull payment that waits for the payer's claim, the payer page's `claim`; a failed refund is
//! archived. The real server creates any pull payment; here the amount is limited to the rest, so that the books
//! stay consistent.
mod api;
mod problem;
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
    afterwards::{Later, Part},
    config::{Profile, SimAccount},
    fault::Fault,
    refund::ON_CLAIM,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{Call, Event, Message, Vendor},
};

/// The provider. The books contain its whole state.
pub(crate) struct BtcPay;

fn store_id(account: &SimAccount) -> &str {
    &account.client_id
}

impl Vendor for BtcPay {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(account)
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Profile {
            name: "BTCPay",
            methods: &["crypto"],
            settings: vec![pair("base-url", api), pair("store-id", store_id(account))],
            secrets: vec![
                pair("api-key", &account.api_key),
                pair("webhook-secret", &account.callback_secret),
            ],
        }
    }

    /// Searches change nothing and precede every creation, so they do not use up a fault that was ordered for a
    /// payment.
    fn call(&self, method: &Method, path: &str) -> Call {
        let lists = ["/invoices", "/pull-payments", "/server/info"];
        let looks = method == Method::GET && lists.iter().any(|list| path.ends_with(list));
        if looks { Call::Other } else { Call::Payment }
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
            Outcome::Approve | Outcome::Review | Outcome::Decline | Outcome::Pending
                if !session.is_payable(now) =>
            {
                Err(Conflict)
            }
            Outcome::Approve => {
                account.faults.take(Fault::NeedsCapture);
                account.approve(session, now, false).map(Some)
            }
            Outcome::Review => session.hold(now, account.taken(session)).map(Some),
            Outcome::Decline => {
                let happened = session.decline(now)?;
                session.payable = false;
                Ok(Some(happened))
            }
            Outcome::Pending => Ok(None),
        }
    }

    /// A chain has no disputes.
    fn knows(&self, later: Later) -> bool {
        matches!(later, Later::Refund | Later::RefundFails | Later::Claim)
    }

    fn refunds_after_ms(&self, _: &Session) -> u64 {
        ON_CLAIM
    }

    /// The server's ids consist of letters and digits.
    fn part_id(&self, _: Part, hex: &str) -> String {
        hex.to_owned()
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        wire::event(account, &event).map(|body| Message::json(&body))
    }

    fn sign(&self, _: &Account, secret: &str, body: &str, _: u64) -> Vec<(&'static str, String)> {
        // HMAC accepts keys of any length, so this cannot fail; a missing signature would be rejected.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            return Vec::new();
        };
        mac.update(body.as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![("btcpay-sig", format!("sha256={code}"))]
    }

    /// The checkout leads back to the unchanged address.
    fn returns(&self, _: &Session, _: Outcome) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
