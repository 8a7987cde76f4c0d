//! How fast the store on PostgreSQL is, beside the floor of the same machine: one row of 300 bytes inserted and
//! committed at a time by as many writers.
//!
//! `cargo bench -p kassette-store --bench postgres -- [seconds] [writers] [minutes]`
//!
//! With minutes it measures deliveries last: before a transaction is opened beside them, which keeps PostgreSQL from
//! removing dead rows, and each minute while it is held.
//!
//! It starts a PostgreSQL of its own in a temporary folder, which syncs what it commits. Each figure is a rate a
//! second, its part of the floor, and the 50th and 99th percentile of one operation in milliseconds.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement, run by hand"
)]

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use kassette_domain::id::{EndpointId, PaymentId};
use kassette_domain::time::Time;
use kassette_domain::webhook::{DeliveryAttempt, Tried};
use kassette_store::postgres::private::{PrivateOptions, PrivateServer};
use kassette_store::postgres::{OpenOptions, migrate};
use kassette_store::suite::fixtures::{
    NOW, endpoint, id_of, listen, new_payment, nonce_of, open, payment_of, shop,
};
use kassette_store::{ClaimedDeliveries, MasterKey, PostgresStore, Stepped, Store};
use tokio_postgres::NoTls;

static COUNT: AtomicU64 = AtomicU64::new(0);

