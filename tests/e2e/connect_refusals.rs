//! Reasons to refuse an exchange, in their order of precedence, and whether each uses up the code.

use serde_json::{Value, json};

use crate::connect::{challenge, claim, origin, proof};
use crate::harness::{Server, merge, shared};
use crate::receiver::{Receiver, Reply};

/// A merchant, a shop, the site's origin and a valid claim with a new code.
async fn ready(server: &Server, more: Value) -> (u64, Receiver, String, Value) {
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    let site = origin(&shop, "127.0.0.1");
    let code = server.connect_code(merchant, &site, more).await;
    let claim = claim(&code, &shop, &site, &site);
    (merchant, shop, site, claim)
}

fn with(claim: &Value, change: Value) -> Value {
    let mut changed = claim.clone();
    merge(&mut changed, change);
    changed
}

/// Asserts that the merchant has no endpoint and no key except the two that it started with.
async fn nothing(server: &Server, merchant: u64) {
    let hooks = server
        .of_merchant(merchant, "webhook-endpoints", "webhook_endpoints")
        .await;
    assert_eq!(hooks, Vec::<Value>::new());
    assert_eq!(
        server.of_merchant(merchant, "keys", "keys").await.len(),
        2,
        "those of the start"
    );
}

#[tokio::test]
async fn shape_comes_first_and_costs_nothing() {
    let server = shared().await;
    let (merchant, shop, site, right) = ready(server, json!({})).await;
    let url = format!("{}/api/v1/connect/exchange", server.base());
    server.send(server.http.get(&url)).await.expect(405);
    let post = || server.http.post(&url);
    let query = server.http.post(format!("{url}?a=1")).json(&right);
    server.send(query).await.expect(422);
    let plain = post().header("content-type", "text/plain");
    server.send(plain.body(right.to_string())).await.expect(400);
    let json = || post().header("content-type", "application/json");
    server.send(json().body("{")).await.expect(400);
    server
        .send(json().body("{\"code\":\"a\",\"code\":\"b\"}"))
        .await
        .expect(400);
    let large = with(&right, json!({ "more": "a".repeat(20_000) }));
    server.exchange(&large).await.expect(413);
    server.exchange(&json!([])).await.expect(422);
    for (field, value) in [
        ("code", json!("")),
        ("code", json!(7)),
        ("code", json!(null)),
        ("code", json!("k".repeat(129))),
        ("site_url", json!("shop")),
        ("site_url", json!("http://shop.example")),
        ("site_url", json!("https://me@shop.example")),
        ("site_url", json!(format!("{site}?a=b"))),
        ("site_url", json!(format!("{site}#a"))),
        ("site_url", json!("https://192.0.2.7")),
        ("site_url", json!(server.base())),
        ("challenge", json!("a".repeat(31))),
        ("challenge", json!("a".repeat(129))),
        ("challenge", json!(format!("{}/../../x", "a".repeat(32)))),
        ("challenge", json!(null)),
        ("proof", json!("a".repeat(63))),
        ("proof", json!("A".repeat(64))),
        ("proof", json!(null)),
        ("merchant_id", json!(1)),
    ] {
        let refused = server
            .exchange(&with(&right, json!({ field: value })))
            .await
            .expect(422);
        assert!(
            refused.error().contains(field),
            "{field} {value}: {}",
            refused.text
        );
    }
    for field in ["code", "site_url", "challenge", "proof"] {
        let mut missing = right.clone();
        missing.as_object_mut().unwrap().remove(field);
        let refused = server.exchange(&missing).await.expect(422);
        assert_eq!(refused.error(), format!("{field}: is required"));
    }
    assert_eq!(shop.got().len(), 0, "no shop was asked");
    nothing(server, merchant).await;
    server.exchange(&right).await.expect(200);
}

