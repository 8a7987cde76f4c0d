//! A data directory of an earlier format, that a killed server of commit 954ffda left: `earlier/` holds it
//! beside what that server had answered about its payments.

use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Server, fresh_folder};
use crate::keeping::done;

fn earlier() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/earlier")
}

/// Its data directory, with the modules of this build.
fn unpacked() -> Arc<tempfile::TempDir> {
    let folder = fresh_folder();
    let status = Command::new("tar")
        .args(["-xzf", earlier().join("954ffda.tar.gz").to_str().unwrap()])
        .args(["-C", folder.path().join("data").to_str().unwrap()])
        .status();
    assert!(status.unwrap().success());
    folder
}

fn verified(folder: &tempfile::TempDir) {
    let data = folder.path().join("data");
    done(&["verify", "--data-dir", data.to_str().unwrap()], &[]);
}

#[tokio::test]
async fn a_data_directory_of_an_earlier_format_verifies() {
    verified(&unpacked());
}

#[tokio::test]
async fn a_data_directory_of_an_earlier_format_serves_its_payments_and_goes_on() {
    let text = std::fs::read_to_string(earlier().join("payments.json")).unwrap();
    let payments: Vec<Value> = serde_json::from_str(&text).unwrap();
    let server = Server::in_folder(unpacked()).await;
    let key = server.test_key().to_owned();
    for payment in &payments {
        let found = server.payment(&key, payment).await;
        let open = ["created", "pending"].contains(&payment["status"].as_str().unwrap());
        for (name, value) in payment.as_object().unwrap() {
            // What was open may be over by the time of the test.
            if !open || !["status", "payment_method"].contains(&name.as_str()) {
                assert_eq!(&found[name], value, "{name} of {payment}");
            }
        }
        if payment["status"] == "completed" {
            let id = payment["payment_id"].as_str().unwrap();
            let whole = server.admin("GET", &format!("/payments/{id}"), None).await;
            let whole = &whole.expect(200).json()["payment"];
            assert!(whole["completed_at"].is_string(), "{whole}");
            assert_eq!(whole["fx_rate"], "1.08", "{whole}");
        }
    }
    let work = server.admin("GET", "/work", None).await.expect(200).json();
    let mut kinds: Vec<&str> = work["work"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["dispute", "refund"]);

    let review = payments
        .iter()
        .find(|payment| payment["status"] == "review")
        .unwrap();
    let id = review["payment_id"].as_str().unwrap();
    let decline = json!({ "decision": "decline", "actor": "ann", "reason": "a test" });
    let path = format!("/payments/{id}/review");
    let declined = server.admin("POST", &path, Some(&decline)).await;
    assert!([200, 202].contains(&declined.status), "{}", declined.text);
    let new = server.create(&key, json!({})).await;
    let folder = server.stop().await;
    verified(&folder);
    let server = Server::in_folder(folder).await;
    assert_eq!(
        server.payment(&key, &new).await["order_id"],
        new["order_id"]
    );
}
