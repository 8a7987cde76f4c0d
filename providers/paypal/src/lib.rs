//! PayPal: the Orders API v2, paid with a PayPal or a Venmo wallet.
//!
//! Written after PayPal's documents "Orders API v2", "Payments API v2", "Webhooks management API v1",
//! "Integrate webhooks", "Webhook event names", "Disputes API v1", "API idempotency", "Currency codes",
//! "Pay with Venmo", "Handle uncaptured payments" and "Refund Payments for Individual Transactions".
//!
//! | File | Holds |
//! |---|---|
//! | `lib.rs` | what the module is, and the world's functions |
//! | `start.rs` | creating an order; what each refusal proves |
//! | `query.rs` | capturing, closing and reading an order |
//! | `refund.rs` | giving a capture back; what each refusal proves |
//! | `callback.rs` | which webhooks matter, and what they prove |
//! | `signature.rs` | whether a webhook is PayPal's |
//! | `certificate.rs` | RSA, and certificates that lead to a root |
//! | `api.rs` | requests: token, headers, refusals |
//! | `wire.rs`, `capture.rs` | orders and captures, read strictly |
//! | `money.rs` | amounts as PayPal writes them |
//!
//! Money moves in one place only: the capture that the host asks for with the purpose `capture`. A payer's
//! approval reserves nothing, so an order that the host does not capture costs nothing.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod capture;
mod certificate;
mod money;
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
                ).of(SettingForm::Address),
                SettingSpec::optional(
                    start::VENMO,
                    "true: PayPal has allowed this account to send Venmo's payers to its page. Default: Venmo is refused, because PayPal promises it to its JavaScript SDK alone.",
                ).of(SettingForm::Flag).or("false"),
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
