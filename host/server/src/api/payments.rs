//! Creating and reading payments.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderName, HeaderValue, StatusCode};
use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
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

use super::access::{MerchantCreate, MerchantRead};
use super::document::{Authenticated, WithBody};
use super::state::ApiState;
use super::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};
use crate::web::text::currency;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// An answer that says that the same request was made before.
pub(crate) fn replayed(body: impl IntoResponse) -> Response {
    let header = [(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))];
    (header, body).into_response()
}

/// The answer to a request that made something, with the path below `/api/v1/` where it is read.
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

/// The payment's id in a path; another text is no payment's.
pub(super) fn payment_id(id: Result<Path<String>, PathRejection>) -> Result<PaymentId, ApiError> {
    let Path(id) = id.map_err(|_| NO_PAYMENT)?;
    PaymentId::parse(&id).map_err(|_| NO_PAYMENT)
}

/// What a merchant asks for.
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
    /// `USD` where it is absent. The merchant needs a usable exchange rate for it.
    #[schema(value_type = Option<formats::Currency>, default = "USD")]
    currency: Currency,
    /// `hosted` where it is absent.
    #[schema(value_type = Option<formats::CheckoutMode>, default = "hosted")]
    checkout_mode: CheckoutMode,
    /// Required where `checkout_mode` is `direct`; a preselection where it is `hosted`.
    #[schema(value_type = Option<formats::PaymentMethod>)]
    payment_method: Option<MethodId>,
    #[schema(value_type = Option<formats::Email>)]
    customer_email: Option<Email>,
    /// Where the customer may be sent in the end. Coming back confirms no payment.
    #[schema(value_type = Option<formats::ReturnUrl>)]
    return_url: Option<ReturnUrl>,
}

/// A reader of method ids.
pub(super) fn method(text: &str) -> Result<MethodId, &'static str> {
    MethodId::parse(text).ok_or("is not a payment method of this interface")
}

/// A reader of checkout modes.
pub(super) fn mode(text: &str) -> Result<CheckoutMode, &'static str> {
    match text {
        "hosted" => Ok(CheckoutMode::Hosted),
        "direct" => Ok(CheckoutMode::Direct),
        _ => Err("must be \"hosted\" or \"direct\""),
    }
}

impl CreateBody {
    fn read(mut fields: Fields, loopback: bool) -> Result<Self, Invalid> {
        let body = Self {
            order_id: fields.required("order_id", text(OrderId::parse))?,
            idempotency_key: fields.required("idempotency_key", text(IdempotencyKey::parse))?,
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
        };
        fields.finish()?;
        check_method(body.checkout_mode, body.payment_method, body.currency)?;
        Ok(body)
    }

    fn into_request(self, caller: &MerchantCaller) -> Request {
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
        }
    }
}

/// What mode, method and currency of a request demand of one another.
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

/// A payment as merchants see it.
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
    /// True for payments of test keys: never real money.
    test_mode: bool,
    #[schema(value_type = formats::CheckoutUrl)]
    checkout_url: String,
}

impl<'a> PaymentBody<'a> {
    /// The public view of a payment.
    pub(crate) fn of(payment: &'a payment::Payment, gateway: &Gateway) -> Self {
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
/// Retrying with the same `idempotency_key` and the same data answers the existing payment with
/// 200. A time-out or a 5xx does not prove that creation failed: retry with the same key.
#[utoipa::path(
    post, path = "/api/v1/payments", tag = "Payments", operation_id = "createPayment",
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
    let loopback = state.gateway().settings().webhooks.allow_loopback;
    let request = CreateBody::read(fields, loopback)?.into_request(&caller);
    let gateway = state.gateway();
    match gateway.create(request, Some(caller.key.hash)).await? {
        CreateOutcome::Created(payment) => {
            let path = format!("payments/{}", payment.id);
            created(gateway, &path, Json(PaymentBody::of(&payment, gateway)))
        }
        CreateOutcome::Replayed(payment) => Ok(replayed(Json(PaymentBody::of(&payment, gateway)))),
    }
}

/// Reads a payment.
///
/// An order is paid only when `status` is `completed`, `settlement_status` is `confirmed`,
/// `test_mode` is false, and ids, amount and currency match the merchant's own order.
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
    answer::json(&PaymentBody::of(&payment, gateway), 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;

    fn read_body(body: &str) -> Result<CreateBody, String> {
        let fields = Fields::of(parse(body.as_bytes()).unwrap()).unwrap();
        CreateBody::read(fields, false).map_err(|invalid| invalid.message)
    }

    /// The smallest body, with fields replaced or added.
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
            "customer_email": null, "return_url": null
        });
        assert_eq!(with(nulls).unwrap(), smallest);
    }

    #[test]
    fn every_field_that_is_wrong_is_named() {
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
        ] {
            let refused = with(serde_json::json!({ field: value })).unwrap_err();
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
