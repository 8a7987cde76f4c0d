//! Lanes: threads that ask methods at the same time write to nothing that another of them writes to.
//!
//! A call counts references to its engine, its component and its version, and takes and gives back parts
//! of a pool, dozens of times. Two threads that do so in the same places wait for each other's cache lines,
//! 2 us of each `rank` by `perf`. So methods are loaded once for each of a few engines, and a thread keeps
//! to one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// Most lanes. Each holds its own copy of a method's machine code; with more threads than lanes a few
/// share one.
pub(crate) const MOST: usize = 4;

/// Numbers of the threads that live.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    static NUMBER: Number = Number::take();
}

/// How many lanes there are where so many calls may run at once.
pub(crate) fn count(calls: u32) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let calls = usize::try_from(calls).unwrap_or(MOST);
    processors.min(calls).clamp(1, MOST)
}

/// What each of so many lanes has of a number of places.
pub(crate) fn share(places: u32, lanes: usize) -> u32 {
    u32::try_from(lanes).map_or(1, |lanes| places.div_ceil(lanes.max(1)))
}

/// Something that each lane has of its own, or one that all threads share.
pub(crate) struct Lanes<T> {
    first: T,
    others: Box<[T]>,
    is_shared: bool,
}

impl<T> Lanes<T> {
    /// One for all threads.
    pub(crate) fn shared(one: T) -> Self {
        Self {
            first: one,
            others: Box::default(),
            is_shared: true,
        }
    }

    /// One for each lane.
    pub(crate) fn apart(first: T, others: Box<[T]>) -> Self {
        Self {
            first,
            others,
            is_shared: false,
        }
    }

    /// That of the first lane, or the one that is shared.
    pub(crate) const fn first(&self) -> &T {
        &self.first
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Makes something of each but the first, of which it was made already.
    pub(crate) fn along<U, E>(
        &self,
        first: U,
        make: impl FnMut(&T) -> Result<U, E>,
    ) -> Result<Lanes<U>, E> {
        Ok(Lanes {
            first,
            others: self.others.iter().map(make).collect::<Result<_, _>>()?,
            is_shared: self.is_shared,
        })
    }

    /// That of the calling thread, and its lane if it has one.
    pub(crate) fn mine(&self) -> (Option<usize>, &T) {
        if self.is_shared {
            return (None, &self.first);
        }
        let lane = match self.len() {
            1 => 0,
            // A thread that is ending has no number any more.
            count => NUMBER.try_with(|number| number.0).unwrap_or_default() % count,
        };
        let other = lane.checked_sub(1).and_then(|at| self.others.get(at));
        (Some(lane), other.unwrap_or(&self.first))
    }
}

/// The lowest number that no other thread has.
struct Number(usize);

impl Number {
    fn take() -> Self {
        let mut taken = TAKEN.lock();
        let free = (0..=taken.len()).find(|number| !taken.contains(number));
        let number = free.unwrap_or_default();
        taken.insert(number);
        Self(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        TAKEN.lock().remove(&self.0);
    }
}

/// A reference that is counted apart from those of other lanes.
pub(crate) type Apart<T> = Arc<CachePadded<Arc<T>>>;

/// Counts from now on apart.
pub(crate) fn apart<T>(shared: &Arc<T>) -> Apart<T> {
    Arc::new(CachePadded::new(Arc::clone(shared)))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// The numbers of as many threads as there are lanes, which ask at the same time.
    fn together(ask: impl Fn(usize) + Sync) -> BTreeSet<usize> {
        let all = Barrier::new(MOST);
        let one = || {
            let number = NUMBER.with(|number| number.0);
            all.wait();
            ask(number);
            number
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..MOST).map(|_| scope.spawn(one)).collect();
            let numbers = threads.into_iter().map(|thread| thread.join().unwrap());
            numbers.collect()
        })
    }

    #[test]
    fn threads_that_live_together_have_numbers_of_their_own() {
        let first = together(|_| {});
        assert_eq!(first.len(), MOST);
        // Another test's threads may have taken what was given back.
        let given_back = |numbers: &BTreeSet<usize>| {
            let taken = TAKEN.lock();
            numbers.iter().any(|number| !taken.contains(number))
        };
        assert!(given_back(&first) || given_back(&together(|_| {})));
    }

    #[test]
    fn a_thread_keeps_to_what_is_its_lane_s() {
        let lanes = Lanes::apart(0, (1..MOST).collect());
        let doubled = lanes.along(0, |lane| Ok::<_, ()>(2 * lane)).unwrap();
        let shared = Lanes::shared(7).along(8, |_| Err(())).unwrap();
        together(|number| {
            let lane = number % MOST;
            assert_eq!(lanes.mine(), (Some(lane), &lane));
            assert_eq!(doubled.mine(), (Some(lane), &(2 * lane)));
            assert_eq!(shared.mine(), (None, &8));
        });
    }

    #[test]
    fn there_are_no_more_lanes_than_calls() {
        assert_eq!(count(1), 1);
        assert_eq!(count(0), 1);
        assert!(count(u32::MAX) <= MOST);
    }
}
