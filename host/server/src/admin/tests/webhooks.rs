//! Webhook endpoints and the delivery log: secrets shown once, URLs checked, changes audited.

use std::time::Duration;

use super::*;

const EVENTS: [&str; 15] = [
    "payment.pending",
    "payment.processing",
    "payment.verification_pending",
    "payment.review",
    "payment.completed",
    "payment.failed",
    "payment.cancelled",
    "payment.expired",
    "payment.refunded",
    "payment.disputed",
    "webhook.test",
    "payment.refund_failed",
    "payment.dispute_closed",
    "payment.capture_reversed",
    "webhook.disabled",
];
const URL: &str = "https://shop.example/webhooks?a=b";
/// An id that does not exist.
const NOBODY: &str = "00000000000000000000000000000000";

/// Creates an endpoint; returns its id and secret.
async fn create(world: &World, merchant: u64, more: Value) -> (String, String) {
    let mut body = json!({ "url": URL, "environment": "test" });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    let made = world.call(&world.operator, Method::POST, &path, Some(body));
    let made = made.await.is(201).as_object().unwrap().clone();
    assert_eq!(made.len(), 2, "id and secret");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// Decodes `\\u{…}` and `\\\\` of the corpus.
fn unescaped(text: &str) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        whole.push_str(before);
        rest = if let Some(after) = after.strip_prefix('\\') {
            whole.push('\\');
            after
        } else {
            let (code, after) = after.strip_prefix("u{").unwrap().split_once('}').unwrap();
            whole.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
            after
        };
    }
    whole + rest
}

async fn endpoints(world: &World, merchant: u64) -> Vec<Value> {
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    let listed = world.get(&path).await.is(200).clone();
    listed["webhook_endpoints"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_secret_is_shown_once_and_never_again() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, secret) = create(&world, merchant, json!({})).await;
    let drawn = secret.strip_prefix("whsec_").unwrap();
    assert!(drawn.len() == 44 && drawn.bytes().all(|b| b.is_ascii_alphanumeric()));
    assert_eq!(world.last_line().await["action"], "endpoint.create");
    let rotated = world
        .post(&format!("/webhook-endpoints/{id}/rotate"), json!({}))
        .await;
    let second = rotated.is(200)["secret"].as_str().unwrap().to_owned();
    assert_ne!(second, secret);
    let tested = world
        .post(&format!("/webhook-endpoints/{id}/test"), json!({}))
        .await;
    let delivery = tested.is(201)["delivery_id"].as_str().unwrap().to_owned();
    for path in [
        format!("/merchants/{merchant}/webhook-endpoints"),
        format!("/webhook-endpoints/{id}"),
        "/deliveries".to_owned(),
        format!("/deliveries/{delivery}"),
        "/audit?limit=100".to_owned(),
    ] {
        let shown = world.get(&path).await.is(200).to_string();
        assert!(!shown.contains(drawn) && !shown.contains(&second), "{path}");
        assert!(!shown.contains("whsec_"), "{path}");
    }
}

#[tokio::test]
async fn an_endpoint_is_shown_as_it_was_made_and_changed() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(&world, merchant, json!({})).await;
    let path = format!("/webhook-endpoints/{id}");
    let shown = world.get(&path).await.is(200).clone();
    assert_eq!(
        shown,
        json!({
            "id": id, "merchant_id": merchant, "reseller_id": null, "url": URL, "environment": "test",
            "event_types": EVENTS, "enabled": true, "circuit": "closed", "secret_changes_at": null,
            "created_at": shown["created_at"], "created_by": shown["created_by"],
        })
    );
    let by = shown["created_by"].as_str().unwrap();
    assert!(by.starts_with("operator/"), "{by}");
    assert_eq!(endpoints(&world, merchant).await, [shown]);

    let elsewhere = json!({ "url": "https://other.example/" });
    let changed = world.patch(&path, elsewhere).await.is(200).clone();
    assert_eq!(changed["url"], "https://other.example/");
    assert_eq!(
        changed["event_types"],
        json!(EVENTS),
        "what is not said stays"
    );
    let fewer = json!({ "event_types": ["webhook.test", "payment.completed"], "enabled": false });
    let changed = world.patch(&path, fewer).await.is(200).clone();
    assert_eq!(
        (&changed["event_types"], &changed["enabled"]),
        (&json!(["payment.completed", "webhook.test"]), &json!(false))
    );
    let line = world.last_line().await;
    assert_eq!(line["action"], "endpoint.change");
    assert_eq!(line["object"], format!("endpoint/{id}"));
    assert_eq!(line["before"]["enabled"], true);
    assert_eq!(line["after"]["enabled"], false);
    let reset = json!({ "event_types": null });
    let changed = world.patch(&path, reset).await.is(200).clone();
    assert_eq!(changed["event_types"], json!(EVENTS), "null resets");
    assert_eq!(changed["enabled"], false);
    let nothing = world.patch(&path, json!({})).await.is(200).clone();
    assert_eq!(nothing, changed);

    world.delete(&path).await.is(204);
    assert_eq!(world.last_line().await["action"], "endpoint.delete");
    world.get(&path).await.refused(404);
    assert!(endpoints(&world, merchant).await.is_empty());
}

