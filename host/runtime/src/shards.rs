//! Shards: threads that call methods at the same time write to separate memory.
//!
//! A call updates reference counts of its engine, component and version, and takes and returns parts of a pool,
//! dozens of times. Two threads doing so in the same memory wait for each other's cache lines, which costs 2 us
//! per `rank` (measured with `perf`). So methods are loaded for several engines, and each thread uses one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// Maximum number of shards. Each has its own copy of a method's machine code. With more threads, several threads
/// share a shard.
pub(crate) const MAX_SHARDS: usize = 4;

/// Numbers of the live threads.
static TAKEN_NUMBERS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    static THREAD_NUMBER: ThreadNumber = ThreadNumber::take();
}

/// Number of shards for this many calls at a time.
pub(crate) fn count(calls: u32) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let calls = usize::try_from(calls).unwrap_or(MAX_SHARDS);
    processors.min(calls).clamp(1, MAX_SHARDS)
}

/// Number of permits for each shard.
pub(crate) fn share(permits: u32, shards: usize) -> u32 {
    u32::try_from(shards).map_or(1, |shards| permits.div_ceil(shards.max(1)))
}

/// A value for each shard, or a single value for all threads.
pub(crate) struct Sharded<T> {
    first: T,
    others: Box<[T]>,
    is_shared: bool,
}

impl<T> Sharded<T> {
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

    /// The value of the first shard, or the shared one.
    pub(crate) const fn first(&self) -> &T {
        &self.first
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) const fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Derives a value from each except the first, whose derived value is given.
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

    /// The value of the calling thread, and the number of its shard unless the value is shared.
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

/// The number of the calling thread, or zero while it ends.
pub(crate) fn thread_number() -> usize {
    THREAD_NUMBER
        .try_with(|number| number.0)
        .unwrap_or_default()
}

/// The lowest number that no other live thread has.
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

/// A reference with a separate count for each shard.
pub(crate) type ShardArc<T> = Arc<CachePadded<Arc<T>>>;

pub(crate) fn shard_arc<T>(shared: &Arc<T>) -> ShardArc<T> {
    Arc::new(CachePadded::new(Arc::clone(shared)))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Numbers of `MAX_SHARDS` threads that run `ask` at the same time.
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
        // Threads of another test may have taken released numbers.
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
