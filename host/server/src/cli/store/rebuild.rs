//! `kassette compact` and `kassette rekey`.

use std::path::{Path, PathBuf};

use clap::Args;
use kassette_runtime::{MacKey, VersionsConfig};
use kassette_store::sled::MasterKey;
use kassette_store::sled::maintenance::{self, always};

use super::{AttributionArgs, blocking, mib, tell};
use crate::cli::progress::ProgressOutput;
use crate::cli::stopped_store::{self, StoppedStore};
use crate::master_key;
use crate::serve::{HISTORY_PURPOSE, MODULES_DIR};

/// Environment variable with the new master key. The key cannot be an option, because every user of the machine
/// can read command lines.
const NEW_KEY: &str = "KASSETTE_NEW_MASTER_KEY";

/// The options of `kassette compact`.
#[derive(Args)]
pub(in crate::cli) struct CompactArgs {
    #[command(flatten)]
    store: StoppedStore,
    #[command(flatten)]
    attribution: AttributionArgs,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The options of `kassette rekey`.
#[derive(Args)]
pub(in crate::cli) struct RekeyArgs {
    #[command(flatten)]
    store: StoppedStore,
    /// File of mode 0600 with the new master key; KASSETTE_NEW_MASTER_KEY takes precedence.
    #[arg(long, value_name = "FILE")]
    new_key_file: Option<PathBuf>,
    #[command(flatten)]
    attribution: AttributionArgs,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Rewrites the store of a stopped server.
pub(in crate::cli) async fn compact(args: CompactArgs) -> Result<(), String> {
    let asked = args.attribution.asked()?;
    let options = args.store.options()?;
    let path = options.path.clone();
    let compacted = blocking(move || {
        let shown = ProgressOutput::new(None);
        maintenance::compact(&options, asked, &shown, &always).map_err(|error| error.to_string())
    })
    .await?;
    let each = compacted
        .bytes_after
        .checked_div(compacted.payments)
        .map_or_else(String::new, |each| format!(", {each} bytes a payment"));
    let sentence = format!(
        "{}: {} before, {} after; {} payments, {} rows{each}",
        path.display(),
        mib(compacted.bytes_before),
        mib(compacted.bytes_after),
        compacted.payments,
        compacted.rows,
    );
    tell(&compacted, args.json, &sentence)
}

/// Encrypts the secrets in the store of a stopped server with another master key.
pub(in crate::cli) async fn rekey(args: RekeyArgs) -> Result<(), String> {
    let asked = args.attribution.asked()?;
    let options = args.store.options()?;
    let new = new_key(args.new_key_file.as_deref())?;
    let path = options.path.clone();
    let rekeyed = blocking(move || {
        let shown = ProgressOutput::new(None);
        // Wherever this is interrupted, a start finds the histories of modules for either key.
        let folder = options.path.with_file_name(MODULES_DIR);
        let [old_key, new_key] = [&options.master, &new]
            .map(|master| MacKey::from_bytes(master.derive(HISTORY_PURPOSE)));
        let histories = VersionsConfig::new(folder, old_key);
        let unwritten = |error| format!("the histories of modules are not sealed anew: {error}");
        histories.write_next(&new_key).map_err(unwritten)?;
        let rekeyed = maintenance::rekey(&options, &new, asked, &shown, &always)
            .map_err(|error| error.to_string())?;
        histories.take_next().map_err(unwritten)?;
        Ok(rekeyed)
    })
    .await?;
    let sentence = format!(
        "{}: {} of {} rows hold secrets and are sealed under the new master key.\nPut it in the \
         place of the old one before the server is started. Keep the old one for as long as there \
         are backups that were made under it.",
        path.display(),
        rekeyed.resealed.values().sum::<u64>(),
        rekeyed.rows,
    );
    tell(&rekeyed, args.json, &sentence)
}

fn new_key(file: Option<&Path>) -> Result<MasterKey, String> {
    let given = master_key::given(NEW_KEY, file).map_err(|error| error.to_string())?;
    stopped_store::parse(&given.ok_or_else(|| {
        format!(
            "no new master key: set {NEW_KEY} or name a file with --new-key-file (openssl rand -base64 32)"
        )
    })?)
}
