//! Authentication of the reseller endpoints: keys, scopes, rollout, signatures (SPEC, "Authentication" 4-6).

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{new_payment, shared};
use crate::reseller_calls::{
    INVITATIONS, MERCHANTS, PAYMENTS, START, Signed, delegated, nonce, now,
};

const NOBODYS: &str = "/api/v1/reseller/payments/00000000000000000000000000000000";

/// Each endpoint with the scope that it needs. The requests are invalid in body or object, so the refusal shows
/// which checks they passed.
const ENDPOINTS: [(&str, &str, &str); 6] = [
    ("POST", INVITATIONS, "reseller:invite"),
    ("GET", MERCHANTS, "reseller:payments:read"),
    ("GET", PAYMENTS, "reseller:payments:read"),
    ("POST", PAYMENTS, "reseller:payments:create"),
    ("POST", START, "reseller:payments:create"),
    ("GET", NOBODYS, "reseller:payments:read"),
];

fn empty(method: &str) -> Option<Value> {
    (method == "POST").then(|| json!({}))
}

/// Whether the request passed the checks of credentials, permission and signature.
fn is_past(status: u16) -> bool {
    matches!(status, 200 | 404 | 422)
}

#[tokio::test]
async fn a_merchants_key_opens_no_resellers_endpoint_and_the_reverse() {
    let server = shared().await;
    let reseller = server.reseller().await;
    for (method, target, _) in ENDPOINTS {
        for key in [
            server.test_key(),
            server.live_key(),
            server.operator_token(),
            "kr_live_x",
            "",
        ] {
            let signed = Signed::new(key, method, target, empty(method).as_ref());
            let refused = server.ask(&signed).await.expect(401);
            refused.error();
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        }
        let signed = Signed::new(&reseller.test, method, target, empty(method).as_ref());
        let mut headers = signed.headers();
        headers.remove(0);
        server.ask_with(&signed, &headers).await.expect(401);
    }
    for key in [&reseller.test, &reseller.live] {
        let post = server.post(key, "/api/v1/payments", &new_payment()).await;
        post.expect(401).error();
        let start = json!({});
        let post = server.post(key, "/api/v1/payments/start", &start).await;
        post.expect(401);
        server.get(key, "/api/v1/methods").await.expect(401);
        let path = "/api/v1/payments/00000000000000000000000000000000";
        server.get(key, path).await.expect(401);
    }
}

#[tokio::test]
async fn a_resellers_key_has_the_decided_form_and_ends_at_once_when_it_is_revoked() {
    let server = shared().await;
    let reseller = server.reseller().await;
    for (environment, prefix) in [("test", "kr_test_"), ("live", "kr_live_")] {
        let body = json!({ "environment": environment });
        let (id, key) = server.reseller_key(reseller.id, body).await;
        let random = key.strip_prefix(prefix).unwrap();
        assert!(random.len() == 38 && random.bytes().all(|b| b.is_ascii_alphanumeric()));
        server.reseller_get(&key, MERCHANTS).await.expect(200);
        let path = format!("/keys/{id}");
        server.admin("DELETE", &path, None).await.expect(204);
        server.reseller_get(&key, MERCHANTS).await.expect(401);
    }
}

