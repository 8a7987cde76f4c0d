//! Ordering and reading refunds.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use kassette_domain::id::{PaymentId, RefundId};
use kassette_domain::key::Scope;
use kassette_domain::money::Minor;
use kassette_domain::order::{BadText, IdempotencyKey, shown_in_a_line};
use kassette_domain::refund::{RefundFailure, RefundOrigin};
use kassette_domain::secret::Secret;
use kassette_gateway::Gateway;
use kassette_gateway::refunds::{GivenRefund, RefundAsked, RefundError, RefundOutcome};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::{MerchantRead, MerchantRefund};
use super::document::{Authenticated, WithBody};
use super::extras::idempotency_key;
use super::payments::{NO_PAYMENT, created, payment_id, replayed, with_status};
use super::state::ApiState;
use super::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};

/// Maximum length of a merchant's reason in characters.
const REASON: usize = 200;
/// Usual size of a refund in bytes.
const USUAL: usize = 512;

const NO_REFUND: ApiError = ApiError::NotFound("refund not found");

/// A request to refund a payment.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RefundCreateRequest, example = json!({
    "idempotency_key": "order-1042:refund-1", "amount": "10.00", "reason": "The parcel came back"
}))]
pub(super) struct RefundCreate {
    /// Unique among the refunds that the merchant, or the reseller, requested in the environment.
    #[schema(value_type = formats::IdempotencyKey)]
    idempotency_key: IdempotencyKey,
    /// If absent, the whole remaining amount.
    #[schema(value_type = Option<formats::InvoiceAmount>)]
    amount: Option<Minor>,
    /// The provider may show it to the payer.
    #[schema(value_type = Option<formats::RefundReason>)]
    reason: Option<String>,
}

impl RefundCreate {
    /// Parses a body. `headers` may name the idempotency key if the body does not.
    pub(super) fn read(mut fields: Fields, headers: &HeaderMap) -> Result<Self, Invalid> {
        let body = Self {
            idempotency_key: idempotency_key(&mut fields, headers)?,
            amount: fields.optional("amount", text(Minor::parse_positive))?,
            reason: fields.optional("reason", text(reason))?,
        };
        fields.finish()?;
        Ok(body)
    }

    pub(super) fn into_asked(self) -> RefundAsked {
        RefundAsked {
            amount: self.amount,
            key: Some(self.idempotency_key),
            reason: self.reason,
        }
    }
}

/// Parses a reason, by the rules of an order reference.
fn reason(text: &str) -> Result<String, BadText> {
    shown_in_a_line(text, REASON)?;
    Ok(text.to_owned())
}

/// A refund.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refund, example = json!({
    "refund_id": "1f7d2c9b8e4a4d6f9b3c5d7e9f0a1b2c", "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c",
    "amount": "10.00", "currency": "EUR", "status": "pending", "reason": "The parcel came back",
    "origin": "merchant", "failure": null, "claim_url": null, "reversed_amount": "0.00", "bucket": "own",
    "created_at": "2026-03-01T09:30:00.000Z"
}))]
pub(crate) struct RefundBody<'a> {
    #[schema(value_type = formats::RefundId)]
    #[serde(serialize_with = "answer::shown")]
    refund_id: RefundId,
    #[schema(value_type = formats::PaymentId)]
    #[serde(serialize_with = "answer::shown")]
    payment_id: PaymentId,
    #[schema(value_type = formats::InvoiceAmount)]
    #[serde(serialize_with = "answer::shown")]
    amount: Minor,
    #[schema(value_type = formats::ReceivedCurrency)]
    currency: &'a str,
    #[schema(value_type = formats::RefundStatus)]
    status: &'static str,
    /// The merchant's reason.
    #[schema(value_type = Option<formats::RefundReason>, required)]
    reason: Option<&'a str>,
    #[schema(value_type = formats::RefundOrigin)]
    origin: &'static str,
    /// Why the refund failed; null if it did not.
    #[schema(required)]
    failure: Option<FailureBody>,
    /// URL at which the payer claims the money. Null if the payer need not claim it, and for keys that may not
    /// refund: anyone with the URL can claim the money.
    #[schema(value_type = Option<formats::ClaimUrl>, required)]
    claim_url: Option<&'a str>,
    /// Amount that came back after the refund had succeeded.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    reversed_amount: Minor,
    #[schema(value_type = formats::Bucket)]
    bucket: &'static str,
    #[schema(value_type = formats::Instant)]
    created_at: String,
}

/// Why a refund failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RefundFailure)]
pub(crate) struct FailureBody {
    #[schema(value_type = formats::RefundFailureCode)]
    code: &'static str,
    /// An English text for people.
    #[schema(example = "The provider did not make the refund.")]
    message: &'static str,
}

