//! Connect codes and exchanges.

use std::sync::Arc;
use std::task::Poll;

use kassette_domain::connect::{CodeUse, ConnectCode};
use kassette_domain::id::MerchantId;
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::merchant::Merchant;
use kassette_domain::site::VerifiedDomain;
use kassette_domain::webhook::Endpoint;

use super::Harness;
use super::fixtures::*;
use crate::{CodeIssued, CodeUsed, Exchanged, Replaced, Retention, Store};

async fn issue(store: &Arc<dyn Store>, code: ConnectCode) -> ConnectCode {
    let audited = audited("connect-code.create");
    let issued = store.issue_connect_code(code.clone(), audited, NOW).await;
    assert_eq!(issued, Ok(CodeIssued::Done(code.clone())));
    code
}

async fn redeem(store: &Arc<dyn Store>, code: &ConnectCode, made: &str, at: u64) -> Exchanged {
    let exchange = exchange_of(code, made);
    let audited = audited("connect.exchange");
    store.exchange(exchange, audited, later(at)).await.unwrap()
}

/// Whether an exchange has created everything. A part of it must not exist alone.
async fn made(store: &Arc<dyn Store>, made: &str) -> bool {
    let key = store.key(TokenHash::hash(made)).await.unwrap();
    let endpoint = endpoint(made, NOW).id;
    let endpoint = store.endpoint_secrets(endpoint).await.unwrap();
    assert_eq!(key.is_some(), endpoint.is_some(), "{made}");
    if let Some((_, secrets)) = endpoint {
        assert_eq!(secrets.signing(NOW).expose(), format!("whsec_{made}"));
    }
    key.is_some()
}

pub async fn an_exchange_makes_everything_and_is_done_once(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let code = issue(
        &store,
        connect_code("code", "https://shop.example", Environment::Test),
    )
    .await;
    assert_eq!(store.connect_code(code.hash).await, Ok(Some(code.clone())));
    let version = store.directory_version();
    let Exchanged::Done {
        connection,
        cancelled,
    } = redeem(&store, &code, "first", 1).await
    else {
        panic!("refused")
    };
    assert_eq!(cancelled, 0);
    assert_eq!(
        (connection.code, &connection.origin),
        (code.id, &code.origin)
    );
    assert!(made(&store, "first").await);
    let merchant = store.merchant(MerchantId(1)).await.unwrap().unwrap();
    let domain = VerifiedDomain {
        domain: "shop.example".into(),
        include_subdomains: false,
    };
    assert_eq!(merchant.domains, [domain]);
    assert!(version.is_none() || version != store.directory_version());
    assert_eq!(redeem(&store, &code, "second", 2).await, Exchanged::Dead);
    assert!(!made(&store, "second").await);
    let spent = store.connect_code(code.hash).await.unwrap().unwrap();
    assert_eq!(spent.redeemed_at, Some(later(1)));
    store.shut_down().await.unwrap();
    drop(store);

    let store = harness.open().await;
    assert!(made(&store, "first").await);
    assert_eq!(redeem(&store, &code, "third", 3).await, Exchanged::Dead);
    let actions: Vec<_> = page(store.audit_log(first(9)).await.unwrap())
        .items
        .into_iter()
        .map(|entry| (entry.audited.action, entry.audited.before))
        .collect();
    let expected = ["connect.exchange", "connect-code.create", "merchant.create"];
    assert_eq!(actions, expected.map(|action| (action.to_owned(), None)));
}

pub async fn exchanges_at_once_have_one_winner(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let code = issue(
        &store,
        connect_code("code", "https://shop.example", Environment::Test),
    )
    .await;
    let names: Vec<String> = (0..64).map(|each| format!("made-{each}")).collect();
    let racing = names.iter().map(|name| {
        let (store, code, name) = (Arc::clone(&store), code.clone(), name.clone());
        tokio::spawn(async move { redeem(&store, &code, &name, 1).await })
    });
    let mut won = 0;
    for (name, racer) in names.iter().zip(racing.collect::<Vec<_>>()) {
        let done = matches!(racer.await.unwrap(), Exchanged::Done { .. });
        assert_eq!(made(&store, name).await, done, "{name}");
        won += usize::from(done);
    }
    assert_eq!(won, 1);
    let endpoints = page(
        store
            .endpoints(KeyOwner::Merchant(MerchantId(1)), None, first(9))
            .await
            .unwrap(),
    );
    assert_eq!(endpoints.items.len(), 1);
    let merchant = store.merchant(MerchantId(1)).await.unwrap().unwrap();
    assert_eq!(merchant.domains.len(), 1);
}

