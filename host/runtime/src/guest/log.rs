//! Log lines that a module writes for the operator.

use tracing::Level;

use crate::error::short;
use crate::host::Identity;
use crate::text;

/// Maximum number of lines per call, from the contract. Further lines are dropped.
const LINES: u32 = 64;
/// Maximum number of lines per second of all calls of a version: strangers control the input of `callback`.
pub const LINES_PER_SECOND: u32 = 100;
/// Maximum length of a line in bytes, from the contract. Longer lines are cut.
const LINE: usize = 1024;
/// Target of the log lines, for filters.
const TARGET: &str = "kassette::plugin";

/// Number of lines that a call may still write.
#[derive(Debug)]
pub(crate) struct LogBudget(u32);

impl Default for LogBudget {
    fn default() -> Self {
        Self(LINES)
    }
}

impl LogBudget {
    /// Whether the call has written nothing.
    pub(crate) const fn is_silent(&self) -> bool {
        self.0 == LINES
    }

    /// Logs one line, unless a limit is reached or the version is on trial. The message cannot forge another line.
    pub(crate) fn write(&mut self, identity: &Identity, level: Level, message: &str) {
        let Some(left) = self.0.checked_sub(1) else {
            return;
        };
        self.0 = left;
        if identity.is_trial || identity.log_limit.line().is_none() {
            return;
        }
        let message = text::cut(message, LINE);
        let (slot, digest) = (identity.slot.as_str(), short(&identity.digest));
        match level {
            Level::ERROR => {
                tracing::error!(target: TARGET, { plugin.slot = slot, plugin.digest = digest }, "{message}")
            }
            Level::WARN => {
                tracing::warn!(target: TARGET, { plugin.slot = slot, plugin.digest = digest }, "{message}")
            }
            Level::INFO => {
                tracing::info!(target: TARGET, { plugin.slot = slot, plugin.digest = digest }, "{message}")
            }
            _ => {
                tracing::debug!(target: TARGET, { plugin.slot = slot, plugin.digest = digest }, "{message}")
            }
        }
    }
}
