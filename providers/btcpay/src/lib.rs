//! BTCPay Server: invoices of the Greenfield API, version 1, and its webhooks.
//!
//! The documents, by title: "BTCPay Greenfield API", "Webhooks", "Invoices", "Pull Payments" of BTCPay Server's
//! documentation.
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating an invoice; the meaning of each refusal |
//! | `instructions.rs` | instructions for payers, by language |
//! | `query.rs` | finding, closing and reading an invoice |
//! | `refund.rs` | refunds: pull payments that the payer claims |
//! | `callback.rs` | a webhook's signature and subject |
//! | `api.rs` | requests: address, credential |
//! | `wire.rs` | parsing of the server's JSON, of all supported versions |
//! | `coins.rs` | the payments of an invoice, and their confirmation by the chain |
//! | `report.rs` | the report about an invoice |
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
    Account, Condition, Description, Given, MethodSupport, Order, Paid, Provider, QueryFailure,
    SecretSpec, SettingForm, SettingSpec, read,
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
                .form(SettingForm::Address),
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
                     btcpay.store.cancreatepullpayments, btcpay.store.canviewpullpayments and \
                     btcpay.store.canarchivepullpayments. \
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

    fn cancel_refund(account: Account, paid: Paid, order: Order) -> Result<Given, QueryFailure> {
        refund::cancel(&account, &paid, &order)
    }

    fn health(account: Account) -> Condition {
        // Verifies the address, the key and the store.
        match api::get(&account, &format!("{}?take=1", api::invoices(&account))) {
            Ok(answer) if answer.status == 200 => supported(&account),
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::refusal(&answer)),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

/// The oldest supported server version: its webhooks contain an invoice's metadata, and it supports refunds of
/// invoices.
const OLDEST: (u64, u64, u64) = (1, 7, 1);

/// `Operational` if the server is not older than [`OLDEST`], or does not report its version.
fn supported(account: &Account) -> Condition {
    let answer = api::get(account, "/server/info").ok();
    let body = answer.and_then(|answer| answer.json());
    let told = body.as_ref().and_then(|body| read::field(body, "version"));
    match told.and_then(version) {
        Some(version) if version < OLDEST => Condition::Down(format!(
            "BTCPay Server {}.{}.{} is older than {}.{}.{}, the oldest that works",
            version.0, version.1, version.2, OLDEST.0, OLDEST.1, OLDEST.2
        )),
        _ => Condition::Operational,
    }
}

/// Parses `2.3.1`, `1.13.0.0` and `v2.4.0-rc1`.
fn version(text: &str) -> Option<(u64, u64, u64)> {
    let text = text.trim_start_matches('v');
    let mut numbers = text
        .split(['.', '-', '+'])
        .map(|number| number.parse().ok());
    Some((
        numbers.next()??,
        numbers.next()??,
        numbers.next().flatten().unwrap_or(0),
    ))
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

    #[test]
    fn versions_of_servers_are_compared_by_their_numbers() {
        for (text, is_old) in [
            ("1.6.12", true),
            ("1.7.0", true),
            ("1.7.1.0", false),
            ("1.13.5", false),
            ("v2.4.0-rc1", false),
            ("2.0", false),
        ] {
            assert_eq!(version(text).unwrap() < OLDEST, is_old, "{text}");
        }
        assert_eq!((version(""), version("latest")), (None, None));
    }
}
