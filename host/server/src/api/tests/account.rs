//! Merchants and resellers manage their own webhook endpoints.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use kassette_domain::audit::Audited;
use kassette_domain::key::{Environment, KeyOwner, Scope};
use kassette_domain::merchant::Merchant;
use kassette_domain::policy::RateLimit;
use kassette_gateway::clock::Clock as _;
use kassette_store::{Listed, NewMerchant, Paging};
use serde_json::{Value, json};

use super::world::{Answer, World};

const ENDPOINTS: &str = "/api/v1/account/webhook-endpoints";
const DELIVERIES: &str = "/api/v1/account/deliveries";
const SCOPE: [Scope; 1] = [Scope::AccountManage];

async fn call(world: &World, key: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    let bearer = format!("Bearer {key}");
    let headers = [
        (AUTHORIZATION.as_str(), bearer.as_str()),
        (CONTENT_TYPE.as_str(), "application/json"),
    ];
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    world.ask(method, path, &headers, body).await
}

async fn create(world: &World, key: &str, url: &str) -> String {
    let made = world.post(key, ENDPOINTS, &json!({ "url": url })).await;
    let made = made.expect(201).json();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    made["id"].as_str().unwrap().to_owned()
}

/// A world with the default rate limits.
async fn usual_world() -> World {
    let world = World::new().await;
    let usual = RateLimit::default();
    world
        .configure(|settings| settings.rate_limit = usual)
        .await;
    world
}

async fn last_line(world: &World) -> Audited {
    let paging = Paging {
        limit: 1,
        cursor: None,
    };
    match world.store.audit_log(paging).await.unwrap() {
        Listed::Page(mut page) => page.items.remove(0).audited,
        Listed::BadCursor => panic!("no cursor was given"),
    }
}

/// A key of another merchant.
async fn stranger(world: &World, environment: Environment) -> String {
    let merchant = Merchant {
        name: "Other".into(),
        ..world.merchant.clone()
    };
    let line = last_line(world).await;
    let made = world
        .store
        .create_merchant(NewMerchant { merchant }, line, world.clock.now());
    let owner = KeyOwner::Merchant(made.await.unwrap().id);
    world.key_of(owner, environment, &SCOPE).await
}

#[tokio::test]
async fn an_endpoint_is_managed_from_its_making_to_its_end() {
    let world = usual_world().await;
    let key = world.key(Environment::Test, &SCOPE).await;
    let id = create(&world, &key, "https://shop.example/hook").await;
    let line = last_line(&world).await;
    assert_eq!(line.action, "endpoint.create");
    assert_eq!(line.object, format!("endpoint/{id}"));
    assert!(line.actor.starts_with("key/") && line.operator_id.is_none());

    let listed = world.get(&key, ENDPOINTS).await.expect(200).json();
    assert_eq!(listed["webhook_endpoints"][0]["id"], id.as_str());
    assert_eq!(listed["next_cursor"], Value::Null);
    let path = format!("{ENDPOINTS}/{id}");
    let shown = world.get(&key, &path).await.expect(200).json();
    assert_eq!(shown, listed["webhook_endpoints"][0]);
    assert_eq!(shown["environment"], "test");
    assert_eq!(shown["created_by"], line.actor.as_str());

    let patch = json!({ "event_types": ["payment.completed"] });
    let changed = call(&world, &key, "PATCH", &path, Some(patch)).await;
    assert_eq!(
        changed.expect(200).json()["event_types"],
        json!(["payment.completed"])
    );
    let patch = json!({ "event_types": null });
    let changed = call(&world, &key, "PATCH", &path, Some(patch))
        .await
        .expect(200)
        .json();
    assert!(changed["event_types"].as_array().unwrap().len() > 9);

    let overlap = json!({ "overlap_hours": 24 });
    let rotated = world.post(&key, &format!("{path}/rotate"), &overlap).await;
    assert!(rotated.expect(200).json()["secret"].is_string());
    let queued = call(&world, &key, "POST", &format!("{path}/test"), None).await;
    let queued = queued.expect(201).json()["delivery_id"].clone();
    let queued = queued.as_str().unwrap();
    for filter in ["", &format!("?endpoint_id={id}"), "?status=pending&limit=1"] {
        let listed = world.get(&key, &format!("{DELIVERIES}{filter}")).await;
        let listed = listed.expect(200).json();
        assert_eq!(listed["deliveries"][0]["id"], queued, "{filter}");
    }
    let delivery = format!("{DELIVERIES}/{queued}");
    let shown = world.get(&key, &delivery).await.expect(200).json();
    assert_eq!(shown["event_type"], "webhook.test");
    let again = call(&world, &key, "POST", &format!("{delivery}/redeliver"), None).await;
    let again = again.expect(201).json();
    assert_eq!(again["event_id"], shown["event_id"]);
    assert_eq!(last_line(&world).await.action, "delivery.redeliver");
    let since = json!({ "since": "2020-01-01T00:00:00Z" });
    let recovered = world.post(&key, &format!("{path}/recover"), &since).await;
    assert_eq!(recovered.expect(200).json(), json!({ "deliveries": 0 }));

    call(&world, &key, "DELETE", &path, None).await.expect(204);
    world.get(&key, &path).await.expect(404);
    assert_eq!(last_line(&world).await.action, "endpoint.delete");
}

