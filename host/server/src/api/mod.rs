//! The public API: merchants' endpoints, providers' callbacks, and the document about them.
//!
//! All endpoints perform checks in the same order: route (404, 405), size (413), credentials (401), rate (429),
//! permission (403), Content-Type and JSON (400), fields (422), and then the gateway's. [`access`] performs all
//! checks before the JSON. A handler specifies the permission it needs by the extractor in its signature and
//! cannot be written without one.

mod access;
mod account;
mod answer;
mod cached;
mod callbacks;
mod connect;
mod details;
mod document;
mod event_list;
mod events;
mod extras;
pub(crate) mod formats;
mod limit;
mod list;
mod methods;
mod movements;
mod payments;
mod query;
mod refunds;
mod releases;
mod reseller;
mod start;
mod state;
pub(crate) mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequest as _, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::cached::Cached;
pub(crate) use self::details::DisputeBody;
pub(crate) use self::movements::MovementBody;
pub(crate) use self::payments::{PaymentBody, replayed};
pub(crate) use self::refunds::RefundBody;
pub(crate) use self::state::ApiState;
use crate::admission::AdmissionClass;
use crate::telemetry::Edge;
use crate::web::ApiError;

/// Limits in config/README.md, for the test that compares them.
#[cfg(test)]
pub(crate) mod documented_limits {
    pub(crate) use super::callbacks::RATE as PROVED;
    pub(crate) use super::limit::{
        MOST_PROVEN, PROVEN_FOR, UNPROVED_OF_ACCOUNT, UNPROVED_OF_ADDRESS,
    };
}

/// Maximum size of an API request's body (spec, "Limits").
const BODY_LIMIT: usize = 16 << 10;

/// All routes of the public listener except pages.
pub(crate) fn router(state: ApiState) -> Router {
    let edge = edge(&state);
    let (endpoints, api) = endpoints(&edge);
    let document = document::Served::new(document::complete(api), &state);
    let document = get(move |request| document.serve(request));
    unmatched(&edge)
        .merge(endpoints)
        .merge(callback_routes(&edge))
        .merge(finish(
            Router::new().route("/openapi.json", document),
            &edge,
        ))
        .with_state(state)
}

/// Only callbacks, for a separate listener.
pub(crate) fn callbacks(state: ApiState) -> Router {
    let edge = edge(&state);
    unmatched(&edge)
        .merge(callback_routes(&edge))
        .with_state(state)
}

fn callback_routes(edge: &Edge) -> Router<ApiState> {
    finish(
        callbacks::routes(),
        &edge.of_class(AdmissionClass::Callbacks),
    )
}

/// The OpenAPI document, generated from the handlers and types.
pub(crate) fn openapi() -> OpenApi {
    document::complete(endpoints(&Edge::new("public", after_panic)).1)
}

/// The documented endpoints, each with its class of requests.
fn endpoints(edge: &Edge) -> (Router<ApiState>, OpenApi) {
    let by_method = OpenApiRouter::new()
        .routes(routes!(list::list, payments::create))
        .routes(routes!(payments::read))
        .routes(routes!(details::read))
        .routes(routes!(event_list::list))
        .routes(routes!(movements::list))
        .routes(routes!(refunds::read))
        .routes(routes!(releases::latest))
        .merge(reseller::endpoints())
        .merge(account::routes());
    let modules = OpenApiRouter::new().routes(routes!(methods::list));
    let starts = OpenApiRouter::new()
        .routes(routes!(start::start))
        .routes(routes!(payments::cancel))
        .merge(reseller::starts());
    let refunds = OpenApiRouter::new()
        .routes(routes!(refunds::list, refunds::create))
        .merge(reseller::refunds());
    let exchanges = OpenApiRouter::new().routes(routes!(connect::exchange));
    let (mut router, mut api) = (Router::new(), document::frame());
    for (class, endpoints) in [
        (AdmissionClass::ByMethod, by_method),
        (AdmissionClass::Modules, modules),
        (AdmissionClass::Starts, starts),
        (AdmissionClass::StartsByMethod, refunds),
        (AdmissionClass::Exchanges, exchanges),
    ] {
        let (routes, described) = endpoints.split_for_parts();
        router = router.merge(finish(routes, &edge.of_class(class)));
        api.merge(described);
    }
    (router, api)
}

/// Adds the router's own 405 in the form of API errors, and the common layers.
fn finish(routes: Router<ApiState>, edge: &Edge) -> Router<ApiState> {
    routes
        .method_not_allowed_fallback(no_method)
        .layer(edge.clone())
}

/// Handles requests without a matching route.
fn unmatched(edge: &Edge) -> Router<ApiState> {
    Router::new().fallback(no_path).layer(edge.clone())
}

/// The router's 404. Does not read the body, but counts against the address.
async fn no_path(State(state): State<ApiState>, request: Request) -> ApiError {
    let missing = ApiError::NotFound("there is nothing at this path");
    state
        .count_address(&request.into_parts().0)
        .err()
        .unwrap_or(missing)
}

/// The router's 405, in the same way.
async fn no_method(State(state): State<ApiState>, request: Request) -> ApiError {
    let refused = state.count_address(&request.into_parts().0).err();
    refused.unwrap_or(ApiError::MethodNotAllowed)
}

/// Common parts of all responses, and admission.
fn edge(state: &ApiState) -> Edge {
    Edge::with_admission(
        Arc::clone(state.admission()),
        || ApiError::Busy.into_response(),
        "public",
        after_panic,
    )
}

/// Adds this API's limits to other routes of the public listener: admission, size, rate per address.
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

/// Response after a handler panicked; the layer logs the panic.
fn after_panic() -> Response {
    ApiError::internal("a handler panicked").into_response()
}

#[cfg(test)]
mod tests;
