//! Merchants, their policy and their domains.

use std::time::Duration;

use kassette_domain::money::{Currency, Rate};
use kassette_domain::rates::{RateSource, RateTable, TableRef};
use kassette_gateway::clock::Clock as _;

use super::*;

#[tokio::test]
async fn a_merchant_is_made_read_and_changed_by_merge_patch() {
    let world = World::new().await;
    let body = json!({
        "name": "Shop", "live_approved": true, "fx_rates": { "EUR": "1.08", "GBP": "1.27" },
        "policy": { "methods": { "ideal": { "enabled": true, "providers": ["first-test"], "min": "1.00" } } },
    });
    let made = world.post("/merchants", body).await;
    let expected = json!({
        "merchant_id": 1, "name": "Shop", "live_approved": true,
        "fx_rates": { "EUR": "1.08", "GBP": "1.27" },
        "policy": {
            "methods": { "ideal": {
                "enabled": true, "providers": ["first-test"], "min": "1.00", "max": null,
            } },
            "provider_choice": false, "max_usd": null, "review_over_usd": null,
            "fx_max_age_seconds": null, "fx_margin": null, "platform_fee_refundable": false,
            "rate_limit": { "per_second": 50, "burst": 100 },
        },
        "brand": { "colour": null, "logo": null, "show_provider": false, "support": null },
        "domains": [],
    });
    let mut shown = made.is(201).clone();
    let created_at = shown.as_object_mut().unwrap().remove("created_at").unwrap();
    assert!(created_at.as_str().unwrap().ends_with('Z'));
    assert_eq!(shown, expected);
    assert_eq!(world.get("/merchants/1").await.is(200), &made.body);

    let patch = json!({
        "fx_rates": { "GBP": null, "INR": "0.012" },
        "policy": { "max_usd": "500.00", "methods": { "ideal": { "min": null, "max": "9.00" } } },
    });
    let changed = world.patch("/merchants/1", patch).await;
    let changed = changed.is(200);
    assert_eq!(changed["name"], "Shop");
    assert_eq!(
        changed["fx_rates"],
        json!({ "EUR": "1.08", "INR": "0.012" })
    );
    assert_eq!(changed["policy"]["max_usd"], "500.00");
    let ideal = &changed["policy"]["methods"]["ideal"];
    assert_eq!(
        (&ideal["min"], &ideal["max"]),
        (&Value::Null, &json!("9.00"))
    );
    assert_eq!(ideal["providers"], json!(["first-test"]));

    let brand = json!({ "brand": { "colour": "#FFCC00", "show_provider": true, "support": "https://shop.example/help" } });
    let branded = world.patch("/merchants/1", brand).await;
    let expected = json!({ "colour": "#ffcc00", "logo": null, "show_provider": true, "support": "https://shop.example/help" });
    assert_eq!(branded.is(200)["brand"], expected);
    assert_eq!(branded.body["policy"], changed["policy"]);
    let wrong = json!({ "brand": { "logo": "PHN2Zy8+" } });
    let refused = world.patch("/merchants/1", wrong).await;
    assert!(
        refused
            .refused(422)
            .starts_with("brand: logo: must be a PNG file")
    );

    let reset = world
        .patch(
            "/merchants/1",
            json!({ "policy": null, "fx_rates": null, "brand": null }),
        )
        .await;
    assert_eq!(reset.is(200)["policy"]["methods"], json!({}));
    assert_eq!(reset.body["brand"]["show_provider"], false);
    assert_eq!(reset.body["fx_rates"], json!({}));
    world
        .patch("/merchants/1", json!({ "name": null }))
        .await
        .refused(422);
}

