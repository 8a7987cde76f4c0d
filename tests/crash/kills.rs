//! Cycles of load, `kill -9` at a random moment, and checks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;

use crate::journal::{Entry, Shop};
use crate::judge;
use crate::load::{Client, World};
use crate::operators::Operators;
use crate::process::{Desk, Home, Running, start};
use crate::seeded_random::SeededRandom;
use crate::steady_state;

/// Number of concurrent clients.
const CLIENTS: usize = 8;
/// Number of merchants whose API the clients use.
const SHOPS: usize = 3;
/// Number of random old payments that are checked after each restart.
const OLD: usize = 15;
/// Number of lives with the same merchant for operators, because each check reads all of its keys.
pub(crate) const OFFICE: usize = 25;
/// The books grow with each life: they are read every second life from 100 lives on, every third from 150 on, and
/// so on.
const BOOKS: usize = 50;
/// Number of lives between two progress messages.
const TOLD: usize = 100;

/// Runs the cycles, then waits for a steady state. Returns a summary. Each kill happens after 0 to `load`
/// milliseconds.
pub(crate) async fn run(cycles: usize, load: usize, seed: u64) -> Result<String, String> {
    let mut home = Home::new();
    let told = cycle(&home, cycles, load, seed).await;
    told.map_err(|wrong| {
        let log = home.log();
        format!("{wrong}\n{log}\nkept in {}", home.keep().display())
    })
}

async fn cycle(home: &Home, cycles: usize, load: usize, seed: u64) -> Result<String, String> {
    let began = Instant::now();
    let mut random = SeededRandom::new(seed, 0);
    let mut run = Arc::new(start(home).ready().await?);
    let world = Arc::new(found(&run, seed).await?);
    let (mut early, mut slowest, mut starts) = (0, Duration::ZERO, Duration::ZERO);
    let mut unproved = Vec::new();
    for life in 1..=cycles {
        if life.is_multiple_of(OFFICE) {
            let merchant = merchant(&mut run.desk(), "Office").await?;
            world.operators.lock().await.moves_to(merchant);
        }
        let load_for = Duration::from_millis(random.roll(load) as u64);
        load_and_kill(&world, &run, life, load_for).await?;
        while random.once_in(6) {
            // Kill the server again during its start, before or after it has opened the store.
            let starting = start(home);
            let least = starts.max(Duration::from_millis(100));
            let most = usize::try_from(least.as_millis()).unwrap_or(usize::MAX);
            tokio::time::sleep(Duration::from_millis(random.roll(most) as u64)).await;
            starting.kill();
            early += 1;
        }
        let next = start(home).ready().await;
        run = Arc::new(next.map_err(|wrong| format!("after kill {life}: {wrong}"))?);
        starts = run.took;
        slowest = slowest.max(run.took);
        world.over.store(false, Ordering::Relaxed);
        let touched = world.journal.take_touched();
        unproved.extend(touched.iter().cloned());
        let judged = judge_all(&world, &run, touched, &mut unproved, life, &mut random).await;
        judged.map_err(|wrong| format!("after kill {life}: {wrong}"))?;
        if !run.is_alive() {
            return Err(format!("after kill {life}: the server ended by itself"));
        }
        if life.is_multiple_of(TOLD) {
            let took = began.elapsed().as_secs_f64();
            let acknowledged = world.acknowledged.load(Ordering::Relaxed);
            println!("{life} kills in {took:.0} s, {acknowledged} acknowledgements, none lost");
        }
    }
    let cycles_took = began.elapsed();
    let ends = steady_state::settle(&world, &run).await?;
    let operators = world.operators.lock().await;
    let text = format!(
        "seed {seed}: {cycles} cycles in {:.0} s, {early} more kills while starting, starts up to \
         {:.2} s\n{} requests for payments, {} acknowledgements, {} without an answer, {} changes \
         by the operators\nat rest after {:.0} s: {ends:?}",
        cycles_took.as_secs_f64(),
        slowest.as_secs_f64(),
        world.journal.len(),
        world.acknowledged.load(Ordering::Relaxed),
        world.unanswered.load(Ordering::Relaxed),
        operators.changes,
        began.elapsed().as_secs_f64(),
    );
    run.kill();
    Ok(text)
}

/// Creates the merchants of clients and operators.
pub(crate) async fn found(run: &Running, seed: u64) -> Result<World, String> {
    let mut desk = run.desk();
    let mut shops = Vec::new();
    for _ in 0..SHOPS {
        shops.push(shop(&mut desk).await?);
    }
    let operators = Operators::new(merchant(&mut desk, "Office").await?);
    Ok(World::new(seed, shops, operators))
}

