//! Webhook endpoints.

use std::time::Duration;

use kassette_domain::event::EventType;
use kassette_domain::id::MerchantId;
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::secret::Secret;
use kassette_domain::webhook::{DeliveryStatus, Endpoint, EndpointSecrets, EventFilter};

use super::Harness;
use super::fixtures::*;
use super::resellers::{reseller, resellers_endpoint};
use crate::{
    DeliveryFilter, EndpointCreated, EndpointDeleted, EndpointReplaced, EndpointRotated, Paging,
};

pub async fn an_endpoint_lives_from_creation_to_deletion(harness: &dyn Harness) {
    let store = harness.open().await;
    let (first_one, second) = (endpoint("a", later(1)), endpoint("b", later(2)));
    let unowned = store
        .create_endpoint(
            first_one.clone(),
            secrets("a"),
            audited("endpoint.create"),
            NOW,
        )
        .await;
    assert_eq!(unowned, Ok(EndpointCreated::NoSuchOwner));
    shop(&store).await;
    for endpoint in [&first_one, &second] {
        listen(&store, endpoint.clone()).await;
    }
    let listed = page(
        store
            .endpoints(first_one.owner, None, first(9))
            .await
            .unwrap(),
    );
    assert_eq!(listed.items, [second.clone(), first_one.clone()]);
    let after = Endpoint {
        url: "https://other.example/".into(),
        event_types: EventFilter::only(&[EventType::PaymentReview]),
        enabled: false,
        owner: KeyOwner::Merchant(MerchantId(7)),
        ..first_one.clone()
    };
    let replace = |before: &Endpoint, after: &Endpoint| {
        store.replace_endpoint(
            before.clone(),
            after.clone(),
            audited("endpoint.update"),
            NOW,
        )
    };
    let changed = Endpoint {
        owner: first_one.owner,
        off: vec![(NOW, None)],
        ..after.clone()
    };
    let replaced = replace(&first_one, &after).await;
    assert_eq!(replaced, Ok(EndpointReplaced::Done(changed.clone())));
    assert_eq!(
        replace(&first_one, &after).await,
        Ok(EndpointReplaced::Stale)
    );
    assert_eq!(
        store.endpoint(first_one.id).await,
        Ok(Some(changed.clone()))
    );
    let delete = |id| store.delete_endpoint(id, audited("endpoint.delete"), NOW);
    let deleted = EndpointDeleted {
        endpoint: changed.clone(),
        cancelled: 0,
    };
    assert_eq!(delete(first_one.id).await, Ok(Some(deleted)));
    assert_eq!(delete(first_one.id).await, Ok(None));
    assert_eq!(store.endpoint(first_one.id).await, Ok(None));
    assert_eq!(
        replace(&changed, &after).await,
        Ok(EndpointReplaced::Unknown)
    );
    let listed = page(
        store
            .endpoints(first_one.owner, None, first(9))
            .await
            .unwrap(),
    );
    assert_eq!(listed.items, [second]);
    let actions: Vec<_> = page(store.audit_log(first(9)).await.unwrap())
        .items
        .into_iter()
        .map(|entry| entry.audited.action)
        .collect();
    let expected = [
        "endpoint.delete",
        "endpoint.update",
        "endpoint.create",
        "endpoint.create",
        "merchant.create",
    ];
    assert_eq!(actions, expected);
}

pub async fn one_address_has_one_endpoint_of_a_merchant_in_an_environment(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let first_one = listen(&store, endpoint("a", NOW)).await;
    let second = listen(&store, endpoint("b", NOW)).await;
    let twin = |name: &str, environment| Endpoint {
        // Written differently, but the same address.
        url: "https://A.example:443/webhooks".into(),
        environment,
        ..endpoint(name, NOW)
    };
    let create =
        |endpoint| store.create_endpoint(endpoint, secrets("c"), audited("endpoint.create"), NOW);
    let taken = create(twin("c", Environment::Test)).await;
    assert_eq!(taken, Ok(EndpointCreated::Taken(first_one.id)));
    assert_eq!(store.endpoint(endpoint("c", NOW).id).await, Ok(None));
    listen(&store, twin("live", Environment::Live)).await;
    let change = |before: &Endpoint, after: &Endpoint| {
        let line = audited("endpoint.update");
        store.replace_endpoint(before.clone(), after.clone(), line, NOW)
    };
    let moved = Endpoint {
        url: first_one.url.clone(),
        ..second.clone()
    };
    let refused = change(&second, &moved).await;
    assert_eq!(refused, Ok(EndpointReplaced::Taken(first_one.id)));
    assert_eq!(store.endpoint(second.id).await, Ok(Some(second.clone())));
    // Its own address, written differently, does not conflict.
    let rewritten = twin("a", Environment::Test);
    let done = change(&first_one, &rewritten).await;
    assert_eq!(done, Ok(EndpointReplaced::Done(rewritten)));
    let delete = store.delete_endpoint(first_one.id, audited("endpoint.delete"), NOW);
    delete.await.unwrap();
    assert_eq!(
        change(&second, &moved).await,
        Ok(EndpointReplaced::Done(moved.clone()))
    );
}

