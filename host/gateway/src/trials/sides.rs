//! Selects the version that decides a payment.

use std::sync::Arc;

use kassette_domain::candidate::{Arm, Candidate, Side};
use kassette_domain::id::Slot;
use kassette_domain::method::MethodId;
use kassette_domain::payment::Payment;

use crate::Gateway;
use crate::modules::{Method, Provider};
use crate::replay::is_same;
use crate::routing::{NotRoutable, PendingRanking, RankResult};

/// The side of a payment in a trial.
pub(super) fn side(candidate: &Candidate, payment: &Payment) -> Option<Side> {
    candidate
        .canary
        .as_ref()?
        .side(payment.id, payment.created_at)
}

fn is_its(candidate: &Candidate, payment: &Payment) -> bool {
    side(candidate, payment).is_some_and(|side| side.arm == Arm::Candidate)
}

impl Gateway {
    /// The candidate for a method's slot if the payment is on its side.
    fn candidate_for(&self, method: MethodId, payment: &Payment) -> Option<Arc<dyn Method>> {
        let on_trial = self.modules().method_on_trial(method)?;
        is_its(&on_trial.candidate, payment).then_some(on_trial.module)
    }

    /// The module version that opens a new attempt of a payment.
    pub(crate) fn provider_for(&self, slot: &Slot, payment: &Payment) -> Option<Arc<dyn Provider>> {
        if self.modules().has_trials()
            && let Some(on_trial) = self.modules().provider_on_trial(slot)
            && is_its(&on_trial.candidate, payment)
        {
            return Some(on_trial.module);
        }
        self.modules().provider(slot.name(), payment.environment)
    }

    /// The candidate's ranking for a payment on its side. `None` if the active version decides, because the
    /// payment is on the other side or the candidate failed.
    pub(crate) async fn rank_by_candidate(
        &self,
        method: MethodId,
        payment: &Payment,
        query: impl Fn(Option<Arc<dyn Method>>) -> Result<PendingRanking, NotRoutable>,
    ) -> Option<Result<RankResult, NotRoutable>> {
        if !self.modules().has_trials() {
            return None;
        }
        let candidate = self.candidate_for(method, payment)?;
        let slot = candidate.slot().clone();
        let asked = match query(Some(candidate)) {
            Ok(asked) => asked.on_trial(),
            Err(barred) => return Some(Err(barred)),
        };
        let answer = match asked.answer().await {
            Ok(answer) => answer,
            Err(error) => {
                if error.blames_module() {
                    self.inner.trials.look.notify_one();
                }
                return None;
            }
        };
        // The active version is called too, so that differences are counted immediately.
        if let Ok(active) = query(None)
            && let Ok(active) = active.answer().await
        {
            let differs = !is_same(Ok(&active), Ok(&answer));
            self.count_on(&slot, payment, |counts, _| {
                counts.compared += 1;
                counts.differing += u64::from(differs);
            });
        }
        Some(Ok(asked.judge(Ok(answer))))
    }
}
