//! The operators' API, on its own listener.
//!
//! Every change is audited in its own transaction. Permissions are extractor types ([`caller`]), so that a
//! handler cannot be written without its check.

mod audit;
mod body;
mod brand;
mod caller;
mod connect;
mod csv;
mod deliveries;
mod dev;
mod document;
mod domains;
mod download;
mod explain;
mod export;
mod finance;
mod find;
mod keys;
mod merchants;
mod nodes;
mod operators;
mod payment_view;
mod payments;
mod plugins;
mod policy;
mod providers;
mod rates;
mod refunds;
mod replay;
mod resellers;
mod slots;
mod status;
mod trials;
mod upkeep;
mod uploads;
mod webhooks;
mod work;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, patch, post, put};
use http::header::HOST;
use kassette_gateway::Gateway;
use tokio::sync::Semaphore;

pub(crate) use self::body::audit_text;
use self::caller::Viewer;
pub(crate) use self::operators::{NAME_TAKEN, draw as draw_operator, view as operator_view};
pub(crate) use self::upkeep::{
    altered as audit_altered, hash as audit_hash, verdict as audit_verdict,
};
use crate::simulators::DevControls;
use crate::status::{Facts, Reporter};
use crate::telemetry::Edge;
use crate::web::ApiError;

/// State shared by the handlers.
#[derive(Clone)]
pub(crate) struct AdminState {
    gateway: Gateway,
    hosts: Arc<Vec<String>>,
    controls: Option<Arc<DevControls>>,
    /// Allows one module upload at a time.
    uploads: Arc<Semaphore>,
    /// Whether `/metrics` needs no token.
    open_metrics: bool,
    reporter: Arc<Reporter>,
}

impl AdminState {
    /// `hosts` are the listener's host names; `controls` exist under `dev`.
    pub(crate) fn new(
        gateway: Gateway,
        hosts: Vec<String>,
        controls: Option<Arc<DevControls>>,
    ) -> Self {
        let facts = Arc::new(Facts::default());
        let reporter = Reporter::new(gateway.clone(), facts, crate::telemetry::version());
        Self {
            reporter: Arc::new(reporter),
            gateway,
            hosts: Arc::new(hosts),
            controls,
            uploads: Arc::new(Semaphore::new(1)),
            open_metrics: true,
        }
    }

    /// Requires an operator's token for `/metrics` if `open` is false, which is for listeners that are
    /// reachable from other machines.
    pub(crate) const fn metrics_open(mut self, open: bool) -> Self {
        self.open_metrics = open;
        self
    }

    /// Sets the reporter for the status of this process.
    pub(crate) fn reporting(mut self, reporter: Arc<Reporter>) -> Self {
        self.reporter = reporter;
        self
    }

    /// Whether a request uses one of the listener's host names.
    fn is_named(&self, request: &Request) -> bool {
        let said = request
            .headers()
            .get(HOST)
            .and_then(|value| value.to_str().ok())
            .or_else(|| request.uri().authority().map(http::uri::Authority::as_str))
            .unwrap_or_default();
        let mut hosts = self.hosts.iter();
        hosts.any(|host| host.eq_ignore_ascii_case(said))
    }
}

