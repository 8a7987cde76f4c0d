//! Resellers: live rollout, delegations of merchants, and consent codes.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::delegation::{
    DelegatedMerchant, Delegation, DelegationDecision, DelegationStatus,
};
use kassette_domain::id::ResellerId;
use kassette_domain::reseller::Reseller;
use kassette_domain::time::Time;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Admin, Changes, Viewer};
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::text::{plain, switch};

/// Maximum length of a reseller's name in characters, because its invitations show it.
const NAME: usize = 100;

/// `POST /resellers`
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let attribution = Attribution::in_body(&mut fields)?;
    let name = fields.required("name", text(plain::<NAME>))?;
    fields.finish()?;
    let line = caller.audited(attribution, "reseller.create", "reseller".to_owned());
    let audited = Audited {
        after: Some(json!({ "name": name, "live_rollout": false }).to_string()),
        ..line
    };
    let reseller = state
        .gateway
        .store()
        .create_reseller(name, audited, now)
        .await
        .map_err(ApiError::internal)?;
    Ok((StatusCode::CREATED, Json(view(&reseller))).into_response())
}

/// `GET /resellers`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let listed = state.gateway.store().resellers(paging).await;
    page("resellers", listed, |reseller| view(&reseller))
}

/// `GET /resellers/{id}`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    Ok(Json(view(&find(&state, &id).await?)))
}

/// `PUT /resellers/{id}/live-rollout`
pub(super) async fn switch_live_rollout(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let now = state.gateway.clock().now();
    let reseller = find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let enabled = fields.required("enabled", switch)?;
    fields.finish()?;
    let object = format!("reseller/{}", reseller.id);
    let audited = caller.audited_strictly(attribution, "reseller.live_rollout", object)?;
    let switched = state
        .gateway
        .store()
        .set_live_rollout(reseller.id, enabled, audited, now)
        .await;
    let reseller = switched.map_err(ApiError::internal)?.ok_or(NOT_FOUND)?;
    Ok(Json(view(&reseller)))
}

/// `GET /resellers/{id}/delegations`
pub(super) async fn delegations(
    _: Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let now = state.gateway.clock().now();
    let reseller = find(&state, &id).await?;
    let paging = Query::parse(query.as_deref())?.paging()?;
    let store = state.gateway.store();
    let listed = store.delegated_merchants(reseller.id, paging, now).await;
    page("delegations", listed, |merchant| listed_view(&merchant))
}

/// `PUT /resellers/{id}/delegations/{merchant_id}`
pub(super) async fn set_delegation(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At((id, merchant)): At<(String, String)>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let now = state.gateway.clock().now();
    let reseller = find(&state, &id).await?;
    let merchant = super::merchants::find(&state, &merchant).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let authorized = fields.required("status", text(decided))?;
    let refunds = fields.optional("refunds", switch)?;
    fields.finish()?;
    let (decision, action) = if authorized {
        let decision = DelegationDecision::Authorize { refunds };
        (decision, "delegation.authorize")
    } else {
        (DelegationDecision::Revoke, "delegation.revoke")
    };
    let audited = caller.audited_strictly(attribution, action, String::new())?;
    let store = state.gateway.store();
    let set = store.set_delegation(reseller.id, merchant.id, decision, audited, now);
    let delegation = set.await.map_err(ApiError::internal)?;
    let delegation = delegation.ok_or(ApiError::NotFound(
        "the merchant has never authorized the reseller: there is nothing to revoke",
    ))?;
    Ok(Json(delegation_view(&delegation)))
}

/// `POST /merchants/{id}/consent-codes`
pub(super) async fn issue_consent_code(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let merchant = super::merchants::find(&state, &id).await?;
    let attribution = Attribution::alone(fields)?;
    let object = format!("merchant/{}", merchant.id);
    let audited = caller.audited(attribution, "consent_code.create", object);
    let issued = state.gateway.issue_consent_code(merchant.id, audited);
    let issued = issued.await?;
    let body = json!({
        "code": issued.code.expose(),
        "expires_at": issued.expires_at.rfc3339(),
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

const NOT_FOUND: ApiError = ApiError::NotFound("reseller not found");

/// The reseller with the number in a path.
pub(super) async fn find(state: &AdminState, id: &str) -> Result<Reseller, ApiError> {
    let Ok(number) = id.parse() else {
        return Err(NOT_FOUND);
    };
    let found = state.gateway.store().reseller(ResellerId(number)).await;
    found.map_err(ApiError::internal)?.ok_or(NOT_FOUND)
}

/// Parses an operator's decision about a delegation; the other states belong to invitations.
fn decided(text: &str) -> Result<bool, &'static str> {
    match DelegationStatus::parse(text) {
        Some(DelegationStatus::Authorized) => Ok(true),
        Some(DelegationStatus::Revoked) => Ok(false),
        _ => Err("must be \"authorized\" or \"revoked\""),
    }
}

fn view(reseller: &Reseller) -> Value {
    json!({
        "reseller_id": reseller.id,
        "name": reseller.name,
        "live_rollout": reseller.live_rollout,
        "created_at": reseller.created_at.rfc3339(),
    })
}

fn delegation_view(delegation: &Delegation) -> Value {
    json!({
        "reseller_id": delegation.reseller,
        "merchant_id": delegation.merchant,
        "status": delegation.status(),
        "authorized_at": delegation.authorized_at.rfc3339(),
        "revoked_at": delegation.revoked_at.map(Time::rfc3339),
        "refunds": delegation.refunds,
    })
}

fn listed_view(merchant: &DelegatedMerchant) -> Value {
    json!({
        "merchant_id": merchant.merchant,
        "business_name": merchant.business_name,
        "status": merchant.status,
        "authorized_at": merchant.authorized_at.map(Time::rfc3339),
        "client_ref": merchant.client_ref,
        "invitation_id": merchant.invitation.map(|id| id.to_string()),
        "refunds": merchant.refunds,
        "created_at": merchant.created_at.rfc3339(),
    })
}
