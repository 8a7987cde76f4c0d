//! Versions of modules: upload, rollback and inspection by operators.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Answer, Server};
use crate::keeping::{done, refused};
use crate::swap::{label, slot, swapped};

const IDEAL: &str = "method.ideal";

pub(crate) async fn upload(server: &Server, slot: &str, query: &str, bytes: Vec<u8>) -> Answer {
    let url = format!("{}/plugins/{slot}{query}", server.admin_base());
    let request = server.http.post(url).bearer_auth(server.operator_token());
    server.send(request.body(bytes)).await
}

async fn rollback(server: &Server, slot: &str) -> Answer {
    let words = json!({ "actor": "Ada", "reason": "it declines too much" });
    let path = format!("/plugins/{slot}/rollback");
    server.admin("POST", &path, Some(&words)).await
}

/// Entries about iDEAL's slot in the audit log, newest first.
async fn lines(server: &Server) -> Vec<Value> {
    let audit = server.admin("GET", "/audit?limit=100", None).await;
    let entries = audit.expect(200).json()["entries"].clone();
    let about = |entry: &&Value| entry["object"] == format!("plugin/{IDEAL}");
    entries
        .as_array()
        .unwrap()
        .iter()
        .filter(about)
        .cloned()
        .collect()
}

async fn causes(server: &Server) -> Vec<String> {
    let path = format!("/plugins/{IDEAL}/history");
    let history = server.admin("GET", &path, None).await.expect(200).json();
    let events = history["history"].as_array().unwrap().clone();
    let cause = |event: &Value| event["cause"].as_str().unwrap().to_owned();
    events.iter().map(cause).collect()
}

/// Pads a module with a custom section to the maximum size.
fn padded(mut module: Vec<u8>) -> Vec<u8> {
    const MOST: usize = 32 << 20;
    /// Length in bytes of the section's ID and its size field.
    const HEAD: usize = 6;
    let length = MOST - module.len() - HEAD;
    module.push(0);
    let sevens = (0..5).map(|index| (length >> (7 * index)) as u8);
    let length_bytes = sevens.enumerate().map(|(index, seven)| match index {
        4 => seven & 0x7f,
        _ => seven | 0x80,
    });
    module.extend(length_bytes);
    // Zeros: an empty section name and its content.
    module.resize(MOST, 0);
    module
}

#[tokio::test]
async fn a_module_of_the_largest_size_is_taken_and_a_larger_one_refused() {
    let server = Server::fresh().await;
    let largest = padded(std::fs::read(swapped().await).unwrap());
    let larger = [largest.clone(), vec![0]].concat();
    upload(&server, IDEAL, "", larger).await.expect(413);
    let uploaded = upload(&server, IDEAL, "", largest).await.expect(200).json();
    assert_eq!(uploaded["active"]["version"], "9.9.9");
}

#[tokio::test]
async fn a_module_that_does_not_take_what_is_configured_is_refused_until_that_is_changed() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let methods = folder.path().join("config/methods");
    std::fs::create_dir_all(&methods).unwrap();
    let file = methods.join("ideal.toml");
    std::fs::write(&file, "wero = true\n").unwrap();
    let server = Server::with_modules(folder).await;
    let module = std::fs::read(swapped().await).unwrap();
    let refused = upload(&server, IDEAL, "", module.clone()).await.expect(422);
    let said = refused.error();
    assert!(
        said.contains("the method ideal: the setting wero is unknown"),
        "{said}"
    );
    assert_eq!(
        label(&server, "49.90").await.as_deref(),
        Some("iDEAL | Wero")
    );
    std::fs::remove_file(file).unwrap();
    let taken = || async {
        let answer = upload(&server, IDEAL, "", module.clone()).await;
        (answer.status == 200).then_some(())
    };
    server
        .wait_for("the configuration to be read again", taken)
        .await;
    assert_eq!(
        label(&server, "49.90").await.as_deref(),
        Some("iDEAL, swapped")
    );
}