#[tokio::test]
async fn what_is_no_destination_is_refused_with_a_reason() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    let (id, _) = create(&world, merchant, json!({})).await;
    for url in [
        "http://shop.example/",
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://8.8.8.8/",
        "https://localhost/",
        "https://metadata.google.internal/",
        "https://user@shop.example/",
        "https://shop.example/#x",
        "https://shop.example:0/",
        "https://shop.example\\@evil.example/",
        " https://shop.example/",
        "https://shop.example/\u{200b}",
        "shop.example",
        "",
        "https://pay.example/callbacks/stripe-live",
        "https://pay.example/",
        "https://PAY.example:443/",
        "https://p%61y.example/",
    ] {
        let body = json!({ "url": url, "environment": "test" });
        let refused = world.post(&path, body).await;
        let why = refused.refused(422).to_owned();
        assert!(why.starts_with("url: ") && why.len() > 20, "{url}: {why}");
        let refused = world
            .patch(&format!("/webhook-endpoints/{id}"), json!({ "url": url }))
            .await;
        assert_eq!(refused.refused(422), why, "{url}");
    }
    let long = format!("https://shop.example/{}", "a".repeat(3000));
    let body = json!({ "url": long, "environment": "test" });
    world.post(&path, body).await.refused(422);
    // Another port of our host is another server, and a name that does not resolve now may resolve later.
    create(
        &world,
        merchant,
        json!({ "url": "https://pay.example:8443/" }),
    )
    .await;
    create(
        &world,
        merchant,
        json!({ "url": "https://nothing.invalid/" }),
    )
    .await;
}

#[tokio::test]
async fn a_second_endpoint_of_the_same_address_is_refused_and_told_which_one_has_it() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (first, _) = create(&world, merchant, json!({})).await;
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    let body = json!({ "url": URL, "environment": "test" });
    let refused = world.post(&path, body).await;
    assert!(refused.refused(409).contains(&first));
    assert_eq!(refused.body["code"], "webhook_endpoint_exists");
    create(&world, merchant, json!({ "environment": "live" })).await;
    let elsewhere = json!({ "url": "https://shop.example/elsewhere" });
    let (second, _) = create(&world, merchant, elsewhere).await;
    let path = format!("/webhook-endpoints/{second}");
    let refused = world.patch(&path, json!({ "url": URL })).await;
    assert!(refused.refused(409).contains(&first));
}

#[tokio::test]
async fn every_hostile_address_that_its_text_gives_away_is_refused() {
    /// The corpus of the guarded client: rule, URL, reason, and for names their addresses.
    const CORPUS: &str = include_str!("../../../../http/tests/hostile.tsv");
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let path = format!("/merchants/{merchant}/webhook-endpoints");
    let mut refused = 0;
    let lines = CORPUS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines.filter(|line| !line.starts_with("leads-inside")) {
        let url = line.split('\t').nth(1).unwrap();
        let url = url
            .replace("{port}", "8443")
            .replace("{own4}", "192.168.7.7")
            .replace("{own6}", "fd00::7");
        let url = unescaped(&url);
        let body = json!({ "url": url, "environment": "test" });
        world.post(&path, body).await.refused(422);
        refused += 1;
    }
    assert!(refused > 300, "{refused}");
    assert!(endpoints(&world, merchant).await.is_empty());
}

