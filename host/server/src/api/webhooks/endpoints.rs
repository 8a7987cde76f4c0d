//! Operations on webhook endpoints.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::{EndpointId, MerchantId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointCreator, EndpointSecrets, EventFilter};
use kassette_gateway::Gateway;
use kassette_gateway::webhooks::{EndpointError, NewEndpoint};
use kassette_store::{Listed, Page};
use serde_json::json;

use super::Reach;
use crate::web::ApiError;
use crate::web::json::{Fields, Value, Wrong, echo, text};
use crate::web::query::{Query, page};
use crate::web::text::{environment, past, switch, whole};

/// Maximum overlap of a rotation in hours.
const MAX_OVERLAP: u64 = EndpointSecrets::MAX_OVERLAP.as_secs() / 3600;
/// Number of retries after concurrent changes.
const RACES: usize = 8;

/// An endpoint that the caller may access; 404 for any other.
pub(crate) async fn find(gateway: &Gateway, reach: Reach, id: &str) -> Result<Endpoint, ApiError> {
    let missing = || ApiError::from(EndpointError::NotFound);
    let id = EndpointId::parse(id).map_err(|_| missing())?;
    let endpoint = gateway.endpoint(id).await?;
    if reach.covers(&endpoint) {
        Ok(endpoint)
    } else {
        Err(missing())
    }
}

