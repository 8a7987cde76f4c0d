//! Adyen: hosted sessions and payment links of the Checkout API, version 72, and the standard webhook.
//!
//! Adyen's documents, by title: "Checkout API v72", "Hosted Checkout", "Pay by Link through the API", "Verify HMAC
//! signatures", "Webhook structure and types", "Capture", "CAPTURE_FAILED and REFUND_FAILED reasons", "Refund",
//! "Cancel", "Dispute webhooks", "API idempotency".
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `methods.rs` | Adyen's names of the methods, and which of them need a capture |
//! | `start.rs` | creating a session or a link; the meaning of each refusal |
//! | `query.rs` | choosing the page or the payment to query |
//! | `session.rs`, `link.rs` | reading and ending a page |
//! | `payment.rs` | capturing and cancelling a payment |
//! | `refund.rs` | refunds |
//! | `reference.rs` | verified facts about a payment, stored in the reference |
//! | `callback.rs` | notifications: verification and assignment to attempts |
//! | `events.rs` | the reports from each event |
//! | `refusal.rs` | the page after a refused authorization |
//! | `notification.rs` | one item: its signature, signed and unsigned fields |
//! | `api.rs` | requests: address, credential, key |
//! | `wire.rs` | parsing of Checkout's JSON |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod events;
mod link;
mod methods;
mod notification;
mod payment;
mod query;
mod reference;
mod refund;
mod refusal;
mod session;
mod start;
mod wire;

use kassette_plugin::provider::call::BASE_URL;
use kassette_plugin::provider::{
    Account, Condition, Description, Encoding, Environment, Provider, SecretSpec, Setting,
    SettingForm, SettingSpec,
};

pub struct Adyen;

impl Provider for Adyen {
    fn describe() -> Description {
        Description {
            id: "adyen".into(),
            label: "Adyen".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: methods::supported(),
            settings: vec![
                SettingSpec::required(
                    api::MERCHANT_ACCOUNT,
                    "Name of the merchant account that is paid. Customer Area: the account \
                     switcher at the top left, or Settings, Merchant accounts",
                ),
                SettingSpec::optional(
                    api::LIVE_URL_PREFIX,
                    "What the company's live addresses begin with, needed in live. Customer Area \
                     of the live environment: Developers, API URLs, Prefix",
                ),
                SettingSpec::optional(
                    refusal::KEEP_OPEN,
                    "Whether the payer may try again at Adyen's page after a card was refused: true \
                     (default) or false. Their coming back ends the attempt in any case",
                ).form(SettingForm::Flag).or("true"),
                SettingSpec::optional(
                    BASE_URL,
                    "Another address for Checkout than Adyen's own, without /v72; left out for a \
                     real account",
                ).form(SettingForm::Address),
            ],
            secrets: vec![
                SecretSpec::text(
                    api::API_KEY,
                    "API key of a credential with the roles Checkout webservice and Pay by Link. \
                     Customer Area: Developers, API credentials, Server settings, Authentication",
                ),
                SecretSpec::encoded(
                    notification::HMAC_KEY,
                    Encoding::Hex,
                    "HMAC key of the standard webhook that posts to this account's callback \
                     address, 64 hexadecimal digits. Customer Area: Developers, Webhooks, the \
                     webhook, Security",
                ),
            ],
            tokens: Vec::new(),
        }
    }

    fn check_settings(environment: Environment, settings: &[Setting]) -> Result<(), String> {
        api::has_address(environment, settings)
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    fn health(account: Account) -> Condition {
        match query::methods_of(&account) {
            Ok(answer) if answer.status == 200 => Condition::Operational,
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::problem(&answer).to_string()),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

kassette_plugin::provider::export!(Adyen);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::provider::{Attempt, Environment, Money, Payer};

    pub(crate) fn account() -> Account {
        Account {
            id: "adyen-test".into(),
            environment: Environment::Test,
            now: 1_799_996_400_000,
            callback_url: String::new(),
            settings: vec![("merchant-account".into(), "ShopECOM".into())],
        }
    }

    pub(crate) fn attempt(method: &str) -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: method.into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            merchant_order: "order-1".into(),
            merchant: "Demo shop".into(),
            return_url: "https://pay.example/return/1".into(),
            cancel_url: "https://pay.example/return/1".into(),
            expires: 1_800_003_600_000,
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
        assert!(matches!(Adyen::health(account()), Condition::Down(_)));
    }
}
