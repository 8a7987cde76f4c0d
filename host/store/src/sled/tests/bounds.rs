//! Limits on the rows that one operation of the writing thread touches, in a store that is large in every
//! dimension.

use std::collections::BTreeSet;
use std::time::Duration;

use kassette_domain::connect::{CodeUse, ConnectCode};
use kassette_domain::delegation::DelegationDecision;
use kassette_domain::id::{
    DeliveryId, EndpointId, KeyId, MerchantId, OperatorId, PaymentId, ResellerId,
};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::lifecycle::Step;
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::time::Time;
use kassette_domain::webhook::{DeliveryAttempt, Endpoint, HELD_BACK_MOST, MAX_RESPONSE, Tried};
use kassette_engine::Touched;

use super::*;
use crate::suite::fixtures::*;
use crate::suite::{refunds, resellers};
use crate::{
    ClaimedDeliveries, DeliveryFilter, MadeDue, Payments as _, ROUTING_PAGE, RefundOrdered,
    Retention, RoutingBatch, TRIED_MOST,
};

/// Maximum that the last part of an operation may touch beyond [`Touched::BY_OPERATION`]: 256 payments that
/// were created together, or a payment with all its attempts and decisions. A step with events for every
/// endpoint of a merchant stays below this.
const LAST_PART: Touched = Touched {
    rows: 300,
    bytes: 128 << 10,
};
/// Maximum that the last part of a slice of a read may touch beyond [`Touched::BY_READ`]: rows of a list that
/// are fetched together, or a delivery with its responses.
const LAST_READ: Touched = Touched {
    rows: 48,
    bytes: 40 << 10,
};
/// A large number of records of each kind.
const MANY: u64 = 600;
const DAY: u64 = 24 * 3600;

type Shared = Arc<dyn Store>;

/// Runs a function for many numbers concurrently.
async fn each<F: Future<Output = ()> + Send + 'static>(
    store: &Shared,
    count: u64,
    act: impl Fn(Shared, u64) -> F,
) {
    let acts: Vec<_> = (0..count)
        .map(|number| tokio::spawn(act(Arc::clone(store), number)))
        .collect();
    for act in acts {
        act.await.unwrap();
    }
}

/// Many payments that were created together, half of them paid.
async fn payments(store: &Shared) {
    each(store, MANY, |store, number| async move {
        create(&store, &number.to_string(), NOW).await;
    })
    .await;
    each(store, MANY / 2, |store, number| async move {
        let name = number.to_string();
        for step in [
            open(&name, "sandbox-test"),
            started(&name, &format!("vendor-{name}")),
            news(
                &name,
                report(&format!("vendor-{name}"), ProviderStatus::Completed),
            ),
        ] {
            done(&store, payment_of(&name), step, later(1)).await;
        }
    })
    .await;
}

/// Records an attempt of each delivery, with a response of maximum length.
async fn tried(store: &Shared, deliveries: &[(DeliveryId, usize)], delivered: bool) {
    let tried = |(id, after): &(DeliveryId, usize)| {
        let attempt = DeliveryAttempt {
            at: NOW,
            status: Some(500),
            duration_ms: 9,
            error: Some("e".repeat(200)),
            response: Some("r".repeat(MAX_RESPONSE)),
        };
        let tried = Tried {
            attempt,
            after: *after,
            delivered,
            retry_at: later(9),
        };
        (*id, tried)
    };
    for some in deliveries.chunks(TRIED_MOST) {
        let some = some.iter().map(tried).collect();
        store.tried_all(some, NOW).await.unwrap();
    }
}

/// Claims some deliveries.
async fn claimed(store: &Shared, from: EndpointId, many: usize) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    while ids.len() < many {
        let claim = store.claim(from, later(5), Duration::from_secs(DAY), TRIED_MOST);
        match claim.await.unwrap() {
            ClaimedDeliveries::Due { deliveries, .. } if !deliveries.is_empty() => {
                ids.extend(deliveries.into_iter().map(|delivery| delivery.id));
            }
            other => panic!("{other:?}"),
        }
    }
    ids
}

