//! Health of accounts, measured from starts and queries. Providers' own claims and payers' declines do not
//! count.
//!
//! Decided 2026-11-27: if several nodes serve a database, each uses only its own measurements. With shared
//! figures, a node whose own network fails would take an account away from all others, and their successful
//! calls would keep it in use at that node. The cost: each node finds out separately that a provider fails,
//! with three to six calls that fall back, and probes it.

mod record;
mod refusals;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use kassette_domain::id::{AccountId, AttemptId, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::money::Currency;
use kassette_domain::provider::Condition;
use kassette_domain::routing::{Availability, Health};
use kassette_domain::time::Time;
use kassette_runtime::CallError;
use kassette_store::Fault;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Gateway;
use crate::configured::{lacks, unusable};
pub(crate) use crate::health::record::CallSample;
pub use crate::health::record::UnhealthyReason;
use crate::health::record::{HealthState, Record, UNWELL_PROBE_EVERY};
use crate::health::refusals::Refusals;
pub(crate) use crate::health::refusals::Refused;
use crate::settings::Account;

/// Maximum number of concurrent probes.
const PROBES_AT_ONCE: usize = 32;

/// An account's health, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountHealth {
    /// Figures that routing uses.
    pub health: Health,
    /// Time of the last measurement. `None` if there was none.
    pub checked_at: Option<Time>,
    /// Time since which the account has been in its current condition. `None` if no condition is known.
    pub since: Option<Time>,
    /// Reason why it is unhealthy. `None` if it is healthy.
    pub unwell: Option<UnhealthyReason>,
    /// Detail from the last probe if that is the reason, otherwise empty.
    pub detail: String,
    /// Host of a page that a start wanted to send a payer to and that the account's settings do not allow.
    pub refused_page: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Bounded by the number of configured accounts.
    records: Mutex<HashMap<AccountId, Record>>,
    /// The last refused page of each account. Removed when a later start's page is accepted.
    refused_pages: Mutex<HashMap<AccountId, String>>,
    refusals: Mutex<Refusals>,
    /// Notified when a call finds an account unhealthy: its next probe is then due earlier.
    pub(crate) unwell: Notify,
}

impl Measured {
    /// Records a provider call that a payment needed. Returns the change of health, if any.
    fn call(&self, account: &AccountId, call: CallSample, now: Time) -> Option<HealthState> {
        let mut records = self.records.lock();
        let record = records.entry(account.clone()).or_default();
        record.call(call, now);
        let change = record.change(now);
        if matches!(change, Some((_, Some(_)))) {
            self.unwell.notify_one();
        }
        change
    }

    fn probed(
        &self,
        account: &AccountId,
        found: Option<(Availability, UnhealthyReason)>,
        detail: &str,
        now: Time,
    ) -> Option<HealthState> {
        let mut records = self.records.lock();
        let record = records.entry(account.clone()).or_default();
        record.probed(found, now);
        detail.clone_into(&mut record.detail);
        record.change(now)
    }

    /// Figures that routing uses.
    fn health(&self, account: &AccountId, max_age: Duration, now: Time) -> Health {
        let mut records = self.records.lock();
        let mut unknown = Record::default();
        let record = records.get_mut(account).unwrap_or(&mut unknown);
        record.health(max_age, now)
    }

    fn health_of(&self, account: &AccountId, max_age: Duration, now: Time) -> AccountHealth {
        let mut records = self.records.lock();
        let mut unknown = Record::default();
        let record = records.get_mut(account).unwrap_or(&mut unknown);
        AccountHealth {
            health: record.health(max_age, now),
            checked_at: record.checked_at(),
            since: record.since(),
            unwell: record.unwell(max_age, now),
            detail: record.detail.clone(),
            refused_page: self.refused_pages.lock().get(account).cloned(),
        }
    }

    /// Records that the page of a start was refused, or clears the record (`None`) if it was accepted.
    pub(crate) fn note_page(&self, account: &AccountId, refused: Option<&str>) {
        let mut pages = self.refused_pages.lock();
        match refused {
            Some(page) => drop(pages.insert(account.clone(), page.to_owned())),
            None if pages.is_empty() => {}
            None => drop(pages.remove(account)),
        }
    }

    /// Records that the account refused a method that is not activated there. Returns whether the method is
    /// now omitted.
    pub(crate) fn method_refused(&self, what: Refused, now: Time) -> bool {
        self.refusals.lock().refused(what, now)
    }

