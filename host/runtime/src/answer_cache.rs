//! A cache of the answers of method modules. A method module is pure, so a repeated question needs no call.
//!
//! The key is the version's digest and the whole question: amount, currency, settings, candidates with their
//! health, and the time in seconds. The answer depends on nothing else, so entries never need to be invalidated:
//! if a module is replaced, a setting changes or an account fails, the next question is different. Only valid
//! answers are cached, and no answer of a call that wrote to the log, because operators must see every line.
//!
//! Entries that are read often stay, others are evicted.

use std::sync::Arc;

use kassette_domain::id::Digest;
use kassette_domain::routing::{Context, RankAnswer};
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

/// Estimated size of an entry without its texts, in bytes: the entry, its place in the table and the headers of
/// its allocations.
const ENTRY: usize = 512;
/// Estimated size of a candidate, a verdict or a setting without its texts, in bytes.
const ITEM: usize = 160;

/// The answers of all methods. `None` if caching is off.
#[derive(Debug)]
pub(crate) struct AnswerCache(Option<Cache<Key, Arc<RankAnswer>, Size>>);

/// A version, and the question to it.
#[derive(Debug, Hash, PartialEq, Eq)]
struct Key {
    digest: Digest,
    question: Context,
}

#[derive(Hash)]
struct KeyRef<'a> {
    digest: &'a Digest,
    question: &'a Context,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        key.digest == *self.digest && key.question == *self.question
    }
}

/// Estimates the size of an entry in bytes.
#[derive(Clone, Debug)]
struct Size;

impl Weighter<Key, Arc<RankAnswer>> for Size {
    fn weight(&self, key: &Key, answer: &Arc<RankAnswer>) -> u64 {
        entry_size(&key.question, answer) as u64
    }
}

impl AnswerCache {
    /// A cache of about this many bytes. 0 turns caching off.
    pub(crate) fn new(bytes: usize) -> Self {
        let cache = |bytes| Cache::with_weighter(bytes / (ENTRY + 2 * ITEM), bytes as u64, Size);
        Self((bytes > 0).then(|| cache(bytes)))
    }

    /// Returns the version's cached answer to exactly this question.
    pub(crate) fn get(&self, digest: &Digest, question: &Context) -> Option<Arc<RankAnswer>> {
        self.0.as_ref()?.get(&KeyRef { digest, question })
    }

    pub(crate) fn insert(&self, digest: &Digest, question: &Context, answer: &Arc<RankAnswer>) {
        let Some(cache) = &self.0 else {
            return;
        };
        let key = Key {
            digest: *digest,
            question: question.clone(),
        };
        cache.insert(key, Arc::clone(answer));
    }
}

fn entry_size(question: &Context, answer: &RankAnswer) -> usize {
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
    use kassette_domain::routing::{
        AccountCandidate, Availability, Ground, Health, RoutingRefusal, Verdict,
    };
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
            candidates: vec![AccountCandidate {
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

    fn answer(reason: &str) -> Arc<RankAnswer> {
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
        let no = Arc::new(Err(RoutingRefusal {
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
        let cache = AnswerCache::new(100_000);
        cache.insert(&DIGEST, &question(1), &answer("short"));
        cache.insert(&DIGEST, &question(2), &answer(&"x".repeat(100_000)));
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
        let held = cache.0.as_ref().map_or(0, |cache| cache.weight());
        assert!(held <= BOUND as u64, "{held}");
        assert!(
            cache.get(&DIGEST, &question(19_999)).is_some(),
            "the latest"
        );
    }
}