/// Deliveries of one endpoint in various states: untouched, delivered, and failed.
async fn deliveries(store: &Shared, one: &Endpoint) {
    let ids = claimed(store, one.id, 256).await;
    for attempt in 0..8 {
        let some: Vec<_> = ids.iter().map(|id| (*id, attempt)).collect();
        tried(store, &some, false).await;
    }
    let last = claimed(store, one.id, 1).await[0];
    let tried = Tried {
        attempt: store.delivery(ids[0]).await.unwrap().unwrap().attempts[0].clone(),
        after: 0,
        delivered: true,
        retry_at: NOW,
    };
    store.tried(last, tried, None, NOW).await.unwrap();
    let line = || audited("endpoint");
    store.redeliver(last, line(), NOW).await.unwrap();
    store.queue_test(one.id, line(), NOW).await.unwrap();
    store
        .recover(one.id, NOW, None, Some(line()), later(2))
        .await
        .unwrap();
    let asked = crate::EventsAsked {
        merchant: MerchantId(1),
        environment: Environment::Test,
        kind: None,
        since: None,
        until: None,
        payments: None,
    };
    let events = store
        .events(asked, first(crate::MISSED_MOST))
        .await
        .unwrap();
    let missed = store.queue_missed(one.id, page(events).items, later(2));
    missed.await.unwrap();
    let hastened = store.hasten(one.id, None, Some(line()), NOW).await.unwrap();
    assert!(
        matches!(
            hastened,
            MadeDue::Page {
                hastened: 21..,
                next: Some(_)
            }
        ),
        "{hastened:?}"
    );
    let pruned = store
        .prune_deliveries(later(DAY), None, usize::MAX)
        .await
        .unwrap();
    assert!(
        pruned.deliveries > 20 && pruned.next.is_some(),
        "{pruned:?}"
    );
    let off = Endpoint {
        enabled: false,
        ..one.clone()
    };
    store
        .replace_endpoint(one.clone(), off, line(), NOW)
        .await
        .unwrap();
    let held = later(DAY).after(HELD_BACK_MOST);
    let swept = store.sweep(one.id, held).await.unwrap();
    assert!(
        swept.exhausted > 20 && swept.next == Some(held),
        "{swept:?}"
    );
    let secret = kassette_domain::secret::Secret::new("whsec_b");
    store
        .rotate_endpoint(one.id, secret, Duration::ZERO, line(), NOW)
        .await
        .unwrap();
    let deleted = store
        .delete_endpoint(one.id, line(), NOW)
        .await
        .unwrap()
        .unwrap();
    assert!(deleted.cancelled > 20, "{}", deleted.cancelled);
}

/// Data with a limited lifetime, all of it expired.
async fn short_lived(store: &Shared) {
    let end = later(3 * DAY);
    each(store, MANY, |store, number| async move {
        let reservation = nonce_of(&number.to_string(), NOW);
        store.reserve_nonce(reservation, NOW).await.unwrap();
    })
    .await;
    for number in 0..MANY {
        let reference = format!("unknown-{number}");
        store
            .keep_callback(account("sandbox-test"), reference, None, NOW)
            .await
            .unwrap();
        let site = "https://shop.example";
        let code = connect_code(&number.to_string(), site, Environment::Test);
        store
            .issue_connect_code(code, audited("code"), NOW)
            .await
            .unwrap();
    }
    // Each removes expired data.
    store
        .keep_callback(account("sandbox-test"), "late".into(), None, end)
        .await
        .unwrap();
    let code = ConnectCode {
        expires_at: end.after(ConnectCode::LIFE),
        ..connect_code("new", "https://shop.example", Environment::Test)
    };
    let hash = code.hash;
    store
        .issue_connect_code(code.clone(), audited("code"), end)
        .await
        .unwrap();
    store
        .use_connect_code(hash, CodeUse::Fetch, end)
        .await
        .unwrap();
    store
        .exchange(exchange_of(&code, "connected"), audited("connect"), end)
        .await
        .unwrap();
    store
        .reserve_nonce(nonce_of("late", end), end)
        .await
        .unwrap();
}

