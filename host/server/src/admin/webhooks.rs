//! Webhook endpoints, as operators manage those of every merchant and reseller.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use kassette_domain::id::EndpointId;
use kassette_domain::key::KeyOwner;
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::api::webhooks::Reach;
use crate::api::webhooks::endpoints::{self, find, object, shown};
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::query::Query;
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
    endpoints::create(&state.gateway, owner, None, fields, line).await
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
    endpoints::create(&state.gateway, owner, None, fields, line).await
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

/// `GET /webhook-endpoints/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    Query::of(query.as_deref())?.finish()?;
    let endpoint = find(&state.gateway, Reach::All, &id).await?;
    Ok(Json(shown(&state.gateway, &endpoint)))
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
    let line = caller.line(Attribution::in_body(&mut fields)?);
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

/// `POST /webhook-endpoints/{id}/deliver`: what waits is due at once.
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

/// `POST /webhook-endpoints/deliver`: the same for the endpoints of a merchant or a reseller, or for all, slice by
/// slice.
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
