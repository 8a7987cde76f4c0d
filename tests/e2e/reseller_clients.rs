//! The clients of `tests/resellers/`, which config/resellers.md shows, against the server.
//!
//! The Rust client always runs. The others are ignored by default, because they need interpreters that a machine
//! may not have; `.ci/run` installs the interpreters and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Server, shared};
use crate::reseller_calls::{INVITATIONS, MERCHANTS, PAYMENTS, START, delegated};

#[path = "../resellers/client.rs"]
mod rust;

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/resellers")
}

/// Language of a client: Rust, or an interpreter and its program.
#[derive(Clone, Copy)]
enum Client {
    Rust,
    Interpreted(&'static str, &'static str),
}

impl Client {
    /// Makes a call and returns the status and body that the client prints.
    async fn call(
        self,
        base: &str,
        key: &str,
        method: &str,
        target: &str,
        body: &str,
    ) -> (u16, Value) {
        let (status, body) = match self {
            Self::Rust => rust::call(base, key, method, target, body).await.unwrap(),
            Self::Interpreted(interpreter, file) => {
                let mut command = Command::new(interpreter);
                command
                    .arg(clients().join(file))
                    .args([base, method, target])
                    .env("KASSETTE_RESELLER_KEY", key);
                if !body.is_empty() {
                    command.arg(body);
                }
                // The runtime must not block, because the proxy between client and server runs in it.
                let done = tokio::task::spawn_blocking(move || command.output())
                    .await
                    .unwrap();
                let done =
                    done.unwrap_or_else(|error| panic!("{interpreter}: {error}; install it"));
                let out = String::from_utf8(done.stdout).unwrap();
                let told = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(done.status.success(), "{out}{told}");
                let (status, body) = out.split_once('\n').unwrap();
                (status.trim().parse().unwrap(), body.to_owned())
            }
        };
        let body = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        (status, body)
    }
}

/// Starts a proxy before the server that drops the response to the first request, like a failing network.
async fn unlucky(server: &'static Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let address = server.base().strip_prefix("http://").unwrap();
    tokio::spawn(async move {
        let mut is_first = true;
        while let Ok((mut client, _)) = listener.accept().await {
            let mut upstream = TcpStream::connect(address).await.unwrap();
            if std::mem::take(&mut is_first) {
                // Wait until the server starts to respond, which shows that it has processed the request.
                let (mut from_client, _) = client.split();
                let (mut from_server, mut to_server) = upstream.split();
                let mut first = [0; 1];
                tokio::select! {
                    _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                    _ = from_server.read_exact(&mut first) => {}
                }
                continue;
            }
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
                let _ = upstream.shutdown().await;
            });
        }
    });
    base
}

