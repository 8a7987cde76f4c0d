//! A cache of what methods answered: a method's module is pure, so a question that was asked before
//! needs no call.
//!
//! An answer is found by the version's digest and the whole question: amount, currency, settings,
//! candidates with their health, the second. Nothing else decides, so nothing has to be forgotten
//! when a module is swapped, a setting changes or an account fails: the next question is another
//! one. Only answers that the host believed are kept, and none of a call that wrote to the log,
//! because the operator is to read every line.
//!
//! Of each segment the two latest generations are kept: what is found again moves to the younger, and
//! when that is full the elder goes. So what is asked again and again stays, and the seconds that
//! are over fall out by themselves.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher};
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use kassette_domain::id::Digest;
use kassette_domain::routing::{Answer, Context};
use parking_lot::Mutex;

/// Segments with a lock each, so that threads seldom meet.
const SEGMENTS: usize = 16;
/// What an entry takes beside its texts: itself, its place in the table, the heads of its blocks.
const ENTRY: usize = 512;
/// What a candidate, a verdict or a setting takes beside its texts.
const ITEM: usize = 160;

/// The answers of all methods.
#[derive(Debug)]
pub(crate) struct AnswerCache {
    /// Bytes that one generation of one segment may hold; 0 where nothing is cached.
    max_bytes: usize,
    /// A quick hash: a listing asks for six questions, and the standard library's took longer than all
    /// else about the answer. A module that knew the seed could make two collide, and would gain
    /// nothing: the later takes the place of the earlier, and questions are compared themselves.
    hashes: RandomState,
    segments: [Mutex<Segment>; SEGMENTS],
}

#[derive(Debug, Default)]
struct Segment {
    young: Generation,
    old: Generation,
}

/// Entries by the hash of their question. One that has another's hash takes its place.
#[derive(Debug, Default)]
struct Generation {
    entries: HashMap<u64, Entry, BuildHasherDefault<IdentityHasher>>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    digest: Digest,
    question: Context,
    answer: Arc<Answer>,
    bytes: usize,
}

/// The hash of a number that is one already.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl AnswerCache {
    /// Holds answers in about so many bytes; 0: none.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            max_bytes: bytes / (2 * SEGMENTS),
            hashes: RandomState::default(),
            segments: Default::default(),
        }
    }

    /// What a version answered to this very question.
    pub(crate) fn get(&self, digest: &Digest, question: &Context) -> Option<Arc<Answer>> {
        if self.max_bytes == 0 {
            return None;
        }
        let hash = self.hashes.hash_one((digest, question));
        let mut segment = self.segment(hash)?.lock();
        let same = |entry: &&Entry| entry.digest == *digest && entry.question == *question;
        if let Some(entry) = segment.young.entries.get(&hash).filter(same) {
            return Some(Arc::clone(&entry.answer));
        }
        let entry = segment.old.entries.get(&hash).filter(same)?;
        let answer = Arc::clone(&entry.answer);
        if let Some(entry) = segment.old.take(hash) {
            segment.put(hash, entry, self.max_bytes);
        }
        Some(answer)
    }

    pub(crate) fn insert(&self, digest: &Digest, question: &Context, answer: &Arc<Answer>) {
        if self.max_bytes == 0 {
            return;
        }
        let bytes = entry_size(question, answer);
        if bytes > self.max_bytes {
            return;
        }
        let hash = self.hashes.hash_one((digest, question));
        let Some(segment) = self.segment(hash) else {
            return;
        };
        let entry = Entry {
            digest: *digest,
            question: question.clone(),
            answer: Arc::clone(answer),
            bytes,
        };
        segment.lock().put(hash, entry, self.max_bytes);
    }

    fn segment(&self, hash: u64) -> Option<&Mutex<Segment>> {
        // The table uses the other end of the hash.
        self.segments.get((hash >> 32) as usize % SEGMENTS)
    }
}

impl Segment {
    fn put(&mut self, hash: u64, entry: Entry, max_bytes: usize) {
        if self.young.bytes + entry.bytes > max_bytes {
            self.old = mem::take(&mut self.young);
        }
        self.young.take(hash);
        self.young.bytes += entry.bytes;
        self.young.entries.insert(hash, entry);
    }
}

