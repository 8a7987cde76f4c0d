//! Outcomes of payments on both sides of a trial.
//!
//! Only the first attempt of a payment in the slot counts: failures of one payment depend on each other, and
//! the statistical test requires independent ones.

use std::collections::{BTreeMap, HashSet, VecDeque};

use kassette_domain::candidate::{Arm, Candidate, Cohort, Counted, Counts};
use kassette_domain::id::{AttemptId, PaymentId, Slot, SlotKind};
use kassette_domain::lifecycle::{AttemptFate, PaymentAggregate};
use kassette_domain::method::MethodId;
use kassette_domain::payment::Payment;
use kassette_store::Fault;

use super::sides::side;
use super::{Pending, trial};
use crate::Gateway;

/// Maximum number of payments remembered because a start was refused before an attempt existed.
const REFUSED_MOST: usize = 10_000;

/// Payments whose refused start was counted, so that a payer who tries again is not counted again. No cache
/// crate: a bounded set that drops the oldest entry is sufficient, and a dropped payment is at worst counted
/// again.
#[derive(Debug, Default)]
pub(super) struct RefusedPayments {
    known: HashSet<(PaymentId, MethodId)>,
    order: VecDeque<(PaymentId, MethodId)>,
}

impl RefusedPayments {
    /// Returns whether the payment is new.
    fn insert(&mut self, of: (PaymentId, MethodId)) -> bool {
        if !self.known.insert(of) {
            return false;
        }
        self.order.push_back(of);
        if self.order.len() > REFUSED_MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl Gateway {
    /// Counts an event of a payment if the payment is on a side of the slot's trial.
    pub(super) fn count_on(
        &self,
        slot: &Slot,
        payment: &Payment,
        count: impl FnOnce(&mut Counts, Arm),
    ) {
        let modules = self.modules();
        let candidate = match slot.kind() {
            SlotKind::Method => MethodId::parse(slot.name())
                .and_then(|method| modules.method_on_trial(method))
                .map(|on_trial| on_trial.candidate),
            SlotKind::Provider => modules
                .provider_on_trial(slot)
                .map(|on_trial| on_trial.candidate),
        };
        let Some(candidate) = candidate else {
            return;
        };
        let Some(side) = side(&candidate, payment) else {
            return;
        };
        let trial = trial(slot, &candidate);
        let mut pending = self.inner.trials.pending.lock();
        let fresh = || Pending {
            of: trial.clone(),
            counted: BTreeMap::new(),
        };
        let entry = pending.entry(slot.clone()).or_insert_with(fresh);
        if entry.of != trial {
            *entry = fresh();
        }
        let cohort = Cohort {
            environment: payment.environment,
            percent: side.percent,
        };
        let counts = entry.counted.entry(cohort.key()).or_default();
        count(counts, side.arm);
    }

    /// Counts the outcomes that a step has determined.
    pub(crate) fn count_resolved(
        &self,
        aggregate: &PaymentAggregate,
        resolved: &[(AttemptId, AttemptFate)],
    ) {
        if resolved.is_empty() || !self.modules().has_trials() {
            return;
        }
        let payment = &aggregate.payment;
        for (id, resolution) in resolved {
            let Some(attempt) = aggregate.attempt(*id) else {
                continue;
            };
            let mut attempts = aggregate.attempts.iter();
            let of_slot = attempts.clone().find(|other| other.slot == attempt.slot);
            let of_method = attempts.find(|other| other.method == attempt.method);
            if of_slot.is_some_and(|first| first.id == *id) {
                self.count_on(&attempt.slot, payment, |counts, arm| {
                    counts.resolve(arm, *resolution);
                });
            }
            let was_refused = || {
                let refused = self.inner.trials.refused.lock();
                refused.known.contains(&(payment.id, attempt.method))
            };
            let is_counted = matches!(resolution, AttemptFate::Started(_)) && was_refused();
            if of_method.is_some_and(|first| first.id == *id) && !is_counted {
                let slot = Slot::of_method(attempt.method);
                self.count_on(&slot, payment, |counts, arm| {
                    counts.resolve(arm, *resolution)
                });
            }
        }
    }

    /// Counts a start that the method's module refused or failed on.
    pub(crate) fn count_refused(&self, aggregate: &PaymentAggregate, method: MethodId) {
        if !self.modules().has_trials() {
            return;
        }
        let payment = &aggregate.payment;
        let is_first = !aggregate
            .attempts
            .iter()
            .any(|other| other.method == method);
        let is_new = || {
            self.inner
                .trials
                .refused
                .lock()
                .insert((payment.id, method))
        };
        if is_first && is_new() {
            self.count_on(&Slot::of_method(method), payment, |counts, arm| {
                counts.resolve(arm, AttemptFate::Started(false));
            });
        }
    }

    /// Stores this node's counts since the last call, and returns the counts of all nodes for the payments
    /// that the trial is judged by.
    ///
    /// # Errors
    /// The store's. The new counts may or may not have been stored. They are not added again, because no
    /// payment may be counted two times.
    pub async fn counted(&self, slot: &Slot, candidate: &Candidate) -> Result<Counted, Fault> {
        let of = trial(slot, candidate);
        let pending = self.inner.trials.pending.lock().remove(slot);
        let counted = pending.filter(|pending| pending.of == of);
        let counted = counted.into_iter().flat_map(|pending| pending.counted);
        let all = self.store().count_trial(of, counted.collect()).await?;
        let counted = Counted::new(all);
        if let Some(runtime) = self.runtime() {
            runtime.note_counted(slot, candidate, counted.clone());
        }
        Ok(counted)
    }

    /// Brings the figures of a slot's trial up to date that its history keeps when the trial ends. Of a shadow,
    /// these are the compared decisions of this node.
    pub async fn note_figures(&self, slot: &Slot) {
        let Some((runtime, candidate)) = self
            .runtime()
            .and_then(|runtime| Some((runtime, runtime.candidate(slot)?)))
        else {
            return;
        };
        if candidate.canary.is_none() {
            let diff = self.shadow_report(slot, &candidate).diff;
            let counts = Counts {
                compared: diff.decisions,
                differing: diff.differing,
                ..Counts::default()
            };
            let counted = Counted::new(vec![(0, counts)]);
            runtime.note_counted(slot, &candidate, counted);
        } else if let Err(fault) = self.counted(slot, &candidate).await {
            tracing::warn!(plugin.slot = %slot, error = %fault, "the history may lack a trial's newest figures");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_s_refused_start_is_counted_once_and_the_oldest_are_forgotten() {
        let mut refused = RefusedPayments::default();
        let payment = |number: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            (PaymentId::from_bytes(bytes), MethodId::Ideal)
        };
        assert!(refused.insert(payment(0)) && !refused.insert(payment(0)));
        for number in 1..=REFUSED_MOST as u32 {
            assert!(refused.insert(payment(number)));
        }
        assert_eq!(
            (refused.known.len(), refused.order.len()),
            (REFUSED_MOST, REFUSED_MOST)
        );
        assert!(refused.insert(payment(0)), "it was the oldest");
    }
}
