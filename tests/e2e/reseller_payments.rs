//! A reseller's payments: create, replay, start, read and list.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::shared;
use crate::reseller_calls::{PAYMENTS, START, delegated};
use crate::reseller_endpoints::names;

const PAYMENT: [&str; 10] = [
    "amount",
    "checkout_url",
    "currency",
    "order_id",
    "payment_id",
    "payment_method",
    "settlement_status",
    "status",
    "test_mode",
    "usd_amount",
];

fn sorted(object: &Value) -> Vec<&str> {
    let mut names = names(object);
    names.sort_unstable();
    names
}

fn with_more() -> Vec<&'static str> {
    let mut names = [&PAYMENT[..], &["client_ref", "merchant_id"]].concat();
    names.sort_unstable();
    names
}

/// The same in a list.
fn listed() -> Vec<&'static str> {
    let more = [
        "completed_at",
        "created_at",
        "customer_email",
        "metadata",
        "refunded_amount",
    ];
    let mut names = [&with_more()[..], &more].concat();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_delegated_payment_is_the_merchants_and_only_the_reseller_starts_it() {
    let server = shared().await;
    let (reseller, merchant, merchant_key) = server.reselling().await;
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let asked = delegated(merchant, direct);
    let made = server
        .reseller_post(&reseller.live, PAYMENTS, &asked)
        .await
        .expect(200);
    assert_eq!(made.header("idempotent-replayed"), None);
    let payment = made.json();
    assert_eq!(sorted(&payment), PAYMENT);
    assert_eq!(payment["status"], "created");
    assert_eq!(
        (&payment["amount"], &payment["usd_amount"]),
        (&json!("49.90"), &json!("53.89"))
    );
    assert_eq!(payment["test_mode"], false);

    // The reseller's response contains its reference; the merchant's does not.
    let id = payment["payment_id"].as_str().unwrap();
    let path = format!("{PAYMENTS}/{id}");
    let read = server
        .reseller_get(&reseller.live, &path)
        .await
        .expect(200)
        .json();
    assert_eq!(sorted(&read), with_more());
    assert_eq!(read["client_ref"], asked["client_ref"]);
    assert_eq!(read["merchant_id"], merchant);
    assert_eq!(server.payment(&merchant_key, &payment).await, payment);

    server
        .start(&merchant_key, &payment, "ideal")
        .await
        .expect(409)
        .error();
    let start = json!({ "payment_id": id, "payment_method": "ideal" });
    let started = server
        .reseller_post(&reseller.live, START, &start)
        .await
        .expect(200)
        .json();
    assert_eq!(sorted(&started), ["payment_id", "redirect_url"]);
    assert_eq!(started["payment_id"], id);
    let again = server.reseller_post(&reseller.live, START, &start).await;
    assert_eq!(again.expect(200).json(), started);
    server
        .pay(started["redirect_url"].as_str().unwrap(), "approve")
        .await
        .expect(303);
    server.until(&merchant_key, &payment, "completed").await;
    let read = server
        .reseller_get(&reseller.live, &path)
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&read["status"], &read["settlement_status"]),
        (&json!("completed"), &json!("confirmed"))
    );
    server
        .reseller_post(&reseller.live, START, &start)
        .await
        .expect(409)
        .error();
}