#[tokio::test]
async fn a_policy_that_cannot_be_meant_is_refused_with_its_field() {
    let world = World::new().await;
    world.merchant(false).await;
    for (policy, named) in [
        (
            json!({ "methods": { "cash": { "enabled": true } } }),
            "cash",
        ),
        (
            json!({ "methods": { "ideal": { "providers": ["nobody"] } } }),
            "nobody",
        ),
        (
            json!({ "methods": { "ideal": { "min": "2.00", "max": "1.00" } } }),
            "min",
        ),
        (json!({ "max_usd": 1 }), "max_usd"),
        (json!({ "rate_limit": { "per_second": 0 } }), "per_second"),
        (json!({ "wallet": "x" }), "wallet"),
        (json!([]), "policy"),
    ] {
        let body = json!({ "policy": policy });
        let answer = world.patch("/merchants/1", body.clone()).await;
        let error = answer.refused(422);
        assert!(
            error.starts_with("policy: ") && error.contains(named),
            "{error}"
        );
        let mut new = body;
        new["name"] = "x".into();
        world.post("/merchants", new).await.refused(422);
    }
    for rates in [
        json!({ "EUR": 1.08 }),
        json!({ "XXX": "1" }),
        json!({ "EUR": "-1" }),
    ] {
        world
            .patch("/merchants/1", json!({ "fx_rates": rates }))
            .await
            .refused(422);
    }
}

#[tokio::test]
async fn live_approval_is_an_admin_s_alone() {
    let world = World::new().await;
    world.merchant(false).await;
    let body = || json!({ "live_approved": true });
    world.patch("/merchants/1", body()).await.refused(403);
    assert_eq!(world.get("/merchants/1").await.body["live_approved"], false);
    let changed = world
        .call(&world.admin, Method::PATCH, "/merchants/1", Some(body()))
        .await;
    assert_eq!(changed.is(200)["live_approved"], true);
}

#[tokio::test]
async fn a_change_is_audited_with_operator_actor_and_reason() {
    let world = World::new().await;
    world.merchant(false).await;
    let line = world.last_line().await;
    assert_eq!(line["action"], "merchant.create");
    assert_eq!(line["object"], "merchant/1");
    assert!(line["after"].get("merchant_id").is_none(), "it had none");
    assert_eq!(
        (&line["operator"], &line["actor"]),
        (&json!("admin"), &json!("Tests"))
    );
    assert_eq!(
        (&line["reason"], &line["before"]),
        (&json!("a test"), &Value::Null)
    );

    let body = json!({ "name": "New", "actor": "ann", "reason": "renamed" });
    world.patch("/merchants/1", body).await.is(200);
    let line = world.last_line().await;
    assert_eq!(line["action"], "merchant.change");
    assert_eq!(
        (&line["operator"], &line["actor"]),
        (&json!("operator"), &json!("ann"))
    );
    assert_eq!(line["reason"], "renamed");
    assert_eq!(
        (&line["before"]["name"], &line["after"]["name"]),
        (&json!("Shop"), &json!("New"))
    );

    let mut said = request(
        Some(&world.operator),
        Method::PATCH,
        "/merchants/1",
        Some(json!({})),
    );
    said.headers_mut()
        .insert("x-audit-actor", "bob".parse().unwrap());
    said.headers_mut()
        .insert("x-audit-reason", "by header".parse().unwrap());
    assert_eq!(world.send(said).await.status(), StatusCode::OK);
    let line = world.last_line().await;
    assert_eq!(
        (&line["actor"], &line["reason"]),
        (&json!("bob"), &json!("by header"))
    );
    let entries = world.get("/audit").await.body["entries"].clone();
    let entries = entries.as_array().unwrap();
    for pair in entries.windows(2) {
        assert_eq!(
            pair[0]["prev_hash"], pair[1]["hash"],
            "newest first, each bound to the last"
        );
        assert!(pair[0]["id"].as_u64() > pair[1]["id"].as_u64());
    }
}

#[tokio::test]
async fn under_serve_no_domain_is_this_machine() {
    let world = World::new().await;
    world.merchant(false).await;
    for domain in ["localhost", "127.0.0.1", "[::1]"] {
        let body = json!({ "domain": domain });
        let refused = world.post("/merchants/1/domains", body).await;
        assert!(refused.refused(422).starts_with("domain: "), "{domain}");
    }
}

