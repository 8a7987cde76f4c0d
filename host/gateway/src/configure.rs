//! Changing the settings of a running gateway, and the operators' account switches.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::provider::{ProviderDescription, SecretSpec};
use kassette_domain::setting::{self, SettingProblem, SettingSpec, Surroundings, missing, unknown};
use kassette_runtime::{Acceptance, CallError, OpenedModule};
use kassette_store::Fault;

use crate::configured::{Configured, lacks, unsupported_methods, unusable};
use crate::modules::Modules;
use crate::settings::{Account, Settings};
use crate::{Gateway, Inner};

/// Reason why new settings were refused. The old ones stay in use.
#[derive(Debug, thiserror::Error)]
pub enum SettingsRefused {
    /// An account with open or unsettled attempts would be removed, or change its module or environment.
    #[error(
        "the account {0} has attempts under way and cannot be removed or moved; disable it instead"
    )]
    InUse(String),
    /// Settings that modules reject, or accounts that cannot be used.
    #[error("{}", listed(.0))]
    Problems(Vec<SettingsProblem>),
    #[error(transparent)]
    Store(#[from] Fault),
}

fn listed(problems: &[SettingsProblem]) -> String {
    let each: Vec<String> = problems.iter().map(ToString::to_string).collect();
    each.join("; ")
}

/// A problem in the file of a method or an account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of}: {why}")]
pub struct SettingsProblem {
    pub of: SettingsFile,
    /// The problem and its remedy.
    pub why: String,
}

/// A configuration file that a module checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsFile {
    Account(AccountId),
    Method(MethodId),
}

impl fmt::Display for SettingsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(id) => write!(f, "the account {id}"),
            Self::Method(id) => write!(f, "the method {id}"),
        }
    }
}

/// Returns everything that [`Gateway::configure`] would reject in these files; needs no gateway. Checks that
/// need a module are skipped if the module, or all of `modules`, is missing. Calls modules, which takes
/// milliseconds each if a module is interpreted. Settings may also refer to the accounts in `beside`.
pub fn settings_problems(
    settings: &Settings,
    beside: &[AccountId],
    modules: Option<&dyn Modules>,
) -> Vec<SettingsProblem> {
    let is_account = |id: &str| {
        let known = |id: &AccountId| settings.accounts.contains_key(id) || beside.contains(id);
        AccountId::parse(id).is_ok_and(|id| known(&id))
    };
    let methods = settings.methods.iter().flat_map(|(method, own)| {
        let module = modules.and_then(|modules| modules.method(*method, Environment::Live));
        let problems = module.map(|module| {
            let specs = &module.description().settings;
            let judge = || module.check_settings(own);
            let problems = violations(specs, own, &is_account, false, judge);
            let lacking = problem_texts(missing(specs, own));
            problems.into_iter().chain(lacking)
        });
        problems.into_iter().flatten().map(|why| SettingsProblem {
            of: SettingsFile::Method(*method),
            why,
        })
    });
    let accounts = settings.accounts.values().flat_map(|account| {
        let module =
            modules.and_then(|modules| modules.provider(&account.module, account.environment));
        let problems = module.map(|module| {
            let judge = || module.check_settings(account.environment, &account.settings);
            let mut problems =
                account_violations(account, &is_account, module.description(), judge);
            problems.extend(lacks(account, module.description()));
            problems
        });
        let problems = unusable(account)
            .into_iter()
            .chain(problems.into_iter().flatten());
        problems.map(|why| SettingsProblem {
            of: SettingsFile::Account(account.id.clone()),
            why,
        })
    });
    methods.chain(accounts).collect()
}

