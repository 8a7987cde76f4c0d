//! Operators and their tokens.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::OperatorId;
use kassette_domain::key::{TokenHash, TokenKind};
use kassette_domain::operator::{Operator, Role};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Admin, Viewer};
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::text::future;

/// Error for a name that is in use.
pub(crate) const NAME_TAKEN: &str =
    "name: another operator has it; choose another one, or remove that operator first";

/// `POST /operators`
pub(super) async fn create(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let attribution = Attribution::in_body(&mut fields)?;
    let name = fields.required("name", text(Operator::read_name))?;
    let role = fields.required("role", text(role))?;
    let expires_at = fields.optional("expires_at", text(|text| future(text, now)))?;
    fields.finish()?;
    let (operator, token) = draw(name, role, expires_at, now).map_err(ApiError::internal)?;
    let line = caller.audited(
        attribution,
        "operator.create",
        format!("operator/{}", operator.id),
    );
    let audited = Audited {
        after: Some(view(&operator).to_string()),
        ..line
    };
    let created = state
        .gateway
        .store()
        .create_operator(operator, audited, now);
    let operator = created.await.map_err(ApiError::from)?;
    let operator = operator.ok_or_else(|| ApiError::conflict(NAME_TAKEN))?;
    let body = json!({ "operator_id": operator.id.to_string(), "token": token.expose() });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `GET /operators`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    page(
        "operators",
        state.gateway.store().operators(paging).await,
        |operator| view(&operator),
    )
}

/// `DELETE /operators/{id}`
pub(super) async fn remove(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let now = state.gateway.clock().now();
    let not_found = || ApiError::NotFound("operator not found");
    let id = OperatorId::parse(&id).map_err(|_| not_found())?;
    let audited = caller.audited(
        Attribution::alone(fields)?,
        "operator.delete",
        format!("operator/{id}"),
    );
    let removed = state
        .gateway
        .store()
        .remove_operator(id, audited, now)
        .await;
    removed.map_err(ApiError::from)?.ok_or_else(not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Generates an operator and its token.
///
/// # Errors
/// If the operating system provides no random bytes.
pub(crate) fn draw(
    name: String,
    role: Role,
    expires_at: Option<Time>,
    now: Time,
) -> Result<(Operator, Secret), getrandom::Error> {
    let token = TokenKind::Operator.generate(getrandom::fill)?;
    let hash = TokenHash::hash(token.expose());
    let id = OperatorId::from_bytes(random()?);
    Ok((
        Operator {
            id,
            name,
            role,
            hash,
            created_at: now,
            expires_at,
        },
        token,
    ))
}

/// Sixteen random bytes for an id.
pub(super) fn random() -> Result<[u8; 16], getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn role(text: &str) -> Result<Role, &'static str> {
    match text {
        "viewer" => Ok(Role::Viewer),
        "operator" => Ok(Role::Operator),
        "admin" => Ok(Role::Admin),
        _ => Err("must be \"viewer\", \"operator\" or \"admin\""),
    }
}

/// An operator without its token.
pub(crate) fn view(operator: &Operator) -> serde_json::Value {
    json!({
        "operator_id": operator.id.to_string(),
        "name": operator.name,
        "role": operator.role,
        "created_at": operator.created_at.rfc3339(),
        "expires_at": operator.expires_at.map(Time::rfc3339),
    })
}
