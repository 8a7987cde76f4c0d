//! The receivers of `tests/receivers/`, which config/webhooks.md shows, against bytes that the server really sent
//! and against the pitfalls in the SPEC.
//!
//! The Rust receiver always runs. The others are ignored by default, because they need interpreters that a machine
//! may not have; `.ci/run` installs the interpreters and runs them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{TEST_TIMEOUT, shared};
use crate::receiver::{Receiver, signature};

#[path = "../receivers/receiver.rs"]
mod rust;

/// A delivery as its receiver sees it.
#[derive(Clone, Debug)]
struct Sent {
    id: String,
    timestamp: String,
    signature: String,
    body: Vec<u8>,
}

impl Sent {
    fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// A delivery with another body, correctly signed at this time.
    fn signed(&self, secret: &str, timestamp: i64, body: Vec<u8>) -> Self {
        let timestamp = timestamp.to_string();
        let signature = signature(secret, &timestamp, &self.id, &body);
        Self {
            id: self.id.clone(),
            timestamp,
            signature,
            body,
        }
    }
}

/// Real deliveries of a live endpoint: of a completed payment and of a test event.
struct Capture {
    secret: String,
    order: Value,
    pending: Sent,
    completed: Sent,
    /// The redelivery of `completed`.
    again: Sent,
    test: Sent,
}

async fn capture() -> Capture {
    let server = shared().await;
    let (merchant, _, live) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server
        .hook(merchant, &receiver, json!({ "environment": "live" }))
        .await;
    let (payment, url) = server.started(&live, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&live, &payment, "completed").await;
    let of = async |kind: &str, nth: usize| -> Sent {
        let found = server.wait_for(kind, async || {
            let got = receiver.got();
            let mut of_kind = got.into_iter().filter(|got| got.kind() == kind);
            of_kind.nth(nth)
        });
        let got = found.await;
        Sent {
            id: got.event_id().to_owned(),
            timestamp: got.header("x-service-timestamp").to_owned(),
            signature: got.header("x-service-signature").to_owned(),
            body: got.body,
        }
    };
    let pending = of("payment.pending", 0).await;
    let completed = of("payment.completed", 0).await;
    let delivered = server.settled(&hook).await;
    let completed_id = &delivered
        .iter()
        .find(|each| each["event_type"] == "payment.completed")
        .unwrap()["id"];
    let path = format!("/deliveries/{}/redeliver", completed_id.as_str().unwrap());
    server
        .admin("POST", &path, Some(&json!({})))
        .await
        .expect(201);
    let again = of("payment.completed", 1).await;
    server.hook_act(&hook, "test", json!({})).await;
    let test = of("webhook.test", 0).await;
    Capture {
        secret: hook.secret,
        order: payment,
        pending,
        completed,
        again,
        test,
    }
}

/// A running receiver, its folder and its port.
struct Shop {
    folder: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
    http: reqwest::Client,
}

impl Drop for Shop {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn receivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/receivers")
}

/// Folder with the shop's orders: the order that was paid and another one.
fn folder(order: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut other = order.clone();
    other["order_id"] = json!("another");
    other["payment_id"] = json!("f".repeat(32));
    let orders = json!([other, order]).to_string();
    std::fs::write(folder.path().join("orders.json"), orders).unwrap();
    folder
}

impl Shop {
    fn new(folder: tempfile::TempDir, port: u16, child: Option<Child>) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self {
            folder,
            port,
            child,
            http,
        }
    }

    /// During a rotation, a receiver has two secrets and accepts either.
    fn secrets(capture: &Capture) -> String {
        format!("whsec_{} {}", "o".repeat(44), capture.secret)
    }

    async fn rust(capture: &Capture) -> Self {
        let folder = folder(&capture.order);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (path, secrets) = (folder.path().to_owned(), Self::secrets(capture));
        tokio::spawn(async move { rust::serve(&path, &secrets, listener).await });
        Self::new(folder, port, None)
    }

    /// Starts an interpreted receiver, which prints its port.
    fn interpreted(capture: &Capture, interpreter: &str, file: &str) -> Self {
        let folder = folder(&capture.order);
        let mut child = Command::new(interpreter)
            .arg(receivers().join(file))
            .arg(folder.path())
            .arg("0")
            .env("KASSETTE_WEBHOOK_SECRETS", Self::secrets(capture))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{interpreter}: {error}; install it"));
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on ").unwrap();
        Self::new(folder, port.parse().unwrap(), Some(child))
    }

    /// Starts PHP's built-in server, which needs a fixed port.
    async fn php(capture: &Capture) -> Self {
        let began = Instant::now();
        loop {
            let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let folder = folder(&capture.order);
            let child = Command::new("php")
                .args(["-S", &format!("127.0.0.1:{port}")])
                .arg(receivers().join("receiver.php"))
                .env("KASSETTE_WEBHOOK_SECRETS", Self::secrets(capture))
                .env("KASSETTE_SHOP", folder.path())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("php: {error}; install php-cli"));
            let mut shop = Self::new(folder, port, Some(child));
            // Wait until it listens, or ends because another process has taken the port.
            loop {
                if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                    return shop;
                }
                assert!(began.elapsed() < TEST_TIMEOUT, "PHP does not listen");
                if shop.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }

    async fn deliver(&self, sent: &Sent) -> u16 {
        let mut request = self
            .http
            .post(format!("http://127.0.0.1:{}/", self.port))
            .header("content-type", "application/json");
        for (name, value) in [
            ("x-service-event-id", &sent.id),
            ("x-service-timestamp", &sent.timestamp),
            ("x-service-signature", &sent.signature),
        ] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        let response = request.body(sent.body.clone()).send().await.unwrap();
        response.status().as_u16()
    }

    /// The receiver's log: ID, type and outcome of each processed event.
    fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("events.log"));
        let log = log.unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

