//! BTCPay Server: invoices of the Greenfield API, version 1, and its webhooks.
//!
//! The documents, by title: "BTCPay Greenfield API", "Webhooks", "Invoices", "Pull Payments" of BTCPay
//! Server's documentation.
//!
//! | File | Holds |
//! |---|---|
//! | `lib.rs` | what the module is, and the world's functions |
//! | `start.rs` | creating an invoice; what each refusal means |
//! | `instructions.rs` | what the payer reads, by language |
//! | `query.rs` | finding, closing and reading an invoice |
//! | `refund.rs` | giving money back: pull payments that the payer claims |
//! | `callback.rs` | the signature of a webhook and whom it is about |
//! | `api.rs` | requests: address, credential |
//! | `wire.rs` | the server's JSON, read strictly |
//! | `coins.rs` | which coins came, and whether the chain has confirmed them |
//! | `report.rs` | what each state says |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod coins;
mod instructions;
mod query;
mod refund;
mod report;
mod start;
mod wire;

use kassette_plugin::provider::call::BASE_URL;
use kassette_plugin::provider::{
    Account, Condition, Description, MethodSupport, Provider, SecretSpec, SettingForm, SettingSpec,
};

pub struct BtcPay;

impl Provider for BtcPay {
    fn describe() -> Description {
        Description {
            id: "btcpay".into(),
            label: "BTCPay".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: vec![MethodSupport::new("crypto", &[])],
            settings: vec![
                SettingSpec::required(
                    BASE_URL,
                    "Address of the BTCPay Server, such as https://btcpay.shop.example",
                )
                .of(SettingForm::Address),
                SettingSpec::required(
                    api::STORE_ID,
                    "Id of the store that is paid. In the store: Settings, General, Store ID",
                ),
            ],
            secrets: vec![
                SecretSpec::text(
                    api::API_KEY,
                    "API key with btcpay.store.canviewinvoices, btcpay.store.cancreateinvoice and \
                     btcpay.store.canmodifyinvoices for the one store, and to give money back \
                     btcpay.store.cancreatepullpayments and btcpay.store.canviewpullpayments. \
                     Account, Manage account, API keys",
                ),
                SecretSpec::text(
                    callback::WEBHOOK_SECRET,
                    "Secret of the webhook that posts to this account's callback address. In the \
                     store: Settings, Webhooks, Secret",
                ),
            ],
            tokens: Vec::new(),
        }
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    fn health(account: Account) -> Condition {
        // Proves address, key and store.
        match api::get(&account, &format!("{}?take=1", api::invoices(&account))) {
            Ok(answer) if answer.status == 200 => Condition::Operational,
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::refusal(&answer)),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

kassette_plugin::provider::export!(BtcPay);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::provider::{Attempt, Environment, Money, Payer};

    pub(crate) fn account() -> Account {
        Account {
            id: "btcpay-test".into(),
            environment: Environment::Test,
            now: 1_800_000_000_000,
            callback_url: String::new(),
            settings: vec![
                ("base-url".into(), "https://btcpay.shop.example".into()),
                ("store-id".into(), "shop".into()),
            ],
        }
    }

    pub(crate) fn attempt() -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: "crypto".into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            merchant_order: "order-1".into(),
            merchant: "Demo shop".into(),
            return_url: "https://pay.example/return/1".into(),
            cancel_url: "https://pay.example/return/1".into(),
            expires: 1_800_003_599_999,
            payer: Payer {
                email: None,
                ip: None,
                language: None,
                country: None,
            },
            answers: Vec::new(),
        }
    }

    #[test]
    fn without_a_network_it_is_down() {
        assert!(matches!(BtcPay::health(account()), Condition::Down(_)));
    }
}