/// Checks all requirements on a client.
async fn check(client: Client) {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let (base, key) = (server.base(), reseller.live.as_str());
    let get = async |target: &str| client.call(base, key, "GET", target, "").await;
    let post = async |target: &str, body: &Value| {
        client
            .call(base, key, "POST", target, &body.to_string())
            .await
    };

    let invitation = json!({
        "email": "owner@shop.example", "business_name": "Bäckerei \u{1F950}", "client_ref": "shop-7",
    });
    let (status, invited) = post(INVITATIONS, &invitation).await;
    assert_eq!(
        (status, &invited["business_name"]),
        (200, &invitation["business_name"])
    );
    let (status, merchants) = get(MERCHANTS).await;
    assert_eq!(
        (status, merchants["merchants"].as_array().unwrap().len()),
        (200, 2)
    );

    let order = json!({
        "order_id": "Ünïcode & +=%2F \u{1F950}", "checkout_mode": "direct", "payment_method": "ideal",
    });
    let order = delegated(merchant, order);
    let (status, payment) = post(PAYMENTS, &order).await;
    assert_eq!(
        (status, &payment["order_id"]),
        (200, &order["order_id"]),
        "{payment}"
    );
    let id = payment["payment_id"].as_str().unwrap();
    let start = json!({ "payment_id": id, "payment_method": "ideal" });
    let (status, started) = post(START, &start).await;
    assert_eq!(status, 200);
    assert!(
        started["redirect_url"]
            .as_str()
            .unwrap()
            .starts_with("http")
    );
    let (status, read) = get(&format!("{PAYMENTS}/{id}")).await;
    assert_eq!((status, &read["client_ref"]), (200, &order["client_ref"]));
    // Query strings are signed as sent: with encoded, repeated or no parameters.
    let (status, listed) = get(&format!("{PAYMENTS}?limit=%31&merchant_id={merchant}")).await;
    assert_eq!(
        (status, &listed["payments"][0]["payment_id"]),
        (200, &payment["payment_id"])
    );
    for (query, expected) in [("?", 422), ("?merchant_id=7%2C8&x=%C3%A4+b%20c", 422)] {
        assert_eq!(
            get(&format!("{PAYMENTS}{query}")).await.0,
            expected,
            "{query}"
        );
    }

    // Clients report refusals, including that of a wrong key.
    let mut other = order.clone();
    other["amount"] = json!("1.00");
    assert_eq!(post(PAYMENTS, &other).await.0, 409);
    let mut wrong = order.clone();
    wrong["wallet"] = json!("x");
    assert_eq!(post(PAYMENTS, &wrong).await.0, 422);
    let (status, _) = client
        .call(base, "kr_live_nobody", "GET", MERCHANTS, "")
        .await;
    assert_eq!(status, 401);
    // Clients also sign with a test key, although the gateway does not require it.
    let (status, _) = client
        .call(base, &reseller.test, "GET", MERCHANTS, "")
        .await;
    assert_eq!(status, 200);

    // A lost response: the client repeats the request with another nonce and the same reference, and creates one
    // payment.
    let unlucky = unlucky(server).await;
    let lost = delegated(merchant, json!({}));
    let body = lost.to_string();
    let (status, made) = client.call(&unlucky, key, "POST", PAYMENTS, &body).await;
    assert_eq!(status, 200, "{made}");
    let (_, listed) = get(&format!("{PAYMENTS}?merchant_id={merchant}")).await;
    let listed = listed["payments"].as_array().unwrap();
    let of_it: Vec<_> = listed
        .iter()
        .filter(|each| each["client_ref"] == lost["client_ref"])
        .collect();
    assert_eq!(
        (of_it.len(), &of_it[0]["payment_id"]),
        (1, &made["payment_id"])
    );
}

#[tokio::test]
async fn the_client_in_rust_signs_as_the_server_expects() {
    check(Client::Rust).await;
}

#[tokio::test]
#[ignore = "needs python3: .ci/run installs it and runs this"]
async fn the_client_in_python_signs_as_the_server_expects() {
    check(Client::Interpreted("python3", "client.py")).await;
}

#[tokio::test]
#[ignore = "needs node: .ci/run installs it and runs this"]
async fn the_client_in_javascript_signs_as_the_server_expects() {
    check(Client::Interpreted("node", "client.mjs")).await;
}

#[tokio::test]
#[ignore = "needs php: .ci/run installs it and runs this"]
async fn the_client_in_php_signs_as_the_server_expects() {
    check(Client::Interpreted("php", "client.php")).await;
}

#[test]
fn the_page_shows_what_the_clients_run() {
    let page = clients().join("../../config/resellers.md");
    let page = std::fs::read_to_string(page).unwrap();
    for file in ["client.rs", "client.py", "client.php", "client.mjs"] {
        let text = std::fs::read_to_string(clients().join(file)).unwrap();
        let (_, rest) = text.split_once("-- sign\n").unwrap();
        let (shown, _) = rest.split_once("-- end\n").unwrap();
        let shown = shown.trim_end_matches(['/', '#', ' ']).trim_end();
        assert!(
            page.contains(shown),
            "{file}: config/resellers.md shows another one"
        );
    }
}
