//! Creating and reading payments.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use kassette_domain::extras::{Description, Extras, Locale, Metadata, Notes};
use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::ApiCaller;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{self, CheckoutMode, Origin, Request};
use kassette_domain::site::ReturnUrl;
use kassette_gateway::Gateway;
use kassette_gateway::auth::MerchantCaller;
use kassette_gateway::create::CreateOutcome;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::{MerchantCancel, MerchantCreate, MerchantRead};
use super::document::{Authenticated, WithBody};
use super::extras::{expires_in, idempotency_key, lifetime, metadata};
use super::state::ApiState;
use super::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};
use crate::web::text::currency;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Response to a request that repeats an earlier one.
pub(crate) fn replayed(body: impl IntoResponse) -> Response {
    let header = [(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))];
    (header, body).into_response()
}

/// Response to a request that created an object, with its path below `/api/v1/`.
pub(super) fn created(
    gateway: &Gateway,
    path: &str,
    body: impl IntoResponse,
) -> Result<Response, ApiError> {
    let origin = &gateway.settings().public_url;
    let location = format!("{origin}/api/v1/{path}");
    let location = HeaderValue::try_from(location).map_err(ApiError::internal)?;
    Ok((StatusCode::CREATED, [(LOCATION, location)], body).into_response())
}

pub(super) const NO_PAYMENT: ApiError = ApiError::NotFound("payment not found");

/// Parses the payment's id in a path; an invalid text is an unknown payment.
pub(super) fn payment_id(id: Result<Path<String>, PathRejection>) -> Result<PaymentId, ApiError> {
    let Path(id) = id.map_err(|_| NO_PAYMENT)?;
    PaymentId::parse(&id).map_err(|_| NO_PAYMENT)
}

/// Converts the result of a start, a cancel or a refund, and adds the payment's status to a conflict.
pub(super) async fn with_status<T, E: Into<ApiError>>(
    done: Result<T, E>,
    gateway: &Gateway,
    id: PaymentId,
) -> Result<T, ApiError> {
    let error = match done {
        Ok(done) => return Ok(done),
        Err(error) => error.into(),
    };
    if !matches!(error, ApiError::Conflict(..)) {
        return Err(error);
    }
    let payment = gateway.store().payment(id).await?;
    Err(match payment {
        Some(payment) => error.with_status(payment.status),
        None => error,
    })
}

/// A merchant's request for a payment.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PaymentCreateRequest, example = json!({
    "order_id": "order-1042", "idempotency_key": "order-1042:attempt-1",
    "amount": "49.90", "currency": "EUR"
}))]
pub(super) struct CreateBody {
    #[schema(value_type = formats::OrderId)]
    order_id: OrderId,
    #[schema(value_type = formats::IdempotencyKey)]
    idempotency_key: IdempotencyKey,
    #[schema(value_type = formats::InvoiceAmount)]
    amount: Minor,
    /// `USD` if absent. The merchant needs a usable exchange rate for it.
    #[schema(value_type = Option<formats::Currency>, default = "USD")]
    currency: Currency,
    /// `hosted` if absent.
    #[schema(value_type = Option<formats::CheckoutMode>, default = "hosted")]
    checkout_mode: CheckoutMode,
    /// Required if `checkout_mode` is `direct`; a preselection if it is `hosted`.
    #[schema(value_type = Option<formats::PaymentMethod>)]
    payment_method: Option<MethodId>,
    #[schema(value_type = Option<formats::Email>)]
    customer_email: Option<Email>,
    /// URL to which the customer may return at the end. Returning does not confirm a payment.
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

/// Parses a method id.
pub(super) fn method(text: &str) -> Result<MethodId, &'static str> {
    MethodId::parse(text).ok_or("is not a payment method of this interface")
}

/// Parses a checkout mode.
pub(super) fn mode(text: &str) -> Result<CheckoutMode, &'static str> {
    match text {
        "hosted" => Ok(CheckoutMode::Hosted),
        "direct" => Ok(CheckoutMode::Direct),
        _ => Err("must be \"hosted\" or \"direct\""),
    }
}

