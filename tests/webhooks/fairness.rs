//! Nobody waits for anybody else's receiver.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::crowd::{Client, Kind, Member, Place, delays, quantile};
use crate::harness::Server;
use crate::receiver::Receiver;

/// Events to the healthy receiver per measurement, and the pause between two.
const EVENTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);
/// Receivers that accept and never answer, and what waits for each.
const SILENT: usize = 10;
const WAITING: usize = 100;
/// A silent receiver costs an attempt its whole 10 s. A healthy one that waits for it would too.
const BEHIND: f64 = 5_000.0;

/// Makes an event now and then for a fresh healthy receiver: its delays, milliseconds.
async fn measure(server: &Server, what: &str, trap: &Receiver) -> [f64; 2] {
    let healthy = Member::new(server, Kind::Healthy, trap).await;
    let (client, place) = (Client::new(), Place::of(server));
    for nth in 0..EVENTS {
        let began = Instant::now();
        let reference = format!("probe-{nth:04}");
        let event = client.event(&place, &healthy.key, &reference).await;
        assert!(event.is_some(), "{reference}");
        tokio::time::sleep(PAUSE.saturating_sub(began.elapsed())).await;
    }
    healthy.receiver.wait(EVENTS).await;
    let mut delays = delays(&healthy.receiver);
    let [median, late] = [0.5, 0.99].map(|share| quantile(&mut delays, share));
    println!("{what}: median {median:.1} ms, p99 {late:.1} ms over {EVENTS} events at 20/s");
    [median, late]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_and_hostile_receivers_slow_nobody_else() {
    let server = Server::fresh().await;
    let trap = Receiver::new().await;
    let [_, alone] = measure(&server, "alone", &trap).await;

    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(Member::new(&server, Kind::Hangs, &trap).await);
    }
    let (client, place) = (Client::new(), Place::of(&server));
    for nth in 0..SILENT * WAITING {
        let member = &silent[nth % SILENT];
        let reference = format!("order-{nth:04}");
        let made = client.event(&place, &member.key, &reference).await;
        assert!(made.is_some());
    }
    for member in &silent {
        // They hang in as many attempts as are made at once.
        member.receiver.wait(1).await;
    }
    let waiting = server.deliveries(&silent[0].hook).await;
    let pending = waiting.iter().filter(|each| each["status"] == "pending");
    assert_eq!(pending.count(), WAITING);
    let what = format!(
        "with {} events waiting for {SILENT} silent receivers",
        SILENT * WAITING
    );
    let [_, beside] = measure(&server, &what, &trap).await;
    println!("p99 ratio: {:.2}", beside / alone);
    assert!(beside < BEHIND, "{beside} ms behind silent receivers");

    let mut hostile = Vec::new();
    for kind in Kind::BAD {
        for _ in 0..4 {
            let member = Member::new(&server, kind, &trap).await;
            for _ in 0..10 {
                server.hook_act(&member.hook, "test", json!({})).await;
            }
            hostile.push(member);
        }
    }
    let what = format!("with {} hostile receivers more", hostile.len());
    let [_, beside] = measure(&server, &what, &trap).await;
    println!("p99 ratio: {:.2}", beside / alone);
    assert!(beside < BEHIND, "{beside} ms behind hostile receivers");
}
