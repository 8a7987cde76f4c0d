//! Versions on trial (shadow, canary, promotion), and pinned versions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use kassette_domain::audit::Audited;
use kassette_domain::candidate::{Canary, Candidate, Counted, Counts, SuccessRate};
use kassette_domain::id::{Digest, Slot};
use kassette_gateway::trials::{TrialError, rates};
use kassette_runtime::{Cause, Prepared, RollbackError, Runtime};
use serde_json::json;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use super::plugins::{blocking, find, mode, shown};
use super::replay::view;
use crate::web::ApiError;
use crate::web::json::{Fields, Value, Wrong, text};
use crate::web::path::At;
use crate::web::text::{digest_begin, whole};

/// Puts a checked version on trial.
pub(super) async fn stage(
    state: &AdminState,
    runtime: &Runtime,
    slot: &Slot,
    prepared: Prepared,
    line: Audited,
) -> Result<Json<serde_json::Value>, ApiError> {
    let digest = prepared.digest();
    let is_known = runtime.is_candidate(slot, &digest);
    // As documented, uploading the active version changes nothing.
    if prepared.changes() && !is_known {
        let line = Audited {
            before: runtime.candidate(slot).map(|before| as_json(Some(&before))),
            after: Some(json!({ "candidate": { "digest": digest.to_string() } }).to_string()),
            ..line
        };
        state.gateway.stage(prepared, line).await?;
    }
    shown(runtime, slot)
}

/// Changes or ends the trial of the version on trial.
pub(super) async fn change(
    state: &AdminState,
    runtime: &Runtime,
    slot: &Slot,
    candidate: Option<Candidate>,
    line: Audited,
) -> Result<Json<serde_json::Value>, ApiError> {
    let line = Audited {
        before: runtime.candidate(slot).map(|before| as_json(Some(&before))),
        after: Some(as_json(candidate.as_ref())),
        ..line
    };
    state.gateway.change_trial(slot, candidate, line).await?;
    shown(runtime, slot)
}

/// `POST /plugins/{slot}/promote`: activates the candidate.
pub(super) async fn promote(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let attribution = Attribution::alone(fields)?;
    let line = caller.audited_strictly(attribution, "plugin.promote", format!("plugin/{slot}"))?;
    let (checking, target) = (Arc::clone(&runtime), slot.clone());
    let prepared = blocking(move || checking.prepare_candidate(&target)).await?;
    let prepared = prepared.map_err(|error| match error {
        RollbackError::Nothing => ApiError::from(TrialError::Nothing),
        error => error.into(),
    })?;
    super::plugins::change(&state, runtime, slot, prepared, line).await
}

/// `POST /plugins/{slot}/pin`: activates a stored version, regardless of later files in the plugin folder.
pub(super) async fn pin(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let begin = fields.required("digest", text(digest_begin))?;
    let attribution = Attribution::alone(fields)?;
    let line = caller.audited_strictly(attribution, "plugin.pin", format!("plugin/{slot}"))?;
    let why = "is no version that is kept of this slot, or the beginning of more than one; upload it instead";
    let kept = runtime.kept_version(&slot, &begin);
    let digest = kept.ok_or_else(|| ApiError::invalid("digest", why))?;
    let (checking, target) = (Arc::clone(&runtime), slot.clone());
    let prepared = blocking(move || checking.prepare_kept(&target, digest, Cause::Pin)).await??;
    super::plugins::change(&state, runtime, slot, prepared, line).await
}

/// `POST /plugins/{slot}/canary`: the candidate decides a share of new payments.
pub(super) async fn canary(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<serde_json::Value>, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let digest = fields.required("digest", digest)?;
    let (steps, every) = ramp(&mut fields)?;
    let attribution = Attribution::alone(fields)?;
    let line = caller.audited_strictly(attribution, "plugin.canary", format!("plugin/{slot}"))?;
    let candidate = state.gateway.canary(&slot, digest, &steps, every)?;
    change(&state, &runtime, &slot, Some(candidate), line).await
}

/// Parses a share, or the steps of a ramp with the seconds between them.
fn ramp(fields: &mut Fields) -> Result<(Vec<u8>, u64), ApiError> {
    let percent = |value| whole(1, 100)(value).map(|percent| u8::try_from(percent).unwrap_or(100));
    let share = fields.optional("share", percent)?;
    let steps = fields.optional("steps", |value| match value {
        Value::List(steps) => steps
            .into_iter()
            .map(percent)
            .collect::<Result<Vec<_>, _>>(),
        _ => Err(Wrong::new("must be a list")),
    })?;
    let every = fields.optional("every_seconds", whole(1, u64::MAX))?;
    match (share, steps) {
        (Some(share), None) if every.is_none() => Ok((vec![share], 0)),
        (None, Some(steps)) => Ok((steps, every.unwrap_or(0))),
        _ => {
            let why = "either it, or steps with every_seconds, is required, and not both";
            Err(ApiError::invalid("share", why))
        }
    }
}

/// `GET /plugins/{slot}/diff`: differences in the candidate's decisions, and the success of its payments.
pub(super) async fn diff(
    _: Viewer,
    State(state): State<AdminState>,
    At(slot): At<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let (runtime, slot) = find(&state, &slot)?;
    let (Some(candidate), Some(active)) = (runtime.candidate(&slot), runtime.active(&slot)) else {
        return Err(TrialError::Nothing.into());
    };
    let report = state.gateway.shadow_report(&slot, &candidate);
    let counted = match candidate.canary {
        Some(_) => Some(state.gateway.counted(&slot, &candidate).await?),
        None => None,
    };
    let mut view = view(&slot, "module", (active, candidate.digest), &report.diff);
    if let Some(counted) = &counted {
        let all = Counts::total(&counted.by_share);
        view["decisions"] = all.compared.into();
        view["differing"] = all.differing.into();
    }
    view["evidence"] = counted.map(|counted| judged(&state, &counted)).into();
    view["mode"] = mode(&candidate).into();
    view["since"] = candidate.since.rfc3339().into();
    view["queued"] = report.queued.into();
    view["dropped"] = report.dropped.into();
    view["unknown"] = serde_json::Value::Null;
    Ok(Json(view))
}

/// Evidence for and against a canary.
fn judged(state: &AdminState, counted: &Counted) -> serde_json::Value {
    let limits = state.gateway.settings().trial_limits;
    let mut judged = rates(&Counts::total(&counted.by_share));
    judged["environment"] = counted.environment.as_str().into();
    for (name, rate) in [
        ("starts", SuccessRate::Starts),
        ("completions", SuccessRate::Completions),
    ] {
        // Rounded down: a value below 1 speaks for the candidate.
        let odds = rate
            .evidence(&counted.by_share, limits.margin_percent)
            .floor();
        judged[name]["evidence"] = format!("{odds:.0}").into();
    }
    judged
}

fn digest(value: Value) -> Result<Digest, Wrong> {
    let wrong = || Wrong::new("must be 64 lower-case hexadecimal characters");
    match value {
        Value::Text(text) => Digest::parse(&text).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn as_json(candidate: Option<&Candidate>) -> String {
    let candidate = candidate.map(|candidate| {
        let canary = candidate.canary.as_ref();
        json!({
            "digest": candidate.digest.to_string(),
            "share": canary.map(Canary::percent),
            "steps": canary.map_or(&[][..], Canary::ramp),
        })
    });
    json!({ "candidate": candidate }).to_string()
}
