//! Webhook endpoints of all merchants and resellers, for operators.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use kassette_domain::id::{EndpointId, MerchantId};
use kassette_domain::key::KeyOwner;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryStatus, Endpoint};
use kassette_gateway::Gateway;
use kassette_store::{DeliveryFilter, Listed, Paging};
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::api::webhooks::Reach;
use crate::api::webhooks::endpoints::{self, find, object, shown};
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::query::{Query, named};
use crate::web::text::{switch, whole};

/// `POST /merchants/{id}/webhook-endpoints`
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let owner = KeyOwner::Merchant(super::merchants::find(&state, &id).await?.id);
    let line = caller.line(Attribution::in_body(&mut fields)?);
    let created_by = caller.creates_endpoints_as();
    endpoints::create(&state.gateway, owner, created_by, None, fields, line).await
}

/// `POST /resellers/{id}/webhook-endpoints`
pub(super) async fn create_for_reseller(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let owner = KeyOwner::Reseller(super::resellers::find(&state, &id).await?.id);
    let line = caller.line(Attribution::in_body(&mut fields)?);
    let created_by = caller.creates_endpoints_as();
    endpoints::create(&state.gateway, owner, created_by, None, fields, line).await
}

/// `GET /merchants/{id}/webhook-endpoints`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let owner = KeyOwner::Merchant(super::merchants::find(&state, &id).await?.id);
    endpoints::list(&state.gateway, owner, None, query.as_deref()).await
}

/// `GET /resellers/{id}/webhook-endpoints`
pub(super) async fn list_of_reseller(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let owner = KeyOwner::Reseller(super::resellers::find(&state, &id).await?.id);
    endpoints::list(&state.gateway, owner, None, query.as_deref()).await
}

/// `GET /webhook-endpoints`: of one merchant, or of all. With `failing=true`, endpoints whose circuits are not
/// closed on this node; otherwise, a page covers a number of merchants, and no reseller.
pub(super) async fn list_all(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let merchant = query.read(
        "merchant_id",
        |text| text.parse().ok(),
        "must be a merchant's number",
    )?;
    let failing = query.read("failing", |text| text.parse().ok(), "must be true or false")?;
    let failing: bool = failing.unwrap_or(false);
    let paging = query.paging()?;
    let gateway = &state.gateway;
    let owner = merchant.map(|id| KeyOwner::Merchant(MerchantId(id)));
    if failing {
        let mut found = Vec::new();
        for (id, _) in gateway.failing_endpoints() {
            let endpoint = gateway.store().endpoint(id).await.map_err(ApiError::from)?;
            let endpoint =
                endpoint.filter(|endpoint| owner.is_none_or(|owner| owner == endpoint.owner));
            found.extend(endpoint.map(|endpoint| (id.to_string(), endpoint)));
        }
        let mut views = Vec::new();
        for (id, endpoint) in found {
            views.push((id, with_troubles(gateway, &endpoint).await?));
        }
        return named(
            "webhook_endpoints",
            &views,
            |(id, _)| id,
            |(_, view)| view.clone(),
            &paging,
        );
    }
    let (owners, next) = match owner {
        Some(_) if paging.cursor.is_some() => return Err(ApiError::bad_cursor()),
        Some(owner) => (vec![owner], None),
        None => {
            // A merchant may have several endpoints, so the page covers fewer merchants than its limit.
            let limit = (paging.limit / Endpoint::MAX_PER_OWNER).max(1);
            let page = Paging { limit, ..paging };
            match gateway
                .store()
                .merchants(page)
                .await
                .map_err(ApiError::from)?
            {
                Listed::BadCursor => return Err(ApiError::bad_cursor()),
                Listed::Page(page) => {
                    let owners = page.items.into_iter();
                    let owners = owners.map(|merchant| KeyOwner::Merchant(merchant.id));
                    (owners.collect(), page.next)
                }
            }
        }
    };
    let mut views = Vec::new();
    for owner in owners {
        let all = Paging {
            limit: 2 * Endpoint::MAX_PER_OWNER,
            cursor: None,
        };
        let listed = gateway.endpoints(owner, None, all).await;
        if let Listed::Page(page) = listed.map_err(ApiError::from)? {
            for endpoint in &page.items {
                views.push(with_troubles(gateway, endpoint).await?);
            }
        }
    }
    Ok(Json(
        json!({ "webhook_endpoints": views, "next_cursor": next }),
    ))
}

/// Maximum number of deliveries counted per endpoint.
const COUNTED: usize = 100;