#[tokio::test]
async fn fields_that_are_wrong_are_named() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(&world, merchant, json!({})).await;
    let fine = json!({ "url": URL, "environment": "test" });
    for (name, value) in [
        ("url", Value::Null),
        ("url", json!(7)),
        ("environment", Value::Null),
        ("environment", json!("prod")),
        ("event_types", json!("payment.completed")),
        ("event_types", json!([])),
        ("event_types", json!([7])),
        ("event_types", json!(["payment.created"])),
        ("event_types", json!(["PAYMENT.COMPLETED"])),
        ("event_types", json!(["webhook.test", "webhook.test"])),
        ("secret", json!("whsec_mine")),
    ] {
        let mut body = fine.clone();
        body[name] = value;
        let path = format!("/merchants/{merchant}/webhook-endpoints");
        let refused = world.post(&path, body).await;
        assert!(refused.refused(422).contains(name), "{name}");
    }
    for body in [
        json!({ "url": null }),
        json!({ "enabled": null }),
        json!({ "enabled": "false" }),
        json!({ "environment": "live" }),
        json!({ "event_types": ["payment.created"] }),
    ] {
        let path = format!("/webhook-endpoints/{id}");
        world.patch(&path, body).await.refused(422);
    }
    let now = world.clock.now();
    let later = now.after(Duration::from_secs(60)).rfc3339();
    for (act, body) in [
        ("rotate", json!({ "overlap_hours": 73 })),
        ("rotate", json!({ "overlap_hours": -1 })),
        ("rotate", json!({ "overlap_hours": 1.5 })),
        ("recover", json!({})),
        ("recover", json!({ "since": "yesterday" })),
        ("recover", json!({ "since": later })),
        ("test", json!({ "x": 1 })),
        ("deliver", json!({ "since": "2020-01-01T00:00:00Z" })),
    ] {
        let path = format!("/webhook-endpoints/{id}/{act}");
        world.post(&path, body).await.refused(422);
    }
    for query in ["status=lost", "endpoint_id=x", "limit=0", "payment_id=x"] {
        let path = format!("/deliveries?{query}");
        world.get(&path).await.refused(422);
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let world = World::new().await;
    let fine = json!({ "url": URL, "environment": "test" });
    world
        .post("/merchants/99/webhook-endpoints", fine)
        .await
        .refused(404);
    world
        .get("/merchants/99/webhook-endpoints")
        .await
        .refused(404);
    for id in [NOBODY, "x", "%ff"] {
        let path = format!("/webhook-endpoints/{id}");
        world.get(&path).await.refused(404);
        world.patch(&path, json!({})).await.refused(404);
        world.delete(&path).await.refused(404);
        for (act, body) in [
            ("test", json!({})),
            ("rotate", json!({})),
            ("deliver", json!({})),
            ("recover", json!({ "since": "2020-01-01T00:00:00Z" })),
        ] {
            let path = format!("/webhook-endpoints/{id}/{act}");
            world.post(&path, body).await.refused(404);
        }
        world.get(&format!("/deliveries/{id}")).await.refused(404);
        world
            .post(&format!("/deliveries/{id}/redeliver"), json!({}))
            .await
            .refused(404);
    }
    let none = world
        .get(&format!("/deliveries?endpoint_id={NOBODY}"))
        .await;
    assert_eq!(none.is(200)["deliveries"], json!([]));
}

#[tokio::test]
async fn what_waits_is_made_due_and_that_is_a_line_of_the_audit_log() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(&world, merchant, json!({})).await;
    let path = format!("/webhook-endpoints/{id}");
    world.post(&format!("{path}/test"), json!({})).await.is(201);
    let deliver = format!("{path}/deliver");
    let made = world
        .post(&deliver, json!({ "reason": "it is back" }))
        .await;
    assert_eq!(
        made.is(200),
        &json!({ "deliveries": 0 }),
        "it is due already"
    );
    let line = world.last_line().await;
    assert_eq!(
        (&line["action"], &line["reason"], &line["object"]),
        (
            &json!("endpoint.deliver"),
            &json!("it is back"),
            &json!(format!("endpoint/{id}"))
        )
    );
    world
        .patch(&path, json!({ "enabled": false }))
        .await
        .is(200);
    let refused = world.post(&deliver, json!({})).await;
    assert!(refused.refused(409).contains("enable it first"));
}

