//! The log, asked again on threads of its own: beside requests, after which each of them stands.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::id::{Digest, MerchantId, PaymentId};
use kassette_domain::routing::{self, Answer, Context, RoutingRecord};
use kassette_runtime::CallError;
use kassette_store::Fault;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::ReplayError;
use super::compare::{Diff, Recorded, is_of_money};

/// Decisions that a thread takes at once.
const CHUNK: usize = 256;
/// How much the threads yield to requests, on the scale of nice(1).
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;
/// How often a call that found no place is tried again, and the pause before it.
const TRIES: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(5);
/// The active version is asked about one in so many of its own decisions too, to compare what calls take.
const ASKED_AGAIN: u64 = 64;

/// A version with what it is told. It blocks.
pub(super) type Ask = Box<dyn Fn(&Context) -> Result<Arc<Answer>, CallError> + Send + Sync>;

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

/// A decision as it is handed to a thread.
struct Item {
    number: u64,
    counts: bool,
    record: RoutingRecord,
}

/// The log's decisions in turn, newest first.
pub(super) struct Feed<P> {
    /// Gives the next page; an empty one at the end.
    pages: P,
    waiting: VecDeque<RoutingRecord>,
    /// Decisions that are still to be read.
    left: u64,
    number: u64,
    merchant: Option<MerchantId>,
    /// Payments of which a later decision was seen. 16 bytes each, a million of them some 35 MB.
    seen: HashSet<PaymentId>,
}

impl<P: FnMut() -> Result<Vec<RoutingRecord>, Fault>> Feed<P> {
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

    /// Some decisions, and how many were read for them; none at the end.
    fn chunk(&mut self) -> Result<Option<(u64, Vec<Item>)>, Fault> {
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
            if self.merchant.is_some_and(|only| only != record.merchant) {
                continue;
            }
            let is_first = |payment| self.seen.insert(payment);
            let counts = is_of_money(&record) && record.payment.is_none_or(is_first);
            items.push(Item {
                number,
                counts,
                record,
            });
        }
        Ok((read > 0).then_some((read, items)))
    }
}

/// Compares all that a feed gives, on as many threads as there are processors but at most so many. What comes of each part is
/// sent as it is done; where it is received no longer, the threads end.
///
/// # Errors
/// Where no thread can be started.
pub(super) fn begin<P>(
    sides: Sides,
    feed: Feed<P>,
    most: usize,
) -> std::io::Result<mpsc::Receiver<Result<Part, ReplayError>>>
where
    P: FnMut() -> Result<Vec<RoutingRecord>, Fault> + Send + 'static,
{
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(most);
    let (sender, receiver) = mpsc::channel(2 * threads);
    let (sides, feed) = (Arc::new(sides), Arc::new(Mutex::new(feed)));
    let mut begun = Ok(());
    for number in 0..threads {
        let (sides, feed, sender) = (Arc::clone(&sides), Arc::clone(&feed), sender.clone());
        let thread = std::thread::Builder::new().name("replay".into());
        let started = thread.spawn(move || {
            give_way();
            work(&sides, &feed, &sender);
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

fn work<P: FnMut() -> Result<Vec<RoutingRecord>, Fault>>(
    sides: &Sides,
    feed: &Mutex<Feed<P>>,
    results: &mpsc::Sender<Result<Part, ReplayError>>,
) {
    loop {
        let chunk = feed.lock().chunk();
        let part = match chunk {
            Ok(None) => return,
            Ok(Some((read, items))) => catch_unwind(AssertUnwindSafe(|| sides.compare(&items)))
                .map(|diff| Part { read, diff })
                .map_err(|_| ReplayError::Broken("a thread panicked".into())),
            Err(fault) => Err(fault.into()),
        };
        let is_over = part.is_err();
        if results.blocking_send(part).is_err() || is_over {
            return;
        }
    }
}

impl Sides {
    fn compare(&self, items: &[Item]) -> Diff {
        let mut diff = Diff::default();
        for item in items {
            let record = &item.record;
            let own = record.answer.as_ref();
            let own = own.filter(|_| record.digest == self.digest);
            let again = (own.is_none() || item.number.is_multiple_of(ASKED_AGAIN)).then(|| {
                let began = Instant::now();
                let answer = (self.active)(&record.context);
                diff.active_cost.calls += 1;
                diff.active_cost.time += began.elapsed();
                answer
            });
            let began = Instant::now();
            let candidate = (self.candidate)(&record.context);
            diff.candidate_cost.calls += 1;
            diff.candidate_cost.time += began.elapsed();
            let active = match (own, &again) {
                (Some(own), _) => Ok(own),
                (None, Some(again)) => said(again),
                (None, None) => Err("unasked"),
            };
            let recorded = Recorded {
                number: item.number,
                counts: item.counts,
                record,
            };
            diff.count(&recorded, active, said(&candidate));
        }
        diff
    }
}

/// The answer, or the word for its failure.
pub(crate) fn said(answer: &Result<Arc<Answer>, CallError>) -> Result<&Answer, &'static str> {
    answer.as_deref().map_err(CallError::kind)
}

/// Asks a version and holds its answer against the host's rules. Load is no failure of it: it is asked again.
pub(super) fn ask(
    module: impl Fn(&Context) -> Result<Arc<Answer>, CallError>,
    context: &Context,
) -> Result<Arc<Answer>, CallError> {
    let mut tries = 0;
    let answer = loop {
        match module(context) {
            Err(CallError::Busy) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            answer => break answer?,
        }
    };
    if let Ok(verdicts) = &*answer {
        routing::check(context, verdicts).map_err(CallError::Faulty)?;
    }
    Ok(answer)
}
