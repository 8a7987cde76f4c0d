//! Mollie's Payments API v2, as far as the module `mollie` uses it.
//!
//! Differences from the provider: idempotency keys of payments do not expire (those of refunds live for an hour,
//! like the real ones), several refunds of the same amount are possible, an authorization is captured in full or
//! not at all, and the payer never chooses among methods.
mod api;
mod belongings;
mod problem;
mod refunds;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use url::Url;

use crate::{
    account::Account,
    afterwards::Part,
    capture::{CaptureRefusal, Captures, LATER_MS},
    config::{Environment, Profile, SimAccount},
    money::Amount,
    refund::RefundState,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{self, Call, Event, Message, Vendor},
};

pub(crate) struct Mollie;

/// The account's API key, as in its dashboard.
fn api_key(account: &SimAccount) -> String {
    let mode = match account.environment {
        Environment::Test => "test",
        Environment::Live => "live",
    };
    format!("{mode}_{}", account.api_key)
}

impl Vendor for Mollie {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(account)
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        Profile {
            name: "Mollie",
            methods: &["credit_card", "ideal", "klarna", "paypal"],
            settings: vec![("base-url".to_owned(), api.to_owned())],
            secrets: vec![("api-key".to_owned(), api_key(account))],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path.starts_with("/v2/payments") || path.starts_with("/v2/refunds") {
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
            Outcome::Approve if wire::is_manual(session) && session.is_payable(now) => {
                account.approve(session, now, true).map(Some)
            }
            // A failed payment has ended: the payer tries again with a new one.
            Outcome::Decline => {
                let happened = session.decline(now)?;
                session.close(now)?;
                Ok(Some(happened))
            }
            Outcome::Approve if session.held => {
                let happened = session.release(now)?;
                belongings::reverse(session, now);
                Ok(Some(happened))
            }
            // Mollie has no reviews. The case that needs an operator is a chargeback, here an immediate one;
            // releasing it means that the bank reverses it.
            _ => vendor::usually(account, session, outcome, now),
        }
    }

    /// The document "Captures API": a capture is pending until it has succeeded or failed; after a failed one the
    /// payment stays authorized.
    fn captures(&self) -> Captures {
        Captures {
            after_ms: LATER_MS,
            refusal: CaptureRefusal::Told,
        }
    }

    fn refunds_after_ms(&self, _: &Session) -> u64 {
        LATER_MS
    }

    /// A payer who leaves by "cancel" on Mollie's page cancels the payment.
    fn give_up(&self, session: &mut Session, now: u64) -> Result<Option<Happened>, Conflict> {
        session.give_up(now).map(Some)
    }

    fn fee(&self, session: &Session, _: Amount) -> Amount {
        belongings::fee(session)
    }

    fn withdraws_at_once(&self) -> bool {
        true
    }

    fn part_id(&self, part: Part, hex: &str) -> String {
        match part {
            Part::Refund => format!("re_{hex}"),
            Part::Dispute => format!("chb_{hex}"),
        }
    }

    fn event(&self, _: &Account, event: Event<'_>) -> Option<Message> {
        // The document "Refunds": there are no webhooks about queued or cancelled refunds.
        let silent = match event.happened {
            Happened::Opened | Happened::RefundPending => true,
            Happened::RefundFailed => {
                let refund = event.session.newest_refund();
                refund.is_some_and(|refund| refund.state == RefundState::Cancelled)
            }
            _ => false,
        };
        if silent {
            return None;
        }
        Some(Message {
            body: format!("id={}", event.session.reference),
            media_type: "application/x-www-form-urlencoded",
        })
    }

    fn callback_query(&self, session: &Session) -> Option<String> {
        let address = Url::parse(session.extra.get(wire::WEBHOOK_URL)?).ok()?;
        address.query().map(str::to_owned)
    }

    fn sign(&self, _: &Account, _: &str, _: &str, _: u64) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn returns(&self, _: &Session, _: Outcome) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
