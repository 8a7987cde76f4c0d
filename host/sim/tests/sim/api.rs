//! The sandbox's endpoints over real sockets.
use crate::world::{LIVE, START_MS, TEST, World, id, payment, token};
use serde_json::{Value, json};

#[tokio::test]
async fn a_token_needs_the_accounts_own_credentials() {
    let w = World::new().await;
    let ask = |user: &str, key: &str| {
        let form = [("grant_type", "client_credentials")];
        w.http
            .post(w.url("/oauth/token"))
            .basic_auth(user, Some(key))
            .form(&form)
            .send()
    };
    let good = ask("client-of-sandbox-test", "key-of-sandbox-test")
        .await
        .unwrap();
    assert_eq!(good.status(), 200);
    assert_eq!(good.headers()["cache-control"], "no-store");
    let body: Value = good.json().await.unwrap();
    assert_eq!(
        (&body["token_type"], &body["expires_in"]),
        (&json!("bearer"), &json!(900))
    );
    for (user, key) in [
        ("client-of-sandbox-test", "wrong"),
        ("client-of-sandbox-live", "key-of-sandbox-live"),
        ("", ""),
    ] {
        assert_eq!(ask(user, key).await.unwrap().status(), 401);
    }
}

#[tokio::test]
async fn a_token_request_of_another_form_is_refused() {
    let w = World::new().await;
    for (kind, body) in [
        ("application/json", "grant_type=client_credentials"),
        ("application/x-www-form-urlencoded", "grant_type=password"),
        ("application/x-www-form-urlencoded", ""),
    ] {
        let answer = w
            .http
            .post(w.url("/oauth/token"))
            .basic_auth("client-of-sandbox-test", Some("key-of-sandbox-test"))
            .header("content-type", kind)
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 400);
    }
}

#[tokio::test]
async fn every_call_needs_a_token_of_this_account_that_is_still_good() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let path = format!("/v1/sessions/{}", id(&session));
    assert_eq!(w.http.get(w.url(&path)).send().await.unwrap().status(), 401);
    let other = token(&w.http, &w.sim, LIVE).await;
    for path in [
        path.as_str(),
        "/v1/account",
        "/v1/sessions?merchant_reference=attempt-1",
    ] {
        let answer = w
            .http
            .get(w.url(path))
            .bearer_auth(&other)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 401);
    }
    assert_eq!(w.get("/v1/account").send().await.unwrap().status(), 200);
    w.clock.advance(900_000);
    assert_eq!(w.get("/v1/account").send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn the_account_tells_its_environment() {
    let w = World::new().await;
    let body: Value = w
        .get("/v1/account")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        body,
        json!({ "account": TEST, "environment": "test", "status": "operational" })
    );
}

#[tokio::test]
async fn a_repeated_creation_returns_the_same_session() {
    let w = World::new().await;
    let first = w.create("attempt-1").await;
    let again = w
        .post("/v1/sessions", "attempt-1", &payment("attempt-1"))
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(again.json::<Value>().await.unwrap(), first);
    assert_eq!(w.sim.books(TEST).unwrap().len(), 1);
}

#[tokio::test]
async fn concurrent_creations_with_one_key_make_one_session() {
    let w = World::new().await;
    let calls = (0..16).map(|_| {
        w.post("/v1/sessions", "attempt-1", &payment("attempt-1"))
            .send()
    });
    let answers = futures_util::future::join_all(calls).await;
    let created = answers
        .iter()
        .filter(|answer| answer.as_ref().unwrap().status() == 201)
        .count();
    assert_eq!(created, 1);
    assert_eq!(w.sim.books(TEST).unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_used_for_other_data_is_refused() {
    let w = World::new().await;
    w.create("attempt-1").await;
    let mut other = payment("attempt-1");
    other["amount"]["value"] = json!("49.91");
    let answer = w
        .post("/v1/sessions", "attempt-1", &other)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 409);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["code"], "idempotency_mismatch");
    assert_eq!(w.entry().amount, "49.90");
}

#[tokio::test]
async fn what_a_vendor_would_refuse_is_refused_and_leaves_no_trace() {
    let w = World::new().await;
    let bad = [
        ("merchant_reference", json!("")),
        ("merchant_reference", json!("a b")),
        ("amount", json!({ "value": 49.90, "currency": "EUR" })),
        ("amount", json!({ "value": "49.9", "currency": "EUR" })),
        ("amount", json!({ "value": "49.90", "currency": "eur" })),
        ("amount", json!({ "value": "49.90" })),
        ("method", json!("Cash")),
        ("order", json!("")),
        ("order", json!("a\u{0}b")),
        ("merchant", json!("")),
        ("return_url", json!("javascript:alert(1)")),
        ("cancel_url", json!("/relative")),
        ("expires_at", json!("tomorrow")),
        ("surprise", json!(1)),
        ("payer", json!({ "card": "4111" })),
    ];
    for (field, value) in bad {
        let mut body = payment("attempt-1");
        body[field] = value;
        let answer = w
            .post("/v1/sessions", "attempt-1", &body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 400, "{field}: {}", body[field]);
        assert_eq!(
            answer.json::<Value>().await.unwrap()["error"]["code"],
            "invalid_request"
        );
    }
    for (field, value) in [
        ("amount", json!({ "value": "0.00", "currency": "EUR" })),
        ("expires_at", json!(START_MS)),
    ] {
        let mut body = payment("attempt-1");
        body[field] = value;
        let answer = w
            .post("/v1/sessions", "attempt-1", &body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 422, "{field}");
    }
    assert!(w.sim.books(TEST).unwrap().is_empty());
}