#[tokio::test]
async fn scopes_decide_what_a_resellers_key_may_do() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let all = [
        "reseller:invite",
        "reseller:payments:create",
        "reseller:payments:read",
    ];
    for environment in ["test", "live"] {
        for scope in all {
            let body = json!({ "environment": environment, "scopes": [scope] });
            let (_, key) = server.reseller_key(reseller.id, body).await;
            for (method, target, needed) in ENDPOINTS {
                let signed = Signed::new(&key, method, target, empty(method).as_ref());
                let answer = server.ask(&signed).await;
                if needed == scope {
                    assert!(
                        is_past(answer.status),
                        "{method} {target}: {}",
                        answer.status
                    );
                } else {
                    let told = answer.expect(403).error();
                    assert!(told.contains(needed), "{told}");
                    // The permission is checked before the signature.
                    let headers = signed.signed_by("0".repeat(64));
                    server.ask_with(&signed, &headers).await.expect(403);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_live_key_opens_nothing_unless_its_reseller_is_rolled_out() {
    let server = shared().await;
    let reseller = server.waiting_reseller().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    server.set_standing(&reseller, merchant, "authorized").await;
    let barred = async || {
        for (method, target, _) in ENDPOINTS {
            let body = empty(method);
            let signed = Signed::new(&reseller.live, method, target, body.as_ref());
            server.ask(&signed).await.expect(403).error();
            // The response does not reveal whether the signature is correct.
            let headers = signed.signed_by("0".repeat(64));
            server.ask_with(&signed, &headers).await.expect(403);
        }
        server
            .reseller_get(&reseller.test, MERCHANTS)
            .await
            .expect(200);
    };
    barred().await;
    server.roll_out(&reseller, true).await;
    server
        .reseller_get(&reseller.live, MERCHANTS)
        .await
        .expect(200);
    let payment = server
        .make_delegated(&reseller.live, merchant, json!({}))
        .await;
    assert_eq!(payment["test_mode"], false);
    server.roll_out(&reseller, false).await;
    barred().await;
}

#[tokio::test]
async fn every_live_request_is_signed() {
    let server = shared().await;
    let reseller = server.reseller().await;
    for (method, target, _) in ENDPOINTS {
        let body = empty(method);
        let signed = Signed::new(&reseller.live, method, target, body.as_ref());
        let headers = signed.headers();
        for name in [
            "x-service-timestamp",
            "x-service-nonce",
            "x-service-signature",
        ] {
            let mut missing = headers.clone();
            missing.retain(|(each, _)| *each != name);
            let told = server.ask_with(&signed, &missing).await.expect(401).error();
            assert!(told.to_lowercase().contains(name), "{told}");
            let mut repeated = headers.clone();
            let same = headers.iter().find(|(each, _)| *each == name).unwrap();
            repeated.push(same.clone());
            server
                .ask_with(&signed, &repeated)
                .await
                .expect(401)
                .error();
        }
        let wrong = signed.signed_by("0".repeat(64));
        server.ask_with(&signed, &wrong).await.expect(401).error();
        // None of these requests has used up the nonce.
        let answer = server.ask(&signed).await;
        assert!(is_past(answer.status), "{method} {target}: {}", answer.text);
        server.ask(&signed).await.expect(409).error();
    }
}

#[tokio::test]
async fn a_signature_is_lower_case_hex_of_exactly_this_request() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let (_, other_key) = server
        .reseller_key(reseller.id, json!({ "environment": "live" }))
        .await;
    let right = Signed::post(&reseller.live, PAYMENTS, &delegated(merchant, json!({})));
    let of = |change: &dyn Fn(&mut Signed)| {
        let mut other = right.clone();
        change(&mut other);
        other.signature()
    };
    let signature = right.signature();
    let hash = hex::decode(&signature).unwrap();
    let wrong = [
        signature.to_uppercase(),
        format!("v1={signature}"),
        format!("sha256={signature}"),
        signature[..63].to_owned(),
        format!("{signature}0"),
        String::new(),
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, hash),
        of(&|other| other.method = "post".into()),
        of(&|other| other.method = "GET".into()),
        of(&|other| other.target.push('?')),
        of(&|other| other.target = format!("{}{}", server.base(), other.target)),
        of(&|other| other.timestamp = (now() - 1000).to_string()),
        of(&|other| other.nonce.push('x')),
        of(&|other| other.body.clear()),
        of(&|other| other.body.push(b'\n')),
        of(&|other| other.key.clone_from(&other_key)),
        of(&|other| other.key = other.key["kr_live_".len()..].to_owned()),
    ];
    for wrong in wrong {
        let headers = right.signed_by(wrong.clone());
        let answer = server.ask_with(&right, &headers).await;
        assert_eq!(answer.status, 401, "{wrong}: {}", answer.text);
        answer.error();
    }
    // A request with two credentials is refused.
    let mut headers = right.headers();
    headers.push(headers[0].clone());
    server.ask_with(&right, &headers).await.expect(401);
    server.ask(&right).await.expect(200);
}

#[tokio::test]
async fn a_timestamp_is_good_for_five_minutes_either_way() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let at = async |timestamp: &str| {
        let mut signed = Signed::get(&reseller.live, MERCHANTS);
        timestamp.clone_into(&mut signed.timestamp);
        server.ask(&signed).await.status
    };
    // Leaves half a minute, because the test may be slow.
    for fine in [-270, 0, 270] {
        assert_eq!(at(&(now() + fine).to_string()).await, 200, "{fine}");
    }
    for wrong in [-302, 330, 3600, -now()] {
        assert_eq!(at(&(now() + wrong).to_string()).await, 401, "{wrong}");
    }
    for wrong in [
        format!("0{}", now()),
        format!("+{}", now()),
        format!("{}.0", now()),
        format!("{}000", now()),
        format!("{:x}", now()),
        "now".to_owned(),
        "-1".to_owned(),
        String::new(),
        "9".repeat(40),
    ] {
        assert_eq!(at(&wrong).await, 401, "{wrong}");
    }
}

#[tokio::test]
async fn a_nonce_is_of_the_decided_characters_and_length() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let with = async |nonce: &str| {
        let signed = Signed::get(&reseller.live, MERCHANTS).with_nonce(nonce);
        server.ask(&signed).await.status
    };
    for fine in ["0123456789abcdef", "AZaz09._:-AZaz09", &"n".repeat(80)] {
        assert_eq!(with(fine).await, 200, "{fine}");
    }
    for wrong in [
        "",
        "0123456789abcde",
        &"n".repeat(81),
        "0123456789abcde/",
        "0123456789abcde=",
        "0123456789 abcdef",
        "0123456789abcdé",
    ] {
        assert_eq!(with(wrong).await, 401, "{wrong:?}");
    }
}