/// Checks all requirements on a receiver.
async fn check(shop: &Shop, capture: &Capture) {
    let secret = &capture.secret;
    let real = &capture.completed;
    let now: i64 = real.timestamp.parse().unwrap();

    // Invalid deliveries come first: none of them may have an effect.
    let spoilt = |spoil: &dyn Fn(&mut Sent)| {
        let mut sent = real.clone();
        spoil(&mut sent);
        sent
    };
    let with_body = |body: Vec<u8>| Sent {
        body,
        ..real.clone()
    };
    let pretty = serde_json::to_vec_pretty(&real.event()).unwrap();
    let spaced = String::from_utf8(real.body.clone()).unwrap();
    let spaced = spaced.replace("\":", "\": ").replace(",\"", ", \"");
    let other_event = Sent {
        id: capture.test.id.clone(),
        ..real.clone()
    };
    let refused = [
        ("re-serialized with indents", with_body(pretty)),
        ("re-serialized with blanks", with_body(spaced.into_bytes())),
        (
            "a line feed more",
            with_body([&real.body[..], b"\n"].concat()),
        ),
        (
            "other line ends",
            with_body([&real.body[..], b"\r\n"].concat()),
        ),
        (
            "a byte order mark",
            with_body([b"\xef\xbb\xbf", &real.body[..]].concat()),
        ),
        ("nothing", with_body(Vec::new())),
        (
            "another amount",
            with_body(replaced(&real.body, "49.90", "09.90")),
        ),
        (
            "no version",
            spoilt(&|sent| sent.signature = sent.signature[3..].to_owned()),
        ),
        (
            "another version",
            spoilt(&|sent| sent.signature.replace_range(..2, "v2")),
        ),
        (
            "upper case",
            spoilt(&|sent| {
                sent.signature = format!("v1={}", sent.signature[3..].to_uppercase());
            }),
        ),
        ("too short", spoilt(&|sent| sent.signature.truncate(66))),
        ("too long", spoilt(&|sent| sent.signature.push('0'))),
        (
            "no hex",
            spoilt(&|sent| sent.signature.replace_range(3..4, "g")),
        ),
        (
            "one digit off",
            spoilt(&|sent| {
                let last = if sent.signature.ends_with('0') {
                    "1"
                } else {
                    "0"
                };
                sent.signature.replace_range(66.., last);
            }),
        ),
        ("no signature", spoilt(&|sent| sent.signature.clear())),
        ("no timestamp", spoilt(&|sent| sent.timestamp.clear())),
        ("no id", spoilt(&|sent| sent.id.clear())),
        ("an id in upper case", {
            let upper = spoilt(&|sent| sent.id = sent.id.to_uppercase());
            upper.signed(secret, now, real.body.clone())
        }),
        (
            "another time",
            spoilt(&|sent| sent.timestamp = (now + 1).to_string()),
        ),
        (
            "an hour old, rightly signed",
            real.signed(secret, now - 3600, real.body.clone()),
        ),
        (
            "six minutes old, rightly signed",
            real.signed(secret, now - 360, real.body.clone()),
        ),
        (
            "an hour ahead, rightly signed",
            real.signed(secret, now + 3600, real.body.clone()),
        ),
        (
            "milliseconds, rightly signed",
            real.signed(secret, now * 1000, real.body.clone()),
        ),
        (
            "another secret",
            real.signed("whsec_guessed", now, real.body.clone()),
        ),
        (
            "the secret without its prefix",
            real.signed(
                secret.strip_prefix("whsec_").unwrap(),
                now,
                real.body.clone(),
            ),
        ),
        ("the header of another event", other_event.clone()),
        (
            "the header of another event, rightly signed",
            other_event.signed(secret, now, real.body.clone()),
        ),
        (
            "no JSON, rightly signed",
            real.signed(secret, now, b"{".to_vec()),
        ),
    ];
    for (what, sent) in &refused {
        assert_eq!(shop.deliver(sent).await, 400, "{what}");
    }
    assert!(shop.log().is_empty(), "{:?}", shop.log());

    // Each delivery is sent two times. The second one gets the same response and has no effect.
    for sent in [&capture.test, &capture.pending, real] {
        for _ in 0..2 {
            assert_eq!(shop.deliver(sent).await, 200);
        }
    }
    assert_eq!(shop.deliver(&capture.again).await, 200);
    let expected = [
        format!("{} webhook.test seen", capture.test.id),
        format!("{} payment.pending seen", capture.pending.id),
        format!("{} payment.completed paid", real.id),
    ];
    assert_eq!(shop.log(), expected);

    // Correctly signed events for which the shop must not ship anything.
    for (nth, (from, to)) in [
        ("payment.completed", "payment.imagined"),
        ("\"completed\"", "\"processing\""),
        ("\"confirmed\"", "\"pending\""),
        ("\"test_mode\":false", "\"test_mode\":true"),
        ("\"49.90\"", "\"49.91\""),
        ("\"EUR\"", "\"USD\""),
        (capture.order["order_id"].as_str().unwrap(), "another"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("{nth:032x}");
        let body = replaced(&replaced(&real.body, &real.id, &id), from, to);
        let new = Sent { id, ..real.clone() };
        assert_eq!(
            shop.deliver(&new.signed(secret, now, body)).await,
            200,
            "{to}"
        );
        let last = shop.log().pop().unwrap();
        assert!(
            last.starts_with(&new.id) && last.ends_with(" seen"),
            "{to}: {last}"
        );
    }
    // A clock that differs by less than the tolerance.
    let id = "e".repeat(32);
    let body = replaced(&real.body, &real.id, &id);
    let new = Sent { id, ..real.clone() };
    assert_eq!(
        shop.deliver(&new.signed(secret, now - 200, body)).await,
        200
    );
}

fn replaced(body: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    text.replacen(from, to, 1).into_bytes()
}

#[tokio::test]
async fn the_receiver_in_rust_takes_what_the_server_sends_and_nothing_else() {
    let capture = capture().await;
    check(&Shop::rust(&capture).await, &capture).await;
}

#[tokio::test]
#[ignore = "needs python3: .ci/run installs it and runs this"]
async fn the_receiver_in_python_takes_what_the_server_sends_and_nothing_else() {
    let capture = capture().await;
    let shop = Shop::interpreted(&capture, "python3", "receiver.py");
    check(&shop, &capture).await;
}

#[tokio::test]
#[ignore = "needs node: .ci/run installs it and runs this"]
async fn the_receiver_in_javascript_takes_what_the_server_sends_and_nothing_else() {
    let capture = capture().await;
    let shop = Shop::interpreted(&capture, "node", "receiver.mjs");
    check(&shop, &capture).await;
}

#[tokio::test]
#[ignore = "needs php: .ci/run installs it and runs this"]
async fn the_receiver_in_php_takes_what_the_server_sends_and_nothing_else() {
    let capture = capture().await;
    check(&Shop::php(&capture).await, &capture).await;
}

#[test]
fn the_page_shows_what_the_receivers_run() {
    let page = receivers().join("../../config/webhooks.md");
    let page = std::fs::read_to_string(page).unwrap();
    for file in ["receiver.rs", "receiver.py", "receiver.php", "receiver.mjs"] {
        let text = std::fs::read_to_string(receivers().join(file)).unwrap();
        let (_, rest) = text.split_once("-- verify\n").unwrap();
        let (shown, _) = rest.split_once("-- end\n").unwrap();
        let shown = shown.trim_end_matches(['/', '#', ' ']).trim_end();
        assert!(
            page.contains(shown),
            "{file}: config/webhooks.md shows another one"
        );
    }
}

/// The function `is_fresh` in `config/payments.md`.
#[tokio::test]
#[ignore = "needs python3: .ci/run installs it and runs this"]
async fn a_receiver_that_asks_dev_for_its_clock_takes_deliveries_after_a_jump() {
    let server = crate::harness::Server::fresh().await;
    server.advance(24 * 3600).await;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/payments.md");
    let page = std::fs::read_to_string(page).unwrap();
    let code = page.split("```python\n").nth(1).unwrap();
    let code = code.split("```").next().unwrap();
    let script = format!("{code}\nprint(is_fresh({}))", server.now().await);
    let is_fresh = |admin: &str| {
        let ran = Command::new("python3")
            .args(["-c", &script])
            .env("KASSETTE_DEV_ADMIN", admin)
            .env("KASSETTE_OPERATOR_TOKEN", server.operator_token())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{text}");
        String::from_utf8(ran.stdout).unwrap().trim() == "True"
    };
    assert!(is_fresh(server.admin_base()));
    assert!(!is_fresh(""), "it comes from the future");
}
