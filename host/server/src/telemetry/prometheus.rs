//! The recorder behind `/metrics`.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::families;

/// Upper bounds of every histogram whose name ends in `_seconds`. From the 8 µs of a plugin's call
/// to the 15 s of a start with all its fallbacks.
const SECONDS: [f64; 18] = [
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005,
    0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0,
];

/// Upper bounds of every histogram whose name ends in `_operations`: a group of the store holds 256 at most.
const OPERATIONS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// How often recorded samples are folded into their buckets. Until then each takes 24 bytes, and at full
/// load there are a hundred thousand a second.
const FOLD_EVERY: Duration = Duration::from_secs(1);

/// What has been measured since the start.
#[derive(Clone)]
pub(crate) struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Starts to record for the whole process, at the first call; before anything is measured,
    /// because what was measured earlier is lost. None where another recorder is installed already. It logs
    /// nothing: lines of the log are measured.
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

    /// Everything in Prometheus' text form.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Keeps memory bounded where no scraper comes, until `end`.
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

/// Metrics that only the thread of a test records.
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
