//! The delivery log: what was sent to whom, and what came back.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryAttempt, DeliveryStatus};
use kassette_gateway::Gateway;
use kassette_gateway::webhooks::DeliveryError;
use kassette_store::DeliveryFilter;
use serde_json::{Value, json};

use super::{Reach, endpoints};
use crate::web::ApiError;
use crate::web::query::{Query, page};

/// A page of the deliveries that the caller reaches.
pub(crate) async fn list(
    gateway: &Gateway,
    reach: Reach,
    query: Option<&str>,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::of(query)?;
    let endpoint = query.read(
        "endpoint_id",
        |text| EndpointId::parse(text).ok(),
        "must be the id of a webhook endpoint",
    )?;
    let status = query.read(
        "status",
        DeliveryStatus::parse,
        "must be \"pending\", \"delivered\", \"exhausted\" or \"cancelled\"",
    )?;
    let paging = query.paging()?;
    let of = match (reach, endpoint) {
        (Reach::All, _) => None,
        (Reach::Own(owner, environment), None) => Some((owner, environment)),
        (Reach::Own(..), Some(endpoint)) => {
            endpoints::find(gateway, reach, &endpoint.to_string()).await?;
            None
        }
    };
    let filter = DeliveryFilter {
        endpoint,
        of,
        status,
    };
    let listed = gateway.deliveries(filter, paging).await;
    page("deliveries", listed, |delivery| view(&delivery))
}

/// A delivery that the caller reaches; 404 for any other.
async fn find(gateway: &Gateway, reach: Reach, id: &str) -> Result<Delivery, ApiError> {
    let missing = || ApiError::from(DeliveryError::NotFound);
    let id = DeliveryId::parse(id).map_err(|_| missing())?;
    let delivery = gateway.delivery(id).await?;
    if let Reach::Own(..) = reach {
        // What was sent to an endpoint that is gone is the operators' to see.
        let endpoint = delivery.endpoint.to_string();
        let found = endpoints::find(gateway, reach, &endpoint).await;
        found.map_err(|error| match error {
            ApiError::NotFound(_) => missing(),
            other => other,
        })?;
    }
    Ok(delivery)
}

/// A delivery with its attempts.
pub(crate) async fn show(
    gateway: &Gateway,
    reach: Reach,
    id: &str,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(view(&find(gateway, reach, id).await?)))
}

/// Sends the event of a delivery again; answers the new delivery.
pub(crate) async fn redeliver(
    gateway: &Gateway,
    reach: Reach,
    id: &str,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<Response, ApiError> {
    let id = find(gateway, reach, id).await?.id;
    let audited = line("delivery.redeliver", format!("delivery/{id}"));
    let delivery = gateway.redeliver(id, audited).await?;
    Ok((StatusCode::CREATED, Json(view(&delivery))).into_response())
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
