//! Stripe: Checkout Sessions, their `PaymentIntents`, and webhook events.
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
    afterwards::{Later, Part},
    capture::LATER_MS,
    config::{Environment, Profile, SimAccount},
    fault::Fault,
    money::Amount,
    refund::RefundState,
    session::{Conflict, Happened, Outcome, Session, State},
    vendor::{Call, Event, Message, Vendor, usually},
};

/// The provider. The books contain its whole state.
pub(crate) struct Stripe;

/// The account's API key.
fn secret_key(account: &SimAccount) -> String {
    let prefix = match account.environment {
        Environment::Test => "sk_test_",
        Environment::Live => "sk_live_",
    };
    format!("{prefix}{}", account.api_key)
}

/// The key that signs events: the whole text including its prefix.
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

    /// Payments that the merchant captures are reviewed before the capture, all others after it.
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

    /// A card's refund is executed when it is answered, other refunds later.
    fn refunds_after_ms(&self, session: &Session) -> u64 {
        match session.method.as_str() {
            "credit_card" => 0,
            _ => LATER_MS,
        }
    }

    fn knows(&self, later: Later) -> bool {
        later != Later::CaptureFails
    }

    fn fee(&self, _: &Session, received: Amount) -> Amount {
        wire::fee(received)
    }

    fn part_id(&self, part: Part, hex: &str) -> String {
        let end = hex.get(..24).unwrap_or(hex);
        match part {
            Part::Refund => format!("re_{end}"),
            Part::Dispute => format!("dp_{end}"),
        }
    }

    /// Stripe sends several events about a change; this is the main one. There is no event about a merchant's own
    /// expiry.
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
            // Stripe captures it, and has not confirmed this yet.
            Happened::Authorised if of.capturing().is_some() => {
                ("payment_intent.processing", payment())
            }
            Happened::Authorised => ("payment_intent.amount_capturable_updated", payment()),
            Happened::CaptureRefused | Happened::CaptureFailed => return None,
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
        // HMAC accepts keys of any length, so this cannot fail; a missing signature would be rejected.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(webhook_secret(secret).as_bytes()) else {
            return Vec::new();
        };
        mac.update(format!("{seconds}.{body}").as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![("stripe-signature", format!("t={seconds},v1={code}"))]
    }

    /// Stripe adds no query: the merchant puts everything into the address.
    fn returns(&self, _: &Session, _: Outcome) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// An operator has reviewed a payment that Radar held before its capture.
fn reviewed(session: &mut Session, outcome: Outcome, now: u64) -> Result<Happened, Conflict> {
    let happened = match outcome {
        Outcome::Approve => Happened::Authorised,
        // Reviewed as fraud: the authorization is cancelled.
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
