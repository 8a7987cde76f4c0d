//! API keys of merchants and resellers: issue, list, rotate, revoke.

use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::KeyId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenKind};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointCreator};
use kassette_store::{KeyIssued, Listed, Paging};
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Caller, Changes, Viewer};
use crate::web::ApiError;
use crate::web::json::{Fields, Value, Wrong, echo, text};
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::text::{environment, future, whole};

/// Maximum time for which an old key remains valid after its rotation, in hours.
pub(super) const MAX_OVERLAP: u64 = 72;

/// `POST /merchants/{id}/keys`
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    issue(&caller, &state, KeyOwner::Merchant(merchant.id), fields).await
}

/// `POST /resellers/{id}/keys`
pub(super) async fn create_for_reseller(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let reseller = super::resellers::find(&state, &id).await?;
    issue(&caller, &state, KeyOwner::Reseller(reseller.id), fields).await
}

async fn issue(
    caller: &Caller,
    state: &AdminState,
    owner: KeyOwner,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let attribution = Attribution::in_body(&mut fields)?;
    let environment = fields.required("environment", text(environment))?;
    let (known, usual) = possible(owner);
    let scopes = fields
        .optional("scopes", |value| scopes(value, known))?
        .unwrap_or_else(|| usual.to_vec());
    let expires_at = fields.optional("expires_at", text(|text| future(text, now)))?;
    fields.finish()?;
    let (key, shown) = draw(owner, environment, scopes, expires_at, now)?;
    let line = caller.audited(attribution, "key.create", format!("key/{}", key.id));
    let audited = Audited {
        after: Some(view(&key).to_string()),
        ..line
    };
    issued(
        state.gateway.store().issue_key(key, audited, now).await,
        &shown,
    )
}

/// `GET /merchants/{id}/keys`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    listed(&state, KeyOwner::Merchant(merchant.id), query.as_deref()).await
}

/// `GET /resellers/{id}/keys`
pub(super) async fn list_of_reseller(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let reseller = super::resellers::find(&state, &id).await?;
    listed(&state, KeyOwner::Reseller(reseller.id), query.as_deref()).await
}

async fn listed(
    state: &AdminState,
    owner: KeyOwner,
    query: Option<&str>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let paging = Query::parse(query)?.paging()?;
    let keys = state.gateway.store().keys(owner, paging).await;
    page("keys", keys, |key| view(&key))
}

/// `POST /keys/{id}/rotate`
pub(super) async fn rotate(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let old = find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let overlap = fields
        .optional("overlap_hours", whole(0, MAX_OVERLAP))?
        .unwrap_or(0);
    fields.finish()?;
    if !old.usable(now) {
        return Err(ApiError::conflict(
            "the key is revoked or expired; issue a new one",
        ));
    }
    let (new, shown) = draw(
        old.owner,
        old.environment,
        old.scopes.clone(),
        old.expires_at,
        now,
    )?;
    let ends = now.after(Duration::from_secs(overlap * 3600));
    let line = caller.audited(attribution, "key.rotate", format!("key/{}", old.id));
    let audited = Audited {
        before: Some(view(&old).to_string()),
        after: Some(view(&new).to_string()),
        ..line
    };
    issued(
        state
            .gateway
            .store()
            .rotate_key(old.id, new, ends, audited, now)
            .await,
        &shown,
    )
}

