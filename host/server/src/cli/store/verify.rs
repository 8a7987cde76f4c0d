//! `kassette verify`.

use std::path::PathBuf;

use clap::Args;
use kassette_store::postgres;
use kassette_store::report::VerifyReport;
use kassette_store::sled::maintenance::{self, BackupInfo};
use serde::Serialize;

use super::source::BelievedArgs;
use super::{blocking, tell};
use crate::cli::progress::ProgressOutput;
use crate::cli::stopped_store::{self, StoppedStore, StoreLocation};
use crate::master_key;

/// The options of `kassette verify`.
#[derive(Args)]
pub(in crate::cli) struct VerifyArgs {
    /// A backup; without one the store of the stopped server is verified, or the database, beside the servers
    /// that it has.
    file: Option<PathBuf>,
    #[command(flatten)]
    store: StoppedStore,
    #[command(flatten)]
    believed: BelievedArgs,
    /// Where a backup is unpacked to be verified, and removed again; needs as much room as a store
    /// [default: the backup's own folder].
    #[arg(long, value_name = "DIR", requires = "file")]
    scratch: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a store or a backup through.
pub(in crate::cli) async fn verify(args: VerifyArgs) -> Result<(), String> {
    let json = args.json;
    let Some(file) = args.file else {
        let (report, what) = match args.store.place()? {
            StoreLocation::Folder(options) => {
                let what = options.path.display().to_string();
                let read = blocking(move || {
                    let shown = ProgressOutput::new(None);
                    maintenance::verify(&options, &shown).map_err(|error| error.to_string())
                });
                (read.await?, what)
            }
            StoreLocation::Database(options) => {
                let shown = ProgressOutput::new(None);
                let read = postgres::verify(&options, &shown).await;
                (
                    read.map_err(|error| error.to_string())?,
                    "the database".to_owned(),
                )
            }
        };
        return print_report(&report, &report, &what, json);
    };
    let found = args.store.find()?;
    let key = master_key::read(found.key_file.as_deref()).map_err(|error| error.to_string())?;
    let master = stopped_store::parse(&key)?;
    let (source, bytes) = args.believed.open(&file)?;
    let scratch = match args.scratch {
        Some(folder) => folder,
        None => match file.parent() {
            Some(folder) if folder != std::path::Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        },
    };
    let mut options = found.options(master);
    options.path = scratch.join(format!(".kassette-verify.{}", std::process::id()));
    let verified = blocking(move || {
        let shown = ProgressOutput::new(bytes);
        maintenance::verify_backup(&options, source, &shown).map_err(|error| error.to_string())
    })
    .await?;
    let what = format!(
        "{}, made at {} by release {} ({})",
        file.display(),
        verified.told.made_at,
        verified.told.release,
        code_of(&verified.told)
    );
    print_report(&verified, &verified.report, &what, json)
}

/// Tells what was found; findings are a refusal.
fn print_report(
    result: &impl Serialize,
    report: &VerifyReport,
    what: &str,
    json: bool,
) -> Result<(), String> {
    let found = report.findings.len() as u64 + report.more_findings;
    let rows: u64 = report.rows.values().sum();
    // Every store has some rows: one without did not open.
    let counts = match rows {
        0 => format!("{what}: no row could be read"),
        _ => format!(
            "{what}: {} payments, {rows} rows, {} lines of the audit log",
            report.payments, report.audit_lines
        ),
    };
    if !json {
        tell_findings(report);
    }
    if report.is_whole() {
        return tell(result, json, &format!("{counts}: all is whole"));
    }
    if json {
        tell(result, json, "")?;
    }
    Err(format!("{counts}: {found} findings"))
}

/// What a backup was believed by.
pub(super) fn code_of(told: &BackupInfo) -> String {
    let code = match told.authenticated {
        true => "its authentication code is right",
        false => "without an authentication code",
    };
    format!("{code}, master key {}", told.master_key)
}

/// Each finding with what to do.
pub(super) fn tell_findings(report: &VerifyReport) {
    let mut advice = "";
    for finding in &report.findings {
        let about = match finding.row.as_str() {
            "" => finding.kind.to_owned(),
            row => format!("{} {row}", finding.kind),
        };
        eprintln!("{about}: {}", finding.what);
        advice = finding.advice;
    }
    if report.more_findings > 0 {
        eprintln!("… and {} more", report.more_findings);
    }
    if !advice.is_empty() {
        eprintln!("What to do: {advice}.");
    }
}
