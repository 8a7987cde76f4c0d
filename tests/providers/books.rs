//! Random payments at every account, with refunds, disputes, operators' decisions, faults, kills and jumps of the
//! clock. At the end the ledger must agree with the simulators' books: per account and currency, and per day of the
//! provider's time.
//!
//! `KASSETTE_SEED` repeats a run's choices; their interleaving differs from run to run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::fallback::judge::WAITING;
use crate::fallback::lives::Lives;
use crate::fallback::payer::{Payer, press};
use crate::fallback::plan::{self, Plan, Route};
use crate::harness::{Answer, Server, merge, unique};
use crate::seeded_random::SeededRandom;
use crate::world::{self, Module};

/// Number of payments without `KASSETTE_BOOKS_PAYMENTS`.
const USUAL: usize = 90;
/// Number of payments per kill, and the minimum number of kills.
const PAYMENTS_PER_KILL: usize = 150;
const LEAST_KILLS: usize = 3;
/// Number of calls of [`Lane::act`] after each new payment.
const ACTS: usize = 3;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Maximum number of days until everything has ended: the host queries for 35 days, then an operator decides.
const DAYS: usize = 90;
/// Days after which a failed payment with settlement `pending` counts as ended. Some providers never report more, so
/// the comparison with the books decides.
const UNCERTAIN_DAYS: usize = 5;
/// Maximum number of differences that are printed in full.
const MOST_TOLD: usize = 6;
const SETTINGS: &str = "[payments]\nprovider_deadline_ms = 1500\nstart_deadline_ms = 6000\n";

/// Faults while a payer pays, and afterwards.
const PAYING: [&str; 21] = [
    "timeout-before-effect",
    "timeout-after-effect",
    "status-429",
    "status-500",
    "malformed",
    "truncated",
    "callback-twice",
    "callback-late",
    "callback-reordered",
    "callback-never",
    "callback-forged",
    "wrong-amount",
    "wrong-currency",
    "needs-capture",
    "capture-refused",
    "capture-short",
    "capture-over",
    "capture-late",
    "capture-fails",
    "voids-approval",
    "late-money",
];
const AFTERWARDS: [&str; 14] = [
    "refuse-connection",
    "timeout-after-effect",
    "timeout-before-effect",
    "status-429",
    "status-500",
    "malformed",
    "truncated",
    "callback-twice",
    "callback-late",
    "callback-reordered",
    "callback-never",
    "refund-refused",
    "refund-fails",
    "refund-late",
];

/// Sums in minor units, by account, currency or another key.
type Sums<K> = BTreeMap<K, i128>;

fn cents(amount: &Value) -> i128 {
    let text = amount.as_str().unwrap().replace('.', "");
    text.parse().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Effect of a movement in the books in minor units, negative for outgoing money.
fn effect(movement: &Value) -> i128 {
    let comes = ["captured", "refund_reversed", "funds_reinstated"];
    let amount = cents(&movement["amount"]);
    match comes.contains(&movement["kind"].as_str().unwrap()) {
        true => amount,
        false => -amount,
    }
}

/// The provider's id of a movement's capture, refund or dispute, in the books or in the ledger.
fn reference(movement: &Value) -> String {
    text(
        movement
            .get("id")
            .unwrap_or(&movement["provider_references"][0]),
    )
}

/// Modules at which no callback is lost, because no query reports the same: at Adyen captures, refunds and disputes, at
/// Paysafe refunds made in its portal and reversed refunds.
const TELLS_ONCE: [&str; 2] = ["adyen", "paysafe"];

/// Faults left out at Adyen: a paid link has the amount of the order, so no query shows that another amount was
/// captured.
const OTHER_SUMS: [&str; 4] = [
    "wrong-amount",
    "wrong-currency",
    "capture-short",
    "capture-over",
];

/// Movements without the provider's time: the ledger has the report's time. Kinds other than `captured` and `refunded`
/// have no such time at any provider.
const UNTIMED: [(&str, &str); 9] = [
    // A session has no time of payment.
    ("adyen-test", "captured"),
    // An invoice has the time at which its coins were seen, not confirmed.
    ("btcpay-test", "captured"),
    // A payment has only the time of its last change, even a dispute or a refund.
    ("revolut-test", "captured"),
    // A payment has the time of its approval, not of its capture.
    ("razorpay-test", "captured"),
    // A payment has only the time at which it entered its current state.
    ("paysafe-test", "captured"),
    ("paysafe-test", "refunded"),
    // A refund has the time of its creation, not of its execution.
    ("mollie-test", "refunded"),
    ("razorpay-test", "refunded"),
    ("stripe-test", "refunded"),
];

/// One payment, and the ids of the refunds reported for it.
struct Order {
    payer: Payer,
    refunds: BTreeSet<String>,
    /// Its attempts, if all are at [`TELLS_ONCE`] and a report was lost: the ledger cannot agree with the books.
    untold: Vec<String>,
    /// Days since it failed with settlement `pending`.
    uncertain_days: usize,
}

/// One account, whose payments and acts run sequentially.
struct Lane<'a> {
    lives: &'a Lives,
    module: Module,
    keys: [String; 2],
    random: SeededRandom,
    orders: Vec<Order>,
}

