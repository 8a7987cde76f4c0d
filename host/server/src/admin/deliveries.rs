//! The delivery log of all merchants and resellers.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::Value;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::api::webhooks::{Reach, deliveries};
use crate::web::ApiError;
use crate::web::path::At;
use crate::web::query::Query;

/// `GET /deliveries`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    deliveries::list(&state.gateway, Reach::All, query.as_deref()).await
}

/// `GET /deliveries/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    deliveries::show(&state.gateway, Reach::All, &id).await
}

/// `POST /deliveries/{id}/redeliver`: returns the new delivery.
pub(super) async fn redeliver(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let line = caller.line(Attribution::alone(fields)?);
    deliveries::redeliver(&state.gateway, Reach::All, &id, line).await
}