#[tokio::test]
async fn a_code_that_opens_nothing_is_401() {
    let server = shared().await;
    let (_, shop, site, right) = ready(server, json!({})).await;
    let code = right["code"].as_str().unwrap();
    let other = |code: &str| {
        let challenge = challenge();
        let proof = proof(code, &challenge, &site);
        json!({ "code": code, "site_url": site, "challenge": challenge, "proof": proof })
    };
    let swapped: String = code.chars().rev().take(40).collect();
    for unknown in [
        format!("kc_{}", "A".repeat(40)),
        format!("kc_{swapped}"),
        format!("{code}A"),
        code[..42].to_owned(),
        format!(" {code}"),
        server.test_key().to_owned(),
        server.operator_token().to_owned(),
        "nothing".to_owned(),
    ] {
        let refused = server.exchange(&other(&unknown)).await.expect(401);
        refused.error();
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(shop.got().len(), 0);
    server.exchange(&right).await.expect(200);
    server.exchange(&right).await.expect(401);
    assert_eq!(shop.got().len(), 1, "a code that was used asks no shop");
}

#[tokio::test]
async fn five_wrong_sites_or_proofs_burn_a_code() {
    let server = shared().await;
    let (merchant, shop, site, right) = ready(server, json!({})).await;
    let code = right["code"].as_str().unwrap();
    let elsewhere = Receiver::new().await;
    let other = origin(&elsewhere, "127.0.0.1");
    let wrong = [
        claim(code, &elsewhere, &other, &other),
        // The same machine under another name or port is another site.
        with(&right, json!({ "site_url": origin(&shop, "localhost") })),
        with(&right, json!({ "proof": "0".repeat(64) })),
        with(&right, json!({ "challenge": challenge() })),
        // A proof for the URL as written instead of its origin.
        with(
            &right,
            json!({ "proof": proof(code, right["challenge"].as_str().unwrap(), &format!("{site}/")) }),
        ),
    ];
    for claim in &wrong {
        server.exchange(claim).await.expect(403).error();
    }
    server.exchange(&right).await.expect(401);
    server.exchange(&wrong[0]).await.expect(401);
    assert_eq!((shop.got().len(), elsewhere.got().len()), (0, 0));
    nothing(server, merchant).await;
    let listed = server
        .of_merchant(merchant, "connect-codes", "connect_codes")
        .await;
    assert_eq!(listed[0]["state"], "burned");
}

#[tokio::test]
async fn wrong_proofs_at_once_are_all_counted() {
    let server = shared().await;
    let (_, _, _, right) = ready(server, json!({})).await;
    let wrong = with(&right, json!({ "proof": "0".repeat(64) }));
    let racing = (0..32).map(|_| {
        let wrong = wrong.clone();
        tokio::spawn(async move { shared().await.exchange(&wrong).await.status })
    });
    let mut counted = 0;
    for racer in racing.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            403 => counted += 1,
            401 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(counted, 5);
    server.exchange(&right).await.expect(401);
}

#[tokio::test]
async fn a_site_that_does_not_answer_with_the_proof_is_403_and_burns_nothing() {
    let server = shared().await;
    let (merchant, shop, _, right) = ready(server, json!({})).await;
    let proof = right["proof"].as_str().unwrap();
    let body = |text: String| Reply::Full(200, String::new(), text.into_bytes());
    let target = Receiver::answering(body(proof.to_owned())).await;
    let location = format!("location: http://{}/\r\n", target.address);
    for reply in [
        Reply::Status(404),
        Reply::Status(500),
        Reply::Status(204),
        Reply::Full(404, String::new(), proof.as_bytes().to_vec()),
        Reply::Full(302, location, proof.as_bytes().to_vec()),
        body(String::new()),
        body(format!("{proof}\n")),
        body(proof.to_uppercase()),
        body(proof[..63].to_owned()),
        body(format!("{proof}{}", " ".repeat(5000))),
        Reply::EndlessBody,
        Reply::EndlessHeaders,
        Reply::HangUp,
        Reply::Reset,
    ] {
        shop.answer(reply.clone());
        let refused = server.exchange(&right).await.expect(403).error();
        assert!(
            refused.contains("the site does not prove"),
            "{reply:?}: {refused}"
        );
    }
    assert_eq!(target.got().len(), 0, "no redirect is followed");
    nothing(server, merchant).await;
    shop.answer(body(proof.to_owned()));
    server.exchange(&right).await.expect(200);
}

#[tokio::test]
async fn a_site_where_nobody_listens_is_403() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let shop = Receiver::new().await;
    // Binds the port without listening, so that connections are refused and no other process takes it.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let site = format!("http://127.0.0.1:{}", taken.local_addr().unwrap().port());
    let code = server.connect_code(merchant, &site, json!({})).await;
    let refused = server
        .exchange(&claim(&code, &shop, &site, &site))
        .await
        .expect(403);
    assert!(
        refused.error().contains("no connection"),
        "{}",
        refused.text
    );
    nothing(server, merchant).await;
}