#[tokio::test]
async fn domains_are_verified_once_and_removed() {
    let world = World::new().await;
    world.merchant(false).await;
    let path = "/merchants/1/domains";
    let body = json!({ "domain": "Shop.Example", "include_subdomains": true });
    let made = world.post(path, body.clone()).await;
    assert_eq!(
        made.is(201),
        &json!({ "domain": "shop.example", "include_subdomains": true })
    );
    let plain = world.post(path, json!({ "domain": "other.example" })).await;
    assert_eq!(plain.is(201)["include_subdomains"], false);
    world.post(path, body).await.refused(409);
    for wrong in ["com", "co.uk", "192.0.2.1", "https://x.example", ""] {
        world
            .post(path, json!({ "domain": wrong }))
            .await
            .refused(422);
    }
    let line = world.last_line().await;
    assert_eq!(
        (&line["action"], &line["object"]),
        (&json!("domain.create"), &json!("merchant/1"))
    );
    assert_eq!(
        world.get("/merchants/1").await.body["domains"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    world
        .delete("/merchants/1/domains/shop.example")
        .await
        .is(204);
    world
        .delete("/merchants/1/domains/shop.example")
        .await
        .refused(404);
    world
        .delete("/merchants/2/domains/other.example")
        .await
        .refused(404);
    assert_eq!(world.last_line().await["action"], "domain.delete");
}

#[tokio::test]
async fn lists_go_page_by_page_newest_first() {
    let world = World::new().await;
    for _ in 0..3 {
        world.merchant(false).await;
    }
    let first = world.get("/merchants?limit=2").await;
    let ids = |page: &Value| -> Vec<u64> {
        let merchants = page["merchants"].as_array().unwrap().iter();
        merchants
            .map(|merchant| merchant["merchant_id"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(ids(first.is(200)), [3, 2]);
    let cursor = first.body["next_cursor"].as_str().unwrap();
    let rest = world
        .get(&format!("/merchants?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(ids(rest.is(200)), [1]);
    assert_eq!(rest.body["next_cursor"], Value::Null);
}

#[tokio::test]
async fn rates_are_shown_as_payments_would_use_them() {
    let world = World::new().await;
    let body = json!({
        "name": "Shop", "fx_rates": { "EUR": "1.08" },
        "policy": { "fx_margin": "0.02", "fx_max_age_seconds": 3600 },
    });
    world.post("/merchants", body).await.is(201);
    let now = world.clock.now();
    let table = |source, date, rates: &[(Currency, &str)]| {
        let rates = rates.iter();
        let rates = rates.map(|(currency, rate)| (*currency, Rate::parse(rate).unwrap()));
        RateTable::of_dollars(TableRef { source, date }, rates.collect())
    };
    let late = now.before(Duration::from_secs(7200));
    let rates = [(Currency::GBP, "1.25"), (Currency::AED, "0.27")];
    world
        .gateway
        .take_rates(table(RateSource::File, late, &rates));
    let rates = [(Currency::GBP, "1.5"), (Currency::EUR, "1.2")];
    world
        .gateway
        .take_rates(table(RateSource::Ecb, now, &rates));
    let shown = world.get("/merchants/1/rates").await;
    let shown = shown.is(200)["rates"].as_array().unwrap();
    let codes: Vec<_> = shown
        .iter()
        .map(|rate| rate["currency"].as_str().unwrap())
        .collect();
    assert_eq!(codes, Currency::ALL.map(Currency::code));
    let of = |code: &str| {
        let rate = shown.iter().find(|rate| rate["currency"] == code).unwrap();
        ["rate", "source", "usable"].map(|name| rate[name].clone())
    };
    assert_eq!(of("USD"), [json!("1"), Value::Null, json!(true)]);
    assert_eq!(of("EUR"), [json!("1.08"), json!("merchant"), json!(true)]);
    // The file's rate is too old, so the bank's is used; without another source, the response contains the
    // outdated rate.
    assert_eq!(of("GBP"), [json!("1.47"), json!("ecb"), json!(true)]);
    assert_eq!(of("AED"), [json!("0.2646"), json!("file"), json!(false)]);
    assert_eq!(of("PLN"), [Value::Null, Value::Null, json!(false)]);
    let aed = shown.iter().find(|rate| rate["currency"] == "AED").unwrap();
    assert!(aed["age_seconds"].as_u64().unwrap() >= 7200, "{aed}");
    assert_eq!(aed["set_at"], late.rfc3339());
    world.get("/merchants/2/rates").await.refused(404);
}

#[tokio::test]
async fn a_rate_that_jumps_is_refused_without_force() {
    let world = World::new().await;
    let body = json!({ "name": "Shop", "fx_rates": { "EUR": "1.08" } });
    let id = world.post("/merchants", body).await.is(201)["merchant_id"].clone();
    let path = format!("/merchants/{id}");
    let set = async |rate: &str, more: Value| {
        let mut body = json!({ "fx_rates": { "EUR": rate } });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        world.patch(&path, body).await
    };
    let refused = set("108", json!({})).await;
    let expected = "fx_rates: EUR: 108 is more than 20 % off the rate before, 1.08; force takes it";
    assert_eq!(refused.refused(422), expected);
    set("1.2", json!({})).await.is(200);
    set("108", json!({ "force": true })).await.is(200);
    // A forced rate is the previous rate for the next check.
    set("1.2", json!({})).await.refused(422);
    let first = json!({ "fx_rates": { "GBP": "127" } });
    world.patch(&path, first).await.is(200);
}

#[tokio::test]
async fn a_first_rate_is_compared_with_the_central_banks() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let of = TableRef {
        source: RateSource::Ecb,
        date: world.clock.now(),
    };
    let rates = [(Currency::GBP, Rate::parse("1.3").unwrap())].into();
    world.gateway.take_rates(RateTable::of_dollars(of, rates));
    let path = format!("/merchants/{merchant}");
    let set = |rate: &str| json!({ "fx_rates": { "GBP": rate } });
    let refused = world.patch(&path, set("130")).await;
    assert!(
        refused
            .refused(422)
            .contains("the European Central Bank's, 1.3")
    );
    world.patch(&path, set("1.29")).await.is(200);
}

#[tokio::test]
async fn a_refused_rate_of_a_source_is_shown_and_accepted() {
    let world = World::new().await;
    let now = world.gateway.clock().now();
    let file = |rate: &str| {
        let of = TableRef {
            source: RateSource::File,
            date: now,
        };
        let rate = Rate::parse(rate).unwrap();
        RateTable::of_dollars(of, [(Currency::EUR, rate)].into())
    };
    world.gateway.take_rates(file("1.08"));
    world.gateway.take_rates(file("108"));
    let shown = async || world.get("/rates").await.is(200)["rates"].clone();
    let refused = json!({ "rate": "108", "date": now.rfc3339() });
    let mut expected = json!({
        "source": "file", "currency": "EUR", "rate": "1.08", "date": now.rfc3339(),
        "state": "used", "unchecked": false, "refused": refused,
    });
    assert_eq!(shown().await, json!([expected]));
    let status = world.get("/status").await.is(200).clone();
    let part = status["parts"].as_array().unwrap().iter();
    let part = part.clone().find(|part| part["name"] == "rates").unwrap();
    assert_eq!(part["state"], "attention");
    let detail = part["detail"].as_str().unwrap();
    assert!(
        detail.contains("kassette rates accept file EUR"),
        "{detail}"
    );
    let accept = "/rates/accept";
    let mut body = json!({ "source": "file", "currency": "EUR", "rate": "107" });
    world
        .call(&world.operator, Method::POST, accept, Some(body.clone()))
        .await
        .refused(422);
    body["actor"] = "ann".into();
    body["reason"] = "a new currency".into();
    world.post(accept, body.clone()).await.refused(409);
    body["rate"] = "108".into();
    expected["rate"] = "108".into();
    expected["refused"] = Value::Null;
    assert_eq!(world.post(accept, body.clone()).await.is(200), &expected);
    assert_eq!(shown().await, json!([expected]));
    let line = world.last_line().await;
    assert_eq!(
        (&line["action"], &line["object"]),
        (&json!("rates.accept"), &json!("rates/file/EUR"))
    );
    world.post(accept, body).await.refused(409);
}
