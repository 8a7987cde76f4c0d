//! Thousands of payments over every method while the account that ranks first fails in each way that
//! a simulator knows, and the gateway is killed with `kill -9` on the way. The simulators' books are the
//! judge: no payment is taken for twice, at whichever accounts, and none is left hanging.

mod judge;
mod lives;
mod payer;
mod plan;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::fallback::judge::Judge;
use crate::fallback::lives::Lives;
use crate::fallback::payer::Payer;
use crate::fallback::plan::{Batch, Routes};

/// Payments where the environment does not say how many.
const USUAL: usize = 300;
/// Payers under way at once.
const AT_ONCE: usize = 16;
/// Payments per kill: the full run has some dozen.
const PAYMENTS_PER_KILL: usize = 800;
/// An account that was found down is tried again after so many payments, because the clock moves on by
/// the pause, in seconds, after which it is probed.
const PROBED_EVERY: usize = 8;
const PROBE: u64 = 6;
/// Kills of a small run.
const LEAST_KILLS: usize = 3;
/// Calls that hang are given up sooner than in production, so that a run takes minutes.
const SETTINGS: &str = "[payments]\nprovider_deadline_ms = 1500\nstart_deadline_ms = 6000\n";

/// How many payments were asked for.
fn size() -> usize {
    let set = std::env::var("KASSETTE_FALLBACK_PAYMENTS").ok();
    set.map_or(USUAL, |set| set.parse().expect("a number of payments"))
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_no_payment_is_taken_for_twice_and_none_hangs() {
    let began = Instant::now();
    let lives = Lives::begin(SETTINGS).await;
    let server = lives.server().await;
    let routes = Routes::of(&server).await;
    drop(server);
    let batches = plan::batches(&routes, size());
    let kills = (size() / PAYMENTS_PER_KILL).max(LEAST_KILLS);
    let mut payers = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        // Spread over the run.
        let killed = (number * kills) / batches.len() != ((number + 1) * kills) / batches.len();
        payers.extend(run(&lives, batch, killed).await);
        // The accounts that were found down are probed again.
        lives.advance(10).await;
    }
    let paying = began.elapsed();
    lives.reconcile().await;
    let server = lives.server().await;
    let judge = Judge::of(&server, &routes.accounts).await;
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

/// The payments of a batch while its account fails; the gateway is killed half way, where it is to be.
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
            // A simulator forgets what it was told to do wrong.
            lives.fault(&batch.account, batch.fault, batch.times).await;
        }
    };
    let (payers, ()) = tokio::join!(paying, killing);
    lives.fault(&batch.account, "none", 1).await;
    payers
}
