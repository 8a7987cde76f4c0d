//! Configured accounts in the form that calls need: hosts are parsed, unusable accounts are left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::{AccountId, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::payment::Payment;
use kassette_domain::provider::{self, AttemptFacts, ProviderDescription};
use kassette_domain::setting;
use kassette_domain::time::Time;
use kassette_http::HostPattern;
use kassette_runtime::Contact;
use url::Url;

use crate::modules::{Access, AccessSecret};
use crate::settings::{Account, Settings};

/// Settings with all derived data. Replaced as a whole.
pub(crate) struct Configured {
    pub(crate) settings: Arc<Settings>,
    /// The accounts whose configuration can be used.
    accounts: BTreeMap<AccountId, Prepared>,
}

/// An account with parsed hosts.
struct Prepared {
    slot: Slot,
    hosts: Vec<HostPattern>,
    redirect_hosts: Vec<HostPattern>,
    secrets: Vec<AccessSecret>,
}

impl Configured {
    /// Prepares settings. Leaves out accounts that cannot be used.
    pub(crate) fn new(settings: Settings) -> Self {
        let prepared = |account: &Account| Some((account.id.clone(), prepare(account).ok()?));
        let accounts = settings.accounts.values().filter_map(prepared).collect();
        let settings = Arc::new(settings);
        Self { settings, accounts }
    }

    pub(crate) fn slot(&self, account: &AccountId) -> Option<&Slot> {
        self.accounts.get(account).map(|prepared| &prepared.slot)
    }

    /// Whether a URL belongs to a provider: whether a module may send requests or payers there.
    pub(crate) fn is_providers(&self, url: &Url) -> bool {
        let mut hosts = self
            .accounts
            .values()
            .flat_map(|prepared| prepared.hosts.iter().chain(&prepared.redirect_hosts));
        hosts.any(|host| host.matches(url))
    }

    /// Data and permissions of an account's module in one call. `None` for an unknown or unusable account.
    pub(crate) fn access(&self, id: &AccountId, now: Time) -> Option<Access> {
        let account = self.settings.accounts.get(id)?;
        let prepared = self.accounts.get(id)?;
        Some(Access {
            account: provider::AccountFacts {
                id: id.clone(),
                environment: account.environment,
                now,
                callback_url: format!("{}/callbacks/{id}", self.settings.public_url),
                settings: account.settings.clone(),
            },
            hosts: prepared.hosts.clone(),
            redirect_hosts: prepared.redirect_hosts.clone(),
            secrets: prepared.secrets.clone(),
            plain_loopback: self.settings.plain_loopback && account.simulated,
            stranger: None,
            not_after: None,
            contact: Contact::default(),
            recorder: None,
        })
    }

    pub(crate) fn facts(
        &self,
        payment: &Payment,
        attempt: &Attempt,
        merchant: String,
    ) -> AttemptFacts {
        let url = &self.settings.public_url;
        let return_url = format!("{url}/return/{}", attempt.return_token.expose());
        AttemptFacts {
            id: attempt.id,
            method: attempt.method,
            due: attempt.due,
            order: payment.order_id.as_str().to_owned(),
            merchant,
            cancel_url: format!("{return_url}?cancel=1"),
            return_url,
            expires: attempt.expires_at,
            payer: attempt.payer.clone(),
            answers: attempt.answers.clone(),
        }
    }
}

fn prepare(account: &Account) -> Result<Prepared, String> {
    let slot = Slot::of_provider(&account.module)
        .ok_or_else(|| format!("{:?} cannot be the name of a module", account.module))?;
    let secrets = account.secrets.iter().map(|secret| {
        // A secret without hosts may be sent to all hosts of the account.
        let hosts = if secret.hosts.is_empty() {
            &account.hosts
        } else {
            &secret.hosts
        };
        Ok(AccessSecret {
            name: secret.name.clone(),
            values: secret.values.clone(),
            hosts: parse_hosts(hosts)?,
        })
    });
    Ok(Prepared {
        slot,
        secrets: secrets.collect::<Result<_, String>>()?,
        hosts: parse_hosts(&account.hosts)?,
        redirect_hosts: parse_hosts(&account.redirect_hosts)?,
    })
}

fn parse_hosts(hosts: &[String]) -> Result<Vec<HostPattern>, String> {
    let parse = |host: &String| host.parse::<HostPattern>().map_err(|no| no.to_string());
    hosts.iter().map(parse).collect()
}

/// Returns why an account cannot be used, regardless of its module's requirements.
pub(crate) fn unusable(account: &Account) -> Option<String> {
    prepare(account).err()
}

/// Settings and secrets that the module requires and the account lacks, one sentence each.
pub(crate) fn lacks(account: &Account, module: &ProviderDescription) -> Vec<String> {
    let settings = setting::missing(&module.settings, &account.settings);
    let settings = settings.into_iter().map(|problem| problem.to_string());
    let has = |name: &str| {
        let mut secrets = account.secrets.iter();
        secrets.any(|secret| secret.name == name && !secret.values.is_empty())
    };
    let secrets = module.secrets.iter();
    let secrets = secrets.filter(|spec| spec.required && !has(&spec.name));
    let secrets = secrets.map(|spec| format!("the secret {} is missing: {}", spec.name, spec.help));
    settings.chain(secrets).collect()
}

/// Methods that an account names and its module does not support, such as misspelt ones.
pub(crate) fn unsupported_methods<'a>(
    account: &'a Account,
    module: &'a ProviderDescription,
) -> impl Iterator<Item = MethodId> + 'a {
    let takes = |method: MethodId| module.services.iter().any(|of| of.method == method);
    account
        .methods
        .keys()
        .copied()
        .filter(move |method| !takes(*method))
}
