//! What runs by itself: due payments, health probes, last-used times.

use std::future::Future;

use crate::Gateway;
use crate::settings::Settings;

/// Why new settings were refused; the old ones stay.
#[derive(Debug, thiserror::Error)]
pub enum SettingsRefused {
    /// An account with open or unsettled attempts would vanish or change its module or environment.
    #[error(
        "the account {0} has attempts under way and cannot be removed or moved; disable it instead"
    )]
    InUse(String),
    /// An account lacks what its module needs.
    #[error("{0}")]
    Account(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] kassette_store::Fault),
}

impl Gateway {
    /// Runs until `shutdown` resolves; what is in hand is finished first.
    pub async fn run_workers(&self, shutdown: impl Future<Output = ()> + Send) {
        shutdown.await;
        todo!()
    }

    /// Does everything that is due now, and says when nothing is any more: after the clock of `dev`
    /// was moved.
    ///
    /// # Errors
    /// The store's.
    pub async fn do_what_is_due(&self) -> Result<(), kassette_store::Fault> {
        todo!()
    }

    /// Takes new settings, or keeps the old.
    ///
    /// # Errors
    /// See [`SettingsRefused`].
    pub async fn configure(&self, settings: Settings) -> Result<(), SettingsRefused> {
        let _ = settings;
        todo!()
    }
}
