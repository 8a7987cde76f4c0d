//! The backup that `restore` and `verify` read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use kassette_store::sled::maintenance::BackupSource;

use crate::cli::stopped_store;
use crate::master_key;

/// Environment variable with the master key of the backup. The key cannot be an option, because every user of the
/// machine can read command lines.
const OLD_KEY: &str = "KASSETTE_OLD_MASTER_KEY";

/// Authentication of a backup, in addition to the current master key.
#[derive(Args)]
pub(super) struct BelievedArgs {
    /// File with the master key of the backup, if the key has changed since; KASSETTE_OLD_MASTER_KEY takes
    /// precedence.
    #[arg(long, value_name = "FILE", requires = "file")]
    old_key_file: Option<PathBuf>,
    /// Accept a backup without an authentication code, as made by earlier releases: use it only if the file cannot
    /// have been changed.
    #[arg(long, requires = "file")]
    without_code: bool,
}

/// Input that is read on another thread.
pub(super) type Input = Box<dyn Read + Send>;

impl BelievedArgs {
    /// Opens a path, or standard input for `-`. Returns the length in bytes if it is known.
    pub(super) fn open(self, path: &Path) -> Result<(BackupSource<Input>, Option<u64>), String> {
        let old_key = master_key::given(OLD_KEY, self.old_key_file.as_deref())
            .map_err(|error| error.to_string())?;
        let (input, bytes) = input(path)?;
        let source = BackupSource {
            input,
            old_key: old_key.map(|key| stopped_store::parse(&key)).transpose()?,
            without_code: self.without_code,
        };
        Ok((source, bytes))
    }
}

fn input(path: &Path) -> Result<(Input, Option<u64>), String> {
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
