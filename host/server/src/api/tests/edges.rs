//! Responses outside of the gateway: routes, sizes, credentials, limits, headers.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use futures_util::stream;
use kassette_domain::key::{Environment, Scope};
use serde_json::json;
use tower::ServiceExt as _;

use super::super::{ApiState, limited, router};
use super::world::{NARROW, World};
use crate::admission::InFlightLimits;
use crate::pages::PagesState;
use crate::proxies::Proxies;

const PAYMENTS: &str = "/api/v1/payments";

fn oversized() -> Vec<u8> {
    vec![b'{'; (16 << 10) + 1]
}

#[tokio::test]
async fn each_route_counts_among_the_class_of_what_it_waits_for() {
    const CLASSES: [&str; 6] = [
        "reads",
        "writes",
        "modules",
        "starts",
        "exchanges",
        "callbacks",
    ];
    let world = World::new().await;
    for full in CLASSES {
        let mut most = InFlightLimits::default();
        match full {
            "reads" => most.reads = 0,
            "writes" => most.writes = 0,
            "modules" => most.modules = 0,
            "starts" => most.starts = 0,
            "exchanges" => most.exchanges = 0,
            _ => most.callbacks = 0,
        }
        let state = ApiState::new(world.gateway.clone(), Proxies::default(), most);
        let pages =
            PagesState::new(world.gateway.clone(), Proxies::default()).limited_by(state.clone());
        let router = router(state).merge(crate::pages::router(pages));
        for (method, path, class) in [
            ("GET", "/api/v1/payments/abc", "reads"),
            ("GET", "/api/v1/reseller/merchants", "reads"),
            ("GET", "/api/v1/reseller/payments", "reads"),
            ("GET", "/api/v1/woocommerce/releases/latest", "reads"),
            ("GET", "/openapi.json", "reads"),
            ("GET", "/nowhere", "reads"),
            ("POST", PAYMENTS, "writes"),
            ("POST", "/api/v1/reseller/payments", "writes"),
            ("POST", "/api/v1/reseller/invitations", "writes"),
            ("POST", "/nowhere", "writes"),
            ("GET", "/api/v1/methods", "modules"),
            ("GET", "/checkout/abc", "modules"),
            ("GET", "/checkout/abc/go", "modules"),
            ("POST", "/api/v1/payments/start", "starts"),
            ("POST", "/api/v1/reseller/payments/start", "starts"),
            ("POST", "/checkout/abc/choose", "starts"),
            ("POST", "/checkout/abc/answer", "starts"),
            ("POST", "/checkout/abc/abandon", "starts"),
            ("GET", "/return/abc", "starts"),
            ("POST", "/api/v1/connect/exchange", "exchanges"),
            ("POST", "/callbacks/sandbox-test", "callbacks"),
            ("GET", "/callbacks/sandbox-test/more", "callbacks"),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            let refused = answer.status() == 503;
            assert_eq!(
                refused,
                class == full,
                "{method} {path} where {full} are full"
            );
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_have_the_error_shape() {
    let world = World::new().await;
    for path in [
        "/",
        "/api/v1",
        "/api/v1/payments/",
        "/api/v1/payments/a/b",
        "/callbacks",
    ] {
        world
            .ask("GET", path, &[], Body::empty())
            .await
            .expect(404)
            .error();
    }
    for (method, path, allowed) in [
        ("DELETE", PAYMENTS, "GET,HEAD,POST"),
        ("OPTIONS", PAYMENTS, "GET,HEAD,POST"),
        ("GET", "/api/v1/payments/start", "POST"),
        ("POST", "/api/v1/methods", "GET,HEAD"),
        ("DELETE", "/api/v1/payments/abc", "GET,HEAD"),
        ("BREW", "/api/v1/methods", "GET,HEAD"),
        (
            "OPTIONS",
            "/callbacks/sandbox-test",
            "GET,HEAD,POST,PUT,PATCH,DELETE",
        ),
        ("POST", "/openapi.json", "GET,HEAD"),
    ] {
        let answer = world.ask(method, path, &[], oversized()).await.expect(405);
        answer.error();
        let mut said: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
        let mut expected: Vec<_> = allowed.split(',').collect();
        said.sort_unstable();
        expected.sort_unstable();
        assert_eq!(said, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn every_answer_has_an_id_and_is_neither_cached_nor_sniffed() {
    let world = World::new().await;
    for (method, path) in [
        ("GET", "/nowhere"),
        ("GET", PAYMENTS),
        ("POST", PAYMENTS),
        ("POST", "/callbacks/unknown"),
    ] {
        let answer = world
            .ask(method, path, &[("x-request-id", "mine")], Body::empty())
            .await;
        assert_eq!(answer.header("x-request-id"), "mine", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
    }
}

#[tokio::test]
async fn size_comes_before_credentials_declared_or_not() {
    let world = World::new().await;
    for (method, path) in [
        ("POST", PAYMENTS),
        ("POST", "/api/v1/payments/start"),
        ("GET", "/api/v1/methods"),
        ("GET", "/api/v1/payments/abc"),
    ] {
        world
            .ask(method, path, &[], oversized())
            .await
            .expect(413)
            .error();
    }
    let half = || Ok::<_, std::io::Error>(vec![b'x'; 9 << 10]);
    let streamed = Body::from_stream(stream::iter([half(), half()]));
    world
        .ask("POST", PAYMENTS, &[], streamed)
        .await
        .expect(413)
        .error();
    let whole = vec![b'{'; 16 << 10];
    world.ask("POST", PAYMENTS, &[], whole).await.expect(401);
}

#[tokio::test]
async fn a_credential_of_another_kind_or_none_is_401_before_anything_is_read() {
    let world = World::new().await;
    let revoked = world.test_key().await;
    world.revoke(&revoked).await;
    let mut typo = world.test_key().await;
    let last = if typo.ends_with('0') { "1" } else { "0" };
    typo.replace_range(typo.len() - 1.., last);
    let reseller = kassette_domain::key::TokenKind::Reseller(Environment::Test);
    let reseller = reseller.generate(getrandom::fill).unwrap();
    for key in ["", "x", &revoked, &typo, reseller.expose()] {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str())];
        let answer = world
            .ask("POST", PAYMENTS, &headers, "not json")
            .await
            .expect(401);
        answer.error();
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
}

#[tokio::test]
async fn scope_and_live_policy_come_before_the_body() {
    let world = World::new().await;
    let reader = world.key(Environment::Test, &[Scope::PaymentsRead]).await;
    let creator = world.key(Environment::Test, &[Scope::PaymentsCreate]).await;
    let live = world.key(Environment::Live, &Scope::MERCHANT).await;
    world
        .change(|merchant| merchant.live_approved = false)
        .await;
    for path in [PAYMENTS, "/api/v1/payments/start"] {
        for key in [&reader, &live] {
            let bearer = format!("Bearer {key}");
            let headers = [("authorization", bearer.as_str())];
            world
                .ask("POST", path, &headers, "not json")
                .await
                .expect(403)
                .error();
        }
    }
    world
        .get(&creator, "/api/v1/methods?x=1")
        .await
        .expect(403)
        .error();
    world.get(&live, "/api/v1/methods").await.expect(200);
}

#[tokio::test]
async fn the_rate_comes_after_the_credential_and_before_the_scope() {
    let world = World::new().await;
    let reader = world.key(Environment::Test, &[Scope::PaymentsRead]).await;
    let other = world.test_key().await;
    let bearer = format!("Bearer {reader}");
    let headers = [("authorization", bearer.as_str())];
    let refused = world.exhaust(&headers, "/api/v1/methods").await.unwrap();
    refused.error();
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.header("ratelimit-policy"), "\"requests\";q=20;w=20");
    assert_eq!(refused.header("ratelimit"), "\"requests\";r=0;t=1");
    world
        .ask("POST", PAYMENTS, &headers, "not json")
        .await
        .expect(429);
    world.get(&other, "/api/v1/methods").await.expect(200);
    world.clock.advance(std::time::Duration::from_secs(2));
    world.get(&reader, "/api/v1/methods").await.expect(200);
}

#[tokio::test]
async fn a_merchants_own_rate_goes_before_the_configured_one() {
    let world = World::new().await;
    let wide = kassette_domain::policy::RateLimit {
        per_second: 10_000,
        burst: 10_000,
    };
    world
        .change(|merchant| merchant.policy.rate_limit = Some(wide))
        .await;
    let bearer = format!("Bearer {}", world.test_key().await);
    let headers = [("authorization", bearer.as_str())];
    assert!(world.exhaust(&headers, "/api/v1/methods").await.is_none());
}

#[tokio::test]
async fn guessing_keys_is_slowed_down_by_address_and_holds_up_nobody_with_a_key() {
    let world = World::new().await;
    let key = world.test_key().await;
    let headers = [("authorization", "Bearer guess")];
    assert!(world.exhaust(&headers, "/api/v1/methods").await.is_some());
    world.get(&key, "/api/v1/methods").await.expect(200);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_are_slowed_down_by_address() {
    let world = World::new().await;
    let key = world.test_key().await;
    for path in ["/nowhere", "/api/v1/payments/start", "/callbacks"] {
        world.clock.advance(std::time::Duration::from_secs(60));
        let refused = world.exhaust(&[], path).await;
        assert!(refused.is_some(), "{path}");
        world.get(&key, "/api/v1/methods").await.expect(200);
    }
}

#[tokio::test]
async fn nothing_is_read_from_an_address_that_has_no_token_left_and_shows_no_key() {
    let world = World::new().await;
    for path in ["/api/v1/methods", "/api/v1/reseller/merchants"] {
        world.clock.advance(std::time::Duration::from_secs(60));
        assert!(world.exhaust(&[], path).await.is_some());
        // If the body were read, the response would report that it broke off.
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let body = Body::from_stream(stream::iter([Err::<Vec<u8>, _>(broken)]));
        world.ask("GET", path, &[], body).await.expect(429);
        world.ask("GET", path, &[], oversized()).await.expect(413);
    }
}

#[tokio::test]
async fn content_type_and_json_come_before_the_shape() {
    let world = World::new().await;
    let bearer = format!("Bearer {}", world.test_key().await);
    let auth = ("authorization", bearer.as_str());
    let json = ("content-type", "application/json");
    let wrong_shape = r#"{"wallet":1}"#;
    for headers in [
        vec![auth],
        vec![auth, ("content-type", "text/plain")],
        vec![auth, json, ("content-encoding", "gzip")],
    ] {
        world
            .ask("POST", PAYMENTS, &headers, wrong_shape)
            .await
            .expect(400)
            .error();
    }
    for body in ["", "{", r#"{"wallet":1,"wallet":1}"#] {
        let answer = world.ask("POST", PAYMENTS, &[auth, json], body).await;
        answer.expect(400).error();
    }
    for body in ["[]", "null", "\"x\"", wrong_shape] {
        world
            .ask("POST", PAYMENTS, &[auth, json], body)
            .await
            .expect(422)
            .error();
    }
}

#[tokio::test]
async fn unknown_query_parameters_are_refused_everywhere() {
    let world = World::new().await;
    let key = world.test_key().await;
    let id = "0".repeat(32);
    for path in [
        format!("/api/v1/payments/{id}?x=1"),
        "/api/v1/methods?x=1".to_owned(),
        "/api/v1/methods?amount=1.00&amount=1.00".to_owned(),
    ] {
        let answer = world.get(&key, &path).await.expect(422);
        assert!(answer.error().contains("query parameter"), "{path}");
    }
    let create = json!({ "order_id": "o", "idempotency_key": "12345678", "amount": "1.00" });
    world
        .post(&key, "/api/v1/payments?x=1", &create)
        .await
        .expect(422)
        .error();
    let start = json!({ "payment_id": id, "payment_method": "ideal" });
    world
        .post(&key, "/api/v1/payments/start?x=1", &start)
        .await
        .expect(422)
        .error();
}

#[tokio::test]
async fn callbacks_are_taken_for_known_accounts_within_their_size() {
    let world = World::new().await;
    let large = || vec![b'x'; (256 << 10) + 1];
    let own = "/callbacks/sandbox-test";
    for path in [
        "/callbacks/unknown",
        "/callbacks/UNKNOWN",
        "/callbacks/unknown/x",
    ] {
        world
            .ask("POST", path, &[], large())
            .await
            .expect(404)
            .error();
    }
    for path in [own.to_owned(), format!("{own}/"), format!("{own}/a/b")] {
        world
            .ask("PUT", &path, &[], large())
            .await
            .expect(413)
            .error();
        // No module serves, so the provider should retry.
        let answer = world.ask("POST", &path, &[], vec![b'x'; 256 << 10]).await;
        assert!(answer.status >= 500, "{path}: {}", answer.status);
    }
    let head = world.ask("HEAD", own, &[], Body::empty()).await.expect(405);
    assert_eq!(head.header("allow"), "GET,POST,PUT,PATCH,DELETE");
}

#[tokio::test]
async fn routes_of_others_have_the_limits_of_ours() {
    let world = World::new().await;
    let most = InFlightLimits {
        writes: 0,
        ..InFlightLimits::default()
    };
    let state = |most| ApiState::new(world.gateway.clone(), Proxies::default(), most);
    let routes = || {
        let page = get(|| async { "page" }).post(|form: String| async { form });
        Router::new().nest("/sandbox", Router::new().route("/page", page))
    };
    let limited = limited(routes(), &state(InFlightLimits::default()));
    let send = |router: &Router, method: &str, body: Vec<u8>| {
        let request = Request::builder().method(method).uri("/sandbox/page");
        let answer = router
            .clone()
            .oneshot(request.body(Body::from(body)).unwrap());
        async { answer.await.unwrap() }
    };
    let shown = send(&limited, "GET", vec![]).await;
    assert_eq!(shown.status(), 200);
    assert!(shown.headers().contains_key("x-request-id"));
    let form = send(&limited, "POST", b"outcome=approve".to_vec()).await;
    let form = axum::body::to_bytes(form.into_body(), 100).await.unwrap();
    assert_eq!(form, "outcome=approve");
    assert_eq!(send(&limited, "POST", oversized()).await.status(), 413);
    for _ in 3..NARROW.burst {
        assert_eq!(send(&limited, "GET", vec![]).await.status(), 200);
    }
    assert_eq!(send(&limited, "GET", vec![]).await.status(), 429);
    let full = super::super::limited(routes(), &state(most));
    assert_eq!(send(&full, "POST", vec![]).await.status(), 503);
    assert_eq!(send(&full, "GET", vec![]).await.status(), 200);
}
