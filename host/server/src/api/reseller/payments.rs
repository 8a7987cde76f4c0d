//! Payments that a reseller makes for a merchant.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use kassette_domain::id::MerchantId;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{ClientRef, Email, OrderId};
use kassette_domain::payment::{self, CheckoutMode, Origin, Request};
use kassette_domain::site::ReturnUrl;
use kassette_gateway::Gateway;
use kassette_gateway::auth::ResellerCaller;
use kassette_gateway::create::CreateOutcome;
use serde::Serialize;
use utoipa::ToSchema;

use super::signed::{Create, Read, SignedReseller};
use crate::api::document::{Authenticated, WithBody};
use crate::api::payments::{PaymentBody, check_method, method, mode, payment_id, replayed};
use crate::api::state::ApiState;
use crate::api::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, Value, Wrong, text};
use crate::web::text::currency;

/// What a reseller asks for.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResellerPaymentCreateRequest, example = json!({
    "merchant_id": 1, "client_ref": "order-1042", "order_id": "order-1042",
    "amount": "49.90", "currency": "EUR"
}))]
pub(super) struct CreateBody {
    #[schema(value_type = formats::MerchantId)]
    merchant_id: MerchantId,
    #[schema(value_type = formats::ClientRef)]
    client_ref: ClientRef,
    #[schema(value_type = formats::OrderId)]
    order_id: OrderId,
    #[schema(value_type = formats::InvoiceAmount)]
    amount: Minor,
    /// The merchant needs a usable exchange rate for it.
    #[schema(value_type = formats::Currency)]
    currency: Currency,
    /// Required where `checkout_mode` is `direct`; a preselection where it is `hosted`.
    #[schema(value_type = Option<formats::PaymentMethod>)]
    payment_method: Option<MethodId>,
    /// `hosted` where it is absent.
    #[schema(value_type = Option<formats::CheckoutMode>, default = "hosted")]
    checkout_mode: CheckoutMode,
    #[schema(value_type = Option<formats::Email>)]
    customer_email: Option<Email>,
    /// Where the customer may be sent in the end, under a verified shop domain of the merchant.
    /// Coming back confirms no payment.
    #[schema(value_type = Option<formats::ReturnUrl>)]
    return_url: Option<ReturnUrl>,
}

/// A reader of merchants' numbers.
fn merchant(value: Value) -> Result<MerchantId, Wrong> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        _ => None,
    };
    let number = number.filter(|number| (1..=formats::MOST_MERCHANT).contains(number));
    number
        .map(MerchantId)
        .ok_or_else(|| Wrong::new("must be a merchant's number, a positive integer"))
}

impl CreateBody {
    fn read(mut fields: Fields, loopback: bool) -> Result<Self, Invalid> {
        let body = Self {
            merchant_id: fields.required("merchant_id", merchant)?,
            client_ref: fields.required("client_ref", text(ClientRef::parse))?,
            order_id: fields.required("order_id", text(OrderId::parse))?,
            amount: fields.required("amount", text(Minor::parse_positive))?,
            currency: fields.required("currency", text(currency))?,
            payment_method: fields.optional("payment_method", text(method))?,
            checkout_mode: fields
                .optional("checkout_mode", text(mode))?
                .unwrap_or(CheckoutMode::Hosted),
            customer_email: fields.optional("customer_email", text(Email::parse))?,
            return_url: fields
                .optional("return_url", text(|url| ReturnUrl::parse(url, loopback)))?,
        };
        fields.finish()?;
        check_method(body.checkout_mode, body.payment_method, body.currency)?;
        Ok(body)
    }

    fn into_request(self, caller: &ResellerCaller) -> Request {
        Request {
            merchant: self.merchant_id,
            origin: Origin::Reseller {
                reseller: caller.reseller.id,
                client_ref: self.client_ref,
            },
            environment: caller.key.environment,
            order_id: self.order_id,
            due: Money {
                amount: self.amount,
                currency: self.currency,
            },
            mode: self.checkout_mode,
            method: self.payment_method,
            email: self.customer_email,
            return_url: self.return_url,
        }
    }
}

/// A payment as the reseller that made it reads it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResellerPayment)]
pub(super) struct DelegatedBody<'a> {
    #[serde(flatten)]
    payment: PaymentBody<'a>,
    #[schema(value_type = formats::ClientRef)]
    client_ref: &'a str,
    #[schema(value_type = formats::MerchantId)]
    merchant_id: u64,
}