pub async fn a_code_dies_by_time_and_by_wrong_proofs(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let late = issue(
        &store,
        connect_code("late", "https://shop.example", Environment::Test),
    )
    .await;
    assert_eq!(redeem(&store, &late, "late", 300).await, Exchanged::Dead);
    let wrong = issue(
        &store,
        connect_code("wrong", "https://shop.example", Environment::Test),
    )
    .await;
    let uses = |hash, used, at| store.use_connect_code(hash, used, later(at));
    assert_eq!(
        uses(wrong.hash, CodeUse::Wrong, 300).await,
        Ok(CodeUsed::Dead)
    );
    let racing = (0..64).map(|_| {
        let (store, hash) = (Arc::clone(&store), wrong.hash);
        tokio::spawn(async move { store.use_connect_code(hash, CodeUse::Wrong, later(1)).await })
    });
    let mut counted = 0;
    for racer in racing.collect::<Vec<_>>() {
        counted += usize::from(racer.await.unwrap() != Ok(CodeUsed::Dead));
    }
    assert_eq!(counted, 5, "the sixth finds it burned");
    assert_eq!(redeem(&store, &wrong, "wrong", 1).await, Exchanged::Dead);
    let asked = issue(
        &store,
        connect_code("asked", "https://shop.example", Environment::Test),
    )
    .await;
    for _ in 0..20 {
        let used = uses(asked.hash, CodeUse::Fetch, 1).await;
        assert!(matches!(used, Ok(CodeUsed::Counted(_))));
    }
    assert_eq!(
        uses(asked.hash, CodeUse::Fetch, 1).await,
        Ok(CodeUsed::NoMore)
    );
    for name in ["late", "wrong"] {
        assert!(!made(&store, name).await);
    }
    assert!(matches!(
        redeem(&store, &asked, "asked", 299).await,
        Exchanged::Done { .. }
    ));
    let unknown = TokenHash::hash("unknown");
    assert_eq!(uses(unknown, CodeUse::Wrong, 1).await, Ok(CodeUsed::Dead));
    assert_eq!(store.connect_code(unknown).await, Ok(None));
}

pub async fn connecting_again_takes_the_place_of_the_exchange_before(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let connect = async |name: &str, site: &str, environment, at| {
        let code = issue(&store, connect_code(name, site, environment)).await;
        let done = redeem(&store, &code, name, at).await;
        assert!(matches!(done, Exchanged::Done { .. }), "{name}: {done:?}");
    };
    let site = "https://shop.example";
    connect(
        "other site",
        "https://shop.example:8443",
        Environment::Test,
        1,
    )
    .await;
    connect("other world", site, Environment::Live, 1).await;
    connect("before", site, Environment::Test, 1).await;
    let endpoint = endpoint("before", NOW).id;
    connect("after", site, Environment::Test, 5).await;
    let key = store.key(TokenHash::hash("before")).await.unwrap().unwrap();
    assert_eq!(key.revoked_at, Some(later(5)));
    assert_eq!(store.endpoint(endpoint).await, Ok(None));
    for name in ["other site", "other world", "after"] {
        let key = store.key(TokenHash::hash(name)).await.unwrap().unwrap();
        assert!(key.usable(later(6)) && made(&store, name).await, "{name}");
    }
    let log = page(store.audit_log(first(1)).await.unwrap())
        .items
        .remove(0);
    let before = log.audited.before.unwrap();
    assert!(before.contains(&key.id.to_string()) && before.contains(&endpoint.to_string()));
}