/// An endpoint with the numbers of waiting and exhausted deliveries, at most [`COUNTED`] each, and its last
/// error.
async fn with_troubles(
    gateway: &Gateway,
    endpoint: &Endpoint,
) -> Result<serde_json::Value, ApiError> {
    let listed = async |status| -> Result<Vec<Delivery>, ApiError> {
        let filter = DeliveryFilter {
            endpoint: Some(endpoint.id),
            status: Some(status),
            ..DeliveryFilter::default()
        };
        let paging = Paging {
            limit: COUNTED,
            cursor: None,
        };
        match gateway
            .deliveries(filter, paging)
            .await
            .map_err(ApiError::from)?
        {
            Listed::Page(page) => Ok(page.items),
            Listed::BadCursor => Ok(Vec::new()),
        }
    };
    let waiting = listed(DeliveryStatus::Pending).await?;
    let given_up = listed(DeliveryStatus::Exhausted).await?;
    let attempts = waiting
        .iter()
        .chain(&given_up)
        .filter_map(|delivery| delivery.attempts.last());
    let failed = attempts.filter(|attempt| attempt.error.is_some() || attempt.status.is_some());
    let last = failed.max_by_key(|attempt| attempt.at);
    let last_error = last.map(|attempt| match (&attempt.error, attempt.status) {
        (Some(error), _) => error.to_string(),
        (None, status) => format!("it answered {}", status.unwrap_or_default()),
    });
    let circuits = gateway.failing_endpoints();
    let since = circuits.iter().find(|(id, _)| *id == endpoint.id);
    let mut view = shown(gateway, endpoint).await?;
    view["failing_since"] = since
        .and_then(|(_, since)| *since)
        .map(Time::rfc3339)
        .into();
    view["last_error"] = last_error.into();
    view["waiting"] = waiting.len().into();
    view["given_up"] = given_up.len().into();
    let next = waiting
        .iter()
        .filter_map(|delivery| delivery.next_attempt_at)
        .min();
    view["next_attempt_at"] = next.map(Time::rfc3339).into();
    Ok(view)
}

/// `GET /webhook-endpoints/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    let endpoint = find(&state.gateway, Reach::All, &id).await?;
    Ok(Json(shown(&state.gateway, &endpoint).await?))
}

/// `PATCH /webhook-endpoints/{id}`
pub(super) async fn change(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let line = caller.line(Attribution::in_body(&mut fields)?);
    endpoints::change(&state.gateway, (Reach::All, &id), fields, line).await
}

/// `DELETE /webhook-endpoints/{id}`
pub(super) async fn remove(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let endpoint = find(&state.gateway, Reach::All, &id).await?;
    let line = caller.line(Attribution::alone(fields)?);
    endpoints::remove(&state.gateway, &endpoint, line).await
}

/// `POST /webhook-endpoints/{id}/test`
pub(super) async fn test(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let endpoint = find(&state.gateway, Reach::All, &id).await?;
    let line = caller.line(Attribution::alone(fields)?);
    endpoints::test(&state.gateway, &endpoint, line).await
}

/// `POST /webhook-endpoints/{id}/rotate`
pub(super) async fn rotate(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let line = caller.strict_line(Attribution::in_body(&mut fields)?)?;
    endpoints::rotate(&state.gateway, (Reach::All, &id), fields, line).await
}

/// `POST /webhook-endpoints/{id}/recover`
pub(super) async fn recover(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let line = caller.line(Attribution::in_body(&mut fields)?);
    endpoints::recover(&state.gateway, (Reach::All, &id), fields, line).await
}

/// `POST /webhook-endpoints/{id}/deliver`: makes waiting deliveries due now.
pub(super) async fn deliver(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let endpoint = find(&state.gateway, Reach::All, &id).await?;
    let attribution = Attribution::alone(fields)?;
    let audited = caller.audited(attribution, "endpoint.deliver", object(&endpoint));
    let deliveries = state.gateway.deliver_now(endpoint.id, audited).await?;
    Ok(Json(json!({ "deliveries": deliveries })))
}

/// `POST /webhook-endpoints/deliver`: the same for all endpoints of a merchant, of a reseller, or in total, in
/// parts.
pub(super) async fn deliver_waiting(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let attribution = Attribution::in_body(&mut fields)?;
    let merchant = fields.optional("merchant_id", whole(1, u64::MAX))?;
    let reseller = fields.optional("reseller_id", whole(1, u64::MAX))?;
    let all = fields.optional("all", switch)?.unwrap_or(false);
    let from = fields.optional("cursor", text(EndpointId::parse))?;
    fields.finish()?;
    let of = match (merchant, reseller, all) {
        (None, None, true) => None,
        (Some(id), None, false) => {
            let merchant = super::merchants::find(&state, &id.to_string()).await?;
            Some(KeyOwner::Merchant(merchant.id))
        }
        (None, Some(id), false) => {
            let reseller = super::resellers::find(&state, &id.to_string()).await?;
            Some(KeyOwner::Reseller(reseller.id))
        }
        (None, None, false) => {
            let why = "is missing, or \"reseller_id\", or \"all\": true";
            return Err(ApiError::invalid("merchant_id", why));
        }
        (_, _, true) => {
            let why = "must not stand beside merchant_id or reseller_id";
            return Err(ApiError::invalid("all", why));
        }
        (Some(_), Some(_), false) => {
            return Err(ApiError::invalid(
                "reseller_id",
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
