//! PayPal as far as its REST API serves one-off payments with a wallet: Orders v2, captures, webhooks.
//!
//! The payer's approval moves nothing: every payment waits for the merchant's capture, so the fault
//! `needs-capture` changes nothing. An order cannot be called off. `decline` on the payer's page stands
//! for an approval that PayPal takes back (its documents' "Handle uncaptured payments"): the order is
//! voided, and a webhook says so.
mod api;
mod ids;
mod problem;
mod time;
mod webhook;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};

use crate::{
    account::Account,
    config::{Profile, SimAccount},
    fault::Fault,
    sandbox::tokens::Tokens,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{Call, Event, Message, Vendor},
};

/// One account's API at PayPal.
#[derive(Default)]
pub(crate) struct PayPal {
    tokens: Tokens,
}

impl Vendor for PayPal {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(api::Api {
            account,
            vendor: self,
        })
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        Profile {
            name: "PayPal",
            methods: &["paypal", "venmo"],
            settings: vec![pair("base-url", api.to_owned())],
            secrets: vec![
                pair("client-id", account.client_id.clone()),
                pair("client-secret", account.api_key.clone()),
            ],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path.starts_with("/v2/") {
            Call::Payment
        } else {
            Call::Other
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
                session.approve(now, None).map(Some)
            }
            Outcome::Review => {
                let happened = session.approve(now, None)?;
                let mark = (wire::TO_BE_HELD.to_owned(), String::new());
                session.extra.extend([mark]);
                Ok(Some(happened))
            }
            Outcome::Decline => {
                let happened = session.decline(now)?;
                session.payable = false;
                Ok(Some(happened))
            }
            Outcome::Pending if session.is_payable(now) => Ok(None),
            Outcome::Pending => Err(Conflict),
            Outcome::Refund => session.refund(now, session.left()).map(Some),
            Outcome::Dispute => session.dispute(now).map(Some),
        }
    }

    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        webhook::event(account, &event)
    }

    fn sign(
        &self,
        account: &Account,
        secret: &str,
        body: &str,
        now_ms: u64,
    ) -> Vec<(&'static str, String)> {
        webhook::sign(&account.settings.provider_id, secret, body, now_ms)
    }

    fn returns(&self, session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
        let mut query = vec![("token", session.reference.clone())];
        if outcome != Outcome::Decline {
            query.push(("PayerID", "QYR5Z8XDVJNXQ".to_owned()));
        }
        query
    }
}