impl<'a> DelegatedBody<'a> {
    /// A payment that a reseller made.
    pub(super) fn of(payment: &'a payment::Payment, gateway: &Gateway) -> Result<Self, ApiError> {
        let Origin::Reseller { client_ref, .. } = &payment.origin else {
            return Err(ApiError::internal("a reseller's payment is a merchant's"));
        };
        Ok(Self {
            client_ref: client_ref.as_str(),
            merchant_id: payment.merchant.0,
            payment: PaymentBody::of(payment, gateway),
        })
    }
}

/// Creates a checkout session for a merchant that has authorized the reseller.
///
/// Repeating a `client_ref` with the same data answers the existing payment. After a time-out or a
/// 5xx, which do not prove that creation failed, keep the `client_ref` and send a new nonce.
#[utoipa::path(
    post, path = "/api/v1/reseller/payments", tag = "Resellers", operation_id = "createResellerPayment",
    request_body(content = CreateBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The payment.", body = PaymentBody,
            headers(("Idempotent-Replayed" = bool, description = "`true` where the same was asked for before."))),
        (status = 409, description = "The `client_ref` was used with other data, or the nonce was used before.",
            body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Create>,
) -> Result<Response, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let loopback = state.gateway().settings().webhooks.allow_loopback;
    let request = CreateBody::read(fields, loopback)?.into_request(&caller);
    let gateway = state.gateway();
    Ok(match gateway.reseller_create(&caller, request).await? {
        CreateOutcome::Created(payment) => Json(PaymentBody::of(&payment, gateway)).into_response(),
        CreateOutcome::Replayed(payment) => replayed(Json(PaymentBody::of(&payment, gateway))),
    })
}

/// Reads a payment that the reseller made.
///
/// In the key's environment, while the merchant authorizes the reseller; any other is not found.
#[utoipa::path(
    get, path = "/api/v1/reseller/payments/{payment_id}", tag = "Resellers", operation_id = "readResellerPayment",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "The payment.", body = DelegatedBody),
        (status = 404, description = "No such payment of this reseller in this environment.",
            body = ErrorBody),
        (status = 409, description = "The nonce was used before.", body = ErrorBody),
        Authenticated,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn read(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Read>,
) -> Result<Response, ApiError> {
    arrived.no_query()?;
    let id = payment_id(id)?;
    let gateway = state.gateway();
    let payment = gateway.reseller_payment(&caller, id).await?;
    answer::json(&DelegatedBody::of(&payment, gateway)?, 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;
    use serde_json::json;

    fn with(changes: serde_json::Value) -> Result<CreateBody, String> {
        let mut body = json!({
            "merchant_id": 1, "client_ref": "r-1", "order_id": "o-1", "amount": "49.90",
            "currency": "EUR"
        });
        let object = body.as_object_mut().unwrap();
        object.extend(changes.as_object().unwrap().clone());
        let fields = Fields::of(parse(body.to_string().as_bytes()).unwrap()).unwrap();
        CreateBody::read(fields, false).map_err(|invalid| invalid.message)
    }

    #[test]
    fn every_field_that_is_wrong_missing_or_unknown_is_named() {
        assert!(with(json!({})).is_ok());
        for (field, value) in [
            ("merchant_id", json!("1")),
            ("merchant_id", json!(0)),
            ("merchant_id", json!(-1)),
            ("merchant_id", json!(1.5)),
            ("merchant_id", json!(18_446_744_073_709_551_615_u64)),
            ("client_ref", json!("")),
            ("client_ref", json!("a b")),
            ("order_id", json!(" ")),
            ("amount", json!(49.9)),
            ("currency", json!("eur")),
            ("checkout_mode", json!("Direct")),
            ("payment_method", json!("Cash")),
            ("customer_email", json!("nobody")),
            ("return_url", json!("http://shop.example")),
        ] {
            let refused = with(json!({ field: value })).unwrap_err();
            assert!(refused.starts_with(field), "{field} {value}: {refused}");
        }
        for field in [
            "merchant_id",
            "client_ref",
            "order_id",
            "amount",
            "currency",
        ] {
            let refused = with(json!({ field: null })).unwrap_err();
            assert!(refused.starts_with(field), "{field}: {refused}");
        }
        for field in [
            "wallet",
            "max_usd",
            "review_over_usd",
            "idempotency_key",
            "provider_id",
        ] {
            let refused = with(json!({ field: "x" })).unwrap_err();
            assert_eq!(refused, format!("unknown field \"{field}\""));
        }
        let refused = with(json!({ "checkout_mode": "direct" })).unwrap_err();
        assert!(refused.starts_with("payment_method"), "{refused}");
        let refused = with(json!({ "payment_method": "interac" })).unwrap_err();
        assert!(refused.starts_with("payment_method"), "{refused}");
    }
}
