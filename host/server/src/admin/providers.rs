//! Provider accounts: how they fare, and the operators' switch.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::audit::Audited;
use kassette_domain::id::AccountId;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::health::UnhealthyReason;
use kassette_gateway::settings::Account;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::web::ApiError;
use crate::web::path::At;
use crate::web::query::{Query, named};
use crate::web::text::switch;

/// `GET /providers`: every configured account, by id.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::of(query.as_deref())?.paging()?;
    let gateway = &state.gateway;
    // Another node may have changed them.
    gateway.switches().await?;
    let settings = gateway.settings();
    let accounts: Vec<_> = settings.accounts.values().collect();
    named(
        "providers",
        &accounts,
        |account| account.id.as_str(),
        |account| view(gateway, account),
        &paging,
    )
}

/// `PATCH /providers/{id}`: an account that is switched off gets no new attempts.
pub(super) async fn change(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    const UNKNOWN: ApiError = ApiError::NotFound("provider not found");
    let attribution = Attribution::in_body(&mut fields)?;
    let wanted = fields.optional("enabled", switch)?;
    fields.finish()?;
    let id = AccountId::parse(&id).map_err(|_| UNKNOWN)?;
    let gateway = &state.gateway;
    gateway.switches().await?;
    if let Some(wanted) = wanted {
        let line = caller.audited(attribution, "provider.change", format!("provider/{id}"));
        let position = |enabled: bool| Some(json!({ "enabled": enabled }).to_string());
        let audited = Audited {
            before: position(gateway.account_enabled(&id)),
            after: position(wanted),
            ..line
        };
        let found = gateway.set_account_enabled(&id, wanted, audited).await;
        if !found.map_err(ApiError::from)? {
            return Err(UNKNOWN);
        }
    }
    let settings = gateway.settings();
    let account = settings.accounts.get(&id).ok_or(UNKNOWN)?;
    Ok(Json(view(gateway, account)))
}

fn view(gateway: &Gateway, account: &Account) -> Value {
    let observed = gateway.account_health(&account.id);
    // Counted per thousand; shown as a share.
    let rate = observed
        .health
        .success
        .map(|thousandths| f64::from(thousandths) / 1000.0);
    let troubles = gateway.account_troubles(account, &observed);
    json!({
        "id": account.id,
        "module": account.module,
        "name": account.name,
        "environment": account.environment,
        "simulated": account.simulated,
        "enabled": gateway.account_enabled(&account.id),
        "methods": account.methods.keys().collect::<Vec<_>>(),
        "health": {
            "state": observed.health.status,
            "checked_at": observed.checked_at.map(Time::rfc3339),
            "success_rate": rate,
            "median_ms": observed.health.latency,
            "samples": observed.health.samples,
            "reason": observed.unwell.map(UnhealthyReason::as_str),
            "detail": (!troubles.is_empty()).then(|| troubles.join("; ")),
        },
    })
}
