//! What the host measured of each account: starts and questions, never what a vendor claims, and
//! never a payer's decline.
//!
//! Decided 2026-11-27: where several nodes serve a database, each goes by what it measured itself. Were the figures
//! added up, a node whose own way out fails would take an account from all others, and their calls that work would keep
//! it in use at that node. What it costs: each node finds out by itself that a vendor fails, three to six calls that
//! fall back, and probes it.

mod record;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use kassette_domain::id::{AccountId, Slot};
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
use crate::settings::Account;

/// Probes under way at once.
const PROBES_AT_ONCE: usize = 32;

/// An account's health for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountHealth {
    /// The figures that routing sees.
    pub health: Health,
    /// When something was last learnt; none: never.
    pub checked_at: Option<Time>,
    /// Why it is not well; none where it is.
    pub unwell: Option<UnhealthyReason>,
    /// What the last probe was told, where that is why; else empty.
    pub detail: String,
}

/// The records of all accounts.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Bounded by the accounts of the configuration.
    records: Mutex<HashMap<AccountId, Record>>,
    /// Rings where a call finds an account that is not well any more: its probe is due sooner then.
    pub(crate) unwell: Notify,
}

impl Measured {
    /// Notes a call to a vendor that a payment needed; what it changes, if anything.
    fn call(&self, account: &AccountId, call: CallSample, now: Time) -> Option<HealthState> {
        let mut records = self.records.lock();
        let record = records.entry(account.clone()).or_default();
        record.call(call, now);
        let change = record.change();
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
        record.change()
    }

    /// The figures that routing sees.
    fn health(&self, account: &AccountId, max_age: Duration, now: Time) -> Health {
        let mut records = self.records.lock();
        let mut unknown = Record::default();
        let record = records.get_mut(account).unwrap_or(&mut unknown);
        record.health(max_age, now)
    }

    fn of(&self, account: &AccountId, max_age: Duration, now: Time) -> AccountHealth {
        let mut records = self.records.lock();
        let mut unknown = Record::default();
        let record = records.get_mut(account).unwrap_or(&mut unknown);
        AccountHealth {
            health: record.health(max_age, now),
            checked_at: record.checked_at(),
            unwell: record.unwell(max_age, now),
            detail: record.detail.clone(),
        }
    }

    /// When an account is to be probed next.
    fn probe_due(&self, account: &AccountId, every: Duration, max_age: Duration) -> Time {
        let records = self.records.lock();
        let record = records.get(account);
        record.map_or(Time::default(), |record| record.probe_due(every, max_age))
    }

    /// Forgets accounts that are no longer configured.
    pub(crate) fn keep(&self, configured: impl Fn(&AccountId) -> bool) {
        self.records.lock().retain(|account, _| configured(account));
    }
}

impl Gateway {
    /// What is known of an account.
    pub fn account_health(&self, account: &AccountId) -> AccountHealth {
        let max_age = self.settings().health_max_age;
        let health = self.inner.measured.of(account, max_age, self.now());
        let configured = self.configured();
        let module = configured
            .slot(account)
            .and_then(|slot| self.modules().provider(slot.name()));
        let unwell = match health.unwell {
            Some(UnhealthyReason::Unchecked) if module.is_none() => Some(UnhealthyReason::Module),
            unwell => unwell,
        };
        AccountHealth { unwell, ..health }
    }

    /// Whether the slot of an account's module is switched off.
    pub(crate) fn is_slot_disabled(&self, account: &Account) -> bool {
        let slot = Slot::of_provider(&account.module);
        slot.is_some_and(|slot| self.modules().is_disabled(&slot))
    }

    /// Why an account gets no new attempts, or fares badly: a sentence each, none where it is well. Whether it
    /// is switched on is no part of it.
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
        match self.modules().provider(slot.name()) {
            Some(module) => troubles.extend(lacks(account, module.description())),
            None => troubles.push(self.why_no_module(&slot)),
        }
        if !troubles.is_empty() {
            return troubles;
        }
        let said = match health.unwell {
            None => return troubles,
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

    /// The figures that routing sees, for callers who know age and time already.
    pub(crate) fn measured_health(
        &self,
        account: &AccountId,
        max_age: Duration,
        now: Time,
    ) -> Health {
        self.inner.measured.health(account, max_age, now)
    }

    /// Gets ready to serve: reads the operators' switches, and probes every account so that none is
    /// stale.
    ///
    /// # Errors
    /// The store's.
    pub async fn warm_up(&self) -> Result<(), Fault> {
        self.switches().await?;
        self.probe_all().await;
        Ok(())
    }

    /// Probes every account, a bounded number at once.
    pub async fn probe_all(&self) {
        let accounts: Vec<_> = self.settings().accounts.keys().cloned().collect();
        self.probe(accounts).await;
    }

    /// Probes the accounts whose time has come; says when the next one's does.
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
        // An account whose module is missing stays due: it is looked at again in its turn.
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
        let Some(module) = configured
            .slot(account)
            .and_then(|slot| self.modules().provider(slot.name()))
        else {
            return;
        };
        let Some(access) = configured.access(account, self.now()) else {
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

    /// Notes a call to a vendor that a payment needed.
    pub(crate) fn note_call(&self, account: &AccountId, call: CallSample) {
        let change = self.inner.measured.call(account, call, self.now());
        tell(account, change, "");
    }
}

/// Tells the log that an account is not well, or is well again: once for each time, however often it is
/// probed meanwhile.
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
