//! Logs, metrics, health: what operators see of a running server.
//!
//! Lines and labels carry the route's template, never a path (it may hold a token), a query, a
//! header's value or a body.

mod certificates;
mod edge;
mod families;
mod gauges;
mod health;
mod logs;
mod process;
mod prometheus;
mod readiness;
mod requests;
mod version;

use std::sync::Arc;

use axum::Router;
use kassette_gateway::Gateway;
use tokio_util::sync::CancellationToken;

pub(crate) use self::certificates::shows as shows_certificate;
pub(crate) use self::edge::Edge;
use self::gauges::Gauges;
#[cfg(test)]
pub(crate) use self::logs::Log;
pub(crate) use self::logs::LogFormat;
use self::prometheus::Metrics;
#[cfg(test)]
pub(crate) use self::prometheus::for_tests;
use self::readiness::Readiness;

#[cfg(test)]
pub(crate) use self::{
    edge::{FAILURES_PER_SECOND, REFUSALS_PER_SECOND},
    families::values_of,
    logs::LINES_PER_SECOND,
};

/// Starts to log and to measure for the whole process; call it before anything else. The first line says
/// which program this is.
///
/// A filter that makes no sense is said and replaced by `info`: a server must not stay down for
/// the sake of its log.
pub(crate) fn init(format: LogFormat, filter: &str) {
    // What is counted of the lines of the log is measured too.
    let measured = Metrics::of_process();
    let refused = logs::start(format, filter).err();
    let refused = refused.filter(|_| logs::start(format, "info").is_ok());
    tracing::info!(
        version = version::RELEASE,
        build = version::BUILD,
        "Kassette {} starts",
        version::RELEASE
    );
    if let Some(refused) = refused {
        tracing::warn!(error = %refused, "logging everything from info upwards instead");
    }
    if measured.is_none() {
        tracing::warn!("nothing is measured: another recorder was there before");
    }
}

/// Release and build, as other nodes see them.
pub(crate) fn version() -> String {
    format!("{} ({})", version::RELEASE, version::BUILD)
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
    let following = gateway.clone();
    let readiness = Readiness::new(
        Arc::clone(gateway.store()),
        Box::new(move || following.modules_behind()),
        stopping,
    );
    let readiness = Arc::new(readiness);
    let gauges = Arc::new(Gauges::new(gateway, Arc::clone(&readiness)));
    health::router(readiness, metrics.map(|metrics| (metrics, gauges)))
}
