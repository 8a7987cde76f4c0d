//! Exchange rates file of the operator: read at the start, and again when it was replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kassette_domain::rates::{RateSource, RateTables};
use kassette_gateway::Gateway;

use super::file_watch::{FileIdentity, FileWatch, file_identity};
use crate::config::{Config, ConfigError, Profile, read_rates};

/// Path and identity of the file.
type Seen = (Option<PathBuf>, Option<FileIdentity>);

/// All problems with a rates file.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub(crate) struct RatesRefused(Vec<ConfigError>);

/// The rates file, if one is configured.
pub(super) struct RatesFile {
    path: Option<PathBuf>,
    profile: Profile,
    gateway: Gateway,
    watch: FileWatch<Seen>,
    /// File with the rates in use, for the next start. `written` is its content.
    kept: PathBuf,
    written: Arc<RateTables>,
}

impl RatesFile {
    /// Reads the file at the start.
    ///
    /// # Errors
    /// The problems with the file.
    pub(super) fn begin(
        config: &Config,
        profile: Profile,
        gateway: Gateway,
    ) -> Result<Self, RatesRefused> {
        let path = config.rates_file();
        let kept = config.main.data_dir.join("rates.json");
        if let Some(tables) = recall(&kept) {
            gateway.recall_rates(tables);
        }
        let mut file = Self {
            written: gateway.rates(),
            kept,
            watch: FileWatch::reading(seen(path.clone())),
            path,
            profile,
            gateway,
        };
        file.read_again()?;
        file.keep();
        Ok(file)
    }

    pub(super) const fn is_there(&self) -> bool {
        self.path.is_some()
    }

    /// Writes the rates in use if they have changed, so that a jump is refused after a restart too.
    fn keep(&mut self) {
        let tables = self.gateway.rates();
        if tables == self.written {
            return;
        }
        let text = serde_json::to_vec(&*tables).map_err(std::io::Error::other);
        let written = text.and_then(|text| kassette_files::write(&self.kept, 0o600, &text));
        if let Err(error) = written {
            tracing::warn!("{}: {error}", self.kept.display());
        }
        self.written = tables;
    }

    /// Follows the configuration to another file, or to none.
    pub(super) fn follow(&mut self, path: Option<PathBuf>) {
        self.path = path;
    }

    /// Reads and applies the file. Removes its rates if no file is configured.
    ///
    /// # Errors
    /// The problems with the file. The previous rates stay in use.
    pub(super) fn read_again(&mut self) -> Result<(), RatesRefused> {
        self.watch = FileWatch::reading(seen(self.path.clone()));
        let Some(path) = &self.path else {
            self.gateway.drop_rates(RateSource::File);
            return Ok(());
        };
        let now = self.gateway.clock().now();
        let table = read_rates(path, self.profile, now).map_err(RatesRefused)?;
        self.gateway.take_rates(table);
        Ok(())
    }

    /// Reads the file if it has changed since the last reading and has not changed since the last check. `None` if
    /// there is nothing to read.
    pub(super) fn look(&mut self) -> Option<Result<(), RatesRefused>> {
        self.keep();
        let now = seen(self.path.clone());
        self.watch.look(now).then(|| self.read_again())
    }
}

/// Rates in use before the last stop. `None` if there are none, or if they cannot be read.
fn recall(kept: &Path) -> Option<RateTables> {
    let text = std::fs::read(kept).ok()?;
    match serde_json::from_slice(&text) {
        Ok(tables) => Some(tables),
        Err(error) => {
            tracing::warn!(
                "{}: {error}; new exchange rates are not compared with those of before the start",
                kept.display()
            );
            None
        }
    }
}

fn seen(path: Option<PathBuf>) -> Seen {
    let identity = path.as_deref().and_then(file_identity);
    (path, identity)
}
