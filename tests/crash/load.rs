//! Mixed load: clients that create, repeat, start, pay and decide until the server is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;

use crate::journal::{Entry, Journal, Shop};
use crate::operators::Operators;
use crate::process::{Desk, Running};
use crate::seeded_random::SeededRandom;
use crate::wire::{Answer, Ask, Line, Lost};

/// Faults that clients sometimes set at a simulator. The kill ends those that hang.
const FAULTS: [&str; 18] = [
    "callback-twice",
    "callback-late",
    "callback-reordered",
    "callback-never",
    "callback-forged",
    "timeout-before-effect",
    "timeout-after-effect",
    "refuse-connection",
    "status-429",
    "status-500",
    "malformed",
    "truncated",
    "needs-capture",
    "wrong-amount",
    "wrong-currency",
    "refund-refused",
    "refund-fails",
    "refund-late",
];
const METHODS: [&str; 4] = ["ideal", "paypal", "credit_card", "klarna"];
/// Number of latest payments from which clients usually choose.
const RECENT: usize = 150;

pub(crate) enum Trouble {
    /// No complete response.
    Lost,
    /// The server has violated an invariant.
    Wrong(String),
}

impl From<Lost> for Trouble {
    fn from(_: Lost) -> Self {
        Self::Lost
    }
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

/// State that outlives the server.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) shops: Vec<Shop>,
    pub(crate) journal: Journal,
    pub(crate) operators: tokio::sync::Mutex<Operators>,
    /// A request that several clients send concurrently.
    shared: Mutex<Option<Arc<Entry>>>,
    /// Set before the server is killed.
    pub(crate) over: AtomicBool,
    /// Pause of a client between two requests.
    pub(crate) pause: Duration,
    pub(crate) wrong: Mutex<Vec<String>>,
    pub(crate) acknowledged: AtomicUsize,
    pub(crate) unanswered: AtomicUsize,
}

impl World {
    pub(crate) fn new(seed: u64, shops: Vec<Shop>, operators: Operators) -> Self {
        Self {
            seed,
            shops,
            journal: Journal::default(),
            operators: tokio::sync::Mutex::new(operators),
            shared: Mutex::new(None),
            over: AtomicBool::new(false),
            pause: Duration::ZERO,
            wrong: Mutex::new(Vec::new()),
            acknowledged: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client during one life of the server.
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) run: Arc<Running>,
    pub(crate) line: Line,
    desk: Desk,
    pub(crate) life: usize,
    pub(crate) random: SeededRandom,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, run: &Arc<Running>, life: usize, number: usize) -> Self {
        Self {
            line: run.line(),
            desk: run.desk(),
            random: SeededRandom::new(world.seed, (life * 64 + number) as u64),
            world: Arc::clone(world),
            run: Arc::clone(run),
            life,
        }
    }

    /// Runs until the server is killed.
    pub(crate) async fn press_on(mut self) {
        while !self.world.is_over() {
            match self.act().await {
                Ok(()) => {}
                Err(Trouble::Lost) => {
                    self.world.unanswered.fetch_add(1, Ordering::Relaxed);
                }
                Err(Trouble::Wrong(what)) => {
                    self.world.wrong.lock().push(what);
                    return;
                }
            }
            if !self.world.pause.is_zero() {
                tokio::time::sleep(self.world.pause).await;
            }
        }
    }

    async fn act(&mut self) -> Result<(), Trouble> {
        match self.random.roll(100) {
            0..30 => self.create_own().await,
            30..45 => self.create_shared().await,
            45..55 => self.repeat().await,
            55..58 => self.repeat_changed().await,
            58..80 => self.start_and_pay().await,
            80..84 => self.read().await,
            84..88 => self.give_back().await,
            88..91 => self.cancel().await,
            91..96 => self.review().await,
            96..98 => self.afterwards().await,
            _ => self.order_fault().await,
        }
    }

    /// Draws a request with a new key and records it before it is sent.
    fn draw(&mut self) -> Arc<Entry> {
        let shop = self.random.roll(self.world.shops.len());
        let live = self.random.once_in(4);
        let direct = self.random.roll(3) > 0;
        let method = self.random.one_of(&METHODS);
        let cents = 100 + self.random.roll(9_900);
        let email = self.random.once_in(2);
        let life = self.life;
        self.world.journal.enter(|number| {
            let order_id = format!("order-{number}");
            let mut body = json!({
                "order_id": order_id,
                "idempotency_key": format!("key-of-{number}"),
                "amount": format!("{}.{:02}", cents / 100, cents % 100),
                "currency": "EUR",
            });
            if direct {
                body["checkout_mode"] = json!("direct");
                body["payment_method"] = json!(method);
            }
            if email {
                body["customer_email"] = json!(format!("payer{number}@example.com"));
            }
            Entry {
                number,
                shop,
                live,
                direct,
                order_id,
                body: body.to_string(),
                life,
                told: Mutex::default(),
            }
        })
    }

    async fn create_own(&mut self) -> Result<(), Trouble> {
        let entry = self.draw();
        create(&self.world, &mut self.line, &entry).await?;
        // A payer in a hurry; the kill may happen between two steps.
        if entry.direct && self.random.once_in(3) {
            self.pay_for(&entry).await?;
        }
        Ok(())
    }