impl FailureBody {
    fn new(failure: RefundFailure) -> Self {
        let message = match failure {
            RefundFailure::Refused => "The provider did not make the refund.",
            RefundFailure::NotMade => "An operator found out that the refund was not made.",
            RefundFailure::CameBack => {
                "The refund came back: the payer's bank or the provider returned the money."
            }
        };
        Self {
            code: failure.as_str(),
            message,
        }
    }
}

impl<'a> RefundBody<'a> {
    /// The public view of a refund; `may_refund` is whether the reader may refund.
    pub(crate) fn new(given: &'a GivenRefund, may_refund: bool) -> Self {
        let refund = &given.refund;
        Self {
            refund_id: refund.id,
            payment_id: given.payment,
            amount: refund.amount,
            currency: &given.currency,
            status: refund.state.as_str(),
            reason: refund.reason(),
            origin: refund.origin.as_str(),
            failure: refund.failure().map(FailureBody::new),
            claim_url: refund
                .claim_url
                .as_ref()
                .filter(|_| may_refund)
                .map(Secret::expose),
            reversed_amount: refund.reversed,
            bucket: refund.bucket.as_str(),
            created_at: refund.created_at.rfc3339(),
        }
    }
}

/// Response to a refund request.
pub(super) async fn answer_of(
    refunded: Result<RefundOutcome, RefundError>,
    amount_sent: bool,
    gateway: &Gateway,
    payment: PaymentId,
) -> Result<Response, ApiError> {
    let refunded = refunded.map_err(|error| ApiError::of_refund(error, amount_sent));
    let body = |given| answer::json(&RefundBody::new(given, true), USUAL);
    match with_status(refunded, gateway, payment).await? {
        RefundOutcome::Created(given) if given.refund.origin == RefundOrigin::Reseller => {
            Ok((StatusCode::CREATED, body(&given)?).into_response())
        }
        RefundOutcome::Created(given) => {
            let path = format!("refunds/{}", given.refund.id);
            created(gateway, &path, body(&given)?)
        }
        RefundOutcome::Replayed(given) => Ok(replayed(body(&given)?)),
    }
}

/// The refunds of a payment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refunds)]
pub(super) struct RefundsBody<'a> {
    /// Newest first.
    refunds: Vec<RefundBody<'a>>,
}

/// Response with a list of refunds; `may_refund` is whether the reader may refund.
pub(super) fn listed(refunds: &[GivenRefund], may_refund: bool) -> Result<Response, ApiError> {
    let each = |given| RefundBody::new(given, may_refund);
    let body = RefundsBody {
        refunds: refunds.iter().map(each).collect(),
    };
    answer::json(&body, USUAL * refunds.len() + 16)
}

/// Refunds money.
///
/// Of a completed payment, as often as the provider allows, and never more than was received. The response
/// contains the provider's answer if it arrives within the time of the request: a refund stays `pending` until
/// the provider has confirmed it, and may fail later. A retry with the same `idempotency_key` and the same data
/// returns the same refund with 200. A time-out or a 5xx does not prove that nothing is refunded: retry with
/// the same key. The key needs the scope `payments:refund`, which keys only have if it was requested.
#[utoipa::path(
    post, path = "/api/v1/payments/{payment_id}/refunds", tag = "Refunds",
    operation_id = "createRefund",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id."),
        ("Idempotency-Key" = Option<String>, Header, description = "The idempotency key of a body that has none.")),
    request_body(content = RefundCreate, content_type = "application/json"),
    responses(
        (status = 201, description = "The refund is on record, and was handed to the provider where it could be reached.",
            body = RefundBody, headers(("Location" = String, description = "Where the refund is read."))),
        (status = 200, description = "The same request was made before: the refund as it stands now.",
            body = RefundBody, headers(("Idempotent-Replayed" = bool, description = "Always `true`."))),
        (status = 404, description = "No such payment of this merchant in this environment.",
            body = ErrorBody),
        (status = 409, description = "The payment is not completed, the provider does not give its money back, or the idempotency key was used with other data.",
            body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    MerchantRefund { caller, arrived }: MerchantRefund,
) -> Result<Response, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let body = RefundCreate::read(fields, &arrived.parts.headers)?;
    let payment = payment_id(id)?;
    let (gateway, asked) = (state.gateway(), body.into_asked());
    let amount_sent = asked.amount.is_some();
    let refunded = gateway.refund(&caller, payment, asked).await;
    answer_of(refunded, amount_sent, gateway, payment).await
}

