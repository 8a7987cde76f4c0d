//! Progress of a long command: a bar on a terminal, otherwise a line at intervals.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kassette_store::report::{Progress, Unit};
use parking_lot::Mutex;

/// Interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows progress on standard error.
pub(super) struct ProgressOutput {
    /// Size of the input file in bytes, if known.
    file_bytes: Option<u64>,
    terminal: bool,
    part: Mutex<Option<Part>>,
}

struct Part {
    what: String,
    bar: ProgressBar,
    unit: Unit,
    printed_at: Instant,
}

impl ProgressOutput {
    /// Progress of a task, which may read a file of a known size.
    pub(super) fn new(file_bytes: Option<u64>) -> Self {
        Self {
            file_bytes,
            terminal: std::io::stderr().is_terminal(),
            part: Mutex::new(None),
        }
    }

    fn end(&self, part: Option<Part>) {
        let Some(part) = part else { return };
        if self.terminal {
            part.bar.finish();
        } else {
            eprintln!("{}: {}", part.what, part.position());
        }
    }
}

impl Part {
    fn position(&self) -> String {
        let at = self.bar.position();
        let so_far = match self.unit {
            Unit::Payments => format!("{at} payments"),
            Unit::Rows => format!("{at} rows"),
            Unit::Bytes => format!("{} MiB", at >> 20),
        };
        match self.bar.length().filter(|length| *length > 0) {
            Some(length) => format!("{so_far}, {} %", (at * 100 / length).min(100)),
            None => so_far,
        }
    }
}

impl Progress for ProgressOutput {
    fn begin(&self, what: &str, unit: Unit, total: Option<u64>) {
        let total = total.or(match unit {
            Unit::Bytes => self.file_bytes,
            Unit::Payments | Unit::Rows => None,
        });
        let bar = if self.terminal {
            total.map_or_else(ProgressBar::new_spinner, ProgressBar::new)
        } else {
            let bar = ProgressBar::hidden();
            total.into_iter().for_each(|total| bar.set_length(total));
            bar
        };
        let template = match (unit, total) {
            (Unit::Payments, Some(_)) => {
                "{msg:28} {bar:32} {percent:>3} % {human_pos} payments {per_sec}, {eta} left"
            }
            (Unit::Payments, None) => "{msg:28} {spinner} {human_pos} payments {per_sec}",
            (Unit::Rows, Some(_)) => {
                "{msg:28} {bar:32} {percent:>3} % {human_pos} rows {per_sec}, {eta} left"
            }
            (Unit::Rows, None) => "{msg:28} {spinner} {human_pos} rows {per_sec}",
            (Unit::Bytes, Some(_)) => {
                "{msg:28} {bar:32} {percent:>3} % {bytes} {bytes_per_sec}, {eta} left"
            }
            (Unit::Bytes, None) => "{msg:28} {spinner} {bytes} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        let next = Part {
            what: what.to_owned(),
            bar,
            unit,
            printed_at: Instant::now(),
        };
        let before = self.part.lock().replace(next);
        self.end(before);
    }

    fn advance(&self, by: u64) {
        let mut part = self.part.lock();
        let Some(part) = part.as_mut() else { return };
        part.bar.inc(by);
        if !self.terminal && part.printed_at.elapsed() >= LINE_EVERY {
            part.printed_at = Instant::now();
            eprintln!("{}: {}", part.what, part.position());
        }
    }
}

impl Drop for ProgressOutput {
    fn drop(&mut self) {
        let last = self.part.get_mut().take();
        self.end(last);
    }
}
