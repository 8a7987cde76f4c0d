//! Modules without a server, in this process: the cost of a call, how it scales, the time until a file is active,
//! and the memory of a version. Modules are compiled by the real binary in a child process.
//!
//! The module is our own iDEAL, and a request has four candidates. The host's checks of the response are included.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use kassette_domain::id::{AccountId, Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::routing::{AccountCandidate, Availability, Context, Health};
use kassette_domain::time::Time;
use kassette_http::{Client, Guard};
use kassette_runtime::{Compiler, CompilerChild, MethodModule, Runtime, RuntimeConfig};

use super::figure::{Figure, Goal, median};
use super::options::Options;

/// Time of all calls.
const NOW: Time = Time::from_secs(1_795_000_000);
/// Number of versions that are loaded to measure their memory.
const WEIGHED: u16 = 40;

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let ideal = ideal();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = start(folder.path());
    let slot = Slot::parse("method.ideal").unwrap();
    runtime.install(&slot, &ideal, NOW).unwrap();
    let module = runtime.method(MethodId::Ideal).unwrap();
    let mut figures = calls(&module, options);
    figures.extend(scaling(&module, options));
    figures.push(weight(&runtime, &slot, &ideal));
    figures.extend(swaps(&runtime, folder.path(), &slot, &ideal, options));
    figures
}

/// The iDEAL module as shipped.
fn ideal() -> Vec<u8> {
    let mut guests = kassette_build::guests().iter();
    let ideal = guests.find(|guest| guest.slot == "method.ideal").unwrap();
    std::fs::read(&ideal.path).unwrap()
}

fn start(folder: &Path) -> Arc<Runtime> {
    let mut config = RuntimeConfig::new(folder, Arc::new(|| NOW));
    let child = CompilerChild::new(env!("CARGO_BIN_EXE_kassette"), ["compile-module"]);
    config.compiler = Compiler::Child(child);
    let client = Client::new(Guard {
        allow_loopback: false,
    });
    Runtime::start(config, client).unwrap()
}

/// The same module with another digest, because of a custom section that the host ignores.
pub(crate) fn marked(module: &[u8], mark: u16) -> Vec<u8> {
    let [high, low] = mark.to_be_bytes();
    [module, &[0, 4, 1, b'm', high, low]].concat()
}

fn candidate(id: &str, priority: i32) -> AccountCandidate {
    AccountCandidate {
        id: AccountId::parse(id).unwrap(),
        minimum: Some(Minor(50)),
        maximum: Some(Minor(1_000_000)),
        fee: Some(Minor(29)),
        priority,
        health: Health {
            status: Availability::Operational,
            success: Some(990),
            latency: Some(200),
            samples: 100,
        },
    }
}

fn question() -> Context {
    let accounts = ["mollie-live", "stripe-live", "adyen-live", "paypal-live"];
    let candidates = accounts.iter().zip(0..);
    Context {
        amount: Some(Minor(4990)),
        currency: Currency::EUR,
        usd: Some(Minor(5389)),
        environment: Environment::Live,
        email_known: true,
        country: Some("NL".into()),
        now: NOW,
        settings: vec![],
        candidates: candidates.map(|(id, rank)| candidate(id, rank)).collect(),
    }
}

/// Durations of consecutive calls, in nanoseconds.
fn times(time: Duration, mut call: impl FnMut()) -> Histogram<u64> {
    let mut times = Histogram::new(3).unwrap();
    let began = Instant::now();
    let mut last = began;
    while last - began < time {
        call();
        let now = Instant::now();
        let took = u64::try_from((now - last).as_nanos()).unwrap();
        times.record(took).unwrap();
        last = now;
    }
    times
}

