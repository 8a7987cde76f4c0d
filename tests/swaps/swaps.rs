//! Two versions that replace each other under load.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kassette_domain::id::Digest;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use crate::harness::{Server, TEST_TIMEOUT};
use crate::traffic::{Caller, Simulator, assert_no_faults, resident};
use crate::versions::{ACCOUNTS, Kind, Versions};

/// Interval between swaps.
const EVERY: Duration = Duration::from_millis(50);
/// Interval between checks whether a version is active.
const LOOK: Duration = Duration::from_millis(5);
/// Every 40th swap brings a version that the gateway does not know: it compiles the version and drops the oldest
/// one.
const FRESH: u32 = 40;
/// Number of versions before the measurement, more than the gateway keeps.
const WARMING: u32 = 10;
/// Number of callers of each kind.
const CALLERS: usize = 2;
/// Allowed growth of resident memory during hundreds of swaps, without that of payments. Each version that was not
/// freed would take at least 100 KiB.
const GROWTH_KIB: u64 = 24 << 10;
/// Memory that one payment may leave: its lines in the registers, its record in caches.
const PAYMENT_KIB: u64 = 3;

/// Number of memory samples while versions are replaced.
const SAMPLES: u32 = 6;
/// Minimum number of versions between two samples.
const LEAST: u32 = 60;
/// Memory that a dropped version may leave: its line in the audit log. A version that was not freed would take at
/// least 50 KiB.
const VERSION_KIB: u64 = 8;
/// Further growth of memory allowed while versions are replaced.
const SLACK_KIB: u64 = 4 << 10;

/// A server with our iDEAL module and two accounts for it. The accounts are simulated in separate processes,
/// because a simulator holds its books in memory.
struct World {
    server: Server,
    key: String,
    versions: Mutex<Versions>,
    _simulators: [Simulator; 2],
}

impl World {
    async fn new() -> Self {
        // Our versions return fixed verdicts, which the checks would reject.
        let settings = "[store]\ncache_mib = 8\n[plugins]\ncheck_before_use = false\n";
        let server = Server::configured(settings).await;
        let simulators = ACCOUNTS.map(|account| Simulator::start(&server, account));
        let anybody = Caller::new(&server, server.test_key());
        let there = || async {
            let listing = anybody.listing().await;
            let ideal = listing.iter().find(|method| method["id"] == "ideal")?;
            let providers = ideal["providers"].as_array()?;
            let offered = |account| providers.iter().any(|one| one["id"] == account);
            ACCOUNTS.into_iter().all(offered).then_some(())
        };
        server.wait_for("both accounts", there).await;
        let policy = json!({
            "methods": { "ideal": { "enabled": true, "providers": ACCOUNTS } },
            "rate_limit": { "per_second": crate::NO_LIMIT, "burst": crate::NO_LIMIT },
        });
        let (_, key, _) = server.merchant(policy).await;
        Self {
            server,
            key,
            versions: Mutex::default(),
            _simulators: simulators,
        }
    }