#[tokio::test]
async fn missing_headers_and_fields_are_refused() {
    let w = World::new().await;
    let bare = w.http.post(w.url("/v1/sessions")).bearer_auth(&w.bearer);
    assert_eq!(
        bare.json(&payment("attempt-1"))
            .send()
            .await
            .unwrap()
            .status(),
        400
    );
    for key in ["short", "with space", &"x".repeat(65)] {
        let answer = w
            .post("/v1/sessions", key, &payment("attempt-1"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 400, "{key}");
    }
    let text = w
        .post("/v1/sessions", "attempt-1", &json!({}))
        .header("content-type", "text/plain");
    assert_eq!(text.send().await.unwrap().status(), 400);
    for field in [
        "merchant_reference",
        "amount",
        "method",
        "return_url",
        "expires_at",
    ] {
        let mut body = payment("attempt-1");
        body.as_object_mut().unwrap().remove(field);
        let answer = w
            .post("/v1/sessions", "attempt-1", &body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 400, "{field}");
    }
}

#[tokio::test]
async fn a_session_is_found_by_the_merchants_reference() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let find = async |query: &str| w.get(&format!("/v1/sessions{query}")).send().await.unwrap();
    let found: Value = find("?merchant_reference=attempt-1")
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(found, json!({ "sessions": [session] }));
    let none: Value = find("?merchant_reference=attempt-2")
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(none, json!({ "sessions": [] }));
    for query in [
        "",
        "?merchant_reference=",
        "?id=1",
        "?merchant_reference=a&merchant_reference=b",
    ] {
        assert_eq!(find(query).await.status(), 400, "{query}");
    }
}

#[tokio::test]
async fn unknown_sessions_and_addresses_are_not_found() {
    let w = World::new().await;
    assert_eq!(
        w.get("/v1/sessions/sbx_0").send().await.unwrap().status(),
        404
    );
    assert_eq!(w.get("/v2/anything").send().await.unwrap().status(), 404);
    let wrong = w.http.delete(w.url("/v1/account")).bearer_auth(&w.bearer);
    assert_eq!(wrong.send().await.unwrap().status(), 405);
    let amount = json!({ "amount": { "value": "1.00", "currency": "EUR" } });
    for (path, body) in [
        ("capture", &amount),
        ("close", &json!({})),
        ("refunds", &amount),
    ] {
        let path = format!("/v1/sessions/sbx_0/{path}");
        assert_eq!(
            w.post(&path, "key-12345", body)
                .send()
                .await
                .unwrap()
                .status(),
            404
        );
    }
}

#[tokio::test]
async fn the_accounts_share_nothing() {
    let w = World::new().await;
    let session = w.create("attempt-1").await;
    let live = token(&w.http, &w.sim, LIVE).await;
    let url = format!(
        "http://{}/v1/sessions/{}",
        w.sim.api_addr(LIVE).unwrap(),
        id(&session)
    );
    assert_eq!(
        w.http
            .get(url)
            .bearer_auth(live)
            .send()
            .await
            .unwrap()
            .status(),
        404
    );
    assert!(w.sim.books(LIVE).unwrap().is_empty());
    assert!(w.sim.books("nobody").is_err());
}

#[tokio::test]
async fn the_next_action_differs_by_method() {
    let w = World::new().await;
    let action = async |method: &str| {
        let attempt = format!("attempt-{method}");
        let mut body = payment(&attempt);
        body["method"] = json!(method);
        let answer = w
            .post("/v1/sessions", &attempt, &body)
            .send()
            .await
            .unwrap();
        answer.json::<Value>().await.unwrap()["next_action"].clone()
    };
    for method in [
        "credit_card",
        "paypal",
        "ideal",
        "cash_app",
        "venmo",
        "revolut",
        "interac",
    ] {
        let action = action(method).await;
        assert_eq!(action["type"], "redirect");
        let page = w
            .http
            .get(action["url"].as_str().unwrap())
            .send()
            .await
            .unwrap();
        assert_eq!(page.status(), 200, "{method}");
    }
    for method in ["crypto", "upi_imps"] {
        let action = action(method).await;
        assert_eq!(action["type"], "instructions");
        assert!(!action["qr"].as_str().unwrap().is_empty());
        let page = w
            .http
            .get(action["link"].as_str().unwrap())
            .send()
            .await
            .unwrap();
        assert_eq!(page.status(), 200, "{method}");
    }
    let form = action("klarna").await;
    assert_eq!(form["type"], "form");
    let fields: Vec<(String, String)> = serde_json::from_value(form["fields"].clone()).unwrap();
    let page = w
        .http
        .post(form["url"].as_str().unwrap())
        .form(&fields)
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("value=\"approve\""));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let w = World::new().await;
    let mut body = payment("attempt-1");
    body["order"] = json!("x".repeat(70_000));
    let answer = w
        .post("/v1/sessions", "attempt-1", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 413);
}