/// Calls with a new instance each, compared with calls of one reused instance.
fn calls(module: &Arc<MethodModule>, options: &Options) -> Vec<Figure> {
    let question = question();
    let mut reused = module.reused().unwrap();
    let mut fresh = || drop(module.rank(&question).unwrap().unwrap());
    let mut again = || drop(reused.rank(&question).unwrap().unwrap());
    times(options.slice() / 3, &mut fresh);
    times(options.slice() / 3, &mut again);
    let (mut freshes, mut p99s, mut agains, mut ratios) = (vec![], vec![], vec![], vec![]);
    for _ in 0..options.rounds() {
        let micros = |times: &Histogram<u64>, at| times.value_at_quantile(at) as f64 / 1000.0;
        let one = times(options.slice() / 3, &mut fresh);
        let other = times(options.slice() / 3, &mut again);
        freshes.push(micros(&one, 0.5));
        p99s.push(micros(&one, 0.99));
        agains.push(micros(&other, 0.5));
        ratios.push(micros(&one, 0.5) / micros(&other, 0.5));
    }
    vec![
        Figure::new("rank, fresh instance, p50", median(&freshes), "us").goal(Goal::AtMost(7.0)),
        Figure::new("rank, fresh instance, p99", median(&p99s), "us"),
        Figure::new("rank, reused instance, p50", median(&agains), "us"),
        Figure::new("rank, fresh to reused", median(&ratios), "times").goal(Goal::AtMost(2.0)),
    ]
}

/// Calls in two threads, compared with one thread.
fn scaling(module: &MethodModule, options: &Options) -> Vec<Figure> {
    let question = question();
    let time = options.slice() / 3;
    let count = || {
        let called = times(time, || drop(module.rank(&question).unwrap().unwrap()));
        called.len() as f64 / time.as_secs_f64()
    };
    let (mut ones, mut twos, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..options.rounds() {
        let one = count();
        let two = thread::scope(|scope| {
            let other = scope.spawn(count);
            count() + other.join().unwrap()
        });
        ones.push(one);
        twos.push(two);
        ratios.push(two / one);
    }
    let two = Figure::new("rank, two threads", median(&twos), "calls/s");
    vec![
        two.against("rank, one thread", median(&ones), median(&ratios))
            .goal(Goal::Ratio(1.6)),
    ]
}

/// Resident memory of this process in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<f64>().unwrap() * 1024.0
}

/// Memory of a version that a caller holds and has called one time.
fn weight(runtime: &Runtime, slot: &Slot, ideal: &[u8]) -> Figure {
    let question = question();
    let load = |mark: u16| {
        runtime.install(slot, &marked(ideal, mark), NOW).unwrap();
        let module = runtime.method(MethodId::Ideal).unwrap();
        module.rank(&question).unwrap().unwrap();
        module
    };
    // The first versions include what the runtime keeps anyway and the allocator's first growth.
    let mut held: Vec<_> = (0..10).map(load).collect();
    let before = resident();
    held.extend((10..10 + WEIGHED).map(load));
    let each = (resident() - before) / f64::from(WEIGHED);
    Figure::new("memory of a loaded version", each / 1024.0, "KiB")
}

/// Time from a file's last write until it is active, with compilation.
fn swaps(
    runtime: &Runtime,
    folder: &Path,
    slot: &Slot,
    ideal: &[u8],
    options: &Options,
) -> Vec<Figure> {
    let waiting = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let file: PathBuf = folder.join(format!("{slot}.wasm"));
    let mut times = Histogram::<u64>::new(3).unwrap();
    for mark in 0..if options.quick { 20 } else { 200 } {
        let module = marked(ideal, 1000 + mark);
        let digest = Digest::hash(&module);
        std::fs::write(&file, &module).unwrap();
        let written = Instant::now();
        waiting.block_on(runtime.wait_for(slot, &digest));
        times
            .record(u64::try_from(written.elapsed().as_micros()).unwrap())
            .unwrap();
    }
    let millis = |at| times.value_at_quantile(at) as f64 / 1000.0;
    let name = format!("from last write to active, {} kB, ", ideal.len() / 1000);
    vec![
        Figure::new(name.clone() + "p50", millis(0.5), "ms").goal(Goal::AtMost(100.0)),
        Figure::new(name + "p99", millis(0.99), "ms").goal(Goal::AtMost(250.0)),
    ]
}
