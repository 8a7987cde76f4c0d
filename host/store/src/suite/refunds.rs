//! Refunds.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::delegation::DelegationDecision;
use kassette_domain::event::{EventSubject, EventType};
use kassette_domain::id::{MerchantId, PaymentId, RefundId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::lifecycle::{NewRefund, PaymentAggregate, RefundAnswer, Refusal, Step};
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::movement::Bucket;
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::Origin;
use kassette_domain::provider::{
    Given, ProviderRefund, ProviderStatus, RefundState, RefundTerms, Report,
};
use kassette_domain::refund::RefundOrigin;
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::work::{WorkItem, WorkKind};

use super::Harness;
use super::fixtures::*;
use super::resellers::{self, delegate, resold};
use crate::{About, Created, RefundOrdered, Store};

/// Amount that the suite's payments are paid with.
const PAID: u64 = 4990;

/// A merchant's order under the key `refund-<name>` for a payment of [`paid`].
pub fn order(name: &str, of: &str, amount: Option<u64>) -> NewRefund {
    NewRefund {
        id: refund_id(name),
        attempt: attempt_id(&format!("attempt of {of}")),
        origin: RefundOrigin::Merchant,
        key: Some(IdempotencyKey::parse(&format!("refund-{name}")).unwrap()),
        amount: amount.map(Minor),
        reason: Some("it broke".into()),
        bucket: Bucket::Own,
        terms: Some(RefundTerms {
            method: MethodId::Ideal,
            parts: true,
            at_most: None,
            days: None,
            whole_units: Vec::new(),
        }),
    }
}

pub fn refund_id(name: &str) -> RefundId {
    RefundId::from_bytes(id_of(name))
}

/// The provider's answer about the refund that it calls `vendor-<name>`.
pub fn answered(name: &str, state: RefundState) -> Step {
    Step::RefundAnswered {
        refund: refund_id(name),
        held: later(60),
        answer: RefundAnswer::Given(Given {
            reference: format!("vendor-{name}"),
            state,
            claim_url: Some("https://pay.example/claim".into()),
            detail: "as the vendor says".into(),
            paid_out: None,
        }),
    }
}

/// A claim for the call about a refund.
pub fn claimed(name: &str, seconds: u64) -> Step {
    Step::ClaimRefund {
        refund: refund_id(name),
        send: true,
        until: later(seconds),
    }
}

/// A completed payment.
pub async fn paid(store: &Arc<dyn Store>, name: &str) -> PaymentAggregate {
    pay(store, name).await;
    let step = news(&format!("attempt of {name}"), of_paid(name));
    done(store, payment_of(name), step, later(1)).await.0
}

fn of_paid(name: &str) -> Report {
    report(&format!("vendor-{name}"), ProviderStatus::Completed)
}

fn id_of_payment(name: &str) -> PaymentId {
    PaymentId::from_bytes(id_of(name))
}

async fn ordered(store: &Arc<dyn Store>, of: &str, new: NewRefund) -> RefundOrdered {
    let line = (new.origin == RefundOrigin::Operator).then(|| audited("payment.refund"));
    let ordered = store.refund(id_of_payment(of), new, None, line, later(2));
    ordered.await.unwrap()
}

async fn new(store: &Arc<dyn Store>, of: &str, order: NewRefund) -> PaymentAggregate {
    match ordered(store, of, order).await {
        RefundOrdered::New { aggregate, .. } => aggregate,
        other => panic!("{other:?}"),
    }
}

/// Results of 32 concurrent orders.
async fn at_once(store: &Arc<dyn Store>, order: impl Fn(usize) -> NewRefund) -> Vec<RefundOrdered> {
    let tasks: Vec<_> = (0..32)
        .map(|number| {
            let (store, order) = (Arc::clone(store), order(number));
            tokio::spawn(async move { ordered(&store, "a", order).await })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

pub async fn refunds_of_all_the_money_at_once_make_one(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let all = at_once(&store, |number| {
        order(&format!("number-{number}"), "a", Some(PAID))
    })
    .await;
    let left = Minor(0);
    let refused = RefundOrdered::Refused(Refusal::MoreThanLeft { left });
    let (made, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|ordered| matches!(ordered, RefundOrdered::New { .. }));
    assert_eq!((made.len(), others.len()), (1, 31));
    assert!(others.iter().all(|other| *other == refused), "{others:?}");
    let aggregate = store.aggregate(payment_of("a")).await.unwrap().unwrap();
    assert_eq!(aggregate.refunds().len(), 1);
}

pub async fn the_same_order_at_once_is_written_once(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let all = at_once(&store, |number| NewRefund {
        id: refund_id(&format!("drawn by {number}")),
        ..order("one", "a", None)
    })
    .await;
    let mut ids = Vec::new();
    let mut made = 0;
    for ordered in all {
        match ordered {
            RefundOrdered::New { aggregate, .. } => {
                made += 1;
                ids.push(aggregate.refunds()[0].1.id);
            }
            RefundOrdered::Replay { refund, .. } => ids.push(refund),
            other => panic!("{other:?}"),
        }
    }
    ids.dedup();
    assert_eq!((made, ids.len()), (1, 1));
}

pub async fn an_order_under_a_used_key_with_other_data_differs(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    paid(&store, "b").await;
    new(&store, "a", order("one", "a", Some(1000))).await;
    let differing = [
        ("a", order("one", "a", Some(1001)), "amount"),
        ("a", order("one", "a", None), "amount"),
        ("b", order("one", "b", Some(1000)), "payment_id"),
        (
            "a",
            NewRefund {
                reason: None,
                ..order("one", "a", Some(1000))
            },
            "reason",
        ),
    ];
    for (of, order, field) in differing {
        let ordered = ordered(&store, of, order).await;
        assert_eq!(ordered, RefundOrdered::Differs { field });
    }
    // An existing refund is returned even if the account can no longer refund.
    let same = NewRefund {
        terms: None,
        ..order("one", "a", Some(1000))
    };
    let replay = ordered(&store, "a", same).await;
    assert!(matches!(replay, RefundOrdered::Replay { refund, .. } if refund == refund_id("one")));
    let without = |name: &str| NewRefund {
        key: None,
        ..order(name, "a", Some(1000))
    };
    for name in ["two", "three"] {
        new(&store, "a", without(name)).await;
    }
}

pub async fn keys_of_refunds_are_one_space_per_merchant_and_environment(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, merchant, environment) in [
        ("a", 1, Environment::Test),
        ("b", 1, Environment::Live),
        ("c", 2, Environment::Test),
    ] {
        let mut request = request(name);
        (request.merchant, request.environment) = (MerchantId(merchant), environment);
        request.origin = Origin::Merchant {
            idempotency_key: IdempotencyKey::parse(&format!("request-{name}")).unwrap(),
        };
        store
            .create(of_request(name, request), None, NOW)
            .await
            .unwrap();
        let attempt = format!("attempt of {name}");
        for step in [
            open(&attempt, "sandbox-test"),
            started(&attempt, &format!("vendor-{name}")),
            news(&attempt, of_paid(name)),
        ] {
            done(&store, payment_of(name), step, later(1)).await;
        }
        let order = NewRefund {
            id: refund_id(name),
            ..order("one", name, None)
        };
        new(&store, name, order).await;
    }
}

pub async fn keys_of_refunds_are_separate_for_merchant_reseller_and_operators(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    let merchant = resold_and_paid(&store, "a").await;
    allow_refunds(&store, merchant).await;
    let by = |name: &str, origin| NewRefund {
        id: refund_id(name),
        origin,
        ..order("one", "a", Some(1000))
    };
    let all = [
        ("merchant", RefundOrigin::Merchant),
        ("reseller", RefundOrigin::Reseller),
        ("operator", RefundOrigin::Operator),
    ];
    for (name, origin) in all {
        new(&store, "a", by(name, origin)).await;
    }
    for (name, origin) in all {
        let again = ordered(&store, "a", by("again", origin)).await;
        let RefundOrdered::Replay { refund, .. } = again else {
            panic!("{name}: {again:?}")
        };
        assert_eq!(refund, refund_id(name));
        let other = NewRefund {
            amount: Some(Minor(1)),
            ..by("again", origin)
        };
        let field = "amount";
        assert_eq!(
            ordered(&store, "a", other).await,
            RefundOrdered::Differs { field }
        );
    }
}

pub async fn a_reseller_refunds_only_its_payments_while_the_delegation_allows_it(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    let merchant = resold_and_paid(&store, "a").await;
    paid(&store, "b").await;
    for (name, owner) in [
        ("its", KeyOwner::Reseller(ResellerId(1))),
        ("other", KeyOwner::Reseller(ResellerId(2))),
        ("merchant's", KeyOwner::Merchant(merchant)),
    ] {
        let key = api_key(name, owner, Environment::Test);
        let issued = store.issue_key(key, audited("key.create"), NOW).await;
        issued.unwrap();
    }
    let ask = async |key: &str, of: &str| {
        let owner = KeyOwner::Merchant(merchant);
        let authority = Some(api_key(key, owner, Environment::Test).hash);
        let order = NewRefund {
            origin: RefundOrigin::Reseller,
            ..order("one", of, Some(1000))
        };
        let ordered = store.refund(id_of_payment(of), order, authority, None, later(2));
        ordered.await.unwrap()
    };
    let not_allowed = RefundOrdered::Barred(ResellerNotAllowed::RefundsNotAllowed);
    assert_eq!(ask("its", "a").await, not_allowed);
    allow_refunds(&store, merchant).await;
    for key in ["other", "merchant's"] {
        assert_eq!(ask(key, "a").await, RefundOrdered::KeyRefused, "{key}");
    }
    let merchants_own = ask("its", "b").await;
    assert_eq!(merchants_own, RefundOrdered::Unknown);
    let first = ask("its", "a").await;
    assert!(matches!(first, RefundOrdered::New { .. }), "{first:?}");
    let again = ask("its", "a").await;
    assert!(matches!(again, RefundOrdered::Replay { .. }), "{again:?}");
    delegate(&store, merchant.0, false, later(2)).await;
    let revoked = RefundOrdered::Barred(ResellerNotAllowed::NotAuthorized);
    assert_eq!(ask("its", "a").await, revoked, "not even a replay");
}

/// Lets reseller 1 refund its payments of a merchant.
pub async fn allow_refunds(store: &Arc<dyn Store>, merchant: MerchantId) {
    let refunds = Some(true);
    let decision = DelegationDecision::Authorize { refunds };
    let line = audited("delegation.authorize");
    let set = store.set_delegation(ResellerId(1), merchant, decision, line, NOW);
    assert!(set.await.unwrap().unwrap().refunds);
}

/// A completed payment of reseller 1 for merchant 1, which does not let it refund yet.
async fn resold_and_paid(store: &Arc<dyn Store>, name: &str) -> MerchantId {
    for _ in 0..2 {
        resellers::reseller(store).await;
    }
    let merchant = shop(store).await;
    delegate(store, merchant.0, true, NOW).await;
    let new = resold(name, merchant.0, Environment::Test);
    let created = store.create(new, None, NOW).await;
    assert!(matches!(created, Ok(Created::New(_))));
    let attempt = format!("attempt of {name}");
    for step in [
        open(&attempt, "sandbox-test"),
        started(&attempt, &format!("vendor-{name}")),
        news(&attempt, of_paid(name)),
    ] {
        done(store, payment_of(name), step, later(1)).await;
    }
    merchant
}

pub async fn only_a_usable_key_of_the_merchant_orders(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    shop(&store).await;
    paid(&store, "a").await;
    let own = KeyOwner::Merchant(MerchantId(1));
    let other = KeyOwner::Merchant(MerchantId(2));
    for (name, owner, environment) in [
        ("good", own, Environment::Test),
        ("revoked", own, Environment::Test),
        ("live", own, Environment::Live),
        ("another's", other, Environment::Test),
    ] {
        let key = api_key(name, owner, environment);
        store
            .issue_key(key, audited("key.create"), NOW)
            .await
            .unwrap();
    }
    let revoked = api_key("revoked", own, Environment::Test).id;
    store
        .revoke_key(revoked, audited("key.revoke"), NOW)
        .await
        .unwrap();
    for (name, may) in [
        ("revoked", false),
        ("live", false),
        ("another's", false),
        ("unknown", false),
        ("good", true),
    ] {
        let authority = Some(api_key(name, own, Environment::Test).hash);
        let order = order("one", "a", None);
        let ordered = store.refund(id_of_payment("a"), order, authority, None, later(2));
        match ordered.await.unwrap() {
            RefundOrdered::New { .. } => assert!(may, "{name}"),
            RefundOrdered::KeyRefused => assert!(!may, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

pub async fn a_refused_order_leaves_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    pay(&store, "a").await;
    let before = everything(&store, "a").await;
    let of = ordered(&store, "a", order("one", "a", None)).await;
    assert!(matches!(
        of,
        RefundOrdered::Refused(Refusal::WrongStatus(_))
    ));
    let nowhere = ordered(&store, "nowhere", order("one", "a", None)).await;
    assert_eq!(nowhere, RefundOrdered::Unknown);
    assert_eq!(everything(&store, "a").await, before);
    let about = About::Refund(refund_id("one"));
    assert_eq!(store.aggregate(about).await, Ok(None));
    // Its key can be used again.
    let step = news("attempt of a", of_paid("a"));
    done(&store, payment_of("a"), step, later(1)).await;
    new(&store, "a", order("one", "a", Some(1))).await;
}

pub async fn a_refund_is_found_by_its_id_and_its_event_tells_it(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    new(&store, "a", order("one", "a", Some(1000))).await;
    let about = About::Refund(refund_id("one"));
    done(&store, about.clone(), claimed("one", 60), later(3)).await;
    let step = answered("one", RefundState::Succeeded);
    let (aggregate, _) = done(&store, about.clone(), step, later(4)).await;
    assert_eq!(
        store.aggregate(about).await.unwrap().as_ref(),
        Some(&aggregate)
    );
    let (_, refund) = aggregate.refund(refund_id("one")).unwrap();
    assert_eq!(refund.state, RefundState::Succeeded);
    let url = refund.claim_url.as_ref().map(|url| url.expose());
    assert_eq!(
        (url, refund.reason()),
        (Some("https://pay.example/claim"), Some("it broke"))
    );
    let history = store.history(id_of_payment("a")).await.unwrap().unwrap();
    let told: Vec<_> = history
        .events
        .iter()
        .filter(|event| event.kind == EventType::PaymentRefunded)
        .filter_map(|event| match event.subject.as_deref()? {
            EventSubject::Refund(refund) => Some((refund.refund, refund.amount)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(refund_id("one"), Minor(1000))]);
}

pub async fn a_refund_of_a_sum_keeps_the_id_that_was_reported(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    let mut sum = of_paid("a");
    sum.returned = Minor(300);
    let step = news("attempt of a", sum.clone());
    let (aggregate, _) = done(&store, payment_of("a"), step, later(2)).await;
    let of_sum = aggregate.refunds()[0].1.id;
    let found = store.aggregate(About::Refund(of_sum)).await;
    assert_eq!(found.unwrap(), Some(aggregate));
    for (id, amount) in [("x", 100), ("y", 200)] {
        sum.particulars.refunds.push(ProviderRefund {
            id: id.into(),
            order: None,
            amount: Minor(amount),
            state: RefundState::Succeeded,
            paid_out: None,
            at: None,
        });
    }
    let step = news("attempt of a", sum);
    let (aggregate, _) = done(&store, payment_of("a"), step, later(3)).await;
    // It was reported under this id.
    assert!(aggregate.refund(of_sum).is_some());
    for (_, refund) in aggregate.refunds() {
        let found = store.aggregate(About::Refund(refund.id)).await;
        assert_eq!(found.unwrap().as_ref(), Some(&aggregate));
    }
}

pub async fn a_refund_is_found_by_the_id_that_was_reported_before_its_order_answered(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    paid(&store, "a").await;
    new(&store, "a", order("one", "a", Some(1000))).await;
    done(&store, payment_of("a"), claimed("one", 60), later(3)).await;
    let mut notice = of_paid("a");
    notice.particulars.refunds.push(ProviderRefund {
        id: "vendor-one".into(),
        order: None,
        amount: Minor(1000),
        state: RefundState::Succeeded,
        paid_out: None,
        at: None,
    });
    let step = news("attempt of a", notice);
    let (aggregate, _) = done(&store, payment_of("a"), step, later(4)).await;
    let mut refunds = aggregate.refunds().into_iter();
    let reported = refunds.find(|(_, refund)| refund.id != refund_id("one"));
    let reported = reported.unwrap().1.id;
    let step = answered("one", RefundState::Succeeded);
    let (aggregate, _) = done(&store, payment_of("a"), step, later(5)).await;
    assert_eq!(aggregate.refunds().len(), 1);
    for id in [reported, refund_id("one")] {
        let found = store.aggregate(About::Refund(id)).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{id} leads to no payment"));
        assert_eq!(found.refund(id).unwrap().1.id, refund_id("one"));
    }
}

async fn lines(store: &Arc<dyn Store>) -> Vec<WorkItem> {
    page(store.work(true, first(9)).await.unwrap()).items
}

pub async fn an_order_needs_its_line_open_and_closes_it(harness: &dyn Harness) {
    let store = harness.open().await;
    pay(&store, "a").await;
    let mut over = of_paid("a");
    over.status = ProviderStatus::Overpaid;
    over.received = Minor(PAID + 500);
    let step = news("attempt of a", over);
    done(&store, payment_of("a"), step, later(1)).await;
    let line = lines(&store).await.remove(0);
    assert_eq!(line.key.kind, WorkKind::Excess);
    assert_eq!(store.work_item(line.id).await, Ok(Some(line.clone())));
    let of_line = |name: &str| NewRefund {
        origin: RefundOrigin::Operator,
        bucket: Bucket::Excess,
        amount: Some(line.amount),
        ..order(name, "a", None)
    };
    let audits = async || page(store.audit_log(first(9)).await.unwrap()).items.len();
    for _ in 0..2 {
        // The second is a replay, which writes no audit line.
        ordered(&store, "a", of_line("one")).await;
    }
    assert_eq!((audits().await, lines(&store).await.len()), (1, 1));
    let about = About::Refund(refund_id("one"));
    done(&store, about.clone(), claimed("one", 60), later(3)).await;
    done(
        &store,
        about,
        answered("one", RefundState::Succeeded),
        later(4),
    )
    .await;
    assert_eq!(lines(&store).await, []);
    let done_at = store.work_item(line.id).await.unwrap().unwrap().done_at;
    assert_eq!(done_at, Some(later(4)));
    let late = ordered(&store, "a", of_line("two")).await;
    assert_eq!(late, RefundOrdered::LineClosed);
}

pub async fn an_order_is_due_until_it_has_ended_and_survives(harness: &dyn Harness) {
    let store = harness.open().await;
    paid(&store, "a").await;
    assert_eq!(store.next_due().await, Ok(None));
    assert_eq!(store.accounts_in_use().await, Ok(vec![]));
    let made = new(&store, "a", order("one", "a", None)).await;
    store.shut_down().await.unwrap();
    drop(store);
    let store = harness.open().await;
    assert_eq!(store.aggregate(payment_of("a")).await, Ok(Some(made)));
    assert_eq!(
        store.accounts_in_use().await.unwrap(),
        [account("sandbox-test")]
    );
    assert_eq!(store.next_due().await, Ok(Some(later(2))));
    let lease = Duration::from_secs(60);
    let due = store.claim_due(later(2), lease, 9).await;
    assert_eq!(due, Ok(vec![id_of_payment("a")]));
    let again = ordered(&store, "a", order("one", "a", None)).await;
    assert!(matches!(again, RefundOrdered::Replay { .. }));
    let about = About::Refund(refund_id("one"));
    done(&store, about.clone(), claimed("one", 60), later(3)).await;
    done(
        &store,
        about.clone(),
        answered("one", RefundState::Pending),
        later(4),
    )
    .await;
    let claimed_until = later(62);
    let release = Step::Release { claimed_until };
    done(&store, about.clone(), release, later(5)).await;
    assert!(
        store
            .next_due()
            .await
            .unwrap()
            .is_some_and(|due| due > later(5))
    );
    done(
        &store,
        about,
        answered("one", RefundState::Succeeded),
        later(6),
    )
    .await;
    assert_eq!(store.next_due().await, Ok(None));
    assert_eq!(store.accounts_in_use().await, Ok(vec![]));
}
