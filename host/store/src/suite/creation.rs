//! Exactly one payment per reference.

use std::sync::Arc;

use kassette_domain::extras::{Extras, Lifetime, Locale, Metadata, Notes};
use kassette_domain::id::{MerchantId, PaymentId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::{Act, Step};
use kassette_domain::money::Minor;
use kassette_domain::order::{ClientRef, Email};
use kassette_domain::payment::{Origin, Status};

use super::Harness;
use super::fixtures::*;
use crate::{Created, PaymentFilter};

/// The number of callers in the specification's example.
const CALLERS: usize = 64;

pub async fn the_same_request_at_once_makes_one_payment(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        let mut new = new_payment("a");
        new.id = PaymentId::from_bytes(id_of(&caller.to_string()));
        callers.push(tokio::spawn(
            async move { store.create(new, None, NOW).await },
        ));
    }
    let (mut made, mut replayed) = (Vec::new(), Vec::new());
    for caller in callers {
        match caller.await.unwrap().unwrap() {
            Created::New(payment) => made.push(payment),
            Created::Replay(payment) => replayed.push(payment),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made.len(), replayed.len()), (1, CALLERS - 1));
    assert!(replayed.iter().all(|payment| *payment == made[0]));
    let listed = store
        .payments(PaymentFilter::default(), first(100))
        .await
        .unwrap();
    assert_eq!(page(listed).items, made);
}

