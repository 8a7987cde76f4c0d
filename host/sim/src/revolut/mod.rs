//! Revolut's Merchant API: the orders and disputes that the module `revolut` uses.
//!
//! Differences from the provider: redirect addresses on this machine are accepted, a payer who was declined is
//! redirected like one who has paid, disputes can be queried in the test environment too, and an order is captured
//! in full or not at all.
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
use serde_json::json;
use sha2::Sha256;

use crate::{
    account::Account,
    afterwards::Part,
    capture::{Captures, LATER_MS},
    config::{Profile, SimAccount},
    money::Amount,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{self, Call, Event, Message, Vendor},
};

pub(crate) struct Revolut;

/// The Merchant API's Secret key of an account.
fn secret_key(account: &SimAccount) -> String {
    format!("sk_{}", account.api_key)
}

fn signing_secret(secret: &str) -> String {
    format!("wsk_{secret}")
}

impl Vendor for Revolut {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(account)
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let webhook_secret = signing_secret(&account.callback_secret);
        Profile {
            name: "Revolut",
            methods: &["revolut", "credit_card"],
            settings: vec![("base-url".to_owned(), api.to_owned())],
            secrets: vec![
                ("secret-key".to_owned(), secret_key(account)),
                ("webhook-secret".to_owned(), webhook_secret),
            ],
        }
    }

    /// A search for orders is not a call about a payment, so it does not use up a fault that was ordered for the
    /// creation after it.
    fn call(&self, method: &Method, path: &str) -> Call {
        let search = method == Method::GET && path == "/api/orders";
        if path.starts_with("/api/orders") && !search {
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
            // Revolut has no reviews. The case that needs an operator is a dispute, here an immediate one;
            // releasing it means winning it.
            Outcome::Approve if session.held => {
                let happened = session.release(now)?;
                session
                    .extra
                    .insert(wire::DISPUTE.to_owned(), "won".to_owned());
                Ok(Some(happened))
            }
            _ => vendor::usually(account, session, outcome, now),
        }
    }

    /// The document "Capture an order": a capture moves the order to the processing stage.
    fn captures(&self) -> Captures {
        Captures {
            after_ms: LATER_MS,
            ..Captures::AT_ONCE
        }
    }

    /// "Refund an order": refunds are processed asynchronously.
    fn refunds_after_ms(&self, _: &Session) -> u64 {
        LATER_MS
    }

    fn fee(&self, _: &Session, received: Amount) -> Amount {
        wire::fee(received)
    }

    fn part_id(&self, part: Part, hex: &str) -> String {
        wire::part_id(part, hex)
    }

    fn event(&self, _: &Account, event: Event<'_>) -> Option<Message> {
        let session = event.session;
        let of_order = |name: &str| {
            json!({
                "event": name,
                "order_id": session.reference,
                "merchant_order_ext_ref": session.attempt_id,
            })
        };
        let of_dispute = |name: &str| {
            let inquiry = wire::kin(&session.reference, wire::Kin::Dispute);
            let id = session
                .newest_dispute()
                .map_or(inquiry, |dispute| dispute.id.clone());
            json!({ "event": name, "dispute_id": id })
        };
        // A refund is a separate order, with the reference of its request.
        let of_refund = |name: &str| {
            let refund = session.newest_refund();
            let told = refund
                .map(|refund| wire::refund(session, refund))
                .unwrap_or_default();
            let mut event = json!({ "event": name, "order_id": told["id"] });
            if let Some(reference) = told["merchant_order_data"]["reference"].as_str() {
                event["merchant_order_ext_ref"] = reference.into();
            }
            event
        };
        let body = match event.happened {
            Happened::Opened
            | Happened::CaptureRefused
            | Happened::CaptureFailed
            | Happened::RefundPending => return None,
            // Revolut captures it, and has not confirmed this yet.
            Happened::Authorised if session.capturing().is_some() => return None,
            Happened::Voided => of_order("ORDER_CANCELLED"),
            Happened::Declined => of_order("ORDER_PAYMENT_DECLINED"),
            Happened::Authorised => of_order("ORDER_AUTHORISED"),
            Happened::Captured if session.extra.contains_key(wire::DISPUTE) => {
                of_dispute("DISPUTE_WON")
            }
            Happened::Captured => of_order("ORDER_COMPLETED"),
            Happened::InReview => of_dispute("DISPUTE_UNDER_REVIEW"),
            Happened::Disputed => of_dispute("DISPUTE_ACTION_REQUIRED"),
            Happened::DisputeWon => of_dispute("DISPUTE_WON"),
            Happened::DisputeLost => of_dispute("DISPUTE_LOST"),
            Happened::Refunded => of_refund("ORDER_COMPLETED"),
            Happened::RefundFailed => of_refund("ORDER_FAILED"),
        };
        Some(Message::json(&body))
    }

    fn sign(
        &self,
        _: &Account,
        secret: &str,
        body: &str,
        now_ms: u64,
    ) -> Vec<(&'static str, String)> {
        // HMAC accepts keys of any length, so this cannot fail; a missing signature would be rejected.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(signing_secret(secret).as_bytes()) else {
            return Vec::new();
        };
        mac.update(format!("v1.{now_ms}.{body}").as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![
            ("revolut-request-timestamp", now_ms.to_string()),
            ("revolut-signature", format!("v1={code}")),
        ]
    }

    /// The provider's page redirects only a payer who has paid; this one redirects every payer, so that the
    /// gateway learns of it.
    fn returns(&self, session: &Session, _: Outcome) -> Vec<(&'static str, String)> {
        vec![("_rp_oid", session.reference.clone())]
    }
}
