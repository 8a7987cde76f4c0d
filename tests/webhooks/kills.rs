//! No event is lost when 30 % of the receivers are hostile and the gateway is killed several times.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::crowd::{Client, Kind, Member, Place};
use crate::harness::Server;
use crate::receiver::Receiver;

/// Short retries and no circuit breaker, so that a run ends soon.
const CONFIG: &str = "\
[webhooks]
retry_seconds = [1, 1, 1, 1, 1, 1, 1]
timeout_ms = 800
circuit_hold_seconds = 0
";
/// Number of receivers, and how many of them are hostile.
const MEMBERS: usize = 100;
const HOSTILE: usize = 30;
/// Number of kills while events are created. Another one follows while they are delivered.
const KILLS: usize = 4;
/// Number of clients that create events in parallel.
const CLIENTS: usize = 8;
/// Default number of events.
const EVENTS: usize = 2_000;
/// Maximum time to wait for the last delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(420);

fn events() -> usize {
    let said = std::env::var("KASSETTE_WEBHOOK_EVENTS").ok();
    said.map_or(EVENTS, |said| said.parse().expect("a number"))
}

/// The running server, and its addresses. Both are `None` while it is restarted.
struct Current {
    place: RwLock<Option<Place>>,
    server: Mutex<Option<Server>>,
}

impl Current {
    /// Kills the gateway and starts it again on the same folder.
    async fn kill(&self) {
        *self.place.write() = None;
        let server = self.server.lock().take().unwrap();
        let folder = server.kill();
        let server = Server::in_folder(folder).await;
        *self.place.write() = Some(Place::new(&server));
        *self.server.lock() = Some(server);
    }

