//! Razorpay: UPI through Payment Links. `providers/README.md` says what is mapped to what and names
//! the documents.
//!
//! | File | Holds |
//! |---|---|
//! | `lib.rs` | what the module is, and the world's functions |
//! | `start.rs` | creating a link; what each refusal means |
//! | `query.rs` | finding a link, capturing, cancelling |
//! | `tries.rs` | what can still become of a try that failed |
//! | `report.rs` | what a link and its payments say in the host's words |
//! | `refund.rs` | giving a payment back, and finding what was given back |
//! | `callback.rs` | the signature of an event and whom it is about |
//! | `api.rs` | requests: address and key |
//! | `wire.rs` | the vendor's JSON, read strictly |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod query;
mod refund;
mod report;
mod start;
mod tries;
mod wire;

use kassette_plugin::provider::call::BASE_URL;
use kassette_plugin::provider::{
    Account, Condition, Description, MethodSupport, Provider, SecretSpec, SettingForm, SettingSpec,
};

pub struct Razorpay;

impl Provider for Razorpay {
    fn describe() -> Description {
        Description {
            id: "razorpay".into(),
            label: "Razorpay".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: vec![MethodSupport::new("upi_imps", &["INR"])],
            settings: vec![
                SettingSpec::optional(
                    query::KEEP_OPEN,
                    "Default \"true\": a payer whose try failed may try again on Razorpay's page until \
                     the link expires. \"false\" cancels the link as soon as no failed try can be \
                     authorised late any more, so that another method or provider can be chosen",
                ).of(SettingForm::Flag).or("true"),
                SettingSpec::optional(
                    BASE_URL,
                    "Left out for a real account: https://api.razorpay.com. A simulator's address.",
                ).of(SettingForm::Address),
            ],
            secrets: vec![
                SecretSpec::text(
                    api::KEY_ID,
                    "Dashboard, Account & Settings, API keys: the key id rzp_live_… (rzp_test_… in \
                     test mode)",
                ),
                SecretSpec::text(
                    api::KEY_SECRET,
                    "Shown once with the key id when the key is generated",
                ),
                SecretSpec::text(
                    callback::SECRET,
                    "Dashboard, Account & Settings, Webhooks: the secret that you set for the \
                     webhook with this account's callback address",
                ),
            ],
            tokens: Vec::new(),
        }
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    fn health(account: Account) -> Condition {
        match api::get(&account, "/v1/payments?count=1") {
            Ok(answer) if answer.is_success() => Condition::Operational,
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::problem(&answer).to_string()),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

kassette_plugin::provider::export!(Razorpay);
