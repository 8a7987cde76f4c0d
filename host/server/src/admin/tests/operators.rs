//! Operators' names, and the operators' entries in the audit log and the program's log.

use axum::routing::get;

use super::*;

#[tokio::test]
async fn an_operators_name_is_its_own_as_long_as_it_is_there() {
    let world = World::new().await;
    let make = async |name: &str| {
        let body = json!({ "name": name, "role": "viewer" });
        world.post("/operators", body).await
    };
    let made = make("Ann Ö").await;
    let id = made.is(201)["operator_id"].as_str().unwrap().to_owned();
    let listed = world.get("/operators").await.body["operators"].clone();
    let mut names = listed.as_array().unwrap().iter().map(|each| &each["name"]);
    assert!(names.any(|name| name == "Ann Ö"), "{listed}");
    for taken in ["Ann Ö", "ann ö", "ANN Ö"] {
        let why = make(taken).await;
        assert!(why.refused(409).starts_with("name: "), "{taken}");
    }
    world.delete(&format!("/operators/{id}")).await.is(204);
    make("ann ö").await.is(201);
}

#[tokio::test]
async fn a_name_that_misleads_readers_of_the_audit_log_is_refused() {
    let world = World::new().await;
    for name in [
        "",
        "  ",
        "system",
        "System",
        " root",
        "root\u{3000}",
        "PLUGIN-FOLDER",
        "an\u{202E}n",
        "an\u{200B}n",
        "a\u{7}nn",
        "\u{2800}",
        &"a".repeat(101),
    ] {
        let body = json!({ "name": name, "role": "viewer" });
        let refused = world.post("/operators", body).await;
        assert!(refused.refused(422).starts_with("name: "), "{name:?}");
    }
}

#[tokio::test]
async fn a_line_of_the_audit_log_carries_the_operators_id() {
    let world = World::new().await;
    world.merchant(false).await;
    let operators = world.get("/operators").await.body["operators"].clone();
    let admin = operators.as_array().unwrap().iter();
    let admin = admin.clone().find(|each| each["name"] == "admin").unwrap();
    let line = world.last_line().await;
    assert_eq!(line["action"], "merchant.create");
    assert_eq!(line["operator_id"], admin["operator_id"]);
    let lines = world.get("/audit").await.body["entries"].clone();
    let first = lines.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&first["operator"], &first["operator_id"]),
        (&json!("system"), &Value::Null)
    );
}

#[tokio::test]
async fn making_and_approving_a_merchant_is_audited_with_actor_and_reason() {
    let world = World::new().await;
    let said = |line: &Value| {
        ["action", "object", "actor", "reason"].map(|name| line[name].as_str().unwrap().to_owned())
    };
    let body = json!({ "name": "Shop", "actor": "bob", "reason": "contract" });
    let made = world.post("/merchants", body).await;
    assert_eq!(made.is(201)["merchant_id"], 1);
    let expected = ["merchant.create", "merchant/1", "bob", "contract"];
    assert_eq!(said(&world.last_line().await), expected);
    let body = json!({ "live_approved": true, "actor": "eve", "reason": "checked" });
    let admin = &world.admin;
    let changed = world.call(admin, Method::PATCH, "/merchants/1", Some(body));
    changed.await.is(200);
    let line = world.last_line().await;
    let expected = ["merchant.change", "merchant/1", "eve", "checked"];
    assert_eq!(said(&line), expected);
    let approved = |side: &str| line[side]["live_approved"].as_bool();
    assert_eq!(
        (approved("before"), approved("after")),
        (Some(false), Some(true))
    );
}

#[tokio::test]
async fn actor_and_reason_show_something_and_are_said_once() {
    let world = World::new().await;
    for field in ["actor", "reason"] {
        for blank in ["", " ", "\u{200B}", "\u{2800}\u{3164}", "\u{FE0F}"] {
            let body = json!({ "name": "Shop", field: blank });
            let refused = world.post("/merchants", body).await;
            assert!(refused.refused(422).starts_with(field), "{blank:?}");
        }
    }
    let with = |headers: &[(&'static str, &str)]| {
        let body = json!({ "name": "Shop" });
        let mut request = request(Some(&world.admin), Method::POST, "/merchants", Some(body));
        for name in ["x-audit-actor", "x-audit-reason"] {
            request.headers_mut().remove(name);
        }
        for (name, value) in headers {
            let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request.headers_mut().append(*name, value);
        }
        world.send(request)
    };
    for name in ["x-audit-actor", "x-audit-reason"] {
        for wrong in [&[(name, "\u{200B}")][..], &[(name, "ann"), (name, "ann")]] {
            assert_eq!(with(wrong).await.status(), 422, "{wrong:?}");
        }
        assert_eq!(with(&[(name, "ann")]).await.status(), 201);
    }
}

#[tokio::test]
async fn metrics_answer_under_our_names_and_from_elsewhere_to_operators_alone() {
    let world = World::new().await;
    for open in [true, false] {
        let hosts = vec![NAME.to_owned()];
        let state = AdminState::new(world.gateway.clone(), hosts, None).metrics_open(open);
        let routes = ["/metrics", "/livez", "/readyz"];
        let health = routes.into_iter().fold(Router::new(), |router, path| {
            router.route(path, get(|| async { "told" }))
        });
        let router = super::super::with_metrics_guarded(health, &state);
        let ask = |path: &str, host: &str, token: Option<&Secret>| {
            let mut request = Request::get(path).header(HOST, host);
            if let Some(token) = token {
                request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
            }
            let answer = router.clone().oneshot(request.body(Body::empty()).unwrap());
            async { answer.await.unwrap() }
        };
        let viewer = Some(&world.viewer);
        let unknown = ask("/metrics", "evil.example", viewer).await;
        assert_eq!(unknown.status(), StatusCode::MISDIRECTED_REQUEST);
        assert!(unknown.headers().contains_key("x-request-id"));
        let stranger = ask("/metrics", NAME, None).await.status();
        assert_eq!(stranger, if open { 200 } else { 401 });
        assert_eq!(ask("/metrics", NAME, viewer).await.status(), 200);
        for path in ["/livez", "/readyz"] {
            assert_eq!(ask(path, "10.0.0.7:8081", None).await.status(), 200);
        }
    }
}
