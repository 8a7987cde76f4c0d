//! The sandbox: a simulated provider that serves every method. `providers/README.md` describes its protocol, and
//! this module is the example to read before writing one for a real provider.
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating a session; the meaning of each refusal |
//! | `instructions.rs` | instructions for payers, by language |
//! | `query.rs` | finding, capturing, closing and reading a session |
//! | `refund.rs` | refunds |
//! | `callback.rs` | verifying a callback's signature, and parsing its body |
//! | `api.rs` | requests: token, headers, possible effects of a failed request |
//! | `wire.rs` | parsing the provider's JSON |
//! | `report.rs` | the report about a session |
//! | `particulars.rs` | a session's details: references, fee, times, captures, refunds, disputes |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod instructions;
mod particulars;
mod query;
mod refund;
mod report;
mod start;
mod wire;

use kassette_plugin::provider::{
    Account, Condition, Description, Environment, MethodSupport, Provider, SecretSpec, SettingForm,
    SettingSpec,
};

/// Wire ids of the supported methods, each in any currency.
const METHODS: [&str; 10] = [
    "credit_card",
    "paypal",
    "ideal",
    "cash_app",
    "crypto",
    "venmo",
    "revolut",
    "klarna",
    "upi_imps",
    "interac",
];

pub struct Sandbox;

impl Provider for Sandbox {
    fn describe() -> Description {
        let support = |method: &str| MethodSupport::new(method, &[]);
        Description {
            id: "sandbox".into(),
            label: "Sandbox".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: METHODS.into_iter().map(support).collect(),
            settings: vec![
                SettingSpec::required(
                    api::BASE_URL,
                    "Where the account's simulated API listens, such as http://127.0.0.1:9001",
                )
                .form(SettingForm::Address),
                SettingSpec::optional(
                    query::KEEP_OPEN,
                    "true: a payer whose try was declined may try again at the sandbox's page \
                     until they come back. Default: false, the session is closed at once.",
                )
                .form(SettingForm::Flag)
                .or("false"),
            ],
            secrets: vec![
                SecretSpec::text(api::CLIENT_ID, "Client id of the simulated account"),
                SecretSpec::text(api::CLIENT_SECRET, "Client secret of the simulated account"),
                SecretSpec::text(
                    callback::SECRET,
                    "Secret that signs the simulated account's callbacks",
                ),
            ],
            tokens: vec![api::TOKEN.into()],
        }
    }

    kassette_plugin::provider::forward!(start, callback, query, refund);

    fn health(account: Account) -> Condition {
        match api::get(&account, "/v1/account") {
            Ok(answer) if answer.status == 200 => condition(&answer.body, account.environment),
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::problem(&answer).to_string()),
            Err(api::Broken::NotSent(why) | api::Broken::NoAnswer(why)) => Condition::Down(why),
        }
    }
}

/// `Operational` only if the credentials are for the account's environment.
fn condition(body: &[u8], wanted: Environment) -> Condition {
    let wanted = match wanted {
        Environment::Test => "test",
        Environment::Live => "live",
    };
    match wire::environment(body) {
        Some(environment) if environment == wanted => Condition::Operational,
        Some(environment) => Condition::Down(format!("the credentials are for {environment}")),
        None => Condition::Down("the answer cannot be read".into()),
    }
}

kassette_plugin::provider::export!(Sandbox);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_of_the_other_environment_is_down() {
        let body = br#"{"environment":"test"}"#;
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
    fn without_a_network_it_is_down() {
        let account = Account {
            id: "sandbox-test".into(),
            environment: Environment::Test,
            now: 0,
            callback_url: String::new(),
            settings: vec![("base-url".into(), "http://127.0.0.1:1".into())],
        };
        assert!(matches!(Sandbox::health(account), Condition::Down(_)));
    }
}
