//! Latency of creates during background work on stored data: pruning of delivered webhooks, claims after a day
//! of paid payments, an operator's list that matches nothing.
//!
//! `cargo bench -p kassette-store --bench beside -- [payments] [folder]`
//!
//! Each payment is paid and has delivered webhooks: 400,000 payments have a million. The default is a thousand.
//! Each kind of work runs between two periods without work, and the benchmark prints p99 and the maximum with
//! their ratios to the median of those periods. Finally, it prints the longest time that each operation took on
//! the writing thread.
//! the writing thread at the most.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement, run by hand"
)]

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kassette_domain::id::{EndpointId, PaymentId};
use kassette_domain::provider::ProviderStatus;
use kassette_domain::time::Time;
use kassette_domain::webhook::{DeliveryAttempt, Tried};
use kassette_store::sled::{MasterKey, OpenOptions, SledStore};
use kassette_store::suite::fixtures::{
    NOW, account, endpoint, first, later, listen, new_payment, news, open, page, report, shop,
    started,
};
use kassette_store::{
    About, ClaimedDeliveries, Deliveries as _, Paging, PaymentFilter, Payments as _, Store,
    StoreHealth as _, TRIED_MOST,
};

/// Payments where no number is given.
const PAYMENTS: u64 = 20_000;
/// Creations at once while the store is filled.
const FILLERS: u64 = 256;
/// Number of concurrent writers, as on a busy server.
const WRITERS: usize = 16;
/// Duration of a measurement without work, and maximum duration with work.
const LENGTH: Duration = Duration::from_secs(5);
/// As the gateway prunes and claims.
const PRUNED_AT_ONCE: usize = 32;
const PRUNE_GAP: Duration = Duration::from_millis(20);
const CLAIM_GAP: Duration = Duration::from_millis(50);

static MADE: AtomicU64 = AtomicU64::new(0);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // Cargo adds the flag.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let payments = arguments
        .next()
        .map_or(PAYMENTS, |text| text.parse().unwrap());
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("kassette-beside-{}", std::process::id()));
    let store = SledStore::open(&OpenOptions {
        path: folder.clone(),
        master: MasterKey::from_bytes([7; 32]),
        cache_bytes: 8 << 20,
    })
    .unwrap();
    store.watch();
    let began = Instant::now();
    let listener = fill(&store, payments).await;
    let delivered = deliver(&store, listener).await;
    let took = began.elapsed().as_secs();
    println!("{payments} payments paid, {delivered} deliveries arrived, {took} s");

    let mut alone = vec![creates(&store, None::<std::future::Ready<u64>>).await];
    let list = creates(&store, Some(list(Arc::clone(&store)))).await;
    alone.push(creates(&store, None::<std::future::Ready<u64>>).await);
    let prune = creates(&store, Some(prune(Arc::clone(&store)))).await;
    alone.push(creates(&store, None::<std::future::Ready<u64>>).await);
    let claim = creates(&store, Some(claim(Arc::clone(&store)))).await;
    alone.push(creates(&store, None::<std::future::Ready<u64>>).await);
    alone.sort_by(|one, other| one.p99.total_cmp(&other.p99));
    let base = &alone[alone.len() / 2];
    println!("creates              p99 ms  ratio   longest ms  ratio     a second");
    for (name, told) in [
        ("alone", base),
        ("a list", &list),
        ("pruning", &prune),
        ("claiming", &claim),
    ] {
        println!(
            "{name:18} {:8.2} {:6.2} {:12.2} {:6.2} {:12.0}   {} of the work in {:.1} s",
            told.p99,
            told.p99 / base.p99,
            told.longest,
            told.longest / base.longest,
            told.rate,
            told.done,
            told.seconds,
        );
    }
    for (name, most) in store.most() {
        println!(
            "{name:18} {:6} rows {:8} bytes {:8.2} ms",
            most.rows,
            most.bytes,
            most.time.as_secs_f64() * 1e3
        );
    }
    store.shut_down().await.unwrap();
    drop(store);
    std::fs::remove_dir_all(folder).unwrap();
}

async fn fill(store: &Arc<SledStore>, payments: u64) -> EndpointId {
    let shared: Arc<dyn Store> = store.clone();
    shop(&shared).await;
    let listener = listen(&shared, endpoint("a", NOW)).await.id;
    let fillers = (0..FILLERS).map(|filler| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for each in (filler..payments).step_by(FILLERS as usize) {
                pay(&store, each).await;
            }
        })
    });
    for filler in fillers.collect::<Vec<_>>() {
        filler.await.unwrap();
    }
    listener
}