impl Lane<'_> {
    fn account(&self) -> &str {
        &self.module.account
    }

    /// Orders one of these faults in one of `one_in` calls. Returns it, or `none`.
    async fn fault(&mut self, faults: &[&'static str], one_in: usize) -> &'static str {
        let drawn = self.random.one_of(faults);
        let times = 1 + self.random.roll(3);
        let is_lost = ["callback-never", "callback-forged"].contains(&drawn);
        let is_left_out = is_lost && TELLS_ONCE.contains(&self.module.name.as_str());
        if !self.random.once_in(one_in) || is_left_out {
            return "none";
        }
        self.order_fault(drawn, times).await;
        drawn
    }

    async fn order_fault(&self, fault: &str, times: usize) {
        let body = json!({ "provider_id": self.account(), "fault": fault, "times": times });
        let _ = self.lives.operate("/dev/faults", &body).await;
    }

    /// Creates a payment and pays it, as far as it can be paid.
    async fn pay(&mut self) {
        let faults: Vec<_> = match self.module.name.as_str() {
            "adyen" => PAYING
                .into_iter()
                .filter(|fault| !OTHER_SUMS.contains(fault))
                .collect(),
            _ => PAYING.to_vec(),
        };
        let fault = self.fault(&faults, 2).await;
        let key = self.keys[usize::from(self.random.once_in(4))].clone();
        let methods = &self.module.methods;
        let method = methods[self.random.roll(methods.len())].clone();
        let outcomes = ["approve"; 8].into_iter();
        // Mollie has no review: its simulator reports a chargeback instead, which its books do not contain.
        let review = if self.module.name == "mollie" {
            "approve"
        } else {
            "review"
        };
        let outcomes: Vec<_> = outcomes
            .chain(["decline", review, "pending", "leave"])
            .collect();
        let plan = Plan {
            route: Route::to(self.account(), &key, &method),
            fault,
            outcome: self.random.one_of(&outcomes),
            comes_back: self.random.once_in(2),
            decision: None,
        };
        let payer = Payer::new(plan).pay(self.lives).await;
        self.order_fault("none", 1).await;
        if !payer.payment.is_null() {
            let refunds = BTreeSet::new();
            self.orders.push(Order {
                payer,
                refunds,
                untold: Vec::new(),
                uncertain_days: 0,
            });
        }
    }

    /// Refunds, disputes or decides a random payment. Any outcome is accepted.
    async fn act(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        let i = self.random.roll(self.orders.len());
        if self.random.once_in(3) {
            self.order_fault("none", 1).await;
        }
        self.fault(&AFTERWARDS, 3).await;
        let amount = format!("{}.{:02}", self.random.roll(30), 1 + self.random.roll(99));
        let part = (!self.random.once_in(3)).then_some(amount);
        let (lives, order) = (self.lives, &mut self.orders[i]);
        match self.random.roll(16) {
            0..=3 => order.refund_by_merchant(lives, part).await,
            4 | 5 => order.refund_by_operator(lives, part).await,
            // BTCPay's dashboard refunds are payouts that no invoice shows.
            6 | 7 if self.module.name != "btcpay" => {
                order.press(lives, "refund", part.as_deref()).await;
            }
            // Only a callback reports a reversed refund at Paysafe, and nothing does at BTCPay.
            8 if !["btcpay", "paysafe"].contains(&self.module.name.as_str()) => {
                order.press(lives, "refund_fails", None).await;
            }
            // Interac has no disputes: Paysafe's simulator reports one as a held payment, without refunds. Adyen does
            // not report that an inquiry withdrew the money, or a capture after the session was disputed.
            9..=13 if ["adyen", "paysafe"].contains(&self.module.name.as_str()) => {}
            9 => order.press(lives, "inquiry", None).await,
            10 | 11 => order.press(lives, "dispute", None).await,
            12 => order.press(lives, "dispute_won", None).await,
            13 => order.press(lives, "dispute_lost", None).await,
            14 => order.decide(lives, self.random.once_in(2)).await,
            _ => order.press(lives, "claim", None).await,
        }
    }

    /// Advances the clock, usually by six seconds and at most by a day.
    async fn jump(&mut self) {
        let seconds = match self.random.roll(60) {
            0 => DAY + self.random.roll(usize::try_from(DAY).unwrap()) as u64,
            1..=3 => self.random.roll(6) as u64 * HOUR,
            4..=20 => 60 + self.random.roll(300) as u64,
            _ => 6,
        };
        self.lives.nudge(seconds.min(DAY)).await;
    }
}

impl Order {
    fn path(&self, rest: &str) -> String {
        format!("/payments/{}{rest}", self.payer.id())
    }

    /// Presses a button of the provider's page, if the payer reached it.
    async fn press(&self, lives: &Lives, outcome: &str, amount: Option<&str>) {
        let Some(form) = &self.payer.form else { return };
        let mut fields = vec![("outcome", outcome)];
        fields.extend(amount.map(|amount| ("amount", amount)));
        let _ = press(lives, form, &fields).await;
    }

    /// Sends the same request up to three times, until there is a response.
    async fn refund_by_merchant(&mut self, lives: &Lives, amount: Option<String>) {
        let mut body = json!({ "idempotency_key": format!("refund-{}", unique()) });
        merge(
            &mut body,
            amount.map_or(json!({}), |amount| json!({ "amount": amount })),
        );
        let path = format!("/api/v1{}", self.path("/refunds"));
        for _ in 0..3 {
            let answer = lives.call(&self.payer.plan.route.key, &path, &body).await;
            if self.note(answer) {
                return;
            }
        }
    }

    async fn refund_by_operator(&mut self, lives: &Lives, amount: Option<String>) {
        let mut body = json!({ "actor": "ann", "reason": "drawn" });
        merge(
            &mut body,
            amount.map_or(json!({}), |amount| json!({ "amount": amount })),
        );
        let answer = lives.operate(&self.path("/refunds"), &body).await;
        self.note(answer);
    }

    /// Records the refund in a response. False without a response.
    fn note(&mut self, answer: Option<Answer>) -> bool {
        let Some(answer) = answer else { return false };
        assert!(answer.status < 500 || answer.status == 503, "{answer:?}");
        if answer.status < 300 {
            self.refunds.insert(text(&answer.json()["refund_id"]));
        }
        true
    }

    /// The payment as operators see it.
    async fn inside(&self, lives: &Lives) -> Option<Value> {
        let server = lives.server().await;
        let url = format!("{}{}", server.admin_base(), self.path(""));
        let request = lives.to(Method::GET, &url).await;
        let answer = lives
            .send(request.bearer_auth(server.operator_token()))
            .await?;
        Some(answer.expect(200).json())
    }

    /// Approves a review as an operator, if `approves` and an approval is possible; else declines it.
    async fn decide(&self, lives: &Lives, approves: bool) {
        let Some(inside) = self.inside(lives).await else {
            return;
        };
        let possible = &inside["possible"]["approve"];
        let mut body = json!({ "decision": "decline", "actor": "ann", "reason": "drawn" });
        if approves && !possible.is_null() {
            let money = json!({ "amount": possible["amount"], "currency": possible["currency"] });
            merge(
                &mut body,
                json!({ "decision": "approve", "despite": possible["despite"] }),
            );
            if possible["needs_accept"] == true {
                merge(&mut body, json!({ "accept": money }));
            }
        }
        if let Some(answer) = lives.operate(&self.path("/review"), &body).await {
            assert!(answer.status < 500, "{body}: {answer:?}");
        }
    }

    /// Moves the payment and its refunds towards their end. Returns whether they have ended. `given_back` has the
    /// refunds that succeeded.
    async fn end(&mut self, lives: &Lives, given_back: &BTreeSet<String>) -> bool {
        let inside = self.inside(lives).await.unwrap();
        let status = text(&inside["payment"]["status"]);
        let settlement = text(&inside["payment"]["settlement_status"]);
        let is_uncertain = status == "failed" && settlement == "pending";
        let mut attempts = inside["attempts"].as_array().unwrap().iter();
        let is_held = attempts.any(|attempt| attempt["state"] == "review");
        // The provider decides about a payment that it holds.
        if self.payer.plan.outcome == "review" || is_held || is_uncertain {
            self.press(lives, "approve", None).await;
        }
        if status == "review" {
            let has_lapsed = inside["payment"]["decision"]["state"] == "lapsed";
            self.decide(lives, !has_lapsed).await;
        }
        self.uncertain_days += usize::from(is_uncertain);
        if inside["attempts"] != json!([]) {
            let asked = json!({ "actor": "ann", "reason": "is there more?" });
            lives.operate(&self.path("/query"), &asked).await;
        }
        let attempts = inside["attempts"].as_array().unwrap().iter();
        let tells_once = |attempt: &Value| {
            let account = text(&attempt["provider_id"]);
            TELLS_ONCE.iter().any(|name| account.starts_with(name))
        };
        let is_silent = inside["payment"]["review_cause"] == "silence" || is_uncertain;
        if is_silent && attempts.clone().all(tells_once) {
            self.untold = attempts.map(|each| text(&each["attempt_id"])).collect();
        }
        let waits = WAITING.contains(&status.as_str()) || status == "review";
        let mut ended = !waits && (!is_uncertain || self.uncertain_days > UNCERTAIN_DAYS);
        ended |= !self.untold.is_empty();
        for refund in inside["refunds"].as_array().unwrap() {
            let id = text(&refund["refund_id"]);
            if refund["status"] == "pending" {
                ended = false;
                self.press(lives, "claim", None).await;
                let made = given_back.contains(&id);
                let outcome = if made { "made" } else { "not_made" };
                let settled = json!({ "outcome": outcome, "actor": "ann", "reason": "books" });
                lives
                    .operate(&format!("/refunds/{id}/settle"), &settled)
                    .await;
            }
            self.refunds.insert(id);
        }
        ended
    }
}

/// Number of payments, before it is rounded up to a multiple of the lanes.
fn size() -> usize {
    let set = std::env::var("KASSETTE_BOOKS_PAYMENTS").ok();
    set.map_or(USUAL, |set| set.parse().expect("a number of payments"))
}

fn seed() -> u64 {
    let set = std::env::var("KASSETTE_SEED").ok();
    set.map_or(0xB00C, |set| set.parse().expect("a number"))
}

/// Creates a lane for each account, with two shops: without and with reviews of all payments over 0.01 USD.
async fn lanes(lives: &Lives) -> Vec<Lane<'_>> {
    let server = lives.server().await;
    let mut lanes = Vec::new();
    for (i, module) in world::modules(&server).await.into_iter().enumerate() {
        let accounts = |method: &String| (method.clone(), vec![module.account.clone()]);
        let methods: BTreeMap<_, _> = module.methods.iter().map(accounts).collect();
        let keys = [
            plan::shop(&server, &methods, false).await,
            plan::shop(&server, &methods, true).await,
        ];
        lanes.push(Lane {
            lives,
            keys,
            random: SeededRandom::new(seed(), i as u64),
            orders: Vec::new(),
            module,
        });
    }
    lanes
}

