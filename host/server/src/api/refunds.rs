//! Giving money back, and reading what was given back.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use kassette_domain::id::{PaymentId, RefundId};
use kassette_domain::money::Minor;
use kassette_domain::order::{BadText, IdempotencyKey, shown_in_a_line};
use kassette_domain::secret::Secret;
use kassette_gateway::refunds::{GivenRefund, RefundAsked, RefundOutcome};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::{MerchantRead, MerchantRefund};
use super::document::{Authenticated, WithBody};
use super::payments::{NO_PAYMENT, created, payment_id, replayed};
use super::state::ApiState;
use super::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};

/// Most characters of a merchant's reason.
const REASON: usize = 200;
/// Bytes that a refund usually has.
const USUAL: usize = 384;

const NO_REFUND: ApiError = ApiError::NotFound("refund not found");

/// How much of a payment is given back.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RefundCreateRequest, example = json!({
    "idempotency_key": "order-1042:refund-1", "amount": "10.00", "reason": "The parcel came back"
}))]
pub(super) struct RefundCreate {
    /// Unique among the refunds of the merchant's environment.
    #[schema(value_type = formats::IdempotencyKey)]
    idempotency_key: IdempotencyKey,
    /// All that is left where it is absent.
    #[schema(value_type = Option<formats::InvoiceAmount>)]
    amount: Option<Minor>,
    /// The provider may show it to the payer.
    #[schema(value_type = Option<formats::RefundReason>)]
    reason: Option<String>,
}

impl RefundCreate {
    fn read(mut fields: Fields) -> Result<Self, Invalid> {
        let body = Self {
            idempotency_key: fields.required("idempotency_key", text(IdempotencyKey::parse))?,
            amount: fields.optional("amount", text(Minor::parse_positive))?,
            reason: fields.optional("reason", text(reason))?,
        };
        fields.finish()?;
        Ok(body)
    }
}

/// Why, by the rules of an order reference.
fn reason(text: &str) -> Result<String, BadText> {
    shown_in_a_line(text, REASON)?;
    Ok(text.to_owned())
}

/// Money that is given back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refund, example = json!({
    "refund_id": "1f7d2c9b8e4a4d6f9b3c5d7e9f0a1b2c", "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c",
    "amount": "10.00", "currency": "EUR", "status": "pending", "reason": "The parcel came back",
    "origin": "merchant", "claim_url": null, "created_at": "2026-03-01T09:30:00.000Z"
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
    /// The merchant's.
    #[schema(value_type = Option<formats::RefundReason>, required)]
    reason: Option<&'a str>,
    #[schema(value_type = formats::RefundOrigin)]
    origin: &'static str,
    /// Null where the payer has to claim nothing.
    #[schema(value_type = Option<formats::ClaimUrl>, required)]
    claim_url: Option<&'a str>,
    #[schema(value_type = formats::Instant)]
    created_at: String,
}

impl<'a> RefundBody<'a> {
    /// The public view of a refund.
    pub(crate) fn of(given: &'a GivenRefund) -> Self {
        let refund = &given.refund;
        Self {
            refund_id: refund.id,
            payment_id: given.payment,
            amount: refund.amount,
            currency: &given.currency,
            status: refund.state.as_str(),
            reason: refund.reason(),
            origin: refund.origin.as_str(),
            claim_url: refund.claim_url.as_ref().map(Secret::expose),
            created_at: refund.created_at.rfc3339(),
        }
    }
}

/// What was given back of a payment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refunds)]
pub(super) struct RefundsBody<'a> {
    /// The newest first.
    refunds: Vec<RefundBody<'a>>,
}

/// Gives money back.
///
/// Of a completed payment, as often as the provider takes it, and never more than was received. The answer
/// shows what the provider said within the time of the request: a refund stays `pending` until the provider
/// has confirmed it, and may fail later. Retrying with the same `idempotency_key` and the same data answers
/// the same refund with 200. A time-out or a 5xx does not prove that nothing is given back: retry with the same
/// key. The key needs the scope `payments:refund`, which no key has unless it was asked for.
#[utoipa::path(
    post, path = "/api/v1/payments/{payment_id}/refunds", tag = "Refunds",
    operation_id = "createRefund",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
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
    let body = RefundCreate::read(fields)?;
    let payment = payment_id(id)?;
    let asked = RefundAsked {
        amount: body.amount,
        key: Some(body.idempotency_key),
        reason: body.reason,
    };
    let gateway = state.gateway();
    match gateway.refund(&caller, payment, asked).await? {
        RefundOutcome::Created(given) => {
            let path = format!("refunds/{}", given.refund.id);
            created(
                gateway,
                &path,
                answer::json(&RefundBody::of(&given), USUAL)?,
            )
        }
        RefundOutcome::Replayed(given) => {
            Ok(replayed(answer::json(&RefundBody::of(&given), USUAL)?))
        }
    }
}

/// Lists what was given back of a payment.
///
/// The newest first, with what was given back in the provider's own dashboard (`origin` is `provider`).
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
    let body = RefundsBody {
        refunds: refunds.iter().map(RefundBody::of).collect(),
    };
    answer::json(&body, USUAL * refunds.len() + 16)
}

/// Reads a refund.
///
/// A pending one may succeed or fail later, and one that succeeded may fail at the bank.
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
    answer::json(&RefundBody::of(&found.ok_or(NO_REFUND)?), USUAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;

    fn read(changes: serde_json::Value) -> Result<RefundCreate, String> {
        let mut body = serde_json::json!({ "idempotency_key": "order-1:refund-1" });
        let object = body.as_object_mut().unwrap();
        object.extend(changes.as_object().unwrap().clone());
        let fields = Fields::of(parse(body.to_string().as_bytes()).unwrap()).unwrap();
        RefundCreate::read(fields).map_err(|invalid| invalid.message)
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
