//! Logs, metrics and health: the information for operators about a running server.
//!
//! Lines and labels contain the route's template, but never a path (which may contain a token), a query, a
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
use crate::status::Facts;

#[cfg(test)]
pub(crate) use self::{
    edge::{FAILURES_PER_SECOND, REFUSALS_PER_SECOND},
    families::values_of,
    logs::LINES_PER_SECOND,
};

/// Starts logging and metrics for the whole process. Call it before anything else. The first line contains the
/// version of the program.
///
/// An invalid filter is logged and replaced with `info`: a server must not fail to start because of its log.
pub(crate) fn init(format: LogFormat, filter: &str) {
    // Before the log, because metrics count omitted log lines.
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

/// Release and build, as shown to other nodes.
pub(crate) fn version() -> String {
    format!("{} ({})", version::RELEASE, version::BUILD)
}

/// `/livez`, `/readyz` and `/metrics` for the admin listener. The server reports not ready from `stopping` on, but
/// serves and measures requests until `closing`.
pub(crate) fn router(
    gateway: Gateway,
    facts: Arc<Facts>,
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
    let gauges = Gauges::new(gateway, Arc::clone(&readiness), Arc::clone(&facts));
    let gauges = Arc::new(gauges);
    health::router((readiness, facts), metrics.map(|metrics| (metrics, gauges)))
}
