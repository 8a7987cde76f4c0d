//! Replays the log on separate threads that give way to requests.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::conversation::Conversation;
use kassette_domain::id::{Digest, MerchantId, PaymentId};
use kassette_domain::routing::{self, Context, RankAnswer, RoutingRecord};
use kassette_runtime::{CallError, RecordedCall};
use kassette_store::Fault;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::ReplayError;
use super::compare::{Diff, RecordedDecision, is_of_money};

/// Number of decisions that a thread processes per step.
const CHUNK: usize = 256;
/// Priority of the threads, on the scale of nice(1).
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;
/// Pause of a thread after a step, as a multiple of the time for which requests kept their own threads busy.
const REST: u32 = 8;
/// Number of tries, and pause between them, for a call that finds no free slot.
const TRIES: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(5);
/// Number of the active version's decisions per repeated call, which measures the duration of its calls.
const ASKED_AGAIN: u64 = 64;

/// A version with its modified input. Blocks.
pub(super) type Ask = Box<dyn Fn(&Context) -> Result<Arc<RankAnswer>, CallError> + Send + Sync>;

/// Two versions of a method's module to compare.
pub(super) struct Sides {
    /// Digest of the active version, whose answers are in the log.
    pub(super) digest: Digest,
    pub(super) active: Ask,
    pub(super) candidate: Ask,
}

/// Result of a part of the log.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of decisions read, including those of other merchants.
    pub(super) read: u64,
    pub(super) diff: Diff,
}

/// An entry of the log that can be replayed.
pub(super) trait Replayable: Send + 'static {
    /// Merchant of the payment, if the entry contains it.
    fn merchant(&self) -> Option<MerchantId>;
    /// Whether the entry counts for its payment. `seen` contains the payments of later entries.
    fn counts(&self, seen: &mut HashSet<PaymentId>) -> bool;
}

impl Replayable for RoutingRecord {
    fn merchant(&self) -> Option<MerchantId> {
        Some(self.merchant)
    }

    /// Only the latest decision of a payment counts.
    fn counts(&self, seen: &mut HashSet<PaymentId>) -> bool {
        is_of_money(self) && self.payment.is_none_or(|payment| seen.insert(payment))
    }
}

impl Replayable for Conversation {
    fn merchant(&self) -> Option<MerchantId> {
        None
    }

    /// Every call counts.
    fn counts(&self, _: &mut HashSet<PaymentId>) -> bool {
        true
    }
}

/// An entry with its number and whether it counts for its payment.
pub(super) struct Item<R> {
    number: u64,
    counts: bool,
    record: R,
}

/// The number of entries that were read, and those to compare.
type Chunk<R> = (u64, Vec<Item<R>>);

/// Iterates over the entries of the log, newest first.
pub(super) struct Feed<R, P> {
    /// Returns the next page. An empty page means the end.
    pages: P,
    waiting: VecDeque<R>,
    /// Number of entries still to be read.
    left: u64,
    number: u64,
    merchant: Option<MerchantId>,
    /// Payments with a later decision. 16 bytes each; a million of them need about 35 MB.
    seen: HashSet<PaymentId>,
}

impl<R: Replayable, P: FnMut() -> Result<Vec<R>, Fault>> Feed<R, P> {
    /// Creates a feed of the last entries. Entries of other merchants than `merchant` are read but not
    /// compared.
    pub(super) fn new(pages: P, last: u64, merchant: Option<MerchantId>) -> Self {
        Self {
            pages,
            waiting: VecDeque::new(),
            left: last,
            number: 0,
            merchant,
            seen: HashSet::new(),
        }
    }

    /// Returns the next entries. `None` at the end.
    fn chunk(&mut self) -> Result<Option<Chunk<R>>, Fault> {
        let mut items = Vec::with_capacity(CHUNK);
        let mut read = 0;
        while self.left > 0 && read < CHUNK as u64 {
            let Some(record) = self.waiting.pop_front() else {
                self.waiting = (self.pages)()?.into();
                if self.waiting.is_empty() {
                    self.left = 0;
                }
                continue;
            };
            self.left -= 1;
            read += 1;
            let number = self.number;
            self.number += 1;
            if self.merchant.is_some() && self.merchant != record.merchant() {
                continue;
            }
            let counts = record.counts(&mut self.seen);
            items.push(Item {
                number,
                counts,
                record,
            });
        }
        Ok((read > 0).then_some((read, items)))
    }
}

/// Limits of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) threads: usize,
    /// Maximum number of examples.
    pub(super) examples: usize,
}

/// Compares all entries of a feed, with one thread per processor up to `threads`. Sends the result of each
/// part when it is ready. The threads end when the receiver is dropped.
///
/// # Errors
/// If no thread can be started.
pub(super) fn begin<R: Replayable, P>(
    compare: impl Fn(&[Item<R>], &mut Diff) + Send + Sync + 'static,
    feed: Feed<R, P>,
    Bounds { threads, examples }: Bounds,
) -> std::io::Result<mpsc::Receiver<Result<Part, ReplayError>>>
where
    P: FnMut() -> Result<Vec<R>, Fault> + Send + 'static,
{
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(processors);
    let (sender, receiver) = mpsc::channel(2 * threads);
    let requests = Handle::try_current().ok();
    let compare = move |items: &[Item<R>]| {
        let mut diff = Diff::showing(examples);
        compare(items, &mut diff);
        diff
    };
    let (compare, feed) = (Arc::new(compare), Arc::new(Mutex::new(feed)));
    let mut begun = Ok(());
    for number in 0..threads {
        let (compare, feed, sender) = (Arc::clone(&compare), Arc::clone(&feed), sender.clone());
        let requests = requests.clone();
        let thread = std::thread::Builder::new().name("replay".into());
        let started = thread.spawn(move || {
            give_way();
            work(&*compare, &feed, &sender, requests.as_ref());
        });
        // One thread is sufficient.
        if let Err(error) = started
            && number == 0
        {
            begun = Err(error);
            break;
        }
    }
    begun.map(|()| receiver)
}