/// Creates a merchant that may take live payments.
pub(crate) async fn merchant(desk: &mut Desk, name: &str) -> Result<u64, String> {
    // The rate limit must never apply: a 429 would reveal nothing about the store.
    let body = json!({
        "name": name, "live_approved": true, "actor": "ann", "reason": "a test", "fx_rates": { "EUR": "1.08" },
        "policy": { "rate_limit": { "per_second": 1_000_000, "burst": 1_000_000 } },
    });
    let made = desk.change("POST", "/merchants", &body, 201).await?;
    made["merchant_id"]
        .as_u64()
        .ok_or_else(|| format!("no merchant: {made}"))
}

/// Creates a merchant with a key for each environment.
pub(crate) async fn shop(desk: &mut Desk) -> Result<Shop, String> {
    let id = merchant(desk, "Shop").await?;
    let mut keys = Vec::new();
    for environment in ["test", "live"] {
        let path = format!("/merchants/{id}/keys");
        let scopes = ["payments:create", "payments:read", "payments:refund"];
        let body = json!({ "environment": environment, "scopes": scopes });
        let issued = desk.change("POST", &path, &body, 201).await?;
        keys.push(issued["key"].as_str().unwrap_or_default().to_owned());
    }
    let live_key = keys.pop().unwrap_or_default();
    let test_key = keys.pop().unwrap_or_default();
    Ok(Shop {
        id,
        test_key,
        live_key,
    })
}

/// Loads a server for a time and kills it.
async fn load_and_kill(
    world: &Arc<World>,
    run: &Arc<Running>,
    life: usize,
    load: Duration,
) -> Result<(), String> {
    let load_of_it = Load::begin(world, run, life);
    tokio::time::sleep(load).await;
    // The clients continue until the kill, so that requests in flight are cut off.
    world.over.store(true, Ordering::Relaxed);
    run.kill();
    let ended = load_of_it.end(world, Duration::MAX).await;
    ended.map_err(|wrong| format!("before kill {life}: {wrong}"))
}

/// Running clients and operators.
pub(crate) struct Load {
    clients: Vec<JoinHandle<()>>,
    operators: JoinHandle<Result<(), String>>,
}

impl Load {
    /// Starts them; they run until the world is over.
    pub(crate) fn begin(world: &Arc<World>, run: &Arc<Running>, life: usize) -> Self {
        let clients = (0..CLIENTS)
            .map(|number| tokio::spawn(Client::new(world, run, life, number).press_on()))
            .collect();
        let operators = tokio::spawn({
            let (world, run) = (Arc::clone(world), Arc::clone(run));
            async move {
                let random = SeededRandom::new(world.seed, (life * 64 + CLIENTS) as u64);
                let mut operators = world.operators.lock().await;
                operators.press_on(&run, random, || world.is_over()).await
            }
        });
        Self { clients, operators }
    }

    /// Waits until they end, but for clients at most `patience`: a request without a response proves nothing.
    pub(crate) async fn end(self, world: &World, patience: Duration) -> Result<(), String> {
        let until = tokio::time::sleep(patience);
        tokio::pin!(until);
        for mut client in self.clients {
            tokio::select! {
                ended = &mut client => ended.map_err(|error| error.to_string())?,
                () = &mut until => client.abort(),
            }
        }
        self.operators.await.map_err(|error| error.to_string())??;
        match world.wrong.lock().first() {
            Some(wrong) => Err(wrong.clone()),
            None => Ok(()),
        }
    }
}

/// Checks the payments touched in the last life, and some old ones.
pub(crate) async fn judge_all(
    world: &Arc<World>,
    run: &Arc<Running>,
    mut entries: Vec<Arc<Entry>>,
    unproved: &mut Vec<Arc<Entry>>,
    life: usize,
    random: &mut SeededRandom,
) -> Result<(), String> {
    let count = world.journal.len();
    let old = (0..OLD.min(count)).filter_map(|_| world.journal.get(random.roll(count)));
    entries.extend(old);
    entries.sort_by_key(|entry| entry.number);
    entries.dedup_by_key(|entry| entry.number);
    judge::payments(world, run, entries).await?;
    if life.is_multiple_of((life / BOOKS).max(1)) {
        let mut desk = run.desk();
        let books = judge::books(&mut desk).await?;
        judge::outcomes(&std::mem::take(unproved), &books, &mut desk).await?;
    }
    let mut operators = world.operators.lock().await;
    operators.judge(run, random).await
}
