//! Slow and failing receivers do not delay deliveries to others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use serde_json::json;

use crate::crowd::{Client, Kind, Member, Place, delays, quantile};
use crate::harness::Server;
use crate::receiver::Receiver;

/// Default number of events to the healthy receiver per measurement, and the interval between two.
const EVENTS: usize = 150;
const PAUSE: Duration = Duration::from_millis(50);
/// Default number of receivers that accept a connection and never respond, and minimum number of events for them
/// in total.
const SILENT: usize = 10;
const WAITING: usize = 1000;
/// Number of receivers created in parallel. With several nodes, each change waits until all of them know it.
const AT_ONCE: usize = 32;
/// Number of receivers with other faults, and the interval between two events for them.
const HOSTILE: usize = 30;
const OTHERS_PAUSE: Duration = Duration::from_millis(25);
/// Limit of the 90th percentile, in milliseconds. A slow machine or a stalled disk does not reach it, but an event
/// that waits for a silent receiver does: each of its attempts lasts 10 s.
const BEHIND_MS: f64 = 2_500.0;
/// Limit of the 99th percentile: about one such attempt.
const FAR_BEHIND_MS: f64 = 9_000.0;

/// Delays of a healthy receiver, in milliseconds.
struct Delays {
    median: f64,
    p90: f64,
    p99: f64,
}

fn events() -> usize {
    let said = std::env::var("KASSETTE_WEBHOOK_PROBES").ok();
    said.map_or(EVENTS, |said| said.parse().expect("a number"))
}

/// Number of silent receivers, from `KASSETTE_WEBHOOK_SILENT`.
fn silent_receivers() -> usize {
    let said = std::env::var("KASSETTE_WEBHOOK_SILENT").ok();
    said.map_or(SILENT, |said| said.parse().expect("a number"))
}

/// Creates events for a new healthy receiver at intervals and measures their delays.
async fn measure(server: &Server, what: &str, trap: &Receiver) -> Delays {
    let healthy = Member::new(server, Kind::Healthy, trap).await;
    let (client, place) = (Client::new(), Place::new(server));
    let began = Instant::now();
    for nth in 0..events() {
        let began = Instant::now();
        let reference = format!("probe-{nth:04}");
        let event = client.event(&place, &healthy.key, &reference).await;
        assert!(event.is_some(), "{reference}");
        tokio::time::sleep(PAUSE.saturating_sub(began.elapsed())).await;
    }
    let rate = events() as f64 / began.elapsed().as_secs_f64();
    healthy.receiver.wait(events()).await;
    let mut delays = delays(&healthy.receiver);
    assert_eq!(delays.len(), events());
    let [median, p90, p99] = [0.5, 0.9, 0.99].map(|share| quantile(&mut delays, share));
    println!(
        "{what}: median {median:.1} ms, p99 {p99:.1} ms over {} events at {rate:.1}/s",
        events()
    );
    Delays { median, p90, p99 }
}

/// Measures while other receivers get events all the time.
async fn measure_beside(server: &Server, what: &str, trap: &Receiver, others: &[Member]) -> Delays {
    let over = AtomicBool::new(false);
    let pester = async {
        for member in others.iter().cycle() {
            if over.load(Ordering::SeqCst) {
                return;
            }
            server.hook_act(&member.hook, "test", json!({})).await;
            tokio::time::sleep(OTHERS_PAUSE).await;
        }
    };
    let measured = async {
        let measured = measure(server, what, trap).await;
        over.store(true, Ordering::SeqCst);
        measured
    };
    let (beside, ()) = tokio::join!(measured, pester);
    let got: usize = others.iter().map(|each| each.receiver.got().len()).sum();
    assert!(got >= others.len(), "{got} attempts at the others");
    beside
}

/// Prints the ratio to a measurement without faulty receivers, and checks the limits.
fn judge(beside: &Delays, without: &Delays) {
    println!(
        "  ratio: median {:.2}, p99 {:.2} (goal: at most 2 on a machine of its own)",
        beside.median / without.median,
        beside.p99 / without.p99,
    );
    assert!(beside.p90 < BEHIND_MS, "{} ms behind others", beside.p90);
    assert!(
        beside.p99 < FAR_BEHIND_MS,
        "{} ms behind others",
        beside.p99
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_and_hostile_receivers_slow_nobody_else() {
    let server = Server::fresh().await;
    let trap = Receiver::new().await;
    let alone = measure(&server, "alone", &trap).await;
    let mut harmless = Vec::new();
    for _ in 0..HOSTILE {
        harmless.push(Member::new(&server, Kind::Healthy, &trap).await);
    }
    let what = format!("beside {HOSTILE} healthy receivers under way");
    let without = measure_beside(&server, &what, &trap, &harmless).await;

    let (count, waiting) = (silent_receivers(), WAITING.max(silent_receivers()));
    let silent: Vec<Member> = stream::iter(0..count)
        .map(|_| Member::new(&server, Kind::Hangs, &trap))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (client, place) = (Client::new(), Place::new(&server));
    for nth in 0..waiting {
        let member = &silent[nth % count];
        let reference = format!("order-{nth:04}");
        let made = client.event(&place, &member.key, &reference).await;
        assert!(made.is_some());
    }
    for member in &silent {
        // Attempts at silent receivers hang, as many as the gateway makes in parallel.
        member.receiver.wait(1).await;
    }
    let pending = async || -> usize {
        let mut all = 0;
        for member in &silent {
            let waiting = server.deliveries(&member.hook).await;
            let pending = waiting.iter().filter(|each| each["status"] == "pending");
            all += pending.count();
        }
        all
    };
    assert_eq!(pending().await, waiting);
    let what = format!("beside {count} silent receivers, for which {waiting} events wait");
    judge(&measure(&server, &what, &trap).await, &alone);
    assert_eq!(pending().await, waiting, "all the while");

    let mut hostile = Vec::new();
    for nth in 0..HOSTILE {
        let kind = Kind::BAD[nth % Kind::BAD.len()];
        hostile.push(Member::new(&server, kind, &trap).await);
    }
    let what = format!("beside these and {HOSTILE} hostile receivers under way");
    let beside = measure_beside(&server, &what, &trap, &hostile).await;
    judge(&beside, &without);
}
