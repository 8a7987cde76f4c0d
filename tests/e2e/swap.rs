//! Replacing modules while payments are in flight.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kassette_build::Builder;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::Server;

/// Component of an iDEAL module with another label and a maximum of 100.00 EUR.
pub(crate) async fn swapped() -> &'static Path {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    BUILT.get_or_init(|| guest("kassette-method-ideal")).await
}

/// Builds a package in `tests/guests` and returns the path of its component.
pub(crate) async fn guest(package: &'static str) -> PathBuf {
    let build = move || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests");
        let built = Builder::new(root).build(&[package], &mut |_| {}).unwrap();
        built.into_iter().next().unwrap().path
    };
    tokio::task::spawn_blocking(build).await.unwrap()
}

pub(crate) fn put(server: &Server, slot: &str, bytes: &[u8]) {
    let file = server.plugin_dir().join(format!("{slot}.wasm"));
    let aside = server.plugin_dir().join(format!(".{slot}.new"));
    std::fs::write(&aside, bytes).unwrap();
    std::fs::rename(aside, file).unwrap();
}

pub(crate) async fn slot(server: &Server, name: &str) -> Value {
    let plugins = server
        .admin("GET", "/plugins?limit=100", None)
        .await
        .expect(200)
        .json();
    let plugins = plugins["plugins"].as_array().unwrap();
    plugins
        .iter()
        .find(|plugin| plugin["slot"] == name)
        .unwrap()
        .clone()
}

/// iDEAL's label in the method listing for an amount in EUR. `None` if it is not offered.
pub(crate) async fn label(server: &Server, amount: &str) -> Option<String> {
    let path = format!("/api/v1/methods?currency=EUR&amount={amount}");
    let body = server
        .get(server.test_key(), &path)
        .await
        .expect(200)
        .json();
    let methods = body["methods"].as_array().unwrap();
    let ideal = methods.iter().find(|method| method["id"] == "ideal")?;
    Some(ideal["label"].as_str().unwrap().to_owned())
}

async fn wait_for_label(server: &Server, wanted: &str) {
    server
        .wait_for(wanted, async || {
            (label(server, "49.90").await.as_deref() == Some(wanted)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn the_next_decision_follows_a_replaced_module_while_payments_flow() {
    let server = Server::fresh().await;
    let key = server.test_key();
    let original = std::fs::read(server.plugin_dir().join("method.ideal.wasm")).unwrap();
    let replacement = std::fs::read(swapped().await).unwrap();
    let before = slot(&server, "method.ideal").await;
    assert_eq!(
        (&before["state"], &before["kind"]),
        (&json!("serving"), &json!("method"))
    );
    assert_eq!(
        label(&server, "200.00").await.as_deref(),
        Some("iDEAL | Wero")
    );

    let over = AtomicBool::new(false);
    let traffic = async {
        let mut payments = Vec::new();
        while !over.load(Ordering::Relaxed) {
            payments.push(server.started(key, "ideal", json!({})).await.0);
        }
        payments
    };
    let swaps = async {
        for _ in 0..3 {
            put(&server, "method.ideal", &replacement);
            wait_for_label(&server, "iDEAL, swapped").await;
            assert_eq!(label(&server, "200.00").await, None, "its rules hold too");
            put(&server, "method.ideal", &original);
            wait_for_label(&server, "iDEAL | Wero").await;
        }
        put(&server, "method.ideal", &replacement);
        wait_for_label(&server, "iDEAL, swapped").await;
        over.store(true, Ordering::Relaxed);
    };
    let (payments, ()) = tokio::join!(traffic, swaps);
    assert!(payments.len() > 3);
    for payment in &payments {
        assert_eq!(server.payment(key, payment).await["status"], "pending");
    }

    let after = slot(&server, "method.ideal").await;
    assert_ne!(after["active"]["digest"], before["active"]["digest"]);
    assert_eq!(after["active"]["version"], "9.9.9");
    assert_eq!(after["previous"]["digest"], before["active"]["digest"]);
    assert_eq!(after["last_error"], Value::Null);
    let (payment, _) = server.started(key, "ideal", json!({})).await;
    let decisions = server.inside(&payment).await["decisions"].clone();
    assert_eq!(
        decisions[0]["digest"], after["active"]["digest"],
        "the decision says which version made it"
    );
    let mut large = crate::harness::new_payment();
    let direct =
        json!({ "amount": "200.00", "checkout_mode": "direct", "payment_method": "ideal" });
    crate::harness::merge(&mut large, direct);
    server
        .post(key, "/api/v1/payments", &large)
        .await
        .expect(422)
        .error();
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_says_why() {
    let server = Server::fresh().await;
    let before = slot(&server, "method.ideal").await;
    let other = std::fs::read(server.plugin_dir().join("method.paypal.wasm")).unwrap();
    let mut truncated = std::fs::read(server.plugin_dir().join("method.ideal.wasm")).unwrap();
    truncated.truncate(truncated.len() / 2);
    let core_module = b"\0asm\x01\0\0\0".to_vec();
    let refusals = || {
        server
            .log()
            .matches("method.ideal was not replaced: ")
            .count()
    };
    for broken in [
        b"not wasm at all".to_vec(),
        Vec::new(),
        core_module,
        truncated,
        other,
    ] {
        let told = refusals();
        put(&server, "method.ideal", &broken);
        server
            .wait_for("the refusal", async || (refusals() > told).then_some(()))
            .await;
        let now = slot(&server, "method.ideal").await;
        assert_eq!(
            (&now["active"], &now["state"]),
            (&before["active"], &json!("serving"))
        );
        let why = now["last_error"].as_str().unwrap();
        let line = format!("method.ideal was not replaced: {why}");
        assert!(
            server.log().contains(&line),
            "the log says the same: {line}"
        );
        assert_eq!(
            label(&server, "49.90").await.as_deref(),
            Some("iDEAL | Wero")
        );
    }
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;

    put(
        &server,
        "method.ideal",
        &std::fs::read(swapped().await).unwrap(),
    );
    wait_for_label(&server, "iDEAL, swapped").await;
    assert_eq!(
        slot(&server, "method.ideal").await["last_error"],
        Value::Null,
        "forgotten with the next good one"
    );
}

#[tokio::test]
async fn a_deleted_file_leaves_the_last_good_version_serving() {
    let server = Server::fresh().await;
    let before = slot(&server, "method.ideal").await;
    std::fs::remove_file(server.plugin_dir().join("method.ideal.wasm")).unwrap();
    std::fs::remove_file(server.plugin_dir().join("provider.sandbox.wasm")).unwrap();
    server
        .wait_for("the removals", async || {
            (server.log().matches("is gone").count() >= 2).then_some(())
        })
        .await;
    assert_eq!(
        slot(&server, "method.ideal").await["active"],
        before["active"]
    );
    let (payment, url) = server.started(server.test_key(), "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
}

#[tokio::test]
async fn every_slot_says_what_serves_in_it() {
    let server = crate::harness::shared().await;
    let plugins = server
        .admin("GET", "/plugins", None)
        .await
        .expect(200)
        .json();
    let plugins = plugins["plugins"].as_array().unwrap().clone();
    assert_eq!(plugins.len(), 11, "ten methods and the sandbox");
    for plugin in plugins {
        assert_eq!(
            (&plugin["state"], &plugin["last_error"]),
            (&json!("serving"), &Value::Null),
            "{plugin}"
        );
        assert_eq!(plugin["active"]["wit"], "0.2.0");
        assert_eq!(plugin["active"]["class"], "native");
        assert_eq!(plugin["active"]["digest"].as_str().unwrap().len(), 64);
    }
}
