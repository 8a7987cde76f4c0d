//! The operator's file of exchange rates: read at the start, and again when it was replaced.

use std::path::PathBuf;

use kassette_domain::rates::RateSource;
use kassette_gateway::Gateway;

use super::file_watch::{FileIdentity, FileWatch, file_identity};
use crate::config::{Config, ConfigError, Profile, read_rates};

/// Where it stands, and as it was found there.
type Seen = (Option<PathBuf>, Option<FileIdentity>);

/// Everything that is wrong with a file of exchange rates.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub(crate) struct RatesRefused(Vec<ConfigError>);

/// The file of exchange rates, where there is one.
pub(super) struct RatesFile {
    path: Option<PathBuf>,
    profile: Profile,
    gateway: Gateway,
    watch: FileWatch<Seen>,
}

impl RatesFile {
    /// Reads it at the start.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn begin(
        config: &Config,
        profile: Profile,
        gateway: Gateway,
    ) -> Result<Self, RatesRefused> {
        let path = config.rates_file();
        let mut file = Self {
            watch: FileWatch::reading(seen(path.clone())),
            path,
            profile,
            gateway,
        };
        file.read_again()?;
        Ok(file)
    }

    pub(super) const fn is_there(&self) -> bool {
        self.path.is_some()
    }

    /// Follows the configuration to another file, or to none.
    pub(super) fn follow(&mut self, path: Option<PathBuf>) {
        self.path = path;
    }

    /// Reads it and takes it over.
    ///
    /// # Errors
    /// What is wrong with it; the rates of before stay.
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

    /// The same where it is another than at the last reading, and as it was at the last look; none where
    /// there is nothing to read.
    pub(super) fn look(&mut self) -> Option<Result<(), RatesRefused>> {
        let now = seen(self.path.clone());
        self.watch.look(now).then(|| self.read_again())
    }
}

fn seen(path: Option<PathBuf>) -> Seen {
    let identity = path.as_deref().and_then(file_identity);
    (path, identity)
}
