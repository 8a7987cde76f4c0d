//! Data directories of other releases. `earlier/` holds two, each beside what its server had answered: one
//! of format 3, that a killed server of commit 954ffda left, and one of format 4, whose server, of commit
//! 8d3c8ac, was stopped. One of a later release is made here, and is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::damage::engine;
use crate::harness::{Server, fresh_folder};
use crate::keeping::done;
use crate::serving::{kassette, prepare};

fn earlier() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/earlier")
}

/// What a commit's server left, in a data directory.
fn unpack(commit: &str, data: &Path) {
    let archive = earlier().join(format!("{commit}.tar.gz"));
    let status = Command::new("tar")
        .args(["-xzf", archive.to_str().unwrap()])
        .args(["-C", data.to_str().unwrap()])
        .status();
    assert!(status.unwrap().success());
}

/// The same with the modules of this build.
fn unpacked(commit: &str) -> Arc<tempfile::TempDir> {
    let folder = fresh_folder();
    unpack(commit, &folder.path().join("data"));
    folder
}

fn verified(folder: &tempfile::TempDir) {
    let data = folder.path().join("data");
    done(&["verify", "--data-dir", data.to_str().unwrap()], &[]);
}

#[tokio::test]
async fn a_data_directory_of_format_3_verifies() {
    verified(&unpacked("954ffda"));
}

#[tokio::test]
async fn a_data_directory_of_format_3_serves_its_payments_and_goes_on() {
    let text = std::fs::read_to_string(earlier().join("payments.json")).unwrap();
    let payments: Vec<Value> = serde_json::from_str(&text).unwrap();
    let server = Server::in_folder(unpacked("954ffda")).await;
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
    let declined = server.decide(review, "decline", json!({})).await;
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

/// Whether an answer holds what another release had answered; fields that came since do not matter.
#[track_caller]
fn holds(found: &Value, told: &Value, at: &str) {
    match (found, told) {
        (Value::Object(_), Value::Object(fields)) => {
            for (name, value) in fields {
                holds(&found[name], value, &format!("{at}/{name}"));
            }
        }
        (Value::Array(found), Value::Array(lines)) => {
            assert_eq!(found.len(), lines.len(), "{at}");
            for (place, (found, line)) in found.iter().zip(lines).enumerate() {
                holds(found, line, &format!("{at}/{place}"));
            }
        }
        _ => assert_eq!(found, told, "{at}"),
    }
}

#[tokio::test]
async fn a_data_directory_of_format_4_verifies_and_its_payments_go_on() {
    let folder = unpacked("8d3c8ac");
    verified(&folder);
    let server = Server::in_folder(folder).await;
    let text = std::fs::read_to_string(earlier().join("8d3c8ac.json")).unwrap();
    let answers: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    for (path, told) in &answers {
        let found = server.admin("GET", path, None).await.expect(200).json();
        holds(&found, told, path);
    }

    // The keys still open, and all that was open comes to an end: by a person, by time.
    let key = server.test_key().to_owned();
    let payments = answers["/payments?limit=100"]["payments"].as_array();
    let mut in_review = payments
        .unwrap()
        .iter()
        .filter(|payment| payment["status"] == "review");
    for (decision, becomes) in [("approve", "completed"), ("decline", "failed")] {
        let payment = in_review.next().unwrap();
        let decided = server.decide(payment, decision, json!({})).await;
        assert!([200, 202].contains(&decided.status), "{}", decided.text);
        server.until(&key, payment, becomes).await;
    }
    server.advance(25 * 3600).await;
    let open = payments
        .unwrap()
        .iter()
        .filter(|payment| payment.get("status").is_none() && payment["reseller_id"].is_null());
    let mut ended = 0;
    for payment in open {
        let over = async || {
            let now = server.payment(&key, payment).await;
            (!["created", "pending"].contains(&now["status"].as_str().unwrap())).then_some(())
        };
        server
            .wait_for("a payment of before to be over", over)
            .await;
        ended += 1;
    }
    assert_eq!(ended, 5);

    let (new, url) = server.started(&key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &new, "completed").await;
    let folder = server.stop().await;
    verified(&folder);
}

/// Every file below a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.insert(path.display().to_string(), bytes);
            }
        }
    }
    found
}

#[test]
fn a_data_directory_of_a_later_release_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    prepare(folder.path(), "");
    std::fs::create_dir(&data).unwrap();
    unpack("8d3c8ac", &data);
    // `dev` keeps the key in the data directory.
    std::fs::copy(data.join("master.key"), folder.path().join("master.key")).unwrap();
    // Of this release's format first.
    done(&["verify", "--data-dir", data.to_str().unwrap()], &[]);
    let later = || {
        const FORMAT: &str = "meta/format";
        let db = engine(&data.join("store"));
        let format = db.get(FORMAT).unwrap().unwrap();
        let format = u32::from_be_bytes(format[..].try_into().unwrap()) + 1;
        db.insert(FORMAT, &format.to_be_bytes()).unwrap();
        db.flush().unwrap();
        format
    };
    let format = later();
    // sled writes an index of its file anew where the last one is older than the file: so here, once.
    drop(engine(&data.join("store")));
    let before = files(&data);
    let refused = |output: Output, what: &str| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        let (found, known) = (format!("has format {format}"), format - 1);
        assert!(said.contains(&found), "{what}: {said}");
        let advice = format!(
            "this program knows up to {known}: run the release that wrote it, or a later one"
        );
        assert!(said.contains(&advice), "{what}: {said}");
        let after = files(&data);
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&after), names(&before), "{what}");
        for (name, bytes) in &before {
            assert!(after[name] == *bytes, "{what} changed {name}");
        }
    };
    for command in [
        "serve",
        "verify",
        "audit verify",
        "compact",
        "backup -",
        "operator create --name ann --role admin",
    ] {
        refused(kassette(folder.path(), command).output().unwrap(), command);
    }
    let mut dev = kassette(
        folder.path(),
        "dev --no-watch --simulate sandbox --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0",
    );
    dev.arg("--data-dir").arg(&data);
    refused(dev.output().unwrap(), "dev");
}
