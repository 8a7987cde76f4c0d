//! Refunds of payments that a reseller created.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;

use super::signed::{Refund, SignedReseller};
use crate::api::document::{Authenticated, WithBody};
use crate::api::formats;
use crate::api::payments::payment_id;
use crate::api::refunds::{RefundBody, RefundCreate, RefundsBody, answer_of, listed};
use crate::api::state::ApiState;
use crate::web::error::{ApiError, ErrorBody};

/// Refunds money of a payment that the reseller created.
///
/// As a merchant's refund, if the merchant's delegation allows it. The key needs the scope `reseller:refund`, which
/// keys only have if it was requested. The reseller's idempotency keys are its own: those of merchants do not
/// collide with them, and the header `Idempotency-Key` is not read, because the signature does not cover it.
/// After a time-out or a 5xx, which do not prove that nothing is refunded, send the same key with a new nonce.
#[utoipa::path(
    post, path = "/api/v1/reseller/payments/{payment_id}/refunds", tag = "Resellers",
    operation_id = "createResellerRefund",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    request_body(content = RefundCreate, content_type = "application/json"),
    responses(
        (status = 201, description = "The refund is on record, and was handed to the provider where it could be reached.",
            body = RefundBody),
        (status = 200, description = "The same request was made before: the refund as it stands now.",
            body = RefundBody, headers(("Idempotent-Replayed" = bool, description = "Always `true`."))),
        (status = 404, description = "No such payment of this reseller in this environment.",
            body = ErrorBody),
        (status = 409, description = "The payment is not completed, the provider does not give its money back, the idempotency key was used with other data, or the nonce was used before.",
            body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Refund>,
) -> Result<Response, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let body = RefundCreate::read(fields, &HeaderMap::new())?;
    let payment = payment_id(id)?;
    let (gateway, asked) = (state.gateway(), body.into_asked());
    let amount_sent = asked.amount.is_some();
    let refunded = gateway.refund_by_reseller(&caller, payment, asked).await;
    answer_of(refunded, amount_sent, gateway, payment).await
}

/// Lists the refunds of a payment that the reseller created.
///
/// Newest first, including those of the merchant, of operators, and refunds made in the provider's own dashboard.
/// Needs the scope `reseller:refund` and the merchant's delegation to allow refunds, for `claim_url` is shown.
#[utoipa::path(
    get, path = "/api/v1/reseller/payments/{payment_id}/refunds", tag = "Resellers",
    operation_id = "listResellerRefunds",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "Its refunds.", body = RefundsBody),
        (status = 404, description = "No such payment of this reseller in this environment.",
            body = ErrorBody),
        (status = 409, description = "The nonce was used before.", body = ErrorBody),
        Authenticated,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Refund>,
) -> Result<Response, ApiError> {
    arrived.no_query()?;
    let payment = payment_id(id)?;
    let refunds = state.gateway().refunds_of_reseller(&caller, payment);
    listed(&refunds.await?, true)
}
