//! Merchants, operators, account switches, the audit log.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::brand::{Brand, Logo};
use kassette_domain::id::{MerchantId, OperatorId};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::money::Margin;
use kassette_domain::operator::Operator;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::{DeliveryAttempt, Endpoint, Tried};

use super::Harness;
use super::fixtures::*;
use crate::{ClaimedDeliveries, Replaced, SwitchOff};

pub async fn merchants_are_counted_from_one(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut callers = Vec::new();
    for _ in 0..12 {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            store
                .create_merchant(merchant(false), audited("merchant.create"), NOW)
                .await
        }));
    }
    let mut numbers = Vec::new();
    for caller in callers {
        let made = caller.await.unwrap().unwrap();
        assert_eq!(store.merchant(made.id).await, Ok(Some(made.clone())));
        numbers.push(made.id.0);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    assert_eq!(store.merchant(MerchantId(13)).await, Ok(None));
    let listed = page(store.merchants(first(5)).await.unwrap());
    let ids: Vec<_> = listed.items.iter().map(|merchant| merchant.id.0).collect();
    assert_eq!(ids, [12, 11, 10, 9, 8]);
    let log = page(store.audit_log(first(100)).await.unwrap()).items;
    let mut objects: Vec<_> = log.into_iter().map(|entry| entry.audited.object).collect();
    objects.sort();
    let mut expected: Vec<_> = (1..=12).map(|id| format!("merchant/{id}")).collect();
    expected.sort();
    assert_eq!(objects, expected);
}

pub async fn a_merchant_is_replaced_only_as_it_was_read(harness: &dyn Harness) {
    let store = harness.open().await;
    let before = store
        .create_merchant(merchant(false), audited("merchant.create"), NOW)
        .await
        .unwrap();
    let mut after = before.clone();
    after.name = "Another name".into();
    after.policy.fx_margin = Margin::parse("0.015").ok();
    after.brand = Brand {
        colour: "#12453a".parse().ok(),
        logo: vec![7; Logo::MOST].try_into().ok(),
        shows_provider: true,
        support: "https://shop.example/help".parse().ok(),
    };
    let replace = async |after: &kassette_domain::merchant::Merchant| {
        let audited = audited("merchant.change");
        store
            .replace_merchant(before.clone(), after.clone(), audited, NOW)
            .await
            .unwrap()
    };
    assert_eq!(replace(&after).await, Replaced::Done(after.clone()));
    assert_eq!(replace(&after).await, Replaced::Stale);
    assert_eq!(store.merchant(before.id).await, Ok(Some(after)));
    let mut unknown = before.clone();
    unknown.id = MerchantId(9);
    let replaced = store
        .replace_merchant(unknown.clone(), unknown, audited("x.y"), NOW)
        .await;
    assert_eq!(replaced, Ok(Replaced::Unknown));
    assert_eq!(
        page(store.audit_log(first(9)).await.unwrap()).items.len(),
        2
    );
}

pub async fn an_operator_is_unknown_once_removed(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, seconds) in [("ann", 1), ("bob", 2)] {
        let operator = operator(name, later(seconds));
        let made = store
            .create_operator(operator.clone(), audited("operator.create"), NOW)
            .await;
        assert_eq!(made, Ok(Some(operator)));
    }
    let hash = TokenHash::hash("ann");
    let ann = store.operator(hash).await.unwrap().unwrap();
    assert_eq!(ann.name, "ann");
    let names = async || -> Vec<String> {
        let listed = page(store.operators(first(9)).await.unwrap());
        listed.items.into_iter().map(|each| each.name).collect()
    };
    assert_eq!(names().await, ["bob", "ann"]);
    let remove = async |id| {
        store
            .remove_operator(id, audited("operator.delete"), NOW)
            .await
            .unwrap()
    };
    assert_eq!(remove(ann.id).await, Some(ann.clone()));
    assert_eq!(remove(ann.id).await, None);
    assert_eq!(remove(OperatorId::from_bytes([0; 16])).await, None);
    assert_eq!(store.operator(hash).await, Ok(None));
    assert_eq!(names().await, ["bob"]);
    assert_eq!(
        page(store.audit_log(first(9)).await.unwrap()).items.len(),
        3
    );
}

pub async fn an_operators_name_is_free_once_the_operator_is_removed(harness: &dyn Harness) {
    let store = harness.open().await;
    let create = async |id: &str, name: &str| {
        let operator = Operator {
            name: name.into(),
            ..operator(id, NOW)
        };
        let made = store.create_operator(operator, audited("operator.create"), NOW);
        made.await.unwrap().map(|made| made.id)
    };
    let ann = create("first", "Ann Ö").await.unwrap();
    for same in ["Ann Ö", "ann ö", "ANN Ö"] {
        assert_eq!(create("second", same).await, None, "{same}");
    }
    assert_eq!(store.operator(TokenHash::hash("second")).await, Ok(None));
    assert!(create("third", "Ann O").await.is_some());
    let removed = store.remove_operator(ann, audited("operator.delete"), NOW);
    removed.await.unwrap().unwrap();
    assert!(create("second", "ann ö").await.is_some());
    let lines = page(store.audit_log(first(9)).await.unwrap()).items;
    assert_eq!(lines.len(), 4, "who is not made leaves no line");
}

