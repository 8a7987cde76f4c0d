//! The recorder for `/metrics`.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::families;

/// Upper bounds of all histograms whose name ends in `_seconds`: from 8 µs for a call of a module to 15 s for a
/// start with all its fallbacks.
const SECONDS: [f64; 18] = [
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005,
    0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0,
];

/// Upper bounds of all histograms whose name ends in `_operations`. A group of the store has at most 256
/// operations.
const OPERATIONS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Interval for merging samples into buckets. Until then, each sample takes 24 bytes; under full load there are
/// 100,000 per second.
const FOLD_EVERY: Duration = Duration::from_secs(1);

/// Metrics since the start of the process.
#[derive(Clone)]
pub(crate) struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Installs the recorder for the whole process on the first call. Call it before the first measurement,
    /// because earlier ones are lost. `None` if another recorder is installed. Does not log, because log lines are
    /// measured.
    pub(crate) fn of_process() -> Option<Self> {
        static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
        let install = || {
            let builder = builder().ok()?;
            let handle = builder.install_recorder().ok()?;
            families::describe();
            families::fill_known();
            Some(handle)
        };
        let handle = HANDLE.get_or_init(install).clone()?;
        Some(Self { handle })
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Merges samples regularly until `end`, so that memory stays bounded without scrapes.
    pub(crate) async fn keep_folded(self, end: CancellationToken) {
        let mut ticks = tokio::time::interval(FOLD_EVERY);
        while end.run_until_cancelled(ticks.tick()).await.is_some() {
            self.handle.run_upkeep();
        }
    }
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_operations".into()), &OPERATIONS)
}

/// A recorder for the metrics of a test's thread.
#[cfg(test)]
pub(crate) fn for_tests() -> (metrics_exporter_prometheus::PrometheusRecorder, Metrics) {
    let recorder = builder().unwrap().build_recorder();
    let handle = recorder.handle();
    (recorder, Metrics { handle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_histograms_with_buckets() {
        let (recorder, measured) = for_tests();
        ::metrics::with_local_recorder(&recorder, || {
            ::metrics::histogram!("x_seconds").record(0.003);
        });
        let text = measured.render();
        assert!(text.contains("x_seconds_bucket{le=\"0.005\"} 1"), "{text}");
        assert!(text.contains("x_seconds_bucket{le=\"0.0025\"} 0"), "{text}");
    }
}
