//! Commands about a whole store.
//!
//! | file | holds |
//! |---|---|
//! | `backup`, `target` | a backup of a running or a stopped store, and the file that it goes to |
//! | `restore`, `verify`, `source` | what is done with a backup, and reading a store through |
//! | `copy` | a store moved between a data directory and a database |
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

/// Who asks for what a running server would want an operator for, and why.
#[derive(Args)]
struct AttributionArgs {
    /// The person on whose behalf, for the audit log.
    #[arg(long)]
    actor: Option<String>,
    /// Why, for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

impl AttributionArgs {
    /// What the line in the audit log says.
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

/// Does what blocks on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| "the command panicked; nothing was changed".to_owned())?
}

/// Writes a result: the object for scripts, the sentence for people.
fn tell(result: &impl Serialize, json: bool, sentence: &str) -> Result<(), String> {
    if !json {
        return super::output::print(&format!("{sentence}\n"));
    }
    let text = serde_json::to_string_pretty(result).map_err(|error| error.to_string())?;
    super::output::print(&format!("{text}\n"))
}

/// Bytes for people.
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
