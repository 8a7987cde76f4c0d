//! Revolut: the orders of its Merchant API. `providers/README.md` describes the mapping.
//!
//! Based on Revolut's documents "Merchant API" (create, retrieve, list, capture, cancel and refund orders,
//! retrieve disputes, webhook event), "Refund payments", "Order and payment lifecycle", "Hosted Checkout Page" and
//! "Webhook signature verification", version 2026-04-20.
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating an order; the meaning of each refusal |
//! | `query.rs` | finding, capturing, cancelling and reading an order |
//! | `refund.rs` | making and finding refunds |
//! | `callback.rs` | the order that a webhook is about |
//! | `signature.rs` | the webhook's signature |
//! | `api.rs` | addresses and headers of the requests |
//! | `wire.rs` | parsing of Revolut's JSON |
//! | `report.rs` | the report about an order and its disputes |
//! | `particulars.rs` | their details: ids, fees, times, the card |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod particulars;
mod query;
mod refund;
mod report;
mod signature;
mod start;
mod wire;

use kassette_plugin::provider::call::BASE_URL;
use kassette_plugin::provider::{
    Account, Condition, Description, MethodSupport, Provider, SecretSpec, SettingForm, SettingSpec,
};

/// Wire ids of the supported methods. An order cannot be limited to one method: Revolut's page offers all methods
/// that the merchant has enabled there.
const METHODS: [&str; 2] = ["revolut", "credit_card"];

/// Currencies of orders that the gateway supports too.
const CURRENCIES: [&str; 17] = [
    "AED", "AUD", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "NOK", "NZD", "PLN", "RON",
    "SEK", "SGD", "USD", "ZAR",
];

pub struct Revolut;

impl Provider for Revolut {
    fn describe() -> Description {
        let support = |method: &str| MethodSupport::new(method, &CURRENCIES);
        Description {
            id: "revolut".into(),
            label: "Revolut".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: METHODS.into_iter().map(support).collect(),
            settings: vec![
                SettingSpec::optional(
                    start::CAPTURE,
                    "automatic (default): the money is taken when the payer approves. manual: it \
                     is only authorised then, and captured once the gateway's own checks are \
                     through.",
                )
                .among(&["automatic", "manual"])
                .or("automatic"),
                SettingSpec::optional(
                    query::KEEP_OPEN,
                    "true (default): a payer whose try was declined may try again at Revolut's \
                     page until they come back. false: the order is cancelled at the first \
                     decline.",
                )
                .form(SettingForm::Flag)
                .or("true"),
                SettingSpec::optional(
                    BASE_URL,
                    "Another address than https://merchant.revolut.com, or \
                     https://sandbox-merchant.revolut.com in the test environment; leave it out \
                     for a real account.",
                )
                .form(SettingForm::Address),
            ],
            secrets: vec![
                SecretSpec::text(
                    api::KEY,
                    "The Merchant API's Secret key (sk_…). Revolut Business, Merchant, Settings, \
                     APIs; a test account's in Sandbox Revolut Business.",
                ),
                SecretSpec::text(
                    signature::SECRET,
                    "The signing secret of the webhook (wsk_…) that posts to the account's callback \
                     address. Revolut tells it when the webhook is created, and when it is \
                     retrieved.",
                ),
            ],
            tokens: Vec::new(),
        }
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    /// The environments have different addresses and keys, so an accepted key belongs to the right environment.
    fn health(account: Account) -> Condition {
        match api::get(&account, "/api/orders?limit=1") {
            Ok(answer) if answer.status == 200 => Condition::Operational,
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::problem(&answer).to_string()),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

kassette_plugin::provider::export!(Revolut);
