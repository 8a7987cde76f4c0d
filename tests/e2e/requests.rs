//! The SPEC's table "Requests": order of checks, shapes, errors, headers, limits.

use serde_json::{Value, json};

use crate::harness::{Answer, Server, merge, new_payment, shared};

const PAYMENTS: &str = "/api/v1/payments";

pub(crate) async fn create_with(server: &Server, more: Value) -> Answer {
    let mut body = new_payment();
    merge(&mut body, more);
    server.post(server.test_key(), PAYMENTS, &body).await
}

/// POSTs raw bytes with these headers only.
async fn raw(server: &Server, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let mut request = server
        .http
        .post(format!("{}{PAYMENTS}", server.base()))
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request).await
}

fn bearer(server: &Server) -> String {
    format!("Bearer {}", server.test_key())
}

#[tokio::test]
async fn a_payment_is_created_with_every_field_of_the_specification() {
    let server = shared().await;
    let mut body = new_payment();
    merge(
        &mut body,
        json!({ "customer_email": "ann@example.com", "return_url": "https://shop.example/done?x=1" }),
    );
    let answer = server
        .post(server.test_key(), PAYMENTS, &body)
        .await
        .expect(201);
    let payment = answer.json();
    let id = payment["payment_id"].as_str().unwrap();
    assert!(
        id.len() == 32
            && id
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    );
    assert_eq!(payment["order_id"], body["order_id"]);
    assert_eq!(payment["status"], "created");
    assert_eq!(payment["settlement_status"], "pending");
    assert_eq!(payment["amount"], "49.90");
    assert_eq!(payment["currency"], "EUR");
    assert_eq!(
        payment["usd_amount"], "53.89",
        "49.90 at 1.08, half to even"
    );
    assert_eq!(payment["payment_method"], Value::Null);
    assert_eq!(payment["test_mode"], true);
    let token = payment["checkout_url"]
        .as_str()
        .unwrap()
        .strip_prefix(&format!("{}/checkout/", server.base()));
    assert_eq!(token.unwrap().len(), 43);
    assert_eq!(
        payment.as_object().unwrap().len(),
        10,
        "nothing else: {payment}"
    );
    assert!(
        answer
            .header("location")
            .unwrap()
            .ends_with(&format!("/api/v1/payments/{id}"))
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(answer.header("access-control-allow-origin").is_none());
    assert_eq!(server.payment(server.test_key(), &payment).await, payment);
}

#[tokio::test]
async fn a_path_that_is_not_there_and_a_wrong_method_have_the_error_shape() {
    let server = shared().await;
    let url = |path: &str| format!("{}{path}", server.base());
    server
        .send(server.http.get(url("/api/v1/nothing")))
        .await
        .expect(404)
        .error();
    let answer = server
        .send(server.http.delete(url(PAYMENTS)))
        .await
        .expect(405);
    answer.error();
    assert!(answer.header("allow").unwrap().contains("POST"));
}

#[tokio::test]
async fn size_is_judged_before_credentials_and_parsing() {
    let server = shared().await;
    let answer = raw(server, &[], vec![b'x'; 16 * 1024 + 1])
        .await
        .expect(413);
    answer.error();
    let exact = {
        let mut body = serde_json::to_vec(&new_payment()).unwrap();
        body.resize(16 * 1024, b' ');
        body
    };
    raw(
        server,
        &[
            ("authorization", &bearer(server)),
            ("content-type", "application/json"),
        ],
        exact,
    )
    .await
    .expect(201);
}

#[tokio::test]
async fn a_body_without_a_length_is_capped_too() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = shared().await;
    let address = server.base().strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {PAYMENTS} HTTP/1.1\r\nhost: {address}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..20 {
        // The server may already have responded and closed the connection.
        if stream
            .write_all(format!("400\r\n{}\r\n", "x".repeat(1024)).as_bytes())
            .await
            .is_err()
        {
            break;
        }
    }
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
}

