//! PayPal's REST API for one-off payments with a wallet: Orders v2, captures, webhooks.
//!
//! The payer's approval moves no money: every payment waits for the merchant's capture, so the fault
//! `needs-capture` has no effect. An order cannot be cancelled. `decline` on the payer's page stands for an
//! approval that PayPal reverses (document "Handle uncaptured payments"): the order is voided, and a webhook
//! reports it.
mod api;
mod authority;
mod ids;
mod problem;
mod returns;
mod time;
mod webhook;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};

use self::authority::Authority;
use crate::{
    account::Account,
    afterwards::{Later, Part},
    capture::Captures,
    config::{Profile, SimAccount},
    fault::Fault,
    money::Amount,
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
        let mut settings = vec![
            pair("base-url", api.to_owned()),
            pair("webhook-id", webhook::ID.to_owned()),
            pair("venmo-by-redirect", true.to_string()),
        ];
        match Authority::derive(&account.callback_secret, account.environment) {
            Ok(authority) => settings.push(pair("simulator-root", authority.root())),
            Err(error) => tracing::error!(%error, "no certificate can be made"),
        }
        Profile {
            name: "PayPal",
            methods: &["paypal", "venmo"],
            settings,
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
                // Used up nevertheless, so that it does not wait for a later payment.
                let _as_always = account.faults.take(Fault::NeedsCapture);
                account.approve(session, now, true).map(Some)
            }
            Outcome::Review => {
                let happened = account.approve(session, now, true)?;
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
        }
    }

    /// Most captures are complete when they are answered; with `capture-late` they are pending. A refusal
    /// (`INSTRUMENT_DECLINED`) leaves the order approved.
    fn captures(&self) -> Captures {
        Captures::AT_ONCE
    }

    fn captured(&self, session: &mut Session) -> Happened {
        let at = session.updated_at.to_string();
        session.extra.insert(wire::CAPTURED_AT.to_owned(), at);
        session.held = session.extra.contains_key(wire::TO_BE_HELD);
        if session.held {
            Happened::InReview
        } else {
            Happened::Captured
        }
    }

    fn knows(&self, later: Later) -> bool {
        later != Later::CaptureFails
    }

    fn fee(&self, _: &Session, received: Amount) -> Amount {
        wire::fee(received)
    }

    fn part_id(&self, part: Part, hex: &str) -> String {
        match part {
            Part::Refund => ids::refund(hex),
            Part::Dispute => ids::dispute(hex),
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
        webhook::sign(account, secret, body, now_ms).unwrap_or_else(|error| {
            tracing::error!(%error, "a webhook cannot be signed");
            Vec::new()
        })
    }

    fn returns(&self, session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
        let mut query = vec![("token", session.reference.clone())];
        if outcome != Outcome::Decline {
            query.push(("PayerID", "QYR5Z8XDVJNXQ".to_owned()));
        }
        query
    }
}
