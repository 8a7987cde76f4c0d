//! Starting direct payments.

use axum::Json;
use axum::extract::State;
use kassette_domain::id::{AccountId, PaymentId};
use kassette_domain::method::MethodId;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::provider::Payer;
use kassette_domain::secret::Secret;
use kassette_gateway::reseller::ResellerStart;
use kassette_gateway::start::{Start, StartedPayment, Starter};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::MerchantCreate;
use super::document::{Authenticated, WithBody};
use super::formats;
use super::payments::{method, with_status};
use super::state::ApiState;
use crate::web::code::Code;
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};

/// A request to start a payment.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StartRequest, example = json!({
    "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c", "payment_method": "ideal"
}))]
pub(super) struct StartBody {
    #[schema(value_type = formats::PaymentId)]
    payment_id: PaymentId,
    /// The method that was chosen at creation.
    #[schema(value_type = formats::PaymentMethod)]
    payment_method: MethodId,
    /// Only if the merchant's routing policy allows the choice; then there is no fallback.
    #[schema(value_type = Option<formats::ProviderId>)]
    provider_id: Option<AccountId>,
}

impl StartBody {
    pub(super) fn read(mut fields: Fields) -> Result<Self, Invalid> {
        let body = Self {
            payment_id: fields.required("payment_id", text(PaymentId::parse))?,
            payment_method: fields.required("payment_method", text(method))?,
            provider_id: fields.optional("provider_id", text(AccountId::parse))?,
        };
        fields.finish()?;
        Ok(body)
    }

    /// A start by the reseller that created the payment.
    pub(super) fn into_reseller_start(self) -> ResellerStart {
        ResellerStart {
            payment: self.payment_id,
            method: self.payment_method,
            provider: self.provider_id,
        }
    }

    /// A start by the API. The caller is the merchant's server: its address and language do not belong to the
    /// payer.
    fn into_start(self, payment: &Payment) -> Start {
        let email = payment.email.as_ref();
        Start {
            payment: self.payment_id,
            method: self.payment_method,
            provider: self.provider_id,
            starter: Starter::Api,
            seen: None,
            payer: Payer {
                email: email.map(|email| Secret::new(email.expose())),
                ip: None,
                language: None,
                country: None,
            },
        }
    }
}

/// A started payment.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = StartResponse, example = json!({
    "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c",
    "redirect_url": "https://provider.example/pay/8c1f"
}))]
pub(super) struct StartedBody {
    #[schema(value_type = formats::PaymentId)]
    payment_id: String,
    #[schema(value_type = formats::RedirectUrl)]
    redirect_url: String,
}

impl StartedBody {
    /// The response to a start.
    pub(super) fn new(payment: PaymentId, started: StartedPayment) -> Self {
        Self {
            payment_id: payment.to_string(),
            redirect_url: started.redirect_url,
        }
    }
}

/// Starts a payment that was created with `checkout_mode` `direct`.
///
/// Starting again while an attempt is open returns the same `redirect_url`. A 409 with `Retry-After` means that
/// the outcome of a start is not known yet: call again.
#[utoipa::path(
    post, path = "/api/v1/payments/start", tag = "Payments", operation_id = "startPayment",
    request_body(content = StartBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The payment was started.", body = StartedBody),
        (status = 404, description = "No such payment of this merchant in this environment.",
            body = ErrorBody),
        (status = 409, description = "A hosted payment, one that cannot be started any more, another method, or a start whose outcome is not known yet.",
            body = ErrorBody,
            headers(("Retry-After" = Option<u64>, description = "Seconds, where calling again may help."))),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn start(
    State(state): State<ApiState>,
    MerchantCreate { caller, arrived }: MerchantCreate,
) -> Result<Json<StartedBody>, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let body = StartBody::read(fields)?;
    let gateway = state.gateway().clone();
    let (merchant, environment) = (caller.merchant.id, caller.key.environment);
    let found = gateway.payment_of(merchant, environment, body.payment_id);
    let payment = found.await?;
    gateway.check_method(body.payment_method, payment.as_deref())?;
    let payment = payment.ok_or(ApiError::NotFound("payment not found"))?;
    if let Origin::Reseller { .. } = payment.origin {
        let message = "only the reseller that created the payment starts it";
        let refused = ApiError::conflict_of(Code::ResellersPayment, message);
        return Err(refused.with_status(payment.status));
    }
    let start = body.into_start(&payment);
    let started = with_status(gateway.start(start).await, &gateway, payment.id).await?;
    Ok(Json(StartedBody::new(payment.id, started)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;

    const ID: &str = "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c";

    fn read(body: serde_json::Value) -> Result<StartBody, String> {
        let fields = Fields::read(parse(body.to_string().as_bytes()).unwrap()).unwrap();
        StartBody::read(fields).map_err(|invalid| invalid.message)
    }

    #[test]
    fn a_start_names_payment_and_method_and_perhaps_a_provider() {
        let plain = serde_json::json!({ "payment_id": ID, "payment_method": "ideal" });
        assert_eq!(read(plain).unwrap().provider_id, None);
        let null =
            serde_json::json!({ "payment_id": ID, "payment_method": "ideal", "provider_id": null });
        assert_eq!(read(null).unwrap().provider_id, None);
        for (field, value) in [
            ("payment_id", "9F0C2B7E4D1A4F6E8B3C5D7E9F0A1B2C"),
            ("payment_id", "start"),
            ("payment_method", "IDEAL"),
            ("provider_id", "../x"),
        ] {
            let mut body = serde_json::json!({ "payment_id": ID, "payment_method": "ideal" });
            body[field] = value.into();
            let refused = read(body).unwrap_err();
            assert!(refused.starts_with(field), "{field}: {refused}");
        }
    }
}
