//! Figures of payments for the overview: counted in memory, and added to the store's every few seconds.
//!
//! A payment counts in the period in which it was created, and an attempt in the period in which it was opened,
//! whenever they end. So the shares of a period never exceed the whole. What a killed process had counted in its
//! last seconds is lost; sums of money are therefore never taken from here.

use std::collections::BTreeMap;
use std::time::Duration;

use kassette_domain::figures::{Figures, Outcomes};
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{AttemptFate, Change, PaymentAggregate};
use kassette_domain::payment::{Payment, Status};
use kassette_domain::time::Time;
use kassette_store::{Fault, PERIOD, PeriodFigures};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::Gateway;

/// How often counts are stored.
const STORE_EVERY: Duration = Duration::from_secs(2);
/// How often waiting deliveries are counted.
const WAITING_EVERY: u64 = 5;
/// How long figures are stored: two weeks, which the overview compares, and a day.
const RETENTION: Duration = Duration::from_secs(15 * 24 * 3600);

/// Counts that are not stored yet, by environment and start of the period.
#[derive(Debug, Default)]
pub(crate) struct LocalFigures(Mutex<BTreeMap<(Environment, Time), Figures>>);

/// Start of the period that contains a time.
fn period(at: Time) -> Time {
    let length = PERIOD.as_secs();
    Time::from_secs(at.as_secs() / length * length)
}

/// Whether a payment with this status has ended without money.
const fn is_unpaid_end(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Cancelled | Status::Expired)
}

impl Gateway {
    fn count(&self, environment: Environment, at: Time, count: impl FnOnce(&mut Figures)) {
        let mut local = self.inner.figures.0.lock();
        count(local.entry((environment, period(at))).or_default());
    }

    pub(crate) fn count_created(&self, payment: &Payment) {
        self.count(payment.environment, payment.created_at, |figures| {
            figures.created += 1;
        });
    }

    /// Counts what a step has changed.
    pub(crate) fn count_change(&self, aggregate: &PaymentAggregate, change: &Change) {
        let payment = &aggregate.payment;
        let moves = change.transitions.iter();
        for line in moves.filter(|line| line.applied && line.from != line.to) {
            self.count(payment.environment, payment.created_at, |figures| {
                figures.paid += i64::from(line.to == Status::Completed);
                figures.paid -= i64::from(line.from == Status::Completed);
                figures.failed += i64::from(is_unpaid_end(line.to));
                figures.failed -= i64::from(is_unpaid_end(line.from));
            });
        }
        for (id, fate) in &change.resolved {
            let Some(attempt) = aggregate.attempt(*id) else {
                continue;
            };
            let outcomes = match fate {
                AttemptFate::Started(_) => Outcomes {
                    started: 1,
                    paid: 0,
                },
                AttemptFate::Ended(true) => Outcomes {
                    started: 0,
                    paid: 1,
                },
                AttemptFate::Ended(false) => continue,
            };
            self.count(payment.environment, attempt.opened_at, |figures| {
                let (method, account) = (attempt.method.as_str(), attempt.account.as_str());
                let method = figures.methods.entry(method.to_owned()).or_default();
                method.add(outcomes);
                let account = figures.accounts.entry(account.to_owned()).or_default();
                account.outcomes.add(outcomes);
            });
        }
    }

    pub(crate) fn count_start_time(&self, account: &AccountId, took: Duration) {
        let settings = self.settings();
        if let Some(configured) = settings.accounts.get(account) {
            self.count(configured.environment, self.now(), |figures| {
                let account = figures.accounts.entry(account.as_str().to_owned());
                account.or_default().times.count(took);
            });
        }
    }

    /// Adds the counts to the store's regularly until `stop`. What is being added then is finished.
    pub(crate) async fn keep_figures(&self, stop: &CancellationToken) {
        let mut rounds: u64 = 0;
        loop {
            if rounds.is_multiple_of(WAITING_EVERY) {
                self.count_waiting().await;
            }
            rounds += 1;
            self.store_figures().await;
            let pause = tokio::time::sleep(STORE_EVERY);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    async fn count_waiting(&self) {
        // Without an answer, the next one counts.
        let Ok(backlog) = self.store().backlog().await else {
            return;
        };
        if backlog.pending > 0 {
            for environment in [Environment::Live, Environment::Test] {
                self.count(environment, self.now(), |figures| {
                    figures.waiting = figures.waiting.max(backlog.pending);
                });
            }
        }
    }

    /// Adds the counts so far to the store's.
    pub(crate) async fn store_figures(&self) {
        let local = std::mem::take(&mut *self.inner.figures.0.lock());
        if local.is_empty() {
            return;
        }
        let expired = self.now().before(RETENTION);
        // A payment of a period that is no longer stored can still end.
        let added = local
            .into_iter()
            .filter(|((_, begin), _)| *begin >= expired);
        let added = added.map(|((environment, begin), figures)| PeriodFigures {
            environment,
            begin,
            figures,
        });
        let stored = self.store().add_figures(added.collect(), expired).await;
        // Nothing is counted twice: the store may have added them.
        if let Err(fault) = stored {
            tracing::warn!(error = %fault, "the overview lacks some seconds: they were not stored");
        }
    }

    /// The figures of an environment's periods that begin at `since` or later and before `until`, oldest first.
    /// Counts of the last seconds at other nodes are missing.
    ///
    /// # Errors
    /// The store's.
    pub async fn figures(
        &self,
        environment: Environment,
        since: Time,
        until: Time,
    ) -> Result<Vec<(Time, Figures)>, Fault> {
        let stored = self.store().figures(environment, since, until).await?;
        let mut periods: BTreeMap<Time, Figures> = stored.into_iter().collect();
        let local = self.inner.figures.0.lock();
        for ((of, begin), figures) in local.iter() {
            if *of == environment && (since..until).contains(begin) {
                periods.entry(*begin).or_default().add(figures);
            }
        }
        Ok(periods.into_iter().collect())
    }
}
