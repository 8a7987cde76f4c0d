//! The suite under adverse conditions: SERIALIZABLE, collisions of any statement and commit, connections cut
//! before a request. Also checks lost answers.
//!
//! It takes minutes, and a busy machine answers `Busy`, so it runs only with `KASSETTE_LONG` set.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::event::EventType;
use kassette_domain::money::Minor;
use kassette_domain::pending_callback::PendingCallback;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::webhook::DeliveryStatus;
use tokio::sync::OnceCell;
use url::Url;

use super::proxy::{Faults, Proxy, Route};
use crate::postgres::PostgresStore;
use crate::postgres::scratch::Scratch;
use crate::suite::Harness;
use crate::suite::deliveries::arrived;
use crate::suite::fixtures::*;
use crate::{
    ClaimedDeliveries, Created, DeliveryFilter, Fault, KeptCallback, Payments as _, Retention,
    Stepped, Store, Upkeep as _,
};

/// A database whose transactions are serializable, behind a proxy.
struct Hostile {
    scratch: Scratch,
    proxy: Proxy,
}

impl Hostile {
    async fn new() -> Self {
        let scratch = Scratch::new().await.unwrap();
        let seed = u64::from(std::process::id());
        eprintln!("seed {seed}");
        let proxy = Proxy::start(seed).unwrap();
        proxy.lead(Route {
            server: folder(&scratch.options().url),
            but: None,
        });
        Self { scratch, proxy }
    }

    /// A store behind the proxy, opened before faults are injected.
    async fn open(&self, faults: Faults) -> Arc<PostgresStore> {
        self.proxy.set(Faults::default());
        let mut options = self.scratch.options();
        let database = Url::parse(&options.url).unwrap().path().to_owned();
        let folder = self.proxy.folder().to_str().unwrap();
        let folder: String = url::form_urlencoded::byte_serialize(folder.as_bytes()).collect();
        options.url = format!("postgres://kassette@{folder}{database}?isolation=serializable");
        let store = PostgresStore::open(&options).await.unwrap();
        self.proxy.set(faults);
        store
    }
}

/// Folder of the socket in a URL.
fn folder(url: &str) -> PathBuf {
    let url = Url::parse(url).unwrap();
    let host = url.host_str().unwrap();
    let decoded = url::form_urlencoded::parse(host.as_bytes())
        .next()
        .unwrap()
        .0;
    PathBuf::from(decoded.into_owned())
}

/// Setup of the suite.
#[derive(Default)]
struct Place(OnceCell<Hostile>);

fn is_wanted() -> bool {
    std::env::var_os("KASSETTE_LONG").is_some() && Scratch::available().unwrap()
}

impl Harness for Place {
    fn is_available(&self) -> bool {
        is_wanted()
    }

    fn open(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async {
            let hostile = self.0.get_or_init(Hostile::new).await;
            let faults = Faults {
                collisions: 20,
                cuts_before: 5,
                cuts_after: 0,
                ..Faults::default()
            };
            let store: Arc<dyn Store> = hostile.open(faults).await;
            store
        })
    }
}

mod suite {
    use super::Place;

    crate::store_suite!(Place::default());
}

