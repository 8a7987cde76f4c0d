//! Stripe: cards, iDEAL, Klarna, Cash App Pay and Revolut Pay through Checkout Sessions. `providers/README.md`
//! describes the mapping and lists the documents.
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating a session; the meaning of each refusal |
//! | `query.rs` | finding, capturing, cancelling and expiring a session |
//! | `refund.rs` | making and querying refunds |
//! | `report.rs` | the report about a session and its payment |
//! | `particulars.rs` | the details: ids, fee, times, card, reasons |
//! | `callback.rs` | an event's signature and subject |
//! | `api.rs` | requests: version, key, idempotency |
//! | `wire.rs` | parsing of Stripe's objects |
//! | `charge.rs` | parsing of a charge, its refunds and its disputes |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod charge;
mod particulars;
mod query;
mod refund;
mod report;
mod start;
mod wire;

use kassette_plugin::provider::call::BASE_URL;
use kassette_plugin::provider::{
    Account, Condition, Description, Environment, MethodSupport, Provider, SecretSpec, SettingForm,
    SettingSpec,
};

/// All currencies of the gateway; Stripe uses two decimals for each too.
const CARD_CURRENCIES: [&str; 21] = [
    "USD", "EUR", "GBP", "PHP", "CAD", "AUD", "CHF", "SGD", "NZD", "INR", "AED", "BRL", "MXN",
    "ZAR", "PLN", "SEK", "NOK", "DKK", "CZK", "RON", "HUF",
];

/// Klarna's presentment currencies.
const KLARNA_CURRENCIES: [&str; 13] = [
    "EUR", "USD", "GBP", "AUD", "CAD", "CHF", "CZK", "DKK", "NOK", "NZD", "PLN", "RON", "SEK",
];

/// Revolut Pay's presentment currencies; the account's country determines which of them it accepts.
const REVOLUT_PAY_CURRENCIES: [&str; 6] = ["EUR", "GBP", "RON", "HUF", "PLN", "DKK"];

/// Minimum charges, in minor units: "Supported currencies", "Minimum and maximum charge amounts". Stripe lists
/// them by the account's settlement currency, without PHP and ZAR.
const MINIMUMS: [(&str, u64); 19] = [
    ("USD", 50),
    ("EUR", 50),
    ("GBP", 30),
    ("CAD", 50),
    ("AUD", 50),
    ("CHF", 50),
    ("SGD", 50),
    ("NZD", 50),
    ("INR", 50),
    ("AED", 200),
    ("BRL", 50),
    ("MXN", 1_000),
    ("PLN", 200),
    ("SEK", 300),
    ("NOK", 300),
    ("DKK", 250),
    ("CZK", 1_500),
    ("RON", 200),
    ("HUF", 17_500),
];

/// The gateway's method, Stripe's name for it, and its currencies at Stripe.
const METHODS: [(&str, &str, &[&str]); 5] = [
    ("credit_card", "card", &CARD_CURRENCIES),
    ("ideal", "ideal", &["EUR"]),
    ("klarna", "klarna", &KLARNA_CURRENCIES),
    ("cash_app", "cashapp", &["USD"]),
    ("revolut", "revolut_pay", &REVOLUT_PAY_CURRENCIES),
];

pub struct Stripe;

impl Provider for Stripe {
    fn describe() -> Description {
        let support = |(method, _, currencies): (&str, &str, &[&str])| {
            MethodSupport::new(method, currencies).at_least(&MINIMUMS)
        };
        Description {
            id: "stripe".into(),
            label: "Stripe".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: METHODS.into_iter().map(support).collect(),
            settings: vec![
                SettingSpec::optional(
                    start::CAPTURE,
                    "\"manual\" only authorises; the money is captured once risk review has passed. \
                     Default \"automatic\". iDEAL is always captured at once.",
                ).among(&["automatic", "manual"]).or("automatic"),
                SettingSpec::optional(
                    query::KEEP_OPEN,
                    "Default \"true\": a payer whose card was declined may try again on Stripe's page \
                     until they leave it. \"false\" closes the session at the first decline, so that \
                     another method or provider can be chosen at once",
                ).form(SettingForm::Flag).or("true"),
                SettingSpec::optional(
                    BASE_URL,
                    "Left out for a real account: https://api.stripe.com. A simulator's address.",
                ).form(SettingForm::Address),
            ],
            secrets: vec![
                SecretSpec::text(
                    api::SECRET_KEY,
                    "Dashboard, Developers, API keys: the secret key sk_live_… (sk_test_… in test \
                     mode), or a restricted key rk_… with write access to Checkout Sessions, \
                     PaymentIntents and, to give money back, Charges and Refunds, and read access to \
                     Balance, Balance Transactions, Disputes, Reviews and Radar",
                ),
                SecretSpec::text(
                    callback::SECRET,
                    "Dashboard, Developers, Webhooks, the endpoint with this account's callback \
                     address: the signing secret whsec_…",
                ),
            ],
            tokens: Vec::new(),
        }
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    fn health(account: Account) -> Condition {
        match api::get(&account, "/v1/balance") {
            Ok(answer) if answer.is_success() => condition(&answer.body, account.environment),
            // The key is valid, but restricted, so its environment cannot be checked.
            Ok(answer) if answer.status == 403 => {
                Condition::Degraded("the key has no read access to Balance".into())
            }
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::problem(&answer).to_string()),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

/// Stripe's name for a method. `None` if it is not supported.
fn payment_method_type(method: &str) -> Option<&'static str> {
    let (_, name, _) = METHODS.into_iter().find(|(ours, ..)| *ours == method)?;
    Some(name)
}

/// `Operational` only if the key is for the account's environment.
fn condition(body: &[u8], wanted: Environment) -> Condition {
    match wire::is_live(body) {
        Some(live) if live == (wanted == Environment::Live) => Condition::Operational,
        Some(live) => Condition::Down(format!(
            "the key is for {} mode",
            if live { "live" } else { "test" }
        )),
        None => Condition::Down("the answer cannot be read".into()),
    }
}

kassette_plugin::provider::export!(Stripe);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_of_the_other_environment_is_down() {
        let body = br#"{"object":"balance","livemode":false}"#;
        assert_eq!(condition(body, Environment::Test), Condition::Operational);
        assert!(matches!(
            condition(body, Environment::Live),
            Condition::Down(_)
        ));
        assert!(matches!(
            condition(b"{}", Environment::Test),
            Condition::Down(_)
        ));
    }

    #[test]
    fn every_method_has_the_vendors_name() {
        for support in Stripe::describe().methods {
            assert!(payment_method_type(&support.method).is_some());
        }
        assert_eq!(payment_method_type("revolut"), Some("revolut_pay"));
        assert_eq!(payment_method_type("paypal"), None);
    }
}