/// Returns why a module must not replace the active one: it rejects settings of the running configuration. A
/// missing required setting is no reason, because operators can add it only after the module is installed.
fn violation(settings: &Settings, module: &OpenedModule) -> Option<SettingsProblem> {
    let accounts = &settings.accounts;
    let is_account = |id: &str| AccountId::parse(id).is_ok_and(|id| accounts.contains_key(&id));
    match module {
        OpenedModule::Method(module) => {
            let method = module.description().id;
            let own = settings.methods.get(&method)?;
            let judge = || module.check_settings(own);
            let specs = &module.description().settings;
            let problems = violations(specs, own, &is_account, false, judge);
            problems.into_iter().next().map(|why| SettingsProblem {
                of: SettingsFile::Method(method),
                why,
            })
        }
        OpenedModule::Provider(module) => {
            let id = &module.description().id;
            let mut accounts = accounts.values().filter(|account| account.module == *id);
            accounts.find_map(|account| {
                let judge = || module.check_settings(account.environment, &account.settings);
                let problems =
                    account_violations(account, &is_account, module.description(), judge);
                problems.into_iter().next().map(|why| SettingsProblem {
                    of: SettingsFile::Account(account.id.clone()),
                    why,
                })
            })
        }
    }
}

/// Settings and secrets of an account that its module rejects.
fn account_violations(
    account: &Account,
    is_account: &dyn Fn(&str) -> bool,
    module: &ProviderDescription,
    judge: impl FnOnce() -> Result<Result<(), String>, CallError>,
) -> Vec<String> {
    let (specs, own) = (&module.settings, &account.settings);
    let mut problems = violations(specs, own, is_account, account.simulated, judge);
    for secret in &account.secrets {
        let name = &secret.name;
        let is_key = |spec: &SecretSpec| {
            let mut values = secret.values.iter();
            values.all(|value| spec.encoding.key(value).is_some())
        };
        match module.secrets.iter().find(|spec| spec.name == *name) {
            None => {
                let known = module.secrets.iter().map(|spec| spec.name.as_str());
                problems.push(format!("the secret {name} {}", unknown(name, known)));
            }
            Some(spec) if !is_key(spec) => {
                let wanted = spec.encoding.words();
                problems.push(format!("the secret {name} must be {wanted}: {}", spec.help));
            }
            Some(_) => {}
        }
    }
    for method in unsupported_methods(account, module) {
        let known = module
            .services
            .iter()
            .map(|service| service.method.as_str());
        let why = unknown(method.as_str(), known);
        problems.push(format!("the method methods.{method} {why}"));
    }
    problems
}

fn problem_texts(problems: Vec<SettingProblem>) -> impl Iterator<Item = String> {
    problems.into_iter().map(|problem| problem.to_string())
}

/// Settings that a module rejects: checked one by one and, if each is valid, together.
pub(crate) fn violations(
    specs: &[SettingSpec],
    own: &[(String, String)],
    is_account: &dyn Fn(&str) -> bool,
    plain_http: bool,
    judge: impl FnOnce() -> Result<Result<(), String>, CallError>,
) -> Vec<String> {
    let surroundings = Surroundings {
        is_account,
        plain_http,
    };
    let violations = setting::violations(specs, own, &surroundings);
    if !violations.is_empty() {
        return problem_texts(violations).collect();
    }
    match judge() {
        Ok(Ok(())) => Vec::new(),
        Ok(Err(why)) => vec![why],
        Err(error) => vec![format!("its module cannot judge its settings: {error}")],
    }
}

/// Returns the check for modules that are to replace others: they must accept the running configuration.
/// Accepts everything after the gateway has been dropped.
pub(crate) fn acceptance(gateway: &Arc<Inner>) -> Acceptance {
    let gateway = Arc::downgrade(gateway);
    Arc::new(move |module| {
        let Some(gateway) = gateway.upgrade() else {
            return Ok(());
        };
        let settings = Arc::clone(&gateway.configured.load().settings);
        match violation(&settings, module) {
            None => Ok(()),
            Some(problem) => Err(format!("it does not take what is configured: {problem}")),
        }
    })
}