/// Lists the refunds of a payment.
///
/// Newest first, including refunds made in the provider's own dashboard (`origin` is `provider`).
#[utoipa::path(
    get, path = "/api/v1/payments/{payment_id}/refunds", tag = "Refunds",
    operation_id = "listRefunds",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "Its refunds.", body = RefundsBody),
        (status = 404, description = "No such payment of this merchant in this environment.",
            body = ErrorBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    MerchantRead { caller, arrived }: MerchantRead,
) -> Result<Response, ApiError> {
    arrived.no_query()?;
    let payment = payment_id(id)?;
    let (merchant, environment) = (caller.merchant.id, caller.key.environment);
    let found = state.gateway().refunds_of(merchant, environment, payment);
    let refunds = found.await?.ok_or(NO_PAYMENT)?;
    listed(&refunds, caller.key.allows(Scope::PaymentsRefund))
}

/// Reads a refund.
///
/// A pending refund may succeed or fail later, and a refund that succeeded may fail at the bank.
#[utoipa::path(
    get, path = "/api/v1/refunds/{refund_id}", tag = "Refunds", operation_id = "readRefund",
    params(("refund_id" = inline(formats::RefundId), Path, description = "The refund's id.")),
    responses(
        (status = 200, description = "The refund.", body = RefundBody),
        (status = 404, description = "No such refund of this merchant in this environment.",
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
    let Path(id) = id.map_err(|_| NO_REFUND)?;
    let id = RefundId::parse(&id).map_err(|_| NO_REFUND)?;
    let (merchant, environment) = (caller.merchant.id, caller.key.environment);
    let found = state.gateway().refund_of(merchant, environment, id).await?;
    let may_refund = caller.key.allows(Scope::PaymentsRefund);
    answer::json(
        &RefundBody::new(&found.ok_or(NO_REFUND)?, may_refund),
        USUAL,
    )
}

#[cfg(test)]
mod tests {
    use kassette_domain::movement::Bucket;
    use kassette_domain::refund::Refund;
    use kassette_domain::time::Time;

    use super::*;
    use crate::web::json::parse;

    fn read(changes: serde_json::Value) -> Result<RefundCreate, String> {
        let mut body = serde_json::json!({ "idempotency_key": "order-1:refund-1" });
        let object = body.as_object_mut().unwrap();
        object.extend(changes.as_object().unwrap().clone());
        let fields = Fields::read(parse(body.to_string().as_bytes()).unwrap()).unwrap();
        RefundCreate::read(fields, &HeaderMap::new()).map_err(|invalid| invalid.message)
    }

    #[test]
    fn amount_and_reason_may_be_absent() {
        let smallest = read(serde_json::json!({})).unwrap();
        assert_eq!((smallest.amount, &smallest.reason), (None, &None));
        let nulls = serde_json::json!({ "amount": null, "reason": null });
        assert_eq!(read(nulls), Ok(smallest));
        let longest = "\u{00fc}".repeat(REASON);
        let whole = read(serde_json::json!({ "amount": "10.00", "reason": longest })).unwrap();
        assert_eq!(
            (whole.amount, whole.reason),
            (Some(Minor(1000)), Some(longest))
        );
    }

    #[test]
    fn only_those_who_may_refund_see_where_the_money_is_claimed() {
        let id = RefundId::from_bytes([1; 16]);
        let at = Time::from_millis(0);
        let mut refund = Refund::elsewhere(id, Minor(1000), Bucket::Own, at);
        refund.claim_url = Some(Secret::new("https://pay.example/claim"));
        let given = GivenRefund {
            payment: PaymentId::from_bytes([2; 16]),
            refund,
            currency: "EUR".into(),
        };
        let shown = |may_refund| {
            let body = RefundBody::new(&given, may_refund);
            serde_json::to_value(body).unwrap()["claim_url"].clone()
        };
        assert_eq!(shown(true), "https://pay.example/claim");
        assert_eq!(shown(false), serde_json::Value::Null);
    }

    #[test]
    fn every_field_that_is_wrong_is_named() {
        for (field, value) in [
            ("idempotency_key", serde_json::json!(null)),
            ("idempotency_key", serde_json::json!("short")),
            ("amount", serde_json::json!(10)),
            ("amount", serde_json::json!("0.00")),
            ("amount", serde_json::json!("-1.00")),
            ("amount", serde_json::json!("10.0")),
            ("reason", serde_json::json!("")),
            ("reason", serde_json::json!("x".repeat(REASON + 1))),
            ("reason", serde_json::json!("two\nlines")),
        ] {
            let refused = read(serde_json::json!({ field: value })).unwrap_err();
            assert!(refused.starts_with(field), "{field} {value}: {refused}");
        }
        let currency = read(serde_json::json!({ "currency": "EUR" })).unwrap_err();
        assert_eq!(currency, "unknown field \"currency\"");
    }
}