#[tokio::test]
async fn a_site_that_never_answers_is_given_up() {
    let server = shared().await;
    let (merchant, shop, _, right) = ready(server, json!({})).await;
    shop.answer(Reply::Silence);
    let refused = server.exchange(&right).await.expect(403);
    assert!(refused.error().contains("deadline"), "{}", refused.text);
    nothing(server, merchant).await;
}

#[tokio::test]
async fn a_site_is_asked_at_most_twenty_times_for_a_code() {
    let server = shared().await;
    let (_, shop, _, right) = ready(server, json!({})).await;
    let told = Reply::Full(200, String::new(), right["proof"].as_str().unwrap().into());
    shop.answer(Reply::Status(404));
    for _ in 0..20 {
        server.exchange(&right).await.expect(403);
    }
    shop.answer(told);
    let refused = server.exchange(&right).await.expect(403);
    assert!(refused.error().contains("20 times"), "{}", refused.text);
    assert_eq!(shop.got().len(), 20);
}

#[tokio::test]
async fn a_code_lives_for_five_minutes() {
    let server = Server::fresh().await;
    let (_, _, _, in_time) = ready(&server, json!({})).await;
    let (merchant, _, _, late) = ready(&server, json!({})).await;
    server.advance(240).await;
    server.exchange(&in_time).await.expect(200);
    server.advance(60).await;
    server.exchange(&late).await.expect(401);
    nothing(&server, merchant).await;
    let listed = server
        .of_merchant(merchant, "connect-codes", "connect_codes")
        .await;
    assert_eq!(listed[0]["state"], "expired");
}

#[tokio::test]
async fn a_live_code_of_a_merchant_whose_approval_was_withdrawn_is_403() {
    let server = shared().await;
    let (merchant, shop, _, live) = ready(server, json!({ "environment": "live" })).await;
    server
        .change_merchant(merchant, json!({ "live_approved": false }))
        .await;
    let refused = server.exchange(&live).await.expect(403);
    assert!(refused.error().contains("live"), "{}", refused.text);
    assert_eq!(shop.got().len(), 0);
    nothing(server, merchant).await;
    server
        .change_merchant(merchant, json!({ "live_approved": true }))
        .await;
    server.exchange(&live).await.expect(200);
}

#[tokio::test]
async fn a_merchant_s_limits_are_409_and_can_be_made_room_for() {
    let server = shared().await;
    let (merchant, shop, _, right) = ready(server, json!({})).await;
    for each in 0..64 {
        let body = json!({ "domain": format!("shop{each}.example") });
        let path = format!("/merchants/{merchant}/domains");
        server.admin("POST", &path, Some(&body)).await.expect(201);
    }
    let refused = server.exchange(&right).await.expect(409);
    assert!(refused.error().contains("domains"), "{}", refused.text);
    nothing(server, merchant).await;
    let path = format!("/merchants/{merchant}/domains/shop7.example");
    server.admin("DELETE", &path, None).await.expect(204);
    server.exchange(&right).await.expect(200);
    assert_eq!(shop.got().len(), 2);
}

#[tokio::test]
async fn codes_keys_and_secrets_stand_in_no_log() {
    let server = Server::fresh().await;
    let (_, _, _, right) = ready(&server, json!({})).await;
    let wrong = with(&right, json!({ "proof": "0".repeat(64) }));
    server.exchange(&wrong).await.expect(403);
    let connected = server.exchange(&right).await.expect(200).json();
    server.exchange(&right).await.expect(401);
    let audit = server
        .admin("GET", "/audit?limit=100", None)
        .await
        .expect(200)
        .text;
    for place in [&server.log(), &audit, &server.metrics().await] {
        for secret in [
            &right["code"],
            &right["proof"],
            &right["challenge"],
            &connected["api_key"],
            &connected["webhook_endpoint"]["secret"],
        ] {
            assert!(!place.contains(secret.as_str().unwrap()), "{secret}");
        }
    }
}
