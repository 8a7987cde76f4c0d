//! `kassette restore`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use kassette_store::sled::maintenance::{self, MaintenanceError};

use super::verify::tell_findings;
use super::{blocking, tell};
use crate::cli::place::Place;
use crate::cli::progress::Shown;

/// The options of `kassette restore`.
#[derive(Args)]
pub(in crate::cli) struct RestoreArgs {
    /// The backup, or - for standard input.
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Restore a backup whose rows do not all fit each other: for where there is no other. One that
    /// is cut off or altered is refused all the same.
    #[arg(long)]
    despite_findings: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Restores a backup into a data directory without a store.
pub(in crate::cli) async fn restore(args: RestoreArgs) -> Result<(), String> {
    let options = args.place.options()?;
    let (input, bytes) = input(&args.file)?;
    let store = options.path.clone();
    let despite = args.despite_findings;
    let json = args.json;
    let restored = blocking(move || {
        let shown = Shown::new(bytes);
        let restored = maintenance::restore(&options, input, despite, &shown);
        drop(shown);
        restored.map_err(|error| {
            if let MaintenanceError::NotWhole { report, .. } = &error
                && !json
            {
                tell_findings(report);
            }
            error.to_string()
        })
    })
    .await?;
    if !json {
        tell_findings(&restored.report);
    }
    let sentence = format!(
        "{}: restored as it was at {} (release {}): {} payments, {} rows, {} findings.\nStart the \
         server with the master key, configuration and modules that belong to it.",
        store.display(),
        restored.made_at,
        restored.release,
        restored.report.payments,
        restored.report.rows.values().sum::<u64>(),
        restored.report.findings.len() as u64 + restored.report.more_findings,
    );
    tell(&restored, args.json, &sentence)
}

/// What a path names to read from, and its length where that is known.
pub(super) fn input(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), String> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(format!("{} is a folder, not a backup", path.display()));
    }
    Ok((
        Box::new(io::BufReader::with_capacity(1 << 20, file)),
        Some(metadata.len()),
    ))
}
