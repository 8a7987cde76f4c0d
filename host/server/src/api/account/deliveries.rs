//! Deliveries to the webhook endpoints of the key's owner.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use super::access::{ListDeliveries, Manager};
use crate::api::document::{Authenticated, WithBody};
use crate::api::formats;
use crate::api::state::ApiState;
use crate::api::webhooks::deliveries;
use crate::api::webhooks::schemas::{Deliveries, Delivery};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::path::At;

/// Lists deliveries, newest first.
///
/// If there are several endpoints, specify one: a page of all endpoints may be short, or even empty, and still
/// have a `next_cursor`. A page of all endpoints counts as ten requests.
#[utoipa::path(
    get, path = "/api/v1/account/deliveries", tag = "Account", operation_id = "listOwnDeliveries",
    params(
        ("endpoint_id" = inline(Option<formats::EndpointId>), Query, description = "To one endpoint alone."),
        ("status" = inline(Option<formats::DeliveryStatus>), Query, description = "In one state alone."),
        ("limit" = inline(Option<formats::Limit>), Query, description = "How many at most; 50 where it is absent."),
        ("cursor" = inline(Option<formats::Cursor>), Query, description = "`next_cursor` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of them.", body = Deliveries),
        (status = 404, description = "There is no such endpoint of the key's owner and environment.", body = ErrorBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    request: Manager<ListDeliveries>,
) -> Result<Json<Value>, ApiError> {
    let query = request.arrived.parts.uri.query();
    deliveries::list(state.gateway(), request.reach(), query).await
}

/// Shows a delivery with its attempts.
///
/// Each attempt contains the receiver's status and the beginning of its body, or the reason why there was no
/// response.
#[utoipa::path(
    get, path = "/api/v1/account/deliveries/{id}", tag = "Account", operation_id = "readOwnDelivery",
    params(("id" = inline(formats::DeliveryId), Path, description = "The delivery's id.")),
    responses(
        (status = 200, description = "The delivery.", body = Delivery),
        (status = 404, description = "No such delivery to an endpoint of the key's owner and environment.", body = ErrorBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn show(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<Json<Value>, ApiError> {
    request.arrived.no_query()?;
    deliveries::show(state.gateway(), request.reach(), &id).await
}

/// Sends the same event to the same endpoint again.
///
/// A new delivery with the same event id is due immediately, regardless of the outcome of this one.
#[utoipa::path(
    post, path = "/api/v1/account/deliveries/{id}/redeliver", tag = "Account", operation_id = "redeliverOwn",
    params(("id" = inline(formats::DeliveryId), Path, description = "The delivery's id.")),
    responses(
        (status = 201, description = "The new delivery.", body = Delivery),
        (status = 404, description = "No such delivery to an endpoint of the key's owner and environment.", body = ErrorBody),
        (status = 409, description = "The endpoint was deleted.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn redeliver(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<Response, ApiError> {
    request.arrived.no_fields()?;
    request.arrived.no_query()?;
    deliveries::redeliver(state.gateway(), request.reach(), &id, request.line()).await
}
