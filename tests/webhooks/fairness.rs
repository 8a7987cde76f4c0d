//! No endpoint waits for another's receiver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use serde_json::json;

use crate::crowd::{Client, Kind, Member, Place, delays, quantile};
use crate::harness::Server;
use crate::receiver::Receiver;

/// Events to the healthy receiver per measurement, where nothing else is said, and the pause between
/// two.
const EVENTS: usize = 150;
const PAUSE: Duration = Duration::from_millis(50);
/// Receivers that accept and never answer, where nothing else is said, and what waits for all of them at least.
const SILENT: usize = 10;
const WAITING: usize = 1000;
/// Receivers made at once: where there are several nodes each change waits for all of them to know it.
const AT_ONCE: usize = 32;
/// Receivers that do everything else that is wrong, and the pause between two events for them.
const HOSTILE: usize = 30;
const OTHERS_PAUSE: Duration = Duration::from_millis(25);
/// What no slow machine explains of nine events in ten, nor a disk that stalls: a silent receiver costs
/// an attempt its whole 10 s, so an event that has to wait for one waits much longer than this.
const BEHIND_MS: f64 = 2_500.0;
/// And of nearly all: such an attempt.
const FAR_BEHIND_MS: f64 = 9_000.0;

/// Delays of a healthy receiver, milliseconds.
struct Delays {
    median: f64,
    p90: f64,
    p99: f64,
}

fn events() -> usize {
    let said = std::env::var("KASSETTE_WEBHOOK_PROBES").ok();
    said.map_or(EVENTS, |said| said.parse().expect("a number"))
}

/// How many receivers are silent: `KASSETTE_WEBHOOK_SILENT`.
fn silent_receivers() -> usize {
    let said = std::env::var("KASSETTE_WEBHOOK_SILENT").ok();
    said.map_or(SILENT, |said| said.parse().expect("a number"))
}

/// Makes an event now and then for a healthy receiver that is new to the gateway.
async fn measure(server: &Server, what: &str, trap: &Receiver) -> Delays {
    let healthy = Member::new(server, Kind::Healthy, trap).await;
    let (client, place) = (Client::new(), Place::of(server));
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

/// Measures while others get events all the time.
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

/// Compares with what was measured without those who do wrong.
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
    let (client, place) = (Client::new(), Place::of(&server));
    for nth in 0..waiting {
        let member = &silent[nth % count];
        let reference = format!("order-{nth:04}");
        let made = client.event(&place, &member.key, &reference).await;
        assert!(made.is_some());
    }
    for member in &silent {
        // They hang in as many attempts as are made at once.
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