#[tokio::test]
async fn what_cannot_be_started_is_told_so() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let key = &reseller.test;
    let start = async |payment: &Value, more: Value| {
        let mut body = json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
        crate::harness::merge(&mut body, more);
        server.reseller_post(key, START, &body).await
    };
    let hosted = server.make_delegated(key, merchant, json!({})).await;
    start(&hosted, json!({})).await.expect(409).error();
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let direct = server.make_delegated(key, merchant, direct).await;
    start(&direct, json!({ "payment_method": "paypal" }))
        .await
        .expect(409)
        .error();
    // The merchant's policy does not allow the caller to choose the account.
    let chosen = json!({ "provider_id": "sandbox-test" });
    start(&direct, chosen).await.expect(403).error();
    for (more, field) in [
        (json!({ "payment_method": "cash" }), "payment_method"),
        (json!({ "payment_id": "7" }), "payment_id"),
        (json!({ "wallet": "x" }), "wallet"),
        (json!({ "payment_method": null }), "payment_method"),
    ] {
        let told = start(&direct, more).await.expect(422).error();
        assert!(told.contains(field), "{told}");
    }
    let nobodys = json!({ "payment_id": "0".repeat(32) });
    start(&direct, nobodys).await.expect(404).error();
    start(&direct, json!({})).await.expect(200);
}

#[tokio::test]
async fn no_reseller_overrides_what_the_merchant_has_decided() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let policy = json!({ "policy": {
        "max_usd": "100.00", "methods": { "ideal": { "enabled": false } },
    } });
    server.change_merchant(merchant, policy).await;
    for key in [&reseller.test, &reseller.live] {
        for field in [
            "wallet",
            "max_usd",
            "review_over_usd",
            "fee",
            "providers",
            "provider_id",
            "merchant",
            "idempotency_key",
            "usd_amount",
            "test_mode",
            "environment",
            "status",
        ] {
            let mut body = delegated(merchant, json!({}));
            body[field] = json!("1.00");
            let told = server
                .reseller_post(key, PAYMENTS, &body)
                .await
                .expect(422)
                .error();
            assert!(told.contains(field), "{told}");
        }
        for more in [
            json!({ "amount": "200.00" }),
            json!({ "currency": "PLN" }),
            json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
            json!({ "checkout_mode": "direct" }),
            json!({ "payment_method": "interac" }),
            json!({ "return_url": "https://not-verified.example/thanks" }),
            json!({ "return_url": "http://shop.example/thanks" }),
            json!({ "customer_email": "nobody" }),
            json!({ "amount": 49.9 }),
            json!({ "currency": null }),
            json!({ "merchant_id": merchant.to_string() }),
            json!({ "client_ref": "with space" }),
        ] {
            let body = delegated(merchant, more.clone());
            let refused = server.reseller_post(key, PAYMENTS, &body).await;
            assert_eq!(refused.status, 422, "{more}: {}", refused.text);
            refused.error();
        }
        server.make_delegated(key, merchant, json!({})).await;
    }
    // Live payments need the merchant's approval for live; test payments do not.
    server
        .change_merchant(merchant, json!({ "live_approved": false }))
        .await;
    let body = delegated(merchant, json!({}));
    server
        .reseller_post(&reseller.live, PAYMENTS, &body)
        .await
        .expect(403)
        .error();
    server
        .make_delegated(&reseller.test, merchant, json!({}))
        .await;
}

#[tokio::test]
async fn sixty_four_requests_with_one_client_ref_make_one_payment() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    for key in [&reseller.test, &reseller.live] {
        for _ in 0..3 {
            let same = delegated(merchant, json!({}));
            let mut other = same.clone();
            other["amount"] = json!("49.91");
            let asked = (0..64).map(|each| {
                let body = if each % 4 == 3 { &other } else { &same };
                server.reseller_post(key, PAYMENTS, body)
            });
            let mut ids = HashSet::new();
            let (mut first, mut replayed, mut differed) = (0, 0, 0);
            for answer in join_all(asked).await {
                match (answer.status, answer.header("idempotent-replayed")) {
                    (200, None) => first += 1,
                    (200, Some("true")) => replayed += 1,
                    (409, None) => {
                        answer.error();
                        differed += 1;
                        continue;
                    }
                    told => panic!("{told:?} {}", answer.text),
                }
                let payment = answer.json();
                ids.insert(payment["payment_id"].as_str().unwrap().to_owned());
            }
            assert_eq!((ids.len(), first), (1, 1));
            // Requests with the amount that came first are replays; the others conflict.
            assert!(
                [(47, 16), (15, 48)].contains(&(replayed, differed)),
                "{replayed} {differed}"
            );
        }
    }
}

