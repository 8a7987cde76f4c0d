//! Slots, their active modules, and changes by operators.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::audit::Audited;
use kassette_domain::candidate::{Canary, Candidate};
use kassette_domain::id::{AccountId, Digest, Slot, SlotKind};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use kassette_gateway::trials::figures;
use kassette_runtime::{
    Activation, ActiveVersion, Cause, Prepared, PreviousVersion, Runtime, SlotStatus, TrialResult,
};
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use crate::web::ApiError;
use crate::web::path::At;
use crate::web::query::{Query, named};

/// `GET /plugins`: every slot for which a module was ever offered, by name.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let runtime = state.gateway.runtime();
    let slots = runtime.map(|runtime| runtime.slots()).unwrap_or_default();
    named(
        "plugins",
        &slots,
        |status| status.slot.as_str(),
        view,
        &paging,
    )
}

/// `GET /plugins/{slot}/history`: versions that became active and trials that ended, newest first.
pub(super) async fn history(
    _: Viewer,
    State(state): State<AdminState>,
    At(slot): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let (runtime, slot) = find(&state, &slot)?;
    let events = runtime.history(&slot).unwrap_or_default();
    let events: Vec<(String, Activation)> = events
        .into_iter()
        .map(|event| (event.number.to_string(), event))
        .collect();
    named(
        "history",
        &events,
        |(number, _)| number,
        |(_, event)| happened(event),
        &paging,
    )
}

/// Performs a change and appends its audit entry.
pub(super) async fn audited<T: Send + 'static, E: Send + 'static>(
    state: &AdminState,
    line: Audited,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
    why: impl FnOnce(&E) -> String,
) -> Result<T, ApiError> {
    let done = state.gateway.audited(line, work, why).await;
    done.map_err(ApiError::from)?.map_err(ApiError::conflict)
}

/// An account that uses a provider's module.
pub(super) fn account_of(state: &AdminState, slot: &Slot) -> Option<AccountId> {
    let settings = state.gateway.settings();
    let mut accounts = settings.accounts.values();
    let account =
        accounts.find(|account| slot.kind() == SlotKind::Provider && account.module == slot.name());
    account.map(|account| account.id.clone())
}

/// The current state of a slot.
pub(super) fn shown(runtime: &Runtime, slot: &Slot) -> Result<Json<Value>, ApiError> {
    let slots = runtime.slots();
    let status = slots.iter().find(|status| status.slot == *slot);
    let status = status.ok_or_else(|| ApiError::internal("a slot that was changed is gone"))?;
    Ok(Json(view(status)))
}

/// Activates a version, with an audit entry if that changes anything.
pub(super) async fn change(
    state: &AdminState,
    runtime: Arc<Runtime>,
    slot: Slot,
    prepared: Prepared,
    line: Audited,
) -> Result<Json<Value>, ApiError> {
    let version = |digest: Digest| Some(json!({ "digest": digest.to_string() }).to_string());
    let line = Audited {
        before: prepared.before().and_then(version),
        after: version(prepared.digest()),
        ..line
    };
    if state.gateway.store().shares_modules() {
        return share(state, &runtime, &slot, prepared, line).await;
    }
    state.gateway.note_figures(&slot).await;
    let now = state.gateway.clock().now();
    let changes =
        prepared.changes() || (prepared.cause() == Cause::Pin) != runtime.is_pinned(&slot);
    let changing = Arc::clone(&runtime);
    let activating = move || changing.activate(prepared, now);
    let nothing = |error: &std::io::Error| {
        let kind = error.kind();
        format!("the plugin folder cannot be written ({kind}); nothing was changed")
    };
    if changes {
        audited(state, line, activating, nothing).await?;
    } else if let Err(error) = blocking(activating).await? {
        return Err(ApiError::conflict(nothing(&error)));
    }
    shown(&runtime, &slot)
}

/// Activates a version on all nodes.
async fn share(
    state: &AdminState,
    runtime: &Runtime,
    slot: &Slot,
    prepared: Prepared,
    line: Audited,
) -> Result<Json<Value>, ApiError> {
    let digest = prepared.digest();
    let pins = prepared.cause() == Cause::Pin;
    if prepared.changes() || pins != runtime.is_pinned(slot) {
        state.gateway.share_version(prepared, line).await?;
        if runtime.active(slot) != Some(digest) {
            return Err(ApiError::conflict(
                "the other nodes serve the module; this one does not yet: its log says why",
            ));
        }
    }
    shown(runtime, slot)
}

pub(super) const UNKNOWN: ApiError = ApiError::NotFound("there is no such slot");

