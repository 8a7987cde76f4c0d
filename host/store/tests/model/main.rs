//! The store against a reference: whatever happens in whatever order, with clocks that jump back and
//! forth and stores that are opened again, both say and show the same.
//!
//! The reference is written from the specification and the decisions, and calls nothing of the machine
//! in `kassette-domain` but its words.
//!
//! | file | holds |
//! |---|---|
//! | `law` | numbers and tables of the decisions |
//! | `payment`, `attempt`, `returns` | what the reference knows of one payment |
//! | `steps`, `report`, `query_failed`, `acts`, `review`, `refunds` | what happens to it |
//! | `due`, `shop`, `requests` | what is due, and the store around it |
//! | `questions`, `laws` | what holds whatever the reference says: when vendors are asked, what completes |
//! | `op`, `words`, `said` | what happens, drawn at random and put into words |
//! | `drive`, `judge`, `compare`, `verdict` | doing it to both, and judging |
//!
//! `KASSETTE_MODEL_STEPS` and `KASSETTE_MODEL_POSTGRES_STEPS` set how many steps are done (a million in the
//! long form of `.ci/run`), and `KASSETTE_MODEL_SEED` from where they are drawn. A divergence is shrunk to the few operations
//! that show it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes
)]

mod acts;
mod attempt;
mod compare;
mod drive;
mod due;
mod judge;
mod law;
mod laws;
mod op;
mod payment;
mod query_failed;
mod questions;
mod refunds;
mod report;
mod requests;
mod returns;
mod review;
mod said;
mod shop;
mod steps;
mod verdict;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kassette_domain::payment::Status;
use kassette_store::postgres::scratch::Scratch;
use proptest::strategy::Strategy as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::drive::{Place, World};
use crate::op::{Op, happening};

/// Steps where the environment names no number: seconds.
const STEPS: u64 = 40_000;
/// The same on PostgreSQL, where each costs a round trip or three.
const POSTGRES_STEPS: u64 = 4_000;
/// The seed where the environment names none.
const SEED: u64 = 9;
/// Operations of one sequence, at most. Shorter ones leave payments young, longer ones shrink slowly.
const LENGTH: usize = 800;
/// From so many steps on a run has to have shown everything.
const SHOWS_ALL: u64 = 500_000;

/// What all sequences together have done and seen.
#[derive(Default)]
struct Seen {
    steps: AtomicU64,
    what: Mutex<BTreeSet<String>>,
}

/// Which store is compared.
#[derive(Clone, Copy)]
enum Kind {
    Sled,
    Postgres,
}

impl Kind {
    /// An empty place: a folder in memory where there is one, since what is tried here is not the disk.
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

/// Sequences until enough steps were done; the first divergence, shrunk.
fn search(kind: Kind, seed: u64, steps: u64, seen: &Seen) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        max_shrink_iters: 20_000,
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
fn the_store_and_its_reference_never_differ() {
    let steps = number("KASSETTE_MODEL_STEPS").unwrap_or(STEPS);
    never_differ(Kind::Sled, steps);
}

#[test]
fn the_store_on_postgresql_and_its_reference_never_differ() {
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

/// A run that shows little proves little: every legal transition happened, but for the one that takes
/// an attempt that is open and not open at once, and so did every cause of a review and every end of
/// an operator's decision.
fn shows_all(what: &BTreeSet<String>) {
    for from in Status::ALL {
        for to in Status::ALL {
            let name = format!("{} → {}", from.as_str(), to.as_str());
            let never = (from, to) == (Status::Pending, Status::Cancelled);
            let expected = law::follows(from, to) && !never;
            assert_eq!(what.contains(&name), expected, "{name}");
        }
    }
    let reviews = [
        "review Risk",
        "review Mismatch",
        "review Vendor",
        "review Silence",
        "review LateMoney",
        "review Refund",
        "review Operator",
        "review Refused",
    ];
    let decisions = [
        "Approve Waiting",
        "Approve Done",
        "Approve Done vouched",
        "Approve Lapsed",
        "Decline Waiting",
        "Decline Done",
        "Decline Lapsed",
    ];
    let questions = ["five silences", "the last question"];
    let refunds = [
        "refund New",
        "refund Replay",
        "refund Differs",
        "refund LineClosed",
        "refund WrongStatus",
        "refund CannotRefund",
        "refund OtherCurrency",
        "refund MoreThanLeft",
        "refund WholeOnly",
        "refund TooManyRefunds",
        "refund told, ordered",
        "refund told, elsewhere",
        "line Surplus closed",
        "line Late closed",
        "line Excess closed",
    ];
    let all = reviews.iter().chain(&decisions).chain(&questions);
    for name in all.chain(&refunds) {
        assert!(what.contains(*name), "{name}");
    }
}