#[tokio::test]
async fn a_reseller_s_endpoint_is_managed_as_a_merchant_s() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (merchants, _) = create(&world, merchant, json!({})).await;
    let made = world.post("/resellers", json!({ "name": "Agency" })).await;
    let reseller = made.is(201)["reseller_id"].clone();
    let path = format!("/resellers/{reseller}/webhook-endpoints");
    let asked = json!({ "url": URL, "environment": "test", "reason": "ticket 9" });
    let made = world.post(&path, asked.clone()).await.is(201).clone();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let id = made["id"].as_str().unwrap();
    let line = world.last_line().await;
    assert_eq!(
        (&line["action"], &line["reason"]),
        (&json!("endpoint.create"), &json!("ticket 9"))
    );
    assert_eq!(line["after"]["reseller_id"], reseller);
    let taken = world.post(&path, asked).await;
    assert!(taken.refused(409).contains(id));
    let missing = world.post("/resellers/99/webhook-endpoints", json!({}));
    assert_eq!(missing.await.refused(404), "reseller not found");

    let shown = world.get(&format!("/webhook-endpoints/{id}")).await;
    let shown = shown.is(200).clone();
    assert_eq!(
        (&shown["merchant_id"], &shown["reseller_id"]),
        (&Value::Null, &reseller)
    );
    let listed = world.get(&path).await.is(200).clone();
    assert_eq!(listed["webhook_endpoints"], json!([shown]));
    assert_eq!(endpoints(&world, merchant).await[0]["id"], merchants);
    let test = format!("/webhook-endpoints/{id}/test");
    world.post(&test, json!({})).await.is(201);
    let deliver = "/webhook-endpoints/deliver";
    let own = json!({ "reseller_id": reseller });
    let made = world.post(deliver, own).await.is(200).clone();
    assert_eq!(made["endpoints"], 1);
    for (wrong, said) in [
        (json!({ "reseller_id": 1, "merchant_id": 1 }), "reseller_id"),
        (json!({ "reseller_id": 1, "all": true }), "all"),
    ] {
        let refused = world.post(deliver, wrong).await;
        assert!(refused.refused(422).contains(said), "{said}");
    }
    let missing = world.post(deliver, json!({ "reseller_id": 99 })).await;
    assert_eq!(missing.refused(404), "reseller not found");
}

#[tokio::test]
async fn what_waits_for_a_merchant_or_for_all_is_made_due() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(&world, merchant, json!({})).await;
    let path = format!("/webhook-endpoints/{id}");
    world.post(&format!("{path}/test"), json!({})).await.is(201);
    let deliver = "/webhook-endpoints/deliver";
    let none = json!({ "deliveries": 0, "endpoints": 1, "disabled": 0, "next_cursor": null });
    for whose in [
        json!({ "merchant_id": merchant }),
        json!({ "all": true }),
        json!({ "all": true, "cursor": id }),
    ] {
        let mut body = whose;
        body["reason"] = json!("it is back");
        let made = world.post(deliver, body).await;
        assert_eq!(made.is(200), &none, "it is due already");
        let line = world.last_line().await;
        assert_eq!(
            (&line["action"], &line["reason"], &line["object"]),
            (
                &json!("endpoint.deliver"),
                &json!("it is back"),
                &json!(format!("endpoint/{id}"))
            )
        );
    }
    let missing = world.post(deliver, json!({ "merchant_id": 99 })).await;
    assert_eq!(missing.refused(404), "merchant not found");
    world
        .patch(&path, json!({ "enabled": false }))
        .await
        .is(200);
    let held = world.post(deliver, json!({ "all": true })).await;
    let held = held.is(200);
    assert_eq!(
        (&held["endpoints"], &held["disabled"]),
        (&json!(0), &json!(1))
    );
    for (wrong, said) in [
        (json!({}), "merchant_id"),
        (json!({ "all": false }), "merchant_id"),
        (json!({ "all": true, "merchant_id": merchant }), "all"),
        (json!({ "all": "yes" }), "all"),
        (json!({ "merchant_id": "1" }), "merchant_id"),
        (json!({ "all": true, "cursor": "x" }), "cursor"),
    ] {
        let refused = world.post(deliver, wrong).await;
        assert!(refused.refused(422).contains(said), "{said}");
    }
}

