//! `kassette verify`.

use std::path::PathBuf;

use clap::Args;
use kassette_runtime::{MacKey, VersionsConfig};
use kassette_store::postgres;
use kassette_store::report::{Finding, VerifyReport};
use kassette_store::sled::OpenOptions;
use kassette_store::sled::maintenance::{self, BackupInfo};
use serde::Serialize;

use super::source::BelievedArgs;
use super::{blocking, tell};
use crate::cli::output;
use crate::cli::progress::ProgressOutput;
use crate::cli::stopped_store::{self, StoppedStore, StoreLocation};
use crate::master_key;
use crate::serve::{HISTORY_PURPOSE, MODULES_DIR};

/// Advice for findings about module histories.
const HISTORY_ADVICE: &str = "find out who wrote to the data directory; after the start, upload, pin or roll back to \
                              the version that is to serve, and switch the slot as it is to be (config/README.md, \
                              \"Signed modules\")";

/// The options of `kassette verify`.
#[derive(Args)]
pub(in crate::cli) struct VerifyArgs {
    /// Backup to verify; without one, the store of the stopped server is verified, or the database, even while
    /// servers use it.
    file: Option<PathBuf>,
    #[command(flatten)]
    store: StoppedStore,
    #[command(flatten)]
    believed: BelievedArgs,
    /// Folder in which a backup is temporarily unpacked for the check; needs as much space as a store [default:
    /// the backup's own folder].
    #[arg(long, value_name = "DIR", requires = "file")]
    scratch: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads and checks a complete store or backup.
pub(in crate::cli) async fn verify(args: VerifyArgs) -> Result<(), String> {
    let json = args.json;
    let Some(file) = args.file else {
        let (report, what) = match args.store.place()? {
            StoreLocation::Folder(options) => {
                let what = options.path.display().to_string();
                let read = blocking(move || {
                    let shown = ProgressOutput::new(None);
                    let report = maintenance::verify(&options, &shown);
                    with_histories(&options, report.map_err(|error| error.to_string())?)
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

/// Adds findings about module histories, which are in another folder than the store.
fn with_histories(options: &OpenOptions, mut report: VerifyReport) -> Result<VerifyReport, String> {
    let folder = options.path.with_file_name(MODULES_DIR);
    let key = MacKey::from_bytes(options.master.derive(HISTORY_PURPOSE));
    let wrong = VersionsConfig::new(folder, key).compare(&report.slots);
    let wrong =
        wrong.map_err(|error| format!("the histories of modules cannot be read: {error}"))?;
    let findings = wrong.into_iter().map(|(slot, what)| Finding {
        kind: "history",
        row: format!("{MODULES_DIR}/{slot}"),
        what: what.to_owned(),
        advice: HISTORY_ADVICE,
    });
    report.findings.extend(findings);
    Ok(report)
}

/// Prints the findings. `Err` if there are any.
fn print_report(
    result: &impl Serialize,
    report: &VerifyReport,
    what: &str,
    json: bool,
) -> Result<(), String> {
    let found = report.findings.len() as u64 + report.more_findings;
    let rows: u64 = report.rows.values().sum();
    // Every store has rows. Without any, the store could not be opened.
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

/// Describes how a backup was authenticated.
pub(super) fn code_of(told: &BackupInfo) -> String {
    let code = match told.authenticated {
        true => "its authentication code is right",
        false => "without an authentication code",
    };
    format!("{code}, master key {}", told.master_key)
}

/// Prints all findings, followed by the advice that applies to all of them.
pub(super) fn tell_findings(report: &VerifyReport) {
    let mut advice = "";
    for finding in &report.findings {
        let about = match finding.row.as_str() {
            "" => finding.kind.to_owned(),
            row => format!("{} {row}", finding.kind),
        };
        eprintln!("{}", output::plain(&format!("{about}: {}", finding.what)));
        advice = finding.advice;
    }
    if report.more_findings > 0 {
        eprintln!("… and {} more", report.more_findings);
    }
    if !advice.is_empty() {
        eprintln!("What to do: {advice}.");
    }
}
