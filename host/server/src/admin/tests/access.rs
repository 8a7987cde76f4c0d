//! Authentication, roles, host names, and the common form of responses.

use std::time::Duration;

use super::*;

/// Every path with a call that changes something, and the least role for it.
const CHANGES: &[(&str, &str, Role)] = &[
    ("POST", "/merchants", Role::Admin),
    ("PATCH", "/merchants/1", Role::Operator),
    ("POST", "/merchants/1/keys", Role::Operator),
    (
        "POST",
        "/keys/00000000000000000000000000000000/rotate",
        Role::Operator,
    ),
    (
        "DELETE",
        "/keys/00000000000000000000000000000000",
        Role::Operator,
    ),
    ("POST", "/merchants/1/domains", Role::Operator),
    (
        "DELETE",
        "/merchants/1/domains/shop.example",
        Role::Operator,
    ),
    ("POST", "/merchants/1/webhook-endpoints", Role::Operator),
    (
        "PATCH",
        "/webhook-endpoints/00000000000000000000000000000000",
        Role::Operator,
    ),
    (
        "DELETE",
        "/webhook-endpoints/00000000000000000000000000000000",
        Role::Operator,
    ),
    (
        "POST",
        "/webhook-endpoints/00000000000000000000000000000000/test",
        Role::Operator,
    ),
    (
        "POST",
        "/webhook-endpoints/00000000000000000000000000000000/rotate",
        Role::Operator,
    ),
    (
        "POST",
        "/webhook-endpoints/00000000000000000000000000000000/recover",
        Role::Operator,
    ),
    (
        "POST",
        "/webhook-endpoints/00000000000000000000000000000000/deliver",
        Role::Operator,
    ),
    (
        "POST",
        "/deliveries/00000000000000000000000000000000/redeliver",
        Role::Operator,
    ),
    (
        "POST",
        "/payments/00000000000000000000000000000000/review",
        Role::Operator,
    ),
    (
        "POST",
        "/payments/00000000000000000000000000000000/cancel",
        Role::Operator,
    ),
    (
        "POST",
        "/payments/00000000000000000000000000000000/redact",
        Role::Operator,
    ),
    (
        "POST",
        "/work/00000000000000000000000000000000/done",
        Role::Operator,
    ),
    ("PATCH", "/providers/nobody", Role::Operator),
    ("POST", "/operators", Role::Admin),
    (
        "DELETE",
        "/operators/00000000000000000000000000000000",
        Role::Admin,
    ),
    ("POST", "/plugins/method.ideal", Role::Operator),
    ("POST", "/plugins/method.ideal/rollback", Role::Operator),
    ("POST", "/plugins/method.ideal/replay", Role::Operator),
    ("POST", "/plugins/method.ideal/disable", Role::Operator),
    ("POST", "/plugins/method.ideal/enable", Role::Operator),
    ("DELETE", "/plugins/method.ideal", Role::Operator),
    ("POST", "/resellers", Role::Operator),
    ("POST", "/resellers/1/keys", Role::Operator),
    ("PUT", "/resellers/1/live-rollout", Role::Admin),
    ("PUT", "/resellers/1/delegations/1", Role::Operator),
    ("POST", "/merchants/1/consent-codes", Role::Operator),
    ("POST", "/dev/clock", Role::Operator),
    ("POST", "/dev/callbacks", Role::Operator),
    ("POST", "/dev/release", Role::Operator),
];

/// Every list and object.
const READS: &[&str] = &[
    "/merchants",
    "/merchants/1",
    "/merchants/1/keys",
    "/merchants/1/webhook-endpoints",
    "/deliveries",
    "/payments",
    "/work",
    "/plugins",
    "/plugins/method.ideal/history",
    "/providers",
    "/status",
    "/webhook-endpoints",
    "/webhook-endpoints?failing=true",
    "/operators",
    "/resellers",
    "/resellers/1",
    "/resellers/1/keys",
    "/resellers/1/delegations",
];

