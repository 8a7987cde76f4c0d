//! Commands about a whole store.
//!
//! | File | Content |
//! |---|---|
//! | `backup`, `target` | backup of a running or stopped store, and the file that it is written to |
//! | `restore`, `verify`, `source` | restoring a backup, and checking a backup or a store |
//! | `copy` | moving a store between a data directory and a database |
//! | `rebuild` | `compact` and `rekey` |
//! | `audit` | `audit verify` |

mod audit;
mod backup;
mod copy;
mod rebuild;
mod restore;
mod source;
mod target;
mod verify;

pub(super) use audit::verify as verify_audit;
pub(super) use backup::{BackupArgs, backup};
pub(super) use copy::{CopyArgs, copy};
pub(super) use rebuild::{CompactArgs, RekeyArgs, compact, rekey};
pub(super) use restore::{RestoreArgs, restore};
pub(super) use verify::{VerifyArgs, verify};

use clap::Args;
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_store::sled::maintenance::AuditNote;
use serde::Serialize;

/// Person and reason for a change that a running server would only allow an operator to make.
#[derive(Args)]
struct AttributionArgs {
    /// Person who requested the change, for the audit log.
    #[arg(long)]
    actor: Option<String>,
    /// Reason for the change, for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

impl AttributionArgs {
    /// Content of the entry in the audit log.
    fn asked(self) -> Result<AuditNote, String> {
        let said = |option: &str, text: Option<String>| {
            let text = text.map(|text| crate::admin::audit_text(&text));
            text.transpose().map_err(|why| format!("{option} {why}"))
        };
        Ok(AuditNote {
            actor: said("--actor", self.actor)?,
            reason: said("--reason", self.reason)?,
            at: SystemClock.now(),
        })
    }
}

/// Runs blocking work on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| "the command panicked; nothing was changed".to_owned())?
}

/// Prints a result: JSON for scripts, a sentence for people.
fn tell(result: &impl Serialize, json: bool, sentence: &str) -> Result<(), String> {
    if !json {
        return super::output::print(&format!("{sentence}\n"));
    }
    let text = serde_json::to_string_pretty(result).map_err(|error| error.to_string())?;
    super::output::print(&format!("{text}\n"))
}

/// Formats a size for people.
fn mib(bytes: u64) -> String {
    match bytes {
        0..0x0010_0000 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_a_unit_that_fits() {
        assert_eq!(mib(100), "1 KiB");
        assert_eq!(mib(1 << 20), "1.0 MiB");
        assert_eq!(mib((5 << 20) + (1 << 19)), "5.5 MiB");
    }
}
