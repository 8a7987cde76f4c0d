//! Shards: threads that ask methods at the same time write to nothing that another of them writes to.
//!
//! A call counts references to its engine, its component and its version, and takes and gives back parts
//! of a pool, dozens of times. Two threads that do so in the same places wait for each other's cache lines,
//! 2 us of each `rank` by `perf`. So methods are loaded once for each of a few engines, and a thread keeps
//! to one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// Most shards. Each holds its own copy of a method's machine code; with more threads than shards a few
/// share one.
pub(crate) const MAX_SHARDS: usize = 4;

/// Numbers of the live threads.
static TAKEN_NUMBERS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    static THREAD_NUMBER: ThreadNumber = ThreadNumber::take();
}

/// How many shards there are where so many calls may run at once.
pub(crate) fn count(calls: u32) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let calls = usize::try_from(calls).unwrap_or(MAX_SHARDS);
    processors.min(calls).clamp(1, MAX_SHARDS)
}

/// What each of so many shards has of a number of permits.
pub(crate) fn share(permits: u32, shards: usize) -> u32 {
    u32::try_from(shards).map_or(1, |shards| permits.div_ceil(shards.max(1)))
}

/// Something that each shard has of its own, or one that all threads share.
pub(crate) struct Sharded<T> {
    first: T,
    others: Box<[T]>,
    is_shared: bool,
}

impl<T> Sharded<T> {
    /// One for all threads.
    pub(crate) fn shared(one: T) -> Self {
        Self {
            first: one,
            others: Box::default(),
            is_shared: true,
        }
    }

    pub(crate) fn per_shard(first: T, others: Box<[T]>) -> Self {
        Self {
            first,
            others,
            is_shared: false,
        }
    }

    /// That of the first shard, or the one that is shared.
    pub(crate) const fn first(&self) -> &T {
        &self.first
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) const fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Makes something of each but the first, of which it was made already.
    pub(crate) fn derive<U, E>(
        &self,
        first: U,
        make: impl FnMut(&T) -> Result<U, E>,
    ) -> Result<Sharded<U>, E> {
        Ok(Sharded {
            first,
            others: self.others.iter().map(make).collect::<Result<_, _>>()?,
            is_shared: self.is_shared,
        })
    }

    /// That of the calling thread, and its shard if it has one.
    pub(crate) fn current(&self) -> (Option<usize>, &T) {
        if self.is_shared {
            return (None, &self.first);
        }
        let shard = match self.len() {
            1 => 0,
            count => thread_number() % count,
        };
        let other = shard.checked_sub(1).and_then(|at| self.others.get(at));
        (Some(shard), other.unwrap_or(&self.first))
    }
}

/// The number of the calling thread; zero where it is ending.
pub(crate) fn thread_number() -> usize {
    THREAD_NUMBER
        .try_with(|number| number.0)
        .unwrap_or_default()
}

/// The lowest number that no other thread has.
struct ThreadNumber(usize);

impl ThreadNumber {
    fn take() -> Self {
        let mut taken = TAKEN_NUMBERS.lock();
        let free = (0..=taken.len()).find(|number| !taken.contains(number));
        let number = free.unwrap_or_default();
        taken.insert(number);
        Self(number)
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        TAKEN_NUMBERS.lock().remove(&self.0);
    }
}

/// A reference that is counted apart from those of other shards.
pub(crate) type ShardArc<T> = Arc<CachePadded<Arc<T>>>;

pub(crate) fn shard_arc<T>(shared: &Arc<T>) -> ShardArc<T> {
    Arc::new(CachePadded::new(Arc::clone(shared)))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// The numbers of as many threads as there are shards, which ask at the same time.
    fn together(ask: impl Fn(usize) + Sync) -> BTreeSet<usize> {
        let all = Barrier::new(MAX_SHARDS);
        let one = || {
            let number = THREAD_NUMBER.with(|number| number.0);
            all.wait();
            ask(number);
            number
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..MAX_SHARDS).map(|_| scope.spawn(one)).collect();
            let numbers = threads.into_iter().map(|thread| thread.join().unwrap());
            numbers.collect()
        })
    }

    #[test]
    fn threads_that_live_together_have_numbers_of_their_own() {
        let first = together(|_| {});
        assert_eq!(first.len(), MAX_SHARDS);
        // Another test's threads may have taken what was given back.
        let given_back = |numbers: &BTreeSet<usize>| {
            let taken = TAKEN_NUMBERS.lock();
            numbers.iter().any(|number| !taken.contains(number))
        };
        assert!(given_back(&first) || given_back(&together(|_| {})));
    }

    #[test]
    fn a_thread_keeps_to_its_shard() {
        let shards = Sharded::per_shard(0, (1..MAX_SHARDS).collect());
        let doubled = shards.derive(0, |shard| Ok::<_, ()>(2 * shard)).unwrap();
        let shared = Sharded::shared(7).derive(8, |_| Err(())).unwrap();
        together(|number| {
            let shard = number % MAX_SHARDS;
            assert_eq!(shards.current(), (Some(shard), &shard));
            assert_eq!(doubled.current(), (Some(shard), &(2 * shard)));
            assert_eq!(shared.current(), (None, &8));
        });
    }

    #[test]
    fn there_are_no_more_shards_than_calls() {
        assert_eq!(count(1), 1);
        assert_eq!(count(0), 1);
        assert!(count(u32::MAX) <= MAX_SHARDS);
    }
}
