//! Provider accounts: their health, and the operators' switch.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::audit::{AuditEntry, Audited};
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::routing::Availability;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::health::UnhealthyReason;
use kassette_gateway::settings::Account;
use kassette_store::{Fault, Listed, Paging};
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::web::ApiError;
use crate::web::json::{Value as Field, Wrong};
use crate::web::path::At;
use crate::web::query::{Query, named};

/// Number of audit entries fetched at once, and at most, to find out who disabled an account.
const AUDIT_BATCH: usize = 100;
const AUDIT_MOST: usize = 10_000;

/// `GET /providers`: every configured account, by id.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let gateway = &state.gateway;
    let settings = gateway.settings();
    let accounts: Vec<_> = settings.accounts.values().collect();
    let switched = switched_off(gateway).await?;
    named(
        "providers",
        &accounts,
        |account| account.id.as_str(),
        |account| view(gateway, account, &switched),
        &paging,
    )
}

/// `PATCH /providers/{id}`: `false` disables the account for new attempts; `true` and `"file"` remove the
/// switch, so that the account's file decides.
pub(super) async fn change(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    const UNKNOWN: ApiError = ApiError::NotFound("provider not found");
    let attribution = Attribution::in_body(&mut fields)?;
    let wanted = fields.optional("enabled", switch_or_file)?;
    fields.finish()?;
    let id = AccountId::parse(&id).map_err(|_| UNKNOWN)?;
    let gateway = &state.gateway;
    let settings = gateway.settings();
    let account = settings.accounts.get(&id).ok_or(UNKNOWN)?;
    if let Some(wanted) = wanted {
        let was_off = gateway.switches().await?.is_off(&id);
        let (action, object) = ("provider.change", format!("provider/{id}"));
        let line = match account.environment {
            Environment::Live => caller.audited_strictly(attribution, action, object)?,
            Environment::Test => caller.audited(attribution, action, object),
        };
        let position = |enabled: bool| Some(json!({ "enabled": enabled }).to_string());
        let audited = Audited {
            before: position(!was_off),
            after: position(wanted),
            ..line
        };
        let found = gateway.set_account_enabled(&id, wanted, audited).await;
        if !found.map_err(ApiError::from)? {
            return Err(UNKNOWN);
        }
    }
    let switched = switched_off(gateway).await?;
    Ok(Json(view(gateway, account, &switched)))
}

/// Parses `true`, `false`, or `"file"`, which equals `true`, because the switch can only disable.
fn switch_or_file(value: Field) -> Result<bool, Wrong> {
    match value {
        Field::Bool(on) => Ok(on),
        Field::Text(text) if text == "file" => Ok(true),
        _ => Err(Wrong::new("must be true, false or \"file\"")),
    }
}

/// Disabled accounts, each with the audit entry of the change if it is among the newest [`AUDIT_MOST`].
type SwitchedOff = BTreeMap<AccountId, Option<AuditEntry>>;

async fn switched_off(gateway: &Gateway) -> Result<SwitchedOff, Fault> {
    // Another node may have changed the switches.
    let switches = gateway.switches().await?;
    let settings = gateway.settings();
    let off = settings.accounts.keys().filter(|id| switches.is_off(id));
    let mut off: SwitchedOff = off.map(|id| (id.clone(), None)).collect();
    let (mut open, mut looked, mut cursor) = (off.len(), 0, None);
    while open > 0 && looked < AUDIT_MOST {
        let paging = Paging {
            limit: AUDIT_BATCH,
            cursor,
        };
        let Listed::Page(page) = gateway.store().audit_log(paging).await? else {
            break;
        };
        looked += page.items.len();
        for entry in page.items {
            let id = entry.audited.object.strip_prefix("provider/");
            let id = id.and_then(|id| AccountId::parse(id).ok());
            if let Some(found @ None) = id.and_then(|id| off.get_mut(&id)) {
                *found = Some(entry);
                open -= 1;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(off)
}

fn view(gateway: &Gateway, account: &Account, switched: &SwitchedOff) -> Value {
    let observed = gateway.account_health(&account.id);
    // Stored in thousandths; shown as a fraction.
    let rate = observed
        .health
        .success
        .map(|thousandths| f64::from(thousandths) / 1000.0);
    let troubles = gateway.account_troubles(account, &observed);
    let switch = switched.get(&account.id);
    let entry = switch.and_then(Option::as_ref);
    json!({
        "id": account.id,
        "module": account.module,
        "name": account.name,
        "environment": account.environment,
        "simulated": account.simulated,
        "enabled": account.enabled && switch.is_none(),
        "enabled_by": if switch.is_some() { "switch" } else { "file" },
        "file_enabled": account.enabled,
        "switch": switch.map(|_| json!({
            "at": entry.map(|entry| entry.at.rfc3339()),
            "operator": entry.map(|entry| &entry.audited.operator),
            "reason": entry.and_then(|entry| entry.audited.reason.as_ref()),
        })),
        "methods": account.methods.keys().collect::<Vec<_>>(),
        "health": {
            "state": state_word(observed.health.status),
            "since": observed.since.map(Time::rfc3339),
            "checked_at": observed.checked_at.map(Time::rfc3339),
            "success_rate": rate,
            "median_ms": observed.health.latency,
            "samples": observed.health.samples,
            "cause": observed.unwell.map(UnhealthyReason::as_str),
            "reason": (!troubles.is_empty()).then(|| troubles.join("; ")),
        },
    })
}

/// The health of an account as one of three states: an account without recent data counts as down.
pub(super) const fn state_word(status: Availability) -> &'static str {
    match status {
        Availability::Stale => Availability::Down.as_str(),
        known => known.as_str(),
    }
}
