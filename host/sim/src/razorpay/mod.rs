//! Razorpay: Payment Links, their payments, and webhook events.
mod api;
mod payment;
mod problem;
mod wire;

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::Response,
};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::{
    account::Account,
    afterwards::{Later, Part},
    config::{Environment, Profile, SimAccount},
    money::Amount,
    session::{Conflict, Happened, Outcome, Session},
    vendor::{Call, Event, Message, Vendor, usually},
};

/// The provider. The books contain its whole state.
pub(crate) struct Razorpay;

/// The public half of the account's API key.
fn key_id(account: &SimAccount) -> String {
    let prefix = match account.environment {
        Environment::Test => "rzp_test_",
        Environment::Live => "rzp_live_",
    };
    format!("{prefix}{}", account.client_id)
}

impl Vendor for Razorpay {
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router {
        api::routes(api::Api { account })
    }

    fn profile(&self, account: &SimAccount, api: &str) -> Profile {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Profile {
            name: "Razorpay",
            methods: &["upi_imps"],
            settings: vec![pair("base-url", api)],
            secrets: vec![
                pair("key-id", &key_id(account)),
                pair("key-secret", &account.api_key),
                pair("webhook-secret", &account.callback_secret),
            ],
        }
    }

    fn call(&self, _: &Method, path: &str) -> Call {
        if path == "/v1/payments" {
            Call::Other
        } else {
            Call::Payment
        }
    }

    fn failure(&self, status: StatusCode) -> Response {
        api::failure(status)
    }

    /// `review` stands for a payment that the bank suspects. A payer who leaves has the payment open in an app,
    /// and may approve it there after the link has ended.
    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        if outcome == Outcome::Approve && payment::may_come_late(session, now) {
            session.reopen(now);
        }
        let happened = usually(account, session, outcome, now)?;
        match outcome {
            Outcome::Approve | Outcome::Review => payment::approved(session),
            Outcome::Decline => payment::refused(session, now),
            Outcome::Pending => payment::waits(session, now),
        }
        if happened == Some(Happened::InReview) {
            session.extra.insert(payment::ASKED.into(), String::new());
        }
        Ok(happened)
    }

    fn knows(&self, later: Later) -> bool {
        later != Later::CaptureFails
    }

    fn fee(&self, _: &Session, received: Amount) -> Amount {
        let (fee, tax) = payment::fee(received);
        Amount(fee.saturating_add(tax))
    }

    fn part_id(&self, part: Part, hex: &str) -> String {
        let end = hex.get(..14).unwrap_or(hex);
        match part {
            Part::Refund => format!("rfnd_{end}"),
            Part::Dispute => format!("disp_{end}"),
        }
    }

    /// Razorpay sends several events about a change; this is the main one. There is no event about a link's
    /// creation or the merchant's own cancellation.
    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message> {
        let of = event.session;
        let kind = match event.happened {
            Happened::Opened | Happened::CaptureRefused | Happened::CaptureFailed => return None,
            Happened::RefundPending => "refund.created",
            Happened::Declined => "payment.failed",
            Happened::Authorised => "payment.authorized",
            Happened::InReview | Happened::Disputed => "payment.dispute.created",
            Happened::Captured if of.extra.contains_key(payment::ASKED) => "payment.dispute.closed",
            Happened::Captured if of.capture_key.is_some() => "payment.captured",
            Happened::Captured => "payment_link.paid",
            // Razorpay refunds an authorization that expires: "Auto-Refunds".
            Happened::Refunded | Happened::Voided => "refund.processed",
            Happened::RefundFailed => "refund.failed",
            Happened::DisputeWon => "payment.dispute.won",
            Happened::DisputeLost => "payment.dispute.lost",
        };
        let entities = [
            ("payment", payment::newest(of, event.at)),
            (
                "payment_link",
                (kind == "payment_link.paid").then(|| wire::link(account, of, event.at)),
            ),
            (
                "refund",
                of.newest_refund()
                    .map(|refund| payment::refund(of, refund))
                    .or_else(|| payment::released(of))
                    .filter(|_| kind.starts_with("refund.")),
            ),
            (
                "dispute",
                payment::disputes(of)
                    .pop()
                    .filter(|_| kind.starts_with("payment.dispute.")),
            ),
        ];
        let entities = entities
            .into_iter()
            .filter_map(|(name, entity)| Some((name.to_owned(), json!({ "entity": entity? }))));
        let payload: Map<String, Value> = entities.collect();
        Some(Message::json(&json!({
            "entity": "event",
            "account_id": format!("acc_{}", account.settings.client_id),
            "event": kind,
            "contains": payload.keys().collect::<Vec<_>>(),
            "payload": payload,
            "created_at": event.at / 1_000,
        })))
    }

    /// The signature covers only the body, not the time of the delivery.
    fn sign(&self, _: &Account, secret: &str, body: &str, _: u64) -> Vec<(&'static str, String)> {
        // HMAC accepts keys of any length, so this cannot fail; a missing signature would be rejected.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            return Vec::new();
        };
        mac.update(body.as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        vec![("x-razorpay-signature", code)]
    }

    /// A payer who has paid returns with the payment's ids; other payers return without a query.
    fn returns(&self, session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
        if !matches!(outcome, Outcome::Approve | Outcome::Review) {
            return Vec::new();
        }
        vec![
            ("razorpay_payment_id", payment::id(session)),
            ("razorpay_payment_link_id", session.reference.clone()),
            (
                "razorpay_payment_link_reference_id",
                session.attempt_id.clone(),
            ),
            ("razorpay_payment_link_status", "paid".to_owned()),
        ]
    }
}
