//! Revoked keys: any node refuses each request sent after the response to the revocation, even if it reads the
//! request much later.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::process::{Desk, Node, Running};
use crate::seeded_random::SeededRandom;
use crate::wire::{Ask, Line, Lost};

/// Maximum time for a response, longer than a node is ever stopped.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum milliseconds of a key's use before its revocation, and maximum delay of requests after it.
const BEFORE: usize = 1_000;
const AFTER: usize = 2_500;
/// Number of requests to each node with a revoked key.
const TRIES: usize = 4;
/// Pause between two uses of a valid key, and between two tries without a response.
const PAUSE: Duration = Duration::from_millis(100);

/// Issues, revokes and tries keys of one merchant.
pub(crate) struct Revocations {
    merchant: u64,
    /// Revoked keys, and the time of the response.
    revoked: Mutex<Vec<(String, Instant)>>,
    tries: Mutex<JoinSet<Result<(), String>>>,
    refused: AtomicUsize,
}

impl Revocations {
    pub(crate) fn new(merchant: u64) -> Self {
        Self {
            merchant,
            revoked: Mutex::default(),
            tries: Mutex::default(),
            refused: AtomicUsize::new(0),
        }
    }

    /// Runs until `over`.
    pub(crate) async fn press_on(
        self: &std::sync::Arc<Self>,
        run: &Running,
        mut random: SeededRandom,
        over: impl Fn() -> bool,
    ) {
        let mut desk = run.desk();
        while !over() {
            if self.one(&mut desk, run, &mut random, &over).await.is_err() {
                sleep(PAUSE).await;
            }
        }
    }

    /// Issues, uses, revokes and tries one key.
    async fn one(
        self: &std::sync::Arc<Self>,
        desk: &mut Desk,
        run: &Running,
        random: &mut SeededRandom,
        over: impl Fn() -> bool,
    ) -> Result<(), Lost> {
        let path = format!("/merchants/{}/keys", self.merchant);
        let body = json!({ "environment": "test" });
        let issued = desk.call("POST", &path, Some(&body)).await?;
        let issued = issued.expect(201).map_err(|_| Lost)?;
        let text = |name: &str| issued[name].as_str().unwrap_or_default().to_owned();
        let (id, key) = (text("key_id"), text("key"));
        // Every node has the key in its cache.
        let until = Instant::now() + Duration::from_millis(random.roll(BEFORE) as u64);
        loop {
            let nodes = run.nodes();
            let uses = nodes
                .iter()
                .map(|node| timeout(PAUSE, ask(node, &key, false)));
            join_all(uses).await;
            if Instant::now() >= until || over() {
                break;
            }
            sleep(PAUSE).await;
        }
        let path = format!("/keys/{id}");
        let answer = desk
            .call(
                "DELETE",
                &path,
                Some(&json!({ "actor": "ann", "reason": "lost" })),
            )
            .await?;
        if answer.status != 204 {
            return Err(Lost);
        }
        self.revoked.lock().push((key.clone(), Instant::now()));
        for node in run.nodes() {
            for _ in 0..TRIES {
                let later = Duration::from_millis(random.roll(AFTER) as u64);
                self.attempt(&node, &key, later, random.once_in(3));
            }
        }
        Ok(())
    }

    /// Tries a revoked key after a delay.
    fn attempt(
        self: &std::sync::Arc<Self>,
        node: &Node,
        key: &str,
        later: Duration,
        creates: bool,
    ) {
        let (revocations, node, key) = (self.clone(), node.clone(), key.to_owned());
        self.tries.lock().spawn(async move {
            sleep(later).await;
            let Ok(status) = ask(&node, &key, creates).await else {
                return Ok(());
            };
            match status {
                401 => drop(revocations.refused.fetch_add(1, Ordering::Relaxed)),
                // Overloaded or unavailable; says nothing about the key.
                429 | 503 => {}
                _ => {
                    let name = node.name;
                    return Err(format!(
                        "{name} answered {status} to a key that was revoked before it was shown"
                    ));
                }
            }
            Ok(())
        });
    }

    /// Tries all keys revoked since `since` at every node, and collects the results of earlier tries.
    pub(crate) async fn judge(
        self: &std::sync::Arc<Self>,
        run: &Running,
        since: Instant,
    ) -> Result<(), String> {
        let nodes = run.nodes();
        let revoked = self.revoked.lock().clone();
        for (key, _) in revoked.iter().filter(|(_, when)| *when >= since) {
            for node in &nodes {
                self.attempt(node, key, Duration::ZERO, false);
            }
        }
        let mut tries = std::mem::take(&mut *self.tries.lock());
        while let Some(tried) = tries.join_next().await {
            tried.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    /// Summary of the run.
    pub(crate) fn told(&self) -> String {
        let (revoked, refused) = (
            self.revoked.lock().len(),
            self.refused.load(Ordering::Relaxed),
        );
        format!("{revoked} keys revoked, {refused} requests with them refused, none accepted")
    }
}

/// Status of a request with a key, either a read of a payment that does not exist or a create.
async fn ask(node: &Node, key: &str, creates: bool) -> Result<u16, Lost> {
    let mut line = Line::to(&node.public);
    line.patience = RESPONSE_TIMEOUT;
    let path = format!("/api/v1/payments/{}", "0".repeat(32));
    let body = json!({
        "order_id": "of-no-key", "idempotency_key": "of-no-key", "amount": "1.00", "currency": "EUR",
    });
    let body = body.to_string();
    let asked = match creates {
        true => Ask::post("/api/v1/payments", key, &body),
        false => Ask::get(&path, key),
    };
    Ok(line.call(asked).await?.status)
}