fn next() -> String {
    COUNT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// Does something with so many writers for a time.
async fn rate<F, T>(what: &str, floor: f64, (length, writers): (Duration, usize), work: F) -> f64
where
    F: Fn(usize) -> T + Send + Sync + 'static,
    T: Future<Output = ()> + Send,
{
    let work = Arc::new(work);
    let began = Instant::now();
    let each: Vec<_> = (0..writers)
        .map(|writer| {
            let work = Arc::clone(&work);
            tokio::spawn(async move {
                let mut took = Vec::new();
                while began.elapsed() < length {
                    let begun = Instant::now();
                    work(writer).await;
                    took.push(begun.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for writer in each {
        took.extend(writer.await.unwrap());
    }
    took.sort_unstable();
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    let at = |part: usize| took[took.len() * part / 100].as_secs_f64() * 1000.0;
    let of_floor = if floor > 0.0 { rate / floor } else { 1.0 };
    println!(
        "{what:28} {rate:9.0}/s {of_floor:6.2} of the floor  p50 {:6.2} ms  p99 {:6.2} ms",
        at(50),
        at(99)
    );
    rate
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // Cargo adds the flag.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let seconds = arguments.next().map_or(5, |text| text.parse().unwrap());
    let writers = arguments.next().map_or(32, |text| text.parse().unwrap());
    let minutes = arguments.next().map_or(0, |text| text.parse().unwrap());
    let how = (Duration::from_secs(seconds), writers);
    let folder = tempfile::tempdir().unwrap();
    let options = PrivateOptions {
        folder: folder.path().join("postgres"),
        disposable: false,
        settings: vec!["max_connections=200".into(), "shared_buffers=256MB".into()],
    };
    let server = PrivateServer::start(&options).unwrap();
    server.make_database("kassette").await.unwrap();
    let url = server.url("kassette");
    let options = OpenOptions {
        url: url.clone(),
        master: MasterKey::from_bytes([7; 32]),
        volatile: false,
        node: "example".into(),
        alone: true,
    };
    migrate(&options).await.unwrap();

    let mut clients = Vec::new();
    for _ in 0..writers {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let table =
            "CREATE TABLE IF NOT EXISTS public.floor (id bigserial PRIMARY KEY, body bytea)";
        client.batch_execute(table).await.unwrap();
        let insert = client
            .prepare("INSERT INTO public.floor (body) VALUES ($1)")
            .await
            .unwrap();
        clients.push((client, insert));
    }
    let clients = Arc::new(clients);
    let floor = rate("floor: INSERT of 300 bytes", 0.0, how, move |writer| {
        let clients = Arc::clone(&clients);
        async move {
            let (client, insert) = &clients[writer];
            client.execute(insert, &[&vec![7_u8; 300]]).await.unwrap();
        }
    })
    .await;

    let store: Arc<dyn Store> = PostgresStore::open(&options).await.unwrap();
    shop(&store).await;
    let first = COUNT.load(Ordering::Relaxed);
    let creating = Arc::clone(&store);
    rate("creates", floor, how, move |_| {
        let store = Arc::clone(&creating);
        async move {
            store.create(new_payment(&next()), None, NOW).await.unwrap();
        }
    })
    .await;
    let made = COUNT.load(Ordering::Relaxed) - first;
    for listeners in [0, 1] {
        if listeners > 0 {
            listen(&store, endpoint("a", NOW)).await;
        }
        let stepping = Arc::clone(&store);
        let done = Arc::new(AtomicU64::new(first + listeners * made / 2));
        let what = ["steps (an attempt opened)", "steps, each with a delivery"];
        rate(
            what[usize::try_from(listeners).unwrap()],
            floor,
            how,
            move |_| {
                let (store, done) = (Arc::clone(&stepping), Arc::clone(&done));
                async move {
                    let name = done.fetch_add(1, Ordering::Relaxed).to_string();
                    let step = open(&format!("attempt of {name}"), "sandbox-test");
                    let stepped = store
                        .step(payment_of(&name), step, None, NOW)
                        .await
                        .unwrap();
                    assert!(!matches!(stepped, Stepped::Refused { .. }));
                }
            },
        )
        .await;
    }
    let taking = Arc::clone(&store);
    rate("nonces", floor, how, move |_| {
        let store = Arc::clone(&taking);
        async move {
            let mut nonce = nonce_of(&next(), NOW);
            nonce.at_most = usize::MAX;
            store.reserve_nonce(nonce, NOW).await.unwrap();
        }
    })
    .await;
    let reading = Arc::clone(&store);
    rate("reads of a payment", floor, how, move |_| {
        let store = Arc::clone(&reading);
        async move {
            let id = PaymentId::from_bytes(id_of("7"));
            store.payment(id).await.unwrap();
        }
    })
    .await;
    if minutes > 0 {
        deliver_beside_a_transaction(&store, &url, how, minutes).await;
    }
    store.shut_down().await.unwrap();
}

/// Endpoints that every event goes to.
const ENDPOINTS: usize = 8;
/// Of which a claim takes as much as a worker of the gateway does.
const CLAIMED: usize = 32;
const LEASE: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

async fn deliver_beside_a_transaction(
    store: &Arc<dyn Store>,
    url: &str,
    (length, _): (Duration, usize),
    minutes: u64,
) {
    let mut endpoints = Vec::new();
    for number in 0..ENDPOINTS {
        endpoints.push(
            listen(store, endpoint(&format!("held {number}"), NOW))
                .await
                .id,
        );
    }
    let endpoints = Arc::new(endpoints);
    let deliver = |length| {
        let (store, endpoints) = (Arc::clone(store), Arc::clone(&endpoints));
        deliveries(store, endpoints, length)
    };
    // Those that were queued before are not measured.
    deliver(length).await;
    // For as long as each figure beside the transaction: checkpoints and vacuum are in all of them.
    let alone = deliver(MINUTE).await;
    println!("deliveries                   {alone:9.0}/s");
    let (holder, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let held = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM public.floor";
    holder.batch_execute(held).await.unwrap();
    for minute in 1..=minutes {
        let rate = deliver(MINUTE).await;
        let part = rate / alone;
        println!("  transaction held {minute:2} min     {rate:9.0}/s {part:6.2} of that");
    }
    holder.batch_execute("COMMIT").await.unwrap();
}

/// Makes events, claims their deliveries and records that they arrived: deliveries a second.
async fn deliveries(
    store: Arc<dyn Store>,
    endpoints: Arc<Vec<EndpointId>>,
    length: Duration,
) -> f64 {
    let arrived = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let workers: Vec<_> = (0..endpoints.len())
        .map(|worker| {
            let (store, endpoint) = (Arc::clone(&store), endpoints[worker]);
            let arrived = Arc::clone(&arrived);
            tokio::spawn(async move {
                while began.elapsed() < length {
                    let (name, now) = (next(), now());
                    store.create(new_payment(&name), None, now).await.unwrap();
                    let step = open(&format!("attempt of {name}"), "sandbox-test");
                    store
                        .step(payment_of(&name), step, None, now)
                        .await
                        .unwrap();
                    let claimed = store.claim(endpoint, now, LEASE, CLAIMED).await.unwrap();
                    let ClaimedDeliveries::Due { deliveries, .. } = claimed else {
                        panic!("the endpoint is held");
                    };
                    let count = deliveries.len() as u64;
                    let tried = deliveries.into_iter().map(|due| (due.id, arrival()));
                    store.tried_all(tried.collect(), now).await.unwrap();
                    arrived.fetch_add(count, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    arrived.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Time passes, as it does for a gateway: what is due next is what was queued last.
fn now() -> Time {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    NOW.after(BEGAN.elapsed())
}

fn arrival() -> Tried {
    Tried {
        attempt: DeliveryAttempt {
            at: NOW,
            status: Some(200),
            duration_ms: 12,
            error: None,
            response: Some("ok".into()),
        },
        after: 0,
        delivered: true,
        retry_at: NOW,
    }
}
