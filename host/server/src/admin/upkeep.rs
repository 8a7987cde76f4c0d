//! What keeps the store in order while it serves: backups, and whether the audit log is whole.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use kassette_domain::audit::{Chain, ChainBreak};
use kassette_store::Fault;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Admin, Viewer};
use crate::web::ApiError;
use crate::web::query::Query;

/// The body is the file of a backup.
const BACKUP: &str = "application/vnd.kassette.backup";

/// `POST /backup`: the store as it is at one moment. The body itself says whether it is whole.
pub(super) async fn backup(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let audited = caller.audited(
        Attribution::alone(fields)?,
        "store.backup",
        "store".to_owned(),
    );
    let store = state.gateway.store();
    let pieces = store.backup(now).await.map_err(ApiError::from)?;
    let pieces = pieces.map_err(|why| ApiError::conflict(why.to_string()))?;
    let (operator, actor) = (audited.operator.clone(), audited.actor.clone());
    match store.audit(audited, now).await {
        Ok(_) => {}
        // A full disk is what a backup to another one is needed for: the log has to do.
        Err(fault @ Fault::Unavailable(_)) => {
            tracing::warn!(%operator, %actor, %fault, "a backup is sent without a line in the audit log");
        }
        Err(fault) => return Err(ApiError::from(fault)),
    }
    let body = stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), pieces))
    });
    Ok(([(CONTENT_TYPE, BACKUP)], Body::from_stream(body)).into_response())
}

/// `GET /audit/verify`
pub(super) async fn verify_audit(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::of(query.as_deref())?.finish()?;
    let chain = state.gateway.store().verify_audit().await;
    Ok(Json(verdict(&chain.map_err(ApiError::from)?)))
}

/// What was found along the audit log.
pub(crate) fn verdict(chain: &Chain) -> Value {
    let last = chain
        .last()
        .map(|(id, hash)| json!({ "id": id, "hash": hex::encode(hash) }));
    let breaks: Vec<String> = chain.breaks().iter().map(ChainBreak::to_string).collect();
    json!({
        "whole": breaks.is_empty(),
        "last": last,
        "breaks": breaks,
        "more_breaks": chain.unnamed(),
    })
}
