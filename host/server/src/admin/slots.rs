//! Disabling, enabling and removing slots.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::{Slot, SlotKind};
use kassette_domain::method::MethodId;
use kassette_runtime::RemoveError;
use kassette_store::SlotContent;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::Changes;
use super::plugins::{UNKNOWN, account_of, audited, find, shown, view};
use crate::web::ApiError;
use crate::web::path::At;

/// `POST /plugins/{slot}/disable`: no new payments are routed to the slot, even after a restart or with another
/// module.
pub(super) async fn disable(
    changes: Changes,
    state: State<AdminState>,
    slot: At<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    switch(changes, state, slot, body, true).await
}

/// `POST /plugins/{slot}/enable`
pub(super) async fn enable(
    changes: Changes,
    state: State<AdminState>,
    slot: At<String>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    switch(changes, state, slot, body, false).await
}

async fn switch(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    JsonBody(fields): JsonBody,
    disabled: bool,
) -> Result<Json<Value>, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let attribution = Attribution::alone(fields)?;
    let before = runtime.is_disabled(&slot);
    if before != disabled {
        let action = if disabled {
            "plugin.disable"
        } else {
            "plugin.enable"
        };
        let position = |disabled: bool| Some(json!({ "disabled": disabled }).to_string());
        let line = Audited {
            before: position(before),
            after: position(disabled),
            ..caller.audited(attribution, action, format!("plugin/{slot}"))
        };
        if state.gateway.store().shares_modules() {
            let content = SlotContent::Disabled(disabled);
            let shared = state.gateway.share_change(slot.clone(), content, line);
            shared.await.map_err(ApiError::from)?;
            return shown(&runtime, &slot);
        }
        let (switching, target) = (Arc::clone(&runtime), slot.clone());
        let switched = move || switching.set_disabled(&target, disabled);
        audited(&state, line, switched, |error| {
            let kind = error.kind();
            format!("what is kept of the slot cannot be written ({kind}); nothing was changed")
        })
        .await?;
    }
    shown(&runtime, &slot)
}

/// `DELETE /plugins/{slot}`: removes a slot that is not part of the release, if nothing uses it.
pub(super) async fn remove(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let attribution = Attribution::alone(fields)?;
    if is_brought(&slot) {
        return Err(ApiError::conflict(format!(
            "{slot} belongs to the release and cannot be removed; disable it instead"
        )));
    }
    if let Some(account) = account_of(&state, &slot) {
        return Err(ApiError::conflict(format!(
            "the account {account} names the module {}: take it out of the configuration first",
            slot.name()
        )));
    }
    let statuses = runtime.slots();
    let Some(status) = statuses.iter().find(|status| status.slot == slot) else {
        return Err(UNKNOWN);
    };
    if let Some(method) = MethodId::parse(slot.name()).filter(|_| slot.kind() == SlotKind::Method) {
        let waiting = state.gateway.payment_under_way(method).await;
        if let Some(payment) = waiting.map_err(ApiError::from)? {
            return Err(ApiError::conflict(format!(
                "the payment {payment} is under way by {method}; disable the slot, and remove it later"
            )));
        }
    }
    let line = Audited {
        before: Some(view(status).to_string()),
        ..caller.audited(attribution, "plugin.remove", format!("plugin/{slot}"))
    };
    if state.gateway.store().shares_modules() {
        let shared = state.gateway.share_change(slot, SlotContent::Removed, line);
        shared.await.map_err(ApiError::from)?;
        return Ok(StatusCode::NO_CONTENT);
    }
    let gone = runtime.check_file_gone(&slot);
    gone.map_err(|stands| ApiError::conflict(stands.to_string()))?;
    let removed = move || runtime.remove_slot(&slot);
    let nothing = |error: &RemoveError| format!("{error}; nothing was changed");
    audited(&state, line, removed, nothing).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a slot is part of every release, so that it cannot be removed.
fn is_brought(slot: &Slot) -> bool {
    match slot.kind() {
        SlotKind::Method => MethodId::parse(slot.name()).is_some_and(MethodId::is_specified),
        SlotKind::Provider => kassette_sim::modules().contains(&slot.name()),
    }
}