/// Keys, operators and resellers.
async fn directory(store: &Shared) {
    let line = || audited("directory");
    let owner = KeyOwner::Merchant(MerchantId(1));
    let mut seen = Vec::new();
    for number in 0..MANY {
        let key = api_key(&format!("key-{number}"), owner, Environment::Test);
        seen.push((key.hash, later(1)));
        store.issue_key(key, line(), NOW).await.unwrap();
    }
    store.keys_seen(seen).await.unwrap();
    let key = |name: &str| KeyId::from_bytes(id_of(name));
    let new = api_key("rotated", owner, Environment::Test);
    store
        .rotate_key(key("key-0"), new, NOW, line(), NOW)
        .await
        .unwrap();
    store.revoke_key(key("rotated"), line(), NOW).await.unwrap();
    let operators = (0..).map(|number: u64| operator(&format!("op-{number}"), NOW));
    for operator in operators {
        if store.create_operator(operator, line(), NOW).await.is_err() {
            break;
        }
    }
    let first = OperatorId::from_bytes(id_of("op-0"));
    store
        .remove_operator(first, line(), NOW)
        .await
        .unwrap()
        .unwrap();
    store
        .switch_account(account("sandbox-test"), true, line(), NOW)
        .await
        .unwrap();
    let merchant = store.merchant(MerchantId(1)).await.unwrap().unwrap();
    store
        .replace_merchant(merchant.clone(), merchant, line(), NOW)
        .await
        .unwrap();
    store.audit(line(), NOW).await.unwrap();

    resellers::reseller(store).await;
    store
        .set_live_rollout(ResellerId(1), true, line(), NOW)
        .await
        .unwrap();
    let set = store.set_delegation(
        ResellerId(1),
        MerchantId(1),
        DelegationDecision::AUTHORIZE,
        line(),
        NOW,
    );
    set.await.unwrap();
    for number in 0..100 {
        resellers::issue(store, &format!("{number:04}"), 1, NOW).await;
    }
    resellers::issue(store, "late", 1, later(2 * DAY)).await;
    resellers::invite(store, "a", "ref", NOW).await;
    let accepted = store.accept_invitation(resellers::opens("a"), resellers::code("0000"), NOW);
    accepted.await.unwrap();
}

