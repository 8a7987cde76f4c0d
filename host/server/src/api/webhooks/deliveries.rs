//! The delivery log: events sent to endpoints, and their responses.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::{DeliveryId, EndpointId, EventId, MerchantId, PaymentId};
use kassette_domain::key::KeyOwner;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryAttempt, DeliveryStatus};
use kassette_gateway::Gateway;
use kassette_gateway::webhooks::DeliveryError;
use kassette_store::DeliveryFilter;
use serde_json::{Value, json};

use super::{Reach, endpoints};
use crate::web::ApiError;
use crate::web::query::{Query, page};
use crate::web::time::{INSTANT, instant};

/// A page of the deliveries that the caller may access.
pub(crate) async fn list(
    gateway: &Gateway,
    reach: Reach,
    query: Option<&str>,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query)?;
    let endpoint = query.read(
        "endpoint_id",
        |text| EndpointId::parse(text).ok(),
        "must be the id of a webhook endpoint",
    )?;
    let mut filter = match reach {
        Reach::All => of_operators(&mut query)?,
        Reach::Own(..) => DeliveryFilter::default(),
    };
    filter.endpoint = endpoint;
    match query.take("status") {
        Some(word) if word == FAILED && matches!(reach, Reach::All) => filter.failed = true,
        Some(word) => {
            let status = DeliveryStatus::parse(&word).ok_or_else(|| {
                let why = "must be \"pending\", \"delivered\", \"exhausted\" or \"cancelled\"";
                ApiError::invalid("status", why)
            })?;
            filter.status = Some(status);
        }
        None => {}
    }
    let paging = query.paging()?;
    match (reach, endpoint) {
        (Reach::All, _) => {}
        (Reach::Own(owner, environment), None) => filter.of = Some((owner, Some(environment))),
        (Reach::Own(..), Some(endpoint)) => {
            endpoints::find(gateway, reach, &endpoint.to_string()).await?;
        }
    }
    let listed = gateway.deliveries(filter, paging).await;
    page("deliveries", listed, |delivery| view(&delivery))
}

/// Value of `status` for deliveries that are exhausted, or that wait after a failed attempt.
const FAILED: &str = "failed";

/// Additional filters for operators.
fn of_operators(query: &mut Query) -> Result<DeliveryFilter, ApiError> {
    let payment = |text: &str| PaymentId::parse(text).ok();
    let event = |text: &str| EventId::parse(text).ok();
    let merchant = |text: &str| text.parse().ok().map(MerchantId);
    let payment = query.read("payment_id", payment, "must be the id of a payment")?;
    let event = query.read("event_id", event, "must be the id of an event")?;
    let merchant = query.read("merchant_id", merchant, "must be a merchant's number")?;
    Ok(DeliveryFilter {
        payment,
        event,
        of: merchant.map(|id| (KeyOwner::Merchant(id), None)),
        since: query.read("since", instant, INSTANT)?,
        until: query.read("until", instant, INSTANT)?,
        ..DeliveryFilter::default()
    })
}

/// A delivery that the caller may access; 404 for any other.
async fn find(gateway: &Gateway, reach: Reach, id: &str) -> Result<Delivery, ApiError> {
    let missing = || ApiError::from(DeliveryError::NotFound);
    let id = DeliveryId::parse(id).map_err(|_| missing())?;
    let delivery = gateway.delivery(id).await?;
    if let Reach::Own(..) = reach {
        // Only operators may see deliveries to deleted endpoints.
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

/// Sends the event of a delivery again; returns the new delivery.
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

/// A delivery as lists and payment details show it.
pub(crate) fn view(delivery: &Delivery) -> Value {
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
