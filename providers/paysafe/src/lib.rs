//! Paysafe: the Payments API (Payment Hub), paid by Interac e-Transfer in Canadian dollars.
//!
//! Written after Paysafe's documents "Payments API", "Interac e-Transfer", "Processing Refunds",
//! "Configure Webhooks" and "Get available payment methods".
//!
//! | File | Holds |
//! |---|---|
//! | `lib.rs` | what the module is, and the world's functions |
//! | `start.rs` | creating a payment handle; what each refusal proves |
//! | `query.rs` | asking for the money, and reading where it is |
//! | `refund.rs` | giving money back |
//! | `callback.rs` | the signature of a webhook and its news |
//! | `api.rs` | requests: address, credentials, refusals |
//! | `wire.rs` | handles, payments, settlements and refunds, read strictly |
//! | `report.rs` | what they say |
//!
//! A payment has two halves. The handle leads the payer to Interac and moves no money; once the payer is
//! there it is payable, and the payment made with it asks for the money. That second step is the capture
//! that the host asks for with the purpose `capture`.
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
    Account, CallbackFailure, CallbackReply, CallbackRequest, Condition, Description,
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
                ).of(SettingForm::Address),
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
                SecretSpec::text(
                    callback::KEY,
                    "HMAC key of the webhook: Business Portal, Developer, Webhooks",
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

/// The account must be able to take Interac e-Transfers.
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