/// Lowers the priority of this thread, so that requests run first.
fn give_way() {
    // On Linux this applies to the calling thread only; elsewhere it would apply to the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

/// Average busy time of the threads that serve requests.
fn busy(requests: &Handle) -> Duration {
    let metrics = requests.metrics();
    let workers = metrics.num_workers();
    let all: Duration = (0..workers)
        .map(|worker| metrics.worker_total_busy_duration(worker))
        .sum();
    all / u32::try_from(workers).unwrap_or(u32::MAX).max(1)
}

/// Compares one part after the other. Pauses after each part if requests kept their threads busy in the
/// meantime.
fn work<R: Replayable, P: FnMut() -> Result<Vec<R>, Fault>>(
    compare: &impl Fn(&[Item<R>]) -> Diff,
    feed: &Mutex<Feed<R, P>>,
    results: &mpsc::Sender<Result<Part, ReplayError>>,
    requests: Option<&Handle>,
) {
    let busy = || requests.map_or(Duration::ZERO, busy);
    loop {
        let mut feed = feed.lock();
        let (began, before) = (Instant::now(), busy());
        let chunk = feed.chunk();
        drop(feed);
        let part = match chunk {
            Ok(None) => return,
            Ok(Some((read, items))) => catch_unwind(AssertUnwindSafe(|| compare(&items)))
                .map(|diff| Part { read, diff })
                .map_err(|_| ReplayError::Broken("a thread panicked".into())),
            Err(fault) => Err(fault.into()),
        };
        let is_over = part.is_err();
        if results.blocking_send(part).is_err() || is_over {
            return;
        }
        // The lower priority is not sufficient, because threads of the store read the log.
        let meanwhile = busy().saturating_sub(before);
        std::thread::sleep(meanwhile.min(began.elapsed()) * REST);
    }
}

impl Sides {
    pub(super) fn compare(&self, items: &[Item<RoutingRecord>], diff: &mut Diff) {
        for item in items {
            let record = &item.record;
            let own = record.answer.as_ref();
            let own = own.filter(|_| record.digest == self.digest);
            let again = item.is_asked_again(own.is_some());
            let again = again.then(|| diff.active_cost.take(|| (self.active)(&record.context)));
            let candidate = diff
                .candidate_cost
                .take(|| (self.candidate)(&record.context));
            let active = match (own, &again) {
                (Some(own), _) => Ok(own),
                (None, Some(again)) => said(again),
                (None, None) => Err("unasked"),
            };
            let recorded = RecordedDecision {
                number: item.number,
                counts: item.counts,
                record,
            };
            diff.count(&recorded, active, said(&candidate));
        }
    }
}

impl<R> Item<R> {
    /// Whether the active version is called too: if the log does not have its answer, and regularly to
    /// measure its duration.
    const fn is_asked_again(&self, is_known: bool) -> bool {
        !is_known || self.number.is_multiple_of(ASKED_AGAIN)
    }
}

/// A version of a provider module that repeats recorded calls. Blocks.
pub(super) type ReplayCall =
    Box<dyn Fn(&Conversation) -> Result<RecordedCall, CallError> + Send + Sync>;

/// Two versions of a provider module to compare.
pub(super) struct ProviderSides {
    /// Digest of the active version, whose calls are in the log.
    pub(super) digest: Digest,
    pub(super) active: ReplayCall,
    pub(super) candidate: ReplayCall,
}

impl ProviderSides {
    pub(super) fn compare(&self, items: &[Item<Conversation>], diff: &mut Diff) {
        for item in items {
            let record = &item.record;
            let is_known = record.digest == self.digest;
            let again = item.is_asked_again(is_known);
            let again = again.then(|| diff.active_cost.take(|| (self.active)(record)));
            let candidate = diff.candidate_cost.take(|| (self.candidate)(record));
            let active = match &again {
                Some(again) if !is_known => made_again(again),
                _ => Ok(record),
            };
            diff.count_call(item.number, active, made_again(&candidate));
        }
    }
}

/// The repeated call, or the label of its failure.
fn made_again(made: &Result<RecordedCall, CallError>) -> Result<&Conversation, &'static str> {
    match made {
        Err(error) => Err(error.kind()),
        Ok(RecordedCall {
            failure: Some(error),
            ..
        }) => Err(error.kind()),
        Ok(made) if !made.is_complete => Err("unanswered"),
        Ok(made) => Ok(&made.conversation),
    }
}

/// The answer, or the label of its failure.
pub(crate) fn said(
    answer: &Result<Arc<RankAnswer>, CallError>,
) -> Result<&RankAnswer, &'static str> {
    answer.as_deref().map_err(CallError::kind)
}

/// Calls a version and checks its answer against the host's rules.
pub(super) fn ask(
    module: impl Fn(&Context) -> Result<Arc<RankAnswer>, CallError>,
    context: &Context,
) -> Result<Arc<RankAnswer>, CallError> {
    let answer = call(|| module(context))?;
    if let Ok(verdicts) = &*answer {
        routing::check_verdicts(context, verdicts).map_err(CallError::Faulty)?;
    }
    Ok(answer)
}

/// Calls a version. Repeats the call while there is no free slot, because load is no failure of the version.
pub(super) fn call<T>(module: impl Fn() -> Result<T, CallError>) -> Result<T, CallError> {
    let mut tries = 0;
    loop {
        match module() {
            Err(CallError::Busy) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            answer => return answer,
        }
    }
}
