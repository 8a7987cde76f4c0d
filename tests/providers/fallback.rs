//! Thousands of payments over every method while the first account in rank fails in each way that a simulator
//! knows, and the gateway is killed with `kill -9`. By the simulators' books, no payment may be captured two
//! times, at any accounts, and none may remain open.

pub(crate) mod judge;
pub(crate) mod lives;
pub(crate) mod payer;
pub(crate) mod plan;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::fallback::judge::Judge;
use crate::fallback::lives::Lives;
use crate::fallback::payer::Payer;
use crate::fallback::plan::{Batch, Routes};

/// Number of payments, unless `KASSETTE_FALLBACK_PAYMENTS` is set.
const USUAL: usize = 300;
/// Number of concurrent payers.
const AT_ONCE: usize = 16;
/// Number of payments per kill. A full run has some dozen kills.
const PAYMENTS_PER_KILL: usize = 800;
/// Number of payments after which an account that was found down is tried again, because the clock advances by
/// [`PROBE`]: the seconds after which the account is probed.
const PROBED_EVERY: usize = 8;
const PROBE: u64 = 6;
/// Minimum number of kills.
const LEAST_KILLS: usize = 3;
/// Calls that hang time out sooner than in production, so that a run takes minutes.
const SETTINGS: &str = "[payments]\nprovider_deadline_ms = 1500\nstart_deadline_ms = 6000\n";

fn size() -> usize {
    let set = std::env::var("KASSETTE_FALLBACK_PAYMENTS").ok();
    set.map_or(USUAL, |set| set.parse().expect("a number of payments"))
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_no_payment_is_taken_for_twice_and_none_hangs() {
    let began = Instant::now();
    let lives = Lives::begin(SETTINGS).await;
    let server = lives.server().await;
    let routes = Routes::read(&server).await;
    drop(server);
    let batches = plan::batches(&routes, size());
    let kills = (size() / PAYMENTS_PER_KILL).max(LEAST_KILLS);
    let mut payers = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        // The kills are spread over the run.
        let killed = (number * kills) / batches.len() != ((number + 1) * kills) / batches.len();
        payers.extend(run(&lives, batch, killed).await);
        // Enough seconds for accounts that were found down to be probed.
        lives.advance(10).await;
    }
    let paying = began.elapsed();
    lives.reconcile().await;
    let server = lives.server().await;
    let judge = Judge::new(&server, &routes.accounts).await;
    let told = judge.judge(&payers).await;
    println!(
        "{} payments in {} batches over {} accounts, {} kills, {:.0} s, {:.0} s with judgement: {told}",
        payers.len(),
        batches.len(),
        routes.accounts.len(),
        lives.kills(),
        paying.as_secs_f64(),
        began.elapsed().as_secs_f64(),
    );
}

/// Runs the payments of a batch while its account fails. If `killed`, kills the gateway after half of them.
async fn run(lives: &Lives, batch: &Batch, killed: bool) -> Vec<Payer> {
    lives.fault(&batch.account, batch.fault, batch.times).await;
    let over = AtomicUsize::new(0);
    let half = batch.plans.len() / 2;
    let paying = stream::iter(batch.plans.iter().cloned())
        .map(|plan| async {
            let payer = Payer::new(plan).pay(lives).await;
            if over
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(PROBED_EVERY)
            {
                lives.nudge(PROBE).await;
            }
            payer
        })
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>();
    let killing = async {
        if killed {
            while over.load(Ordering::Relaxed) < half {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            lives.kill().await;
            // A simulator loses its faults when it restarts.
            lives.fault(&batch.account, batch.fault, batch.times).await;
        }
    };
    let (payers, ()) = tokio::join!(paying, killing);
    lives.fault(&batch.account, "none", 1).await;
    payers
}