    /// Records that the account accepted a method. Returns whether the work list may contain an entry about
    /// it.
    pub(crate) fn method_taken(&self, what: &Refused) -> bool {
        self.refusals.lock().took(what)
    }

    /// Methods and currencies that are omitted at an account.
    pub(crate) fn omitted(&self, account: &AccountId, now: Time) -> Vec<(MethodId, Currency)> {
        self.refusals.lock().omitted(account, now)
    }

    /// Sets the refused methods that are on the work list.
    pub(crate) fn set_refusals_listed(&self, listed: HashSet<AttemptId>) {
        self.refusals.lock().set_listed(listed);
    }

    /// Time of an account's next probe.
    fn probe_due(&self, account: &AccountId, every: Duration, max_age: Duration) -> Time {
        let records = self.records.lock();
        let record = records.get(account);
        record.map_or(Time::default(), |record| record.probe_due(every, max_age))
    }

    /// Removes accounts that are no longer configured, and all refused pages, because the configuration may
    /// now allow them.
    pub(crate) fn keep(&self, configured: impl Fn(&AccountId) -> bool) {
        self.records.lock().retain(|account, _| configured(account));
        self.refused_pages.lock().clear();
        self.refusals.lock().keep(configured);
    }
}

impl Gateway {
    /// Returns the health of an account.
    pub fn account_health(&self, account: &AccountId) -> AccountHealth {
        let max_age = self.settings().health_max_age;
        let health = self.inner.measured.health_of(account, max_age, self.now());
        let configured = self.configured();
        let environment = configured.settings.accounts.get(account);
        let environment = environment.map(|account| account.environment);
        let module = configured.slot(account).zip(environment);
        let module = module
            .and_then(|(slot, environment)| self.modules().provider(slot.name(), environment));
        let unwell = match health.unwell {
            Some(UnhealthyReason::Unchecked) if module.is_none() => Some(UnhealthyReason::Module),
            None if health.refused_page.is_some() => Some(UnhealthyReason::Misconfigured),
            unwell => unwell,
        };
        AccountHealth { unwell, ..health }
    }

    /// Whether the slot of an account's module is disabled.
    pub(crate) fn is_slot_disabled(&self, account: &Account) -> bool {
        let slot = Slot::of_provider(&account.module);
        slot.is_some_and(|slot| self.modules().is_disabled(&slot))
    }

    /// Reasons why an account gets no new attempts or is unhealthy, one sentence each. Empty if it is
    /// healthy. Does not cover whether the account is switched on.
    pub fn account_troubles(&self, account: &Account, health: &AccountHealth) -> Vec<String> {
        let mut troubles = Vec::new();
        let unusable = unusable(account);
        let slot = Slot::of_provider(&account.module).filter(|_| unusable.is_none());
        let Some(slot) = slot else {
            return unusable.into_iter().collect();
        };
        if self.is_slot_disabled(account) {
            troubles.push(format!("the slot {slot} is disabled"));
        }
        match self.modules().provider(slot.name(), account.environment) {
            Some(module) => troubles.extend(lacks(account, module.description())),
            None => troubles.push(self.why_no_module(&slot)),
        }
        if !troubles.is_empty() {
            return troubles;
        }
        if let Some(page) = &health.refused_page {
            troubles.push(format!(
                "a page for payers leads to {page}: redirect_hosts of the account do not allow it"
            ));
        }
        let said = match health.unwell {
            None | Some(UnhealthyReason::Misconfigured) => return troubles,
            Some(UnhealthyReason::Unchecked) => "nothing recent is known of it",
            Some(UnhealthyReason::Vendor) => "its vendor says so",
            Some(UnhealthyReason::NoAnswer) => "its vendor did not answer in time",
            Some(UnhealthyReason::Module) => "its module failed when it was asked",
            Some(UnhealthyReason::Calls) => "calls that payments needed failed",
        };
        troubles.push(match (health.unwell, health.detail.as_str()) {
            (Some(UnhealthyReason::Vendor | UnhealthyReason::Module), detail)
                if !detail.is_empty() =>
            {
                format!("{said}: {detail}")
            }
            _ => said.to_owned(),
        });
        troubles
    }

