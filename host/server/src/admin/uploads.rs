//! Uploads of modules, and rollbacks.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use http::header::CONTENT_ENCODING;
use kassette_domain::id::{Slot, SlotKind};
use kassette_domain::method::MethodId;
use kassette_runtime::{Cause, MAX_MODULE_BYTES, Runtime};
use serde_json::Value;

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::Changes;
use super::plugins::{UNKNOWN, blocking, change, find};
use crate::web::ApiError;
use crate::web::path::At;
use crate::web::query::Query;

const STAGING: &str =
    "plugins.uploads is shadow-first: upload the module with mode=shadow, and promote it later";

/// `POST /plugins/{slot}?mode=activate|shadow`: checks a module, and activates it or puts it on trial. Uploads
/// are processed in the order of arrival, and none is read before its turn, because each occupies memory for a
/// module.
pub(super) async fn upload(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (runtime, slot) = upload_slot(&state, &slot)?;
    let mut query = Query::parse(request.uri().query())?;
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
    // The turn lasts as long as the bytes are in memory, even if the caller disconnects.
    let (prepared, _turn) =
        blocking(move || (checking.prepare(&target, bytes.into(), cause), turn)).await?;
    let prepared = prepared?;
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

/// `POST /plugins/{slot}/rollback`: ends the trial if there is one; otherwise activates the previous version.
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
    let prepared = blocking(move || checking.prepare_rollback(&target)).await??;
    change(&state, runtime, slot, prepared, line).await
}

/// The slot of an upload: any method's, or a provider's whose module was loaded before or that an account uses.
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