pub async fn a_reseller_s_endpoints_are_apart_from_those_of_the_merchant_with_its_number(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    shop(&store).await;
    let merchants = listen(&store, endpoint("merchants", NOW)).await;
    let at = |name: &str| Endpoint {
        url: merchants.url.clone(),
        ..resellers_endpoint(name)
    };
    let create =
        |endpoint| store.create_endpoint(endpoint, secrets("own"), audited("endpoint.create"), NOW);
    assert_eq!(create(at("own")).await, Ok(EndpointCreated::NoSuchOwner));
    reseller(&store).await;
    let own = at("own");
    assert_eq!(
        create(own.clone()).await,
        Ok(EndpointCreated::Done(own.clone()))
    );
    let twin = create(at("twin")).await;
    assert_eq!(twin, Ok(EndpointCreated::Taken(own.id)));
    store.shut_down().await.unwrap();
    drop(store);

    let store = harness.open().await;
    for endpoint in [&merchants, &own] {
        for environment in [None, Some(Environment::Test)] {
            let listed = store.endpoints(endpoint.owner, environment, first(9)).await;
            assert_eq!(page(listed.unwrap()).items, std::slice::from_ref(endpoint));
        }
    }
    let (read, signs) = store.endpoint_secrets(own.id).await.unwrap().unwrap();
    assert_eq!(read, own);
    assert_eq!(signs.signing(NOW).expose(), "whsec_own");
    let after = Endpoint {
        enabled: false,
        ..own.clone()
    };
    let line = audited("endpoint.update");
    let changed = store.replace_endpoint(own.clone(), after.clone(), line, NOW);
    let switched_off = Endpoint {
        off: vec![(NOW, None)],
        ..after
    };
    assert_eq!(changed.await, Ok(EndpointReplaced::Done(switched_off)));
    let deleted = store.delete_endpoint(own.id, audited("endpoint.delete"), NOW);
    assert!(deleted.await.unwrap().is_some());
    let listed = store.endpoints(own.owner, None, first(9)).await.unwrap();
    assert_eq!(page(listed).items, []);
    let listed = store.endpoints(merchants.owner, None, first(9)).await;
    assert_eq!(page(listed.unwrap()).items, [merchants]);
}

pub async fn creations_at_once_of_one_address_have_one_winner(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let racing = (0..32).map(|each| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            let name = format!("e{each}");
            let endpoint = Endpoint {
                url: "https://one.example/".into(),
                ..endpoint(&name, NOW)
            };
            let created =
                store.create_endpoint(endpoint, secrets(&name), audited("endpoint.create"), NOW);
            created.await.unwrap()
        })
    });
    let (mut won, mut told) = (Vec::new(), Vec::new());
    for racer in racing.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            EndpointCreated::Done(endpoint) => won.push(endpoint.id),
            EndpointCreated::Taken(id) => told.push(id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((won.len(), told.len()), (1, 31));
    assert!(told.iter().all(|id| *id == won[0]));
}

pub async fn an_owner_has_so_many_endpoints_in_each_environment(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    for at in 0..Endpoint::MAX_PER_OWNER {
        listen(&store, endpoint(&format!("e{at}"), NOW)).await;
    }
    let live = Endpoint {
        environment: Environment::Live,
        ..endpoint("live", NOW)
    };
    listen(&store, live).await;
    let add = |name: &str| {
        store.create_endpoint(
            endpoint(name, NOW),
            secrets(name),
            audited("endpoint.create"),
            NOW,
        )
    };
    assert_eq!(add("more").await, Ok(EndpointCreated::TooMany));
    let gone = endpoint("e7", NOW).id;
    store
        .delete_endpoint(gone, audited("endpoint.delete"), NOW)
        .await
        .unwrap();
    assert!(matches!(add("more").await, Ok(EndpointCreated::Done(_))));
}

