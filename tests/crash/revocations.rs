//! A key that was revoked opens nothing: whatever is sent to any node after the answer is refused, however late the node
//! reads it.

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

/// How long a request waits for its answer: longer than a node is ever stopped.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a key is used before it is revoked, and how long after the answer requests are sent, milliseconds.
const BEFORE: usize = 1_000;
const AFTER: usize = 2_500;
/// Requests to each node with a key that was revoked.
const TRIES: usize = 4;
/// Between two uses of a key that works, and two tries where no answer came.
const PAUSE: Duration = Duration::from_millis(100);

/// Issues keys of one merchant, revokes them and tries them.
pub(crate) struct Revocations {
    merchant: u64,
    /// Keys that were revoked, and when it was answered.
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

    /// Works until it is over.
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

    /// One key's life.
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
        // Every node remembers it.
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
        let answer = desk.call("DELETE", &path, Some(&json!({}))).await?;
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

    /// Tries a key that was revoked, a while from now.
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
                // It takes nothing just now.
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

    /// Tries all that was revoked since `since` at every node, and hears of what was tried before.
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

    /// What was shown.
    pub(crate) fn told(&self) -> String {
        let (revoked, refused) = (
            self.revoked.lock().len(),
            self.refused.load(Ordering::Relaxed),
        );
        format!("{revoked} keys revoked, {refused} requests with them refused, none accepted")
    }
}

/// The status of an answer to a key, by a read of a payment that does not exist or by a create.
async fn ask(node: &Node, key: &str, creates: bool) -> Result<u16, Lost> {
    let mut line = Line::to(&node.public);
    line.patience = PATIENCE;
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
