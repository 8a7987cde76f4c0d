//! What the worker knows, for operators and metrics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kassette_domain::id::EndpointId;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;
use kassette_store::{Fault, Oldest};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::circuit::{Circuit, CircuitState};
use crate::Gateway;

/// What waits is counted at most so often, however often a caller asks.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// Written by the worker.
#[derive(Default)]
pub(super) struct WorkerStatus {
    /// Those that are not closed; of flows that are remembered, so it is bounded as they are.
    circuits: Mutex<HashMap<EndpointId, Circuit>>,
    quick: AtomicUsize,
    slow: AtomicUsize,
    measured: tokio::sync::Mutex<Option<Instant>>,
}

/// How a circuit has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitChange {
    /// It was closed and is not any more.
    Open,
    /// It is closed again.
    Closed,
}

impl WorkerStatus {
    /// Attempts under way in the quick pool, and in the slow one.
    pub(super) fn slots(&self, (quick, slow): (usize, usize)) {
        self.quick.store(quick, Ordering::Relaxed);
        self.slow.store(slow, Ordering::Relaxed);
    }

    /// An endpoint's circuit may have changed; which way it has turned, where it has.
    pub(super) fn circuit(&self, endpoint: EndpointId, circuit: Circuit) -> Option<CircuitChange> {
        let mut circuits = self.circuits.lock();
        match circuit.is_closed() {
            true => circuits.remove(&endpoint).map(|_| CircuitChange::Closed),
            false => {
                let before = circuits.insert(endpoint, circuit);
                before.is_none().then_some(CircuitChange::Open)
            }
        }
    }

    /// All that are not closed.
    pub(super) fn circuits(&self, all: impl Iterator<Item = (EndpointId, Circuit)>) {
        *self.circuits.lock() = all.collect();
    }

    fn count(&self, state: CircuitState, now: Time) -> usize {
        let circuits = self.circuits.lock();
        let in_state = circuits
            .values()
            .filter(|circuit| circuit.state(now) == state);
        in_state.count()
    }
}

impl Gateway {
    /// What the circuit of an endpoint lets through. A process that has just begun knows of none that
    /// is not closed.
    pub fn circuit(&self, endpoint: EndpointId) -> CircuitState {
        let circuits = self.inner.deliverer.status.circuits.lock();
        let circuit = circuits.get(&endpoint).copied().unwrap_or_default();
        circuit.state(self.now())
    }

    /// Sets the gauges of what waits and what is under way.
    ///
    /// # Errors
    /// The store's; then what waits is as it was.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) async fn measure_deliveries(&self) -> Result<(), Fault> {
        let status = &self.inner.deliverer.status;
        let now = self.now();
        for state in [CircuitState::Open, CircuitState::HalfOpen] {
            let count = status.count(state, now) as f64;
            metrics::gauge!("kassette_webhook_circuits", "state" => state.as_str()).set(count);
        }
        for (pool, count) in [("quick", &status.quick), ("slow", &status.slow)] {
            let count = count.load(Ordering::Relaxed) as f64;
            metrics::gauge!("kassette_webhook_attempts_under_way", "pool" => pool).set(count);
        }
        let mut measured = status.measured.lock().await;
        if measured.is_some_and(|at| at.elapsed() < MEASURE_EVERY) {
            return Ok(());
        }
        let backlog = self.store().backlog().await?;
        metrics::gauge!("kassette_webhook_pending").set(backlog.pending as f64);
        let Oldest { live, test } = backlog.oldest;
        for (environment, oldest) in [(Environment::Live, live), (Environment::Test, test)] {
            let age = oldest.map(|oldest| now.since(oldest)).unwrap_or_default();
            let environment = environment.as_str();
            metrics::gauge!("kassette_webhook_oldest_seconds", "environment" => environment)
                .set(age.as_secs_f64());
        }
        *measured = Some(Instant::now());
        Ok(())
    }
}
