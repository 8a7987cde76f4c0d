//! Mollie: its Payments API v2. `providers/README.md` describes the mapping.
//!
//! Based on Mollie's documents "Payments API" (create, get, list and cancel payment, create capture, release
//! authorization), "Refunds API" (create, get, list payment refund), "Profiles API" (get current profile),
//! "Webhooks", "Handling payment status", "API idempotency", "Place a hold for a payment", "Multicurrency" and
//! "Klarna".
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating a payment; the meaning of each refusal |
//! | `klarna.rs` | data that Klarna requires: questions, address, order line |
//! | `method.rs` | the methods and their currencies |
//! | `words.rs` | translations of those questions |
//! | `locale.rs` | the languages of Mollie's pages |
//! | `query.rs` | capturing, cancelling and reading a payment |
//! | `refund.rs` | making and querying refunds |
//! | `report.rs` | the report about a payment |
//! | `particulars.rs` | its details: captures, refunds, chargebacks, ids, times, the card |
//! | `search.rs` | finding a payment whose creation had no answer |
//! | `callback.rs` | the webhook, which only makes the host query |
//! | `api.rs` | addresses and headers of the requests |
//! | `wire.rs` | parsing of Mollie's JSON |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod klarna;
mod locale;
mod method;
mod particulars;
mod query;
mod refund;
mod report;
mod search;
mod start;
mod wire;
mod words;

use kassette_plugin::provider::call::BASE_URL;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Condition, Description, Environment,
    MethodSupport, Provider, SecretSpec, SettingForm, SettingSpec,
};
use method::Method;

pub struct Mollie;

impl Provider for Mollie {
    fn describe() -> Description {
        let support = |method: Method| MethodSupport::new(method.wire_id(), method.currencies());
        Description {
            id: "mollie".into(),
            label: "Mollie".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: Method::ALL.into_iter().map(support).collect(),
            settings: vec![
                SettingSpec::optional(
                    start::CAPTURE,
                    "automatic (default): the money is taken when the payer approves. manual: \
                     cards and Klarna are only authorised then, and captured once the gateway's \
                     own checks are through.",
                )
                .among(&["automatic", "manual"])
                .or("automatic"),
                SettingSpec::optional(
                    BASE_URL,
                    "Another address than https://api.mollie.com; leave it out for a real \
                     account.",
                )
                .form(SettingForm::Address),
            ],
            secrets: vec![SecretSpec::text(
                api::KEY,
                "The website profile's API key. Mollie dashboard, Developers, API keys: it \
                     starts with live_ for an account of the live environment, with test_ for one \
                     of the test environment.",
            )],
            tokens: Vec::new(),
        }
    }

    kassette_plugin::provider::forward!(start, query, refund);

    fn callback(_: Account, incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        callback::read(&incoming)
    }

    fn health(account: Account) -> Condition {
        match api::get(&account, "/v2/profiles/me") {
            Ok(answer) if answer.status == 200 => condition(&answer.body, account.environment),
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(wire::problem(&answer).to_string()),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

/// Not `Operational` for a key of the other mode, or, in live, for a profile that Mollie has not verified.
fn condition(body: &[u8], environment: Environment) -> Condition {
    let Some(profile) = wire::profile(body) else {
        return Condition::Down("the answer cannot be read".into());
    };
    if profile.environment.is_some_and(|mode| mode != environment) {
        return Condition::Down("the API key is one of the other mode".into());
    }
    match (profile.status.as_str(), environment) {
        ("blocked", _) => Condition::Down("the profile is blocked".into()),
        ("verified", _) | (_, Environment::Test) => Condition::Operational,
        (status, Environment::Live) => Condition::Down(format!("the profile is {status}")),
    }
}

kassette_plugin::provider::export!(Mollie);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(mode: &str, status: &str) -> String {
        format!(r#"{{"resource":"profile","id":"pfl_1","mode":"{mode}","status":"{status}"}}"#)
    }

    #[test]
    fn a_key_of_the_other_mode_is_down() {
        let live = told("live", "verified");
        assert_eq!(
            condition(live.as_bytes(), Environment::Live),
            Condition::Operational
        );
        for (mode, environment) in [("live", Environment::Test), ("test", Environment::Live)] {
            let told = told(mode, "verified");
            assert!(matches!(
                condition(told.as_bytes(), environment),
                Condition::Down(_)
            ));
        }
        assert!(matches!(
            condition(b"{}", Environment::Test),
            Condition::Down(_)
        ));
    }

    #[test]
    fn real_money_needs_a_verified_profile() {
        for (mode, status, environment, good) in [
            ("test", "unverified", Environment::Test, true),
            ("live", "unverified", Environment::Live, false),
            ("live", "blocked", Environment::Live, false),
            ("test", "blocked", Environment::Test, false),
        ] {
            let condition = condition(told(mode, status).as_bytes(), environment);
            assert_eq!(condition == Condition::Operational, good, "{mode} {status}");
        }
    }

    #[test]
    fn every_method_has_currencies_of_its_own() {
        let description = Mollie::describe();
        let ideal = description
            .methods
            .iter()
            .find(|support| support.method == "ideal")
            .unwrap();
        assert_eq!(ideal.currencies, ["EUR"]);
        assert!(
            description
                .methods
                .iter()
                .all(|support| !support.currencies.is_empty())
        );
    }
}
