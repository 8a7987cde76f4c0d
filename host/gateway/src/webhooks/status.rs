//! State of the worker, for operators and metrics.

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

/// Minimum time between two counts of waiting deliveries, regardless of how often they are requested.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// Written by the worker.
#[derive(Default)]
pub(super) struct WorkerStatus {
    /// Circuits that are not closed. Bounded like the scheduler's flows.
    circuits: Mutex<HashMap<EndpointId, Circuit>>,
    quick: AtomicUsize,
    slow: AtomicUsize,
    measured: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitChange {
    /// It was closed and is now open or half open.
    Open,
    Closed,
}

impl WorkerStatus {
    /// Sets the numbers of attempts in the quick and in the slow pool.
    pub(super) fn slots(&self, (quick, slow): (usize, usize)) {
        self.quick.store(quick, Ordering::Relaxed);
        self.slow.store(slow, Ordering::Relaxed);
    }

    /// Stores the circuit of an endpoint. Returns whether it opened or closed, if it did.
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

    /// Replaces all circuits that are not closed.
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
    /// State of an endpoint's circuit in this process. Closed after the start of the process.
    pub fn circuit(&self, endpoint: EndpointId) -> CircuitState {
        let circuits = self.inner.deliverer.status.circuits.lock();
        let circuit = circuits.get(&endpoint).copied().unwrap_or_default();
        circuit.state(self.now())
    }

    /// Endpoints whose circuits are not closed, by id, each with the time of the first opening since the last
    /// success. Like [`Gateway::circuit`], this is the state of this process.
    pub fn failing_endpoints(&self) -> Vec<(EndpointId, Option<Time>)> {
        let circuits = self.inner.deliverer.status.circuits.lock();
        let mut failing: Vec<_> = circuits
            .iter()
            .map(|(id, circuit)| (*id, circuit.since()))
            .collect();
        failing.sort_unstable();
        failing
    }

    /// Sets the gauges of waiting deliveries and running attempts.
    ///
    /// # Errors
    /// The store's. The gauges of waiting deliveries then keep their values.
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
