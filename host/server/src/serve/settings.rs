//! The gateway's settings, at the start and when the configuration is read again.

use std::collections::BTreeMap;

use kassette_domain::id::AccountId;
use kassette_gateway::settings::{Account, Settings};
use rustix::process::{Resource, getrlimit};

use crate::config::{Config, Profile};

/// Below so many, deliveries take a quarter of what they may take otherwise.
pub(crate) const FEW_FILES: u64 = 4096;

/// How many files this process may open; none: as many as it likes.
pub(super) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The gateway's settings with the simulated accounts beside the configured ones. No event goes to
/// our own origins: those given and the operators' names.
pub(super) fn settings(
    config: &Config,
    public_url: &str,
    own_origins: &[String],
    profile: Profile,
    simulated: Option<&BTreeMap<AccountId, Account>>,
) -> Settings {
    let mut settings = config.settings(public_url, profile);
    for (id, account) in simulated.into_iter().flatten() {
        settings
            .accounts
            .entry(id.clone())
            .or_insert_with(|| account.clone());
    }
    let is_simulated = |account: &Account| account.simulated;
    settings.plain_loopback |= settings.accounts.values().any(is_simulated);
    settings.webhooks.few_files = open_files().is_some_and(|files| files < FEW_FILES);
    let admin_names = config.main.admin_hosts.iter();
    let own = &mut settings.webhooks.own_origins;
    own.extend_from_slice(own_origins);
    own.extend(admin_names.map(|host| format!("https://{host}")));
    settings
}