pub async fn lines_of_the_audit_log_keep_the_operators_id(harness: &dyn Harness) {
    let store = harness.open().await;
    let id = OperatorId::from_bytes([7; 16]);
    for operator_id in [None, Some(id), None] {
        let line = Audited {
            operator_id,
            ..audited("provider.change")
        };
        store.audit(line, NOW).await.unwrap();
    }
    store.shut_down().await.unwrap();
    let store = harness.open().await;
    let lines = page(store.audit_log(first(9)).await.unwrap()).items;
    let ids: Vec<_> = lines.iter().map(|line| line.audited.operator_id).collect();
    assert_eq!(ids, [None, Some(id), None]);
    let chain = store.verify_audit().await.unwrap();
    assert_eq!(
        (chain.breaks(), chain.last().map(|last| last.0)),
        (&[][..], Some(3))
    );
}

pub async fn account_switches_are_kept(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, enabled) in [("b-test", false), ("a-test", true), ("b-test", true)] {
        store
            .switch_account(account(name), enabled, audited("provider.change"), NOW)
            .await
            .unwrap();
    }
    let mut switches = store.account_switches().await.unwrap();
    switches.sort();
    assert_eq!(
        switches,
        [(account("a-test"), true), (account("b-test"), true)]
    );
}

pub async fn the_audit_log_is_an_unbroken_chain_at_any_concurrency(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut callers = Vec::new();
    for caller in 0..64 {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            let audited = audited(&format!("change.{caller}"));
            store.audit(audited, later(caller)).await
        }));
    }
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    let mut log = page(store.audit_log(first(100)).await.unwrap()).items;
    assert_eq!(log.len(), 64);
    log.reverse();
    let mut last = None;
    for entry in &log {
        assert!(entry.follows(last), "{entry:?}");
        last = Some((entry.id, entry.hash));
    }
}

pub async fn the_version_changes_with_keys_merchants_and_switches_alone(harness: &dyn Harness) {
    let store = harness.open().await;
    if store.directory_version().is_none() {
        return;
    }
    let mut last = store.directory_version();
    let mut changed = |what: &str, expected: bool| {
        let now = store.directory_version();
        assert_eq!(now != last, expected, "{what}");
        last = now;
    };
    let made = store
        .create_merchant(merchant(false), audited("merchant.create"), NOW)
        .await
        .unwrap();
    changed("a merchant is made", true);
    let mut after = made.clone();
    after.name = "Another name".into();
    let replaced = store.replace_merchant(made.clone(), after, audited("merchant.change"), NOW);
    replaced.await.unwrap();
    changed("it is replaced", true);
    let owner = KeyOwner::Merchant(made.id);
    let key = api_key("one", owner, Environment::Test);
    let issued = store.issue_key(key.clone(), audited("key.create"), NOW);
    issued.await.unwrap();
    changed("a key is issued", true);
    store.keys_seen(vec![(key.hash, NOW)]).await.unwrap();
    store.probe().await.unwrap();
    changed("a key is seen", false);
    store.create(new_payment("a"), None, NOW).await.unwrap();
    changed("a payment is made", false);
    let next = api_key("two", owner, Environment::Test);
    let rotated = store.rotate_key(key.id, next, later(9), audited("key.rotate"), NOW);
    rotated.await.unwrap();
    changed("it is rotated", true);
    store
        .revoke_key(key.id, audited("key.revoke"), NOW)
        .await
        .unwrap();
    changed("it is revoked", true);
    let account = account("sandbox-test");
    let switched = store.switch_account(account, false, audited("provider.change"), NOW);
    switched.await.unwrap();
    changed("an account is switched off", true);
}

pub async fn the_version_changes_with_endpoints_and_not_with_what_they_are_sent(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    if store.directory_version().is_none() {
        return;
    }
    shop(&store).await;
    let mut last = store.directory_version();
    let mut changed = |what: &str, expected: bool| {
        let now = store.directory_version();
        assert_eq!(now != last, expected, "{what}");
        last = now;
    };
    let made = listen(&store, endpoint("a", NOW)).await;
    changed("an endpoint is made", true);
    let after = Endpoint {
        url: "https://other.example/".into(),
        ..made.clone()
    };
    let replaced = store.replace_endpoint(made, after.clone(), audited("endpoint.update"), NOW);
    replaced.await.unwrap();
    changed("it is replaced", true);
    let secret = Secret::new("whsec_new");
    let hour = Duration::from_secs(3600);
    let rotated = store.rotate_endpoint(after.id, secret, hour, audited("endpoint.rotate"), NOW);
    rotated.await.unwrap();
    changed("its secret is rotated", true);
    pay(&store, "a").await;
    changed("an event is queued", false);
    let queued = store.queue_test(after.id, audited("endpoint.test"), NOW);
    let id = queued.await.unwrap().unwrap().id;
    changed("a test is queued", false);
    let claimed = store.claim(after.id, NOW, hour, 1).await.unwrap();
    assert!(matches!(claimed, ClaimedDeliveries::Due { .. }));
    changed("it is claimed", false);
    let attempt = |after| Tried {
        attempt: DeliveryAttempt {
            at: NOW,
            status: Some(410),
            duration_ms: 9,
            error: None,
            response: None,
        },
        after,
        delivered: false,
        retry_at: later(5),
    };
    store.tried(id, attempt(0), None, NOW).await.unwrap();
    changed("an attempt is recorded", false);
    let off = SwitchOff {
        url: after.url,
        audited: audited("endpoint.disable"),
    };
    let gone = store.tried(id, attempt(1), Some(off.clone()), NOW);
    gone.await.unwrap();
    changed("a receiver that is gone switches it off", true);
    store.tried(id, attempt(2), Some(off), NOW).await.unwrap();
    changed("it is off already", false);
    let deleted = store.delete_endpoint(after.id, audited("endpoint.delete"), NOW);
    deleted.await.unwrap().unwrap();
    changed("it is deleted", true);
    store.sweep(after.id, NOW).await.unwrap();
    changed("what waited is swept", false);
}