/// Routes under `/admin/v1`.
pub(crate) fn router(state: AdminState) -> Router {
    let routes = Router::new()
        .route("/merchants", post(merchants::create).get(merchants::list))
        .route(
            "/merchants/{id}",
            get(merchants::show).patch(merchants::change),
        )
        .route("/merchants/{id}/rates", get(merchants::show_rates))
        .route("/explain", get(explain::show))
        .route("/merchants/{id}/keys", post(keys::create).get(keys::list))
        .route("/merchants/{id}/domains", post(domains::create))
        .route(
            "/merchants/{id}/connect-codes",
            post(connect::create).get(connect::list),
        )
        .route("/merchants/{id}/domains/{domain}", delete(domains::remove))
        .route("/keys/{id}", delete(keys::revoke))
        .route("/keys/{id}/rotate", post(keys::rotate))
        .route(
            "/merchants/{id}/webhook-endpoints",
            post(webhooks::create).get(webhooks::list),
        )
        .route(
            "/webhook-endpoints/{id}",
            get(webhooks::show)
                .patch(webhooks::change)
                .delete(webhooks::remove),
        )
        .route(
            "/resellers/{id}/webhook-endpoints",
            post(webhooks::create_for_reseller).get(webhooks::list_of_reseller),
        )
        .route("/webhook-endpoints", get(webhooks::list_all))
        .route("/webhook-endpoints/{id}/test", post(webhooks::test))
        .route("/webhook-endpoints/{id}/rotate", post(webhooks::rotate))
        .route("/webhook-endpoints/{id}/recover", post(webhooks::recover))
        .route("/webhook-endpoints/{id}/deliver", post(webhooks::deliver))
        .route(
            "/webhook-endpoints/deliver",
            post(webhooks::deliver_waiting),
        )
        .route(
            "/merchants/{id}/consent-codes",
            post(resellers::issue_consent_code),
        )
        .route("/resellers", post(resellers::create).get(resellers::list))
        .route("/resellers/{id}", get(resellers::show))
        .route(
            "/resellers/{id}/keys",
            post(keys::create_for_reseller).get(keys::list_of_reseller),
        )
        .route(
            "/resellers/{id}/live-rollout",
            put(resellers::switch_live_rollout),
        )
        .route("/resellers/{id}/delegations", get(resellers::delegations))
        .route(
            "/resellers/{id}/delegations/{merchant_id}",
            put(resellers::set_delegation),
        )
        .route("/deliveries", get(deliveries::list))
        .route("/deliveries/{id}", get(deliveries::show))
        .route("/deliveries/{id}/redeliver", post(deliveries::redeliver))
        .route("/payments", get(payments::list))
        .route("/payments/export", get(export::export))
        .route("/payments/redact", post(payments::redact_address))
        .route("/payments/{id}", get(payments::show))
        .route("/payments/{id}/review", post(payments::review))
        .route("/payments/{id}/cancel", post(payments::cancel))
        .route("/payments/{id}/query", post(payments::query))
        .route("/payments/{id}/to-review", post(payments::to_review))
        .route("/payments/{id}/redact", post(payments::redact))
        .route(
            "/payments/{id}/refunds",
            post(refunds::create).get(refunds::list),
        )
        .route("/refunds/{id}/settle", post(refunds::settle))
        .route("/movements", get(finance::movements))
        .route("/finance/days", get(finance::days))
        .route("/finance/export", get(finance::export))
        .route("/finance/confirm-clock", post(finance::confirm_clock))
        .route("/corrections", post(finance::correct))
        .route("/work", get(work::list))
        .route("/work/{id}/done", post(work::done))
        .route("/work/{id}/refund", post(refunds::of_line))
        .route("/plugins", get(plugins::list))
        .route(
            "/plugins/{slot}",
            post(uploads::upload).delete(slots::remove),
        )
        .route("/plugins/{slot}/disable", post(slots::disable))
        .route("/plugins/{slot}/enable", post(slots::enable))
        .route("/plugins/{slot}/promote", post(trials::promote))
        .route("/plugins/{slot}/rollback", post(uploads::rollback))
        .route("/plugins/{slot}/canary", post(trials::canary))
        .route("/plugins/{slot}/pin", post(trials::pin))
        .route("/plugins/{slot}/diff", get(trials::diff))
        .route("/plugins/{slot}/replay", post(replay::replay))
        .route("/plugins/{slot}/history", get(plugins::history))
        .route("/providers", get(providers::list))
        .route("/providers/{id}", patch(providers::change))
        .route("/operators", post(operators::create).get(operators::list))
        .route("/operators/{id}", delete(operators::remove))
        .route("/nodes", get(nodes::list))
        .route("/rates", get(rates::list))
        .route("/rates/accept", post(rates::accept))
        .route("/status", get(status::show))
        .route("/find", get(find::find))
        .route("/audit", get(audit::list))
        .route("/audit/export", get(audit::export))
        .route("/audit/verify", get(upkeep::verify_audit))
        .route("/backup", post(upkeep::backup))
        .route("/dev/clock", post(dev::clock).get(dev::show_clock))
        .route("/dev/faults", post(dev::faults))
        .route("/dev/callbacks", post(dev::callbacks))
        .route("/dev/release", post(dev::release))
        .route("/dev/books", get(dev::books))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed);
    let document = document::route(state.controls.is_some());
    Router::new()
        .route("/openapi.json", document)
        .method_not_allowed_fallback(method_not_allowed)
        .nest("/admin/v1", routes)
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(state.clone(), known_host))
        .layer(Edge::new("admin", after_panic))
        .with_state(state)
}

/// Response after a handler panicked; the layer logs the panic.
fn after_panic() -> Response {
    ApiError::internal("a handler panicked").into_response()
}

async fn not_found() -> ApiError {
    ApiError::NotFound("there is nothing at this path")
}

async fn method_not_allowed() -> ApiError {
    ApiError::MethodNotAllowed
}

/// Accepts only the listener's own host names: a web page that resolves its own name to our address gets 421.
async fn known_host(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    if state.is_named(&request) {
        return next.run(request).await;
    }
    ApiError::UnknownHost.into_response()
}

/// Guards the listener's other routes. `/metrics` reveals business figures, so it requires one of the
/// listener's host names and, unless it is open, a viewer's token. `/livez` and `/readyz` are called by process
/// managers and load balancers under any name.
pub(crate) fn with_metrics_guarded(routes: Router, state: &AdminState) -> Router {
    let guard = middleware::from_fn_with_state(state.clone(), guard_metrics);
    routes.layer(guard).layer(Edge::new("admin", after_panic))
}

async fn guard_metrics(state: State<AdminState>, request: Request, next: Next) -> Response {
    if request.uri().path() != "/metrics" {
        return next.run(request).await;
    }
    if state.open_metrics || !state.is_named(&request) {
        return known_host(state, request, next).await;
    }
    let (mut parts, body) = request.into_parts();
    match Viewer::from_request_parts(&mut parts, &state).await {
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
