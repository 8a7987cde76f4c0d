//! A payment created by a reseller, with its complete history.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use kassette_domain::key::Scope;
use kassette_gateway::refunds::given_refunds;
use serde::Serialize;
use utoipa::ToSchema;

use super::payments::DelegatedBody;
use super::signed::{Read, SignedReseller};
use crate::api::details::{HistoryBody, USUAL};
use crate::api::document::Authenticated;
use crate::api::payments::payment_id;
use crate::api::state::ApiState;
use crate::api::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};

/// A payment with its history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResellerPaymentDetails)]
pub(super) struct DetailsBody<'a> {
    payment: DelegatedBody<'a>,
    #[serde(flatten)]
    history: HistoryBody<'a>,
}

/// Reads a payment that the reseller created with its complete history.
///
/// In the key's environment, while the merchant authorizes the reseller; any other payment is not found. The
/// `claim_url` of a refund is null unless the reseller may refund, by the key's scope `reseller:refund` and the
/// merchant's delegation: anyone with it can claim the money.
#[utoipa::path(
    get, path = "/api/v1/reseller/payments/{payment_id}/details", tag = "Resellers",
    operation_id = "readResellerPaymentDetails",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "The payment, and what happened to it.", body = DetailsBody),
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
    let history = gateway.reseller_history(&caller, id).await?;
    let refunds = given_refunds(&history.aggregate);
    let payment = &history.aggregate.payment;
    let may_refund = caller.key.allows(Scope::ResellerRefund)
        && gateway.may_reseller_refund(&caller, payment).await?.is_ok();
    let movements = gateway.store().movements_of(id).await?;
    let body = DetailsBody {
        payment: DelegatedBody::new(payment, gateway)?,
        history: HistoryBody::new(&history, &refunds, &movements, may_refund),
    };
    answer::json(&body, USUAL)
}
