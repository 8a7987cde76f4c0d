//! Two versions in turn, under load.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kassette_domain::id::Digest;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use crate::harness::{PATIENCE, Server};
use crate::traffic::{Caller, Simulator, assert_no_faults, counted, resident};
use crate::versions::{ACCOUNTS, Kind, Versions};

/// From one swap to the next.
const EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether a version is active.
const LOOK: Duration = Duration::from_millis(5);
/// One swap in so many brings a version that nobody has seen before: it is compiled, and the oldest
/// version is let go.
const FRESH: u32 = 40;
/// Versions before the measurement, more than are kept.
const WARMING: u32 = 10;
/// Callers of each kind.
const CALLERS: usize = 2;
/// What resident memory may grow by while hundreds of versions come and go, beside what payments
/// take. Each version that stayed would take at least a hundred.
const GROWTH_KIB: u64 = 24 << 10;
/// What one payment may leave in memory: its lines in the registers, its record in caches.
const PAYMENT_KIB: u64 = 3;

/// A server on which iDEAL is ours and two accounts take it. Both are simulated in processes of their
/// own: a simulator keeps its books in memory.
struct World {
    server: Server,
    key: String,
    versions: Mutex<Versions>,
    _simulators: [Simulator; 2],
}

impl World {
    async fn new() -> Self {
        let server = Server::configured("[store]\ncache_mib = 8\n").await;
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

    /// Puts a version in the place of the one before, as a careful deployment does.
    fn put(&self, bytes: &[u8]) {
        let aside = self.server.plugin_dir().join(".method.ideal.new");
        std::fs::write(&aside, bytes).unwrap();
        std::fs::rename(aside, self.file()).unwrap();
    }

    /// Waits until a version is the active one.
    async fn active(&self, bytes: &[u8]) {
        let digest = json!(Digest::of(bytes).to_string());
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
            assert!(began.elapsed() < PATIENCE, "{}", self.server.log());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What the gateway holds each decision of a payment to be: by a version of ours, and what that
    /// version answers.
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

/// How often each kind was met.
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

#[tokio::test(flavor = "multi_thread")]
async fn modules_replaced_every_50_ms_under_load_are_felt_by_nobody() {
    let _alone = crate::ALONE.lock().await;
    let length = crate::length("KASSETTE_SWAPS_SECONDS", 4);
    let world = World::new().await;
    let kept = Kind::BOTH.map(|kind| world.fresh(kind));
    for number in 0..WARMING {
        let bytes = world.fresh(Kind::BOTH[number as usize % 2]);
        world.put(&bytes);
        world.active(&bytes).await;
    }
    world.put(&kept[0]);
    world.active(&kept[0]).await;

    let caller = world.caller();
    let (listed, decided) = (Met::default(), Met::default());
    let over = AtomicBool::new(false);
    let listing = async || {
        while !over.load(Ordering::Relaxed) {
            let listing = caller.listing().await;
            let ideal = listing.iter().find(|method| method["id"] == "ideal");
            let ideal = ideal.expect("iDEAL is offered all the time");
            listed.note(Kind::listed(ideal).unwrap_or_else(|| panic!("neither: {ideal}")));
        }
    };
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
    let before = counted(&world.server, "kassette_plugin_swaps_total", "method.ideal").await;
    let began = Instant::now();
    let swapping = async {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut kind, mut number) = (Kind::Forward, 0);
        let mut warm = None;
        // Both kinds are met long before the time is over, but for a machine that does not get there.
        while began.elapsed() < length || !listed.both() || !decided.both() {
            ticks.tick().await;
            kind = kind.other();
            number += 1;
            if number % FRESH == 0 {
                let fresh = world.fresh(kind);
                world.put(&fresh);
                world.active(&fresh).await;
            } else {
                world.put(&kept[kind as usize]);
                world.active(&kept[kind as usize]).await;
            }
            if warm.is_none() && began.elapsed() > length / 3 {
                warm = Some(resident(&world.server));
            }
        }
        over.store(true, Ordering::Relaxed);
        (number, warm.unwrap_or_else(|| resident(&world.server)))
    };
    let listings = futures_util::future::join_all((0..CALLERS).map(|_| listing()));
    let payments = futures_util::future::join_all((0..CALLERS).map(|_| paying()));
    let (_, payments, (dropped, warm)) = tokio::join!(listings, payments, swapping);
    let took = began.elapsed();
    let payments: u64 = payments.iter().sum();
    let swaps = counted(&world.server, "kassette_plugin_swaps_total", "method.ideal").await;
    let end = resident(&world.server);
    println!(
        "{} swaps in {took:?}; {} requests, {payments} payments; listed \
         {:?}, decided {:?}; resident {warm} KiB after a third, {end} KiB at the end",
        swaps - before,
        caller.answered.load(Ordering::Relaxed),
        listed.0.lock(),
        decided.0.lock(),
    );
    assert_eq!(swaps - before, u64::from(dropped));
    assert_no_faults(&world.server).await;
    assert_eq!(
        counted(&world.server, "kassette_plugin_refusals_total", "").await,
        0
    );
    let remembered = "kassette_plugin_remembered_total";
    assert!(
        counted(&world.server, remembered, "method.ideal").await > 0,
        "answers of both versions were remembered meanwhile"
    );
    let most = warm + GROWTH_KIB + payments * PAYMENT_KIB;
    assert!(end < most, "{end} KiB resident, from {warm}");
}
