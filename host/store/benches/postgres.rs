//! Throughput of the store on PostgreSQL, next to a baseline on the same machine: the same number of writers
//! insert and commit one row of 300 bytes at a time.
//!
//! `cargo bench -p kassette-store --bench postgres -- [seconds] [writers] [minutes]`
//!
//! With minutes, it also measures deliveries, alternately in two databases that grow alike: in one of them an
//! open transaction keeps PostgreSQL from removing dead rows.
//!
//! It starts its own PostgreSQL in a temporary folder, which syncs commits. Each result is a rate per second,
//! its ratio to the baseline, and the 50th and 99th percentile of one operation in milliseconds.
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

/// Runs `work` with concurrent writers for a time.
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
        settings: vec![
            "max_connections=200".into(),
            "shared_buffers=256MB".into(),
            // A checkpoint, with the page images that follow it, is in each minute that is measured.
            "checkpoint_timeout=60s".into(),
        ],
    };
    let server = PrivateServer::start(&options).unwrap();
    let options = database(&server, "kassette").await;
    let url = options.url.clone();

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
        deliver_beside_a_transaction(&server, minutes).await;
    }
    store.shut_down().await.unwrap();
}

/// Makes a database with its tables.
async fn database(server: &PrivateServer, name: &str) -> OpenOptions {
    server.make_database(name).await.unwrap();
    let options = OpenOptions {
        url: server.url(name),
        master: MasterKey::from_bytes([7; 32]),
        volatile: false,
        node: "example".into(),
        alone: true,
        server_clock: false,
    };
    migrate(&options).await.unwrap();
    options
}

/// Endpoints that every event goes to.
const ENDPOINTS: usize = 8;
/// Deliveries per claim, as in a worker of the gateway.
const CLAIMED: usize = 32;
const LEASE: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

async fn deliver_beside_a_transaction(server: &PrivateServer, minutes: u64) {
    let (free, _) = endpoints(server, "free").await;
    let (held, url) = endpoints(server, "held").await;
    let (holder, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM kassette.payment";
    holder.batch_execute(hold).await.unwrap();
    // Omits the first minute, because plans are worse until tables are analyzed.
    for minute in 0..=minutes {
        let (without, with) = (deliveries(&free).await, deliveries(&held).await);
        if minute > 0 {
            println!(
                "deliveries, minute {minute:2}        {without:9.0}/s, beside a held transaction {with:6.0}/s, {:.2} of that",
                with / without
            );
        }
    }
    holder.batch_execute("COMMIT").await.unwrap();
    for (store, _) in [free, held] {
        store.shut_down().await.unwrap();
    }
}

type Endpoints = (Arc<dyn Store>, Vec<EndpointId>);

/// A store with endpoints in a separate database, and the database's URL.
async fn endpoints(server: &PrivateServer, name: &str) -> (Endpoints, String) {
    let options = database(server, name).await;
    let store: Arc<dyn Store> = PostgresStore::open(&options).await.unwrap();
    shop(&store).await;
    let mut endpoints = Vec::new();
    for number in 0..ENDPOINTS {
        let endpoint = endpoint(&format!("held {number}"), NOW);
        endpoints.push(listen(&store, endpoint).await.id);
    }
    ((store, endpoints), options.url)
}

/// Makes events, claims their deliveries and records that they arrived, for a minute: deliveries a second.
async fn deliveries((store, endpoints): &Endpoints) -> f64 {
    let arrived = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let workers: Vec<_> = endpoints
        .iter()
        .map(|&endpoint| {
            let (store, arrived) = (Arc::clone(store), Arc::clone(&arrived));
            tokio::spawn(async move {
                while began.elapsed() < MINUTE {
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

/// A clock that advances as for a gateway: the next due time is that of the latest delivery.
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
