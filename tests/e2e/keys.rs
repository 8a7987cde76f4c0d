//! API keys: kinds, scopes, lifetime and environments; operators and their roles.

use serde_json::{Value, json};

use crate::harness::{Server, new_payment, shared};

const PAYMENTS: &str = "/api/v1/payments";

/// Creates a merchant and returns its ID.
async fn merchant(server: &Server, more: Value) -> u64 {
    let mut body = json!({ "name": "Other shop", "fx_rates": { "EUR": "1.10" } });
    crate::harness::merge(&mut body, more);
    let merchant = server
        .admin("POST", "/merchants", Some(&body))
        .await
        .expect(201)
        .json();
    merchant["merchant_id"].as_u64().unwrap()
}

/// Issues a key of the merchant. Returns the key's ID and the key.
async fn key(server: &Server, merchant: u64, body: Value) -> (String, String) {
    let path = format!("/merchants/{merchant}/keys");
    let issued = server
        .admin("POST", &path, Some(&body))
        .await
        .expect(201)
        .json();
    (
        issued["key_id"].as_str().unwrap().to_owned(),
        issued["key"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn a_key_has_the_decided_form_and_is_shown_once() {
    let server = shared().await;
    let merchant = merchant(server, json!({})).await;
    let (id, key) = key(server, merchant, json!({ "environment": "test" })).await;
    let body = key.strip_prefix("kp_test_").unwrap();
    assert!(body.len() == 38 && body.bytes().all(|b| b.is_ascii_alphanumeric()));
    let listed = server
        .admin("GET", &format!("/merchants/{merchant}/keys"), None)
        .await
        .expect(200);
    assert!(listed.text.contains(&id) && !listed.text.contains(&key));
    let audit = server
        .admin("GET", "/audit?limit=100", None)
        .await
        .expect(200);
    assert!(audit.text.contains("key.create") && !audit.text.contains(&key));
}

#[tokio::test]
async fn scopes_decide_what_a_key_may_do() {
    let server = shared().await;
    let merchant = merchant(server, json!({})).await;
    let (_, reader) = key(
        server,
        merchant,
        json!({ "environment": "test", "scopes": ["payments:read"] }),
    )
    .await;
    let (_, writer) = key(
        server,
        merchant,
        json!({ "environment": "test", "scopes": ["payments:create"] }),
    )
    .await;
    server
        .post(&reader, PAYMENTS, &new_payment())
        .await
        .expect(403)
        .error();
    let payment = server
        .post(&writer, PAYMENTS, &new_payment())
        .await
        .expect(201)
        .json();
    let id = payment["payment_id"].as_str().unwrap();
    server
        .get(&writer, &format!("{PAYMENTS}/{id}"))
        .await
        .expect(403);
    server
        .get(&reader, &format!("{PAYMENTS}/{id}"))
        .await
        .expect(200);
    server.get(&writer, "/api/v1/methods").await.expect(403);
    server.start(&reader, &payment, "ideal").await.expect(403);
}

#[tokio::test]
async fn a_revoked_an_expired_and_a_rotated_key_open_nothing() {
    let server = Server::fresh().await;
    let merchant = merchant(&server, json!({})).await;
    let (id, revoked) = key(&server, merchant, json!({ "environment": "test" })).await;
    server.get(&revoked, "/api/v1/methods").await.expect(200);
    server
        .admin("DELETE", &format!("/keys/{id}"), None)
        .await
        .expect(204);
    server.get(&revoked, "/api/v1/methods").await.expect(401);

    let (id, old) = key(&server, merchant, json!({ "environment": "test" })).await;
    let path = format!("/keys/{id}/rotate");
    let new = server
        .admin("POST", &path, Some(&json!({ "overlap_hours": 1 })))
        .await
        .expect(201)
        .json();
    let new = new["key"].as_str().unwrap();
    server.get(&old, "/api/v1/methods").await.expect(200);
    server.get(new, "/api/v1/methods").await.expect(200);
    server.advance(3601).await;
    server.get(&old, "/api/v1/methods").await.expect(401);
    server.get(new, "/api/v1/methods").await.expect(200);

    let in_the_past = json!({ "environment": "test", "expires_at": "2020-01-01T00:00:00Z" });
    server
        .admin(
            "POST",
            &format!("/merchants/{merchant}/keys"),
            Some(&in_the_past),
        )
        .await
        .expect(422);
    let soon = json!({ "environment": "test", "expires_at": "2099-01-01T00:00:00Z" });
    let (_, expiring) = key(&server, merchant, soon).await;
    server.get(&expiring, "/api/v1/methods").await.expect(200);
    for _ in 0..8 {
        server.advance(10 * 365 * 24 * 3600).await;
    }
    server.get(&expiring, "/api/v1/methods").await.expect(401);
}

#[tokio::test]
async fn a_payment_is_seen_by_its_merchant_in_its_environment_alone() {
    let server = shared().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let path = format!("{PAYMENTS}/{}", payment["payment_id"].as_str().unwrap());
    let other = merchant(server, json!({ "live_approved": true })).await;
    let (_, stranger) = key(server, other, json!({ "environment": "test" })).await;
    server.get(&stranger, &path).await.expect(404).error();
    server.get(server.live_key(), &path).await.expect(404);
    server.start(&stranger, &payment, "ideal").await.expect(404);
    server
        .get(server.test_key(), &format!("{PAYMENTS}/{}", "0".repeat(32)))
        .await
        .expect(404);
    server
        .get(server.test_key(), &format!("{PAYMENTS}/not-an-id"))
        .await
        .expect(404);
}

#[tokio::test]
async fn live_needs_approval_for_keys_creates_and_starts_while_reads_go_on() {
    let server = shared().await;
    let merchant = merchant(server, json!({})).await;
    let path = format!("/merchants/{merchant}");
    let keys = format!("{path}/keys");
    server
        .admin("POST", &keys, Some(&json!({ "environment": "live" })))
        .await
        .expect(409)
        .error();
    server
        .admin("PATCH", &path, Some(&json!({ "live_approved": true })))
        .await
        .expect(200);
    let (_, live) = key(server, merchant, json!({ "environment": "live" })).await;
    let payment = server
        .create(
            &live,
            json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
        )
        .await;
    assert_eq!(payment["test_mode"], false);
    server
        .admin("PATCH", &path, Some(&json!({ "live_approved": false })))
        .await
        .expect(200);
    server
        .post(&live, PAYMENTS, &new_payment())
        .await
        .expect(403)
        .error();
    server.start(&live, &payment, "ideal").await.expect(403);
    server.payment(&live, &payment).await;
    server.get(&live, "/api/v1/methods").await.expect(200);
}

#[tokio::test]
async fn roles_bound_operators_and_a_removed_one_is_out_at_once() {
    let server = shared().await;
    let make = async |role: &str| {
        let body = json!({ "name": role, "role": role });
        server
            .admin("POST", "/operators", Some(&body))
            .await
            .expect(201)
            .json()
    };
    let (viewer, operator) = (make("viewer").await, make("operator").await);
    let (viewer_token, operator_token) = (
        viewer["token"].as_str().unwrap(),
        operator["token"].as_str().unwrap(),
    );
    let shop = json!({ "name": "Shop" });
    server
        .admin_as(viewer_token, "GET", "/merchants", None)
        .await
        .expect(200);
    server
        .admin_as(
            viewer_token,
            "POST",
            "/merchants/1/keys",
            Some(&json!({ "environment": "test" })),
        )
        .await
        .expect(403);
    server
        .admin_as(operator_token, "POST", "/merchants", Some(&shop))
        .await
        .expect(403);
    server
        .admin_as(
            operator_token,
            "PATCH",
            "/merchants/1",
            Some(&json!({ "live_approved": true })),
        )
        .await
        .expect(403);
    server
        .admin_as(
            operator_token,
            "PATCH",
            "/merchants/1",
            Some(&json!({ "name": "Demo shop" })),
        )
        .await
        .expect(200);
    server
        .admin_as(operator_token, "POST", "/operators", Some(&shop))
        .await
        .expect(403);
    server
        .admin_as("ko_nonsense", "GET", "/merchants", None)
        .await
        .expect(401)
        .error();
    let path = format!("/operators/{}", viewer["operator_id"].as_str().unwrap());
    server.admin("DELETE", &path, None).await.expect(204);
    server
        .admin_as(viewer_token, "GET", "/merchants", None)
        .await
        .expect(401);
}

#[tokio::test]
async fn the_admin_listener_answers_under_its_own_name_alone() {
    let server = shared().await;
    let request = server
        .http
        .get(format!("{}/merchants", server.admin_base()))
        .bearer_auth(server.operator_token())
        .header("host", "evil.example");
    server.send(request).await.expect(421).error();
    let public = server
        .http
        .get(format!("{}/admin/v1/merchants", server.base()));
    server.send(public).await.expect(404);
    let metrics = server.http.get(format!("{}/metrics", server.admin_root()));
    let elsewhere = server.send(metrics.header("host", "evil.example")).await;
    elsewhere.expect(421).error();
    for probe in ["/livez", "/readyz", "/metrics"] {
        server
            .send(server.http.get(format!("{}{probe}", server.admin_root())))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn every_change_is_audited_with_operator_actor_and_reason() {
    let server = shared().await;
    let body = json!({ "name": "Audited", "actor": "ann", "reason": "ticket 7" });
    let merchant = server
        .admin("POST", "/merchants", Some(&body))
        .await
        .expect(201)
        .json();
    let id = merchant["merchant_id"].as_u64().unwrap();
    server
        .admin(
            "POST",
            &format!("/merchants/{id}/domains"),
            Some(&json!({ "domain": "Audited.example" })),
        )
        .await
        .expect(201);
    server
        .admin(
            "DELETE",
            &format!("/merchants/{id}/domains/audited.example"),
            None,
        )
        .await
        .expect(204);
    let entries = server
        .admin("GET", "/audit?limit=100", None)
        .await
        .expect(200)
        .json();
    let find = |action: &str| {
        let object = format!("merchant/{id}");
        let entries = entries["entries"].as_array().unwrap();
        entries
            .iter()
            .find(|entry| {
                entry["action"] == action
                    && (entry["object"] == object
                        || action == "merchant.create" && entry["actor"] == "ann")
            })
            .unwrap_or_else(|| panic!("no {action}: {entries:?}"))
            .clone()
    };
    let created = find("merchant.create");
    assert_eq!(
        (created["operator"].as_str(), created["reason"].as_str()),
        (Some("dev"), Some("ticket 7"))
    );
    let added = find("domain.create");
    assert_eq!(added["actor"], "dev", "who says nothing acts for itself");
    assert_eq!(added["after"]["domains"][0]["domain"], "audited.example");
    find("domain.delete");
}

#[tokio::test]
async fn a_key_says_when_it_was_last_used() {
    let server = Server::fresh().await;
    let merchant = merchant(&server, json!({})).await;
    let (id, key) = key(&server, merchant, json!({ "environment": "test" })).await;
    let last_used = async || {
        let path = format!("/merchants/{merchant}/keys");
        let listed = server.admin("GET", &path, None).await.expect(200).json();
        let keys = listed["keys"].as_array().unwrap();
        let ours = keys.iter().find(|each| each["key_id"] == id.as_str());
        ours.unwrap()["last_used_at"].clone()
    };
    assert_eq!(last_used().await, Value::Null);
    server.get(&key, "/api/v1/methods").await.expect(200);
    server.advance(3600).await;
    server
        .wait_for("the time of use", async || {
            last_used().await.is_string().then_some(())
        })
        .await;
}