impl CreateBody {
    fn read(mut fields: Fields, headers: &HeaderMap, loopback: bool) -> Result<Self, Invalid> {
        let body = Self {
            order_id: fields.required("order_id", text(OrderId::parse))?,
            idempotency_key: idempotency_key(&mut fields, headers)?,
            amount: fields.required("amount", text(Minor::parse_positive))?,
            currency: fields
                .optional("currency", text(currency))?
                .unwrap_or(Currency::USD),
            checkout_mode: fields
                .optional("checkout_mode", text(mode))?
                .unwrap_or(CheckoutMode::Hosted),
            payment_method: fields.optional("payment_method", text(method))?,
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

    fn into_request(self, caller: &MerchantCaller, life: Duration) -> Request {
        Request {
            merchant: caller.merchant.id,
            origin: Origin::Merchant {
                idempotency_key: self.idempotency_key,
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

/// Checks that mode, method and currency of a request are consistent.
pub(super) fn check_method(
    mode: CheckoutMode,
    method: Option<MethodId>,
    currency: Currency,
) -> Result<(), Invalid> {
    let Some(method) = method else {
        return match mode {
            CheckoutMode::Hosted => Ok(()),
            CheckoutMode::Direct => Err(Invalid::new(
                "payment_method",
                "is required where checkout_mode is direct",
            )),
        };
    };
    match method.fixed_currency() {
        Some(fixed) if fixed != currency => Err(Invalid::new(
            "payment_method",
            format_args!("{method} requires the currency {fixed}"),
        )),
        _ => Ok(()),
    }
}

/// A payment for merchants.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Payment, example = json!({
    "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c", "order_id": "order-1042",
    "status": "created", "settlement_status": "pending", "amount": "49.90", "currency": "EUR",
    "usd_amount": "53.89", "payment_method": null, "test_mode": true,
    "checkout_url": "https://pay.example/checkout/Zk3v8yq0S1n5m7Qw2E4r6T8y0U1i3O5p7A9s1D3f5G7"
}))]
pub(crate) struct PaymentBody<'a> {
    #[schema(value_type = formats::PaymentId)]
    #[serde(serialize_with = "answer::shown")]
    payment_id: PaymentId,
    #[schema(value_type = formats::OrderId)]
    order_id: &'a str,
    #[schema(value_type = formats::PaymentStatus)]
    status: &'static str,
    #[schema(value_type = formats::SettlementStatus)]
    settlement_status: &'static str,
    #[schema(value_type = formats::InvoiceAmount)]
    #[serde(serialize_with = "answer::shown")]
    amount: Minor,
    #[schema(value_type = formats::PaymentCurrency)]
    currency: &'static str,
    #[schema(value_type = formats::UsdAmount)]
    #[serde(serialize_with = "answer::shown")]
    usd_amount: Minor,
    /// Null until a method is chosen.
    #[schema(value_type = Option<formats::PaymentMethod>, required)]
    payment_method: Option<&'a str>,
    /// True for payments of test keys, which are never real money.
    test_mode: bool,
    #[schema(value_type = formats::CheckoutUrl)]
    checkout_url: String,
}

impl<'a> PaymentBody<'a> {
    /// The public view of a payment.
    pub(crate) fn new(payment: &'a payment::Payment, gateway: &Gateway) -> Self {
        Self {
            payment_id: payment.id,
            checkout_url: gateway.checkout_url(payment),
            status: payment.status.as_str(),
            settlement_status: payment.settlement.as_str(),
            amount: payment.due.amount,
            currency: payment.due.currency.code(),
            usd_amount: payment.usd,
            payment_method: payment.method.as_ref().map(MethodId::as_str),
            test_mode: payment.environment == Environment::Test,
            order_id: payment.order_id.as_str(),
        }
    }
}

/// Creates a checkout session.
///
/// A retry with the same `idempotency_key` and the same data returns the existing payment with 200. A time-out
/// or a 5xx does not prove that the creation failed: retry with the same key.
#[utoipa::path(
    post, path = "/api/v1/payments", tag = "Payments", operation_id = "createPayment",
    params(("Idempotency-Key" = Option<String>, Header, description = "The idempotency key of a body that has none.")),
    request_body(content = CreateBody, content_type = "application/json"),
    responses(
        (status = 201, description = "The payment was created.", body = PaymentBody,
            headers(("Location" = String, description = "Where the payment is read."))),
        (status = 200, description = "The same request was made before: the payment as it stands now.",
            body = PaymentBody,
            headers(("Idempotent-Replayed" = bool, description = "Always `true`."))),
        (status = 409, description = "The idempotency key was used with other data.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    MerchantCreate { caller, arrived }: MerchantCreate,
) -> Result<Response, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let settings = state.gateway().settings();
    let body = CreateBody::read(
        fields,
        &arrived.parts.headers,
        settings.webhooks.allow_loopback,
    )?;
    let request = body.into_request(&caller, settings.payment_life);
    let gateway = state.gateway();
    match gateway.create(request, Some(caller.key.hash)).await? {
        CreateOutcome::Created(payment) => {
            let path = format!("payments/{}", payment.id);
            created(gateway, &path, Json(PaymentBody::new(&payment, gateway)))
        }
        CreateOutcome::Replayed(payment) => Ok(replayed(Json(PaymentBody::new(&payment, gateway)))),
    }
}

/// Reads a payment.
///
/// An order is paid only when `status` is `completed`, `settlement_status` is `confirmed`, `test_mode` is
/// false, and ids, amount and currency match the merchant's own order.
#[utoipa::path(
    get, path = "/api/v1/payments/{payment_id}", tag = "Payments", operation_id = "readPayment",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "The payment.", body = PaymentBody),
        (status = 404, description = "No such payment of this merchant in this environment.",
            body = ErrorBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn read(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    MerchantRead { caller, arrived }: MerchantRead,
) -> Result<Response, ApiError> {
    arrived.no_query()?;
    let id = payment_id(id)?;
    let gateway = state.gateway();
    let found = gateway.payment_of(caller.merchant.id, caller.key.environment, id);
    let payment = found.await?.ok_or(NO_PAYMENT)?;
    answer::json(&PaymentBody::new(&payment, gateway), 512)
}

/// Cancels a payment that is `created` or `pending`.
///
/// An open attempt is first closed at its provider, so that it can no longer be paid. Cancelling again returns
/// the payment with 200. Money that arrives nevertheless is reviewed. Needs no live approval.
#[utoipa::path(
    post, path = "/api/v1/payments/{payment_id}/cancel", tag = "Payments", operation_id = "cancelPayment",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "The payment is cancelled.", body = PaymentBody),
        (status = 404, description = "No such payment of this merchant in this environment.",
            body = ErrorBody),
        (status = 409, description = "The payment is neither `created` nor `pending`, or its open attempt could not be closed.",
            body = ErrorBody,
            headers(("Retry-After" = Option<u64>, description = "Seconds, if calling again may help."))),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn cancel(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    MerchantCancel { caller, arrived }: MerchantCancel,
) -> Result<Response, ApiError> {
    arrived.no_fields()?;
    arrived.no_query()?;
    let id = payment_id(id)?;
    let gateway = state.gateway();
    let found = gateway.payment_of(caller.merchant.id, caller.key.environment, id);
    found.await?.ok_or(NO_PAYMENT)?;
    let cancelled = gateway.cancel_by_api(id, ApiCaller::Merchant).await;
    let payment = with_status(cancelled, gateway, id).await?;
    answer::json(&PaymentBody::new(&payment, gateway), 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;

    fn read_body(body: &str) -> Result<CreateBody, String> {
        let fields = Fields::read(parse(body.as_bytes()).unwrap()).unwrap();
        CreateBody::read(fields, &HeaderMap::new(), false).map_err(|invalid| invalid.message)
    }

    /// The minimal body, with fields replaced or added.
    fn with(changes: serde_json::Value) -> Result<CreateBody, String> {
        let mut body = serde_json::json!({
            "order_id": "o-1", "idempotency_key": "o-1:attempt", "amount": "49.90"
        });
        let object = body.as_object_mut().unwrap();
        object.extend(changes.as_object().unwrap().clone());
        read_body(&body.to_string())
    }

    #[test]
    fn what_is_left_out_or_null_has_its_default() {
        let smallest = with(serde_json::json!({})).unwrap();
        assert_eq!(smallest.currency, Currency::USD);
        assert_eq!(smallest.checkout_mode, CheckoutMode::Hosted);
        let nulls = serde_json::json!({
            "currency": null, "checkout_mode": null, "payment_method": null,
            "customer_email": null, "return_url": null, "expires_in": null, "locale": null,
            "metadata": null, "description": null
        });
        assert_eq!(with(nulls).unwrap(), smallest);
        let none = with(serde_json::json!({ "metadata": {} }));
        assert_eq!(none.unwrap(), smallest);
    }

    #[test]
    fn every_field_that_is_wrong_is_named() {
        let many: std::collections::BTreeMap<_, _> =
            (0..21).map(|key| (key.to_string(), "")).collect();
        for (field, value) in [
            ("order_id", serde_json::json!("")),
            ("order_id", serde_json::json!(7)),
            ("order_id", serde_json::json!(null)),
            ("idempotency_key", serde_json::json!("short")),
            ("idempotency_key", serde_json::json!("with space")),
            ("amount", serde_json::json!(49.9)),
            ("amount", serde_json::json!("0.00")),
            ("amount", serde_json::json!("49.9")),
            ("amount", serde_json::json!(null)),
            ("currency", serde_json::json!("eur")),
            ("currency", serde_json::json!("JPY")),
            ("checkout_mode", serde_json::json!("Hosted")),
            ("payment_method", serde_json::json!("Cash")),
            ("customer_email", serde_json::json!("nobody")),
            ("return_url", serde_json::json!("http://shop.example")),
            ("return_url", serde_json::json!(["https://shop.example"])),
            ("expires_in", serde_json::json!(299)),
            ("expires_in", serde_json::json!("300")),
            ("expires_in", serde_json::json!(300.5)),
            ("expires_in", serde_json::json!(1_u64 << 32)),
            ("locale", serde_json::json!("de_DE")),
            ("metadata", serde_json::json!("a")),
            ("metadata", serde_json::json!(["a"])),
            ("metadata.a", serde_json::json!({ "metadata": { "a": 1 } })),
            (
                "metadata.a",
                serde_json::json!({ "metadata": { "a": null } }),
            ),
            (
                "metadata.a",
                serde_json::json!({ "metadata": { "a": "x".repeat(501) } }),
            ),
            (
                "metadata.a b",
                serde_json::json!({ "metadata": { "a b": "" } }),
            ),
            ("metadata", serde_json::json!({ "metadata": many })),
            ("description", serde_json::json!(" blank first")),
            ("description", serde_json::json!("x".repeat(201))),
        ] {
            let change = match value.get("metadata") {
                Some(_) => value.clone(),
                None => serde_json::json!({ field: value }),
            };
            let refused = with(change).unwrap_err();
            assert!(refused.starts_with(field), "{field} {value}: {refused}");
        }
        for field in ["order_id", "idempotency_key", "amount"] {
            let mut body = serde_json::json!({
                "order_id": "o-1", "idempotency_key": "o-1:attempt", "amount": "49.90"
            });
            body.as_object_mut().unwrap().remove(field);
            let refused = read_body(&body.to_string()).unwrap_err();
            assert_eq!(refused, format!("{field}: is required"));
        }
        let wallet = with(serde_json::json!({ "wallet": "x" })).unwrap_err();
        assert_eq!(wallet, "unknown field \"wallet\"");
    }

    #[test]
    fn a_direct_payment_names_its_method_and_a_method_its_currency() {
        let refused = with(serde_json::json!({ "checkout_mode": "direct" })).unwrap_err();
        assert!(refused.starts_with("payment_method"), "{refused}");
        for (method, currency, fits) in [
            ("upi_imps", "INR", true),
            ("upi_imps", "USD", false),
            ("interac", "CAD", true),
            ("interac", "USD", false),
            ("ideal", "USD", true),
        ] {
            for mode in ["hosted", "direct"] {
                let body = serde_json::json!({
                    "payment_method": method, "currency": currency, "checkout_mode": mode
                });
                assert_eq!(with(body).is_ok(), fits, "{method} {currency} {mode}");
            }
        }
    }
}
