//! Compares a store with a model in memory: for any order of operations, with clocks that jump back and forth and
//! stores that are reopened, the store must return and show the same as the model.
//!
//! Both sides use the rules of `kassette-domain`. The test only covers whether a store loads, saves, indexes,
//! books and lists what the domain decides.
//!
//! | file | holds |
//! |---|---|
//! | `memory` | the model in memory |
//! | `op`, `words`, `said` | random operations, and their arguments for the store |
//! | `drive`, `look`, `verdict` | performing operations on both; reading everything back; differences |
//!
//! `KASSETTE_MODEL_STEPS` and `KASSETTE_MODEL_POSTGRES_STEPS` set the number of steps (a million in the long form
//! of `.ci/run`), and `KASSETTE_MODEL_SEED` the seed. A difference is shrunk to the few operations that show it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes
)]

mod drive;
mod look;
mod memory;
mod op;
mod said;
mod verdict;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kassette_store::postgres::scratch::Scratch;
use proptest::strategy::Strategy as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::drive::{Place, World};
use crate::op::{Op, happening};

/// Default number of steps, which take seconds.
const STEPS: u64 = 40_000;
/// Default number of steps on PostgreSQL, where each needs up to three round trips.
const POSTGRES_STEPS: u64 = 4_000;
/// Default seed.
const SEED: u64 = 9;
/// Maximum number of operations in a sequence. In shorter sequences payments remain young; longer ones shrink
/// slowly.
const LENGTH: usize = 800;
/// Number of steps from which on a run must have covered everything.
const SHOWS_ALL: u64 = 500_000;

/// Totals over all sequences.
#[derive(Default)]
struct Seen {
    steps: AtomicU64,
    what: Mutex<BTreeSet<String>>,
}

/// Kind of the compared store.
#[derive(Clone, Copy)]
enum Kind {
    Sled,
    Postgres,
}

impl Kind {
    /// Creates an empty store. sled uses a folder in memory if possible, because this test is not about the disk.
    async fn place(self) -> Place {
        match self {
            Self::Sled => {
                let memory = tempfile::tempdir_in(Path::new("/dev/shm"));
                Place::Folder(memory.or_else(|_| tempfile::tempdir()).unwrap())
            }
            Self::Postgres => Place::Database(Scratch::new().await.unwrap()),
        }
    }
}

async fn run(kind: Kind, ops: &[Op], seen: &Seen) -> Result<(), String> {
    let place = kind.place().await;
    let mut world = World::new(&place).await;
    for (at, op) in ops.iter().enumerate() {
        let same = world.happen(op).await;
        same.map_err(|what| format!("at {at}, {op:?}: {what}"))?;
    }
    world.settle().await?;
    world.look().await?;
    seen.steps.fetch_add(world.steps, Ordering::Relaxed);
    seen.what.lock().unwrap().append(&mut world.seen);
    Ok(())
}

/// Runs sequences until enough steps were performed. The error is the first difference, shrunk.
fn search(kind: Kind, seed: u64, steps: u64, seen: &Seen) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let sequences = proptest::collection::vec(happening(), 1..=LENGTH);
    let sequences = sequences.prop_map(|happenings| happenings.concat());
    while seen.steps.load(Ordering::Relaxed) < steps {
        let drawn = sequences.new_tree(&mut runner).unwrap();
        let judged = runner.run_one(drawn, |ops| {
            runtime
                .block_on(run(kind, &ops, seen))
                .map_err(TestCaseError::fail)
        });
        match judged {
            Ok(_) => {}
            Err(TestError::Fail(why, ops)) => {
                let lines: Vec<String> = ops.iter().map(|op| format!("  {op:?}")).collect();
                return Err(format!(
                    "seed {seed}: {why}\nafter {} operations:\n{}",
                    ops.len(),
                    lines.join("\n")
                ));
            }
            Err(TestError::Abort(why)) => return Err(why.to_string()),
        }
    }
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    let said = std::env::var(name).ok()?;
    Some(said.parse().expect("a whole number"))
}

#[test]
fn the_store_and_memory_never_differ() {
    let steps = number("KASSETTE_MODEL_STEPS").unwrap_or(STEPS);
    never_differ(Kind::Sled, steps);
}

#[test]
fn the_store_on_postgresql_and_memory_never_differ() {
    if !Scratch::available().unwrap() {
        println!("NOT RUN: no PostgreSQL is installed");
        return;
    }
    let steps = number("KASSETTE_MODEL_POSTGRES_STEPS").unwrap_or(POSTGRES_STEPS);
    never_differ(Kind::Postgres, steps);
}

fn never_differ(kind: Kind, steps: u64) {
    let seed = number("KASSETTE_MODEL_SEED").unwrap_or(SEED);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seen = Seen::default();
    let differs: Vec<String> = std::thread::scope(|scope| {
        let searches: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let seen = &seen;
                scope.spawn(move || search(kind, seed.wrapping_add(thread << 32), steps, seen))
            })
            .collect();
        let done = searches.into_iter().map(|search| search.join().unwrap());
        done.filter_map(Result::err).collect()
    });
    assert!(differs.is_empty(), "{}", differs.join("\n\n"));
    let what = seen.what.into_inner().unwrap();
    println!("{} steps, seed {seed}, seen:", seen.steps.into_inner());
    println!("{}", what.iter().cloned().collect::<Vec<_>>().join("; "));
    if steps >= SHOWS_ALL {
        shows_all(&what);
    }
}

/// Asserts that the run has covered all results.
fn shows_all(what: &BTreeSet<String>) {
    let expected = [
        "New",
        "Replay",
        "Differs",
        "refund New",
        "refund Replay",
        "refund Differs",
        "refund LineClosed",
        "refund Refused",
        "captured",
        "refunded",
        "refund_reversed",
        "dispute_opened",
        "funds_withdrawn",
        "dispute_closed",
        "provider_fee",
        "platform_fee",
        "correction",
        "reassigned",
        "work surplus",
        "work late",
        "work excess",
        "work refund",
        "work dispute",
        "work unsettled",
    ];
    for name in expected {
        assert!(what.contains(name), "{name} was not seen");
    }
}
