//! Records routing decisions in the routing log, which replays read.
//!
//! Payments do not wait for this: a decision is encoded into a batch in memory, which a worker writes. If the
//! limit is reached, the decision is not recorded, and metrics count it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId, MerchantId, PaymentId};
use kassette_domain::payment::Purpose;
use kassette_domain::routing::{Context, RankAnswer, RoutingRecord};
use kassette_domain::time::Time;
use kassette_store::{Fault, ROUTING_BATCH, RoutingBatch, RoutingEntry};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Gateway;
use crate::modules::Method;

/// Maximum number of decisions that wait to be written: some megabytes with a few candidates each.
pub const WAITING_MOST: usize = 32 * ROUTING_BATCH;
/// Maximum time that a decision waits if its batch does not fill up.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// A question to a method's module, and its answer.
#[derive(Clone)]
pub(crate) struct ModuleAnswer {
    pub(crate) module: Arc<dyn Method>,
    /// Input of the module.
    pub(crate) context: Arc<Context>,
    /// Answer of the module. `None` if it failed.
    pub(crate) answer: Option<Arc<RankAnswer>>,
    pub(crate) at: Time,
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
    /// A decision without a payment and without a chosen account.
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

    /// Adds the payment, if there is one.
    pub(crate) fn for_payment(self, payment: Option<PaymentId>) -> Self {
        Self { payment, ..self }
    }

    /// The stored record. Input and answer may be owned or borrowed.
    pub(crate) fn record<C, A>(&self, context: C, answer: Option<A>) -> RoutingRecord<C, A> {
        let asked = &self.asked;
        RoutingRecord {
            at: asked.at,
            merchant: self.merchant,
            method: asked.module.description().id,
            digest: asked.module.digest(),
            purpose: self.purpose,
            payment: self.payment,
            attempt: self.attempt,
            context,
            answer,
            chosen: self.chosen.clone(),
        }
    }
}

/// Entries of the routing log that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct WaitingEntries {
    /// One batch per slot, so there are few.
    batches: Vec<RoutingBatch>,
}

impl WaitingEntries {
    pub(crate) fn entries(&self) -> usize {
        self.batches.iter().map(RoutingBatch::len).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.batches.iter().map(RoutingBatch::bytes).sum()
    }

    /// Appends an entry. Returns the length of its batch.
    ///
    /// # Errors
    /// If the entry cannot be encoded.
    pub(crate) fn push<E: RoutingEntry>(&mut self, entry: &E) -> Result<usize, Fault> {
        let slot = entry.slot();
        let mut batches = self.batches.iter();
        let batch = match batches.position(|batch| *batch.slot() == slot) {
            Some(at) => &mut self.batches[at],
            None => self.batches.push_mut(RoutingBatch::new(slot)),
        };
        batch.push(entry)?;
        Ok(batch.len())
    }

    /// Removes and returns the batches with at least this many entries.
    pub(crate) fn take(&mut self, least: usize) -> Vec<RoutingBatch> {
        let is_taken = |batch: &mut RoutingBatch| batch.len() >= least;
        self.batches.extract_if(.., is_taken).collect()
    }
}

#[derive(Default)]
pub(crate) struct RoutingRecords {
    waiting: Mutex<WaitingEntries>,
    /// Notified when a batch is full.
    filled: Notify,
    /// Number of listings, counted while a share of them is recorded.
    listings: AtomicU64,
}

