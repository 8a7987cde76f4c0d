//! Taking new settings while payments flow, and the operators' switches.

use kassette_domain::audit::Audited;
use kassette_domain::id::AccountId;
use kassette_domain::provider::ProviderDescription;
use kassette_store::Fault;

use crate::Gateway;
use crate::access::{Configured, lacks, untaken, unusable};
use crate::settings::{Account, Settings};

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
    Store(#[from] Fault),
}

/// What is wrong with accounts, each under its id: what [`Gateway::configure`] would refuse, without a
/// gateway. `describe` knows what modules need; none for a module that is not there.
pub fn settings_problems(
    settings: &Settings,
    describe: impl Fn(&str) -> Option<ProviderDescription>,
) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    for account in settings.accounts.values() {
        let lacking = || describe(&account.module).and_then(|module| lacks(account, &module));
        if let Some(why) = unusable(account).or_else(lacking) {
            problems.push((account.id.to_string(), why));
        }
    }
    problems
}

impl Gateway {
    /// Takes new settings, or keeps the old.
    ///
    /// An account whose module is not loaded is taken: its module may arrive later. What the module
    /// needs is checked again whenever the account is used.
    ///
    /// # Errors
    /// See [`SettingsRefused`].
    pub async fn configure(&self, settings: Settings) -> Result<(), SettingsRefused> {
        let _one = self.inner.configuring.lock().await;
        let (new, wrong) = Configured::new(settings);
        if let Some(why) = wrong.into_iter().next() {
            return Err(SettingsRefused::Account(why));
        }
        for account in new.settings.accounts.values() {
            self.judge_account(account)?;
        }
        let old = self.settings();
        for id in self.store().accounts_in_use().await? {
            let same = |old: &Account, new: &Account| {
                old.module == new.module && old.environment == new.environment
            };
            // One that is missing already was lost before; it must not stop every other change.
            if let Some(before) = old.accounts.get(&id)
                && !new
                    .settings
                    .accounts
                    .get(&id)
                    .is_some_and(|after| same(before, after))
            {
                return Err(SettingsRefused::InUse(id.to_string()));
            }
        }
        let changed = old.accounts.values().filter(|before| {
            let after = new.settings.accounts.get(&before.id);
            !after.is_some_and(|after| same_credentials(before, after))
        });
        for account in changed {
            self.modules().forget_tokens(&account.id);
        }
        let accounts = &new.settings.accounts;
        self.inner.measured.keep(|id| accounts.contains_key(id));
        self.store().set_schedule(new.settings.queries.clone());
        self.inner.configured.store(new.into());
        // New accounts are stale until something is known of them.
        self.probe_due().await;
        Ok(())
    }

    fn judge_account(&self, account: &Account) -> Result<(), SettingsRefused> {
        let Some(module) = self.modules().provider(&account.module) else {
            tracing::warn!(
                provider.id = %account.id, module = %account.module,
                "the account's module is not loaded; it is not used until then"
            );
            return Ok(());
        };
        for method in untaken(account, module.description()) {
            tracing::warn!(
                provider.id = %account.id, method.id = %method, module = %account.module,
                "the account's module does not take the method; it is not offered through the account"
            );
        }
        match lacks(account, module.description()) {
            Some(what) => {
                let why = format!("the account {} {what}", account.id);
                Err(SettingsRefused::Account(why))
            }
            None => Ok(()),
        }
    }

    /// Reads which accounts operators have switched.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn load_switches(&self) -> Result<(), Fault> {
        let switches = self.store().account_switches().await?;
        *self.inner.switches.write() = switches.into_iter().collect();
        Ok(())
    }

    /// Switches an account on or off for new attempts; those under way go on. False where there is no
    /// such account.
    ///
    /// # Errors
    /// The store's.
    pub async fn set_account_enabled(
        &self,
        account: &AccountId,
        enabled: bool,
        audited: Audited,
    ) -> Result<bool, Fault> {
        if !self.settings().accounts.contains_key(account) {
            return Ok(false);
        }
        // One switch at a time, so that memory ends as the store does.
        let _one = self.inner.configuring.lock().await;
        let now = self.now();
        self.store()
            .switch_account(account.clone(), enabled, audited, now)
            .await?;
        self.inner.switches.write().insert(account.clone(), enabled);
        Ok(true)
    }

    /// Whether an account gets new attempts: the operator's switch, else its configuration. False for
    /// an unknown account.
    pub fn account_enabled(&self, account: &AccountId) -> bool {
        let settings = self.settings();
        let configured = settings.accounts.get(account);
        configured.is_some_and(|account| self.is_switched_on(account))
    }

    pub(crate) fn is_switched_on(&self, account: &Account) -> bool {
        let switches = self.inner.switches.read();
        switches
            .get(&account.id)
            .copied()
            .unwrap_or(account.enabled)
    }
}

/// Whether tokens obtained with one form of an account are good for the other.
fn same_credentials(before: &Account, after: &Account) -> bool {
    let secrets = |account: &Account| {
        let each = account.secrets.iter();
        each.map(|secret| (secret.name.clone(), secret.values.clone()))
            .collect::<Vec<_>>()
    };
    before.settings == after.settings && secrets(before) == secrets(after)
}
