//! Calls that exist only under `dev`: the clock, and the simulators' faults, books and callbacks. 404 under
//! `serve`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, RawQuery, State};
use http::request::Parts;
use kassette_gateway::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::AdminState;
use super::body::JsonBody;
use super::caller::{Changes, Viewer};
use crate::simulators::{ControlError, DevControls, MAX_ADVANCE, Order};
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::query::Query;
use crate::web::text::whole;

/// Number of calls affected by a fault if the order does not specify it.
const ONCE: u64 = 1;

/// Access to the simulators. Rejects the request before its body is read if there are none.
pub(super) struct Controls(Arc<DevControls>);

impl FromRequestParts<AdminState> for Controls {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        let controls = state.controls.clone();
        controls
            .map(Self)
            .ok_or(ApiError::NotFound("there is nothing at this path"))
    }
}

/// `POST /dev/clock`
pub(super) async fn clock(
    _: Changes,
    Controls(controls): Controls,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let seconds = fields.required("advance_seconds", whole(0, MAX_ADVANCE.as_secs()))?;
    fields.finish()?;
    let now = controls
        .advance(&state.gateway, Duration::from_secs(seconds))
        .await
        .map_err(refused)?;
    Ok(Json(json!({ "now": now.rfc3339() })))
}

/// `GET /dev/clock`: the offset of the clock.
pub(super) async fn show_clock(
    _: Viewer,
    Controls(_): Controls,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    // In this order: the gateway's clock is never behind the machine's.
    let system = SystemClock.now();
    let now = state.gateway.clock().now();
    let offset = now.since(system).as_secs();
    Ok(Json(
        json!({ "offset_seconds": offset, "now": now.rfc3339() }),
    ))
}

/// `POST /dev/faults`
pub(super) async fn faults(
    _: Changes,
    Controls(controls): Controls,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let any = |text: &str| Ok::<_, &str>(text.to_owned());
    let provider = fields.required("provider_id", text(any))?;
    let fault = fields.required("fault", text(any))?;
    let times = fields
        .optional("times", whole(1, u64::from(u32::MAX)))?
        .unwrap_or(ONCE);
    fields.finish()?;
    let times = u32::try_from(times).unwrap_or(u32::MAX);
    let answer = json!({ "provider_id": provider, "fault": fault, "times": times });
    let order = Order::Fault {
        provider,
        fault,
        times,
    };
    controls.order(order).await.map_err(refused)?;
    Ok(Json(answer))
}

/// `POST /dev/callbacks`: sets the URL for callbacks of an account's simulator.
pub(super) async fn callbacks(
    _: Changes,
    Controls(controls): Controls,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let any = |text: &str| Ok::<_, &str>(text.to_owned());
    let provider = fields.required("provider_id", text(any))?;
    let url = fields.required("url", text(any))?;
    fields.finish()?;
    let answer = json!({ "provider_id": provider, "url": url });
    let order = Order::CallBackTo { provider, url };
    controls.order(order).await.map_err(refused)?;
    Ok(Json(answer))
}

/// `POST /dev/release`: releases all payments that an account's simulator holds for review.
pub(super) async fn release(
    _: Changes,
    Controls(controls): Controls,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let any = |text: &str| Ok::<_, &str>(text.to_owned());
    let provider = fields.required("provider_id", text(any))?;
    fields.finish()?;
    let id = provider.clone();
    let released = controls.order(Order::Release { provider }).await;
    let released = released.map_err(refused)?;
    Ok(Json(json!({ "provider_id": id, "released": released })))
}

/// Maximum number of entries per page: a response must fit into one address's share of the listener's memory.
pub(super) const MOST_ENTRIES: usize = 50_000;

/// `GET /dev/books`: all entries, or one account's in pages.
pub(super) async fn books(
    _: Viewer,
    Controls(controls): Controls,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let provider = query.take("provider_id");
    let page = |text: &str| text.parse().ok().filter(|n| (1..=MOST_ENTRIES).contains(n));
    let limit: Option<usize> = query.read("limit", page, "must be between 1 and 50000")?;
    let place = |text: &str| text.parse().ok();
    let cursor: Option<usize> = query.read("cursor", place, "is no next_cursor of this list")?;
    query.finish()?;
    if limit.is_some() && provider.is_none() {
        // Positions of one account shift when another account gets entries.
        return Err(ApiError::invalid("limit", "needs a provider_id"));
    }
    if cursor.is_some() && limit.is_none() {
        return Err(ApiError::invalid("cursor", "needs a limit"));
    }
    let order = Order::Books { provider };
    let entries = controls.order(order).await.map_err(refused)?;
    let Some(limit) = limit else {
        return Ok(Json(json!({ "entries": entries })));
    };
    let all = entries.as_array().map_or(&[][..], Vec::as_slice);
    let from = cursor.unwrap_or(0).min(all.len());
    let to = from.saturating_add(limit).min(all.len());
    let next = (to < all.len()).then(|| to.to_string());
    Ok(Json(
        json!({ "entries": all[from..to], "next_cursor": next }),
    ))
}

fn refused(error: ControlError) -> ApiError {
    match error {
        ControlError::UnknownAccount(_) => {
            ApiError::NotFound("provider_id: no such simulated account")
        }
        ControlError::UnknownFault(why) => ApiError::invalid("fault", why),
        ControlError::Times(why) => ApiError::invalid("times", why),
        ControlError::Address(why) => ApiError::invalid("url", why),
        ControlError::Failed(why) => ApiError::internal(why),
        ControlError::Store(fault) => fault.into(),
    }
}