impl RoutingRecords {
    /// Queues a decision. False if the limit is reached or it cannot be encoded.
    fn put(&self, made: &DecisionMade) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.entries() >= WAITING_MOST {
            return false;
        }
        let asked = &made.asked;
        let put = waiting.push(&made.record(&*asked.context, asked.answer.as_deref()));
        drop(waiting);
        if put.as_ref().is_ok_and(|length| *length == ROUTING_BATCH) {
            self.filled.notify_one();
        }
        put.is_ok()
    }

    /// Whether the next listing is recorded. The recorded listings are spread evenly.
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
    /// Records a decision in the routing log and sends the same question to a version on trial, both in the
    /// background.
    pub(crate) fn record_decision(&self, made: DecisionMade) {
        self.shadow(&made.asked, made.purpose, || made.clone());
        self.keep_decision(&made);
    }

    /// Queues a decision for the routing log.
    pub(crate) fn keep_decision(&self, made: &DecisionMade) {
        if !self.inner.routing_records.put(made) {
            count("dropped", 1);
        }
    }

    /// Whether a listing that starts now is recorded.
    pub(crate) fn takes_listing(&self, percent: u8) -> bool {
        self.inner.routing_records.takes_listing(percent)
    }

    /// Writes decisions continuously. On stop, all waiting entries are written before it returns.
    pub(crate) async fn keep_recording(&self, stop: &CancellationToken) {
        let mut next = self.now().after(WRITE_EVERY);
        while !stop.is_cancelled() {
            tokio::select! {
                () = self.clock().wait_until(next) => {
                    self.write_records().await;
                    next = self.now().after(WRITE_EVERY);
                }
                // Only full batches are written before the interval ends, because each batch costs a row and
                // a sync.
                () = self.inner.routing_records.filled.notified() => self.write_decisions(ROUTING_BATCH).await,
                () = stop.cancelled() => self.write_records().await,
            }
        }
    }

    /// Writes all waiting decisions and conversations. If the store does not accept them, they are lost, and
    /// metrics count them.
    pub(crate) async fn write_records(&self) {
        self.write_decisions(1).await;
        self.write_conversations().await;
    }

    /// Writes the batches with at least this many decisions.
    async fn write_decisions(&self, least: usize) {
        let batches = self.inner.routing_records.waiting.lock().take(least);
        self.append("decisions", batches, count).await;
    }

    /// Writes batches, and counts the outcome for all their entries.
    pub(crate) async fn append(
        &self,
        what: &'static str,
        batches: Vec<RoutingBatch>,
        count: fn(&'static str, u64),
    ) {
        if batches.is_empty() {
            return;
        }
        let entries = batches.iter().map(RoutingBatch::len).sum::<usize>() as u64;
        match self.store().append_routing(batches, self.now()).await {
            Ok(()) => count("written", entries),
            Err(fault) => {
                count("failed", entries);
                tracing::warn!(error = %fault, entries, "{what} are missing in the routing log");
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

    fn made(method: MethodId, number: u64) -> DecisionMade {
        let description = MethodDescription {
            id: method,
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
        let slot = Slot::of_method(method);
        let asked = ModuleAnswer {
            module: Arc::new(Silent(slot, Arc::new(description))),
            context: Arc::new(context),
            answer: None,
            at: Time::from_secs(number),
            is_on_trial: false,
        };
        DecisionMade::new(asked, MerchantId(number), Purpose::Start)
    }

    fn record(method: MethodId, number: u64) -> RoutingRecord {
        let made = made(method, number);
        made.record(Context::clone(&made.asked.context), None)
    }

    #[test]
    fn what_waits_is_bounded_and_makes_room_when_it_is_taken() {
        let records = RoutingRecords::default();
        let put = |number| records.put(&made(MethodId::Ideal, number));
        let taken = (0..WAITING_MOST as u64 + 5).filter(|number| put(*number));
        assert_eq!(taken.count(), WAITING_MOST, "the others are dropped");
        assert_eq!(records.waiting.lock().take(ROUTING_BATCH).len(), 1);
        assert!(put(0), "there is room again");
    }

    #[test]
    fn batches_that_are_full_are_taken_and_what_fills_none_waits_for_others() {
        let mut waiting = WaitingEntries::default();
        for number in 0..ROUTING_BATCH as u64 {
            let length = waiting.push(&record(MethodId::Ideal, number)).unwrap();
            assert_eq!(length as u64, number + 1);
            waiting.push(&record(MethodId::Paypal, number)).unwrap();
        }
        waiting.push(&record(MethodId::Klarna, 0)).unwrap();
        let mut take = |least| -> Vec<(Slot, usize)> {
            let length = |batch: &RoutingBatch| (batch.slot().clone(), batch.len());
            waiting.take(least).iter().map(length).collect()
        };
        let full = |method| (Slot::of_method(method), ROUTING_BATCH);
        assert_eq!(
            take(ROUTING_BATCH),
            [full(MethodId::Ideal), full(MethodId::Paypal)]
        );
        assert_eq!(take(ROUTING_BATCH), []);
        assert_eq!(take(1), [(Slot::of_method(MethodId::Klarna), 1)]);
        assert_eq!((waiting.entries(), waiting.bytes()), (0, 0));
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