#[tokio::test]
async fn path_and_query_are_signed_as_they_stand() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let payment = server
        .make_delegated(&reseller.live, merchant, json!({}))
        .await;
    let id = payment["payment_id"].as_str().unwrap();
    let encoded = format!("%{:02X}{}", id.as_bytes()[0], &id[1..]);
    let digits: String = merchant
        .to_string()
        .bytes()
        .map(|b| format!("%{b:02x}"))
        .collect();
    for (target, other) in [
        (format!("{MERCHANTS}?"), MERCHANTS.to_owned()),
        (
            format!("{PAYMENTS}?merchant_id={digits}"),
            format!("{PAYMENTS}?merchant_id={merchant}"),
        ),
        (
            format!("{PAYMENTS}?limit=5&merchant_id={merchant}"),
            format!("{PAYMENTS}?merchant_id={merchant}&limit=5"),
        ),
        (
            format!("{PAYMENTS}?merchant_id={merchant}&"),
            format!("{PAYMENTS}?merchant_id={merchant}"),
        ),
        (format!("{PAYMENTS}/{encoded}"), format!("{PAYMENTS}/{id}")),
    ] {
        let signed = Signed::get(&reseller.live, &target);
        let as_other = Signed {
            target: other,
            ..signed.clone()
        };
        let headers = signed.signed_by(as_other.signature());
        let answer = server.ask_with(&signed, &headers).await;
        assert_eq!(answer.status, 401, "{target}: {}", answer.text);
        let answer = server.ask(&signed).await;
        assert_eq!(answer.status, 200, "{target}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_live_request_names_its_target_as_a_path() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let absolute = format!("{}{MERCHANTS}", server.base());
    for signed_target in [MERCHANTS, &absolute] {
        let signed = Signed::get(&reseller.live, signed_target);
        let headers = signed.headers();
        let answer = server.raw("GET", &absolute, &headers, b"").await;
        answer.expect(401).error();
        // The nonce can still be used.
        if signed_target == MERCHANTS {
            server.ask(&signed).await.expect(200);
        }
    }
}

#[tokio::test]
async fn the_body_is_signed_byte_for_byte_however_it_is_sent() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let mut signed = Signed::post(&reseller.live, PAYMENTS, &json!({}));
    let body = delegated(merchant, json!({ "order_id": "Bäckerei 7 \u{1F950}" }));
    signed.body = format!(" {}\r\n\t", serde_json::to_string_pretty(&body).unwrap()).into_bytes();
    // Another encoding of the same JSON is a different body.
    let headers = signed.headers();
    let compact = body.to_string().into_bytes();
    let answer = server.raw("POST", PAYMENTS, &headers, &compact).await;
    answer.expect(401);
    // Sends the body in chunks of three bytes.
    let address = server.base().strip_prefix("http://").unwrap();
    let mut request = format!(
        "POST {PAYMENTS} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
    )
    .into_bytes();
    for (name, value) in &headers {
        request.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    request.extend_from_slice(b"\r\n");
    for chunk in signed.body.chunks(3) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(&request).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[tokio::test]
async fn http2_requests_are_signed_alike() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let address = server.base().strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let io = TokioIo::new(stream);
    let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
    let (sender, connection) = connected.await.unwrap();
    tokio::spawn(connection);
    let send = async |signed: &Signed, signature: String| {
        let mut request = http::Request::builder()
            .method(signed.method.as_str())
            .uri(format!("{}{}", server.base(), signed.target));
        for (name, value) in signed.signed_by(signature) {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(signed.body.clone()));
        let mut sender = sender.clone();
        sender.ready().await.unwrap();
        let sent = sender.send_request(request.body(body).unwrap());
        let (parts, body) = sent.await.unwrap().into_parts();
        assert_eq!(parts.version, http::Version::HTTP_2);
        body.collect().await.unwrap();
        parts.status.as_u16()
    };
    let create = Signed::post(&reseller.live, PAYMENTS, &delegated(merchant, json!({})));
    let digits: String = merchant
        .to_string()
        .bytes()
        .map(|b| format!("%{b:02x}"))
        .collect();
    let target = format!("{PAYMENTS}?merchant_id={digits}&limit=1");
    let list = Signed::get(&reseller.live, &target);
    for signed in [create, list] {
        assert_eq!(send(&signed, "0".repeat(64)).await, 401);
        assert_eq!(send(&signed, signed.signature()).await, 200);
        assert_eq!(send(&signed, signed.signature()).await, 409);
    }
}

#[tokio::test]
async fn test_requests_need_no_signature_and_use_no_nonce_up() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let unsigned = Signed::get(&reseller.test, MERCHANTS);
    let bare = vec![("authorization", format!("Bearer {}", reseller.test))];
    server.ask_with(&unsigned, &bare).await.expect(200);
    for _ in 0..2 {
        let wrong = unsigned.signed_by("wrong".into());
        server.ask_with(&unsigned, &wrong).await.expect(200);
    }
    let absolute = format!("{}{MERCHANTS}", server.base());
    server.raw("GET", &absolute, &bare, b"").await.expect(200);
    let live = Signed::get(&reseller.live, MERCHANTS).with_nonce(&unsigned.nonce);
    server.ask(&live).await.expect(200);
}

