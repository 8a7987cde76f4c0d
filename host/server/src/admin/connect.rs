//! Issuing and listing connect codes.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::connect::{ConnectCode, WebhookPath};
use kassette_domain::key::Scope;
use kassette_domain::time::Time;
use kassette_gateway::connect::NewConnectCode;
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use super::keys::scopes;
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::text::environment;

/// `POST /merchants/{id}/connect-codes`
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let environment = fields.required("environment", text(environment))?;
    let site = fields.required(
        "site_url",
        text(|url| state.gateway.shop_site(url, &WebhookPath::default())),
    )?;
    let scopes = fields
        .optional("scopes", |value| scopes(value, &Scope::MERCHANT_ALL))?
        .unwrap_or_else(|| Scope::MERCHANT.to_vec());
    fields.finish()?;
    let after = json!({
        "merchant_id": merchant.id,
        "environment": environment,
        "site_origin": site.origin(),
        "scopes": scopes,
    });
    let new = NewConnectCode {
        merchant: merchant.id,
        environment,
        site,
        scopes,
    };
    let audited = Audited {
        after: Some(after.to_string()),
        ..caller.audited(
            attribution,
            "connect-code.create",
            "connect-code".to_owned(),
        )
    };
    let issued = state.gateway.issue_connect_code(new, audited).await?;
    let body = json!({
        "connect_code_id": issued.code.id.to_string(),
        "code": issued.shown.expose(),
        "site_origin": issued.code.origin,
        "expires_at": issued.code.expires_at.rfc3339(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `GET /merchants/{id}/connect-codes`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<serde_json::Value>, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    let paging = Query::parse(query.as_deref())?.paging()?;
    let listed = state.gateway.connect_codes(merchant.id, paging).await;
    let now = state.gateway.clock().now();
    page("connect_codes", listed, |code| view(&code, now))
}

/// A code for operators, without the secret.
fn view(code: &ConnectCode, now: Time) -> serde_json::Value {
    json!({
        "connect_code_id": code.id.to_string(),
        "environment": code.environment,
        "site_origin": code.origin,
        "scopes": code.scopes,
        "state": code.state(now).as_str(),
        "created_at": code.created_at.rfc3339(),
        "expires_at": code.expires_at.rfc3339(),
        "redeemed_at": code.redeemed_at.map(Time::rfc3339),
    })
}