/// The slot in a path: a method of the specification, a slot whose module was loaded before, or a provider's
/// slot that an account uses.
pub(super) fn find(state: &AdminState, text: &str) -> Result<(Arc<Runtime>, Slot), ApiError> {
    let slot = Slot::parse(text).ok_or(UNKNOWN)?;
    let runtime = state.gateway.runtime().ok_or(UNKNOWN)?;
    let exists = match slot.kind() {
        SlotKind::Method => MethodId::parse(slot.name()).is_some_and(MethodId::is_specified),
        SlotKind::Provider => account_of(state, &slot).is_some(),
    };
    if exists || runtime.history(&slot).is_some() {
        Ok((Arc::clone(runtime), slot))
    } else {
        Err(UNKNOWN)
    }
}

/// Runs work that blocks, such as compiling or writing files, outside of the serving threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(ApiError::internal)
}

fn happened(event: &Activation) -> Value {
    json!({
        "digest": event.digest.to_string(),
        "name": event.name,
        "version": event.version,
        "cause": event.cause.as_str(),
        "at": event.at.rfc3339(),
        "trial": event.trial.as_ref().map(trial),
    })
}

fn trial(result: &TrialResult) -> Value {
    let mut trial = result.counted.as_ref().map_or_else(|| json!({}), figures);
    trial["since"] = result.since.rfc3339().into();
    trial["share"] = result.share.into();
    trial
}

pub(super) fn view(status: &SlotStatus) -> Value {
    json!({
        "slot": status.slot,
        "kind": match status.kind {
            SlotKind::Method => "method",
            SlotKind::Provider => "provider",
        },
        "state": status.state.as_str(),
        "active": status.active.as_ref().map(active),
        "serving": status.serving.map(|digest| digest.to_string()),
        "benched_until": status.quarantined_until.map(Time::rfc3339),
        "candidate": status.candidate.as_ref().map(candidate),
        "pinned": status.pinned,
        "previous": status.previous.map(previous),
        "last_error": status.last_error,
    })
}

fn active(version: &ActiveVersion) -> Value {
    json!({
        "digest": version.digest.to_string(),
        "name": version.name,
        "version": version.version,
        "wit": version.wit,
        "class": version.class.as_str(),
        "since": version.since.rfc3339(),
    })
}

/// The kind of trial of a version.
pub(super) const fn mode(candidate: &Candidate) -> &'static str {
    match candidate.canary {
        Some(_) => "canary",
        None => "shadow",
    }
}

/// The version on trial.
fn candidate(candidate: &Candidate) -> Value {
    let canary = candidate.canary.as_ref();
    json!({
        "digest": candidate.digest.to_string(),
        "mode": mode(candidate),
        "share": canary.map(Canary::percent),
        "since": candidate.since.rfc3339(),
        "steps": canary.map_or(&[][..], Canary::ramp),
        "every_seconds": canary.filter(|canary| !canary.ramp().is_empty()).map(|canary| canary.every().as_secs()),
    })
}

fn previous(version: PreviousVersion) -> Value {
    json!({ "digest": version.digest.to_string(), "since": version.since.rfc3339() })
}

#[cfg(test)]
mod tests {
    use kassette_runtime::{ModuleClass, SlotState};

    use super::*;

    #[test]
    fn a_slot_has_the_fields_that_scripts_rely_on() {
        let digest = Digest::hash(b"module");
        let since = Time::from_secs(1);
        let status = SlotStatus {
            slot: Slot::parse("method.ideal").unwrap(),
            kind: SlotKind::Method,
            state: SlotState::Serving,
            active: Some(ActiveVersion {
                digest,
                name: "iDEAL".into(),
                version: "1.0.0".into(),
                wit: "0.2.0".into(),
                class: ModuleClass::Native,
                since,
            }),
            serving: Some(digest),
            quarantined_until: None,
            previous: Some(PreviousVersion { digest, since }),
            candidate: Some(Candidate {
                digest,
                since,
                canary: Some(Canary::begin(&[5, 25], 600, [0; 16], since).unwrap()),
            }),
            pinned: true,
            last_error: Some("too large".into()),
            set_aside: false,
        };
        let digest = digest.to_string();
        let expected = json!({
            "slot": "method.ideal", "kind": "method", "state": "serving",
            "active": {
                "digest": digest, "name": "iDEAL", "version": "1.0.0", "wit": "0.2.0",
                "class": "native", "since": "1970-01-01T00:00:01.000Z",
            },
            "serving": digest, "benched_until": null,
            "candidate": {
                "digest": digest, "mode": "canary", "share": 5, "since": "1970-01-01T00:00:01.000Z",
                "steps": [25], "every_seconds": 600,
            },
            "pinned": true,
            "previous": { "digest": digest, "since": "1970-01-01T00:00:01.000Z" },
            "last_error": "too large",
        });
        assert_eq!(view(&status), expected);
    }
}
