//! The slots, what serves in them, and how an operator changes that.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, Request, State};
use http::header::CONTENT_ENCODING;
use kassette_domain::audit::Audited;
use kassette_domain::candidate::{Canary, Candidate};
use kassette_domain::id::{AccountId, Digest, Slot, SlotKind};
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use kassette_gateway::shared_modules::ShareError;
use kassette_runtime::{
    ActiveVersion, Cause, Event, LoadError, MAX_MODULE_BYTES, Prepared, PreviousVersion,
    RollbackError, Runtime, SlotStatus,
};
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::web::ApiError;
use crate::web::code::Code;
use crate::web::error::Reason;
use crate::web::path::At;
use crate::web::query::{Query, named};

/// `GET /plugins`: every slot that was ever offered a module, by name.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::of(query.as_deref())?.paging()?;
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

/// `GET /plugins/{slot}/history`: the versions that became active, newest first.
pub(super) async fn history(
    _: Viewer,
    State(state): State<AdminState>,
    At(slot): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::of(query.as_deref())?.paging()?;
    let (runtime, slot) = find(&state, &slot)?;
    let events = runtime.history(&slot).unwrap_or_default();
    let events: Vec<(String, Event)> = events
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

/// `POST /plugins/{slot}?mode=activate|shadow`: checks a module, and lets it serve or puts it on trial. Uploads take turns
/// in the order of their arrival, and none is read before its turn: each holds a module's bytes.
pub(super) async fn upload(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (runtime, slot) = upload_slot(&state, &slot)?;
    let mut query = Query::of(request.uri().query())?;
    let mode = query.take("mode");
    query.finish()?;
    let is_required = state.gateway.settings().is_staging_required;
    let cause = match mode.as_deref() {
        None if is_required => Cause::Candidate,
        Some("shadow") => Cause::Candidate,
        Some("activate") if is_required => return Err(ApiError::conflict(STAGING)),
        None | Some("activate") => Cause::Upload,
        _ => return Err(ApiError::invalid("mode", "must be activate or shadow")),
    };
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(CONTENT_ENCODING) {
        return Err(ApiError::Malformed(
            "Content-Encoding is not supported; send the module as it is".into(),
        ));
    }
    let turn = match Arc::clone(&state.uploads).try_acquire_owned() {
        Ok(turn) => turn,
        Err(_) => {
            metrics::counter!("kassette_uploads_waited_total").increment(1);
            let turn = Arc::clone(&state.uploads).acquire_owned().await;
            turn.map_err(ApiError::internal)?
        }
    };
    let bytes = crate::web::body::read(&parts.headers, body, MAX_MODULE_BYTES).await?;
    let (checking, target) = (Arc::clone(&runtime), slot.clone());
    // The turn goes along: it lasts as long as the bytes are held, even where the caller leaves.
    let (prepared, _turn) =
        blocking(move || (checking.prepare(&target, bytes.into(), cause), turn)).await?;
    let prepared = prepared.map_err(refused)?;
    let action = match cause {
        Cause::Candidate => "plugin.shadow",
        _ => "plugin.upload",
    };
    let line = caller.audited(Attribution::default(), action, format!("plugin/{slot}"));
    if cause == Cause::Candidate {
        return super::trials::stage(&state, &runtime, &slot, prepared, line).await;
    }
    change(&state, runtime, slot, prepared, line).await
}

/// `POST /plugins/{slot}/rollback`: the version on trial is taken away; without one, the version before serves again.
pub(super) async fn rollback(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let attribution = Attribution::alone(fields)?;
    let line = caller.audited_strictly(attribution, "plugin.rollback", format!("plugin/{slot}"))?;
    if runtime.candidate(&slot).is_some() {
        return super::trials::change(&state, &runtime, &slot, None, line).await;
    }
    if state.gateway.store().shares_modules() {
        let prepared = state.gateway.version_before(&slot).await;
        let prepared = prepared.map_err(ApiError::from)?;
        let prepared = prepared.map_err(ApiError::conflict)?;
        return change(&state, runtime, slot, prepared, line).await;
    }
    let (checking, target) = (Arc::clone(&runtime), slot.clone());
    let prepared = blocking(move || checking.prepare_rollback(&target)).await?;
    let prepared = prepared.map_err(|error| match error {
        RollbackError::Refused(error) => refused(error),
        error => ApiError::conflict(error.to_string()),
    })?;
    change(&state, runtime, slot, prepared, line).await
}

/// Does a change with its line in the audit log.
pub(super) async fn audited<T: Send + 'static, E: Send + 'static>(
    state: &AdminState,
    line: Audited,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
    why: impl FnOnce(&E) -> String,
) -> Result<T, ApiError> {
    let done = state.gateway.audited(line, work, why).await;
    done.map_err(ApiError::from)?.map_err(ApiError::conflict)
}

/// An account that names a provider's module.
pub(super) fn account_of(state: &AdminState, slot: &Slot) -> Option<AccountId> {
    let settings = state.gateway.settings();
    let mut accounts = settings.accounts.values();
    let account =
        accounts.find(|account| slot.kind() == SlotKind::Provider && account.module == slot.name());
    account.map(|account| account.id.clone())
}

/// A slot as it is now.
pub(super) fn shown(runtime: &Runtime, slot: &Slot) -> Result<Json<Value>, ApiError> {
    let slots = runtime.slots();
    let status = slots.iter().find(|status| status.slot == *slot);
    let status = status.ok_or_else(|| ApiError::internal("a slot that was changed is gone"))?;
    Ok(Json(view(status)))
}

/// Activates a version, with its line in the audit log where that changes something.
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

/// Has a version serve on all nodes.
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
        let shared = state.gateway.share_version(prepared, line).await;
        shared.map_err(not_shared)?;
        if runtime.active(slot) != Some(digest) {
            return Err(ApiError::conflict(
                "the other nodes serve the module; this one does not yet: its log says why",
            ));
        }
    }
    shown(runtime, slot)
}

