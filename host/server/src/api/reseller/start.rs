//! Starting delegated direct payments.

use axum::Json;
use axum::extract::State;

use super::signed::{Create, SignedReseller};
use crate::api::document::{Authenticated, WithBody};
use crate::api::payments::with_status;
use crate::api::start::{StartBody, StartedBody};
use crate::api::state::ApiState;
use crate::web::error::{ApiError, ErrorBody};

/// Starts a payment that the reseller created with `checkout_mode` `direct`.
///
/// Starting again while an attempt is open returns the same `redirect_url`. A 409 with `Retry-After` means that
/// the outcome of a start is not known yet: call again, with a new nonce.
#[utoipa::path(
    post, path = "/api/v1/reseller/payments/start", tag = "Resellers", operation_id = "startResellerPayment",
    request_body(content = StartBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The payment was started.", body = StartedBody),
        (status = 404, description = "No such payment of this reseller in this environment.",
            body = ErrorBody),
        (status = 409, description = "A hosted payment, one that cannot be started any more, another method, a start whose outcome is not known yet, or a nonce that was used before.",
            body = ErrorBody,
            headers(("Retry-After" = Option<u64>, description = "Seconds, where calling again may help."))),
        Authenticated, WithBody,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn start(
    State(state): State<ApiState>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Create>,
) -> Result<Json<StartedBody>, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let start = StartBody::read(fields)?.into_reseller_start();
    let payment = start.payment;
    let gateway = state.gateway();
    let started = gateway.reseller_start(&caller, start).await;
    let started = with_status(started, gateway, payment).await?;
    Ok(Json(StartedBody::new(payment, started)))
}
