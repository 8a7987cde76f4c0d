//! Payments created by a reseller for a merchant.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use kassette_domain::extras::{Description, Extras, Locale, Metadata, Notes};
use kassette_domain::id::MerchantId;
use kassette_domain::lifecycle::ApiCaller;
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
use crate::api::extras::{expires_in, lifetime, metadata};
use crate::api::payments::{
    PaymentBody, check_method, method, mode, payment_id, replayed, with_status,
};
use crate::api::state::ApiState;
use crate::api::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, Value, Wrong, text};
use crate::web::text::currency;

/// A reseller's request to create a payment.
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
    /// Required if `checkout_mode` is `direct`; a preselection if it is `hosted`.
    #[schema(value_type = Option<formats::PaymentMethod>)]
    payment_method: Option<MethodId>,
    /// `hosted` if absent.
    #[schema(value_type = Option<formats::CheckoutMode>, default = "hosted")]
    checkout_mode: CheckoutMode,
    #[schema(value_type = Option<formats::Email>)]
    customer_email: Option<Email>,
    /// URL to which the customer may return at the end, under a verified shop domain of the merchant. Returning
    /// does not confirm a payment.
    #[schema(value_type = Option<formats::ReturnUrl>)]
    return_url: Option<ReturnUrl>,
    /// If absent, the configured lifetime, usually a day.
    #[schema(value_type = Option<formats::ExpiresIn>)]
    expires_in: Option<u32>,
    #[schema(value_type = Option<formats::Locale>)]
    locale: Option<Locale>,
    #[schema(value_type = Option<formats::Metadata>)]
    metadata: Metadata,
    #[schema(value_type = Option<formats::Description>)]
    description: Option<Description>,
}

/// Parses a merchant's number.
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
            expires_in: fields.optional("expires_in", expires_in)?,
            locale: fields.optional("locale", text(Locale::parse))?,
            metadata: metadata(&mut fields)?,
            description: fields.optional("description", text(Description::parse))?,
        };
        fields.finish()?;
        check_method(body.checkout_mode, body.payment_method, body.currency)?;
        Ok(body)
    }

    fn into_request(self, caller: &ResellerCaller, life: Duration) -> Request {
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
            extras: Extras {
                lifetime: lifetime(self.expires_in, life),
                locale: self.locale,
                notes: Notes {
                    metadata: self.metadata,
                    description: self.description,
                },
            },
        }
    }
}

/// A payment for the reseller that created it.
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
    /// The view of a payment created by a reseller.
    pub(super) fn new(payment: &'a payment::Payment, gateway: &Gateway) -> Result<Self, ApiError> {
        let Origin::Reseller { client_ref, .. } = &payment.origin else {
            return Err(ApiError::internal("a reseller's payment is a merchant's"));
        };
        Ok(Self {
            client_ref: client_ref.as_str(),
            merchant_id: payment.merchant.0,
            payment: PaymentBody::new(payment, gateway),
        })
    }
}

/// Creates a checkout session for a merchant that has authorized the reseller.
///
/// Repeating a `client_ref` with the same data returns the existing payment. After a time-out or a 5xx, which
/// do not prove that the creation failed, keep the `client_ref` and send a new nonce.
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
    let settings = state.gateway().settings();
    let body = CreateBody::read(fields, settings.webhooks.allow_loopback)?;
    let request = body.into_request(&caller, settings.payment_life);
    let gateway = state.gateway();
    Ok(match gateway.reseller_create(&caller, request).await? {
        CreateOutcome::Created(payment) => {
            Json(PaymentBody::new(&payment, gateway)).into_response()
        }
        CreateOutcome::Replayed(payment) => replayed(Json(PaymentBody::new(&payment, gateway))),
    })
}

/// Reads a payment that the reseller created.
///
/// In the key's environment, while the merchant authorizes the reseller; any other payment is not found.
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
    answer::json(&DelegatedBody::new(&payment, gateway)?, 512)
}

/// Cancels a payment that the reseller created and that is `created` or `pending`.
///
/// An open attempt is first closed at its provider, so that it can no longer be paid. Cancelling again returns
/// the payment with 200.
#[utoipa::path(
    post, path = "/api/v1/reseller/payments/{payment_id}/cancel", tag = "Resellers",
    operation_id = "cancelResellerPayment",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "The payment is cancelled.", body = DelegatedBody),
        (status = 404, description = "No such payment of this reseller in this environment.",
            body = ErrorBody),
        (status = 409, description = "The payment is neither `created` nor `pending`, its open attempt could not be closed, or the nonce was used before.",
            body = ErrorBody,
            headers(("Retry-After" = Option<u64>, description = "Seconds, if calling again may help, with a new nonce."))),
        Authenticated, WithBody,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn cancel(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Create>,
) -> Result<Response, ApiError> {
    arrived.no_fields()?;
    arrived.no_query()?;
    let id = payment_id(id)?;
    let gateway = state.gateway();
    gateway.reseller_payment(&caller, id).await?;
    let cancelled = gateway.cancel_by_api(id, ApiCaller::Reseller).await;
    let payment = with_status(cancelled, gateway, id).await?;
    answer::json(&DelegatedBody::new(&payment, gateway)?, 512)
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
        let fields = Fields::read(parse(body.to_string().as_bytes()).unwrap()).unwrap();
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
            ("expires_in", json!(299)),
            ("locale", json!("")),
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
