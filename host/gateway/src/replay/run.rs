//! The log, asked again on threads of its own: beside requests, after which each of them stands.

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

/// Decisions that a thread takes at once.
const CHUNK: usize = 256;
/// How much the threads yield to requests, on the scale of nice(1).
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;
/// How much longer the threads rest than requests kept their own busy while they worked.
const REST: u32 = 8;
/// How often, and after which pause, a call without a free place is repeated.
const TRIES: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(5);
/// The active version is asked about one in so many of its own decisions too, to compare what calls take.
const ASKED_AGAIN: u64 = 64;

/// A version with what it is told. It blocks.
pub(super) type Ask = Box<dyn Fn(&Context) -> Result<Arc<RankAnswer>, CallError> + Send + Sync>;

/// Two versions to be compared.
pub(super) struct Sides {
    /// Which one is active: what it answered stands in the log.
    pub(super) digest: Digest,
    pub(super) active: Ask,
    pub(super) candidate: Ask,
}

/// What a part of the log came to.
#[derive(Debug)]
pub(super) struct Part {
    /// Decisions of the log that were read, those of other merchants among them.
    pub(super) read: u64,
    pub(super) diff: Diff,
}

/// An entry of the log that can be made again.
pub(super) trait Replayable: Send + 'static {
    /// Whose payment it is about, where it tells.
    fn merchant(&self) -> Option<MerchantId>;
    /// Whether it counts as something that becomes of a payment; `seen` has the payments of later entries.
    fn counts(&self, seen: &mut HashSet<PaymentId>) -> bool;
}

impl Replayable for RoutingRecord {
    fn merchant(&self) -> Option<MerchantId> {
        Some(self.merchant)
    }

    /// A payment counts once, with its latest decision.
    fn counts(&self, seen: &mut HashSet<PaymentId>) -> bool {
        is_of_money(self) && self.payment.is_none_or(|payment| seen.insert(payment))
    }
}

impl Replayable for Conversation {
    fn merchant(&self) -> Option<MerchantId> {
        None
    }

    /// Each call is looked at by itself.
    fn counts(&self, _: &mut HashSet<PaymentId>) -> bool {
        true
    }
}

/// An entry as it is handed to a thread.
pub(super) struct Item<R> {
    number: u64,
    counts: bool,
    record: R,
}

/// Some entries, and how many were read for them.
type Chunk<R> = (u64, Vec<Item<R>>);

/// The log's entries in turn, newest first.
pub(super) struct Feed<R, P> {
    /// Gives the next page; an empty one at the end.
    pages: P,
    waiting: VecDeque<R>,
    /// Entries that are still to be read.
    left: u64,
    number: u64,
    merchant: Option<MerchantId>,
    /// Payments of which a later decision was seen. 16 bytes each, a million of them some 35 MB.
    seen: HashSet<PaymentId>,
}

impl<R: Replayable, P: FnMut() -> Result<Vec<R>, Fault>> Feed<R, P> {
    /// The last so many, of which those of other merchants than `merchant` are passed by.
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

    /// The next entries; none at the end.
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

/// How much a replay takes at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) threads: usize,
    /// Payments that it names.
    pub(super) examples: usize,
}

/// Compares all that a feed gives, on as many threads as there are processors but at most so many. What comes of each
/// part is sent as it is done; where it is received no longer, the threads end.
///
/// # Errors
/// Where no thread can be started.
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
        // One is enough.
        if let Err(error) = started
            && number == 0
        {
            begun = Err(error);
            break;
        }
    }
    begun.map(|()| receiver)
}

/// Has requests go first on this thread's processor.
fn give_way() {
    // On Linux it is the calling thread's own; elsewhere it would be the whole process'.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

/// How long a thread that serves requests has had something to do, on average.
fn busy(requests: &Handle) -> Duration {
    let metrics = requests.metrics();
    let workers = metrics.num_workers();
    let all: Duration = (0..workers)
        .map(|worker| metrics.worker_total_busy_duration(worker))
        .sum();
    all / u32::try_from(workers).unwrap_or(u32::MAX).max(1)
}

/// Compares chunk by chunk, and rests in between where requests kept their threads busy meanwhile.
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
        // Priority alone does not do it: the log is read on threads of the store.
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
    /// Whether the active version is asked too: where the log does not say what it answered, and now and then.
    const fn is_asked_again(&self, is_known: bool) -> bool {
        !is_known || self.number.is_multiple_of(ASKED_AGAIN)
    }
}

/// A version of a provider's module that makes recorded calls again. It blocks.
pub(super) type ReplayCall =
    Box<dyn Fn(&Conversation) -> Result<RecordedCall, CallError> + Send + Sync>;

/// Two versions of a provider's module to be compared.
pub(super) struct ProviderSides {
    /// Which one is active: what it said stands in the log.
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

/// A call as it was made again, or the word for why it could not.
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

/// The answer, or the word for its failure.
pub(crate) fn said(
    answer: &Result<Arc<RankAnswer>, CallError>,
) -> Result<&RankAnswer, &'static str> {
    answer.as_deref().map_err(CallError::kind)
}

/// Asks a version and holds its answer against the host's rules.
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

/// What a version says where there is room to call it: load is no failure of it, so it is called again.
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