#[tokio::test]
async fn credentials_are_judged_before_content_type_and_body() {
    let server = shared().await;
    let checksum_off = {
        let mut key = server.test_key().to_owned();
        let last = if key.ends_with('0') { "1" } else { "0" };
        key.replace_range(key.len() - 1.., last);
        key
    };
    for key in [
        "",
        "nonsense",
        &checksum_off,
        server.operator_token(),
        "kr_test_abc",
    ] {
        let answer = raw(
            server,
            &[("authorization", &format!("Bearer {key}"))],
            b"not json".to_vec(),
        )
        .await
        .expect(401);
        answer.error();
        assert!(
            answer
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
    }
    raw(
        server,
        &[("content-type", "application/json")],
        b"{}".to_vec(),
    )
    .await
    .expect(401);
    raw(server, &[("authorization", "Basic eDp5")], b"{}".to_vec())
        .await
        .expect(401);
}

#[tokio::test]
async fn content_type_and_json_are_judged_before_the_shape() {
    let server = shared().await;
    let auth = bearer(server);
    let body = || serde_json::to_vec(&new_payment()).unwrap();
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
    ] {
        raw(
            server,
            &[("authorization", &auth), ("content-type", content_type)],
            body(),
        )
        .await
        .expect(400)
        .error();
    }
    raw(server, &[("authorization", &auth)], body())
        .await
        .expect(400);
    for good in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/json;charset=UTF-8",
    ] {
        raw(
            server,
            &[("authorization", &auth), ("content-type", good)],
            body(),
        )
        .await
        .expect(201);
    }
    let json = [
        ("authorization", auth.as_str()),
        ("content-type", "application/json"),
    ];
    for wrong in [
        "",
        "{",
        "{}x",
        "{\"a\":1,\"a\":2}",
        "\u{feff}{}",
        "{'a':1}",
        "NaN",
    ] {
        raw(server, &json, wrong.as_bytes().to_vec())
            .await
            .expect(400)
            .error();
    }
    raw(server, &json, b"{\"order_id\":\"\xff\"}".to_vec())
        .await
        .expect(400);
    let mut doubled = String::from_utf8(body()).unwrap();
    doubled.insert_str(1, "\"amount\":\"1.00\",");
    raw(server, &json, doubled.into_bytes()).await.expect(400);
    let mut encoded = json.to_vec();
    encoded.push(("content-encoding", "gzip"));
    raw(server, &encoded, body()).await.expect(400).error();
    for shape in ["[]", "null", "\"x\"", "1"] {
        raw(server, &json, shape.as_bytes().to_vec())
            .await
            .expect(422)
            .error();
    }
}

#[tokio::test]
async fn a_request_id_is_kept_where_it_is_plain_and_made_where_it_is_not() {
    let server = shared().await;
    let ask = async |id: Option<&str>| {
        let mut request = server.http.get(format!("{}/api/v1/methods", server.base()));
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        let answer = server.send(request).await.expect(401);
        answer.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(ask(Some("abc-123")).await, "abc-123");
    assert_ne!(ask(Some(&"x".repeat(129))).await, "x".repeat(129));
    assert_ne!(ask(Some("a b")).await, "a b");
    assert_ne!(ask(None).await, ask(None).await);
}

#[tokio::test]
async fn too_many_requests_are_told_when_to_come_back() {
    let server = shared().await;
    let limited = json!({
        "name": "Limited", "policy": { "rate_limit": { "per_second": 1, "burst": 3 } },
    });
    let merchant = server
        .admin("POST", "/merchants", Some(&limited))
        .await
        .expect(201)
        .json();
    let path = format!("/merchants/{}/keys", merchant["merchant_id"]);
    let key = server
        .admin("POST", &path, Some(&json!({ "environment": "test" })))
        .await
        .expect(201)
        .json();
    let key = key["key"].as_str().unwrap();
    let mut refused = None;
    for _ in 0..10 {
        let answer = server.get(key, "/api/v1/methods").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("ten requests at once are more than three");
    refused.error();
    assert!(
        refused
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    assert!(refused.header("ratelimit").is_some() && refused.header("ratelimit-policy").is_some());
    assert_eq!(
        server
            .get(server.test_key(), "/api/v1/methods")
            .await
            .status,
        200,
        "others are not limited"
    );
}

#[tokio::test]
async fn the_document_describes_what_is_served() {
    let server = shared().await;
    let answer = server
        .send(server.http.get(format!("{}/openapi.json", server.base())))
        .await
        .expect(200);
    assert_ne!(answer.header("cache-control"), Some("no-store"));
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in [
        PAYMENTS,
        "/api/v1/methods",
        "/api/v1/payments/start",
        "/api/v1/payments/{payment_id}",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}
