//! The public API: merchants' endpoints, providers' callbacks, and the document about them.
//!
//! Checks stand in one order, whatever the endpoint: route (404, 405), size (413), credentials
//! (401), rate (429), permission (403), Content-Type and JSON (400), shape (422), and only then the
//! gateway. [`access`] does everything before the JSON; a handler names the permission it needs by
//! the extractor in its signature and cannot be written without one.

mod access;
mod answer;
mod cached;
mod callbacks;
mod connect;
mod document;
mod events;
mod formats;
mod limit;
mod methods;
mod payments;
mod query;
mod releases;
mod reseller;
mod start;
mod state;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequest as _, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::payments::PaymentBody;
pub(crate) use self::state::ApiState;
use crate::telemetry::Edge;
use crate::web::ApiError;

/// Largest body of an API request (spec, "Limits").
const BODY_LIMIT: usize = 16 << 10;

/// Everything that the public listener answers, but for pages.
pub(crate) fn router(state: ApiState) -> Router {
    let (routes, api) = endpoints().split_for_parts();
    let document = document::Served::new(document::complete(api), &state);
    let routes = routes
        .merge(callbacks::routes())
        .route("/openapi.json", get(move |request| document.serve(request)));
    finish(routes, &state).with_state(state)
}

/// Only the callbacks, for a listener of their own.
pub(crate) fn callbacks(state: ApiState) -> Router {
    finish(callbacks::routes(), &state).with_state(state)
}

/// The OpenAPI document, made from the handlers and types that serve.
#[cfg(test)]
pub(crate) fn openapi() -> utoipa::openapi::OpenApi {
    document::complete(endpoints().into_openapi())
}

fn endpoints() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(document::frame())
        .routes(routes!(payments::create))
        .routes(routes!(payments::read))
        .routes(routes!(start::start))
        .routes(routes!(methods::list))
        .routes(routes!(connect::exchange))
        .routes(routes!(releases::latest))
        .merge(reseller::endpoints())
}

/// Answers of the router itself in the Error shape, and what every response has.
fn finish(routes: Router<ApiState>, state: &ApiState) -> Router<ApiState> {
    routes
        .method_not_allowed_fallback(no_method)
        .fallback(no_path)
        .layer(edge(state))
}

/// 404 of the router. Its body is not read; it counts against its address all the same.
async fn no_path(State(state): State<ApiState>, request: Request) -> ApiError {
    let missing = ApiError::NotFound("there is nothing at this path");
    state
        .count_address(&request.into_parts().0)
        .err()
        .unwrap_or(missing)
}

/// 405 of the router, likewise.
async fn no_method(State(state): State<ApiState>, request: Request) -> ApiError {
    let refused = state.count_address(&request.into_parts().0).err();
    refused.unwrap_or(ApiError::MethodNotAllowed)
}

/// What every response has, and the places for requests.
fn edge(state: &ApiState) -> Edge {
    Edge::behind(
        Arc::clone(state.admission()),
        || ApiError::Busy.into_response(),
        "public",
        after_panic,
    )
}

/// Routes of others on the public listener, with the limits of ours: places, size, rate by address.
pub(crate) fn limited(routes: Router, state: &ApiState) -> Router {
    routes
        .layer(middleware::from_fn_with_state(
            state.clone(),
            limit_anonymous,
        ))
        .layer(edge(state))
}

async fn limit_anonymous(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    match access::Anonymous::from_request(request, &state).await {
        Ok(access::Anonymous(arrived)) => next.run(arrived.into_request()).await,
        Err(refused) => refused.into_response(),
    }
}

/// The answer where a handler panicked; the layer tells the log.
fn after_panic() -> Response {
    ApiError::internal("a handler panicked").into_response()
}

#[cfg(test)]
mod tests;