    async fn place(&self) -> Place {
        loop {
            if let Some(place) = self.place.read().clone() {
                return place;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Receiver of the `nth` event: all in turn, but receivers that cause time-outs only every tenth round, because
/// their attempts run one after the other. A healthy receiver replaces them.
fn receiver_of(nth: usize, members: &[Member]) -> usize {
    let (round, which) = (nth / members.len(), nth % members.len());
    if members[which].kind.waits() && round % 10 != 0 {
        let healthy = |which: &usize| members[*which].kind == Kind::Healthy;
        return (which..members.len()).find(healthy).unwrap_or(which);
    }
    which
}

/// Creates events one by one until there are enough.
async fn make_events(
    current: &Current,
    members: &[Member],
    next: &AtomicUsize,
    made: &Mutex<HashMap<usize, HashSet<String>>>,
) {
    let client = Client::new();
    loop {
        let nth = next.fetch_add(1, Ordering::SeqCst);
        if nth >= events() {
            return;
        }
        let which = receiver_of(nth, members);
        let reference = format!("order-{nth:06}");
        let began = Instant::now();
        loop {
            let place = current.place().await;
            let event = client.event(&place, &members[which].key, &reference);
            if let Some(payment) = event.await {
                made.lock().entry(which).or_default().insert(payment);
                break;
            }
            assert!(
                began.elapsed() < DELIVERY_TIMEOUT,
                "{reference} cannot be made"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Waits until no delivery is pending. Returns the duration.
async fn wait_until_settled(current: &Current, members: &[Member]) -> Duration {
    let began = Instant::now();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for member in members {
        loop {
            let place = current.place().await;
            let id = &member.hook.id;
            let url = format!(
                "{}/deliveries?status=pending&limit=1&endpoint_id={id}",
                place.admin
            );
            let page: Value = http
                .get(url)
                .bearer_auth(&place.token)
                .send()
                .await
                .unwrap()
                .json()
                .await
                .unwrap();
            if page["deliveries"].as_array().unwrap().is_empty() {
                break;
            }
            assert!(
                began.elapsed() < DELIVERY_TIMEOUT,
                "{:?}: {page}",
                member.kind
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_or_is_given_up_at_eight_attempts_whatever_is_killed() {
    let server = Server::configured(CONFIG).await;
    let trap = Receiver::new().await;
    let mut members = Vec::new();
    for nth in 0..MEMBERS {
        let kind = if nth % 10 < HOSTILE / 10 {
            let bad = nth / 10 * (HOSTILE / 10) + nth % 10;
            Kind::BAD[bad % Kind::BAD.len()]
        } else {
            Kind::Healthy
        };
        members.push(Member::new(&server, kind, &trap).await);
    }
    let hostile = members.iter().filter(|each| each.kind != Kind::Healthy);
    assert_eq!(hostile.count(), HOSTILE);
    let current = Arc::new(Current {
        place: RwLock::new(Some(Place::new(&server))),
        server: Mutex::new(Some(server)),
    });
    let members = Arc::new(members);
    let next = Arc::new(AtomicUsize::new(0));
    let made = Arc::new(Mutex::new(HashMap::new()));
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (current, members) = (Arc::clone(&current), Arc::clone(&members));
            let (next, made) = (Arc::clone(&next), Arc::clone(&made));
            tokio::spawn(async move { make_events(&current, &members, &next, &made).await })
        })
        .collect();
    // The kills are spread evenly over the creation of events.
    for kill in 1..=KILLS {
        let due = events() * kill / (KILLS + 1);
        while next.load(Ordering::SeqCst) < due {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        current.kill().await;
    }
    join_all(clients)
        .await
        .into_iter()
        .for_each(|done| done.unwrap());
    let making = began.elapsed();
    // Another kill while only deliveries are running.
    current.kill().await;
    let settling = wait_until_settled(&current, &members).await;

    let server = current.server.lock().take().unwrap();
    let made = std::mem::take(&mut *made.lock());
    let mut ended = BTreeMap::<(Kind, String), usize>::new();
    let mut arrivals = 0;
    for (which, member) in members.iter().enumerate() {
        let payments = &made[&which];
        let deliveries = server.deliveries(&member.hook).await;
        // Each payment has one event, and each event one delivery.
        let told: HashSet<_> = deliveries
            .iter()
            .map(|each| each["payment_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(&told, payments, "{:?}", member.kind);
        assert_eq!(deliveries.len(), payments.len(), "{:?}", member.kind);
        let mut bodies = HashMap::<String, Vec<u8>>::new();
        for got in member.receiver.got() {
            assert!(got.is_signed_by(&member.hook.secret), "{}", got.head);
            assert_eq!(got.event()["id"], got.event_id());
            let before = bodies
                .entry(got.event_id().to_owned())
                .or_insert_with(|| got.body.clone());
            assert_eq!(*before, got.body, "one event, one body");
            arrivals += 1;
        }
        for delivery in &deliveries {
            let status = delivery["status"].as_str().unwrap().to_owned();
            let attempts = delivery["attempts"].as_array().unwrap().len();
            let arrived = bodies.contains_key(delivery["event_id"].as_str().unwrap());
            match status.as_str() {
                "delivered" => assert!(arrived && attempts <= 8, "{delivery}"),
                "exhausted" => assert!(attempts == 8, "{delivery}"),
                other => panic!("{other}: {delivery}"),
            }
            // Receivers that never succeed exhaust their attempts; all others succeed.
            let expected = if member.kind.succeeds() {
                "delivered"
            } else {
                "exhausted"
            };
            assert_eq!(status, expected, "{:?}: {delivery}", member.kind);
            *ended.entry((member.kind, status)).or_default() += 1;
        }
    }
    assert!(trap.got().is_empty(), "no redirect is followed");
    assert_eq!(ended.values().sum::<usize>(), events());
    println!(
        "{} events to {MEMBERS} receivers, {HOSTILE} of them hostile, {} kills: made in {:.1} s, settled {:.1} s later, {arrivals} requests",
        events(),
        KILLS + 1,
        making.as_secs_f64(),
        settling.as_secs_f64(),
    );
    for ((kind, status), number) in ended {
        println!("{number:>8}  {kind:?} {status}");
    }
}
