//! New payments, and concurrent writers.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{CheckoutMode, NewPayment, Origin, Request};
use kassette_domain::secret::Secret;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_store::sled::{MasterKey, OpenOptions, SledStore};
use kassette_store::{Created, Payments as _};

/// Bytes for the page cache, as in the server's default.
pub(crate) const CACHE_BYTES: u64 = 8 << 20;

/// A runtime with two worker threads, like the server.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn options(folder: &Path) -> OpenOptions {
    OpenOptions {
        path: folder.to_owned(),
        master: MasterKey::from_bytes([7; 32]),
        cache_bytes: CACHE_BYTES,
    }
}

pub(crate) fn open(folder: &Path) -> Arc<SledStore> {
    SledStore::open(&options(folder)).unwrap()
}

pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_millis(u64::try_from(since.as_millis()).unwrap())
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// Number that makes each request unique.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A payment like one of the gateway: for one of fifty merchants, with an e-mail address and a return URL.
pub(crate) fn payment(now: Time) -> NewPayment {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let token: [u8; 22] = random();
    let key = hex(&random::<16>());
    NewPayment {
        id: PaymentId::made_at(now, random()),
        request: Request {
            merchant: MerchantId(1 + number % 50),
            origin: Origin::Merchant {
                idempotency_key: IdempotencyKey::parse(&key).unwrap(),
            },
            environment: Environment::Test,
            order_id: OrderId::parse(&format!("order-{key:.8}-{number}")).unwrap(),
            due: Money {
                amount: Minor(100 + number % 100_000),
                currency: Currency::EUR,
            },
            mode: CheckoutMode::Hosted,
            method: None,
            email: Some(Email::parse(&format!("payer-{number}@example.org")).unwrap()),
            return_url: Some(ReturnUrl::parse("https://shop.example/orders/done", false).unwrap()),
            extras: kassette_domain::extras::Extras::default(),
        },
        usd: Minor(108 + number % 100_000),
        rate: kassette_domain::money::Rate::ONE,
        rate_table: None,
        // 43 characters, like the gateway's tokens.
        token: Secret::new(&hex(&token)[..43]),
        expires_at: now.after(Duration::from_secs(24 * 3600)),
        risk_review: false,
        fee_refundable: false,
        decision: None,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creates one payment.
pub(crate) async fn create(store: Arc<SledStore>) {
    let now = now();
    let created = store.create(payment(now), None, now).await.unwrap();
    assert!(matches!(created, Created::New(_)));
}

/// Result of a run.
pub(crate) struct Run {
    /// Operations per second.
    pub(crate) rate: f64,
    /// 99th percentile of the duration, in milliseconds.
    pub(crate) p99: f64,
}

/// Condition that ends a run.
#[derive(Clone, Copy)]
pub(crate) enum End {
    After(Duration),
    At(usize),
}

/// Runs an operation in this number of concurrent writers, each again and again without delay.
pub(crate) async fn run<F, O>(writers: usize, end: End, operation: F) -> Run
where
    F: Fn() -> O + Clone + Send + 'static,
    O: Future<Output = ()> + Send + 'static,
{
    let began = Instant::now();
    let done = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (operation, done) = (operation.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                loop {
                    let over = match end {
                        End::After(length) => began.elapsed() >= length,
                        End::At(count) => done.fetch_add(1, Ordering::Relaxed) >= count as u64,
                    };
                    if over {
                        return waits;
                    }
                    let asked = Instant::now();
                    operation().await;
                    waits.push(u32::try_from(asked.elapsed().as_micros()).unwrap());
                }
            })
        })
        .collect();
    let mut waits: Vec<u32> = Vec::new();
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    let took = began.elapsed().as_secs_f64();
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
    Run {
        rate: waits.len() as f64 / took,
        p99: f64::from(p99) / 1000.0,
    }
}