async fn pay(store: &SledStore, number: u64) {
    let at = NOW.after(Duration::from_millis(number));
    let about = create(store, &number.to_string(), at, later(24 * 3600)).await;
    let (name, reference) = (number.to_string(), format!("vendor-{number}"));
    for step in [
        open(&name, "sandbox-test"),
        started(&name, &reference),
        news(&name, report(&reference, ProviderStatus::Completed)),
    ] {
        store.step(about.clone(), step, None, at).await.unwrap();
    }
}

async fn create(store: &SledStore, name: &str, at: Time, expires_at: Time) -> About {
    let mut new = new_payment(name);
    let mut random = [0; 10];
    random.copy_from_slice(&new.id.as_bytes()[..10]);
    new.id = PaymentId::made_at(at, random);
    new.expires_at = expires_at;
    let about = About::Payment(new.id);
    store.create(new, None, at).await.unwrap();
    about
}

/// Records that everything arrived.
async fn deliver(store: &SledStore, listener: EndpointId) -> usize {
    let mut delivered = 0;
    let at = later(3600);
    loop {
        let lease = Duration::from_secs(60);
        let claimed = store.claim(listener, at, lease, TRIED_MOST).await.unwrap();
        let ClaimedDeliveries::Due { deliveries, .. } = claimed else {
            panic!("{claimed:?}");
        };
        if deliveries.is_empty() {
            return delivered;
        }
        delivered += deliveries.len();
        let tried = |delivery: &kassette_store::DueDelivery| {
            let attempt = DeliveryAttempt {
                at,
                status: Some(200),
                duration_ms: 9,
                error: None,
                response: Some("ok".into()),
            };
            let tried = Tried {
                attempt,
                after: delivery.attempts,
                delivered: true,
                retry_at: at,
            };
            (delivery.id, tried)
        };
        let tried = deliveries.iter().map(tried).collect();
        store.tried_all(tried, at).await.unwrap();
    }
}

struct Measured {
    p99: f64,
    longest: f64,
    rate: f64,
    done: u64,
    seconds: f64,
}

/// Creates payments for [`LENGTH`], or until the concurrent work ends if that is earlier.
async fn creates(store: &Arc<SledStore>, beside: Option<impl Future<Output = u64>>) -> Measured {
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, stop) = (Arc::clone(store), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let name = format!("made-{}", MADE.fetch_add(1, Ordering::Relaxed));
                    let asked = Instant::now();
                    create(&store, &name, later(3600), later(9_000_000)).await;
                    waits.push(asked.elapsed());
                }
                waits
            })
        })
        .collect();
    let done = match beside {
        Some(work) => work.await,
        None => {
            tokio::time::sleep(LENGTH).await;
            0
        }
    };
    stop.store(true, Ordering::Relaxed);
    let seconds = began.elapsed().as_secs_f64();
    let mut waits = Vec::new();
    for writer in writers {
        waits.extend(writer.await.unwrap());
    }
    waits.sort_unstable();
    let ms = |wait: &Duration| wait.as_secs_f64() * 1e3;
    Measured {
        p99: ms(&waits[waits.len() * 99 / 100]),
        longest: ms(waits.last().unwrap()),
        rate: waits.len() as f64 / seconds,
        done,
        seconds,
    }
}

/// Pages of a list whose filter matches no payment.
async fn list(store: Arc<SledStore>) -> u64 {
    let (began, mut pages, mut cursor) = (Instant::now(), 0, None);
    while began.elapsed() < LENGTH {
        let filter = PaymentFilter {
            account: Some(account("another-test")),
            ..PaymentFilter::default()
        };
        let paging = Paging {
            cursor,
            ..first(50)
        };
        cursor = page(store.payments(filter, paging).await.unwrap()).next;
        pages += 1;
    }
    pages
}

async fn prune(store: Arc<SledStore>) -> u64 {
    let (began, mut pruned, mut after) = (Instant::now(), 0, None);
    while began.elapsed() < LENGTH {
        let page = store.prune_deliveries(later(7200), after, PRUNED_AT_ONCE);
        let page = page.await.unwrap();
        pruned += page.deliveries;
        match page.next {
            None => break,
            next => after = next,
        }
        tokio::time::sleep(PRUNE_GAP).await;
    }
    pruned
}

/// Claims all payments that were due within a day of their creation.
async fn claim(store: Arc<SledStore>) -> u64 {
    let (at, mut calls) = (later(26 * 3600), 0);
    loop {
        let lease = Duration::from_secs(9_000_000);
        let claimed = store.claim_due(at, lease, 256).await.unwrap();
        calls += 1;
        let next = store.next_due().await.unwrap();
        if claimed.is_empty() && next.is_none_or(|next| at < next) {
            return calls;
        }
        tokio::time::sleep(CLAIM_GAP).await;
    }
}
