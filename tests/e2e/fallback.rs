//! A second account to fall back to: a simulator in a separate process.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::browser::Form;
use crate::harness::Server;

pub(crate) const SECOND: &str = "sandbox-second";

/// Number of requests of a start to an account that answers 429: one retry after the second that it asks for.
pub(crate) const TRIES: u32 = 2;

pub(crate) struct Simulator(Child);

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Simulator {
    /// Starts a simulator next to a server. It writes the configuration file of its account.
    pub(crate) fn beside(server: &Server, account: &str, file: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args(["sim", "--listen", "127.0.0.1:0", "--provider-id", account])
            .args(["--gateway", server.base()])
            .arg("--data-dir")
            .arg(server.folder().join(account))
            .arg("--account-file")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

/// Starts a second simulator, whose account the running gateway loads from its configuration folder.
pub(crate) async fn second_provider(server: &Server) -> Simulator {
    let file = format!("config/providers/{SECOND}.toml");
    let simulator = Simulator::beside(server, SECOND, &server.folder().join(file));
    wait_for_accounts(server, &["sandbox-test", SECOND]).await;
    simulator
}

/// Waits until exactly these accounts accept iDEAL.
pub(crate) async fn wait_for_accounts(server: &Server, accounts: &[&str]) {
    server
        .wait_for("other accounts", || async {
            let path = "/api/v1/methods?currency=EUR";
            let methods = server.get(server.test_key(), path).await.expect(200).json();
            let ideal = methods["methods"]
                .as_array()?
                .iter()
                .find(|method| method["id"] == "ideal")?
                .clone();
            let ids: Vec<_> = ideal["providers"]
                .as_array()?
                .iter()
                .map(|one| one["id"].clone())
                .collect();
            (ids == accounts).then_some(())
        })
        .await;
}

/// Account and state of each attempt.
fn providers(attempts: &[Value]) -> Vec<(&str, &str)> {
    attempts
        .iter()
        .map(|attempt| {
            (
                attempt["provider_id"].as_str().unwrap(),
                attempt["state"].as_str().unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn the_next_in_rank_takes_over_within_one_start_and_one_event() {
    let server = Server::fresh().await;
    let _second = second_provider(&server).await;
    let key = server.test_key();
    server.fault("sandbox-test", "status-429", TRIES).await;
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    let attempts = server.attempts(&payment).await;
    assert_eq!(
        providers(&attempts),
        [("sandbox-test", "unavailable"), (SECOND, "open")]
    );
    assert_eq!(server.moves(&payment).await, ["created>pending"]);
    assert_eq!(
        server.events(&payment).await,
        ["payment.pending", "payment.attempt_failed"]
    );
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let books = server.books("sandbox-test").await;
    assert!(
        books.iter().all(|entry| entry["captured_times"] == 0),
        "nothing was taken at the first: {books:?}"
    );
    let decision = server.inside(&payment).await["decisions"].clone();
    assert!(decision.to_string().contains(SECOND), "{decision}");
}

#[tokio::test]
async fn a_provider_that_was_named_has_no_fallback() {
    let server = Server::fresh().await;
    let _second = second_provider(&server).await;
    let (_, key, _) = server.merchant(json!({ "provider_choice": true })).await;
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server.create(&key, fields).await;
    let start = json!({
        "payment_id": payment["payment_id"], "payment_method": "ideal", "provider_id": "sandbox-test",
    });
    server.fault("sandbox-test", "status-429", TRIES).await;
    let path = "/api/v1/payments/start";
    server.post(&key, path, &start).await.expect(422).error();
    assert_eq!(server.payment(&key, &payment).await["status"], "created");
    let other = json!({
        "payment_id": payment["payment_id"], "payment_method": "ideal", "provider_id": SECOND,
    });
    server.post(&key, path, &other).await.expect(200);
    let attempts = server.attempts(&payment).await;
    assert_eq!(
        providers(&attempts),
        [("sandbox-test", "unavailable"), (SECOND, "open")]
    );
}

#[tokio::test]
async fn the_page_asks_again_before_it_falls_back_to_another_note() {
    let server = Server::fresh().await;
    let _second = second_provider(&server).await;
    let file = server
        .folder()
        .join(format!("config/providers/{SECOND}.toml"));
    let account = std::fs::read_to_string(&file).unwrap();
    let note = "Checks who you are.";
    std::fs::write(&file, format!("verification_note = {note:?}\n{account}")).unwrap();
    server
        .wait_for("the second account's note", || async {
            let path = "/api/v1/methods?currency=EUR";
            let methods = server.get(server.test_key(), path).await.expect(200);
            methods.text.contains(note).then_some(())
        })
        .await;
    let payment = server.create(server.test_key(), json!({})).await;
    server.fault("sandbox-test", "status-429", TRIES).await;
    let asked = server.choose(&payment, "ideal").await.expect(200);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created",
        "nothing is opened elsewhere before the payer has agreed"
    );
    let url = payment["checkout_url"].as_str().unwrap();
    let form = Form::first(&asked.text, url);
    let agreed = server
        .submit(&form, &[("payment_method", "ideal")])
        .await
        .expect(303);
    assert!(agreed.header("location").unwrap().ends_with("/go"));
    let attempts = server.attempts(&payment).await;
    assert_eq!(
        providers(&attempts),
        [("sandbox-test", "unavailable"), (SECOND, "open")]
    );
}