pub async fn differing_requests_with_one_reference_are_told_apart(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        let mut new = new_payment("a");
        new.id = PaymentId::from_bytes(id_of(&caller.to_string()));
        new.request.due.amount = Minor(100 + caller as u64);
        callers.push(tokio::spawn(
            async move { store.create(new, None, NOW).await },
        ));
    }
    let mut made = 0;
    for caller in callers {
        match caller.await.unwrap().unwrap() {
            Created::New(_) => made += 1,
            Created::Differs { field } => assert_eq!(field, "amount"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(made, 1);
}

pub async fn references_are_one_space_per_merchant_and_per_reseller(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    // The same idempotency key of another merchant is a different key.
    let mut other = request("a");
    other.merchant = MerchantId(2);
    let created = store.create(of_request("b", other), None, NOW).await;
    assert!(matches!(created.unwrap(), Created::New(_)));
    // Both environments share the key space.
    let mut live = request("a");
    live.environment = Environment::Live;
    let created = store.create(of_request("c", live), None, NOW).await;
    assert_eq!(
        created.unwrap(),
        Created::Differs {
            field: "environment"
        }
    );
    // A reseller's references are a separate space, across its merchants.
    let of_reseller = |name: &str, merchant, reseller| {
        let mut request = request("a");
        request.merchant = MerchantId(merchant);
        request.origin = Origin::Reseller {
            reseller: ResellerId(reseller),
            client_ref: ClientRef::parse("request-a").unwrap(),
        };
        of_request(name, request)
    };
    let created = store.create(of_reseller("d", 1, 1), None, NOW).await;
    assert!(matches!(created.unwrap(), Created::New(_)));
    let created = store.create(of_reseller("e", 2, 1), None, NOW).await;
    assert_eq!(
        created.unwrap(),
        Created::Differs {
            field: "merchant_id"
        }
    );
    let created = store.create(of_reseller("f", 1, 2), None, NOW).await;
    assert!(matches!(created.unwrap(), Created::New(_)));
}

pub async fn a_replay_is_found_before_anything_is_written(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(store.replay(request("a")).await.unwrap(), None);
    let payment = create(&store, "a", NOW).await;
    assert_eq!(
        store.replay(request("a")).await.unwrap(),
        Some(Created::Replay(payment))
    );
    let mut other = request("a");
    other.email = Some(Email::parse("another@example.org").unwrap());
    assert_eq!(
        store.replay(other).await.unwrap(),
        Some(Created::Differs {
            field: "customer_email"
        })
    );
}

pub async fn a_replay_shows_the_payment_as_it_stands(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    done(&store, payment_of("a"), Step::Act(Act::Cancel), later(5)).await;
    match store
        .create(new_payment("a"), None, later(9))
        .await
        .unwrap()
    {
        Created::Replay(payment) => {
            assert_eq!(payment.status, Status::Cancelled);
            assert_eq!(payment.created_at, NOW);
        }
        other => panic!("{other:?}"),
    }
}

pub async fn only_a_usable_key_of_the_owner_creates(harness: &dyn Harness) {
    let store = harness.open().await;
    let merchant = store
        .create_merchant(merchant(true), audited("merchant.create"), NOW)
        .await
        .unwrap();
    let owner = KeyOwner::Merchant(merchant.id);
    let mut expiring = api_key("expiring", owner, Environment::Test);
    expiring.expires_at = Some(later(10));
    for key in [
        expiring,
        api_key("revoked", owner, Environment::Test),
        api_key("live", owner, Environment::Live),
    ] {
        store
            .issue_key(key, audited("key.create"), NOW)
            .await
            .unwrap();
    }
    let id = api_key("revoked", owner, Environment::Test).id;
    store
        .revoke_key(id, audited("key.revoke"), NOW)
        .await
        .unwrap();
    let create = async |key: &str, name: &str, seconds| {
        let authority = Some(TokenHash::hash(key));
        store
            .create(new_payment(name), authority, later(seconds))
            .await
            .unwrap()
    };
    for refused in ["revoked", "unknown", "live"] {
        assert_eq!(create(refused, "a", 0).await, Created::KeyRefused);
    }
    assert!(matches!(create("expiring", "a", 9).await, Created::New(_)));
    assert_eq!(create("expiring", "b", 10).await, Created::KeyRefused);
    let mut foreign = request("c");
    foreign.merchant = MerchantId(77);
    let authority = Some(TokenHash::hash("expiring"));
    let created = store.create(of_request("c", foreign), authority, NOW).await;
    assert_eq!(created.unwrap(), Created::KeyRefused);
}

pub async fn additions_of_a_request_are_kept_and_compared(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut noted = request("a");
    noted.extras = Extras {
        lifetime: Lifetime {
            seconds: 3600,
            is_asked: true,
        },
        locale: Some(Locale::parse("de-AT").unwrap()),
        notes: notes(),
    };
    let mut new = of_request("a", noted.clone());
    new.expires_at = later(3600);
    let id = new.id;
    let Created::New(payment) = store.create(new, None, NOW).await.unwrap() else {
        panic!("it is not new");
    };
    let plain = create(&store, "b", NOW).await;
    assert_eq!(
        store.replay(noted.clone()).await.unwrap(),
        Some(Created::Replay(payment))
    );
    let differs = async |change: fn(&mut Extras), field| {
        let mut other = noted.clone();
        change(&mut other.extras);
        let replay = store.replay(other).await.unwrap();
        assert_eq!(replay, Some(Created::Differs { field }));
    };
    differs(|extras| extras.lifetime.seconds = 3601, "expires_in").await;
    differs(|extras| extras.lifetime = Lifetime::default(), "expires_in").await;
    differs(|extras| extras.locale = None, "locale").await;
    differs(
        |extras| extras.notes.metadata = Metadata::default(),
        "metadata",
    )
    .await;
    differs(|extras| extras.notes.description = None, "description").await;
    // Without `expires_in`, a changed setting makes no difference; nor does a request that names the same lifetime.
    let mut other_default = request("b");
    other_default.extras.lifetime.seconds = 60;
    let replay = Some(Created::Replay(plain.clone()));
    assert_eq!(store.replay(other_default).await.unwrap(), replay);
    let mut spelled_out = request("b");
    spelled_out.extras.lifetime.is_asked = true;
    assert_eq!(store.replay(spelled_out).await.unwrap(), replay);

    let history = store.history(id).await.unwrap().unwrap();
    assert_eq!(history.notes, notes());
    let listed = store.notes(vec![plain.id, id]).await.unwrap();
    assert_eq!(listed.into_iter().collect::<Vec<_>>(), [(id, notes())]);
    let history = store.history(plain.id).await.unwrap().unwrap();
    assert_eq!(history.notes, Notes::default());
}

pub async fn erased_notes_are_gone_and_still_compared(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut noted = request("a");
    noted.extras.notes = notes();
    let new = of_request("a", noted.clone());
    let id = new.id;
    store.create(new, None, NOW).await.unwrap();
    // A step rewrites the payment but not its notes.
    done(&store, payment_of("a"), Step::Act(Act::Cancel), later(1)).await;
    assert_eq!(store.notes(vec![id]).await.unwrap()[&id], notes());
    done(&store, payment_of("a"), Step::Redact, later(2)).await;
    assert!(store.notes(vec![id]).await.unwrap().is_empty());
    let history = store.history(id).await.unwrap().unwrap();
    assert_eq!(history.notes, Notes::default());
    let replay = store.replay(noted.clone()).await.unwrap();
    assert!(matches!(replay, Some(Created::Replay(_))), "{replay:?}");
    noted
        .extras
        .notes
        .metadata
        .add("more".into(), String::new())
        .unwrap();
    let field = "metadata";
    assert_eq!(
        store.replay(noted).await.unwrap(),
        Some(Created::Differs { field })
    );
}

pub async fn an_erased_address_is_still_compared(harness: &dyn Harness) {
    let store = harness.open().await;
    create(&store, "a", NOW).await;
    let (aggregate, _) = done(&store, payment_of("a"), Step::Redact, NOW).await;
    assert_eq!(aggregate.payment.email, None);
    let replay = store.replay(request("a")).await.unwrap();
    assert!(matches!(replay, Some(Created::Replay(_))), "{replay:?}");
    let mut other = request("a");
    other.email = None;
    assert_eq!(
        store.replay(other).await.unwrap(),
        Some(Created::Differs {
            field: "customer_email"
        })
    );
}
