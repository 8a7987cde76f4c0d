//! `kassette restore`.

use std::path::PathBuf;

use clap::Args;
use kassette_store::report::VerifyReport;
use kassette_store::sled::maintenance::{self, MaintenanceError, always};
use serde::Serialize;

use super::source::BelievedArgs;
use super::verify::{code_of, tell_findings};
use super::{AttributionArgs, blocking, tell};
use crate::cli::progress::ProgressOutput;
use crate::cli::stopped_store::StoppedStore;

/// JSON result for a backup with inconsistent rows.
#[derive(Serialize)]
struct Refused<'a> {
    report: &'a VerifyReport,
}

/// The options of `kassette restore`.
#[derive(Args)]
pub(in crate::cli) struct RestoreArgs {
    /// The backup, or - for standard input.
    file: PathBuf,
    #[command(flatten)]
    store: StoppedStore,
    #[command(flatten)]
    believed: BelievedArgs,
    /// Restore a backup with inconsistent rows: for use when no other backup exists. A truncated or altered backup
    /// is rejected anyway.
    #[arg(long)]
    despite_findings: bool,
    #[command(flatten)]
    attribution: AttributionArgs,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Restores a backup into a data directory without a store.
pub(in crate::cli) async fn restore(args: RestoreArgs) -> Result<(), String> {
    let asked = args.attribution.asked()?;
    let options = args.store.options()?;
    let (source, bytes) = args.believed.open(&args.file)?;
    let store = options.path.clone();
    let despite = args.despite_findings;
    let json = args.json;
    let restored = blocking(move || {
        let shown = ProgressOutput::new(bytes);
        let restored = maintenance::restore(&options, source, despite, asked, &shown, &always);
        drop(shown);
        restored.or_else(|error| {
            if let MaintenanceError::NotWhole { report, .. } = &error {
                match json {
                    true => tell(&Refused { report }, true, "")?,
                    false => tell_findings(report),
                }
            }
            Err(error.to_string())
        })
    })
    .await?;
    if !json {
        tell_findings(&restored.report);
    }
    let sentence = format!(
        "{}: restored as it was at {} (release {}; {}): {} payments, {} rows, {} findings.\nStart the \
         server with the master key that this command had, and with configuration and modules that \
         belong to it.",
        store.display(),
        restored.told.made_at,
        restored.told.release,
        code_of(&restored.told),
        restored.report.payments,
        restored.report.rows.values().sum::<u64>(),
        restored.report.findings.len() as u64 + restored.report.more_findings,
    );
    tell(&restored, args.json, &sentence)
}
