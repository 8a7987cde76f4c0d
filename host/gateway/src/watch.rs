//! Metrics and log lines about payments, accounts and the work list.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kassette_domain::event::EventType;
use kassette_domain::id::AccountId;
use kassette_domain::lifecycle::{Change, NewEvent, PaymentAggregate, Transition};
use kassette_domain::payment::Status;
use kassette_domain::routing::Availability;
use kassette_domain::work::WorkKind;
use kassette_store::{Fault, Listed, Paging};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Gateway;
use crate::configure::Switches;
use crate::health::UnhealthyReason;
use crate::settings::Account;

/// Value of the label `environment` if the environment is not known.
pub(crate) const NO_ENVIRONMENT: &str = "unknown";
/// Minimum time between two counts of the work list, regardless of how often it is requested.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of work items that are counted.
const COUNTED_MOST: usize = 10_000;
/// Number of work items read per page.
const PAGE: usize = 100;

/// Last values of the gauges, so that gauges of removed objects are reset.
#[derive(Debug, Default)]
pub(crate) struct LastGauges {
    accounts: Mutex<HashMap<AccountId, &'static str>>,
    work: tokio::sync::Mutex<Work>,
}

/// Open work items by kind and environment.
#[derive(Debug, Default)]
struct Work {
    counted: Option<Instant>,
    lines: HashMap<(WorkKind, &'static str), usize>,
}

impl Gateway {
    /// Counts the changes of a step, and logs the end of a payment.
    pub(crate) async fn tell_of(&self, aggregate: &PaymentAggregate, change: &Change) {
        let payment = &aggregate.payment;
        let environment = payment.environment.as_str();
        let applied = change.transitions.iter().filter(|each| each.applied);
        let (mut ended, mut review) = (false, false);
        for Transition { from, to, .. } in applied {
            metrics::counter!(
                "kassette_transitions_total",
                "to" => to.as_str(), "environment" => environment
            )
            .increment(1);
            ended |= from != to && to.is_final();
            review |= from != to && (*from == Status::Review || *to == Status::Review);
        }
        if review {
            self.note_review(payment).await;
        }
        let is_completion = |told: &NewEvent| told.kind == EventType::PaymentCompleted;
        if ended {
            tell(aggregate, "a payment has ended");
        } else if change.events.iter().any(is_completion) {
            tell(aggregate, "the money of a completed payment is confirmed");
        }
    }

    /// `live` or `test` as a label. `unknown` for an account that is not configured.
    pub fn environment_of(&self, account: &AccountId) -> &'static str {
        let settings = self.settings();
        let account = settings.accounts.get(account);
        account.map_or(NO_ENVIRONMENT, |account| account.environment.as_str())
    }

    /// Sets all gauges that are not updated continuously. Called before they are read.
    ///
    /// # Errors
    /// The store's. The gauges that could not be read keep their values.
    pub async fn set_gauges(&self) -> Result<(), Fault> {
        let known = self.switches().await;
        let switches = known.unwrap_or_else(|_| self.inner.switches.load_full());
        self.measure_accounts(&switches);
        self.measure_reviews().await;
        self.measure_deliveries().await?;
        self.measure_work().await
    }

