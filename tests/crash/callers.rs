//! Many callers with the same keys while the server is killed: each key creates exactly one payment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::journal::Shop;
use crate::kills::shop;
use crate::process::{Home, Running, start};
use crate::seeded_random::SeededRandom;
use crate::wire::{Ask, Line};

/// Number of kills per run.
const KILLS: usize = 6;
/// Range of the random reordering of keys, so that callers meet at each key, some before its payment exists and
/// some after.
const APART: usize = 4;

/// All responses to any caller for a key.
#[derive(Default)]
struct Answered {
    payment: Option<String>,
    made: usize,
}

struct Callers {
    shop: Shop,
    keys: Vec<Mutex<Answered>>,
    /// The current server. `None` between a kill and the next start.
    server: watch::Sender<Option<Arc<Running>>>,
    answers: AtomicUsize,
    lost: AtomicUsize,
    over: AtomicBool,
}

/// Every caller sends a create for every key. Returns a summary of the run.
pub(crate) async fn run(callers: usize, keys: usize, seed: u64) -> Result<String, String> {
    let mut home = Home::new();
    let told = drive(&home, callers, keys, seed).await;
    told.map_err(|wrong| {
        let log = home.log();
        format!("{wrong}\n{log}\nkept in {}", home.keep().display())
    })
}

async fn drive(home: &Home, callers: usize, keys: usize, seed: u64) -> Result<String, String> {
    let began = Instant::now();
    let mut random = SeededRandom::new(seed, 0xCA11);
    let first = Arc::new(start(home).ready().await?);
    let shared = Arc::new(Callers {
        shop: shop(&mut first.desk()).await?,
        keys: (0..keys).map(|_| Mutex::default()).collect(),
        server: watch::Sender::new(Some(first)),
        answers: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let calls: Vec<_> = (0..callers)
        .map(|caller| {
            let shared = Arc::clone(&shared);
            let random = SeededRandom::new(seed, caller as u64);
            tokio::spawn(async move { shared.call(random).await })
        })
        .collect();
    let whole = callers * keys;
    for kill in 1..=KILLS {
        // The kills are spread over the run, each at a random point of its part.
        let part = whole / (KILLS + 1);
        let at = kill * part + random.roll(part / 2);
        while shared.answers.load(Ordering::Relaxed) < at && !shared.over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if shared.over.load(Ordering::Relaxed) {
            break;
        }
        if let Some(server) = shared.server.send_replace(None) {
            server.kill();
        }
        let next = start(home).ready().await;
        let next = next.map_err(|wrong| format!("after kill {kill}: {wrong}"))?;
        shared.server.send_replace(Some(Arc::new(next)));
    }
    for call in calls {
        call.await.map_err(|error| error.to_string())??;
    }
    let ids = shared.judge().await?;
    Ok(format!(
        "seed {seed}: {callers} callers with {keys} keys each and {KILLS} kills: {} payments, {} \
         answers, {} calls lost, {:.0} s",
        ids.len(),
        shared.answers.load(Ordering::Relaxed),
        shared.lost.load(Ordering::Relaxed),
        began.elapsed().as_secs_f64(),
    ))
}

impl Callers {
    /// Waits for a running server.
    async fn server(&self) -> Result<Arc<Running>, String> {
        let mut server = self.server.subscribe();
        let server = server.wait_for(Option::is_some).await;
        let server = server.map_err(|error| error.to_string())?.clone();
        server.ok_or_else(|| "no server".to_owned())
    }

    /// Runs one caller, which repeats each key until it gets a response.
    async fn call(&self, mut random: SeededRandom) -> Result<(), String> {
        let told = self.try_call(&mut random).await;
        if told.is_err() {
            self.over.store(true, Ordering::Relaxed);
        }
        told
    }

    async fn try_call(&self, random: &mut SeededRandom) -> Result<(), String> {
        let mut server = self.server().await?;
        let mut line = server.line();
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        for at in 0..order.len() {
            let with = at + random.roll(APART.min(order.len() - at));
            order.swap(at, with);
        }
        for key in order {
            while !self.over.load(Ordering::Relaxed) && !self.create(&mut line, key).await? {
                self.lost.fetch_add(1, Ordering::Relaxed);
                server = self.server().await?;
                line = server.line();
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn body(key: usize) -> String {
        json!({
            "order_id": format!("order-{key}"),
            "idempotency_key": format!("key-of-all-{key}"),
            "amount": format!("{}.90", 1 + key % 90),
            "currency": "EUR",
        })
        .to_string()
    }

    /// Sends one create. False if the outcome is unknown.
    async fn create(&self, line: &mut Line, key: usize) -> Result<bool, String> {
        let body = Self::body(key);
        let ask = Ask::post("/api/v1/payments", &self.shop.test_key, &body);
        let Ok(answer) = line.call(ask).await else {
            return Ok(false);
        };
        if answer.status >= 429 {
            return Ok(false);
        }
        let payment = match answer.status {
            201 => answer.json()?,
            200 if answer.replayed => answer.json()?,
            _ => return Err(format!("key {key} was answered {answer:?}")),
        };
        let id = payment["payment_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut known = self.keys[key].lock();
        known.made += usize::from(answer.status == 201);
        let made = known.made;
        let first = known.payment.get_or_insert_with(|| id.clone());
        if *first != id || made > 1 {
            return Err(format!("key {key} made {first} and {id}, {made} times new"));
        }
        drop(known);
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Asserts that each key has one payment and that no other payments exist.
    async fn judge(&self) -> Result<BTreeSet<String>, String> {
        let server = self.server().await?;
        let mut line = server.line();
        for key in 0..self.keys.len() {
            if !self.create(&mut line, key).await? {
                return Err(format!("key {key} is not answered"));
            }
        }
        let path = format!("/payments?merchant_id={}", self.shop.id);
        let listed = server.desk().list(&path, "payments").await?;
        let id = |payment: &Value| {
            payment["payment_id"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let found: BTreeSet<String> = listed.iter().map(id).collect();
        let known: BTreeSet<String> = self
            .keys
            .iter()
            .filter_map(|key| key.lock().payment.clone())
            .collect();
        server.kill();
        if listed.len() == self.keys.len() && found == known {
            Ok(found)
        } else {
            Err(format!(
                "{} payments for {} keys, {} of them known",
                listed.len(),
                self.keys.len(),
                known.intersection(&found).count()
            ))
        }
    }
}