#[tokio::test]
async fn a_client_ref_is_one_space_across_environments_and_merchants() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let (second, ..) = server.merchant(json!({})).await;
    server.set_standing(&reseller, second, "authorized").await;
    let asked = delegated(merchant, json!({ "customer_email": "a@shop.example" }));
    let made = server.reseller_post(&reseller.test, PAYMENTS, &asked).await;
    let made = made.expect(200).json();
    let differs = async |key: &str, more: Value| {
        let mut other = asked.clone();
        crate::harness::merge(&mut other, more);
        server
            .reseller_post(key, PAYMENTS, &other)
            .await
            .expect(409)
            .error();
    };
    differs(&reseller.live, json!({})).await;
    differs(&reseller.test, json!({ "merchant_id": second })).await;
    differs(&reseller.test, json!({ "order_id": "another" })).await;
    differs(
        &reseller.test,
        json!({ "customer_email": "b@shop.example" }),
    )
    .await;
    let replayed = server.reseller_post(&reseller.test, PAYMENTS, &asked).await;
    let replayed = replayed.expect(200);
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.json(), made);
    // References of another reseller and idempotency keys of merchants are independent.
    let other = server.reseller().await;
    server.set_standing(&other, merchant, "authorized").await;
    let theirs = server
        .reseller_post(&other.test, PAYMENTS, &asked)
        .await
        .expect(200);
    assert_ne!(theirs.json()["payment_id"], made["payment_id"]);
}

#[tokio::test]
async fn pages_are_newest_first_and_whole_while_payments_arrive() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let (second, ..) = server.merchant(json!({})).await;
    server.set_standing(&reseller, second, "authorized").await;
    for key in [&reseller.test, &reseller.live] {
        let mut made = Vec::new();
        for _ in 0..25 {
            let payment = server.make_delegated(key, merchant, json!({})).await;
            made.push(payment["payment_id"].as_str().unwrap().to_owned());
            // Payments of another merchant must not be in the list.
            server.make_delegated(key, second, json!({})).await;
        }
        let mut seen: Vec<String> = Vec::new();
        let mut cursor = None::<String>;
        loop {
            let mut target = format!("{PAYMENTS}?merchant_id={merchant}&limit=7");
            if let Some(cursor) = &cursor {
                target.push_str(&format!("&cursor={cursor}"));
            }
            let page = server.reseller_get(key, &target).await.expect(200).json();
            assert_eq!(sorted(&page), ["next_cursor", "payments"]);
            let payments = page["payments"].as_array().unwrap();
            for payment in payments {
                assert_eq!(sorted(payment), listed());
                assert_eq!(payment["merchant_id"], merchant);
                seen.push(payment["payment_id"].as_str().unwrap().to_owned());
            }
            // New payments arrive between two pages.
            for _ in 0..3 {
                server.make_delegated(key, merchant, json!({})).await;
            }
            match page["next_cursor"].as_str() {
                Some(next) => {
                    assert_eq!(payments.len(), 7);
                    cursor = Some(next.to_owned());
                }
                None => break,
            }
        }
        // IDs start with the time in milliseconds; those of the same millisecond are in any order.
        let time = |id: &String| id[..12].to_owned();
        assert!(seen.is_sorted_by(|newer, older| time(newer) >= time(older)));
        seen.sort();
        made.sort();
        assert_eq!(seen, made);
        let all = format!("{PAYMENTS}?merchant_id={merchant}&limit=100");
        let all = server.reseller_get(key, &all).await.expect(200).json();
        assert_eq!(all["payments"].as_array().unwrap().len(), 25 + 4 * 3);
        assert_eq!(all["next_cursor"], Value::Null);
    }
}

