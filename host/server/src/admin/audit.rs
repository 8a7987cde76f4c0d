//! The audit log.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::audit::AuditEntry;
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use super::query::{Query, page};
use crate::web::ApiError;

/// `GET /audit`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::of(query.as_deref())?.paging()?;
    page(
        "entries",
        state.gateway.store().audit_log(paging).await,
        |entry| view(&entry),
    )
}

fn view(entry: &AuditEntry) -> Value {
    // Snapshots are kept as the text that was hashed; readers get them as JSON again.
    let snapshot = |text: &Option<String>| {
        text.as_deref()
            .map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
    };
    json!({
        "id": entry.id,
        "at": entry.at.rfc3339(),
        "operator": entry.audited.operator,
        "operator_id": entry.audited.operator_id.map(|id| id.to_string()),
        "actor": entry.audited.actor,
        "reason": entry.audited.reason,
        "action": entry.audited.action,
        "object": entry.audited.object,
        "before": snapshot(&entry.audited.before),
        "after": snapshot(&entry.audited.after),
        "prev_hash": hex::encode(entry.prev_hash),
        "hash": hex::encode(entry.hash),
    })
}