#[tokio::test]
async fn every_call_needs_its_role() {
    let world = World::new().await;
    world.merchant(false).await;
    world
        .post("/resellers", json!({ "name": "Agency" }))
        .await
        .is(201);
    for &(method, path, least) in CHANGES {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        for (role, token) in [
            (Role::Viewer, &world.viewer),
            (Role::Operator, &world.operator),
            (Role::Admin, &world.admin),
        ] {
            let answer = world.call(token, method.clone(), path, None).await;
            let forbidden = answer.status == StatusCode::FORBIDDEN;
            assert_eq!(
                forbidden,
                role < least,
                "{role:?} {method} {path}: {}",
                answer.body
            );
        }
    }
    for path in READS {
        world.get(path).await.is(200);
    }
    world.get("/audit").await.is(200);
}

#[tokio::test]
async fn without_a_usable_token_nothing_is_answered() {
    let world = World::new().await;
    let unknown = super::super::operators::draw("x".into(), Role::Admin, None, world.clock.now());
    let (_, unknown) = unknown.unwrap();
    for token in [None, Some(&unknown), Some(&Secret::new("ko_x"))] {
        for &(method, path, _) in CHANGES {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let answer = world.send(request(token, method, path, None)).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
            assert!(answer.headers().contains_key("www-authenticate"));
        }
        for path in READS {
            let answer = world.send(request(token, Method::GET, path, None)).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
        }
    }
}

#[tokio::test]
async fn a_removed_or_expired_operator_is_refused_at_once() {
    let world = World::new().await;
    let end = world.clock.now().after(Duration::from_secs(3600)).rfc3339();
    let body = json!({ "name": "temp", "role": "viewer", "expires_at": end });
    let made = world.post("/operators", body).await;
    let token = Secret::new(made.is(201)["token"].as_str().unwrap());
    world.call(&token, Method::GET, "/work", None).await.is(200);
    world.clock.advance(Duration::from_secs(3601));
    world
        .call(&token, Method::GET, "/work", None)
        .await
        .refused(401);

    let made = world
        .post("/operators", json!({ "name": "gone", "role": "admin" }))
        .await;
    let token = Secret::new(made.is(201)["token"].as_str().unwrap());
    let path = format!("/operators/{}", made.body["operator_id"].as_str().unwrap());
    world.call(&token, Method::GET, "/work", None).await.is(200);
    world
        .call(&token, Method::DELETE, &path, None)
        .await
        .is(204);
    world
        .call(&token, Method::GET, "/work", None)
        .await
        .refused(401);
    world.delete(&path).await.refused(404);
    let listed = world.get("/operators").await;
    assert!(!listed.body.to_string().contains("gone"));
    assert!(
        !listed.body.to_string().contains("ko_"),
        "a token is shown once"
    );
    assert_eq!(world.last_line().await["action"], "operator.delete");
}

