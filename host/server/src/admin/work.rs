//! The operators' work list: money that requires a decision.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::id::WorkId;
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_store::{About, Listed};
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use super::payment_view;
use crate::web::ApiError;
use crate::web::path::At;
use crate::web::query::{Query, page};

/// Kind of items for payments in review.
const REVIEW: &str = "review";

/// `GET /work`: open items, or all items with `done=true`. With `reviews=true`, the first page also contains
/// the newest payments in review as items; otherwise it contains them in a separate field with their count,
/// which is null while earlier payments are still being searched after a start. A page may be shorter than its
/// limit.
pub(super) async fn list(
    Viewer(caller): Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let all = query
        .read(
            "done",
            |text| text.parse::<bool>().ok(),
            "must be true or false",
        )?
        .unwrap_or(false);
    let reviews = query
        .read(
            "reviews",
            |text| text.parse::<bool>().ok(),
            "must be true or false",
        )?
        .unwrap_or(false);
    let kind = query.read("kind", kind, "is no kind of work item")?;
    let environment = query.read(
        "environment",
        |text| crate::web::text::environment(text).ok(),
        "must be \"test\" or \"live\"",
    )?;
    let of_environment = |of| environment.is_none_or(|environment| environment == of);
    let paging = query.paging()?;
    let (limit, is_first) = (paging.limit, paging.cursor.is_none());
    let mut listed = state.gateway.store().work(!all, paging).await;
    if let Ok(Listed::Page(page)) = &mut listed {
        page.items.retain(|item| {
            let fits = kind.is_none_or(|kind| kind == Some(item.key.kind));
            fits && of_environment(item.environment)
        });
    }
    let mut listed = page("work", listed, |item| view(&item))?;
    if is_first && reviews && kind.is_none_or(|kind| kind.is_none()) {
        let waiting = state.gateway.in_review(limit).await;
        let waiting = waiting.map_err(ApiError::from)?;
        let waiting = waiting.into_iter().flat_map(|(payments, _)| payments);
        let mut items = Vec::new();
        for payment in waiting.filter(|payment| of_environment(payment.environment)) {
            items.push(review(&state, &payment).await?);
        }
        if let Some(list) = listed["work"].as_array_mut() {
            items.append(list);
            *list = items;
        }
    }
    if is_first && !reviews {
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
    ApiError::NotFound("there is no such work item")
}

/// Parses a kind in a query: `None` for reviews, which are not items of the store.
fn kind(text: &str) -> Option<Option<WorkKind>> {
    if text == REVIEW {
        return Some(None);
    }
    let mut kinds = WorkKind::ALL.into_iter();
    kinds.find(|kind| kind.as_str() == text).map(Some)
}

/// Possible actions for an item.
fn actions(item: &WorkItem) -> &'static [&'static str] {
    match item.key.kind {
        _ if item.done_at.is_some() => &[],
        WorkKind::Surplus | WorkKind::Late | WorkKind::Excess => &["refund", "done"],
        WorkKind::Refund => &["settle", "done"],
        WorkKind::Unsettled | WorkKind::Authorization => &["query", "done"],
        _ => &["done"],
    }
}

fn view(item: &WorkItem) -> Value {
    let subject = Some(&item.key.subject).filter(|subject| !subject.is_empty());
    let outcome = item.done_at.map(|_| "done");
    json!({
        "id": item.id.to_string(),
        "kind": item.key.kind,
        "subject_id": subject,
        "payment_id": item.payment.map(|payment| payment.to_string()),
        "attempt_id": item.key.attempt.to_string(),
        "merchant_id": item.merchant,
        "order_id": item.order_id,
        "environment": item.environment,
        "provider_id": item.account,
        "amount": item.amount.to_string(),
        "currency": item.currency,
        "received": item.received.to_string(),
        "detail": item.detail,
        "deadline": item.deadline.map(Time::rfc3339),
        "actions": actions(item),
        "opened_at": item.opened_at.rfc3339(),
        "done_at": item.done_at.map(Time::rfc3339),
        "outcome": outcome,
    })
}

/// A payment in review as an item.
async fn review(state: &AdminState, payment: &Payment) -> Result<Value, ApiError> {
    let about = About::Payment(payment.id);
    let aggregate = state.gateway.store().aggregate(about).await;
    let aggregate = aggregate.map_err(ApiError::from)?;
    let attempts = aggregate.as_ref().map(|found| &found.attempts[..]);
    let attempts = attempts.unwrap_or_default();
    let with_money = attempts.iter().find(|attempt| attempt.funds.is_taken());
    let attempt = with_money.or(attempts.last());
    let received = attempt.map(|attempt| attempt.funds.balance.total().received);
    let message = payment.review.map(payment_view::review_reason);
    let message = message.map(|reason| reason["message"].clone());
    Ok(json!({
        "id": payment.id.to_string(),
        "kind": REVIEW,
        "subject_id": null,
        "payment_id": payment.id.to_string(),
        "attempt_id": attempt.map(|attempt| attempt.id.to_string()),
        "merchant_id": payment.merchant,
        "order_id": payment.order_id.as_str(),
        "environment": payment.environment,
        "provider_id": attempt.map(|attempt| attempt.account.as_str()),
        "amount": payment.due.amount.to_string(),
        "currency": payment.due.currency.code(),
        "received": received.map(|received| received.to_string()),
        "detail": message.unwrap_or_else(|| "A person has to look at it.".into()),
        "deadline": attempt
            .and_then(|attempt| attempt.particulars.capture_before)
            .map(Time::rfc3339),
        "actions": ["approve", "decline", "query"],
        "opened_at": payment.created_at.rfc3339(),
        "done_at": null,
        "outcome": null,
    }))
}