    fn why_no_module(&self, slot: &Slot) -> String {
        let statuses = self.runtime().map(|runtime| runtime.slots());
        let mut statuses = statuses.into_iter().flatten();
        let status = statuses.find(|status| status.slot == *slot);
        match status.and_then(|status| status.last_error) {
            Some(why) => format!("no module serves in {slot}: {why}"),
            None => format!("no module serves in {slot}: put {slot}.wasm into the plugin folder"),
        }
    }

    /// Figures that routing uses, for callers that already know the maximum age and the time.
    pub(crate) fn measured_health(
        &self,
        account: &AccountId,
        max_age: Duration,
        now: Time,
    ) -> Health {
        self.inner.measured.health(account, max_age, now)
    }

    /// Prepares for serving: reads the operators' switches and the work list, and probes every account so
    /// that none is stale.
    ///
    /// # Errors
    /// The store's.
    pub async fn warm_up(&self) -> Result<(), Fault> {
        self.switches().await?;
        self.count_work().await?;
        self.probe_all().await;
        Ok(())
    }

    /// Probes every account, with a limited number of concurrent probes.
    pub async fn probe_all(&self) {
        let accounts: Vec<_> = self.settings().accounts.keys().cloned().collect();
        self.probe(accounts).await;
    }

    /// Probes the accounts that are due. Returns the time at which the next one is due.
    pub(crate) async fn probe_due(&self) -> Time {
        let settings = self.settings();
        let due = |account: &AccountId| {
            let (every, max_age) = (settings.health_probe_every, settings.health_max_age);
            self.inner.measured.probe_due(account, every, max_age)
        };
        let now = self.now();
        let accounts = settings.accounts.keys();
        let late: Vec<_> = accounts.filter(|id| due(id) <= now).cloned().collect();
        self.probe(late).await;
        let next = settings.accounts.keys().map(due).min();
        // An account without a module stays due; it is tried again after this pause.
        let soon = now.after(UNWELL_PROBE_EVERY.min(settings.health_probe_every));
        next.unwrap_or(now.after(settings.health_probe_every))
            .max(soon)
    }

    async fn probe(&self, accounts: Vec<AccountId>) {
        stream::iter(accounts)
            .for_each_concurrent(PROBES_AT_ONCE, |account| async move {
                self.probe_one(&account).await;
            })
            .await;
    }

    async fn probe_one(&self, account: &AccountId) {
        let configured = self.configured();
        let Some(access) = configured.access(account, self.now()) else {
            return;
        };
        let environment = access.account.environment;
        let Some(module) = configured
            .slot(account)
            .and_then(|slot| self.modules().provider(slot.name(), environment))
        else {
            return;
        };
        let since = Instant::now();
        let deadline = configured.settings.provider_deadline;
        let answer = tokio::time::timeout(deadline, module.health(&access)).await;
        let (found, detail) = match answer {
            Ok(Ok(Condition::Operational)) => (None, String::new()),
            Ok(Ok(Condition::Degraded(why))) => {
                (Some((Availability::Degraded, UnhealthyReason::Vendor)), why)
            }
            Ok(Ok(Condition::Down(why))) => {
                (Some((Availability::Down, UnhealthyReason::Vendor)), why)
            }
            Ok(Err(CallError::Timeout)) | Err(_) => {
                let silent = (Availability::Down, UnhealthyReason::NoAnswer);
                (Some(silent), "no answer in time".to_owned())
            }
            Ok(Err(failed)) => (
                Some((Availability::Down, UnhealthyReason::Module)),
                failed.to_string(),
            ),
        };
        tracing::debug!(
            provider.id = %account, probe.duration_ms = since.elapsed().as_millis(),
            probe.well = found.is_none(), probe.detail = %detail, "a provider was probed"
        );
        let change = self
            .inner
            .measured
            .probed(account, found, &detail, self.now());
        tell(account, change, &detail);
    }

    pub(crate) fn note_call(&self, account: &AccountId, call: CallSample) {
        let change = self.inner.measured.call(account, call, self.now());
        tell(account, change, "");
    }
}

/// Logs that an account became unhealthy or healthy again: once per change, regardless of the number of
/// probes.
fn tell(account: &AccountId, change: Option<HealthState>, detail: &str) {
    match change {
        None => {}
        Some((_, None)) => {
            tracing::info!(provider.id = %account, "the provider account is well again");
        }
        Some((status, Some(why))) => tracing::warn!(
            provider.id = %account, provider.state = status.as_str(), provider.reason = why.as_str(),
            probe.detail = %detail, "the provider account is not well"
        ),
    }
}
