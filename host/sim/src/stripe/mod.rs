//! Stripe: Checkout Sessions, their `PaymentIntents`, and events as its webhooks send them.
mod api;
mod create;
mod params;
mod problem;
mod refunds;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::Response,
};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use crate::{
    account::Account,
    afterwards::Part,
    capture::LATER_MS,
    config::{Environment, Profile, SimAccount},
    fault::Fault,
    refund::RefundState,
    session::{Conflict, Happened, Outcome, Session, State},
    vendor::{Call, Event, Message, Vendor, usually},
};

/// Every account of Stripe's speaks the same.
pub(crate) struct Stripe;

/// What the account's API key is.
fn secret_key(account: &SimAccount) -> String {
    let prefix = match account.environment {
        Environment::Test => "sk_test_",
        Environment::Live => "sk_live_",
    };
    format!("{prefix}{}", account.api_key)
}

/// What signs events: the whole text, its prefix included.
fn webhook_secret(secret: &str) -> String {
    format!("whsec_{secret}")
}

impl Vendor for Stripe {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(api::Api { account })
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        Profile {
            name: "Stripe",
            methods: &["credit_card", "ideal", "klarna", "cash_app", "revolut"],
            settings: vec![pair("base-url", api.to_owned())],
            secrets: vec![
                pair("secret-key", secret_key(account)),
                pair("webhook-secret", webhook_secret(&account.callback_secret)),
            ],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path == "/v1/balance" {
            Call::Other
        } else {
            Call::Payment
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        api::failure(status)
    }

    /// What the merchant captures is held for review before the capture, everything else after it.
    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        if session.held && session.state == State::Authorised {
            return reviewed(session, outcome, now).map(Some);
        }
        let by_merchant = session.extra.contains_key(wire::MANUAL);
        let happened = match outcome {
            Outcome::Approve if by_merchant && !session.held => {
                Some(account.approve(session, now, true)?)
            }
            Outcome::Review if by_merchant || account.faults.take(Fault::NeedsCapture) => {
                account.approve(session, now, true)?;
                session.held = true;
                Some(Happened::InReview)
            }
            _ => usually(account, session, outcome, now)?,
        };
        if happened == Some(Happened::InReview) {
            session.extra.insert(wire::REVIEWED.into(), String::new());
        }
        Ok(happened)
    }

    /// A card's is answered as made; of any other Stripe hears later.
    fn refunds_after_ms(&self, session: &Session) -> u64 {
        match session.method.as_str() {
            "credit_card" => 0,
            _ => LATER_MS,
        }
    }

    fn part_id(&self, part: Part, hex: &str) -> String {
        let end = hex.get(..24).unwrap_or(hex);
        match part {
            Part::Refund => format!("re_{end}"),
            Part::Dispute => format!("dp_{end}"),
        }
    }

    /// Of the events that Stripe sends about one change, the one that tells it. A merchant's own
    /// expiry is not told.
    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        let of = event.session;
        let session = || wire::session(account, of, event.at, &[]);
        let payment = || wire::payment(account, of, event.at, &[]);
        let (kind, object) = match event.happened {
            Happened::Opened => ("payment_intent.created", payment()),
            Happened::Authorised | Happened::Declined
                if of.extra.contains_key(wire::REVIEWED) && !of.is_payable(event.at) =>
            {
                ("review.closed", wire::review(account, of))
            }
            Happened::Declined => ("payment_intent.payment_failed", payment()),
            // Stripe takes it, and has not confirmed it yet.
            Happened::Authorised if of.capturing().is_some() => {
                ("payment_intent.processing", payment())
            }
            Happened::Authorised => ("payment_intent.amount_capturable_updated", payment()),
            Happened::CaptureRefused => return None,
            Happened::Voided => ("payment_intent.canceled", payment()),
            Happened::InReview => ("review.opened", wire::review(account, of)),
            // The session was complete when the payer approved.
            Happened::Captured if of.capture_key.is_some() => {
                ("payment_intent.succeeded", payment())
            }
            Happened::Captured if of.extra.contains_key(wire::REVIEWED) => {
                ("review.closed", wire::review(account, of))
            }
            Happened::Captured => ("checkout.session.completed", session()),
            Happened::RefundPending => {
                let refund = wire::refund(of, of.newest_refund()?);
                ("refund.created", refund)
            }
            Happened::Refunded | Happened::RefundFailed => {
                let refund = of.newest_refund()?;
                let kind = match (refund.state, refund.first) {
                    (RefundState::Succeeded, RefundState::Succeeded) => "charge.refunded",
                    (RefundState::Failed, _) => "refund.failed",
                    _ => "refund.updated",
                };
                if kind == "charge.refunded" {
                    (kind, wire::charge(account, of, &[]))
                } else {
                    (kind, wire::refund(of, refund))
                }
            }
            Happened::Disputed => {
                let dispute = wire::dispute(account, of, of.newest_dispute()?);
                ("charge.dispute.created", dispute)
            }
            Happened::DisputeWon | Happened::DisputeLost => {
                let dispute = wire::dispute(account, of, of.newest_dispute()?);
                ("charge.dispute.closed", dispute)
            }
        };
        Some(Message::json(&json!({
            "id": event.id,
            "object": "event",
            "api_version": "2025-03-31.basil",
            "created": event.at / 1_000,
            "data": { "object": object },
            "livemode": wire::is_live(account),
            "pending_webhooks": 1,
            "request": { "id": null, "idempotency_key": null },
            "type": kind,
        })))
    }

    fn sign(
        &self,
        _: &Account,
        secret: &str,
        body: &str,
        now_ms: u64,
    ) -> Vec<(&'static str, String)> {
        let seconds = now_ms / 1_000;
        // A key of any length is taken, so that this cannot fail; no signature is refused anyway.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(webhook_secret(secret).as_bytes()) else {
            return Vec::new();
        };
        mac.update(format!("{seconds}.{body}").as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![("stripe-signature", format!("t={seconds},v1={code}"))]
    }

    /// Stripe appends nothing: what the merchant wants to know stands in the address already.
    fn returns(&self, _: &Session, _: Outcome) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A person has looked at what Radar held before its capture.
fn reviewed(session: &mut Session, outcome: Outcome, now: u64) -> Result<Happened, Conflict> {
    let happened = match outcome {
        Outcome::Approve => Happened::Authorised,
        // As fraud: the authorisation is given back.
        Outcome::Decline => {
            session.extra.insert(wire::VOIDED.into(), String::new());
            session.extra.insert(wire::FRAUD.into(), String::new());
            session.close(now)?;
            Happened::Declined
        }
        Outcome::Review | Outcome::Pending => return Err(Conflict),
    };
    session.held = false;
    session.updated_at = now;
    Ok(happened)
}
