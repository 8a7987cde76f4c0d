//! Routing decisions on their way into the routing log, which replays read.
//!
//! A payment waits for none of it: a decision is put into a queue in memory, shared and not copied, and a worker
//! writes what is there. What the queue has no room for is lost to the log, and counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId, MerchantId, PaymentId};
use kassette_domain::payment::Purpose;
use kassette_domain::routing::{Context, RankAnswer, RoutingRecord};
use kassette_domain::time::Time;
use kassette_store::ROUTING_BATCH;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::modules::Method;

/// Most decisions that wait to be written: some ten megabytes with a few candidates each.
pub const WAITING_MOST: usize = 32 * ROUTING_BATCH;
/// How long one waits at most where fewer than a batch came.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// A question that was put to a method's module, and what it said.
#[derive(Clone)]
pub(crate) struct ModuleAnswer {
    pub(crate) module: Arc<dyn Method>,
    /// What it saw.
    pub(crate) context: Arc<Context>,
    /// What it said; none where it failed.
    pub(crate) answer: Option<Arc<RankAnswer>>,
    pub(crate) at: Time,
    /// Whether the module is on trial.
    pub(crate) is_on_trial: bool,
}

#[derive(Clone)]
pub(crate) struct DecisionMade {
    pub(crate) asked: ModuleAnswer,
    pub(crate) merchant: MerchantId,
    pub(crate) purpose: Purpose,
    pub(crate) payment: Option<PaymentId>,
    pub(crate) attempt: Option<AttemptId>,
    pub(crate) chosen: Option<AccountId>,
}

impl DecisionMade {
    /// Of no payment, and without a choice.
    pub(crate) const fn new(asked: ModuleAnswer, merchant: MerchantId, purpose: Purpose) -> Self {
        Self {
            asked,
            merchant,
            purpose,
            payment: None,
            attempt: None,
            chosen: None,
        }
    }

    /// The same of a payment, where there is one.
    pub(crate) fn of(self, payment: Option<PaymentId>) -> Self {
        Self { payment, ..self }
    }

    /// As it is kept.
    pub(crate) fn record(self) -> RoutingRecord {
        let ModuleAnswer {
            module,
            context,
            answer,
            at,
            is_on_trial: _,
        } = self.asked;
        RoutingRecord {
            at,
            merchant: self.merchant,
            method: module.description().id,
            digest: module.digest(),
            purpose: self.purpose,
            payment: self.payment,
            attempt: self.attempt,
            context: Arc::unwrap_or_clone(context),
            answer: answer.map(Arc::unwrap_or_clone),
            chosen: self.chosen,
        }
    }
}

/// The decisions that wait to be written.
#[derive(Default)]
pub(crate) struct RoutingRecords {
    waiting: Mutex<VecDeque<DecisionMade>>,
    /// A batch is full.
    filled: Notify,
    /// Listings that were asked for, while a share of them is recorded.
    listings: AtomicU64,
}

impl RoutingRecords {
    /// Whether there is room for one more.
    fn put(&self, made: DecisionMade) -> bool {
        let mut waiting = self.waiting.lock();
        let before = waiting.len();
        if before >= WAITING_MOST {
            return false;
        }
        waiting.push_back(made);
        drop(waiting);
        if (before + 1).is_multiple_of(ROUTING_BATCH) {
            self.filled.notify_one();
        }
        true
    }

    /// The oldest batch of them; empty where none waits.
    fn take(&self) -> Vec<DecisionMade> {
        let mut batch = Vec::with_capacity(ROUTING_BATCH);
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(ROUTING_BATCH);
        batch.extend(waiting.drain(..count));
        batch
    }

    /// Whether the next listing is one of the share that is recorded: they are spread evenly.
    fn takes_listing(&self, percent: u8) -> bool {
        let percent = u64::from(percent);
        if percent == 0 {
            return false;
        }
        let number = self.listings.fetch_add(1, Ordering::Relaxed) % 100;
        number * percent / 100 != (number + 1) * percent / 100
    }
}

impl Gateway {
    /// Has a decision written into the routing log, and a candidate asked the same, soon and without waiting for it.
    pub(crate) fn record_decision(&self, made: DecisionMade) {
        self.shadow(&made.asked, made.purpose, || made.clone());
        self.keep_decision(made);
    }

    /// Has a decision written into the routing log.
    pub(crate) fn keep_decision(&self, made: DecisionMade) {
        if !self.inner.routing_records.put(made) {
            count("dropped", 1);
        }
    }

    /// Whether a listing that begins now is recorded.
    pub(crate) fn takes_listing(&self, percent: u8) -> bool {
        self.inner.routing_records.takes_listing(percent)
    }