/// A movement without a payment, and a clock that jumped.
async fn ledger(store: &Shared) {
    let (_, payout) = crate::suite::movements::unknown("payout", 1);
    store
        .book(payout, Some(audited("correction")), NOW)
        .await
        .unwrap();
    store.advance_closed_until(NOW, true).await.unwrap();
    let jumped = store
        .advance_closed_until(later(DAY * 2), false)
        .await
        .unwrap();
    assert!(jumped.jump.is_some(), "{jumped:?}");
    let line = audited("clock.confirm");
    assert!(store.confirm_clock(line, NOW).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stdout,
    reason = "the time of each, which no test can hold"
)]
async fn every_operation_touches_a_bounded_number_of_rows_and_bytes() {
    let folder = Folder::new();
    let opened = SledStore::open(&options(folder.0.path())).unwrap();
    opened.watch();
    let store: Shared = opened.clone();
    shop(&store).await;
    let one = listen(&store, endpoint("one", NOW)).await;
    payments(&store).await;
    store.next_due().await.unwrap();
    deliveries(&store, &one).await;
    short_lived(&store).await;
    directory(&store).await;
    store.probe().await.unwrap();
    let (work, movement) = crate::suite::movements::unknown("unknown", 1);
    let key = work.key.clone();
    store
        .unknown_money(work.clone(), movement.clone(), NOW)
        .await
        .unwrap();
    store.close_work(key, NOW).await.unwrap();
    store.unknown_money(work, movement, NOW).await.unwrap();
    ledger(&store).await;
    let line = page(store.work(true, first(1)).await.unwrap())
        .items
        .remove(0);
    store
        .work_done(line.id, audited("work.done"), NOW)
        .await
        .unwrap();
    // The maximum number of a merchant's endpoints.
    for number in 0..Endpoint::MAX_PER_OWNER as u64 - 1 {
        listen(&store, endpoint(&format!("more-{number}"), NOW)).await;
    }
    refunds::paid(&store, "told").await;
    let payment = PaymentId::from_bytes(id_of("told"));
    let refund = refunds::order("told", "told", None);
    let ordered = store.refund(payment, refund, None, None, later(2)).await;
    assert!(matches!(ordered, Ok(RefundOrdered::New { .. })));
    // The maximum number of notices about a reference.
    create(&store, "parked", NOW).await;
    done(
        &store,
        payment_of("parked"),
        open("parked", "sandbox-test"),
        NOW,
    )
    .await;
    for received in 0..40 {
        let mut report = report("vendor-parked", ProviderStatus::Processing);
        report.received = Minor(received);
        let kept = store.keep_callback(
            account("sandbox-test"),
            "vendor-parked".into(),
            Some(report),
            NOW,
        );
        kept.await.unwrap();
    }
    done(
        &store,
        payment_of("parked"),
        started("parked", "vendor-parked"),
        NOW,
    )
    .await;
    let release = Step::Release { claimed_until: NOW };
    done(&store, payment_of("parked"), release, NOW).await;

    // The number of decisions in a second of the busiest gateway.
    let decisions = (0..6000).map(|number| routing_record(MethodId::Ideal, number));
    let batches = RoutingBatch::group(&decisions.collect::<Vec<_>>()).unwrap();
    store.append_routing(batches, NOW).await.unwrap();
    for method in [MethodId::Ideal, MethodId::Paypal, MethodId::Klarna] {
        for number in 0..MANY {
            let one = RoutingBatch::group(&[routing_record(method, number)]).unwrap();
            store.append_routing(one, NOW).await.unwrap();
        }
    }
    let log = store.routing_log(MethodId::Ideal, None).await.unwrap();
    assert!(log.next.is_some() && log.records.len() > ROUTING_PAGE / 2);

    // All possible shares.
    let counted: Vec<_> = (1..=100).map(|percent| (percent, counts(MANY))).collect();
    for number in 0..MANY {
        let trial = trial(&format!("method.m{number}"), NOW);
        store.count_trial(trial, counted.clone()).await.unwrap();
    }

    let a_day_later = later(DAY + 1);
    let mut due = 0;
    loop {
        let claimed = store
            .claim_due(a_day_later, Duration::from_secs(DAY), 256)
            .await
            .unwrap();
        due += claimed.len() as u64;
        if claimed.is_empty() {
            break;
        }
    }
    assert!(due >= MANY / 2, "{due} of those that were not paid");
    let newest = DeliveryFilter::default();
    page(store.deliveries(newest, first(100)).await.unwrap());
    page(
        store
            .payments(Default::default(), first(100))
            .await
            .unwrap(),
    );
    assert!(store.verify_audit().await.unwrap().breaks().is_empty());
    let keeps = Some(Duration::from_secs(1));
    let retention = Retention {
        decisions: keeps,
        personal_data: keeps,
        routing_log: keeps,
        ..Retention::default()
    };
    let mut at = later(4 * DAY);
    for _ in 0..2 {
        while store
            .forget(retention, at)
            .await
            .unwrap()
            .next
            .is_some_and(|next| next <= at)
        {}
        at = at.after(Duration::from_secs(2 * DAY));
    }
    let mut backup = store.backup(at).await.unwrap().unwrap();
    while backup.recv().await.is_some() {}

    let most = opened.most();
    let seen: BTreeSet<_> = most.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(seen, operations(), "each operation has its turn here");
    for (name, most) in most {
        let (base, more) = (Touched::BY_OPERATION, LAST_PART);
        println!(
            "{name:18} {:6} rows {:8} bytes {:8.2} ms",
            most.rows,
            most.bytes,
            most.time.as_secs_f64() * 1e3
        );
        assert!(most.rows <= base.rows + more.rows, "{name}: {most:?}");
        assert!(most.bytes <= base.bytes + more.bytes, "{name}: {most:?}");
    }
    let long = [
        "backup::",
        "verify_audit",
        "next_due",
        "claim::",
        "RowsOf",
        "PaymentsOf",
        "routing_log",
    ];
    reads_in_slices(&opened, &long);
}

