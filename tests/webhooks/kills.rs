//! Nothing is lost: receivers of which 30 % are hostile, a gateway that is killed several times.

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

/// Attempts follow one another fast and no endpoint is held back, so that a run ends.
const CONFIG: &str = "\
[webhooks]
retry_seconds = [1, 1, 1, 1, 1, 1, 1]
timeout_ms = 800
circuit_hold_seconds = 0
";
/// Receivers; 30 of a hundred are hostile.
const MEMBERS: usize = 100;
const HOSTILE: usize = 30;
/// How often the gateway is killed while events are made, and once more while they are delivered.
const KILLS: usize = 4;
/// Clients that make events at once.
const CLIENTS: usize = 8;
/// Events where nothing else is said.
const EVENTS: usize = 2_000;
/// Longest wait for the last delivery.
const PATIENCE: Duration = Duration::from_secs(420);

fn events() -> usize {
    let said = std::env::var("KASSETTE_WEBHOOK_EVENTS").ok();
    said.map_or(EVENTS, |said| said.parse().expect("a number"))
}

/// The server of the moment.
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
        *self.place.write() = Some(Place::of(&server));
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

/// Whose event the `nth` is: each member's in turn, but of receivers that let us wait only every tenth
/// time. Each of their attempts takes the whole time-out, one after the other.
fn receiver_of(nth: usize, members: &[Member]) -> usize {
    let (round, which) = (nth / members.len(), nth % members.len());
    if members[which].kind.waits() && round % 10 != 0 {
        let healthy = |which: &usize| members[*which].kind == Kind::Healthy;
        return (which..members.len()).find(healthy).unwrap_or(which);
    }
    which
}

/// One event after the other, each with the next member, until there are enough.
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
            assert!(began.elapsed() < PATIENCE, "{reference} cannot be made");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Waits until nothing is pending; how long it took.
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
            assert!(began.elapsed() < PATIENCE, "{:?}: {page}", member.kind);
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
        place: RwLock::new(Some(Place::of(&server))),
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
    // Killed each time another part of the events was made.
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
    // And once more while only deliveries are under way.
    current.kill().await;
    let settling = wait_until_settled(&current, &members).await;

    let server = current.server.lock().take().unwrap();
    let made = std::mem::take(&mut *made.lock());
    let mut ended = BTreeMap::<(Kind, String), usize>::new();
    let mut arrivals = 0;
    for (which, member) in members.iter().enumerate() {
        let payments = &made[&which];
        let deliveries = server.deliveries(&member.hook).await;
        // One event of each payment, and one delivery of each event.
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
            // No healthy receiver is ever given up; no hostile one ever succeeds.
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
