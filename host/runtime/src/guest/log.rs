//! Lines that a module writes for the operator.

use tracing::Level;

use crate::error::short;
use crate::host::Identity;
use crate::text;

/// Lines of one call; the rest is dropped (the contract's limit).
const LINES: u32 = 64;
/// Lines of all calls of a version in a second: strangers write what `callback` reads.
pub const LINES_PER_SECOND: u32 = 100;
/// Bytes of one line; the rest is cut (the contract's limit).
const LINE: usize = 1024;
/// Under which a filter finds what modules say.
const TARGET: &str = "kassette::plugin";

/// Lines that one call may still write.
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

    /// Passes one line on, without anything that could forge another.
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