#[tokio::test]
async fn another_host_name_is_misdirected_before_any_credential_counts() {
    let world = World::new().await;
    for host in ["evil.example", "admin.test", "admin.test:8082", ""] {
        let mut request = request(None, Method::GET, "/merchants", None);
        request.headers_mut().insert(HOST, host.parse().unwrap());
        let answer = world.send(request).await;
        assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    let mut request = request(None, Method::GET, "/merchants", None);
    request
        .headers_mut()
        .insert(HOST, "ADMIN.test:8081".parse().unwrap());
    assert_eq!(world.send(request).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_shape_of_every_error() {
    let world = World::new().await;
    world.get("/nothing").await.refused(404);
    world.get("/merchants/1/nothing").await.refused(404);
    world.get("/merchants/%ff").await.refused(404);
    world.get("/merchants/999").await.refused(404);
    world.delete("/merchants").await.refused(405);
    world.post("/audit", json!({})).await.refused(405);
    let outside = Request::get("/nothing")
        .header(HOST, NAME)
        .body(Body::empty())
        .unwrap();
    assert_eq!(world.send(outside).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_answer_has_safe_headers_and_an_id() {
    let world = World::new().await;
    for path in ["/merchants", "/nothing"] {
        let answer = world
            .send(request(Some(&world.viewer), Method::GET, path, None))
            .await;
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        assert!(answer.headers().contains_key("x-request-id"));
    }
}

#[tokio::test]
async fn bodies_are_strict() {
    let world = World::new().await;
    let raw = |kind: Option<&'static str>, body: &'static str| {
        let mut request = request(Some(&world.admin), Method::POST, "/merchants", None);
        if let Some(kind) = kind {
            request
                .headers_mut()
                .insert(CONTENT_TYPE, kind.parse().unwrap());
        }
        *request.body_mut() = Body::from(body);
        request
    };
    for (kind, body, status) in [
        (None, r#"{"name":"x"}"#, 400),
        (Some("text/plain"), r#"{"name":"x"}"#, 400),
        (Some("application/json"), r#"{"name":"#, 400),
        (Some("application/json"), r#"{"name":"x","name":"y"}"#, 400),
        (Some("application/json"), "[]", 422),
        (Some("application/json"), "{}", 422),
        (
            Some("application/json"),
            r#"{"name":"x","wallet":"y"}"#,
            422,
        ),
        (
            Some("application/json; charset=utf-8"),
            r#"{"name":"x"}"#,
            201,
        ),
    ] {
        assert_eq!(
            world.send(raw(kind, body)).await.status().as_u16(),
            status,
            "{kind:?} {body}"
        );
    }
    world
        .post("/merchants?x=1", json!({ "name": "x" }))
        .await
        .refused(422);
    world.get("/merchants?limit=0").await.refused(422);
    world.get("/merchants?wallet=1").await.refused(422);
    world.get("/merchants?cursor=nonsense").await.refused(422);
}

#[tokio::test]
async fn what_has_to_be_explained_is_refused_without_actor_and_reason() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    let key = json!({ "environment": "test" });
    let key = world
        .post(&format!("/merchants/{merchant}/keys"), key)
        .await;
    let key = key.is(201)["key_id"].as_str().unwrap().to_owned();
    let hook = json!({ "url": "https://shop.example/hooks", "environment": "test" });
    let hook = world
        .post(&format!("/merchants/{merchant}/webhook-endpoints"), hook)
        .await;
    let hook = hook.is(201)["id"].as_str().unwrap().to_owned();
    let of_merchant = format!("/merchants/{merchant}");
    let calls = [
        (
            Method::POST,
            "/merchants".to_owned(),
            json!({ "name": "Other", "live_approved": true }),
        ),
        (
            Method::PATCH,
            of_merchant.clone(),
            json!({ "live_approved": true }),
        ),
        (
            Method::PATCH,
            of_merchant.clone(),
            json!({ "policy": { "max_usd": "5.00" } }),
        ),
        (
            Method::PATCH,
            of_merchant.clone(),
            json!({ "policy": null }),
        ),
        (Method::DELETE, format!("/keys/{key}"), json!({})),
        (
            Method::POST,
            format!("/webhook-endpoints/{hook}/rotate"),
            json!({}),
        ),
    ];
    for (method, path, body) in calls {
        for (missing, said) in [("actor", "reason"), ("reason", "actor")] {
            let mut body = body.clone();
            body[said] = json!("because");
            let mut asked = request(Some(&world.admin), method.clone(), &path, Some(body));
            for name in ["x-audit-actor", "x-audit-reason"] {
                asked.headers_mut().remove(name);
            }
            let answer = world.send(asked).await;
            let status = answer.status();
            let text = axum::body::to_bytes(answer.into_body(), 1 << 16)
                .await
                .unwrap();
            let error: Value = serde_json::from_slice(&text).unwrap();
            let expected = format!("{missing}: is required");
            assert_eq!(
                (status.as_u16(), &error["error"]),
                (422, &json!(expected)),
                "{method} {path}"
            );
        }
    }
    let name = json!({ "name": "Renamed" });
    let mut renamed = request(Some(&world.admin), Method::PATCH, &of_merchant, Some(name));
    renamed.headers_mut().remove("x-audit-reason");
    assert_eq!(
        world.send(renamed).await.status(),
        StatusCode::OK,
        "a name needs no reason"
    );
}