    fn caller(&self) -> Caller<'_> {
        Caller::new(&self.server, &self.key)
    }

    fn fresh(&self, kind: Kind) -> Vec<u8> {
        self.versions.lock().fresh(kind)
    }

    fn file(&self) -> PathBuf {
        self.server.plugin_dir().join("method.ideal.wasm")
    }

    /// Replaces the module's file atomically, as a careful deployment does.
    fn put(&self, bytes: &[u8]) {
        let aside = self.server.plugin_dir().join(".method.ideal.new");
        std::fs::write(&aside, bytes).unwrap();
        std::fs::rename(aside, self.file()).unwrap();
    }

    /// Uploads a version as a candidate in shadow mode.
    async fn stage(&self, bytes: &[u8]) {
        let server = &self.server;
        let url = format!("{}/plugins/method.ideal?mode=shadow", server.admin_base());
        let request = server.http.post(url).bearer_auth(server.operator_token());
        server.send(request.body(bytes.to_vec())).await.expect(200);
    }

    /// Runs an operator's action on the slot.
    async fn act(&self, what: &str) {
        let path = format!("/plugins/method.ideal/{what}");
        let words = json!({ "actor": "Ada", "reason": "swaps" });
        let done = self.server.admin("POST", &path, Some(&words)).await;
        done.expect(200);
    }

    /// Waits until a version is active.
    async fn active(&self, bytes: &[u8]) {
        let digest = json!(Digest::hash(bytes).to_string());
        let path = "/plugins/method.ideal/history?limit=1";
        let began = Instant::now();
        loop {
            let history = self
                .server
                .admin("GET", path, None)
                .await
                .expect(200)
                .json();
            if history["history"][0]["digest"] == digest {
                return;
            }
            assert!(began.elapsed() < TEST_TIMEOUT, "{}", self.server.log());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Checks that each decision about a payment is attributed to one of our versions and matches its response.
    /// Returns the kinds of these versions.
    fn judged(&self, inside: &Value) -> Vec<Kind> {
        let decisions = inside["decisions"].as_array().unwrap();
        assert_eq!(decisions.len(), 2, "of the create and of the start");
        let kinds = decisions.iter().map(|decision| {
            let kind = self.versions.lock().kind(&decision["digest"]);
            kind.assert_decided(decision);
            kind
        });
        let kinds: Vec<_> = kinds.collect();
        let attempt = &inside["attempts"][0];
        assert_eq!(attempt["provider_id"], decisions[1]["chosen"]);
        kinds
    }
}

/// Number of responses of each kind.
#[derive(Default)]
struct Met(Mutex<[u64; 2]>);

impl Met {
    fn note(&self, kind: Kind) {
        self.0.lock()[kind as usize] += 1;
    }

    fn both(&self) -> bool {
        self.0.lock().iter().all(|met| *met > 0)
    }
}

/// State of the swaps.
struct Turns<'a> {
    world: &'a World,
    /// One version of each kind that is used again and again.
    kept: [Vec<u8>; 2],
    kind: Kind,
    taken: u32,
    /// Whether the version before the active one, and the active one, are among `kept`.
    come_back: [bool; 2],
    /// Longest duration of an operator's call. Once it is answered, no request may meet the previous version.
    longest: Duration,
}

impl<'a> Turns<'a> {
    async fn start(world: &'a World) -> Self {
        let kept = Kind::BOTH.map(|kind| world.fresh(kind));
        for number in 0..WARMING {
            let bytes = world.fresh(Kind::BOTH[number as usize % 2]);
            world.put(&bytes);
            world.active(&bytes).await;
        }
        world.put(&kept[0]);
        world.active(&kept[0]).await;
        Self {
            world,
            kept,
            kind: Kind::Forward,
            taken: 0,
            come_back: [false, true],
            longest: Duration::ZERO,
        }
    }

    /// Checks that an operator's call has taken effect when it is answered.
    async fn done(&mut self, began: Instant) {
        self.longest = self.longest.max(began.elapsed());
        let listing = self.world.caller().listing().await;
        let ideal = listing.iter().find(|method| method["id"] == "ideal");
        assert!(
            ideal.and_then(Kind::listed) == Some(self.kind),
            "{listing:?}"
        );
    }

    /// Swaps to the other kind, alternately by file, promotion and rollback. Every `fresh`-th swap uses a new
    /// version.
    async fn next(&mut self, fresh: u32) {
        self.kind = self.kind.other();
        self.taken += 1;
        let is_fresh = self.taken.is_multiple_of(fresh);
        let bytes = if is_fresh {
            self.world.fresh(self.kind)
        } else {
            self.kept[self.kind as usize].clone()
        };
        let [before, active] = self.come_back;
        match self.taken % 3 {
            0 if before && !is_fresh => {
                let began = Instant::now();
                self.world.act("rollback").await;
                self.done(began).await;
            }
            1 => {
                self.world.stage(&bytes).await;
                let began = Instant::now();
                self.world.act("promote").await;
                self.done(began).await;
            }
            _ => self.world.put(&bytes),
        }
        self.world.active(&bytes).await;
        self.come_back = [active, !is_fresh];
    }
}

