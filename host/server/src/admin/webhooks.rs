//! Webhook endpoints: make, list, change, delete, and what is done with one.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::EndpointId;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointSecrets, EventFilter};
use kassette_gateway::webhooks::{EndpointError, NewEndpoint};
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody, PatchBody};
use super::caller::{Changes, Viewer};
use super::path::At;
use super::query::{Query, page};
use super::text::{past, switch, whole};
use crate::web::ApiError;
use crate::web::code::Code;
use crate::web::json::{Value, Wrong, echo, text};

/// Longest overlap of a rotation, hours.
const MAX_OVERLAP: u64 = EndpointSecrets::MAX_OVERLAP.as_secs() / 3600;
/// How often a change is tried again that met another one.
const RACES: usize = 8;

/// `POST /merchants/{id}/webhook-endpoints`
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let url = fields.required("url", text(address))?;
    let environment = fields.required("environment", text(super::keys::environment))?;
    let event_types = fields
        .optional("event_types", event_types)?
        .unwrap_or_default();
    fields.finish()?;
    let after = json!({
        "merchant_id": merchant.id,
        "url": url,
        "environment": environment,
        "event_types": event_types.types(),
    });
    let new = NewEndpoint {
        merchant: merchant.id,
        environment,
        url,
        event_types,
    };
    let audited = Audited {
        after: Some(after.to_string()),
        ..caller.audited(attribution, "endpoint.create", "endpoint".to_owned())
    };
    let issued = state.gateway.create_endpoint(new, audited).await;
    let issued = issued.map_err(refused)?;
    let body = json!({
        "id": issued.endpoint.id.to_string(),
        "secret": issued.secret.expose(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `GET /merchants/{id}/webhook-endpoints`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    let paging = Query::of(query.as_deref())?.paging()?;
    let listed = state.gateway.endpoints(merchant.id, paging).await;
    page("webhook_endpoints", listed, |endpoint| {
        shown(&state, &endpoint)
    })
}

/// `GET /webhook-endpoints/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    Query::of(query.as_deref())?.finish()?;
    Ok(Json(shown(&state, &find(&state, &id).await?)))
}

/// `PATCH /webhook-endpoints/{id}`: JSON merge patch (RFC 7396).
pub(super) async fn change(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    PatchBody { mut fields, nulls }: PatchBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let found = find(&state, &id).await?;
    if let Some(name) = ["url", "enabled"]
        .into_iter()
        .find(|name| nulls.contains(*name))
    {
        return Err(ApiError::invalid(name, "must not be null"));
    }
    let attribution = Attribution::in_body(&mut fields)?;
    let url = fields.optional("url", text(address))?;
    let wanted = fields.optional("event_types", event_types)?;
    let enabled = fields.optional("enabled", switch)?;
    fields.finish()?;
    let wanted = wanted.or_else(|| nulls.contains("event_types").then(EventFilter::default));
    let line = caller.audited(attribution, "endpoint.change", object(&found));
    let mut before = found;
    for _ in 0..RACES {
        let after = Endpoint {
            url: url.clone().unwrap_or_else(|| before.url.clone()),
            event_types: wanted.clone().unwrap_or_else(|| before.event_types.clone()),
            enabled: enabled.unwrap_or(before.enabled),
            ..before.clone()
        };
        let audited = Audited {
            before: Some(view(&before).to_string()),
            after: Some(view(&after).to_string()),
            ..line.clone()
        };
        match state.gateway.change_endpoint(before, after, audited).await {
            Ok(endpoint) => return Ok(Json(shown(&state, &endpoint))),
            Err(EndpointError::Stale) => before = find(&state, &id).await?,
            Err(error) => return Err(refused(error)),
        }
    }
    Err(refused(EndpointError::Stale))
}

/// `DELETE /webhook-endpoints/{id}`
pub(super) async fn remove(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let endpoint = find(&state, &id).await?;
    let attribution = Attribution::alone(fields)?;
    let audited = Audited {
        before: Some(view(&endpoint).to_string()),
        ..caller.audited(attribution, "endpoint.delete", object(&endpoint))
    };
    let deleted = state.gateway.delete_endpoint(endpoint.id, audited).await;
    deleted.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /webhook-endpoints/{id}/test`
pub(super) async fn test(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let endpoint = find(&state, &id).await?;
    let audited = caller.audited(
        Attribution::alone(fields)?,
        "endpoint.test",
        object(&endpoint),
    );
    let queued = state.gateway.test_endpoint(endpoint.id, audited).await;
    let delivery = queued.map_err(refused)?;
    let body = json!({ "delivery_id": delivery.id.to_string() });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `POST /webhook-endpoints/{id}/rotate`
pub(super) async fn rotate(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let endpoint = find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let hours = fields
        .optional("overlap_hours", whole(0, MAX_OVERLAP))?
        .unwrap_or(0);
    fields.finish()?;
    let audited = Audited {
        after: Some(json!({ "overlap_hours": hours }).to_string()),
        ..caller.audited(attribution, "endpoint.rotate", object(&endpoint))
    };
    let overlap = Duration::from_secs(hours * 3600);
    let rotated = state.gateway.rotate_endpoint(endpoint.id, overlap, audited);
    let rotated = rotated.await.map_err(refused)?;
    Ok(Json(json!({
        "id": rotated.endpoint.id.to_string(),
        "secret": rotated.secret.expose(),
        "active_from": rotated.active_from.rfc3339(),
    })))
}

/// `POST /webhook-endpoints/{id}/recover`
pub(super) async fn recover(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let now = state.gateway.clock().now();
    let endpoint = find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let since = fields.required("since", text(|text| past(text, now)))?;
    fields.finish()?;
    let audited = Audited {
        after: Some(json!({ "since": since.rfc3339() }).to_string()),
        ..caller.audited(attribution, "endpoint.recover", object(&endpoint))
    };
    let recovered = state.gateway.recover_endpoint(endpoint.id, since, audited);
    let deliveries = recovered.await.map_err(refused)?;
    Ok(Json(json!({ "deliveries": deliveries })))
}

/// `POST /webhook-endpoints/{id}/deliver`: what waits is due at once.
pub(super) async fn deliver(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let endpoint = find(&state, &id).await?;
    let attribution = Attribution::alone(fields)?;
    let audited = caller.audited(attribution, "endpoint.deliver", object(&endpoint));
    let made = state.gateway.deliver_now(endpoint.id, audited).await;
    let deliveries = made.map_err(refused)?;
    Ok(Json(json!({ "deliveries": deliveries })))
}

/// `POST /webhook-endpoints/deliver`: the same for a merchant's endpoints or for all, slice by slice.
pub(super) async fn deliver_waiting(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let attribution = Attribution::in_body(&mut fields)?;
    let merchant = fields.optional("merchant_id", whole(1, u64::MAX))?;
    let all = fields.optional("all", switch)?.unwrap_or(false);
    let from = fields.optional("cursor", text(EndpointId::parse))?;
    fields.finish()?;
    let of = match (merchant, all) {
        (None, true) => None,
        (Some(id), false) => Some(super::merchants::find(&state, &id.to_string()).await?.id),
        (None, false) => {
            return Err(ApiError::invalid(
                "merchant_id",
                "is missing, or \"all\": true",
            ));
        }
        (Some(_), true) => {
            return Err(ApiError::invalid(
                "all",
                "must not stand beside merchant_id",
            ));
        }
    };
    let audited = caller.audited(attribution, "endpoint.deliver", String::new());
    let made = state.gateway.deliver_waiting(of, from, &audited).await?;
    Ok(Json(json!({
        "deliveries": made.deliveries,
        "endpoints": made.endpoints,
        "disabled": made.disabled,
        "next_cursor": made.next.map(|id| id.to_string()),
    })))
}

async fn find(state: &AdminState, id: &str) -> Result<Endpoint, ApiError> {
    let id = EndpointId::parse(id).map_err(|_| refused(EndpointError::NotFound))?;
    state.gateway.endpoint(id).await.map_err(refused)
}

fn object(endpoint: &Endpoint) -> String {
    format!("endpoint/{}", endpoint.id)
}

/// An address as it was written: the gateway judges it.
fn address(text: &str) -> Result<String, Infallible> {
    Ok(text.to_owned())
}

/// Names of events: at least one, each once.
fn event_types(value: Value) -> Result<EventFilter, Wrong> {
    let not_a_list = || Wrong::new("must be a list of event types");
    let Value::List(list) = value else {
        return Err(not_a_list());
    };
    let mut types = Vec::new();
    for value in list {
        let Value::Text(name) = value else {
            return Err(not_a_list());
        };
        let event = EventType::parse(&name)
            .ok_or_else(|| Wrong::new(format!("{} is no event type", echo(&name))))?;
        if types.contains(&event) {
            return Err(Wrong::new(format!("{name} is named twice")));
        }
        types.push(event);
    }
    if types.is_empty() {
        return Err(Wrong::new(
            "must name at least one event type; leave it out for all of them",
        ));
    }
    Ok(EventFilter::only(&types))
}

fn refused(error: EndpointError) -> ApiError {
    let message = error.to_string();
    match error {
        EndpointError::NoSuchMerchant => ApiError::NotFound("merchant not found"),
        EndpointError::NotFound => ApiError::NotFound("webhook endpoint not found"),
        EndpointError::Destination(why) => ApiError::invalid("url", why),
        EndpointError::Overlap => {
            ApiError::invalid_of(Code::InvalidField, message, "overlap_hours")
        }
        EndpointError::Taken(_) => ApiError::conflict_of(Code::WebhookEndpointExists, message),
        EndpointError::TooMany | EndpointError::Stale | EndpointError::Disabled => {
            ApiError::conflict(message)
        }
        EndpointError::Random(error) => ApiError::internal(error),
        EndpointError::Store(fault) => ApiError::from(fault),
    }
}

/// An endpoint as operators see it, with what its circuit lets through at the moment.
fn shown(state: &AdminState, endpoint: &Endpoint) -> serde_json::Value {
    let mut shown = view(endpoint);
    shown["circuit"] = state.gateway.circuit(endpoint.id).as_str().into();
    shown
}

/// An endpoint as the audit log has it; never a secret.
fn view(endpoint: &Endpoint) -> serde_json::Value {
    json!({
        "id": endpoint.id.to_string(),
        "merchant_id": endpoint.merchant,
        "url": endpoint.url,
        "environment": endpoint.environment,
        "event_types": endpoint.event_types.types(),
        "enabled": endpoint.enabled,
        "created_at": Time::rfc3339(endpoint.created_at),
    })
}