    /// Writes decisions as they come. A batch under way is written whole before the stop.
    pub(crate) async fn keep_recording(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let next = self.now().after(WRITE_EVERY);
            tokio::select! {
                () = self.clock().wait_until(next) => {}
                () = self.inner.routing_records.filled.notified() => {}
                () = stop.cancelled() => {}
            }
            self.write_records().await;
        }
    }

    /// Writes the decisions and the conversations that wait. What the store does not take is lost to the log.
    pub(crate) async fn write_records(&self) {
        self.write_decisions().await;
        self.write_conversations().await;
    }

    async fn write_decisions(&self) {
        let mut is_more = true;
        while is_more {
            let batch = self.inner.routing_records.take();
            if batch.is_empty() {
                return;
            }
            // What comes while a batch is written waits for others: each batch is a row and a sync.
            is_more = batch.len() == ROUTING_BATCH;
            let length = batch.len() as u64;
            let records = batch.into_iter().map(DecisionMade::record).collect();
            match self.store().append_routing(records, self.now()).await {
                Ok(()) => count("written", length),
                Err(fault) => {
                    count("failed", length);
                    tracing::warn!(error = %fault, routing.decisions = length, "decisions are missing in the routing log");
                    return;
                }
            }
        }
    }
}

fn count(outcome: &'static str, decisions: u64) {
    metrics::counter!("kassette_routing_records_total", "outcome" => outcome).increment(decisions);
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use kassette_domain::id::{Digest, Slot};
    use kassette_domain::key::Environment;
    use kassette_domain::method::MethodId;
    use kassette_domain::money::Currency;
    use kassette_domain::routing::MethodDescription;
    use kassette_runtime::CallError;

    use super::*;

    struct Silent(Slot, Arc<MethodDescription>);

    impl Method for Silent {
        fn slot(&self) -> &Slot {
            &self.0
        }

        fn digest(&self) -> Digest {
            Digest([3; 32])
        }

        fn description(&self) -> &Arc<MethodDescription> {
            &self.1
        }

        fn check_settings(&self, _: &[(String, String)]) -> Result<Result<(), String>, CallError> {
            Ok(Ok(()))
        }

        fn at_once(&self, _: &Context) -> Option<Result<Arc<RankAnswer>, CallError>> {
            None
        }

        fn rank<'a>(
            self: Arc<Self>,
            _: &'a Context,
        ) -> Pin<Box<dyn Future<Output = Result<Arc<RankAnswer>, CallError>> + Send + 'a>> {
            Box::pin(std::future::ready(Err(CallError::Trap)))
        }
    }

    fn made(number: u64) -> DecisionMade {
        let description = MethodDescription {
            id: MethodId::Ideal,
            label: String::new(),
            version: String::new(),
            currencies: vec![],
            translations: vec![],
            icon: vec![],
            settings: vec![],
        };
        let context = Context {
            amount: None,
            currency: Currency::EUR,
            usd: None,
            environment: Environment::Test,
            email_known: false,
            country: None,
            now: Time::from_secs(1),
            settings: vec![],
            candidates: vec![],
        };
        let slot = Slot::of_method(MethodId::Ideal);
        let asked = ModuleAnswer {
            module: Arc::new(Silent(slot, Arc::new(description))),
            context: Arc::new(context),
            answer: None,
            at: Time::from_secs(number),
            is_on_trial: false,
        };
        DecisionMade::new(asked, MerchantId(number), Purpose::Start)
    }

    #[test]
    fn a_full_queue_takes_no_more_and_gives_the_oldest_batch_first() {
        let records = RoutingRecords::default();
        let taken = (0..WAITING_MOST as u64 + 5).filter(|number| records.put(made(*number)));
        assert_eq!(taken.count(), WAITING_MOST, "the others are dropped");
        let batch: Vec<_> = records
            .take()
            .into_iter()
            .map(DecisionMade::record)
            .collect();
        assert_eq!(batch.len(), ROUTING_BATCH);
        assert_eq!(
            (batch[0].merchant, batch[1].merchant),
            (MerchantId(0), MerchantId(1))
        );
        assert_eq!(
            (&batch[0].answer, batch[0].digest),
            (&None, Digest([3; 32]))
        );
        assert!(records.put(made(0)), "there is room again");
    }

    #[test]
    fn of_a_hundred_listings_the_share_is_taken_and_spread_evenly() {
        for percent in [0, 1, 7, 50, 99, 100] {
            let records = RoutingRecords::default();
            let taken: Vec<bool> = (0..200).map(|_| records.takes_listing(percent)).collect();
            let count = |part: &[bool]| part.iter().filter(|taken| **taken).count();
            assert_eq!(count(&taken[..100]), usize::from(percent));
            assert_eq!(count(&taken[100..]), usize::from(percent));
        }
        let records = RoutingRecords::default();
        let taken: Vec<bool> = (0..4).map(|_| records.takes_listing(50)).collect();
        assert_eq!(taken, [false, true, false, true]);
    }
}
