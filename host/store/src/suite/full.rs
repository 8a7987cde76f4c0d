//! A store with rows of every kind.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{EndpointId, PaymentId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::method::MethodId;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::signing::NONCE_LIFE;
use kassette_domain::webhook::{DeliveryAttempt, Tried};

use crate::suite::fixtures::*;
use crate::suite::refunds;
use crate::suite::resellers::everything_of_a_reseller;
use crate::{DeliveryFilter, Exchanged, RefundOrdered, Reserved, Retention, RoutingBatch, Store};

/// The payments of [`fill`] that were paid or can be.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// Writes rows of every kind.
pub async fn fill(store: &Arc<dyn Store>) {
    let merchant = shop(store).await;
    let listening = listen(store, endpoint("listening", NOW)).await;
    for name in NAMES {
        pay(store, name).await;
    }
    // Receiving more than due creates a work item.
    let mut returned = report("vendor-a", ProviderStatus::Overpaid);
    returned.received.0 = 5490;
    let paid = news("attempt of a", returned.clone());
    done(store, payment_of("a"), paid, later(1)).await;
    store.advance_closed_until(NOW, true).await.unwrap();
    returned.returned.0 = 100;
    returned.particulars.references = vec!["statement-a".into()];
    let step = news("attempt of a", returned);
    done(store, payment_of("a"), step, later(2)).await;
    let refund = refunds::order("a", "a", Some(1000));
    let payment = PaymentId::from_bytes(id_of("a"));
    let ordered = store.refund(payment, refund, None, None, later(3)).await;
    assert!(matches!(ordered, Ok(RefundOrdered::New { .. })));
    fail_a_delivery(store, listening.id).await;
    store
        .keep_callback(account("sandbox-test"), "unknown".into(), None, NOW)
        .await
        .unwrap();
    // The second frees the first.
    for at in [NOW.before(NONCE_LIFE), NOW] {
        let taken = store.reserve_nonce(nonce_of("a", at), at).await;
        assert_eq!(taken, Ok(Reserved::Fresh));
    }
    let mut noted = request("noted");
    noted.extras.notes = notes();
    let created = store.create(of_request("noted", noted), None, NOW);
    created.await.unwrap();
    everything_of_a_reseller(store).await;
    let code = connect_code("code", "https://shop.example", Environment::Test);
    let exchange = exchange_of(&code, "connected");
    store
        .issue_connect_code(code, audited("connect-code.create"), NOW)
        .await
        .unwrap();
    let exchanged = store.exchange(exchange, audited("connect.exchange"), NOW);
    assert!(matches!(exchanged.await, Ok(Exchanged::Done { .. })));
    let key = api_key("key", KeyOwner::Merchant(merchant), Environment::Test);
    let hash = key.hash;
    store
        .issue_key(key, audited("key.create"), NOW)
        .await
        .unwrap();
    store.keys_seen(vec![(hash, later(9))]).await.unwrap();
    store
        .create_operator(operator("ann", NOW), audited("operator.create"), NOW)
        .await
        .unwrap();
    let switched = audited("provider.change");
    store
        .switch_account(account("sandbox-test"), true, switched, NOW)
        .await
        .unwrap();
    for (number, method) in [(0, MethodId::Ideal), (1, MethodId::Paypal)] {
        let decisions = vec![
            routing_record(method, number),
            routing_record(method, number),
        ];
        let spoken = [conversation("provider.sandbox", number)];
        let decisions = RoutingBatch::group(&decisions).unwrap();
        let spoken = RoutingBatch::group(&spoken).unwrap();
        for batches in [decisions, spoken] {
            store.append_routing(batches, NOW).await.unwrap();
        }
    }
    for slot in ["method.ideal", "provider.sandbox"] {
        let counted = vec![(5, counts(1)), (25, counts(2))];
        let sums = store.count_trial(trial(slot, NOW), counted.clone()).await;
        assert_eq!(sums, Ok(counted));
    }
    // Some payments have ended and some have not when retention reaches them.
    let retention = Retention {
        personal_data: Some(Duration::from_secs(60)),
        ..Retention::default()
    };
    store.forget(retention, later(120)).await.unwrap();
    store.probe().await.unwrap();
}

/// Eight failed attempts with a long response.
async fn fail_a_delivery(store: &Arc<dyn Store>, endpoint: EndpointId) {
    let filter = DeliveryFilter {
        endpoint: Some(endpoint),
        ..DeliveryFilter::default()
    };
    let queued = page(store.deliveries(filter, first(9)).await.unwrap()).items;
    for after in 0..8 {
        let attempt = DeliveryAttempt {
            at: NOW,
            status: Some(503),
            duration_ms: 9,
            error: None,
            response: Some("busy ".repeat(200)),
        };
        let tried = Tried {
            attempt,
            after,
            delivered: false,
            retry_at: NOW,
        };
        store.tried(queued[0].id, tried, None, NOW).await.unwrap();
    }
}
