//! Razorpay: UPI through Payment Links. `providers/README.md` describes the mapping and lists the documents.
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating a link; the meaning of each refusal |
//! | `query.rs` | finding, capturing and cancelling a link |
//! | `tries.rs` | possible outcomes of a failed try |
//! | `report.rs` | the report about a link and its payments |
//! | `refund.rs` | making and finding refunds |
//! | `callback.rs` | an event's signature and subject |
//! | `api.rs` | requests: address and key |
//! | `wire.rs` | parsing of Razorpay's JSON |
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

/// The smallest payment, in paise: "Create an Order", "The amount must be at least INR 1.00".
const MINIMUMS: [(&str, u64); 1] = [("INR", 100)];

pub struct Razorpay;

impl Provider for Razorpay {
    fn describe() -> Description {
        Description {
            id: "razorpay".into(),
            label: "Razorpay".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: vec![MethodSupport::new("upi_imps", &["INR"]).at_least(&MINIMUMS)],
            settings: vec![
                SettingSpec::optional(
                    query::KEEP_OPEN,
                    "Default \"true\": a payer whose try failed may try again on Razorpay's page until \
                     the link expires. \"false\" cancels the link as soon as no failed try can be \
                     authorised late any more, so that another method or provider can be chosen",
                ).form(SettingForm::Flag).or("true"),
                SettingSpec::optional(
                    BASE_URL,
                    "Left out for a real account: https://api.razorpay.com. A simulator's address.",
                ).form(SettingForm::Address),
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
