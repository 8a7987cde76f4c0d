//! Several versions of a provider module: which one queries an attempt, and which one parses callbacks.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::{Answer, Server};
use crate::steps::session;
use crate::swap::{guest, slot};
use crate::uploads::upload;

const SANDBOX: &str = "provider.sandbox";
/// Number of versions that a slot keeps.
const KEPT: u8 = 8;

/// A sandbox module that reports paid sessions as under review, and acknowledges callbacks with another text.
pub(crate) async fn other() -> Vec<u8> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let path = BUILT.get_or_init(|| guest("kassette-provider-sandbox"));
    std::fs::read(path.await).unwrap()
}

/// The same module with another digest: the host ignores the added custom section.
fn marked(module: &[u8], mark: u8) -> Vec<u8> {
    [module, &[0, 3, 1, b'm', mark]].concat()
}

async fn activate(server: &Server, module: Vec<u8>) -> Value {
    let answer = upload(server, SANDBOX, "?mode=activate", module).await;
    answer.expect(200).json()["active"]["digest"].clone()
}

/// An open attempt: its payment and the address of its payer's page.
pub(crate) struct Open {
    payment: Value,
    page: String,
}

impl Open {
    pub(crate) async fn start(server: &Server) -> Self {
        let (payment, page) = server.started(server.test_key(), "ideal", json!({})).await;
        Self { payment, page }
    }

    pub(crate) async fn digest(&self, server: &Server) -> Value {
        server.attempts(&self.payment).await[0]["digest"].clone()
    }

    /// Pays and returns without a callback, so that only a query reports the payment. Returns the payment's
    /// status.
    pub(crate) async fn paid(&self, server: &Server) -> Value {
        // After a restart, simulator and gateway have other ports, which a new payment reveals.
        let now = Self::start(server).await;
        server.fault("sandbox-test", "callback-never", 1).await;
        let page = moved(&self.page, &now.page);
        let back = server.pay(&page, "approve").await.expect(303);
        let back = moved(back.header("location").unwrap(), server.base());
        server.open(&back).await.expect(200);
        server.payment(server.test_key(), &self.payment).await["status"].clone()
    }
}

/// The URL with the port of another one.
fn moved(url: &str, to: &str) -> String {
    let mut url = reqwest::Url::parse(url).unwrap();
    let to = reqwest::Url::parse(to).unwrap();
    url.set_port(to.port()).unwrap();
    url.into()
}

#[tokio::test]
async fn an_attempt_stays_with_the_version_that_started_it_as_long_as_that_is_kept() {
    let server = Server::fresh().await;
    let first = slot(&server, SANDBOX).await["active"]["digest"].clone();
    let before = [Open::start(&server).await, Open::start(&server).await];
    let last_before = Open::start(&server).await;
    let other = other().await;
    let second = activate(&server, other.clone()).await;
    let after = [Open::start(&server).await, Open::start(&server).await];
    for (attempts, version) in [(&before, &first), (&after, &second)] {
        for attempt in attempts {
            assert_eq!(attempt.digest(&server).await, *version);
        }
    }
    assert_eq!(before[0].paid(&server).await, "completed");
    assert_eq!(after[0].paid(&server).await, "review");

    let server = Server::in_folder(server.stop().await).await;
    assert_eq!(slot(&server, SANDBOX).await["active"]["digest"], second);
    assert_eq!(before[1].paid(&server).await, "completed");
    assert_eq!(after[1].paid(&server).await, "review");

    // Enough versions to evict the first one; the active version then queries its attempts.
    for mark in 0..KEPT - 1 {
        activate(&server, marked(&other, mark)).await;
    }
    assert_eq!(last_before.digest(&server).await, first);
    assert_eq!(last_before.paid(&server).await, "review");
}

/// Sends a callback that reports an attempt as paid, with a query string in the callback URL.
async fn tell(server: &Server, open: &Open, query: &str) -> Answer {
    let attempt = server.attempts(&open.payment).await[0].clone();
    let body = json!({
        "id": "evt_1", "type": "captured", "created_at": 1,
        "session": session(&attempt, "captured", "49.90"),
    })
    .to_string();
    let signature = server.signature("sandbox-test", server.now().await, &body);
    let url = format!("{}/callbacks/sandbox-test{query}", server.base());
    let request = server.http.post(url).header("sandbox-signature", signature);
    server.send(request.body(body)).await
}

#[tokio::test]
async fn callbacks_are_read_by_the_active_version_or_by_the_last_good_one_where_that_fails() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let opens = [Open::start(&server).await, Open::start(&server).await];
    let read = tell(&server, &opens[0], "").await.expect(200);
    assert_eq!(read.text, "[accepted]");
    activate(&server, other().await).await;
    // Also for an attempt that the previous version started: only queries stay with the starting version.
    let read = tell(&server, &opens[1], "").await.expect(200);
    assert_eq!(read.text, "[seen]");
    server.until(key, &opens[1].payment, "completed").await;
    // 12 failures of other calls would quarantine the version. Callbacks do not count, because strangers can send
    // them.
    for _ in 0..12 {
        let open = Open::start(&server).await;
        let read = tell(&server, &open, "?trap").await.expect(200);
        assert_eq!(read.text, "[accepted]", "the last good one has read it");
        server.until(key, &open.payment, "completed").await;
    }
    let read = tell(&server, &Open::start(&server).await, "").await;
    assert_eq!(read.expect(200).text, "[seen]");
    let slot = r#"slot="provider.sandbox""#;
    let faults = server.counted("kassette_plugin_faults_total", slot);
    assert_eq!(faults.await, 12);
}
