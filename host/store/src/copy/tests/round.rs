//! Both copies contain everything, in the database and back in a folder.

use std::collections::BTreeMap;

use kassette_domain::event::EventType;
use kassette_domain::id::{MerchantId, ResellerId, Slot};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::method::MethodId;

use super::*;
use crate::rows::records;
use crate::sled::maintenance::Stopped;
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::verifier::kinds::Derived;
use crate::suite::fixtures::*;
use crate::suite::full::NAMES;
use crate::suite::resellers::opens;
use crate::{Created, DeliveryFilter, EventsAsked, Fault, Listed, Reserved};

/// Kinds whose rows differ after a round trip: payments are sealed again without their leases, timers refer to
/// one payment each, nonces and endpoints are grouped differently.
const OTHERWISE: [&str; 7] = [
    "canary",
    "due",
    "endpoint-roster",
    "last-group",
    "nonces",
    "payment",
    "probe",
];

/// The items of a list of one page, sorted, because each store orders items of the same moment differently.
fn items<T: std::fmt::Debug>(listed: Result<Listed<T>, Fault>) -> String {
    let page = page(listed.unwrap());
    assert_eq!(page.next, None, "all of it is on one page");
    let mut items: Vec<_> = page.items.iter().map(|item| format!("{item:?}")).collect();
    items.sort_unstable();
    items.join("\n")
}

/// All data that can be read from a store.
async fn told(store: &Arc<dyn Store>) -> String {
    let mut all = Vec::new();
    for name in NAMES.into_iter().chain(["resold"]) {
        all.push(everything(store, name).await);
        let opened = store.by_checkout(TokenHash::hash(&token(name))).await;
        all.push(format!("{opened:?}"));
    }
    all.push(items(store.merchants(first(100)).await));
    all.push(items(store.operators(first(100)).await));
    all.push(format!("{:?}", store.account_switches().await));
    all.push(items(store.resellers(first(100)).await));
    all.push(format!("{:?}", store.backlog().await));
    for (number, world) in [
        (1, Environment::Test),
        (1, Environment::Live),
        (2, Environment::Test),
    ] {
        let merchant = MerchantId(number);
        let asked = EventsAsked {
            merchant,
            environment: world,
            kind: None::<EventType>,
            since: None,
            until: None,
            payments: None,
        };
        all.push(items(store.events(asked, first(100)).await));
        let resellers = [1, 2].map(|number| KeyOwner::Reseller(ResellerId(number)));
        for owner in [KeyOwner::Merchant(merchant)].into_iter().chain(resellers) {
            let endpoints = store.endpoints(owner, Some(world), first(100)).await;
            let mut endpoints = page(endpoints.unwrap()).items;
            endpoints.sort_unstable_by_key(|endpoint| endpoint.id);
            for endpoint in endpoints {
                let secrets = store.endpoint_secrets(endpoint.id).await.unwrap().unwrap();
                let shown = postcard::to_allocvec(&secrets.1).unwrap();
                all.push(format!("{secrets:?} {shown:?}"));
            }
            let filter = DeliveryFilter {
                of: Some((owner, Some(world))),
                ..DeliveryFilter::default()
            };
            all.push(items(store.deliveries(filter, first(100)).await));
        }
        all.push(items(store.connect_codes(merchant, first(100)).await));
        let keys = store.keys(KeyOwner::Merchant(merchant), first(100)).await;
        all.push(items(keys));
        let one = ResellerId(1);
        all.push(format!("{:?}", store.delegation(one, merchant).await));
        let made = store.reseller_payments(one, merchant, world, first(100));
        all.push(items(made.await));
    }
    for name in ["open", "accepted"] {
        all.push(format!("{:?}", store.invitation(opens(name), NOW).await));
    }
    let delegated = store.delegated_merchants(ResellerId(1), first(100), NOW);
    all.push(items(delegated.await));
    for method in [MethodId::Ideal, MethodId::Paypal] {
        let log = store.routing_log(method, None).await.unwrap();
        assert_eq!(log.records.len(), 2);
        all.push(format!("{log:?}"));
    }
    let sandbox = Slot::parse("provider.sandbox").unwrap();
    let log = store.conversations(&sandbox, None).await.unwrap();
    assert_eq!(log.records.len(), 2);
    all.push(format!("{log:?}"));
    for slot in ["method.ideal", "provider.sandbox"] {
        let sums = store.count_trial(trial(slot, NOW), vec![]).await.unwrap();
        assert_eq!(sums.len(), 2);
        all.push(format!("{sums:?}"));
    }
    assert_eq!(store.verify_audit().await.unwrap().breaks(), []);
    all.join("\n")
}