/// Creates an endpoint. A caller of one environment may omit the environment, and cannot specify another.
pub(crate) async fn create(
    gateway: &Gateway,
    owner: KeyOwner,
    created_by: EndpointCreator,
    own: Option<Environment>,
    mut fields: Fields,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<Response, ApiError> {
    let url = fields.required("url", text(address))?;
    let environment = match own {
        None => fields.required("environment", text(environment))?,
        Some(own) => {
            let named = fields.optional("environment", text(environment))?;
            if named.is_some_and(|named| named != own) {
                let why = format!("must be the key's, {own}; use a key of the other environment");
                return Err(ApiError::invalid("environment", why));
            }
            own
        }
    };
    let event_types = fields
        .optional("event_types", event_types)?
        .unwrap_or_default();
    fields.finish()?;
    let (merchant, reseller) = numbers(owner);
    let after = json!({
        "merchant_id": merchant,
        "reseller_id": reseller,
        "url": url,
        "environment": environment,
        "event_types": event_types.types(),
    });
    let new = NewEndpoint {
        owner,
        environment,
        url,
        event_types,
        created_by,
    };
    let audited = Audited {
        after: Some(after.to_string()),
        ..line("endpoint.create", "endpoint".to_owned())
    };
    let issued = gateway.create_endpoint(new, audited).await?;
    let body = json!({
        "id": issued.endpoint.id.to_string(),
        "secret": issued.secret.expose(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// A page of an owner's endpoints, in one environment or in both.
pub(crate) async fn list(
    gateway: &Gateway,
    owner: KeyOwner,
    environment: Option<Environment>,
    query: Option<&str>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let paging = Query::parse(query)?.paging()?;
    let listed = gateway.endpoints(owner, environment, paging).await;
    let listed = match listed.map_err(ApiError::from)? {
        Listed::BadCursor => Listed::BadCursor,
        Listed::Page(Page { items, next }) => {
            let mut views = Vec::with_capacity(items.len());
            for endpoint in &items {
                views.push(shown(gateway, endpoint).await?);
            }
            Listed::Page(Page { items: views, next })
        }
    };
    page("webhook_endpoints", Ok(listed), |view| view)
}

/// Changes an endpoint: JSON merge patch (RFC 7396).
pub(crate) async fn change(
    gateway: &Gateway,
    (reach, id): (Reach, &str),
    mut fields: Fields,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<Json<serde_json::Value>, ApiError> {
    let nulls = fields.nulls();
    if let Some(name) = ["url", "enabled"]
        .into_iter()
        .find(|name| nulls.contains(*name))
    {
        return Err(ApiError::invalid(name, "must not be null"));
    }
    let url = fields.optional("url", text(address))?;
    let wanted = fields.optional("event_types", event_types)?;
    let enabled = fields.optional("enabled", switch)?;
    fields.finish()?;
    let wanted = wanted.or_else(|| nulls.contains("event_types").then(EventFilter::default));
    let mut before = find(gateway, reach, id).await?;
    let line = line("endpoint.change", object(&before));
    for _ in 0..RACES {
        let id = before.id;
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
        match gateway.change_endpoint(before, after, audited).await {
            Ok(endpoint) => return Ok(Json(shown(gateway, &endpoint).await?)),
            Err(EndpointError::Stale) => before = gateway.endpoint(id).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(EndpointError::Stale.into())
}

/// Deletes an endpoint.
pub(crate) async fn remove(
    gateway: &Gateway,
    endpoint: &Endpoint,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<StatusCode, ApiError> {
    let audited = Audited {
        before: Some(view(endpoint).to_string()),
        ..line("endpoint.delete", object(endpoint))
    };
    gateway.delete_endpoint(endpoint.id, audited).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Queues a `webhook.test`.
pub(crate) async fn test(
    gateway: &Gateway,
    endpoint: &Endpoint,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<Response, ApiError> {
    let audited = line("endpoint.test", object(endpoint));
    let delivery = gateway.test_endpoint(endpoint.id, audited).await?;
    let body = json!({ "delivery_id": delivery.id.to_string() });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Rotates an endpoint's secret.
pub(crate) async fn rotate(
    gateway: &Gateway,
    (reach, id): (Reach, &str),
    mut fields: Fields,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<Json<serde_json::Value>, ApiError> {
    let hours = fields
        .optional("overlap_hours", whole(0, MAX_OVERLAP))?
        .unwrap_or(0);
    fields.finish()?;
    let endpoint = find(gateway, reach, id).await?;
    let audited = Audited {
        after: Some(json!({ "overlap_hours": hours }).to_string()),
        ..line("endpoint.rotate", object(&endpoint))
    };
    let overlap = Duration::from_secs(hours * 3600);
    let rotated = gateway.rotate_endpoint(endpoint.id, overlap, audited);
    let rotated = rotated.await?;
    Ok(Json(json!({
        "id": rotated.endpoint.id.to_string(),
        "secret": rotated.secret.expose(),
        "active_from": rotated.active_from.rfc3339(),
    })))
}

/// Sends events again that failed since a time.
pub(crate) async fn recover(
    gateway: &Gateway,
    (reach, id): (Reach, &str),
    mut fields: Fields,
    line: impl FnOnce(&str, String) -> Audited,
) -> Result<Json<serde_json::Value>, ApiError> {
    let now = gateway.clock().now();
    let since = fields.required("since", text(|text| past(text, now)))?;
    fields.finish()?;
    let endpoint = find(gateway, reach, id).await?;
    let audited = Audited {
        after: Some(json!({ "since": since.rfc3339() }).to_string()),
        ..line("endpoint.recover", object(&endpoint))
    };
    let recovered = gateway.recover_endpoint(endpoint.id, since, audited);
    let deliveries = recovered.await?;
    Ok(Json(json!({ "deliveries": deliveries })))
}

pub(crate) fn object(endpoint: &Endpoint) -> String {
    format!("endpoint/{}", endpoint.id)
}

/// Accepts any text as a URL, because the gateway checks it.
fn address(text: &str) -> Result<String, Infallible> {
    Ok(text.to_owned())
}

/// Parses a list of event types: at least one, without duplicates.
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

/// An endpoint for its readers, with the current state of its circuit, and the end of a rotation in progress.
pub(crate) async fn shown(
    gateway: &Gateway,
    endpoint: &Endpoint,
) -> Result<serde_json::Value, ApiError> {
    let secrets = gateway.store().endpoint_secrets(endpoint.id).await;
    let secrets = secrets.map_err(ApiError::from)?;
    let now = gateway.clock().now();
    let changes_at = secrets.and_then(|(_, secrets)| secrets.changes_at(now));
    let mut shown = view(endpoint);
    shown["circuit"] = gateway.circuit(endpoint.id).as_str().into();
    shown["secret_changes_at"] = changes_at.map(Time::rfc3339).into();
    Ok(shown)
}

/// Numbers of the merchant or reseller that owns an endpoint.
const fn numbers(owner: KeyOwner) -> (Option<MerchantId>, Option<ResellerId>) {
    match owner {
        KeyOwner::Merchant(id) => (Some(id), None),
        KeyOwner::Reseller(id) => (None, Some(id)),
    }
}

/// An endpoint for the audit log, without secrets.
fn view(endpoint: &Endpoint) -> serde_json::Value {
    let (merchant, reseller) = numbers(endpoint.owner);
    json!({
        "id": endpoint.id.to_string(),
        "merchant_id": merchant,
        "reseller_id": reseller,
        "url": endpoint.url,
        "environment": endpoint.environment,
        "event_types": endpoint.event_types.types(),
        "enabled": endpoint.enabled,
        "created_at": Time::rfc3339(endpoint.created_at),
        "created_by": endpoint.created_by.to_string(),
    })
}