/// Repeats a request until it succeeds, as a client does after `Busy`.
async fn until_answered<T, F>(mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, Fault>>,
{
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(Fault::Busy | Fault::Stopping | Fault::Unavailable(_)) => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(fault) => panic!("{fault:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_again_after_a_lost_answer_is_done_once() {
    const PAYMENTS: usize = 60;
    if !is_wanted() {
        eprintln!("NOT RUN: KASSETTE_LONG is not set, or no PostgreSQL is installed");
        return;
    }
    let hostile = Hostile::new().await;
    let faults = Faults {
        collisions: 20,
        cuts_before: 20,
        cuts_after: 60,
        ..Faults::default()
    };
    let store = hostile.open(Faults::default()).await;
    let shared: Arc<dyn Store> = Arc::clone(&store) as _;
    shop(&shared).await;
    let endpoint = listen(&shared, endpoint("a", NOW)).await;
    hostile.proxy.set(faults);
    let mut paying = Vec::new();
    for each in 0..PAYMENTS {
        let store = Arc::clone(&shared);
        paying.push(tokio::spawn(async move {
            let name = each.to_string();
            let made = until_answered(|| store.create(new_payment(&name), None, NOW)).await;
            assert!(
                matches!(made, Created::New(_) | Created::Replay(_)),
                "{made:?}"
            );
            let attempt = format!("attempt of {name}");
            let steps = [
                open(&attempt, "sandbox-test"),
                started(&attempt, &format!("vendor-{name}")),
                news(
                    &attempt,
                    report(&format!("vendor-{name}"), ProviderStatus::Completed),
                ),
            ];
            for step in steps {
                // A step that was already done is refused, or changes nothing.
                let step = || store.step(payment_of(&name), step.clone(), None, NOW);
                let stepped = until_answered(step).await;
                assert!(!matches!(stepped, Stepped::Unknown), "{name}");
            }
        }));
    }
    for each in paying {
        each.await.unwrap();
    }
    // Deliveries whose claim's answer was lost are due again when the lease ends.
    let (mut tried, mut now) = (BTreeMap::<_, usize>::new(), NOW);
    loop {
        let claim = || shared.claim(endpoint.id, now, Duration::from_secs(60), 9);
        let ClaimedDeliveries::Due { deliveries, next } = until_answered(claim).await else {
            panic!("the endpoint is held");
        };
        if deliveries.is_empty() && next.is_none() {
            if shared_pending(&shared).await == 0 {
                break;
            }
            now = now.after(Duration::from_secs(61));
        }
        for due in &deliveries {
            *tried.entry(due.id).or_default() += 1;
        }
        let tried: Vec<_> = deliveries
            .iter()
            .map(|due| (due.id, arrived(due.attempts)))
            .collect();
        until_answered(|| shared.tried_all(tried.clone(), now)).await;
    }
    assert!(hostile.proxy.met() > 50, "{} faults", hostile.proxy.met());
    hostile.proxy.set(Faults::default());
    let mut log = Vec::new();
    let mut paging = first(100);
    loop {
        let listed = shared.deliveries(DeliveryFilter::default(), paging.clone());
        let listed = page(listed.await.unwrap());
        log.extend(listed.items);
        paging.cursor = listed.next;
        if paging.cursor.is_none() {
            break;
        }
    }
    let told = |kind| log.iter().filter(|each| each.kind == kind).count();
    let (begun, ended) = (
        told(EventType::PaymentPending),
        told(EventType::PaymentCompleted),
    );
    assert_eq!(
        (begun, ended, log.len()),
        (PAYMENTS, PAYMENTS, 2 * PAYMENTS)
    );
    assert!(
        log.iter()
            .all(|each| each.status == DeliveryStatus::Delivered && each.attempts.len() == 1)
    );
    assert_eq!(tried.len(), log.len());
    for each in 0..PAYMENTS {
        let aggregate = shared
            .aggregate(payment_of(&each.to_string()))
            .await
            .unwrap()
            .unwrap();
        assert!(aggregate.payment.is_paid(), "{each}");
        assert_eq!(aggregate.attempts.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_done_again_is_done_once_though_answers_are_lost() {
    if !is_wanted() {
        eprintln!("NOT RUN: KASSETTE_LONG is not set, or no PostgreSQL is installed");
        return;
    }
    let hostile = Hostile::new().await;
    let faults = Faults {
        cuts_before: 20,
        cuts_after: 100,
        ..Faults::default()
    };
    let store = hostile.open(faults).await;
    let most = u64::try_from(PendingCallback::MAX_PER_REFERENCE).unwrap();
    for number in 0..most {
        let mut notice = report("vendor-a", ProviderStatus::Processing);
        notice.received = Minor(number);
        let of = (account("sandbox-test"), "vendor-a".to_owned());
        let kept = store.keep_callback(of.0, of.1, Some(notice), NOW).await;
        assert_eq!(kept, Ok(KeptCallback::Kept), "{number}");
        let (found, movement) = crate::suite::movements::unknown("unknown", number);
        assert_eq!(store.unknown_money(found, movement, NOW).await, Ok(()));
        assert!(store.forget(Retention::default(), NOW).await.is_ok());
    }
    assert!(hostile.proxy.met() > 5, "{} faults", hostile.proxy.met());
    hostile.proxy.set(Faults::default());
    let one_more = store.keep_callback(account("sandbox-test"), "vendor-a".into(), None, NOW);
    assert_eq!(one_more.await, Ok(KeptCallback::Full), "none is kept twice");
    let lines = page(store.work(true, first(9)).await.unwrap()).items;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].amount, Minor(most - 1));
}

async fn shared_pending(store: &Arc<dyn Store>) -> u64 {
    until_answered(|| store.backlog()).await.pending
}
