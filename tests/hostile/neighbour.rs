//! A good module that is called all the time, on a thread of its own: what it feels of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use hdrhistogram::Histogram;
use kassette_domain::method::MethodId;
use kassette_runtime::Runtime;

use crate::support::context;

/// Calls before anything hostile is there.
const BEFORE: u64 = 5_000;
/// By how much the 99th percentile may rise.
const WORSE: f64 = 1.5;

/// Times of calls, before and beside everything hostile so far.
pub(crate) struct Felt {
    before: Histogram<u64>,
    beside: Histogram<u64>,
}

/// Calls under way.
pub(crate) struct Neighbour {
    over: Arc<AtomicBool>,
    calling: JoinHandle<Histogram<u64>>,
}

impl Felt {
    pub(crate) fn new() -> Self {
        Self {
            before: none(),
            beside: none(),
        }
    }

    /// Measures a runtime on which nothing hostile is, then begins to call beside what comes.
    pub(crate) fn begin(&mut self, runtime: &Arc<Runtime>) -> Neighbour {
        for _ in 0..BEFORE {
            self.before.record(call(runtime)).unwrap();
        }
        let over = Arc::new(AtomicBool::new(false));
        let (runtime, told) = (Arc::clone(runtime), Arc::clone(&over));
        let calling = std::thread::spawn(move || {
            let mut times = none();
            while !told.load(Ordering::Relaxed) {
                times.record(call(&runtime)).unwrap();
            }
            times
        });
        Neighbour { over, calling }
    }

    /// Ends the calls; every one of them was answered.
    pub(crate) fn end(&mut self, neighbour: Neighbour) {
        neighbour.over.store(true, Ordering::Relaxed);
        let times = neighbour.calling.join().expect("the neighbour is served");
        self.beside.add(times).unwrap();
    }

    /// Prints what was felt. Only where the rounds were asked for, which a developer does on a
    /// machine that has nothing else to do, it must be little.
    pub(crate) fn judge(&self) {
        let p99 = |times: &Histogram<u64>| times.value_at_quantile(0.99) as f64 / 1000.0;
        let (before, beside) = (p99(&self.before), p99(&self.beside));
        println!(
            "a neighbour's calls: p99 {before:.1} us before, {beside:.1} us beside ({:.2} times), {} calls",
            beside / before,
            self.beside.len()
        );
        if crate::asked_rounds().is_some() {
            assert!(beside <= before * WORSE);
        }
    }
}

fn none() -> Histogram<u64> {
    Histogram::new(3).unwrap()
}

/// One call, in nanoseconds.
fn call(runtime: &Runtime) -> u64 {
    let question = context(&["a"]);
    let began = Instant::now();
    let module = runtime.method(MethodId::Paypal).expect("it serves");
    let answer = module.rank(&question).expect("an answer").expect("a yes");
    let took = began.elapsed();
    assert_eq!(answer[0].outcome.as_deref(), Ok("beside"));
    u64::try_from(took.as_nanos()).unwrap()
}
