//! How fast the store on PostgreSQL is, beside the floor of the same machine: one row of 300 bytes inserted and
//! committed at a time by as many writers.
//!
//! `cargo bench -p kassette-store --bench postgres -- [seconds] [writers]`
//!
//! It starts a PostgreSQL of its own in a temporary folder, which syncs what it commits. Each figure is a rate a
//! second, its part of the floor, and the 50th and 99th percentile of one operation in milliseconds.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement, run by hand"
)]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kassette_store::postgres::private::{PrivateOptions, PrivateServer};
use kassette_store::postgres::{OpenOptions, migrate};
use kassette_store::suite::fixtures::{
    NOW, endpoint, listen, new_payment, nonce_of, open, payment_of, shop,
};
use kassette_store::{MasterKey, PostgresStore, Stepped, Store};
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
            let id = kassette_domain::id::PaymentId::from_bytes(
                kassette_store::suite::fixtures::id_of("7"),
            );
            store.payment(id).await.unwrap();
        }
    })
    .await;
    store.shut_down().await.unwrap();
}