/// The rows of a stopped store by kind.
fn rows(options: &sled::OpenOptions) -> BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>> {
    let stopped = Stopped::open_marked(options).unwrap();
    let mut rows: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for row in stopped.db.iter() {
        let (key, row) = row.unwrap();
        let (kind, _) = KINDS.split(&key).unwrap();
        // An index row without a value has two encodings.
        let is_nothing = kind.derived == Derived::Key
            && records::decode::<()>(&stopped.secrets.sealer, &key, &row).is_ok();
        let row = if is_nothing { Vec::new() } else { row.to_vec() };
        rows.entry(kind.name).or_default().insert(key.to_vec(), row);
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_the_same_in_a_database_and_back_in_a_folder() {
    let Some(places) = Places::filled().await else {
        return;
    };
    let before = rows(&options(&places.folder));
    let copied = places.to_postgres().await.unwrap();
    let store: Arc<dyn Store> = PostgresStore::open(&places.scratch.options())
        .await
        .unwrap();
    let in_database = told(&store).await;
    for name in NAMES {
        let replay = store.replay(request(name)).await.unwrap();
        assert!(matches!(replay, Some(Created::Replay(_))), "{replay:?}");
    }
    let taken = store.reserve_nonce(nonce_of("a", NOW), later(1)).await;
    assert_eq!(taken, Ok(Reserved::Used));
    assert_eq!(
        store.next_due().await,
        Ok(Some(places.due)),
        "leases are dropped"
    );
    store.shut_down().await.unwrap();

    let back = places.to_sled().await.unwrap();
    assert_eq!(back.payments, copied.payments);
    assert_eq!(back.audit_lines, copied.audit_lines + 1);
    let report = sled::maintenance::verify(&options(&places.back), &()).unwrap();
    assert_eq!(report.findings, []);
    let mut after = rows(&options(&places.back));
    for (kind, rows) in before.iter().filter(|(kind, _)| !OTHERWISE.contains(kind)) {
        let mut found = after.remove(kind).unwrap_or_default();
        let mut rows = rows.clone();
        if kind.starts_with("audit") {
            found.retain(|key, _| rows.contains_key(key));
            if *kind == "audit-end" {
                (found, rows) = Default::default();
            }
        }
        assert_eq!(found, rows, "{kind}");
    }
    after.retain(|kind, _| !OTHERWISE.contains(kind));
    assert_eq!(after, BTreeMap::new(), "nothing else is there");

    let store: Arc<dyn Store> = SledStore::open(&options(&places.back)).unwrap();
    let line = "AuditEntry {";
    let without_copies = |told: &str| {
        let lines = told
            .split(line)
            .filter(|told| !told.contains("\"store.copy\""));
        lines.collect::<Vec<_>>().join(line)
    };
    assert_eq!(
        without_copies(&told(&store).await),
        without_copies(&in_database)
    );
    let taken = store.reserve_nonce(nonce_of("a", NOW), later(1)).await;
    assert_eq!(taken, Ok(Reserved::Used));
    let last = page(store.audit_log(first(2)).await.unwrap()).items;
    for (line, from, to) in [
        (&last[1], "sled", "postgres"),
        (&last[0], "postgres", "sled"),
    ] {
        assert_eq!(line.audited.action, "store.copy");
        assert_eq!(line.audited.actor, "ann");
        let stores = [from, to].map(|store| Some(format!("{{\"store\":\"{store}\"}}")));
        assert_eq!(
            [&line.audited.before, &line.audited.after],
            stores.each_ref()
        );
    }
    // New records continue the numbers.
    let made = store.create_merchant(merchant(true), audited("merchant.create"), NOW);
    assert_eq!(made.await.unwrap().id, MerchantId(3));
    pay(&store, "next").await;
    store.shut_down().await.unwrap();
}