#[tokio::test]
async fn a_test_is_queued_listed_and_queued_again() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(
        &world,
        merchant,
        json!({ "event_types": ["payment.completed"] }),
    )
    .await;
    let path = format!("/webhook-endpoints/{id}/test");
    let queued = world.post(&path, json!({})).await;
    let first = queued.is(201)["delivery_id"].as_str().unwrap().to_owned();
    assert_eq!(world.last_line().await["action"], "endpoint.test");
    let shown = world
        .get(&format!("/deliveries/{first}"))
        .await
        .is(200)
        .clone();
    assert_eq!(
        shown,
        json!({
            "id": first, "event_id": shown["event_id"], "event_type": "webhook.test",
            "endpoint_id": id, "payment_id": NOBODY, "status": "pending",
            "created_at": shown["created_at"], "next_attempt_at": shown["next_attempt_at"],
            "attempts": [],
        })
    );
    // Ids start with the millisecond; ids of the same millisecond have no defined order.
    world.clock.advance(Duration::from_millis(1));
    let again = world
        .post(&format!("/deliveries/{first}/redeliver"), json!({}))
        .await
        .is(201)
        .clone();
    assert_eq!(world.last_line().await["action"], "delivery.redeliver");
    assert_ne!(again["id"], shown["id"]);
    assert_eq!(again["event_id"], shown["event_id"], "the same event");

    let list = async |query: &str| -> Vec<Value> {
        let listed = world.get(&format!("/deliveries?{query}")).await;
        listed.is(200)["deliveries"].as_array().unwrap().clone()
    };
    let both = list(&format!("endpoint_id={id}&status=pending")).await;
    assert_eq!(
        [&both[0]["id"], &both[1]["id"]],
        [&again["id"], &shown["id"]],
        "newest first"
    );
    assert!(list("status=delivered").await.is_empty());
    let page = world.get("/deliveries?limit=1").await.is(200).clone();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = list(&format!("limit=1&cursor={cursor}")).await;
    assert_eq!(
        (&page["deliveries"][0]["id"], &rest[0]["id"]),
        (&again["id"], &shown["id"])
    );

    world
        .delete(&format!("/webhook-endpoints/{id}"))
        .await
        .is(204);
    let ended = world.get(&format!("/deliveries/{first}")).await;
    assert_eq!(ended.is(200)["status"], "cancelled", "the log stays");
    assert_eq!(ended.body["next_attempt_at"], Value::Null);
    world
        .post(&format!("/deliveries/{first}/redeliver"), json!({}))
        .await
        .refused(409);
}

#[tokio::test]
async fn a_rotation_says_from_when_the_new_secret_signs() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(&world, merchant, json!({})).await;
    let path = format!("/webhook-endpoints/{id}/rotate");
    for hours in [0_u64, 1, 72] {
        let now = world.clock.now();
        let rotated = world
            .post(&path, json!({ "overlap_hours": hours }))
            .await
            .is(200)
            .clone();
        assert_eq!(rotated["id"], id.as_str());
        let from = rotated["active_from"].as_str().unwrap();
        let from = kassette_domain::time::Time::parse_rfc3339(from).unwrap();
        let due = now.after(Duration::from_secs(hours * 3600));
        assert!(
            from.since(due) < Duration::from_secs(60) && from >= due,
            "{hours}"
        );
        assert_eq!(world.last_line().await["action"], "endpoint.rotate");
    }
}

#[tokio::test]
async fn endpoints_are_listed_page_by_page_newest_first() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let mut made = Vec::new();
    for (at, environment) in ["test", "live", "test"].into_iter().enumerate() {
        let url = format!("https://shop.example/{at}");
        let more = json!({ "environment": environment, "url": url });
        made.push(create(&world, merchant, more).await.0);
        world.clock.advance(Duration::from_secs(1));
    }
    let path = format!("/merchants/{merchant}/webhook-endpoints?limit=2");
    let first = world.get(&path).await.is(200).clone();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&format!("{path}&cursor={cursor}")).await;
    let second = second.is(200).clone();
    let ids = [&first, &second]
        .into_iter()
        .flat_map(|page| page["webhook_endpoints"].as_array().unwrap())
        .map(|endpoint| endpoint["id"].as_str().unwrap().to_owned());
    made.reverse();
    assert_eq!(ids.collect::<Vec<_>>(), made);
    assert_eq!(second["next_cursor"], Value::Null);
}

