//! Webhook endpoints of the key's owner.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use kassette_domain::webhook::EndpointCreator;
use serde_json::Value;

use super::access::Manager;
use crate::api::document::{Authenticated, WithBody};
use crate::api::formats;
use crate::api::state::ApiState;
use crate::api::webhooks::endpoints::{self, find};
use crate::api::webhooks::schemas::{
    Endpoint, EndpointPatch, EndpointRotation, Endpoints, IssuedEndpoint, OwnEndpoint, Queued,
    Recovered, Recovery, RotatedEndpoint,
};
use crate::web::error::{ApiError, ErrorBody};
use crate::web::path::At;

/// Lists the webhook endpoints of the key's environment, newest first.
///
/// Includes endpoints created by an operator or a plugin. Secrets are not shown.
#[utoipa::path(
    get, path = "/api/v1/account/webhook-endpoints", tag = "Account", operation_id = "listOwnEndpoints",
    params(
        ("limit" = inline(Option<formats::Limit>), Query, description = "How many at most; 50 where it is absent."),
        ("cursor" = inline(Option<formats::Cursor>), Query, description = "`next_cursor` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of them.", body = Endpoints),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    request: Manager,
) -> Result<Json<Value>, ApiError> {
    let (owner, environment) = (request.owner, request.environment);
    let query = request.arrived.parts.uri.query();
    endpoints::list(state.gateway(), owner, Some(environment), query).await
}

/// Creates a webhook endpoint in the key's environment.
///
/// It receives events that are created from now on, signed with the secret that only this response contains.
#[utoipa::path(
    post, path = "/api/v1/account/webhook-endpoints", tag = "Account", operation_id = "createOwnEndpoint",
    request_body(content = OwnEndpoint, content_type = "application/json"),
    responses(
        (status = 201, description = "Its id and secret; the secret is shown this once.", body = IssuedEndpoint),
        (status = 409, description = "There are too many, or another with the URL; the error names it.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    request: Manager,
) -> Result<Response, ApiError> {
    let fields = request.arrived.fields()?;
    request.arrived.no_query()?;
    let (owner, own) = (request.owner, request.environment);
    let (gateway, created_by) = (state.gateway(), EndpointCreator::Key(request.key));
    let line = request.line();
    endpoints::create(gateway, owner, created_by, Some(own), fields, line).await
}

/// Shows a webhook endpoint.
///
/// Its circuit shows whether attempts are held back because the receiver failed.
#[utoipa::path(
    get, path = "/api/v1/account/webhook-endpoints/{id}", tag = "Account", operation_id = "readOwnEndpoint",
    params(("id" = inline(formats::EndpointId), Path, description = "The endpoint's id.")),
    responses(
        (status = 200, description = "The endpoint.", body = Endpoint),
        (status = 404, description = "No such endpoint of the key's owner and environment.", body = ErrorBody),
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
    let endpoint = find(state.gateway(), request.reach(), &id).await?;
    Ok(Json(endpoints::shown(state.gateway(), &endpoint).await?))
}

/// Changes a webhook endpoint.
///
/// A JSON merge patch: absent fields are unchanged. Waiting deliveries go to the new URL.
#[utoipa::path(
    patch, path = "/api/v1/account/webhook-endpoints/{id}", tag = "Account", operation_id = "changeOwnEndpoint",
    params(("id" = inline(formats::EndpointId), Path, description = "The endpoint's id.")),
    request_body(content = EndpointPatch, content_type = "application/json"),
    responses(
        (status = 200, description = "The endpoint as it is now.", body = Endpoint),
        (status = 404, description = "No such endpoint of the key's owner and environment.", body = ErrorBody),
        (status = 409, description = "Others keep changing it, or another endpoint has the URL.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn change(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<Json<Value>, ApiError> {
    let fields = request.arrived.fields()?;
    request.arrived.no_query()?;
    let of = (request.reach(), id.as_str());
    endpoints::change(state.gateway(), of, fields, request.line()).await
}

/// Deletes a webhook endpoint.
///
/// Its pending deliveries are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/account/webhook-endpoints/{id}", tag = "Account", operation_id = "deleteOwnEndpoint",
    params(("id" = inline(formats::EndpointId), Path, description = "The endpoint's id.")),
    responses(
        (status = 204, description = "It is gone."),
        (status = 404, description = "No such endpoint of the key's owner and environment.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn remove(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<StatusCode, ApiError> {
    request.arrived.no_fields()?;
    request.arrived.no_query()?;
    let endpoint = find(state.gateway(), request.reach(), &id).await?;
    endpoints::remove(state.gateway(), &endpoint, request.line()).await
}

/// Sends an event of the type `webhook.test`.
///
/// It is delivered like any other event, and is included in the list of deliveries.
#[utoipa::path(
    post, path = "/api/v1/account/webhook-endpoints/{id}/test", tag = "Account", operation_id = "testOwnEndpoint",
    params(("id" = inline(formats::EndpointId), Path, description = "The endpoint's id.")),
    responses(
        (status = 201, description = "Where its attempts are told.", body = Queued),
        (status = 404, description = "No such endpoint of the key's owner and environment.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn test(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<Response, ApiError> {
    request.arrived.no_fields()?;
    request.arrived.no_query()?;
    let endpoint = find(state.gateway(), request.reach(), &id).await?;
    endpoints::test(state.gateway(), &endpoint, request.line()).await
}

/// Rotates the secret of a webhook endpoint.
///
/// With an overlap, the old secret signs until the overlap ends, and the receiver accepts both.
#[utoipa::path(
    post, path = "/api/v1/account/webhook-endpoints/{id}/rotate", tag = "Account", operation_id = "rotateOwnEndpoint",
    params(("id" = inline(formats::EndpointId), Path, description = "The endpoint's id.")),
    request_body(content = Option<EndpointRotation>, content_type = "application/json"),
    responses(
        (status = 200, description = "The new secret, shown this once.", body = RotatedEndpoint),
        (status = 404, description = "No such endpoint of the key's owner and environment.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn rotate(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<Json<Value>, ApiError> {
    let fields = request.arrived.optional_fields()?;
    request.arrived.no_query()?;
    let of = (request.reach(), id.as_str());
    endpoints::rotate(state.gateway(), of, fields, request.line()).await
}

/// Sends events again that failed since a time.
///
/// Each exhausted delivery that was not queued again yet becomes a new one.
#[utoipa::path(
    post, path = "/api/v1/account/webhook-endpoints/{id}/recover", tag = "Account", operation_id = "recoverOwnEndpoint",
    params(("id" = inline(formats::EndpointId), Path, description = "The endpoint's id.")),
    request_body(content = Recovery, content_type = "application/json"),
    responses(
        (status = 200, description = "How many deliveries were queued.", body = Recovered),
        (status = 404, description = "No such endpoint of the key's owner and environment.", body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn recover(
    State(state): State<ApiState>,
    At(id): At<String>,
    request: Manager,
) -> Result<Json<Value>, ApiError> {
    let fields = request.arrived.fields()?;
    request.arrived.no_query()?;
    let of = (request.reach(), id.as_str());
    endpoints::recover(state.gateway(), of, fields, request.line()).await
}