#[tokio::test]
async fn another_merchant_s_and_another_environment_s_are_not_there() {
    let world = usual_world().await;
    let key = world.key(Environment::Test, &SCOPE).await;
    let id = create(&world, &key, "https://shop.example/hook").await;
    let path = format!("{ENDPOINTS}/{id}");
    let queued = call(&world, &key, "POST", &format!("{path}/test"), None).await;
    let queued = queued.expect(201).json()["delivery_id"].clone();
    let delivery = format!("{DELIVERIES}/{}", queued.as_str().unwrap());
    for stranger in [
        world.key(Environment::Live, &SCOPE).await,
        stranger(&world, Environment::Test).await,
    ] {
        let since = Some(json!({ "since": "2020-01-01T00:00:00Z" }));
        let patch = Some(json!({ "enabled": false }));
        for (method, path, body) in [
            ("GET", path.clone(), None),
            ("PATCH", path.clone(), patch),
            ("DELETE", path.clone(), None),
            ("POST", format!("{path}/test"), None),
            ("POST", format!("{path}/rotate"), None),
            ("POST", format!("{path}/recover"), since),
            ("GET", delivery.clone(), None),
            ("POST", format!("{delivery}/redeliver"), None),
            ("GET", format!("{DELIVERIES}?endpoint_id={id}"), None),
        ] {
            call(&world, &stranger, method, &path, body)
                .await
                .expect(404);
        }
        for (path, list) in [(ENDPOINTS, "webhook_endpoints"), (DELIVERIES, "deliveries")] {
            let listed = world.get(&stranger, path).await.expect(200).json();
            assert_eq!(listed[list], json!([]));
        }
    }
    world.get(&key, &path).await.expect(200);
}

#[tokio::test]
async fn a_reseller_s_backend_manages_its_own_and_no_merchant_s() {
    let world = usual_world().await;
    let owner = KeyOwner::Reseller(world.reseller().await);
    let key = world.key_of(owner, Environment::Test, &SCOPE).await;
    let merchants = world.key(Environment::Test, &SCOPE).await;
    let url = "https://agency.example/hook";
    let theirs = create(&world, &merchants, url).await;
    let path = |of: &str| ENDPOINTS.replace("account", of);
    let own = path("reseller");
    let made = world.post(&key, &own, &json!({ "url": url })).await;
    let id = made.expect(201).json()["id"].as_str().unwrap().to_owned();
    let line = last_line(&world).await;
    assert_eq!(line.object, format!("endpoint/{id}"));
    assert!(line.actor.starts_with("key/"));
    let listed = world.get(&key, &own).await.expect(200).json();
    let listed = listed["webhook_endpoints"].as_array().unwrap().clone();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!(id)));
    let queued = call(&world, &key, "POST", &format!("{own}/{id}/test"), None).await;
    let queued = queued.expect(201).json()["delivery_id"].clone();
    let log = DELIVERIES.replace("account", "reseller");
    let listed = world.get(&key, &log).await.expect(200).json();
    assert_eq!(listed["deliveries"][0]["id"], queued);

    // Each key works only at its own paths, with its own objects.
    for (key, of) in [(&key, "account"), (&merchants, "reseller")] {
        world.get(key, &path(of)).await.expect(401);
    }
    for (key, of, other) in [(&key, "reseller", &theirs), (&merchants, "account", &id)] {
        let path = format!("{}/{other}", path(of));
        world.get(key, &path).await.expect(404);
        call(&world, key, "DELETE", &path, None).await.expect(404);
    }
    let usual = world
        .key_of(owner, Environment::Test, &Scope::RESELLER)
        .await;
    let refused = world.get(&usual, &own).await.expect(403);
    assert_eq!(refused.json()["code"], "missing_scope");
    let live = world.key_of(owner, Environment::Live, &SCOPE).await;
    world.get(&live, &own).await.expect(401);
    let put = call(&world, &key, "PUT", &own, None).await;
    put.expect(405).error();
}