#[tokio::test]
async fn deliveries_are_found_by_event_merchant_and_time() {
    let world = World::new().await;
    let mut queued = Vec::new();
    for _ in 0..2 {
        let merchant = world.merchant(false).await;
        let (id, _) = create(&world, merchant, json!({})).await;
        let tested = world
            .post(&format!("/webhook-endpoints/{id}/test"), json!({}))
            .await;
        let delivery = tested.is(201)["delivery_id"].as_str().unwrap().to_owned();
        let shown = world.get(&format!("/deliveries/{delivery}")).await;
        queued.push((merchant, delivery, shown.is(200).clone()));
        world.clock.advance(Duration::from_secs(60));
    }
    let found = async |query: String| -> Vec<Value> {
        let listed = world.get(&format!("/deliveries?{query}")).await;
        let listed = listed.is(200)["deliveries"].as_array().unwrap().clone();
        listed
            .iter()
            .map(|delivery| delivery["id"].clone())
            .collect()
    };
    for (merchant, delivery, shown) in &queued {
        let only = vec![json!(delivery)];
        assert_eq!(found(format!("merchant_id={merchant}")).await, only);
        let event = shown["event_id"].as_str().unwrap();
        assert_eq!(found(format!("event_id={event}")).await, only);
    }
    let (first, second) = (&queued[0], &queued[1]);
    let at = second.2["created_at"].as_str().unwrap();
    assert_eq!(found(format!("since={at}")).await, [json!(second.1)]);
    assert_eq!(found(format!("until={at}")).await, [json!(first.1)]);
    assert!(
        found(format!("payment_id={}", "f".repeat(32)))
            .await
            .is_empty()
    );
    assert!(
        found("status=failed".to_owned()).await.is_empty(),
        "none was tried"
    );
    world.get("/deliveries?merchant_id=x").await.refused(422);
    world.get("/deliveries?status=lost").await.refused(422);
}

#[tokio::test]
async fn endpoints_of_all_merchants_are_listed_with_what_waits() {
    let world = World::new().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let merchant = world.merchant(false).await;
        made.push((merchant, create(&world, merchant, json!({})).await.0));
    }
    let (merchant, id) = &made[1];
    let tested = world
        .post(&format!("/webhook-endpoints/{id}/test"), json!({}))
        .await;
    tested.is(201);
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world
            .get(&format!("/webhook-endpoints?limit=40{cursor}"))
            .await;
        listed.extend(
            page.is(200)["webhook_endpoints"]
                .as_array()
                .unwrap()
                .clone(),
        );
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let ids: Vec<_> = listed
        .iter()
        .map(|endpoint| endpoint["id"].as_str().unwrap())
        .collect();
    let newest_first: Vec<_> = made.iter().rev().map(|(_, id)| id.as_str()).collect();
    assert_eq!(ids, newest_first);
    let of_one = world
        .get(&format!("/webhook-endpoints?merchant_id={merchant}"))
        .await;
    let of_one = of_one.is(200)["webhook_endpoints"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!((of_one.len(), &of_one[0]["waiting"]), (1, &json!(1)));
    assert_eq!(
        (&of_one[0]["circuit"], &of_one[0]["failing_since"]),
        (&json!("closed"), &Value::Null)
    );
    let failing = world.get("/webhook-endpoints?failing=true").await;
    assert_eq!(failing.is(200)["webhook_endpoints"], json!([]));
}

#[tokio::test]
async fn a_rotation_under_way_is_shown_until_the_new_secret_signs() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let (id, _) = create(&world, merchant, json!({})).await;
    let path = format!("/webhook-endpoints/{id}");
    let overlap = json!({ "overlap_hours": 2 });
    let rotated = world.post(&format!("{path}/rotate"), overlap).await;
    let from = rotated.is(200)["active_from"].clone();
    assert_eq!(world.get(&path).await.is(200)["secret_changes_at"], from);
    world.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(
        world.get(&path).await.is(200)["secret_changes_at"],
        Value::Null
    );
}
