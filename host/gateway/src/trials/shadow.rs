//! A candidate in the shadow of live decisions: it gets the same questions after the answer was returned.
//!
//! Requests do not wait for this. The length of the queue limits the number of comparisons per second and so
//! their processor time. Decisions beyond it are dropped and counted.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{PaymentId, Slot};
use kassette_domain::payment::Purpose;
use kassette_domain::routing::Context;
use kassette_store::Trial;
use parking_lot::Mutex;

use super::trial;
use crate::Gateway;
use crate::modules::{Method, answer};
use crate::replay::{Diff, RecordedDecision, is_of_money, said};
use crate::routing_records::{DecisionMade, ModuleAnswer};

/// Maximum number of decisions of a slot in the queue, and so of comparisons per second: about 7 ms of
/// processor time.
pub const QUEUED_MOST: usize = 1_024;
/// Maximum number of listings among them, because starts are rarer and more informative.
const LISTINGS_MOST: usize = QUEUED_MOST / 2;
/// Maximum number of payments remembered as counted.
const PAYMENTS_MOST: usize = 100_000;
/// Time limit of one check. An interpreted module takes milliseconds per decision.
const COMPARING: Duration = Duration::from_millis(250);

/// The shadow trials of this node.
#[derive(Default)]
pub(super) struct Shadows(Mutex<BTreeMap<Slot, Shadow>>);

struct Shadow {
    of: Trial,
    queue: VecDeque<DecisionMade>,
    compared: Compared,
}

#[derive(Default)]
struct Compared {
    report: ShadowReport,
    /// Payments with a counted decision. Only the earliest counts.
    payments: HashSet<PaymentId>,
    number: u64,
    /// Number of dropped decisions when the queue was taken.
    dropped_before: u64,
    /// Number of dropped decisions that are already in the metric.
    dropped_counted: u64,
}

/// Differences between a candidate's decisions and the active version's, on this node.
#[derive(Clone, Debug, Default)]
pub struct ShadowReport {
    pub diff: Diff,
    /// Decisions that did not fit into the queue.
    pub dropped: u64,
    pub queued: u64,
}

impl Shadows {
    /// Queues a decision if there is space.
    fn put(
        &self,
        slot: &Slot,
        candidate: &Candidate,
        purpose: Purpose,
        made: impl FnOnce() -> DecisionMade,
    ) {
        let mut all = self.0.lock();
        let is_its = |of: &Trial| of.digest == candidate.digest && of.since == candidate.since;
        if !all.get(slot).is_some_and(|shadow| is_its(&shadow.of)) {
            all.insert(slot.clone(), Shadow::new(trial(slot, candidate)));
        }
        let Some(shadow) = all.get_mut(slot) else {
            return;
        };
        let most = match purpose {
            Purpose::Listing => LISTINGS_MOST,
            _ => QUEUED_MOST,
        };
        if shadow.queue.len() < most {
            shadow.queue.push_back(made());
        } else {
            shadow.compared.report.dropped += 1;
        }
    }

    /// Takes the queue of a trial with its results so far. `None` if the queue is empty.
    fn take(&self, of: &Trial) -> Option<(VecDeque<DecisionMade>, Compared)> {
        let mut all = self.0.lock();
        let shadow = all.get_mut(&of.slot).filter(|shadow| shadow.of == *of)?;
        if shadow.queue.is_empty() {
            return None;
        }
        let mut compared = std::mem::take(&mut shadow.compared);
        compared.dropped_before = compared.report.dropped;
        // The results so far stay visible during the comparison.
        shadow.compared.report = compared.report.clone();
        Some((std::mem::take(&mut shadow.queue), compared))
    }

    fn give_back(&self, of: &Trial, compared: Compared) {
        let mut all = self.0.lock();
        if let Some(shadow) = all.get_mut(&of.slot).filter(|shadow| shadow.of == *of) {
            let meanwhile = shadow.compared.report.dropped - compared.dropped_before;
            shadow.compared = compared;
            shadow.compared.report.dropped += meanwhile;
        }
    }