pub async fn endpoints_and_deliveries_of_one_environment_are_listed_alone(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let named = |name: &str, environment, at| Endpoint {
        environment,
        ..endpoint(name, later(at))
    };
    let (live, test) = (Environment::Live, Environment::Test);
    let mut made = Vec::new();
    for (at, environment) in [test, live, live, test].into_iter().enumerate() {
        let endpoint = named(&format!("e{at}"), environment, at as u64);
        made.push(listen(&store, endpoint).await);
    }
    let owner = made[0].owner;
    let mut queued = Vec::new();
    for (at, endpoint) in made.iter().enumerate() {
        let line = audited("endpoint.test");
        let delivery = store.queue_test(endpoint.id, line, later(10 + at as u64));
        queued.push(delivery.await.unwrap().unwrap());
    }
    for (environment, own) in [(test, [3, 0]), (live, [2, 1])] {
        let (mut endpoints, mut deliveries) = (Vec::new(), Vec::new());
        let mut paging = first(1);
        loop {
            let listed = store.endpoints(owner, Some(environment), paging).await;
            let listed = page(listed.unwrap());
            endpoints.extend(listed.items);
            let Some(cursor) = listed.next else { break };
            paging = Paging {
                cursor: Some(cursor),
                limit: 1,
            };
        }
        assert_eq!(endpoints, own.map(|at| made[at].clone()));
        let mut paging = first(1);
        loop {
            let filter = DeliveryFilter {
                of: Some((owner, Some(environment))),
                ..DeliveryFilter::default()
            };
            let listed = page(store.deliveries(filter, paging).await.unwrap());
            deliveries.extend(listed.items);
            let Some(cursor) = listed.next else { break };
            paging = Paging {
                cursor: Some(cursor),
                limit: 1,
            };
        }
        assert_eq!(deliveries, own.map(|at| queued[at].clone()));
        let exhausted = DeliveryFilter {
            of: Some((owner, Some(environment))),
            status: Some(DeliveryStatus::Exhausted),
            ..DeliveryFilter::default()
        };
        let none = page(store.deliveries(exhausted, first(9)).await.unwrap());
        assert!(none.items.is_empty());
        // All parts of the filter must match.
        for (at, endpoint) in made.iter().enumerate() {
            let filter = DeliveryFilter {
                endpoint: Some(endpoint.id),
                of: Some((owner, Some(environment))),
                status: Some(DeliveryStatus::Pending),
                ..DeliveryFilter::default()
            };
            let listed = page(store.deliveries(filter, first(9)).await.unwrap());
            assert_eq!(listed.items.len(), usize::from(own.contains(&at)));
        }
    }
    let others = DeliveryFilter {
        of: Some((KeyOwner::Merchant(MerchantId(2)), Some(test))),
        ..DeliveryFilter::default()
    };
    let none = page(store.deliveries(others, first(9)).await.unwrap());
    assert!(none.items.is_empty());
}

pub async fn secrets_of_an_endpoint_rotate_and_survive(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    let endpoint = listen(&store, endpoint("a", NOW)).await;
    let hour = Duration::from_secs(3600);
    let rotate = |secret: &str, overlap| {
        store.rotate_endpoint(
            endpoint.id,
            Secret::new(secret),
            overlap,
            audited("endpoint.rotate"),
            NOW,
        )
    };
    let too_long = EndpointSecrets::MAX_OVERLAP + hour;
    let refused = rotate("whsec_x", too_long).await;
    assert_eq!(refused, Ok(EndpointRotated::OverlapTooLong));
    let done = EndpointRotated::Done {
        endpoint: endpoint.clone(),
        active_from: NOW.after(hour),
    };
    assert_eq!(rotate("whsec_new", hour).await, Ok(done));
    let nobody = store.rotate_endpoint(
        super::fixtures::endpoint("nobody", NOW).id,
        Secret::new("x"),
        hour,
        audited("endpoint.rotate"),
        NOW,
    );
    assert_eq!(nobody.await, Ok(EndpointRotated::Unknown));
    store.shut_down().await.unwrap();
    drop(store);

    let store = harness.open().await;
    let (read, secrets) = store.endpoint_secrets(endpoint.id).await.unwrap().unwrap();
    assert_eq!(read, endpoint);
    assert_eq!(secrets.signing(NOW).expose(), "whsec_a");
    assert_eq!(secrets.signing(NOW.after(hour)).expose(), "whsec_new");
}
