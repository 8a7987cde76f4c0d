//! Paysafe: the Payments API (Payment Hub), paid by Interac e-Transfer in Canadian dollars.
//!
//! Based on Paysafe's documents "Payments API", "Interac e-Transfer", "Processing Refunds", "Configure Webhooks"
//! and "Get available payment methods".
//!
//! | File | Contents |
//! |---|---|
//! | `lib.rs` | the module's description and the exported functions |
//! | `start.rs` | creating a payment handle; the meaning of each refusal |
//! | `query.rs` | requesting and reading a payment |
//! | `refund.rs` | refunds |
//! | `callback.rs` | a webhook's signature and content |
//! | `api.rs` | requests: address, credentials, refusals |
//! | `wire.rs` | parsing of handles, payments, settlements and refunds |
//! | `report.rs` | the reports about handles and payments |
//!
//! A payment has two steps. The handle leads the payer to Interac and moves no money. Once the payer is there the
//! handle is payable, and a payment made with it requests the money. This second step is the capture that the host
//! requests with the purpose `capture`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod api;
mod callback;
mod query;
mod refund;
mod report;
mod start;
mod wire;

use kassette_plugin::json::Json;
use kassette_plugin::provider::{
    Account, CallbackFailure, CallbackReply, CallbackRequest, Condition, Description, Encoding,
    MethodSupport, Provider, SecretSpec, SettingForm, SettingSpec,
};

pub struct Paysafe;

impl Provider for Paysafe {
    fn describe() -> Description {
        Description {
            id: "paysafe".into(),
            label: "Paysafe".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            methods: vec![MethodSupport::new("interac", &[wire::CURRENCY])],
            settings: vec![
                SettingSpec::optional(
                    "base-url",
                    "Another address of the API than Paysafe's own. Leave it out for a real account.",
                ).form(SettingForm::Address),
                SettingSpec::optional(
                    start::ACCOUNT_ID,
                    "Number of the merchant account for Interac in CAD. Needed only where there are \
                     several: Business Portal, Accounts.",
                ),
            ],
            secrets: vec![
                SecretSpec::text(
                    api::USER,
                    "User name of the private API key: Business Portal, Developer, API Keys",
                ),
                SecretSpec::text(
                    api::PASSWORD,
                    "Password of the private API key: beside its user name in the Business Portal",
                ),
                SecretSpec::encoded(
                    callback::KEY,
                    Encoding::Base64,
                    "HMAC key of the webhook, base64 as it is shown: Business Portal, Developer, Webhooks",
                ),
            ],
            tokens: Vec::new(),
        }
    }

    kassette_plugin::provider::forward!(start, query, refund);

    fn callback(_: Account, incoming: CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        callback::read(&incoming)
    }

    fn health(account: Account) -> Condition {
        let path = format!("/paymentmethods?currencyCode={}", wire::CURRENCY);
        match api::get(&account, &path) {
            Ok(answer) if answer.status == 200 => condition(answer.json().as_ref()),
            Ok(answer) if answer.status == 429 => Condition::Degraded("rate limited".into()),
            Ok(answer) => Condition::Down(api::problem(&answer).to_string()),
            Err(broken) => Condition::Down(broken.why()),
        }
    }
}

/// `Operational` if the account supports Interac e-Transfers.
fn condition(body: Option<&Json>) -> Condition {
    let Some(Json::List(methods)) = body.and_then(|body| body.get("paymentMethods")) else {
        return Condition::Down("the answer cannot be read".into());
    };
    let interac = |method: &Json| {
        method.get("paymentMethod").and_then(Json::text) == Some(wire::PAYMENT_TYPE)
    };
    if methods.iter().any(interac) {
        Condition::Operational
    } else {
        Condition::Degraded("Interac e-Transfer is not enabled for the account".into())
    }
}

kassette_plugin::provider::export!(Paysafe);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_interac_is_degraded() {
        let condition = |body: &str| condition(Json::parse(body.as_bytes()).as_ref());
        let with = r#"{"paymentMethods":[{"paymentMethod":"CARD"},{"paymentMethod":"INTERAC_ETRANSFER"}]}"#;
        assert_eq!(condition(with), Condition::Operational);
        let without = r#"{"paymentMethods":[{"paymentMethod":"CARD"}]}"#;
        assert!(matches!(condition(without), Condition::Degraded(_)));
        assert!(matches!(condition("{}"), Condition::Down(_)));
    }
}
