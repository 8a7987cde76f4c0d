//! The operators' work list: money that a person has to look at.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::id::WorkId;
use kassette_domain::time::Time;
use kassette_domain::work::WorkItem;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use super::payment_view;
use crate::web::ApiError;
use crate::web::path::At;
use crate::web::query::{Query, page};

/// `GET /work`: open lines, or with `done=true` all of them. Beside the first page stand the newest payments
/// in review and their count; null while those of before the start are looked for.
pub(super) async fn list(
    Viewer(caller): Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::of(query.as_deref())?;
    let all = query
        .read(
            "done",
            |text| text.parse::<bool>().ok(),
            "must be true or false",
        )?
        .unwrap_or(false);
    let paging = query.paging()?;
    let (limit, is_first) = (paging.limit, paging.cursor.is_none());
    let listed = state.gateway.store().work(!all, paging).await;
    let mut listed = page("work", listed, |item| view(&item))?;
    if is_first {
        let waiting = state.gateway.in_review(limit).await;
        let waiting = waiting.map_err(ApiError::from)?;
        listed["in_review"] = waiting.map_or(Value::Null, |(payments, count)| {
            let links = caller.follows_links();
            let shown = payments.iter();
            let shown = shown.map(|payment| payment_view::payment(&state.gateway, payment, links));
            json!({ "payments": shown.collect::<Vec<_>>(), "count": count })
        });
    }
    Ok(listed)
}

/// `POST /work/{id}/done`
pub(super) async fn done(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = WorkId::parse(&id).map_err(|_| not_found())?;
    let attribution = Attribution::alone(fields)?;
    let audited = caller.audited_strictly(attribution, "work.done", format!("work/{id}"))?;
    let now = state.gateway.clock().now();
    let done = state.gateway.store().work_done(id, audited, now).await;
    let item = done.map_err(ApiError::from)?.ok_or_else(not_found)?;
    Ok(Json(view(&item)))
}

pub(super) const fn not_found() -> ApiError {
    ApiError::NotFound("there is no such line on the work list")
}

fn view(item: &WorkItem) -> Value {
    json!({
        "id": item.id.to_string(),
        "kind": item.kind,
        "payment_id": item.payment.map(|payment| payment.to_string()),
        "attempt_id": item.attempt.to_string(),
        "provider_id": item.account,
        "amount": item.amount.to_string(),
        "currency": item.currency,
        "detail": item.detail,
        "opened_at": item.opened_at.rfc3339(),
        "done_at": item.done_at.map(Time::rfc3339),
    })
}
