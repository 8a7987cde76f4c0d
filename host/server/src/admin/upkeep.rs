//! Maintenance of the store while it serves: backups, and verification of the audit log.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use kassette_domain::audit::{Chain, ChainBreak};
use kassette_store::{Fault, Listed, Paging, Store};
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Admin, Viewer};
use crate::web::ApiError;
use crate::web::query::Query;

/// Media type of a backup file.
const BACKUP: &str = "application/vnd.kassette.backup";

/// `POST /backup`: a snapshot of the store. The body itself shows whether it is complete.
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
        // A backup to another disk may be needed because this one is full; then only the program's log records
        // it.
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
    let mut query = Query::parse(query.as_deref())?;
    let entry = query.read(
        "entry",
        |text| text.parse::<u64>().ok(),
        "must be an entry's id",
    )?;
    let hash = query.read(
        "hash",
        hash,
        "must be the 64 hexadecimal digits of an entry's hash",
    )?;
    query.finish()?;
    let expected = match (entry, hash) {
        (Some(entry), Some(hash)) => Some((entry, hash)),
        (None, None) => None,
        (Some(_), None) => return Err(ApiError::invalid("hash", "is required with entry")),
        (None, Some(_)) => return Err(ApiError::invalid("entry", "is required with hash")),
    };
    let store = state.gateway.store();
    let chain = store.verify_audit().await.map_err(ApiError::from)?;
    let altered = match expected {
        Some((entry, expected)) => altered(&**store, entry, expected).await?,
        None => None,
    };
    Ok(Json(verdict(&chain, altered)))
}

/// Parses a hash in the form of lists and verdicts.
pub(crate) fn hash(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

/// Reason why an entry does not have the hash that was recorded earlier; `None` if it has. Reads the log from
/// the newest entry back to this one.
pub(crate) async fn altered(
    store: &dyn Store,
    entry: u64,
    expected: [u8; 32],
) -> Result<Option<String>, Fault> {
    let mut cursor = None;
    loop {
        let paging = Paging { limit: 100, cursor };
        let Listed::Page(page) = store.audit_log(paging).await? else {
            break;
        };
        if let Some(found) = page.items.iter().find(|found| found.id == entry) {
            let is_same = found.hash == expected;
            return Ok((!is_same)
                .then(|| format!("entry {entry} has another hash: the log was rewritten")));
        }
        let is_past = page.items.last().is_some_and(|last| last.id < entry);
        cursor = page.next;
        if cursor.is_none() || is_past {
            break;
        }
    }
    Ok(Some(format!("there is no entry {entry}")))
}

/// JSON of the result of verifying the audit log.
pub(crate) fn verdict(chain: &Chain, altered: Option<String>) -> Value {
    let head = chain
        .last()
        .map(|(id, hash)| json!({ "id": id, "hash": hex::encode(hash) }));
    let mut breaks: Vec<String> = chain.breaks().iter().map(ChainBreak::to_string).collect();
    breaks.extend(altered);
    json!({
        "verified": breaks.is_empty(),
        "entries": chain.last().map_or(0, |last| last.0),
        "head": head,
        "breaks": breaks,
        "more_breaks": chain.unnamed(),
    })
}
