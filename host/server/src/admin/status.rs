//! The status of the gateway.

use axum::Json;
use axum::extract::{RawQuery, State};

use super::AdminState;
use super::caller::Viewer;
use crate::status::Report;
use crate::web::ApiError;
use crate::web::query::Query;

/// `GET /status`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Report>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    Ok(Json(state.reporter.report().await))
}
