//! Logs, metrics, health: what operators see of a running server.
//!
//! Lines and labels carry the route's template, never a path (it may hold a token), a query, a
//! header's value or a body.

mod edge;
mod health;
mod logs;
mod prometheus;
mod requests;

use std::sync::Arc;

use axum::Router;
use kassette_gateway::Gateway;
use tokio_util::sync::CancellationToken;

pub(crate) use self::edge::Edge;
#[cfg(test)]
pub(crate) use self::logs::Log;
pub(crate) use self::logs::LogFormat;
use self::prometheus::Metrics;
#[cfg(test)]
pub(crate) use self::prometheus::for_tests;

/// Starts to log and to measure for the whole process; call it before anything else.
///
/// A filter that makes no sense is said and replaced by `info`: a server must not stay down for
/// the sake of its log.
pub(crate) fn init(format: LogFormat, filter: &str) {
    if let Err(refused) = logs::start(format, filter)
        && logs::start(format, "info").is_ok()
    {
        tracing::warn!(error = %refused, "logging everything from info upwards instead");
    }
    let _ = Metrics::of_process();
}

/// `/livez`, `/readyz` and `/metrics` for the admin listener. Not ready from `stopping` on; requests are
/// served, and measured, until `closing`.
pub(crate) fn router(
    gateway: Gateway,
    stopping: CancellationToken,
    closing: CancellationToken,
) -> Router {
    let metrics = Metrics::of_process();
    if let Some(metrics) = metrics.clone() {
        tokio::spawn(metrics.keep_folded(closing));
    }
    let store = Arc::clone(gateway.store());
    let measure: health::Measure = Arc::new(move || {
        let gateway = gateway.clone();
        Box::pin(async move {
            if let Err(fault) = gateway.measure_deliveries().await {
                tracing::warn!(error = %fault, "what waits to be delivered was not measured");
            }
        })
    });
    health::router(store, stopping, metrics.map(|metrics| (metrics, measure)))
}
