//! Acknowledged operations survive: the real binary under load is killed with `kill -9` and started again.
//!
//! ```sh
//! cargo test --release --test crash -- --cycles 2000 --seed 7
//! ```
//!
//! `--cycles` (`KASSETTE_CRASH_CYCLES`) sets the number of kills under mixed load, `--load` the maximum
//! milliseconds of load before each, and `--keys` (`KASSETTE_CRASH_KEYS`) the number of idempotency keys with
//! which each of the 64 `--callers` creates payments during kills. `--seed` (`KASSETTE_CRASH_SEED`) repeats the
//! choices, but not the exact moments of the kills. An argument that is not a flag runs only the cases whose name
//! contains it.
//!
//! ```sh
//! cargo test --release --test crash -- faults --faults 500 --seed 7
//! ```
//!
//! `--faults` (`KASSETTE_CRASH_FAULTS`) sets the number of faults of three nodes and their PostgreSQL, by default
//! none.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes
)]

mod callers;
mod database;
mod faults;
mod journal;
mod judge;
mod kills;
mod laws;
mod load;
mod operators;
mod payers;
mod process;
#[path = "../../host/store/src/postgres/tests/proxy.rs"]
mod proxy;
mod receiver;
mod revocations;
mod seeded_random;
mod steady_state;
#[path = "../store.rs"]
mod store;
mod wire;

use std::process::ExitCode;
use std::time::Instant;

const KILLS: &str = "what_was_acknowledged_survives_every_kill";
const CALLERS: &str = "each_key_makes_one_payment_whichever_caller_asks_and_whatever_is_killed";
const FAULTS: &str = "what_was_acknowledged_survives_faults_of_nodes_and_their_database";

/// Command-line options.
struct Options {
    faults: usize,
    cycles: usize,
    load: usize,
    keys: usize,
    callers: usize,
    seed: u64,
    list: bool,
    filter: Option<String>,
    skip: Vec<String>,
}

impl Options {
    fn read() -> Self {
        let number = |name: &str, otherwise: u64| {
            let said = std::env::var(name).ok();
            said.map_or(otherwise, |said| said.parse().expect("a whole number"))
        };
        let count = |number: u64| usize::try_from(number).expect("a count");
        let mut options = Self {
            cycles: count(number("KASSETTE_CRASH_CYCLES", 10)),
            keys: count(number("KASSETTE_CRASH_KEYS", 200)),
            faults: count(number("KASSETTE_CRASH_FAULTS", 0)),
            callers: 64,
            load: 1200,
            seed: number("KASSETTE_CRASH_SEED", 9),
            list: false,
            filter: None,
            skip: Vec::new(),
        };
        let mut said = std::env::args().skip(1);
        while let Some(word) = said.next() {
            let mut value = || said.next().and_then(|said| said.parse().ok());
            match word.as_str() {
                "--cycles" => options.cycles = count(value().expect("--cycles NUMBER")),
                "--load" => options.load = count(value().expect("--load MILLISECONDS")),
                "--keys" => options.keys = count(value().expect("--keys NUMBER")),
                "--faults" => options.faults = count(value().expect("--faults NUMBER")),
                "--callers" => options.callers = count(value().expect("--callers NUMBER")),
                "--seed" => options.seed = value().expect("--seed NUMBER"),
                "--list" => options.list = true,
                "--skip" => options.skip.extend(said.next()),
                // Options of cargo's test runner that do not apply here.
                "--test-threads" | "--format" | "--color" => drop(said.next()),
                flag if flag.starts_with('-') => {}
                filter => options.filter = Some(filter.to_owned()),
            }
        }
        options
    }

    fn wants(&self, case: &str) -> bool {
        if case == FAULTS && self.faults == 0 {
            return false;
        }
        let wanted = |filter: &String| case.contains(filter.as_str());
        self.filter.as_ref().is_none_or(wanted) && !self.skip.iter().any(wanted)
    }
}

fn main() -> ExitCode {
    let options = Options::read();
    let cases = [KILLS, CALLERS, FAULTS];
    if options.list {
        for case in cases {
            println!("{case}: test");
        }
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let began = Instant::now();
    let wanted: Vec<&str> = cases
        .into_iter()
        .filter(|case| options.wants(case))
        .collect();
    println!("\nrunning {} tests", wanted.len());
    let mut failed = 0;
    for case in &wanted {
        let told = runtime.block_on(async {
            match *case {
                KILLS => kills::run(options.cycles, options.load, options.seed).await,
                CALLERS => callers::run(options.callers, options.keys, options.seed).await,
                _ => faults::run(options.faults, options.seed).await,
            }
        });
        match told {
            Ok(told) => println!("{told}\ntest {case} ... ok"),
            Err(wrong) => {
                failed += 1;
                println!("seed {}: {wrong}\ntest {case} ... FAILED", options.seed);
            }
        }
    }
    println!(
        "\ntest result: {}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failed == 0 { "ok" } else { "FAILED" },
        wanted.len() - failed,
        cases.len() - wanted.len(),
        began.elapsed().as_secs_f64()
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