    /// Removes trials that have ended.
    pub(super) fn retain(&self, alive: impl Fn(&Trial) -> bool) {
        self.0.lock().retain(|_, shadow| alive(&shadow.of));
    }

    fn report(&self, of: &Trial) -> ShadowReport {
        let all = self.0.lock();
        let shadow = all.get(&of.slot).filter(|shadow| shadow.of == *of);
        shadow.map_or_else(ShadowReport::default, |shadow| ShadowReport {
            queued: shadow.queue.len() as u64,
            ..shadow.compared.report.clone()
        })
    }
}

impl Shadow {
    fn new(of: Trial) -> Self {
        Self {
            of,
            queue: VecDeque::new(),
            compared: Compared::default(),
        }
    }
}

impl Compared {
    async fn compare(&mut self, module: &Arc<dyn Method>, made: DecisionMade) {
        self.number += 1;
        let asked = &made.asked;
        let record = made.record(
            Context::clone(&asked.context),
            asked.answer.as_deref().cloned(),
        );
        if self.payments.len() >= PAYMENTS_MOST {
            self.payments.clear();
        }
        let mut is_first = || {
            record
                .payment
                .is_none_or(|payment| self.payments.insert(payment))
        };
        let counts = is_of_money(&record) && is_first();
        let began = Instant::now();
        let answer = answer(module, &record.context).await;
        let diff = &mut self.report.diff;
        diff.candidate_cost.calls += 1;
        diff.candidate_cost.time += began.elapsed();
        let recorded = RecordedDecision {
            // Descending numbers: the latest decision comes first in the report.
            number: u64::MAX - self.number,
            counts,
            record: &record,
        };
        let active = record.answer.as_ref().ok_or("failed");
        diff.count(&recorded, active, said(&answer));
    }
}

fn count(outcome: &'static str, decisions: u64) {
    metrics::counter!("kassette_shadow_decisions_total", "outcome" => outcome).increment(decisions);
}

impl Gateway {
    /// Queues a decision for comparison if a candidate is on trial in the shadow.
    pub(crate) fn shadow(
        &self,
        asked: &ModuleAnswer,
        purpose: Purpose,
        made: impl FnOnce() -> DecisionMade,
    ) {
        if !self.modules().has_trials() {
            return;
        }
        let method = asked.module.description().id;
        let Some(on_trial) = self.modules().method_on_trial(method) else {
            return;
        };
        let candidate = &on_trial.candidate;
        if candidate.canary.is_some() {
            return;
        }
        let shadows = &self.inner.trials.shadows;
        shadows.put(asked.module.slot(), candidate, purpose, made);
    }

    /// Compares the queued decisions of a trial.
    pub(super) async fn compare_shadow(&self, of: &Trial, module: Arc<dyn Method>) {
        let Some((queue, mut compared)) = self.inner.trials.shadows.take(of) else {
            return;
        };
        let counted = std::mem::replace(&mut compared.dropped_counted, compared.report.dropped);
        count("dropped", compared.report.dropped - counted);
        count("queued", queue.len() as u64);
        // On the blocking thread pool, so that no request is delayed.
        let handle = tokio::runtime::Handle::current();
        let comparing = tokio::task::spawn_blocking(move || {
            let until = Instant::now() + COMPARING;
            for made in queue {
                if Instant::now() < until {
                    handle.block_on(compared.compare(&module, made));
                } else {
                    compared.report.dropped += 1;
                }
            }
            compared
        });
        // A panic loses the results of this check.
        if let Ok(compared) = comparing.await {
            self.inner.trials.shadows.give_back(of, compared);
        }
    }

    /// Differences between the candidate of a slot and the active version so far.
    pub fn shadow_report(&self, slot: &Slot, candidate: &Candidate) -> ShadowReport {
        self.inner.trials.shadows.report(&trial(slot, candidate))
    }
}