/// Checks that reads of a store let groups be shown in time, and that the named reads ran.
pub(super) fn reads_in_slices(store: &SledStore, names: &[&str]) {
    let most = store.most_read();
    for name in names {
        let is_it = |read: &&&str| read.contains(name);
        assert!(most.keys().any(|read| is_it(&read)), "{name}: {most:?}");
    }
    for (name, most) in most {
        let rows = Touched::BY_READ.rows + LAST_READ.rows;
        let bytes = Touched::BY_READ.bytes + LAST_READ.bytes;
        assert!(most.rows <= rows && most.bytes <= bytes, "{name}: {most:?}");
    }
}

/// The operations in the sources, and the engine's own.
fn operations() -> BTreeSet<String> {
    let mut found = BTreeSet::from(["Probe".to_owned()]);
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sled")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix("impl Operation<Memory> for "));
            found.extend(lines.map(|line| line.trim_end_matches([' ', '{']).to_owned()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_shown_between_the_slices_of_a_read() {
    use std::ops::ControlFlow;

    use crate::rows::schema;
    let folder = Folder::new();
    let store = SledStore::open(&options(folder.0.path())).unwrap();
    let key = schema::payment(PaymentId::from_bytes(id_of("a")));
    let (begun, begins) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let mut slices = 0_u64;
    let read = store.read_aside(move |view| {
        begun.take().map(|begun| begun.send(()));
        slices += 1;
        Ok(match view.get(&key)? {
            Some(_) => ControlFlow::Break(true),
            None if slices > 100_000_000 => ControlFlow::Break(false),
            None => ControlFlow::Continue(()),
        })
    });
    let write = async {
        begins.await.unwrap();
        store.create(new_payment("a"), None, NOW).await.unwrap();
    };
    let (seen, ()) = tokio::join!(read, write);
    assert_eq!(seen, Ok(true));
}

/// A due payment is claimed regardless of the number of obsolete rows before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_behind_many_that_are_over_is_claimed_by_one_call() {
    let folder = Folder::new();
    let opened = SledStore::open(&options(folder.0.path())).unwrap();
    opened.watch();
    let store: Shared = opened.clone();
    payments(&store).await;
    each(&store, MANY / 2, |store, number| async move {
        let name = (number + MANY / 2).to_string();
        let cancel = Step::Act(kassette_domain::lifecycle::Act::Cancel);
        done(&store, payment_of(&name), cancel, later(2)).await;
    })
    .await;
    let mut new = new_payment("last");
    new.expires_at = later(DAY + 7);
    store.create(new, None, later(3)).await.unwrap();
    let now: Time = later(DAY + 8);
    let claimed = store.claim_due(now, Duration::ZERO, 256).await.unwrap();
    let last = PaymentId::from_bytes(id_of("last"));
    assert_eq!(claimed, [last]);
    let took = opened.most()["ClaimDue"];
    assert!(
        took.rows < MANY as usize / 4,
        "the writing thread looked at payments that are over: {took:?}"
    );
}
