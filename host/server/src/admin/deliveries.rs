//! The delivery log: what was sent to whom, and what came back.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryAttempt, DeliveryStatus};
use kassette_gateway::webhooks::DeliveryError;
use kassette_store::DeliveryFilter;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use super::path::At;
use super::query::{Query, page};
use crate::web::ApiError;

/// `GET /deliveries`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::of(query.as_deref())?;
    let filter = DeliveryFilter {
        endpoint: query.read(
            "endpoint_id",
            |text| EndpointId::parse(text).ok(),
            "must be the id of a webhook endpoint",
        )?,
        status: query.read(
            "status",
            DeliveryStatus::parse,
            "must be \"pending\", \"delivered\", \"exhausted\" or \"cancelled\"",
        )?,
    };
    let listed = state.gateway.deliveries(filter, query.paging()?).await;
    page("deliveries", listed, |delivery| view(&delivery))
}

/// `GET /deliveries/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::of(query.as_deref())?.finish()?;
    let found = state.gateway.delivery(delivery_id(&id)?).await;
    Ok(Json(view(&found.map_err(refused)?)))
}

/// `POST /deliveries/{id}/redeliver`: answers the new delivery.
pub(super) async fn redeliver(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let id = delivery_id(&id)?;
    let audited = caller.audited(
        Attribution::alone(fields)?,
        "delivery.redeliver",
        format!("delivery/{id}"),
    );
    let queued = state.gateway.redeliver(id, audited).await;
    let delivery = queued.map_err(refused)?;
    Ok((StatusCode::CREATED, Json(view(&delivery))).into_response())
}

fn delivery_id(text: &str) -> Result<DeliveryId, ApiError> {
    DeliveryId::parse(text).map_err(|_| refused(DeliveryError::NotFound))
}

fn refused(error: DeliveryError) -> ApiError {
    match error {
        DeliveryError::NotFound => ApiError::NotFound("delivery not found"),
        DeliveryError::EndpointDeleted => ApiError::conflict(error.to_string()),
        DeliveryError::Store(fault) => ApiError::from(fault),
    }
}

fn view(delivery: &Delivery) -> Value {
    json!({
        "id": delivery.id.to_string(),
        "event_id": delivery.event.to_string(),
        "event_type": delivery.kind,
        "endpoint_id": delivery.endpoint.to_string(),
        "payment_id": delivery.payment.to_string(),
        "status": delivery.status,
        "created_at": delivery.created_at.rfc3339(),
        "next_attempt_at": delivery.next_attempt_at.map(Time::rfc3339),
        "attempts": delivery.attempts.iter().map(attempt).collect::<Vec<_>>(),
    })
}

fn attempt(attempt: &DeliveryAttempt) -> Value {
    json!({
        "at": attempt.at.rfc3339(),
        "status": attempt.status,
        "duration_ms": attempt.duration_ms,
        "error": attempt.error,
        "response": attempt.response,
    })
}
