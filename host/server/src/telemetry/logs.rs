//! The log, for people or for programs. The target of the access log is `access`.

use std::borrow::Cow;
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

use crate::web::text::escape_directions;

/// Environment variable that overrides the configured filter.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// Target of the access log. An operator can enable a line for each request with it.
pub(super) const ACCESS: &str = "access";
/// Maximum number of lines per second from one place in the code, so that no caller can fill the disk with log
/// lines.
pub(crate) const LINES_PER_SECOND: u32 = 100;

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One JSON object per line, for programs.
    Json,
    /// For people.
    Pretty,
}

/// Reason why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The filter cannot be parsed.
    #[error("the log filter {filter:?} is not understood: {source}")]
    Filter {
        /// The filter in effect.
        filter: String,
        source: tracing_subscriber::filter::ParseError,
    },
    /// A logger is already installed in this process.
    #[error("logging was started before: {0}")]
    Twice(#[from] TryInitError),
}

/// Parses the filter. The environment variable takes precedence unless it is empty.
fn filter(configured: &str, variable: Option<String>) -> Result<EnvFilter, LogError> {
    let filter = variable
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| configured.to_owned());
    EnvFilter::try_new(&filter).map_err(|source| LogError::Filter { filter, source })
}

/// Starts logging to standard error. Standard output is reserved for the output of commands.
///
/// # Errors
/// See [`LogError`].
pub(crate) fn start(format: LogFormat, configured: &str) -> Result<(), LogError> {
    let filter = filter(configured, std::env::var(FILTER_VARIABLE).ok())?;
    let lines = fmt::layer()
        .with_writer(|| Directed(std::io::stderr()))
        // A line that cannot be written is lost. Reporting that would write to the same place and panic if it
        // fails, so a full disk would stop the server.
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

/// Writes to standard error and escapes characters that change the direction of text. The formatter escapes
/// control characters.
struct Directed<W>(W);

impl<W: std::io::Write> std::io::Write for Directed<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let Ok(text) = std::str::from_utf8(line) else {
            return self.0.write(line);
        };
        match escape_directions(text) {
            Cow::Borrowed(_) => self.0.write(line),
            Cow::Owned(escaped) => self.0.write_all(escaped.as_bytes()).map(|()| line.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Limits the lines per second of each place in the code.
#[derive(Default)]
struct Bounded(Mutex<HashMap<Identifier, Sampled>>);

impl<S> Filter<S> for Bounded {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    /// Without a hint, the other filter's hint would be ignored, and the storage engine would format all its
    /// lines.
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

/// Lines that a test's thread has logged.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct Log(std::sync::Arc<Mutex<Vec<u8>>>);

#[cfg(test)]
impl Log {
    /// Records lines of level info and above until the guard is dropped.
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
    fn a_line_of_the_log_keeps_its_direction() {
        use std::io::Write as _;
        let mut out = Directed(Vec::new());
        out.write_all("plain\n".as_bytes()).unwrap();
        out.write_all("a\u{202e}b\n".as_bytes()).unwrap();
        assert_eq!(out.0, b"plain\na\\u202eb\n");
    }

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