impl Generation {
    fn take(&mut self, hash: u64) -> Option<Entry> {
        let entry = self.entries.remove(&hash)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

/// About what an entry takes, bytes.
fn entry_size(question: &Context, answer: &Answer) -> usize {
    let setting = |(name, value): &(String, String)| ITEM + name.len() + value.len();
    let settings = question.settings.iter().map(setting);
    let candidates = question.candidates.iter();
    let candidates = candidates.map(|candidate| ITEM + candidate.id.as_str().len());
    let verdicts = answer.iter().flatten().map(|verdict| {
        let text = match &verdict.outcome {
            Ok(reason) => reason.len(),
            Err(refusal) => refusal.detail.len(),
        };
        ITEM + verdict.id.as_str().len() + text
    });
    let refusal = answer.as_ref().err().map_or(0, |no| no.detail.len());
    ENTRY + refusal + settings.chain(candidates).chain(verdicts).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::AccountId;
    use kassette_domain::key::Environment;
    use kassette_domain::money::{Currency, Minor};
    use kassette_domain::routing::{Availability, Candidate, Ground, Health, Refusal, Verdict};
    use kassette_domain::time::Time;

    use super::*;

    const DIGEST: Digest = Digest([7; 32]);

    fn question(amount: u64) -> Context {
        let id = AccountId::parse("stripe").unwrap();
        Context {
            amount: Some(Minor(amount)),
            currency: Currency::EUR,
            usd: None,
            environment: Environment::Test,
            email_known: false,
            country: None,
            now: Time::from_secs(1_795_000_000),
            settings: vec![("order".into(), "cost".into())],
            candidates: vec![Candidate {
                id,
                minimum: None,
                maximum: None,
                fee: None,
                priority: 0,
                health: Health {
                    status: Availability::Operational,
                    success: None,
                    latency: None,
                    samples: 3,
                },
            }],
        }
    }

    fn answer(reason: &str) -> Arc<Answer> {
        let id = AccountId::parse("stripe").unwrap();
        let outcome = Ok(reason.to_owned());
        Arc::new(Ok(vec![Verdict { id, outcome }]))
    }

    #[test]
    fn only_the_very_same_question_to_the_very_same_version_is_remembered() {
        let cache = AnswerCache::new(1 << 20);
        cache.insert(&DIGEST, &question(1), &answer("first"));
        assert_eq!(cache.get(&DIGEST, &question(1)), Some(answer("first")));
        assert_eq!(cache.get(&Digest([8; 32]), &question(1)), None);
        let changes: [fn(&mut Context); 9] = [
            |other| other.amount = Some(Minor(2)),
            |other| other.currency = Currency::USD,
            |other| other.usd = Some(Minor(1)),
            |other| other.environment = Environment::Live,
            |other| other.email_known = true,
            |other| other.country = Some("NL".into()),
            |other| other.now = Time::from_secs(1_795_000_001),
            |other| other.settings[0].1 = "speed".into(),
            |other| other.candidates[0].health.samples = 4,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = question(1);
            change(&mut other);
            assert_eq!(cache.get(&DIGEST, &other), None, "change {number}");
        }
    }

    #[test]
    fn a_refusal_is_an_answer_too() {
        let cache = AnswerCache::new(1 << 20);
        let no = Arc::new(Err(Refusal {
            ground: Ground::Country,
            detail: "not there".into(),
        }));
        cache.insert(&DIGEST, &question(1), &no);
        assert_eq!(cache.get(&DIGEST, &question(1)), Some(no));
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let cache = AnswerCache::new(0);
        cache.insert(&DIGEST, &question(1), &answer("x"));
        assert_eq!(cache.get(&DIGEST, &question(1)), None);
    }

    #[test]
    fn an_answer_larger_than_its_room_is_not_kept() {
        let cache = AnswerCache::new(2 * SEGMENTS * 1500);
        cache.insert(&DIGEST, &question(1), &answer("short"));
        cache.insert(&DIGEST, &question(2), &answer(&"x".repeat(1500)));
        assert!(cache.get(&DIGEST, &question(1)).is_some());
        assert_eq!(cache.get(&DIGEST, &question(2)), None);
    }

    #[test]
    fn memory_stays_within_its_bound_and_what_is_asked_again_stays() {
        const BOUND: usize = 1 << 20;
        let cache = AnswerCache::new(BOUND);
        cache.insert(&DIGEST, &question(0), &answer("asked again and again"));
        for amount in 1..20_000 {
            cache.insert(&DIGEST, &question(amount), &answer("asked once"));
            assert!(cache.get(&DIGEST, &question(0)).is_some(), "{amount}");
        }
        let bytes = |generation: &Generation| {
            let entries = generation.entries.values();
            let sum = entries.map(|entry| entry.bytes).sum::<usize>();
            assert_eq!(sum, generation.bytes);
            sum
        };
        let held = cache.segments.iter().map(|segment| {
            let segment = segment.lock();
            bytes(&segment.young) + bytes(&segment.old)
        });
        assert!(held.sum::<usize>() <= BOUND);
        assert_eq!(cache.get(&DIGEST, &question(1)), None, "the oldest went");
    }
}
