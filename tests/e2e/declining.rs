//! A provider that definitively declines the start itself: there is no fallback, and the payment returns to
//! `created`.

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::harness::Server;

const DECLINER: &str = "sandbox-decliner";

/// Starts a provider that speaks the sandbox's protocol and declines every payment. Returns its address.
async fn vendor() -> std::net::SocketAddr {
    let refused = json!({ "error": { "code": "payment_refused", "message": "no", "fields": [] } });
    let routes = Router::new()
        .route(
            "/oauth/token",
            post(|| async {
                Json(json!({ "access_token": "t", "token_type": "Bearer", "expires_in": 300 }))
            }),
        )
        .route(
            "/v1/account",
            get(|| async { Json(json!({ "environment": "test" })) }),
        )
        .route(
            "/v1/sessions",
            post(move || {
                let refused = refused.clone();
                async move { (StatusCode::UNPROCESSABLE_ENTITY, Json(refused)) }
            }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

#[tokio::test]
async fn a_decline_at_the_start_is_told_at_once_and_the_fifth_fails_the_payment() {
    let server = Server::fresh().await;
    let at = vendor().await;
    let account = format!(
        "module = \"sandbox\"\nname = \"Decliner\"\nenvironment = \"test\"\nsimulated = true\n\
         merchants = \"all\"\nhosts = [\"{at}\"]\nredirect_hosts = [\"{at}\"]\n\
         [settings]\nbase-url = \"http://{at}\"\n[secrets]\nclient-id = {{ value = \"c\" }}\n\
         client-secret = {{ value = \"s\" }}\ncallback-secret = {{ value = \"k\" }}\n\
         [methods.ideal]\npriority = 2000\n"
    );
    let file = format!("config/providers/{DECLINER}.toml");
    std::fs::write(server.folder().join(file), account).unwrap();
    let key = server.test_key();
    server
        .wait_for("the declining account", || async {
            let path = "/api/v1/methods?currency=EUR";
            let listed = server.get(key, path).await.expect(200);
            listed.text.contains(DECLINER).then_some(())
        })
        .await;
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server.create(key, fields).await;
    for nth in 1..=5 {
        server
            .start(key, &payment, "ideal")
            .await
            .expect(422)
            .error();
        let attempts = server.attempts(&payment).await;
        assert_eq!(
            attempts.len(),
            nth,
            "a decline is certain: no other account is tried"
        );
        assert!(
            attempts
                .iter()
                .all(|attempt: &Value| attempt["state"] == "declined")
        );
        let status = if nth < 5 { "created" } else { "failed" };
        assert_eq!(server.payment(key, &payment).await["status"], status);
    }
    server.start(key, &payment, "ideal").await.expect(409);
}