#[tokio::test]
async fn a_reseller_chooses_among_its_own_payments_by_order_status_and_time() {
    let server = shared().await;
    let (reseller, merchant, live) = server.reselling().await;
    let other = server.reseller().await;
    server.set_standing(&other, merchant, "authorized").await;
    let same = json!({ "order_id": "the same order" });
    let mut own = Vec::new();
    for _ in 0..3 {
        let made = server.make_delegated(&reseller.live, merchant, same.clone());
        own.push(made.await);
        server
            .make_delegated(&reseller.live, merchant, json!({}))
            .await;
    }
    // Payments of the merchant itself, of another reseller and of the other environment are not listed.
    server.create(&live, same.clone()).await;
    for key in [&other.live, &reseller.test] {
        server.make_delegated(key, merchant, same.clone()).await;
    }
    let found = async |query: &str| {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let target = format!("{PAYMENTS}?merchant_id={merchant}&limit=1&{query}{cursor}");
            let page = server.reseller_get(&reseller.live, &target).await;
            let page = page.expect(200).json();
            for payment in page["payments"].as_array().unwrap() {
                assert_eq!(sorted(payment), listed());
                ids.push(payment["payment_id"].clone());
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids,
            }
        }
    };
    let ids = |which: &[usize]| -> Vec<Value> {
        let ids = which.iter().map(|nth| own[*nth]["payment_id"].clone());
        ids.collect()
    };
    assert_eq!(found("order_id=the%20same%20order").await, ids(&[2, 1, 0]));
    server.cancel(&own[1]).await.expect(200);
    assert_eq!(found("status=cancelled").await, ids(&[1]));
    assert_eq!(
        found("order_id=the%20same%20order&status=created").await,
        ids(&[2, 0])
    );
    let path = format!(
        "{PAYMENTS}/{}/details",
        own[1]["payment_id"].as_str().unwrap()
    );
    let told = server.reseller_get(&reseller.live, &path).await;
    let told = told.expect(200).json();
    let at = told["created_at"].as_str().unwrap();
    let of_order = "order_id=the%20same%20order";
    let since = found(&format!("{of_order}&since={at}")).await;
    assert_eq!(since, ids(&[2, 1]));
    let until = found(&format!("{of_order}&until={at}")).await;
    assert_eq!(until, ids(&[0]));
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_told() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    for query in [
        String::new(),
        "?merchant_id=".into(),
        "?merchant_id=x".into(),
        "?merchant_id=0".into(),
        "?merchant_id=-1".into(),
        format!("?merchant_id=0{merchant}"),
        format!("?merchant_id={merchant}&merchant_id={merchant}"),
        format!("?merchant_id={merchant}&limit=0"),
        format!("?merchant_id={merchant}&limit=101"),
        format!("?merchant_id={merchant}&limit="),
        format!("?merchant_id={merchant}&limit=5&limit=5"),
        format!("?merchant_id={merchant}&cursor=no-cursor-of-ours"),
        format!("?merchant_id={merchant}&status=paid"),
        format!("?merchant_id={merchant}&order_id="),
        format!("?merchant_id={merchant}&since=yesterday"),
        format!("?merchant_id={merchant}&until=2026-03-01"),
        format!("?merchant_id={merchant}&until=x&until=x"),
        "?status=created".into(),
        format!("?merchant_id={merchant}&Limit=5"),
    ] {
        let target = format!("{PAYMENTS}{query}");
        for key in [&reseller.test, &reseller.live] {
            let refused = server.reseller_get(key, &target).await;
            assert_eq!(refused.status, 422, "{target}: {}", refused.text);
            refused.error();
        }
    }
    // The default limit is 50.
    for _ in 0..51 {
        server
            .make_delegated(&reseller.test, merchant, json!({}))
            .await;
    }
    let listed = format!("{PAYMENTS}?merchant_id={merchant}");
    let listed = server
        .reseller_get(&reseller.test, &listed)
        .await
        .expect(200)
        .json();
    assert_eq!(listed["payments"].as_array().unwrap().len(), 50);
    assert!(listed["next_cursor"].is_string());
}

