//! Settings of the gateway, at the start and after each reload.

use std::collections::BTreeMap;

use kassette_domain::id::AccountId;
use kassette_gateway::settings::{Account, Settings};
use rustix::process::{Resource, getrlimit};

use crate::config::{Config, Profile};

/// Limit of open files below which deliveries may use only a quarter of their usual connections.
pub(crate) const FEW_FILES: u64 = 4096;

/// Number of files that this process may open. `None` for no limit.
pub(super) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Settings of the gateway, with the simulated accounts in addition to the configured ones. Events must not be
/// sent to the server's own origins: `own_origins` and the operators' host names.
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