    /// Sets the gauges of accounts: whether each is healthy, why not, and whether it is switched on.
    fn measure_accounts(&self, switches: &Switches) {
        let settings = self.settings();
        let mut shown = self.inner.shown.accounts.lock();
        for (account, environment) in shown.drain() {
            let is_it = |now: &Account| now.environment.as_str() == environment;
            if !settings.accounts.get(&account).is_some_and(is_it) {
                show_account(&account, environment, None);
            }
        }
        for account in settings.accounts.values() {
            let environment = account.environment.as_str();
            let observed = self.account_health(&account.id);
            let is_on = switches.is_on(account) && !self.is_slot_disabled(account);
            let now = (observed.health.status, observed.unwell, is_on);
            show_account(&account.id, environment, Some(now));
            shown.insert(account.id.clone(), environment);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    async fn measure_reviews(&self) {
        for (environment, count) in self.reviews().await.into_iter().flatten() {
            let environment = environment.as_str();
            metrics::gauge!("kassette_payments_in_review", "environment" => environment)
                .set(count as f64);
        }
    }

    /// Counts open work items, up to [`COUNTED_MOST`].
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    async fn measure_work(&self) -> Result<(), Fault> {
        let mut work = self.inner.shown.work.lock().await;
        if work.counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return Ok(());
        }
        let lines = self.count_work().await?;
        // Kinds without items are set to zero.
        let before = std::mem::take(&mut work.lines).into_keys();
        let gone = before
            .map(|key| (key, 0))
            .filter(|(key, _)| !lines.contains_key(key));
        let now = lines.iter().map(|(key, count)| (*key, *count));
        for ((kind, environment), count) in gone.chain(now) {
            let labels = [("kind", kind.as_str()), ("environment", environment)];
            metrics::gauge!("kassette_work_open", &labels).set(count as f64);
        }
        work.lines = lines;
        work.counted = Some(Instant::now());
        Ok(())
    }

    pub(crate) async fn count_work(
        &self,
    ) -> Result<HashMap<(WorkKind, &'static str), usize>, Fault> {
        let none = |kind| ["live", "test"].map(|environment| ((kind, environment), 0));
        let mut lines: HashMap<_, _> = WorkKind::ALL.into_iter().flat_map(none).collect();
        let (mut counted, mut cursor, mut refused) = (0, None, HashSet::new());
        while counted < COUNTED_MOST {
            let paging = Paging {
                limit: PAGE,
                cursor,
            };
            let Listed::Page(page) = self.store().work(true, paging).await? else {
                break;
            };
            for line in &page.items {
                let key = (line.key.kind, line.environment.as_str());
                *lines.entry(key).or_default() += 1;
                if line.key.kind == WorkKind::MethodRefused {
                    refused.insert(line.key.attempt);
                }
            }
            counted += page.items.len();
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        self.inner.measured.set_refusals_listed(refused);
        Ok(lines)
    }
}

/// Sets the gauges of an account. `None` resets those of a removed one.
fn show_account(
    account: &AccountId,
    environment: &'static str,
    now: Option<(Availability, Option<UnhealthyReason>, bool)>,
) {
    let set = |name: &'static str, more: Option<(&'static str, &'static str)>, on: bool| {
        let mut labels = vec![
            ("provider", account.as_str().to_owned()),
            ("environment", environment.to_owned()),
        ];
        labels.extend(more.map(|(label, value)| (label, value.to_owned())));
        metrics::gauge!(name, &labels).set(if on { 1.0 } else { 0.0 });
    };
    let (status, unwell) = (now.map(|now| now.0), now.and_then(|now| now.1));
    for each in Availability::ALL {
        let state = Some(("state", each.as_str()));
        set("kassette_provider_health", state, status == Some(each));
    }
    for each in UnhealthyReason::ALL {
        let reason = Some(("reason", each.as_str()));
        set("kassette_provider_unwell", reason, unwell == Some(each));
    }
    let is_on = now.is_some_and(|(.., is_on)| is_on);
    set("kassette_provider_enabled", None, is_on);
}

/// Logs the current state of a payment, without data of its payer and without tokens.
fn tell(aggregate: &PaymentAggregate, what: &'static str) {
    let PaymentAggregate { payment, attempts } = aggregate;
    let captured = attempts.iter().find(|attempt| attempt.is_captured());
    let attempt = captured.or(attempts.last());
    tracing::info!(
        payment.id = %payment.id,
        merchant.id = payment.merchant.0,
        environment = payment.environment.as_str(),
        payment.status = payment.status.as_str(),
        payment.settlement = payment.settlement.as_str(),
        payment.method = payment.method.map(tracing::field::display),
        provider.id = attempt.map(|attempt| attempt.account.as_str()),
        "{what}"
    );
}