/// `DELETE /keys/{id}`
pub(super) async fn revoke(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let now = state.gateway.clock().now();
    let key = find(&state, &id).await?;
    let object = format!("key/{}", key.id);
    let line = caller.audited_strictly(Attribution::alone(fields)?, "key.revoke", object)?;
    let audited = Audited {
        before: Some(view(&key).to_string()),
        after: endpoints_made_by(&state, &key).await?,
        ..line
    };
    let revoked = state.gateway.store().revoke_key(key.id, audited, now).await;
    revoked
        .map_err(ApiError::from)?
        .ok_or(ApiError::NotFound("key not found"))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Endpoints that a key has created, for the audit log; revoking the key does not delete them. `None` if there
/// are none.
async fn endpoints_made_by(state: &AdminState, key: &ApiKey) -> Result<Option<String>, ApiError> {
    let paging = Paging {
        limit: Endpoint::MAX_PER_OWNER,
        cursor: None,
    };
    let (owner, environment) = (key.owner, Some(key.environment));
    let listed = state.gateway.endpoints(owner, environment, paging).await;
    let Listed::Page(page) = listed.map_err(ApiError::from)? else {
        return Ok(None);
    };
    let mut made = page.items;
    made.retain(|endpoint| endpoint.created_by == EndpointCreator::Key(key.id));
    let ids: Vec<String> = made.iter().map(|made| made.id.to_string()).collect();
    Ok((!ids.is_empty()).then(|| json!({ "endpoints_that_stay": ids }).to_string()))
}

/// Generates a key and its stored record.
fn draw(
    owner: KeyOwner,
    environment: Environment,
    scopes: Vec<Scope>,
    expires_at: Option<Time>,
    now: Time,
) -> Result<(ApiKey, Secret), ApiError> {
    let kind = match owner {
        KeyOwner::Merchant(_) => TokenKind::Merchant(environment),
        KeyOwner::Reseller(_) => TokenKind::Reseller(environment),
    };
    let shown = kind.generate(getrandom::fill).map_err(ApiError::internal)?;
    let id = KeyId::from_bytes(super::operators::random().map_err(ApiError::internal)?);
    let key = ApiKey {
        expires_at,
        ..ApiKey::new(id, &shown, owner, environment, scopes, now)
    };
    Ok((key, shown))
}

/// 201 with the key, which is never shown again.
fn issued(
    issued: Result<KeyIssued, kassette_store::Fault>,
    shown: &Secret,
) -> Result<Response, ApiError> {
    match issued.map_err(ApiError::from)? {
        KeyIssued::Done(key) => {
            let body = json!({ "key_id": key.id.to_string(), "key": shown.expose() });
            Ok((StatusCode::CREATED, Json(body)).into_response())
        }
        KeyIssued::NotLiveApproved => Err(ApiError::conflict(
            "environment: the merchant is not approved for live; approve it first",
        )),
        KeyIssued::Unknown => Err(ApiError::NotFound(
            "there is no such merchant, reseller or key any more",
        )),
    }
}

async fn find(state: &AdminState, id: &str) -> Result<ApiKey, ApiError> {
    let not_found = ApiError::NotFound("key not found");
    let Ok(id) = KeyId::parse(id) else {
        return Err(not_found);
    };
    state
        .gateway
        .store()
        .key_by_id(id)
        .await
        .map_err(ApiError::from)?
        .ok_or(not_found)
}

/// All possible scopes of a key of this owner, and the default ones.
const fn possible(owner: KeyOwner) -> (&'static [Scope], &'static [Scope]) {
    match owner {
        KeyOwner::Merchant(_) => (&Scope::MERCHANT_ALL, &Scope::MERCHANT),
        KeyOwner::Reseller(_) => (&Scope::RESELLER_ALL, &Scope::RESELLER),
    }
}

/// Parses a list of scopes among `known`: at least one, without duplicates.
pub(super) fn scopes(value: Value, known: &[Scope]) -> Result<Vec<Scope>, Wrong> {
    let Value::List(list) = value else {
        return Err(Wrong::new("must be a list of scopes"));
    };
    let mut scopes = Vec::new();
    for value in list {
        let Value::Text(name) = value else {
            return Err(Wrong::new("must be a list of scopes"));
        };
        let scope = known
            .iter()
            .copied()
            .find(|scope| scope.as_str() == name)
            .ok_or_else(|| Wrong::new(format!("{} is no scope of such a key", echo(&name))))?;
        if scopes.contains(&scope) {
            return Err(Wrong::new(format!("{name} is named twice")));
        }
        scopes.push(scope);
    }
    if scopes.is_empty() {
        return Err(Wrong::new("must name at least one scope"));
    }
    Ok(scopes)
}

/// A key for operators, without the secret.
fn view(key: &ApiKey) -> serde_json::Value {
    let time = |time: Option<Time>| time.map(Time::rfc3339);
    json!({
        "key_id": key.id.to_string(),
        "environment": key.environment,
        "scopes": key.scopes,
        "hint": format!("…{}", key.hint),
        "created_at": key.created_at.rfc3339(),
        "expires_at": time(key.expires_at),
        "revoked_at": time(key.revoked_at),
        "last_used_at": time(key.last_used_at),
    })
}
