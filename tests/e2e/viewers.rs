//! Operators with read-only access.

use serde_json::{Value, json};

use crate::harness::{shared, unique};

#[tokio::test]
async fn a_viewer_sees_no_link_by_which_a_payment_is_paid_or_given_up() {
    let server = shared().await;
    let body = json!({ "name": format!("viewer {}", unique()), "role": "viewer" });
    let viewer = server.admin("POST", "/operators", Some(&body)).await;
    let viewer = viewer.expect(201).json()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let (payment, redirect_url) = server.started(server.test_key(), "ideal", json!({})).await;
    let id = payment["payment_id"].as_str().unwrap();
    let order_id = payment["order_id"].as_str().unwrap();
    let (one, list) = (
        format!("/payments/{id}"),
        format!("/payments?order_id={order_id}"),
    );
    let operator = server.admin("GET", &one, None).await.expect(200).json();
    let links = |shown: &Value| {
        let attempt = &shown["attempts"][0];
        [
            shown["payment"]["checkout_url"].clone(),
            attempt["redirect_url"].clone(),
        ]
    };
    let [checkout_url, attempts_url] = links(&operator);
    assert_eq!(checkout_url, payment["checkout_url"]);
    assert_eq!(attempts_url, redirect_url.as_str());
    let token = checkout_url.as_str().unwrap().rsplit('/').next().unwrap();
    for path in [
        &one,
        &list,
        "/payments/export?since=2020-01-01T00:00:00Z&until=2999-01-01T00:00:00Z",
        "/audit?limit=100",
        "/work",
    ] {
        let shown = server
            .admin_as(&viewer, "GET", path, None)
            .await
            .expect(200);
        let shows = |link: &str| shown.text.contains(link);
        assert!(!shows(token) && !shows(&redirect_url), "{path}");
    }
    let shown = server.admin_as(&viewer, "GET", &one, None).await.json();
    assert_eq!(links(&shown), [Value::Null, Value::Null]);
    let listed = server.admin_as(&viewer, "GET", &list, None).await.json();
    assert_eq!(listed["payments"][0]["payment_id"], id);
    assert_eq!(listed["payments"][0]["checkout_url"], Value::Null);
}