pub(super) fn not_shared(error: ShareError) -> ApiError {
    match error {
        ShareError::Store(fault) => ApiError::from(fault),
        ShareError::Refused { .. } => {
            ApiError::Invalid(Reason::new(Code::ModuleRefused, error.to_string()))
        }
        error => ApiError::conflict(error.to_string()),
    }
}

const STAGING: &str =
    "plugins.uploads is shadow-first: upload the module with mode=shadow, and promote it later";

pub(super) const UNKNOWN: ApiError = ApiError::NotFound("there is no such slot");

/// The slot of a path in which a module may be put: any method's, or a provider's whose module was loaded
/// once or that an account names.
fn upload_slot(state: &AdminState, text: &str) -> Result<(Arc<Runtime>, Slot), ApiError> {
    let slot = Slot::parse(text).ok_or(UNKNOWN)?;
    match slot.kind() {
        SlotKind::Method if MethodId::parse(slot.name()).is_some() => {
            let runtime = state.gateway.runtime().ok_or(UNKNOWN)?;
            Ok((Arc::clone(runtime), slot))
        }
        SlotKind::Method => Err(UNKNOWN),
        SlotKind::Provider => find(state, text),
    }
}

/// The slot of a path: a method of the specification, a slot whose module was loaded once, or a provider's
/// that an account names.
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

/// Compiles or writes files off the threads that serve.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(ApiError::internal)
}

pub(super) fn refused(error: LoadError) -> ApiError {
    match error {
        LoadError::NoCompiler(_) => ApiError::internal(error),
        error => ApiError::Invalid(Reason::new(Code::ModuleRefused, error.to_string())),
    }
}

fn happened(event: &Event) -> Value {
    json!({
        "digest": event.digest.to_string(),
        "name": event.name,
        "version": event.version,
        "cause": event.cause.as_str(),
        "at": event.at.rfc3339(),
    })
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

/// The version on trial.
fn candidate(candidate: &Candidate) -> Value {
    let canary = candidate.canary.as_ref();
    json!({
        "digest": candidate.digest.to_string(),
        "mode": if canary.is_some() { "canary" } else { "shadow" },
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
    use kassette_runtime::{Class, SlotState};

    use super::*;

    #[test]
    fn a_slot_has_the_fields_that_scripts_rely_on() {
        let digest = Digest::of(b"module");
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
                class: Class::Native,
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