impl Gateway {
    /// Replaces the settings, or keeps the old ones if the new ones are refused.
    ///
    /// An account or method whose module is not loaded is accepted, because the module may arrive later.
    /// Required settings and secrets are checked again whenever the account is used.
    ///
    /// # Errors
    /// See [`SettingsRefused`].
    pub async fn configure(&self, settings: Settings) -> Result<(), SettingsRefused> {
        let _one = self.inner.configuring.lock().await;
        let modules = Arc::clone(&self.inner.modules);
        let judged = tokio::task::spawn_blocking(move || {
            let problems = settings_problems(&settings, &[], Some(&*modules));
            (settings, problems)
        });
        let (settings, problems) = judged.await.map_err(|_| Fault::Stopping)?;
        if !problems.is_empty() {
            return Err(SettingsRefused::Problems(problems));
        }
        for account in settings.accounts.values() {
            let module = self
                .modules()
                .provider(&account.module, account.environment);
            if module.is_none() {
                tracing::warn!(
                    provider.id = %account.id, module = %account.module,
                    "the account's module is not loaded; it is not used until then"
                );
            }
        }
        let new = Configured::new(settings);
        let old = self.settings();
        for id in self.store().accounts_in_use().await? {
            let same = |old: &Account, new: &Account| {
                old.module == new.module && old.environment == new.environment
            };
            // If the account is missing already, it was lost earlier. That must not block all other changes.
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
        // New accounts count as stale until they are probed.
        self.probe_due().await;
        Ok(())
    }

    /// Returns the accounts that operators have switched off. After a switch was confirmed, every node sees
    /// it.
    ///
    /// # Errors
    /// The store's.
    pub async fn switches(&self) -> Result<Arc<Switches>, Fault> {
        // Read first: data that is read afterwards is at least as new as this version.
        let version = self.store().directory_version();
        let known = self.inner.switches.load_full();
        if version.is_some() && known.version == version {
            return Ok(known);
        }
        let of = self.store().account_switches().await?;
        let off = of.into_iter().filter(|(_, enabled)| !enabled);
        let off = off.map(|(account, _)| account).collect();
        let read = Arc::new(Switches { version, off });
        self.inner.switches.store(Arc::clone(&read));
        Ok(read)
    }

    /// Switches an account off for new attempts, or removes the switch. Open attempts continue. False if the
    /// account does not exist.
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
        let now = self.now();
        self.store()
            .switch_account(account.clone(), enabled, audited, now)
            .await?;
        self.switches().await?;
        Ok(true)
    }

    /// Whether an account gets new attempts: it is off if its file or the operators' switch, as last read by
    /// [`Gateway::switches`], says so. False for an unknown account.
    pub fn account_enabled(&self, account: &AccountId) -> bool {
        let settings = self.settings();
        let configured = settings.accounts.get(account);
        configured.is_some_and(|account| self.inner.switches.load().is_on(account))
    }
}

/// Accounts that operators have switched off.
#[derive(Debug, Default)]
pub struct Switches {
    /// Version of the directory at which they were read.
    version: Option<u64>,
    off: HashSet<AccountId>,
}

impl Switches {
    /// Whether an account gets new attempts: it is off if its file or the switch says so.
    pub(crate) fn is_on(&self, account: &Account) -> bool {
        account.enabled && !self.is_off(&account.id)
    }

    /// Whether operators have switched an account off, regardless of its file.
    pub fn is_off(&self, account: &AccountId) -> bool {
        self.off.contains(account)
    }
}

/// Whether tokens that were obtained with one version of an account are valid for the other.
fn same_credentials(before: &Account, after: &Account) -> bool {
    let secrets = |account: &Account| {
        let each = account.secrets.iter();
        each.map(|secret| (secret.name.clone(), secret.values.clone()))
            .collect::<Vec<_>>()
    };
    before.settings == after.settings && secrets(before) == secrets(after)
}
