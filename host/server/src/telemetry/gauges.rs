//! Gauges that are updated on each request for `/metrics`. Each update is limited in time and in the data it
//! reads.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::rates::RateSource;
use kassette_gateway::Gateway;
use kassette_store::Vitals;
use tokio::time::timeout;

use super::families::Zeros;
use super::readiness::{REASONS, Readiness, Unready};
use super::{process, version};
use crate::status::facts::REFUSED_GAUGE;
use crate::status::{Facts, Subject};

/// Maximum time that a scrape waits for the store. Afterwards, the previous values are shown.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Updates the gauges.
pub(super) struct Gauges {
    gateway: Gateway,
    readiness: Arc<Readiness>,
    facts: Arc<Facts>,
    zeros: Zeros,
}

impl Gauges {
    pub(super) fn new(gateway: Gateway, readiness: Arc<Readiness>, facts: Arc<Facts>) -> Self {
        metrics::gauge!(
            "kassette_build_info",
            "version" => version::RELEASE, "build" => version::BUILD
        )
        .set(1.0);
        Self {
            gateway,
            readiness,
            facts,
            zeros: Zeros::default(),
        }
    }

    pub(super) async fn set(&self) {
        self.zeros.fill(&self.gateway);
        let (.., process, readiness) = tokio::join!(
            self.gateway(),
            self.store(),
            self.nodes(),
            tokio::task::spawn_blocking(process::set),
            self.readiness.ready(),
        );
        if let Ok(Err(error)) = process {
            tracing::warn!(%error, "the process was not measured");
        }
        for subject in Subject::ALL {
            let refused = self.facts.has_refused(subject);
            metrics::gauge!(REFUSED_GAUGE, "subject" => subject.as_str()).set(if refused {
                1.0
            } else {
                0.0
            });
        }
        let reason = readiness.err().map(|Unready { reason, .. }| reason);
        metrics::gauge!("kassette_ready").set(if reason.is_none() { 1.0 } else { 0.0 });
        for &each in REASONS {
            let is_it = if reason == Some(each) { 1.0 } else { 0.0 };
            metrics::gauge!("kassette_unready", "reason" => each).set(is_it);
        }
    }

    async fn gateway(&self) {
        match timeout(STORE_TIMEOUT, self.gateway.set_gauges()).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => {
                tracing::warn!(error = %fault, "what waits was not measured");
            }
            Err(_) => tracing::warn!("what waits was not measured in time"),
        }
    }

    /// Updates the gauges about the nodes of the store.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    async fn nodes(&self) {
        let store = self.gateway.store();
        metrics::gauge!("kassette_nodes").set(f64::from(store.live_nodes()));
        let nodes = match timeout(STORE_TIMEOUT, store.nodes()).await {
            Ok(Ok(nodes)) => nodes,
            Ok(Err(fault)) => {
                tracing::warn!(error = %fault, "the nodes were not measured");
                return;
            }
            Err(_) => {
                tracing::warn!("the nodes were not measured in time");
                return;
            }
        };
        let own = nodes.iter().find(|node| node.is_self);
        metrics::gauge!("kassette_node_beat_age_seconds")
            .set(own.map_or(f64::NAN, |own| own.beat_age.as_secs_f64()));
        let lag = nodes.iter().map(|node| node.lag).max();
        metrics::gauge!("kassette_node_lag").set(lag.unwrap_or_default() as f64);
    }

    /// Updates the gauges about the clock, the exchange rates, the store's size, disk and last backup, and the
    /// clock's difference from the newest payment.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    async fn store(&self) {
        let vitals = timeout(STORE_TIMEOUT, self.gateway.store().vitals()).await;
        let now = self.gateway.clock().now();
        metrics::gauge!("kassette_clock_time_seconds").set(now.as_millis() as f64 / 1000.0);
        let tables = self.gateway.rates();
        for source in RateSource::ALL {
            let table = tables.get(&source);
            let age = table.map(|table| now.since(table.reference().date).as_secs_f64());
            metrics::gauge!("kassette_rates_age_seconds", "source" => source.as_str())
                .set(age.unwrap_or(f64::NAN));
        }
        let Vitals {
            used,
            free,
            reserved,
            newest,
            backed_up,
        } = match vitals {
            Ok(Ok(vitals)) => vitals,
            Ok(Err(fault)) => {
                tracing::warn!(error = %fault, "the store was not measured");
                return;
            }
            Err(_) => {
                tracing::warn!("the store was not measured in time");
                return;
            }
        };
        metrics::gauge!("kassette_store_size_bytes").set(used as f64);
        metrics::gauge!("kassette_store_disk_free_bytes")
            .set(free.map_or(f64::NAN, |free| free as f64));
        metrics::gauge!("kassette_store_disk_reserved_bytes").set(reserved as f64);
        let behind = newest.map(|newest| newest.since(now)).unwrap_or_default();
        metrics::gauge!("kassette_clock_behind_seconds").set(behind.as_secs_f64());
        let backed_up = backed_up.map_or(f64::NAN, |at| at.as_millis() as f64 / 1000.0);
        metrics::gauge!("kassette_backup_last_success_timestamp_seconds").set(backed_up);
    }
}