#[tokio::test]
async fn what_the_scope_the_key_or_the_shape_does_not_allow_is_refused() {
    let world = usual_world().await;
    let usual = world.test_key().await;
    let unknown = format!("{ENDPOINTS}/{}", "0".repeat(32));
    for path in [ENDPOINTS, DELIVERIES, &unknown] {
        let refused = world.get(&usual, path).await.expect(403);
        assert_eq!(refused.json()["code"], "missing_scope");
    }
    let key = world.key(Environment::Test, &SCOPE).await;
    world.get(&key, "/api/v1/methods").await.expect(403);
    let url = "https://shop.example/hook";
    let live = json!({ "url": url, "environment": "live" });
    let refused = world.post(&key, ENDPOINTS, &live).await.expect(422);
    assert_eq!(refused.json()["field"], "environment");
    let fine = json!({ "url": url, "environment": "test" });
    let first = world.post(&key, ENDPOINTS, &fine).await.expect(201).json();
    let taken = world.post(&key, ENDPOINTS, &fine).await.expect(409);
    assert_eq!(taken.json()["code"], "webhook_endpoint_exists");
    assert!(taken.text.contains(first["id"].as_str().unwrap()));
    for (body, field) in [
        (json!({}), "url"),
        (json!({ "url": "http://127.0.0.1/" }), "url"),
        (json!({ "url": url, "actor": "ann" }), "actor"),
        (json!({ "url": url, "event_types": [] }), "event_types"),
    ] {
        let refused = world.post(&key, ENDPOINTS, &body).await.expect(422);
        assert_eq!(refused.json()["field"], field, "{body}");
    }
    for query in ["?limit=0", "?limit=101", "?cursor=x", "?x=1"] {
        world
            .get(&key, &format!("{ENDPOINTS}{query}"))
            .await
            .expect(422);
        world
            .get(&key, &format!("{DELIVERIES}{query}"))
            .await
            .expect(422);
    }
    let refused = call(&world, &key, "PATCH", &unknown, None).await;
    refused.expect(400);
    // As everywhere, invalid requests are reported before the object's owner is checked.
    for (method, path, body) in [
        ("PATCH", unknown.clone(), json!({ "x": 1 })),
        ("POST", format!("{unknown}/rotate"), json!({ "x": 1 })),
        ("POST", format!("{unknown}/recover"), json!({})),
    ] {
        let refused = call(&world, &key, method, &path, Some(body)).await;
        refused.expect(422);
    }
}

#[tokio::test]
async fn what_keys_write_into_the_audit_log_is_bounded() {
    let world = usual_world().await;
    let keys = [
        world.key(Environment::Test, &SCOPE).await,
        world.key(Environment::Test, &SCOPE).await,
    ];
    let id = create(&world, &keys[0], "https://shop.example/hook").await;
    let path = format!("{ENDPOINTS}/{id}");
    let change = async |key: &String| {
        let patch = json!({ "enabled": true });
        call(&world, key, "PATCH", &path, Some(patch)).await.status
    };
    let mut taken = 1;
    while taken < 100 && change(&keys[taken % 2]).await == 200 {
        taken += 1;
    }
    // A token may have been added in the meantime.
    assert!((60..=61).contains(&taken), "{taken}");
    world.get(&keys[0], &path).await.expect(200);
    let other = stranger(&world, Environment::Test).await;
    create(&world, &other, "https://other.example/hook").await;
    world.clock.advance(std::time::Duration::from_secs(10));
    assert_eq!(change(&keys[1]).await, 200);
}

#[tokio::test]
async fn a_page_of_deliveries_to_all_endpoints_costs_ten_requests() {
    let world = World::new().await;
    let slow = RateLimit {
        per_second: 1,
        burst: 100,
    };
    world.configure(|settings| settings.rate_limit = slow).await;
    let pages = async |query: &str| {
        let key = world.key(Environment::Test, &SCOPE).await;
        let host = query
            .trim_matches(['?', 'D'])
            .replace(['_', '='], "-")
            .to_lowercase();
        let id = create(&world, &key, &format!("https://{host}.example/")).await;
        let path = format!("{DELIVERIES}{}", query.replace("ID", &id));
        let mut pages = 0;
        while pages < 20 && world.get(&key, &path).await.status == 200 {
            pages += 1;
        }
        pages
    };
    let dear = pages("?status=pending").await;
    assert!((9..=10).contains(&dear), "{dear} of 99 tokens");
    assert_eq!(pages("?endpoint_id=ID").await, 20);
}
