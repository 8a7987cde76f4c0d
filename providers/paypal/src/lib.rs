//! PayPal: the Orders API v2, paid with a PayPal or a Venmo wallet.
//!
//! Based on PayPal's documents "Orders API v2", "Payments API v2", "Webhooks management API v1", "Integrate
//! webhooks", "Webhook event names", "Disputes API v1", "API idempotency", "Currency codes", "Pay with Venmo",
//! "Handle uncaptured payments" and "Refund Payments for Individual Transactions".
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating an order; the meaning of each refusal |
//! | `query.rs` | capturing, closing and reading an order |
//! | `refund.rs` | refunding a capture; the meaning of each refusal |
//! | `callback.rs` | webhooks that matter, and the facts that they prove |
//! | `signature.rs` | verification that PayPal sent a webhook |
//! | `certificate.rs` | RSA, and certificate chains |
//! | `api.rs` | requests: token, headers, refusals |
//! | `dispute.rs` | disputes, which an order does not contain |
//! | `wire.rs`, `capture.rs` | parsing of orders and captures |
//! | `money.rs` | amounts in PayPal's notation |
//!
//! Only one call moves money: the capture that the host requests with the purpose `capture`. A payer's approval
//! reserves nothing, so an order without a capture costs nothing.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod capture;
mod certificate;
mod dispute;
mod money;
#[cfg(test)]
mod payloads;
mod query;
mod refund;
mod signature;
mod start;
mod wire;

use kassette_plugin::provider::{
    Account, Condition, Description, Environment, MethodSupport, Provider, SecretSpec, Setting,
    SettingForm, SettingSpec,
};

pub struct PayPal;

impl Provider for PayPal {
    fn describe() -> Description {
        Description {
            id: "paypal".into(),
            label: "PayPal".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: vec![
                MethodSupport::new("paypal", &money::CURRENCIES),
                MethodSupport::new("venmo", &["USD"]),
            ],
            settings: [
                SettingSpec::optional(
                    "base-url",
                    "Another address of the API than PayPal's own. Leave it out for a real account.",
                ).form(SettingForm::Address),
                SettingSpec::optional(
                    start::VENMO,
                    "true: PayPal has allowed this account to send Venmo's payers to its page. Default: Venmo is refused, because PayPal promises it to its JavaScript SDK alone.",
                ).form(SettingForm::Flag).or("false"),
            ]
            .into_iter()
            .chain(signature::needs())
            .collect(),
            secrets: vec![
                SecretSpec::text(
                    api::CLIENT_ID,
                    "Client ID of the REST app: Developer Dashboard, Apps & Credentials, your app. Giving money back needs its scope https://uri.paypal.com/services/payments/refund",
                ),
                SecretSpec::text(
                    api::CLIENT_SECRET,
                    "Secret of the REST app: beside its client ID in the Developer Dashboard",
                ),
            ],
            tokens: vec![api::TOKEN.into()],
        }
    }

    fn check_settings(_: Environment, settings: &[Setting]) -> Result<(), String> {
        signature::simulator(settings).map(drop)
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    fn health(account: Account) -> Condition {
        callback::health(&account)
    }
}

kassette_plugin::provider::export!(PayPal);
