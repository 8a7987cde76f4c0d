//! Limits log lines that callers can cause: writes a few per second and counts the others.

use std::sync::LazyLock;
use std::time::Instant;

use metrics::Counter;
use parking_lot::Mutex;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Rate limit for one kind of line.
#[derive(Debug)]
pub struct Sampled {
    per_second: u32,
    left_out: Counter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    second: u64,
    written: u32,
    left_out: u64,
}

impl Sampled {
    /// Writes `per_second` lines of a kind. Counts the others in `kassette_log_lines_left_out_total{kind}`, with
    /// the metrics recorder that is installed at this time.
    pub fn new(kind: &'static str, per_second: u32) -> Self {
        Self {
            per_second,
            left_out: metrics::counter!("kassette_log_lines_left_out_total", "kind" => kind),
            state: Mutex::default(),
        }
    }

    /// Returns the number of lines suppressed since the last one if a line may be written now, `None` otherwise.
    pub fn line(&self) -> Option<u64> {
        self.line_at(BEGAN.elapsed().as_secs())
    }

    fn line_at(&self, second: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if state.second != second {
            (state.second, state.written) = (second, 0);
        }
        if state.written < self.per_second {
            state.written += 1;
            return Some(std::mem::take(&mut state.left_out));
        }
        state.left_out += 1;
        self.left_out.increment(1);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_are_written_and_the_others_counted() {
        let lines = Sampled::new("test", 2);
        let told: Vec<_> = (0..5).map(|_| lines.line_at(7)).collect();
        assert_eq!(told, [Some(0), Some(0), None, None, None]);
        assert_eq!(lines.line_at(8), Some(3));
        assert_eq!(lines.line_at(8), Some(0));
    }
}