pub async fn connecting_again_tells_what_was_cancelled_and_who_has_to_end_the_rest(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    shop(&store).await;
    let connect = async |name: &str| {
        let code = connect_code(name, "https://shop.example", Environment::Test);
        match redeem(&store, &issue(&store, code).await, name, 1).await {
            Exchanged::Done { cancelled, .. } => cancelled,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(connect("before").await, 0);
    let before = endpoint("before", NOW).id;
    // More than one transaction can end.
    for at in 0..450 {
        let queued = store.queue_test(before, audited("endpoint.test"), later(at));
        queued.await.unwrap().unwrap();
    }
    store.queued().await.unwrap();
    let mut cancelled = connect("after").await;
    let left = store.backlog().await.unwrap().pending;
    assert!(left < 450, "{left} wait on for an endpoint that is gone");
    assert_eq!(cancelled, 450 - left);
    let mut queued = store.queued();
    let once = std::future::poll_fn(|context| Poll::Ready(queued.as_mut().poll(context)));
    let Poll::Ready(Ok(heard)) = once.await else {
        panic!("the worker was not told");
    };
    assert!(heard.contains(&before), "{heard:?}");
    for _ in 0..9 {
        let swept = store.sweep(before, NOW).await.unwrap();
        cancelled += swept.cancelled;
        if swept.next.is_none() {
            break;
        }
    }
    assert_eq!(cancelled, 450, "each is counted once");
    assert_eq!(store.backlog().await.unwrap().pending, 0);
}

pub async fn an_exchange_that_is_refused_leaves_nothing(harness: &dyn Harness) {
    let store = harness.open().await;
    let code_of = |name: &str| connect_code(name, "https://shop.example", Environment::Live);
    let audited = || audited("connect-code.create");
    let nobody = store.issue_connect_code(code_of("a"), audited(), NOW).await;
    assert_eq!(nobody, Ok(CodeIssued::NoSuchMerchant));
    shop(&store).await;
    let live = issue(&store, code_of("live")).await;
    let approved = store.merchant(MerchantId(1)).await.unwrap().unwrap();
    let mut withdrawn = approved.clone();
    withdrawn.live_approved = false;
    let change = async |before: &Merchant, after: &Merchant| {
        let audited = super::fixtures::audited("merchant.change");
        let done = store
            .replace_merchant(before.clone(), after.clone(), audited, NOW)
            .await;
        assert!(matches!(done, Ok(Replaced::Done(_))));
    };
    change(&approved, &withdrawn).await;
    let refused = store.issue_connect_code(code_of("b"), audited(), NOW).await;
    assert_eq!(refused, Ok(CodeIssued::NotLiveApproved));
    assert_eq!(
        redeem(&store, &live, "live", 1).await,
        Exchanged::NotLiveApproved
    );
    assert!(!made(&store, "live").await);

    let mut full = approved.clone();
    full.domains = (0..64)
        .map(|each| VerifiedDomain {
            domain: format!("shop{each}.example"),
            include_subdomains: true,
        })
        .collect();
    change(&withdrawn, &full).await;
    assert_eq!(
        redeem(&store, &live, "live", 1).await,
        Exchanged::TooManyDomains
    );
    assert!(!made(&store, "live").await);
    let mut known = full.clone();
    known.domains[7].domain = "shop.example".into();
    change(&full, &known).await;
    for each in 0..Endpoint::MAX_PER_OWNER {
        let endpoint = Endpoint {
            environment: Environment::Live,
            ..endpoint(&format!("e{each}"), NOW)
        };
        listen(&store, endpoint).await;
    }
    assert_eq!(
        redeem(&store, &live, "live", 1).await,
        Exchanged::TooManyEndpoints
    );
    assert!(!made(&store, "live").await);
    let gone = endpoint("e7", NOW).id;
    store
        .delete_endpoint(gone, super::fixtures::audited("endpoint.delete"), NOW)
        .await
        .unwrap();
    assert!(matches!(
        redeem(&store, &live, "live", 1).await,
        Exchanged::Done { .. }
    ));
    let after = store.merchant(MerchantId(1)).await.unwrap().unwrap();
    assert_eq!(after.domains, known.domains, "what an operator set stays");
    // With the maximum number of endpoints, the same site can still replace its own.
    let again = issue(&store, code_of("again")).await;
    assert!(matches!(
        redeem(&store, &again, "again", 2).await,
        Exchanged::Done { .. }
    ));
}

pub async fn an_exchange_does_not_make_a_second_endpoint_of_an_address(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let by_hand = Endpoint {
        url: endpoint("first", NOW).url,
        ..endpoint("by hand", NOW)
    };
    listen(&store, by_hand.clone()).await;
    let code = connect_code("code", "https://shop.example", Environment::Test);
    let code = issue(&store, code).await;
    let taken = redeem(&store, &code, "first", 1).await;
    assert_eq!(taken, Exchanged::EndpointTaken(by_hand.id));
    assert!(!made(&store, "first").await);
    let delete = store.delete_endpoint(by_hand.id, audited("endpoint.delete"), NOW);
    delete.await.unwrap();
    let done = redeem(&store, &code, "first", 2).await;
    assert!(matches!(done, Exchanged::Done { .. }), "{done:?}");
}

pub async fn codes_are_listed_until_a_day_after_their_end(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    for (name, at) in [("old", 0), ("new", 60)] {
        let code = connect_code(name, "https://shop.example", Environment::Test);
        let code = ConnectCode {
            created_at: later(at),
            expires_at: later(at).after(ConnectCode::LIFE),
            ..code
        };
        issue(&store, code).await;
    }
    let listed = async || {
        let listed = store.connect_codes(MerchantId(1), first(9)).await.unwrap();
        let codes = page(listed).items.into_iter();
        codes.map(|code| code.hash).collect::<Vec<_>>()
    };
    let (old, new) = (TokenHash::hash("old"), TokenHash::hash("new"));
    assert_eq!(listed().await, [new, old]);
    let day = 24 * 3600;
    let forget = |at| store.forget(Retention::default(), later(at));
    forget(300 + day - 1).await.unwrap();
    assert_eq!(listed().await, [new, old]);
    forget(300 + day).await.unwrap();
    assert_eq!(listed().await, [new]);
    assert_eq!(store.connect_code(old).await, Ok(None));
    let other = store.connect_codes(MerchantId(2), first(9)).await.unwrap();
    assert!(page(other).items.is_empty());
}
