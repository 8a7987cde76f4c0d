//! `kassette copy`.

use clap::{Args, ValueEnum};
use kassette_store::copy;
use tokio::runtime::Handle;

use super::{AttributionArgs, blocking, tell};
use crate::cli::progress::ProgressOutput;
use crate::cli::stopped_store::StoppedStore;

/// Destination of a store.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// From the data directory to the database.
    Postgres,
    /// From the database to the data directory.
    Sled,
}

/// The options of `kassette copy`.
#[derive(Args)]
pub(in crate::cli) struct CopyArgs {
    /// Destination of the store: the database that the configuration or KASSETTE_STORE_URL names, or the data
    /// directory.
    #[arg(long)]
    to: To,
    #[command(flatten)]
    store: StoppedStore,
    #[command(flatten)]
    attribution: AttributionArgs,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Moves the store of a stopped server between its data directory and a database.
pub(in crate::cli) async fn copy(args: CopyArgs) -> Result<(), String> {
    let asked = args.attribution.asked()?;
    let (folder, database) = args.store.both()?;
    let path = folder.path.display().to_string();
    let (runtime, to) = (Handle::current(), args.to);
    let copied = blocking(move || {
        let shown = ProgressOutput::new(None);
        match to {
            To::Postgres => copy::to_postgres(&runtime, &folder, &database, asked, &shown),
            To::Sled => copy::to_sled(&runtime, &database, &folder, asked, &shown),
        }
        .map_err(|error| error.to_string())
    })
    .await?;
    let (place, next) = match to {
        To::Postgres => (
            "the database".to_owned(),
            format!(
                "Start the server with `store.url` or KASSETTE_STORE_URL: {path} has a mark and is no longer served."
            ),
        ),
        To::Sled => (
            path,
            "Start the server without `store.url` and KASSETTE_STORE_URL: the database has a mark and is no \
             longer served."
                .to_owned(),
        ),
    };
    let sentence = format!(
        "{place}: {} payments, {} rows, {} lines of the audit log were copied and read through.\n{next}",
        copied.payments,
        copied.rows.values().sum::<u64>(),
        copied.audit_lines,
    );
    tell(&copied, args.json, &sentence)
}
