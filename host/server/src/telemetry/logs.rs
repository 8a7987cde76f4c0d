//! Log lines: for people or for machines. The access log's target is `access`.

use std::collections::HashMap;
use std::io::IsTerminal as _;

use kassette_runtime::Sampled;
use parking_lot::Mutex;
use serde::Deserialize;
use tracing::callsite::Identifier;
use tracing::{Event, Metadata};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt as _};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, fmt};

/// Overrides the configured filter.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// The access log's target: an operator who asks for a line of each request gets it.
pub(super) const ACCESS: &str = "access";
/// Most lines a second of one place in the code, so that no caller fills the disk with a log.
pub(crate) const LINES_PER_SECOND: u32 = 100;

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// For people.
    Pretty,
}

/// Why nothing is logged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The filter's directives make no sense.
    #[error("the log filter {filter:?} is not understood: {source}")]
    Filter {
        /// As configured.
        filter: String,
        source: tracing_subscriber::filter::ParseError,
    },
    /// Another logger runs in this process already.
    #[error("logging was started before: {0}")]
    Twice(#[from] TryInitError),
}

/// The filter that holds: the variable's before the configured one.
fn filter(configured: &str, variable: Option<String>) -> Result<EnvFilter, LogError> {
    let filter = variable
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| configured.to_owned());
    EnvFilter::try_new(&filter).map_err(|source| LogError::Filter { filter, source })
}

/// Starts to log to standard error; standard output belongs to what commands answer.
///
/// # Errors
/// See [`LogError`].
pub(crate) fn start(format: LogFormat, configured: &str) -> Result<(), LogError> {
    let filter = filter(configured, std::env::var(FILTER_VARIABLE).ok())?;
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        // A line that cannot be written is lost. Telling so would write to the same place, and panic
        // where that fails: a full disk under the log would stop what goes on without one.
        .log_internal_errors(false);
    let filter = filter.and(Bounded::default());
    let registry = tracing_subscriber::registry();
    match format {
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter(filter);
            registry.with(lines).try_init()?;
        }
        LogFormat::Pretty => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal());
            registry.with(lines.with_filter(filter)).try_init()?;
        }
    }
    Ok(())
}

/// Lets each place in the code write so many lines a second.
#[derive(Default)]
struct Bounded(Mutex<HashMap<Identifier, Sampled>>);

impl<S> Filter<S> for Bounded {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    /// Without a hint the other filter's would be lost, and the storage engine would make all its lines.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        metadata.target() == ACCESS
            || self
                .0
                .lock()
                .entry(metadata.callsite())
                .or_insert_with(|| Sampled::new(metadata.target(), LINES_PER_SECOND))
                .line()
                .is_some()
    }
}

/// What the log of the thread of a test holds.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct Log(std::sync::Arc<Mutex<Vec<u8>>>);

#[cfg(test)]
impl Log {
    /// Lines from info upwards, until the guard is dropped.
    pub(crate) fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let lines = fmt::layer().with_writer(log.clone()).with_ansi(false);
        let shown = LevelFilter::INFO.and(Bounded::default());
        let lines = tracing_subscriber::registry().with(lines.with_filter(shown));
        (log, tracing::subscriber::set_default(lines))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

#[cfg(test)]
impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl<'w> fmt::MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_overrides_the_configured_filter() {
        let shown = |variable: Option<&str>| {
            let filter = filter("info", variable.map(str::to_owned)).unwrap();
            filter.to_string()
        };
        assert_eq!(shown(None), "info");
        assert_eq!(shown(Some("")), "info");
        assert_eq!(shown(Some("access=warn")), "access=warn");
    }

    #[test]
    fn one_place_in_the_code_writes_a_bounded_number_of_lines_a_second_and_the_others_are_counted()
    {
        let (recorder, measured) = crate::telemetry::for_tests();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let (log, _guard) = Log::begin();
        let since = std::time::Instant::now();
        for _ in 0..2_000 {
            tracing::warn!("a line that a caller causes");
            tracing::info!(target: ACCESS, "a request");
        }
        let seconds = usize::try_from(since.elapsed().as_secs()).unwrap();
        let told = log.text().matches("a line that a caller causes").count();
        assert!((100..=100 * (seconds + 2)).contains(&told), "{told} lines");
        assert_eq!(log.text().matches("a request").count(), 2_000);
        let left_out = format!(
            "kassette_log_lines_left_out_total{{kind=\"{}\"}} {}",
            module_path!(),
            2_000 - told
        );
        assert!(measured.render().contains(&left_out), "{left_out}");
    }

    #[test]
    fn what_is_below_the_filter_is_not_even_made() {
        let both = filter("info", None).unwrap().and(Bounded::default());
        let hint = Filter::<tracing_subscriber::Registry>::max_level_hint(&both);
        assert_eq!(hint, Some(LevelFilter::INFO));
    }

    #[test]
    fn a_filter_without_sense_is_refused_and_named() {
        let refused = filter("a=b=c", None).unwrap_err().to_string();
        assert!(refused.contains("a=b=c"), "{refused}");
    }
}