#[tokio::test]
async fn checks_stand_in_the_decided_order() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let key = &reseller.live;
    let good = delegated(merchant, json!({}));

    // The size is checked before the credential.
    let mut huge = Signed::post("kr_live_nobody", PAYMENTS, &json!({}));
    huge.body = vec![b' '; 17 * 1024];
    server.ask(&huge).await.expect(413).error();
    // The credential is checked before anything that the response could reveal.
    let mut wrong = Signed::post("kr_live_nobody", PAYMENTS, &json!({}));
    wrong.body = b"{".to_vec();
    server.ask(&wrong).await.expect(401);
    // Signature and nonce are checked before the body.
    let mut broken = Signed::post(key, PAYMENTS, &json!({}));
    broken.body = b"{".to_vec();
    let headers = broken.signed_by("0".repeat(64));
    server.ask_with(&broken, &headers).await.expect(401);
    server.ask(&broken).await.expect(400).error();
    server.ask(&broken).await.expect(409).error();
    // Content-Type and JSON syntax are checked before the fields.
    let mut typeless = Signed::post(key, PAYMENTS, &good);
    let mut headers = typeless.headers();
    headers.retain(|(name, _)| *name != "content-type");
    server.ask_with(&typeless, &headers).await.expect(400);
    typeless.nonce = nonce();
    let mut headers = typeless.headers();
    headers.push(("content-encoding", "gzip".into()));
    server.ask_with(&typeless, &headers).await.expect(400);
    let mut twice = Signed::post(key, PAYMENTS, &json!({}));
    twice.body = br#"{"amount":"1.00","amount":"2.00"}"#.to_vec();
    server.ask(&twice).await.expect(400);
    // The fields are checked before the object, and the object before delegation and idempotency.
    let unknown = delegated(999_999, json!({ "wallet": "x" }));
    let told = server.reseller_post(key, PAYMENTS, &unknown).await;
    assert!(told.expect(422).error().contains("wallet"));
    let unknown = delegated(999_999, json!({ "currency": "PLN" }));
    server
        .reseller_post(key, PAYMENTS, &unknown)
        .await
        .expect(403);
    let query = format!("{PAYMENTS}?x=1");
    server.reseller_post(key, &query, &good).await.expect(422);
    server
        .reseller_get(key, &format!("{MERCHANTS}?x=1"))
        .await
        .expect(422);
    // Path and method are checked first.
    let missing = Signed::get(key, "/api/v1/reseller/nothing");
    server.ask(&missing).await.expect(404).error();
    let patch = Signed::new(key, "PATCH", PAYMENTS, None);
    server.ask(&patch).await.expect(405).error();
    // A refused request uses up its nonce too.
    let refused = Signed::post(key, PAYMENTS, &json!({ "x": 1 }));
    server.ask(&refused).await.expect(422);
    server.ask(&refused).await.expect(409);
}