/// All pages of a list of the admin API.
async fn listed(server: &Server, path: &str, name: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("{path}&limit=100{cursor}");
        let page = server.admin("GET", &path, None).await.expect(200).json();
        items.extend(page[name].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// The day of the ledger's `complete_until`, and the sums of the earlier days, which are closed.
async fn closed_days(server: &Server, from: &str) -> (String, Vec<Value>) {
    let ledger = server.admin("GET", "/movements?limit=1", None).await;
    let until = text(&ledger.expect(200).json()["complete_until"])[..10].to_owned();
    let path = format!("/finance/days?from={from}&to={until}");
    let days = listed(server, &path, "days").await;
    let closed = days.into_iter().filter(|day| text(&day["day"]) < until);
    (until.clone(), closed.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_says_what_the_providers_books_say() {
    println!(
        "KASSETTE_SEED={} KASSETTE_BOOKS_PAYMENTS={}",
        seed(),
        size()
    );
    let lives = Lives::begin(SETTINGS).await;
    let from = day_of(lives.server().await.now().await);
    let mut lanes = lanes(&lives).await;
    let (begun, mut closed) = (AtomicUsize::new(0), Vec::new());
    let each = size().div_ceil(lanes.len());
    let all = each * lanes.len();
    let paying = join_all(lanes.iter_mut().map(async |lane| {
        for _ in 0..each {
            lane.pay().await;
            begun.fetch_add(1, Ordering::Relaxed);
            for _ in 0..ACTS {
                lane.act().await;
                lane.jump().await;
            }
        }
    }));
    let killing = async {
        let kills = (size() / PAYMENTS_PER_KILL).max(LEAST_KILLS);
        for kill in 0..kills {
            while begun.load(Ordering::Relaxed) * (kills + 1) < all * (kill + 1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            lives.kill_in_time().await;
            closed.push(closed_days(&*lives.server().await, &from).await);
        }
    };
    tokio::join!(paying, killing);
    for lane in &lanes {
        lane.order_fault("none", 1).await;
    }
    lives.reconcile().await;
    let server = lives.server().await;
    closed.push(closed_days(&server, &from).await);
    end(&lives, &mut lanes).await;
    for (until, days) in closed {
        let (_, now) = closed_days(&server, &from).await;
        let now: Vec<_> = now
            .into_iter()
            .filter(|day| text(&day["day"]) < until)
            .collect();
        assert_eq!(
            now, days,
            "sums of days that were closed at {until} have changed"
        );
    }
    let books = Books::read(&server, &lanes).await;
    books.judge(&server, &from).await;
    every_reported_refund_is_readable(&server, &lanes).await;
    println!("{} kills; {books}", lives.kills());
    verify(&server.stop().await.path().join("data"));
}

/// Runs `kassette verify` on the stopped server's store. A PostgreSQL store is not in the folder and is skipped.
fn verify(data: &Path) {
    if !data.join("store").exists() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    command.arg("verify").arg("--data-dir").arg(data);
    let verified = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
}

fn day_of(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap();
    at.to_string()[..10].to_owned()
}

/// Advances the clock by days until every payment and every refund has ended.
async fn end(lives: &Lives, lanes: &mut [Lane<'_>]) {
    let accounts: Vec<_> = lanes.iter().map(|lane| lane.account().to_owned()).collect();
    let mut open: Vec<&mut Order> = lanes.iter_mut().flat_map(|lane| &mut lane.orders).collect();
    for _ in 0..DAYS {
        let server = lives.server().await;
        for account in &accounts {
            let held = json!({ "provider_id": account });
            let released = server.admin("POST", "/dev/release", Some(&held)).await;
            released.expect(200);
        }
        let given_back = given_back(&server).await;
        let mut left = Vec::new();
        for order in open {
            if !order.end(lives, &given_back).await {
                left.push(order);
            }
        }
        open = left;
        if open.is_empty() {
            return;
        }
        lives.advance(DAY).await;
    }
    for order in open.iter().take(MOST_TOLD) {
        eprintln!("{:#}", order.inside(lives).await.unwrap());
    }
    panic!("{} payments have not ended", open.len());
}

/// The gateway's ids of the refunds that succeeded, according to the books.
async fn given_back(server: &Server) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    let books = server.admin("GET", "/dev/books", None).await.expect(200);
    for entry in books.json()["entries"].as_array().unwrap() {
        let refunds = entry["refunds"].as_array().unwrap().iter();
        let succeeded = refunds.filter(|refund| refund["state"] == "succeeded");
        made.extend(succeeded.map(|refund| text(&refund["refund_id"])));
    }
    made
}

async fn every_reported_refund_is_readable(server: &Server, lanes: &[Lane<'_>]) {
    for lane in lanes {
        for order in &lane.orders {
            for refund in &order.refunds {
                let path = format!("/api/v1/refunds/{refund}");
                let key = &order.payer.plan.route.key;
                server.get(key, &path).await.expect(200);
            }
        }
    }
}

/// The simulators' books and the ledger.
struct Books {
    /// Entries of the books, by attempt.
    entries: HashMap<String, Value>,
    /// The ledger's movements, by attempt.
    movements: HashMap<String, Vec<Value>>,
    /// Attempts of [`Order::untold`], which are not compared with the books.
    untold: BTreeSet<String>,
}

impl std::fmt::Display for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for movement in self.movements.values().flatten() {
            *kinds.entry(text(&movement["kind"])).or_default() += 1;
        }
        write!(f, "{} payments in the books, {kinds:?}", self.entries.len())
    }
}

impl Books {
    async fn read(server: &Server, lanes: &[Lane<'_>]) -> Self {
        let (mut entries, mut movements) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for lane in lanes {
            for entry in server.books(lane.account()).await {
                entries.insert(text(&entry["attempt_id"]), entry);
            }
            let path = format!("/movements?provider_id={}", lane.account());
            for movement in listed(server, &path, "movements").await {
                let attempt = text(&movement["attempt_id"]);
                movements.entry(attempt).or_default().push(movement);
            }
        }
        let orders = lanes.iter().flat_map(|lane| &lane.orders);
        Self {
            entries,
            movements,
            untold: orders.flat_map(|order| order.untold.clone()).collect(),
        }
    }

    /// Nonzero sums of the books and of the ledger. Skips movements whose `key` is `None`.
    fn sums<K: Ord>(&self, key: impl Fn(&str, &Value, &str) -> Option<K>) -> [Sums<K>; 2] {
        let mut sums = [Sums::new(), Sums::new()];
        for (attempt, entry) in &self.entries {
            for movement in entry["movements"].as_array().unwrap() {
                if let Some(key) = key(attempt, movement, &text(&entry["provider_id"])) {
                    *sums[0].entry(key).or_default() += effect(movement);
                }
            }
        }
        for (attempt, movements) in &self.movements {
            for movement in movements {
                let amount = cents(&movement["amount"]);
                let amount = match movement["effect"].as_str().unwrap() {
                    "in" => amount,
                    "out" => -amount,
                    _ => continue,
                };
                if let Some(key) = key(attempt, movement, &text(&movement["provider_id"])) {
                    *sums[1].entry(key).or_default() += amount;
                }
            }
        }
        for each in &mut sums {
            each.retain(|_, sum| *sum != 0);
        }
        sums
    }

    async fn judge(&self, server: &Server, from: &str) {
        let currency = |movement: &Value| text(&movement["currency"]);
        let [books, ledger] = self.sums(|attempt, each, _| {
            self.is_told(attempt)
                .then(|| (attempt.to_owned(), currency(each)))
        });
        let differs = |(attempt, currency): &&(String, String)| {
            let key = (attempt.clone(), currency.clone());
            books.get(&key) != ledger.get(&key)
        };
        let wrong: BTreeSet<_> = books.keys().chain(ledger.keys()).filter(differs).collect();
        for (attempt, _) in wrong.iter().take(MOST_TOLD) {
            self.tell(server, attempt).await;
        }
        assert!(
            wrong.is_empty(),
            "{} attempts differ: {wrong:?}",
            wrong.len()
        );
        let [books, told] = self.sums(|attempt, each, account| {
            self.is_told(attempt)
                .then(|| (account.to_owned(), currency(each)))
        });
        assert_eq!(books, told, "closing balances");
        self.judge_refunds();
        let [_, ledger] = self.sums(|_, each, account| Some((account.to_owned(), currency(each))));
        self.judge_closing(server, from, &ledger).await;
        let answered = self.answered();
        let [uncaptured, unrefunded] =
            ["capture_reversed", "refund_reversed"].map(|kind| self.with(kind));
        let [books, ledger] = self.sums(|attempt, each, account| {
            let kind = text(&each["kind"]);
            let is_untimed = match kind.as_str() {
                "captured" => uncaptured.contains(attempt),
                "refunded" => answered.contains(&reference(each)) || unrefunded.contains(attempt),
                _ => true,
            };
            if is_untimed || !self.is_told(attempt) || UNTIMED.contains(&(account, kind.as_str())) {
                return None;
            }
            let at = text(each.get("occurred_at").unwrap_or(&each["at"]));
            let day = at[..10].to_owned();
            Some((attempt.to_owned(), currency(each), kind, day))
        });
        let all = books.keys().chain(ledger.keys());
        let wrong: BTreeSet<_> = all
            .filter(|key| books.get(key) != ledger.get(key))
            .collect();
        for (attempt, ..) in wrong.iter().take(MOST_TOLD) {
            self.tell(server, attempt).await;
        }
        assert!(wrong.is_empty(), "by day of the provider's time: {wrong:?}");
    }

    fn is_told(&self, attempt: &str) -> bool {
        !self.untold.contains(attempt)
    }

    /// Prints an attempt's books, movements and payment.
    async fn tell(&self, server: &Server, attempt: &str) {
        let entry = self.entries.get(attempt).unwrap_or(&Value::Null);
        let lines = |of: &Value| {
            let each = of.as_array().into_iter().flatten().map(Value::to_string);
            each.collect::<Vec<_>>().join("\n    ")
        };
        let ledger = json!(self.movements.get(attempt));
        eprintln!("{entry}\n  books\n    {}", lines(&entry["movements"]));
        eprintln!("  ledger\n    {}", lines(&ledger));
        let path = format!("/payments?attempt_id={attempt}");
        for payment in listed(server, &path, "payments").await {
            let inside = server.inside(&payment).await;
            for part in ["refunds", "disputes", "transitions", "attempts"] {
                eprintln!("  {part}\n    {}", lines(&inside[part]));
            }
        }
    }

    /// Attempts with a movement of this kind in the books or in the ledger. A movement that was reversed before the
    /// gateway knew it is only in the books, and PayPal lists the withdrawal of a lost dispute as a refund.
    fn with(&self, kind: &str) -> BTreeSet<String> {
        let of_kind = |all: &[Value]| all.iter().any(|movement| movement["kind"] == kind);
        let entries = self.entries.iter();
        let books = entries.filter(|(_, entry)| of_kind(entry["movements"].as_array().unwrap()));
        let ledger = self.movements.iter().filter(|(_, all)| of_kind(all));
        let books = books.map(|(attempt, _)| attempt.clone());
        books
            .chain(ledger.map(|(attempt, _)| attempt.clone()))
            .collect()
    }

    /// References of movements recorded from a response, which contains no time.
    fn answered(&self) -> BTreeSet<String> {
        let movements = self.movements.values().flatten();
        let answered = movements.filter(|movement| movement["source"] == "answer");
        answered.map(reference).collect()
    }

    /// Asserts that no refund was paid out twice, and that no captured payment refunded more than its amount.
    fn judge_refunds(&self) {
        for entry in self.entries.values() {
            let mut made = BTreeSet::new();
            for refund in entry["refunds"].as_array().unwrap() {
                let order = text(&refund["refund_id"]);
                let first = order.is_empty() || refund["state"] == "failed" || made.insert(order);
                assert!(first, "paid out twice: {entry:#}");
            }
            let given = entry["captured_times"] == 0
                || cents(&entry["refunded"]) <= cents(&entry["amount"]);
            assert!(given, "more was paid out than received: {entry:#}");
        }
    }

    /// Asserts that the last closing balances of `finance days` equal the ledger's sums.
    async fn judge_closing(&self, server: &Server, from: &str, ledger: &Sums<(String, String)>) {
        let to = day_of(server.now().await + i64::try_from(DAY).unwrap());
        let path = format!("/finance/days?from={from}&to={to}");
        let mut closing = BTreeMap::new();
        for day in listed(server, &path, "days").await {
            let of = (text(&day["provider_id"]), text(&day["currency"]));
            let merchant = day["merchant_id"].to_string();
            closing.insert((of, merchant), cents(&day["closing"]));
        }
        let mut sums = Sums::new();
        for ((of, _), closing) in closing {
            *sums.entry(of).or_default() += closing;
        }
        sums.retain(|_, sum| *sum != 0);
        assert_eq!(&sums, ledger, "closing balances of the days");
    }
}