#[tokio::test]
async fn an_upload_serves_at_once_and_after_a_restart_and_can_be_taken_back() {
    let server = Server::fresh().await;
    let before = slot(&server, IDEAL).await;
    let original = before["active"]["digest"].clone();
    rollback(&server, IDEAL).await.expect(409).error();
    let module = std::fs::read(swapped().await).unwrap();
    // The default mode is `activate`.
    let answer = upload(&server, IDEAL, "", module.clone()).await;
    let uploaded = answer.expect(200).json();
    assert_eq!(uploaded["active"]["version"], "9.9.9");
    assert_eq!(uploaded["serving"], uploaded["active"]["digest"]);
    assert_eq!(uploaded["previous"]["digest"], original);
    assert_eq!(
        label(&server, "49.90").await.as_deref(),
        Some("iDEAL, swapped")
    );
    // Uploading the active version again changes nothing and adds no audit entry.
    let again = upload(&server, IDEAL, "?mode=activate", module).await;
    assert_eq!(again.expect(200).json()["active"], uploaded["active"]);

    let server = Server::in_folder(server.stop().await).await;
    assert_eq!(slot(&server, IDEAL).await["active"], uploaded["active"]);
    let back = rollback(&server, IDEAL).await.expect(200).json();
    assert_eq!(back["active"]["digest"], original);
    assert_eq!(back["previous"]["digest"], uploaded["active"]["digest"]);
    assert_eq!(
        label(&server, "49.90").await.as_deref(),
        Some("iDEAL | Wero")
    );

    // A crash immediately after the rollback.
    let server = Server::in_folder(server.kill()).await;
    assert_eq!(slot(&server, IDEAL).await["active"]["digest"], original);
    assert_eq!(causes(&server).await, ["rollback", "upload", "folder"]);
    let lines = lines(&server).await;
    let mut actions: Vec<_> = lines.iter().map(|line| line["action"].clone()).collect();
    // Each node records the module that it found in its folder.
    actions.dedup();
    assert_eq!(actions, ["plugin.rollback", "plugin.upload", "plugin.drop"]);
    let (new, old) = (&uploaded["active"]["digest"], &original);
    let digests = |line: &Value| {
        (
            line["before"]["digest"].clone(),
            line["after"]["digest"].clone(),
        )
    };
    assert_eq!(digests(&lines[0]), (new.clone(), old.clone()));
    assert_eq!(digests(&lines[1]), (old.clone(), new.clone()));
    assert_eq!(digests(&lines[2]), (Value::Null, old.clone()));
    assert_eq!(
        (&lines[0]["actor"], &lines[0]["reason"]),
        (&json!("Ada"), &json!("it declines too much"))
    );
}

/// The history is authentic, so that the start takes it: a stopped server's `verify` says that it is not the newest.
#[tokio::test]
async fn verify_names_an_older_history_that_was_put_back() {
    let server = Server::with_modules(Arc::new(tempfile::tempdir().unwrap())).await;
    let words = json!({ "actor": "Ada", "reason": "it declines too much" });
    let disable = format!("/plugins/{IDEAL}/disable");
    let module = std::fs::read(swapped().await).unwrap();
    let folder = server.stop().await;
    let data = folder.path().join("data");
    let history = data.join("modules").join(IDEAL).join("history.json");
    let verify = ["verify", "--data-dir", data.to_str().unwrap()];
    let first = std::fs::read(&history).unwrap();
    let server = Server::in_folder(folder).await;
    upload(&server, IDEAL, "", module).await.expect(200);
    let folder = server.stop().await;
    done(&verify, &[]);
    let second = std::fs::read(&history).unwrap();
    let server = Server::in_folder(folder).await;
    server
        .admin("POST", &disable, Some(&words))
        .await
        .expect(200);
    let folder = server.stop().await;
    done(&verify, &[]);
    let newest = std::fs::read(&history).unwrap();
    for (older, why) in [
        (first, "names another version"),
        (second, "switch says something else"),
        (b"{}".to_vec(), "not authentic"),
    ] {
        std::fs::write(&history, older).unwrap();
        let said = refused(&verify, &[]);
        let named = said.contains(&format!("history modules/{IDEAL}: "));
        assert!(named && said.contains(why), "{said}");
    }
    std::fs::remove_file(&history).unwrap();
    let said = refused(&verify, &[]);
    assert!(said.contains("the slot is switched off"), "{said}");
    std::fs::write(&history, newest).unwrap();
    done(&verify, &[]);
    drop(folder);
}