#[tokio::test]
async fn a_reseller_refunds_its_payment_once_per_key_while_the_delegation_allows_it() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let shop = server.refund_key(merchant, "live").await;
    let scopes = json!({ "environment": "live", "scopes": ["reseller:refund"] });
    let (_, key) = server.reseller_key(reseller.id, scopes).await;
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server
        .make_delegated(&reseller.live, merchant, direct)
        .await;
    let id = payment["payment_id"].as_str().unwrap();
    let start = json!({ "payment_id": id, "payment_method": "ideal" });
    let started = server.reseller_post(&reseller.live, START, &start).await;
    let page = started.expect(200).json()["redirect_url"].clone();
    server
        .pay(page.as_str().unwrap(), "approve")
        .await
        .expect(303);
    server.until(&shop, &payment, "completed").await;

    let path = format!("{PAYMENTS}/{id}/refunds");
    let body = json!({ "idempotency_key": "refund-1042", "amount": "10.00" });
    let code = |answer: crate::harness::Answer| answer.expect(403).json()["code"].clone();
    let refused = server.reseller_post(&reseller.live, &path, &body).await;
    assert_eq!(code(refused), "missing_scope");
    let refused = server.reseller_post(&key, &path, &body).await;
    assert_eq!(code(refused), "reseller_refund_not_allowed");
    let (other, ..) = server.reselling().await;
    let scopes = json!({ "environment": "live", "scopes": ["reseller:refund"] });
    let (_, theirs) = server.reseller_key(other.id, scopes).await;
    let unknown = server.reseller_post(&theirs, &path, &body).await;
    unknown.expect(404).error();

    let delegation = format!("/resellers/{}/delegations/{merchant}", reseller.id);
    let decide = async |status: &str, refunds: bool| {
        let body = json!({
            "status": status, "refunds": refunds, "actor": "ann", "reason": "contract of March"
        });
        let decided = server.admin("PUT", &delegation, Some(&body)).await;
        decided.expect(200).json()
    };
    assert_eq!(decide("authorized", true).await["refunds"], true);

    let made = server.reseller_post(&key, &path, &body).await.expect(201);
    let refund = made.json();
    assert_eq!(
        (&refund["origin"], &refund["amount"], &refund["status"]),
        (&json!("reseller"), &json!("10.00"), &json!("succeeded"))
    );
    let again = server.reseller_post(&key, &path, &body).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), refund);
    let other = json!({ "idempotency_key": "refund-1042", "amount": "11.00" });
    let differs = server.reseller_post(&key, &path, &other).await.expect(409);
    assert_eq!(differs.json()["code"], "idempotency_conflict");
    // The merchant's keys are its own.
    let merchants = server.refund(&shop, &payment, body.clone()).await;
    let merchants = merchants.expect(201).json();
    assert_ne!(merchants["refund_id"], refund["refund_id"]);
    let rest = json!({ "idempotency_key": "refund-1043", "amount": "30.00" });
    let rest = server.reseller_post(&key, &path, &rest).await.expect(422);
    assert_eq!(rest.json()["code"], "more_than_left");
    let listed = server.reseller_get(&key, &path).await.expect(200).json();
    assert_eq!(listed["refunds"], json!([merchants, refund]));
    assert_eq!(server.refunds(&shop, &payment).await.len(), 2);

    assert_eq!(decide("revoked", true).await["refunds"], false);
    let refused = server.reseller_post(&key, &path, &body).await;
    assert_eq!(code(refused), "merchant_not_authorized");
    decide("authorized", false).await;
    let refused = server.reseller_post(&key, &path, &body).await;
    assert_eq!(code(refused), "reseller_refund_not_allowed");
}
