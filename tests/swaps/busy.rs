//! Modules on a busy machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::harness::Server;
use crate::traffic::{Caller, assert_no_faults};

/// Number of busy loops, twice the cores of a small machine.
const LOOPS: usize = 4;
/// Number of callers of each kind.
const CALLERS: usize = 2;

/// Threads that spin until this is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..LOOPS {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::black_box(0);
                }
            });
        }
        Self(over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_innocent_call_is_ended_while_the_machine_is_busy() {
    let _alone = crate::ALONE.lock().await;
    let length = crate::length("KASSETTE_BUSY_SECONDS", 5);
    let server = Server::configured("[store]\ncache_mib = 8\n").await;
    let unlimited = json!({ "per_second": crate::NO_LIMIT, "burst": crate::NO_LIMIT });
    let (_, key, _) = server.merchant(json!({ "rate_limit": unlimited })).await;
    let caller = Caller::new(&server, &key);
    let offered = caller.listing().await;
    assert!(offered.len() > 5, "{offered:?}");

    let busy = Busy::start();
    let began = Instant::now();
    let listing = async || {
        while began.elapsed() < length {
            assert_eq!(caller.listing().await, offered, "no method is ever late");
        }
    };
    // Starts, callbacks, queries and captures, which call every function of a provider module.
    let paying = async || {
        let mut paid = Vec::new();
        while began.elapsed() < length {
            let (payment, url) = caller.started("ideal").await;
            server.pay(&url, "approve").await.expect(303);
            paid.push(payment);
        }
        paid
    };
    let listings = futures_util::future::join_all((0..CALLERS).map(|_| listing()));
    let payments = futures_util::future::join_all((0..CALLERS).map(|_| paying()));
    let (_, payments) = tokio::join!(listings, payments);
    drop(busy);
    let payments = payments.concat();
    for payment in &payments {
        server.until(&key, payment, "completed").await;
    }
    println!(
        "{} calls in {:?} beside {LOOPS} busy loops, {} payments",
        caller.answered.load(Ordering::Relaxed),
        began.elapsed(),
        payments.len()
    );
    assert!(!payments.is_empty());
    assert_no_faults(&server).await;
    let log = server.log();
    let complaint = log.lines().find(|line| line.contains("was late"));
    assert_eq!(complaint, None);
    let slots = server.admin("GET", "/plugins?limit=100", None).await;
    let slots = slots.expect(200).json();
    for slot in slots["plugins"].as_array().unwrap() {
        assert_eq!(slot["state"], json!("serving"), "{slot}");
    }
}