    async fn create_shared(&mut self) -> Result<(), Trouble> {
        let known = self.world.shared.lock().clone();
        let entry = match known.filter(|_| !self.random.once_in(5)) {
            Some(entry) => entry,
            None => {
                let entry = self.draw();
                *self.world.shared.lock() = Some(Arc::clone(&entry));
                entry
            }
        };
        self.world.journal.touch(&entry);
        create(&self.world, &mut self.line, &entry).await
    }

    /// Returns a recent payment, or sometimes any old one.
    fn pick(&mut self) -> Option<Arc<Entry>> {
        let count = self.world.journal.len();
        let back = if self.random.once_in(5) {
            count
        } else {
            RECENT
        };
        let number = count.checked_sub(1 + self.random.roll(count.min(back)))?;
        self.world.journal.get(number)
    }

    /// Returns a payment in this status. `None` if 40 tries find none.
    pub(crate) fn pick_in(&mut self, status: &str) -> Option<Arc<Entry>> {
        const TRIES: usize = 40;
        (0..TRIES).find_map(|_| {
            self.pick()
                .filter(|entry| entry.status().as_deref() == Some(status))
        })
    }

    async fn repeat(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick() else {
            return Ok(());
        };
        self.world.journal.touch(&entry);
        create(&self.world, &mut self.line, &entry).await
    }

    /// The same key with another currency is refused, even after a cut-off request.
    async fn repeat_changed(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick().filter(|entry| entry.id().is_some()) else {
            return Ok(());
        };
        let body = entry
            .body
            .replace("\"currency\":\"EUR\"", "\"currency\":\"USD\"");
        let key = self.world.shops[entry.shop].key(entry.live);
        let ask = Ask::post("/api/v1/payments", key, &body);
        let answer = self.line.call(ask).await?;
        match answer.status {
            409 => Ok(()),
            status if status >= 429 => Ok(()),
            _ => Err(Trouble::Wrong(format!(
                "a changed repeat of {} was answered {answer:?}",
                entry.order_id
            ))),
        }
    }

    async fn read(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick() else {
            return Ok(());
        };
        let Some(id) = entry.id() else {
            return Ok(());
        };
        let key = self.world.shops[entry.shop].key(entry.live);
        let sent = Instant::now();
        let path = format!("/api/v1/payments/{id}");
        let answer = self.line.call(Ask::get(&path, key)).await?;
        if answer.status >= 429 {
            return Ok(());
        }
        entry.hear(&answer.expect(200)?, false, sent)?;
        self.world.acknowledge();
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick_in("created") else {
            return Ok(());
        };
        let body = json!({ "actor": "ann", "reason": "asked for" });
        self.decide(&entry, "cancel", body, "cancelled").await
    }

    async fn review(&mut self) -> Result<(), Trouble> {
        let Some(entry) = self.pick_in("review") else {
            return Ok(());
        };
        let decision = self.random.one_of(&["approve", "decline"]);
        let body = json!({ "decision": decision, "actor": "ann", "reason": "looked at it" });
        self.decide(&entry, "review", body, decision).await
    }

    async fn decide(
        &mut self,
        entry: &Arc<Entry>,
        call: &str,
        body: serde_json::Value,
        what: &'static str,
    ) -> Result<(), Trouble> {
        let Some(id) = entry.id() else {
            return Ok(());
        };
        self.world.journal.touch(entry);
        let sent = Instant::now();
        let path = format!("/payments/{id}/{call}");
        let answer = self.desk.call("POST", &path, Some(&body)).await?;
        if answer.status == 200 {
            entry.hear(&answer.json()?["payment"], false, sent)?;
            entry.told.lock().decided.push(what);
            self.world.acknowledge();
        }
        Ok(())
    }

    async fn order_fault(&mut self) -> Result<(), Trouble> {
        let account = if self.random.once_in(4) {
            "sandbox-live"
        } else {
            "sandbox-test"
        };
        let fault = if self.random.once_in(3) {
            "none"
        } else {
            self.random.one_of(&FAULTS)
        };
        let times = 1 + self.random.roll(2);
        let body = json!({ "provider_id": account, "fault": fault, "times": times });
        self.desk.call("POST", "/dev/faults", Some(&body)).await?;
        Ok(())
    }
}

/// Sends a create, first or repeated, and records the response.
async fn create(world: &World, line: &mut Line, entry: &Entry) -> Result<(), Trouble> {
    let key = world.shops[entry.shop].key(entry.live);
    let sent = Instant::now();
    let answer = line
        .call(Ask::post("/api/v1/payments", key, &entry.body))
        .await?;
    hear_create(world, entry, &answer, sent)?;
    Ok(())
}

/// Records the response to a create. Returns whether the payment certainly exists.
pub(crate) fn hear_create(
    world: &World,
    entry: &Entry,
    answer: &Answer,
    sent: Instant,
) -> Result<bool, String> {
    match answer.status {
        201 => entry.hear(&answer.json()?, true, sent)?,
        200 if answer.replayed => entry.hear(&answer.json()?, false, sent)?,
        // No account is available. A payment that exists would be replayed without this check.
        422 if entry.direct && entry.id().is_none() => return Ok(false),
        // Proves nothing.
        status if status >= 429 => return Ok(false),
        _ => {
            return Err(format!(
                "{} was answered {answer:?}, known as {:?}",
                entry.body,
                entry.id()
            ));
        }
    }
    world.acknowledge();
    Ok(true)
}
