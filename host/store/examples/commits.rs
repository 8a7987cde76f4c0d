//! How many payments a second the embedded store makes durable, with 1 and with 32 writers.
//!
//! `cargo run --release -p kassette-store --features suite --example commits [seconds] [folder]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement, run by hand"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_store::sled::{MasterKey, OpenOptions, SledStore};
use kassette_store::suite::fixtures::{NOW, new_payment, open, payment_of};
use kassette_store::{Health as _, Payments as _};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(3, |text| text.parse().unwrap());
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("kassette-commits-{}", std::process::id()));
    for writers in [1, 32, 256] {
        let path = folder.join(writers.to_string());
        let store = SledStore::open(&OpenOptions {
            path: path.clone(),
            master: MasterKey::from_bytes([7; 32]),
            cache_bytes: 64 << 20,
        })
        .unwrap();
        for step in [false, true] {
            measure(&store, writers, Duration::from_secs(seconds), step).await;
        }
        store.shut_down().await.unwrap();
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Creates payments, or creates them and opens an attempt of each.
async fn measure(store: &Arc<SledStore>, writers: usize, length: Duration, step: bool) {
    let before = store.counters();
    let began = Instant::now();
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let store = Arc::clone(store);
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            for each in 0_u64.. {
                if began.elapsed() > length {
                    break;
                }
                let name = format!("{step}-{writer}-{each}");
                let asked = Instant::now();
                store.create(new_payment(&name), None, NOW).await.unwrap();
                waits.push(asked.elapsed());
                if step {
                    let asked = Instant::now();
                    let open = open(&name, "sandbox-test");
                    store
                        .step(payment_of(&name), open, None, NOW)
                        .await
                        .unwrap();
                    waits.push(asked.elapsed());
                }
            }
            waits
        }));
    }
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    let took = began.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    let after = store.counters();
    let commits = after.commits - before.commits;
    println!(
        "{writers:>4} writers, {}: {:>7.0} operations/s, {:>6.0} syncs/s, {:>5.1} a group, p50 {:.2} ms, p99 {:.2} ms",
        if step {
            "create and open an attempt"
        } else {
            "create                    "
        },
        waits.len() as f64 / took,
        commits as f64 / took,
        waits.len() as f64 / commits as f64,
        at(50),
        at(99),
    );
}