#[tokio::test]
async fn what_cannot_be_uploaded_is_refused_and_changes_nothing() {
    let server = Server::fresh().await;
    let before = slot(&server, IDEAL).await;
    let good = std::fs::read(swapped().await).unwrap();
    for unknown in ["method.Barter", "provider.nowhere", "nothing", "method."] {
        let answer = upload(&server, unknown, "?mode=activate", good.clone()).await;
        answer.expect(404).error();
        rollback(&server, unknown).await.expect(404).error();
        let path = format!("/plugins/{unknown}/history");
        server.admin("GET", &path, None).await.expect(404).error();
    }
    for query in ["?mode=", "?mode=later", "?mode=activate&x=1"] {
        upload(&server, IDEAL, query, good.clone())
            .await
            .expect(422)
            .error();
    }
    let other = std::fs::read(server.plugin_dir().join("method.paypal.wasm")).unwrap();
    for (module, why) in [
        (Vec::new(), "not WebAssembly"),
        (b"\0asm\x01\0\0\0".to_vec(), "core module"),
        (good[..good.len() / 2].to_vec(), "not a valid component"),
        (other, "describes itself as \"paypal\""),
    ] {
        let answer = upload(&server, IDEAL, "?mode=activate", module).await;
        let error = answer.expect(422).error();
        assert!(error.contains(why), "{error}");
    }
    let large = upload(&server, IDEAL, "?mode=activate", vec![0; 40 << 20]).await;
    large.expect(413).error();
    let wordless = format!("/plugins/{IDEAL}/rollback");
    server
        .admin("POST", &wordless, None)
        .await
        .expect(422)
        .error();
    let after = slot(&server, IDEAL).await;
    // Compares digests only: each node's entry also contains the time at which it read its folder.
    assert_eq!(after["active"]["digest"], before["active"]["digest"]);
    assert_eq!(causes(&server).await, ["folder"]);
}

#[tokio::test]
async fn the_commands_upload_take_back_and_tell() {
    let server = Server::fresh().await;
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
        command
            .arg("plugin")
            .args(arguments)
            .args(["--json", "--admin-url", server.admin_base()])
            .env("KASSETTE_OPERATOR_TOKEN", server.operator_token());
        let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
        let ended = ended.await.unwrap();
        let answer = serde_json::from_slice::<Value>(&ended.stdout).unwrap_or_default();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), answer, said)
    };
    let module: &Path = swapped().await;
    let module = module.to_str().unwrap();
    let (code, uploaded, said) = run(&["upload", IDEAL, module]).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(uploaded["active"]["version"], "9.9.9");
    let (code, _, said) = run(&["rollback", IDEAL]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("actor"), "{said}");
    let why = ["--actor", "Ada", "--reason", "a test"];
    let (code, back, said) = run(&[&["rollback", IDEAL], &why[..]].concat()).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(back["previous"]["digest"], uploaded["active"]["digest"]);
    let (_, history, _) = run(&["history", IDEAL, "--limit", "2"]).await;
    assert_eq!(history["history"][0]["cause"], "rollback");
    assert_eq!(history["history"][1]["cause"], "upload");
    assert!(history["next_cursor"].is_string());
    let (code, _, said) = run(&["upload", IDEAL, "/nowhere.wasm"]).await;
    assert_eq!((code, said.contains("/nowhere.wasm")), (Some(1), true));
}
