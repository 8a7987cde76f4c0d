//! A good module that another thread calls all the time, to measure the effect of hostile modules on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use hdrhistogram::Histogram;
use kassette_domain::method::MethodId;
use kassette_runtime::Runtime;

use crate::support::context;

/// Number of calls before a hostile module is installed.
const BEFORE: u64 = 5_000;
/// Maximum factor by which the 99th percentile may rise.
const WORSE: f64 = 1.5;

/// Durations of calls without and with hostile modules, in nanoseconds.
pub(crate) struct Felt {
    before: Histogram<u64>,
    beside: Histogram<u64>,
}

/// The thread with the calls.
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

    /// Measures a runtime without hostile modules, then starts to call the neighbor in a thread.
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

    /// Ends the calls. All of them must have succeeded.
    pub(crate) fn end(&mut self, neighbour: Neighbour) {
        neighbour.over.store(true, Ordering::Relaxed);
        let times = neighbour.calling.join().expect("the neighbour is served");
        self.beside.add(times).unwrap();
    }

    /// Prints the result. It is checked only if the environment sets the number of rounds, as a developer does on
    /// a machine without other work.
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

/// Duration of one call, in nanoseconds.
fn call(runtime: &Runtime) -> u64 {
    let question = context(&["a"]);
    let began = Instant::now();
    let module = runtime.method(MethodId::Paypal).expect("it serves");
    let answer = module.rank(&question).expect("an answer").expect("a yes");
    let took = began.elapsed();
    assert_eq!(answer[0].outcome.as_deref(), Ok("beside"));
    u64::try_from(took.as_nanos()).unwrap()
}