/// Requests the listing until `over` is set.
async fn list(caller: &Caller<'_>, listed: &Met, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let listing = caller.listing().await;
        let ideal = listing.iter().find(|method| method["id"] == "ideal");
        let ideal = ideal.expect("iDEAL is offered all the time");
        listed.note(Kind::listed(ideal).unwrap_or_else(|| panic!("neither: {ideal}")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_replaced_every_50_ms_under_load_are_felt_by_no_caller() {
    let _alone = crate::ALONE.lock().await;
    let length = crate::length("KASSETTE_SWAPS_SECONDS", 4);
    let world = World::new().await;
    let mut turns = Turns::start(&world).await;

    let caller = world.caller();
    let (listed, decided) = (Met::default(), Met::default());
    let over = AtomicBool::new(false);
    let paying = async || {
        let mut payments = 0_u64;
        while !over.load(Ordering::Relaxed) {
            let (payment, _) = caller.started("ideal").await;
            for kind in world.judged(&caller.inside(&payment).await) {
                decided.note(kind);
            }
            payments += 1;
        }
        payments
    };
    let before = world
        .server
        .counted("kassette_plugin_swaps_total", "method.ideal")
        .await;
    let began = Instant::now();
    let swapping = async {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut warm = None;
        // Both kinds normally occur long before the end; a very slow machine gets more time.
        while began.elapsed() < length || !listed.both() || !decided.both() {
            ticks.tick().await;
            turns.next(FRESH).await;
            if warm.is_none() && began.elapsed() > length / 3 {
                warm = Some(resident(&world.server));
            }
        }
        over.store(true, Ordering::Relaxed);
        warm.unwrap_or_else(|| resident(&world.server))
    };
    let listings = (0..CALLERS).map(|_| list(&caller, &listed, &over));
    let listings = futures_util::future::join_all(listings);
    let payments = futures_util::future::join_all((0..CALLERS).map(|_| paying()));
    let (_, payments, warm) = tokio::join!(listings, payments, swapping);
    let took = began.elapsed();
    let payments: u64 = payments.iter().sum();
    let swaps = world
        .server
        .counted("kassette_plugin_swaps_total", "method.ideal")
        .await;
    let end = resident(&world.server);
    println!(
        "{} swaps in {took:?}; {} requests, {payments} payments; listed \
         {:?}, decided {:?}; a promotion or rollback in effect after {:?} at most; resident {warm} KiB after a third, {end} KiB at the end",
        swaps - before,
        caller.answered.load(Ordering::Relaxed),
        listed.0.lock(),
        decided.0.lock(),
        turns.longest,
    );
    assert_eq!(swaps - before, u64::from(turns.taken));
    assert_no_faults(&world.server).await;
    assert_eq!(
        world
            .server
            .counted("kassette_plugin_refusals_total", "")
            .await,
        0
    );
    let remembered = "kassette_plugin_remembered_total";
    assert!(
        world.server.counted(remembered, "method.ideal").await > 0,
        "answers of both versions were remembered meanwhile"
    );
    let most = warm + GROWTH_KIB + payments * PAYMENT_KIB;
    assert!(end < most, "{end} KiB resident, from {warm}");
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_that_come_and_go_leave_no_memory_behind() {
    let _alone = crate::ALONE.lock().await;
    let length = crate::length("KASSETTE_SWAPS_SECONDS", 4);
    let world = World::new().await;
    let mut turns = Turns::start(&world).await;
    let caller = world.caller();
    let (listed, over) = (Met::default(), AtomicBool::new(false));
    let began = Instant::now();
    let swapping = async {
        let mut samples = vec![];
        for part in 1..=SAMPLES {
            // Each version is compiled, called and dropped.
            while began.elapsed() < length * part / SAMPLES || turns.taken < LEAST * part {
                turns.next(1).await;
            }
            samples.push(resident(&world.server));
        }
        over.store(true, Ordering::Relaxed);
        samples
    };
    let listings = (0..CALLERS).map(|_| list(&caller, &listed, &over));
    let listings = futures_util::future::join_all(listings);
    let (_, samples) = tokio::join!(listings, swapping);
    println!(
        "{} versions in {:?}; {} listings; resident {samples:?} KiB",
        turns.taken,
        began.elapsed(),
        caller.answered.load(Ordering::Relaxed),
    );
    assert_no_faults(&world.server).await;
    assert!(listed.both(), "both kinds were called meanwhile");
    let third = SAMPLES as usize / 3;
    let (warm, end) = (samples[third - 1], samples[samples.len() - 1]);
    let most = warm + SLACK_KIB + u64::from(turns.taken) * VERSION_KIB;
    assert!(end < most, "{end} KiB resident, from {warm}: {samples:?}");
}
