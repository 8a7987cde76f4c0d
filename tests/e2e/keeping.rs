//! Operations on a whole store with the real binary: backups of a running server, restore, verify, compact, change
//! of the master key, and migration to PostgreSQL and back.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use kassette_store::postgres::private::{PrivateError, PrivateOptions, PrivateServer};
use kassette_store::postgres::scratch::REQUIRE;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::crash::comparable;
use crate::harness::{Server, new_payment};

/// Number of clients that create payments while a backup is made.
const CLIENTS: usize = 16;
/// Number of payments created before the backup.
const BEFORE: usize = 200;

/// Runs a command of the binary with only the given environment variables for token and master key.
fn kassette(arguments: &[&str], set: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    command
        .args(arguments)
        .env_remove("KASSETTE_OPERATOR_TOKEN")
        .env_remove("KASSETTE_MASTER_KEY")
        .stdin(Stdio::null());
    for (name, value) in set {
        command.env(name, value);
    }
    command.output().unwrap()
}

#[track_caller]
pub(crate) fn done(arguments: &[&str], set: &[(&str, &str)]) -> String {
    let output = kassette(arguments, set);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub(crate) fn refused(arguments: &[&str], set: &[(&str, &str)]) -> String {
    let output = kassette(arguments, set);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn data_dir(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("data")
}

/// A copy of another server's folder without its store.
fn beside(folder: &tempfile::TempDir) -> Arc<tempfile::TempDir> {
    let elsewhere = tempfile::tempdir().unwrap();
    copy(folder.path(), elsewhere.path());
    std::fs::remove_dir_all(elsewhere.path().join("data/store")).unwrap();
    Arc::new(elsewhere)
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Folder and payments of a stopped server; the first payment is paid.
async fn stopped() -> (Arc<tempfile::TempDir>, Vec<Value>) {
    let server = Server::fresh().await;
    let key = server.test_key().to_owned();
    let (paid, url) = server.started(&key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &paid, "completed").await;
    let mut payments = vec![server.payment(&key, &paid).await];
    for _ in 0..20 {
        payments.push(server.create(&key, json!({})).await);
    }
    (server.stop().await, payments)
}

async fn assert_serves(folder: Arc<tempfile::TempDir>, payments: &[Value]) -> Server {
    let server = Server::in_folder(folder).await;
    let key = server.test_key().to_owned();
    for payment in payments {
        let found = server.payment(&key, payment).await;
        assert_eq!(comparable(&found), comparable(payment));
    }
    server
}

/// Creates payments until `stop` is set. Records each with its request once it is acknowledged.
async fn create_on(
    server: Arc<Server>,
    told: Arc<Mutex<Vec<(Value, Value)>>>,
    stop: Arc<Mutex<bool>>,
) {
    let key = server.test_key().to_owned();
    while !*stop.lock() {
        let request = new_payment();
        let payment = server.post(&key, "/api/v1/payments", &request).await;
        told.lock().push((request, payment.expect(201).json()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_busy_server_is_whole_and_starts_elsewhere() {
    let server = Arc::new(Server::fresh().await);
    let told = Arc::new(Mutex::new(Vec::new()));
    let stop = Arc::new(Mutex::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(create_on(server.clone(), told.clone(), stop.clone())))
        .collect();
    server
        .wait_for("payments", async || {
            (told.lock().len() >= BEFORE).then_some(())
        })
        .await;
    let file = server.folder().join("backup");
    let acknowledged = told.lock().clone();
    let (url, token) = (
        server.admin_base().to_owned(),
        server.operator_token().to_owned(),
    );
    let said = tokio::task::spawn_blocking({
        let file = file.clone();
        move || {
            let set = [
                ("KASSETTE_OPERATOR_TOKEN", token.as_str()),
                ("KASSETTE_ADMIN_URL", url.as_str()),
            ];
            done(&["backup", text(&file)], &set)
        }
    })
    .await
    .unwrap();
    assert!(said.contains("The master key is not in it"), "{said}");
    *stop.lock() = true;
    for client in clients {
        client.await.unwrap();
    }
    let audit = server.admin("GET", "/audit", None).await.expect(200).json();
    let lines = audit["entries"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["action"] == "store.backup"));
    let mode = std::fs::metadata(&file).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );

    // The old server continues to run; the new one uses a copy, like another machine.
    let copy_of = Arc::clone(&server);
    let elsewhere = {
        let elsewhere = tempfile::tempdir().unwrap();
        for name in ["data/plugins", "data/simulators"] {
            let to = elsewhere.path().join(name);
            std::fs::create_dir_all(&to).unwrap();
            copy(&copy_of.folder().join(name), &to);
        }
        for name in ["data/master.key", "data/dev-credentials.json"] {
            std::fs::copy(copy_of.folder().join(name), elsewhere.path().join(name)).unwrap();
        }
        Arc::new(elsewhere)
    };
    let data = data_dir(&elsewhere);
    let restored: Value = serde_json::from_str(&done(
        &["restore", text(&file), "--data-dir", text(&data), "--json"],
        &[],
    ))
    .unwrap();
    assert_eq!(restored["findings"], json!([]));
    assert!(restored["payments"].as_u64().unwrap() as usize >= acknowledged.len());
    let payments: Vec<Value> = acknowledged
        .iter()
        .map(|(_, payment)| payment.clone())
        .collect();
    let other = assert_serves(elsewhere, &payments).await;
    let key = other.test_key().to_owned();
    for (request, payment) in acknowledged.iter().take(20) {
        let replay = other
            .post(&key, "/api/v1/payments", request)
            .await
            .expect(200);
        assert_eq!(comparable(&replay.json()), comparable(payment));
    }
}

#[tokio::test]
async fn a_backup_that_was_altered_or_cut_is_refused_and_leaves_nothing() {
    let (folder, payments) = stopped().await;
    let data = data_dir(&folder);
    let file = folder.path().join("backup");
    done(&["backup", text(&file), "--data-dir", text(&data)], &[]);
    let again = refused(&["backup", text(&file), "--data-dir", text(&data)], &[]);
    assert!(again.contains("--force"), "{again}");
    done(
        &["backup", text(&file), "--data-dir", text(&data), "--force"],
        &[],
    );
    done(&["verify", text(&file), "--data-dir", text(&data)], &[]);
    let elsewhere = beside(&folder);
    let other = data_dir(&elsewhere);
    let good = std::fs::read(&file).unwrap();
    let bad_file = folder.path().join("bad");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    for (bad, sentence) in [
        (flipped, "damaged near byte"),
        (good[..good.len() - 7].to_vec(), "cut off"),
        (b"not a backup at all".to_vec(), "no backup of kassette"),
    ] {
        std::fs::write(&bad_file, bad).unwrap();
        for command in ["restore", "verify"] {
            let said = refused(&[command, text(&bad_file), "--data-dir", text(&other)], &[]);
            assert!(said.contains(sentence), "{said}");
        }
        assert!(!other.join("store").exists());
        assert!(!other.join("store.rebuilding").exists());
    }
    let wrong = [(
        "KASSETTE_MASTER_KEY",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    )];
    let said = refused(
        &["restore", text(&file), "--data-dir", text(&other)],
        &wrong,
    );
    assert!(said.contains("another master key"), "{said}");
    let said = refused(&["restore", text(&file), "--data-dir", text(&data)], &[]);
    assert!(said.contains("holds a store already"), "{said}");
    done(&["restore", text(&file), "--data-dir", text(&other)], &[]);
    assert_serves(elsewhere, &payments).await;
}

#[tokio::test]
async fn a_server_that_runs_is_not_verified_compacted_or_rekeyed() {
    let server = Server::fresh().await;
    let data = server.folder().join("data");
    let new_key = [(
        "KASSETTE_NEW_MASTER_KEY",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    )];
    for command in ["verify", "compact", "rekey"] {
        let said = refused(&[command, "--data-dir", text(&data)], &new_key);
        assert!(said.contains("in use by another process"), "{said}");
    }
    let file = server.folder().join("backup");
    let said = refused(&["backup", text(&file), "--data-dir", text(&data)], &[]);
    assert!(said.contains("KASSETTE_OPERATOR_TOKEN"), "{said}");
    assert!(!file.exists());
}

#[tokio::test]
async fn only_an_admin_backs_up() {
    let server = Server::fresh().await;
    let body = json!({ "name": "op", "role": "operator" });
    let made = server
        .admin("POST", "/operators", Some(&body))
        .await
        .expect(201);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let file = server.folder().join("backup");
    let set = [
        ("KASSETTE_OPERATOR_TOKEN", token.as_str()),
        ("KASSETTE_ADMIN_URL", server.admin_base()),
    ];
    let said = refused(&["backup", text(&file)], &set);
    assert!(said.contains("(403)"), "{said}");
    let mut left = std::fs::read_dir(server.folder()).unwrap();
    assert!(!left.any(|entry| {
        entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("backup")
    }));
}

#[tokio::test]
async fn a_compaction_that_is_killed_leaves_a_whole_store() {
    let (folder, payments) = stopped().await;
    let data = data_dir(&folder);
    let arguments = ["compact", "--data-dir", text(&data)];
    // Duration of an uninterrupted compaction; the kills are spread over it.
    let began = std::time::Instant::now();
    done(&arguments, &[]);
    let whole = began.elapsed();
    for part in 0..12_u32 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args(arguments)
            .env_remove("KASSETTE_MASTER_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(whole * part / 12).await;
        child.kill().unwrap();
        child.wait().unwrap();
        done(&["verify", "--data-dir", text(&data)], &[]);
        assert!(!data.join("store.rebuilding").exists());
    }
    let compacted: Value = serde_json::from_str(&done(
        &["compact", "--data-dir", text(&data), "--json"],
        &[],
    ))
    .unwrap();
    assert_eq!(compacted["payments"], payments.len());
    assert_serves(folder, &payments).await;
}

#[tokio::test]
async fn after_a_change_of_the_master_key_only_the_new_one_opens_the_store() {
    let (folder, payments) = stopped().await;
    let data = data_dir(&folder);
    let old = std::fs::read_to_string(data.join("master.key")).unwrap();
    let backup = folder.path().join("backup");
    done(&["backup", text(&backup), "--data-dir", text(&data)], &[]);
    let said = refused(&["rekey", "--data-dir", text(&data)], &[]);
    assert!(said.contains("KASSETTE_NEW_MASTER_KEY"), "{said}");
    let new = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let words = ["--actor", "ann", "--reason", "it was seen"];
    done(
        &[&["rekey", "--data-dir", text(&data)][..], &words[..]].concat(),
        &[("KASSETTE_NEW_MASTER_KEY", new)],
    );
    let said = refused(&["verify", "--data-dir", text(&data)], &[]);
    assert!(said.contains("another master key"), "{said}");
    std::fs::write(data.join("master.key"), new).unwrap();
    done(&["verify", "--data-dir", text(&data)], &[]);
    // A backup made before the change needs the old key.
    let said = refused(&["verify", text(&backup), "--data-dir", text(&data)], &[]);
    assert!(said.contains("another master key"), "{said}");
    assert!(said.contains("--old-key-file"), "{said}");
    let elsewhere = beside(&folder);
    let other = data_dir(&elsewhere);
    let restoring = ["restore", text(&backup), "--data-dir", text(&other)];
    let said = refused(&restoring, &[]);
    assert!(said.contains("--old-key-file"), "{said}");
    let old_key = folder.path().join("old.key");
    std::fs::write(&old_key, &old).unwrap();
    set_mode(&old_key, 0o600);
    let with_old = ["--old-key-file", text(&old_key)];
    let verifying = ["verify", text(&backup), "--data-dir", text(&data)];
    let said = done(&[&verifying[..], &with_old[..]].concat(), &[]);
    assert!(said.contains("its authentication code is right"), "{said}");
    let before = [("KASSETTE_OLD_MASTER_KEY", old.as_str())];
    done(&verifying, &before);
    // A restored store uses the new key.
    done(&[&restoring[..], &with_old[..], &words[..]].concat(), &[]);
    for (folder, action) in [(elsewhere, "store.restore"), (folder, "store.rekey")] {
        let server = assert_serves(folder, &payments).await;
        let audit = server.admin("GET", "/audit", None).await.expect(200).json();
        let lines = audit["entries"].as_array().unwrap();
        let line = lines.iter().find(|line| line["action"] == action);
        let line = line.unwrap_or_else(|| panic!("no {action}"));
        assert_eq!(
            (&line["operator"], &line["actor"], &line["reason"]),
            (&json!("system"), &json!("ann"), &json!("it was seen"))
        );
    }
}

#[tokio::test]
async fn a_backup_on_standard_output_is_whole_and_one_without_its_code_is_refused() {
    let (folder, payments) = stopped().await;
    let data = data_dir(&folder);
    let backup = kassette(&["backup", "-", "--data-dir", text(&data)], &[]);
    assert!(backup.status.success(), "{backup:?}");
    let file = folder.path().join("piped");
    std::fs::write(&file, &backup.stdout).unwrap();
    let verifying = ["verify", text(&file), "--data-dir", text(&data)];
    done(&verifying, &[]);
    // A header with version 1 and no authentication code, as in a backup by an earlier release.
    const CODE: usize = 1 + 4 + 32 + 4;
    let mut old = backup.stdout[..backup.stdout.len() - CODE].to_vec();
    old[11] = 1;
    std::fs::write(&file, &old).unwrap();
    let elsewhere = beside(&folder);
    let other = data_dir(&elsewhere);
    let restoring = ["restore", text(&file), "--data-dir", text(&other)];
    for command in [&verifying, &restoring] {
        let said = refused(command, &[]);
        assert!(said.contains("--without-code"), "{said}");
        // The changed header does not match the digest.
        let said = refused(&[&command[..], &["--without-code"]].concat(), &[]);
        assert!(said.contains("digest"), "{said}");
    }
    assert!(!other.join("store").exists());
    std::fs::write(&file, &backup.stdout).unwrap();
    done(&restoring, &[]);
    assert_serves(elsewhere, &payments).await;
}

#[tokio::test]
async fn an_actor_or_reason_that_shows_nothing_is_refused_before_anything_is_done() {
    let (folder, _) = stopped().await;
    let data = data_dir(&folder);
    let (backup, other) = (folder.path().join("backup"), folder.path().join("other"));
    done(&["backup", text(&backup), "--data-dir", text(&data)], &[]);
    let restore = ["restore", text(&backup), "--data-dir", text(&other)];
    let compact = ["compact", "--data-dir", text(&data)];
    let rekey = ["rekey", "--data-dir", text(&data)];
    for command in [&compact[..], &rekey, &restore] {
        for option in ["--actor", "--reason"] {
            let arguments = [command, &[option, "  "]].concat();
            let said = refused(&arguments, &[("KASSETTE_NEW_MASTER_KEY", "")]);
            assert!(said.contains(option), "{said}");
        }
    }
    assert!(!other.exists());
}

fn set_mode(path: &Path, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).unwrap();
}

#[test]
fn what_others_may_write_or_read_is_refused_by_the_check_and_at_the_start_alike() {
    let folder = tempfile::tempdir().unwrap();
    crate::serving::prepare(folder.path(), "");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("data")).unwrap();
    let module = std::fs::read_dir(at("plugins")).unwrap().next().unwrap();
    let module = module.unwrap().path();
    let said = |command: &str| {
        let mut command = crate::serving::kassette(folder.path(), command);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    };
    for (path, open, right, command) in [
        (at("config"), 0o770, 0o700, "chmod go-w"),
        (at("config/kassette.toml"), 0o666, 0o644, "chmod go-w"),
        (at("plugins"), 0o777, 0o755, "chmod go-w"),
        (at("data"), 0o775, 0o755, "chmod go-w"),
        (module, 0o664, 0o644, "chmod go-w"),
        (at("master.key"), 0o644, 0o600, "chmod 600"),
    ] {
        set_mode(&path, open);
        for said in [said("config check --without-modules"), said("serve")] {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(said.contains(name) && said.contains(command), "{said}");
        }
        set_mode(&path, right);
    }
    let mut check = crate::serving::kassette(folder.path(), "config check --without-modules");
    let output = check.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn planted_damage_is_found_and_a_changed_audit_line_is_named() {
    let (folder, _) = stopped().await;
    let data = data_dir(&folder);
    let said = done(&["audit", "verify", "--data-dir", text(&data)], &[]);
    assert!(said.contains("is whole"), "{said}");
    {
        let db = crate::damage::engine(&data.join("store"));
        let (key, row) = db.scan_prefix(b"rtn/").next().unwrap().unwrap();
        db.remove(key).unwrap();
        drop(row);
        let line = [b"aud/".as_slice(), &2_u64.to_be_bytes()].concat();
        let mut row = db.get(&line).unwrap().unwrap().to_vec();
        let last = row.len() - 1;
        row[last] ^= 1;
        db.insert(line, row).unwrap();
        db.flush().unwrap();
    }
    let said = refused(&["verify", "--data-dir", text(&data)], &[]);
    assert!(
        said.contains("attempt-by-return") && said.contains("line 2"),
        "{said}"
    );
    assert!(said.contains("What to do"), "{said}");
    let said = refused(&["audit", "verify", "--data-dir", text(&data)], &[]);
    assert!(said.contains("line 2"), "{said}");
}

#[tokio::test]
async fn the_audit_log_of_a_running_server_is_verified_over_its_api() {
    let server = Server::fresh().await;
    let set = [
        ("KASSETTE_OPERATOR_TOKEN", server.operator_token()),
        ("KASSETTE_ADMIN_URL", server.admin_base()),
    ];
    let verdict: Value = serde_json::from_str(&done(&["audit", "verify", "--json"], &set)).unwrap();
    assert_eq!(verdict["verified"], true);
    assert_eq!(verdict["entries"], verdict["head"]["id"]);
    let hash = verdict["head"]["hash"].as_str().unwrap();
    let entry = verdict["entries"].to_string();
    let of = |entry: &str, hash: &str| {
        let words = [
            "audit", "verify", "--entry", entry, "--hash", hash, "--json",
        ];
        words.map(str::to_owned)
    };
    let words = of(&entry, hash);
    done(&words.each_ref().map(String::as_str), &set);
    // A wrong hash, and an entry that does not exist yet.
    let other = of(&entry, &"0".repeat(64));
    refused(&other.each_ref().map(String::as_str), &set);
    let later = of("1000000", hash);
    refused(&later.each_ref().map(String::as_str), &set);
}

#[tokio::test]
async fn what_need_not_be_kept_is_forgotten_as_time_passes() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let config = folder.path().join("config");
    std::fs::create_dir_all(&config).unwrap();
    let settings = "[retention]\ndecision_days = 30\npersonal_data_days = 10\n";
    std::fs::write(config.join("kassette.toml"), settings).unwrap();
    let server = Server::with_modules(folder).await;
    let key = server.test_key().to_owned();
    let address = "payer.to.forget@example.org";
    let (paid, url) = server
        .started(&key, "ideal", json!({ "customer_email": address }))
        .await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &paid, "completed").await;
    let shown = async || {
        let path = format!("/payments/{}", paid["payment_id"].as_str().unwrap());
        server.admin("GET", &path, None).await.expect(200).json()
    };
    let count = |shown: &Value, what: &str| shown[what].as_array().unwrap().len();
    let mut before = shown().await;
    assert!(count(&before, "decisions") > 0);
    let instrument = &mut before["attempts"][0]["instrument"];
    assert_eq!(
        instrument.take(),
        "INGBNL2A 4242",
        "forgotten as the address is"
    );
    server.advance(11 * 24 * 3600).await;
    let after = shown().await;
    assert_eq!(count(&after, "decisions"), count(&before, "decisions"));
    let audit = server
        .admin("GET", "/audit?limit=1", None)
        .await
        .expect(200)
        .json();
    assert_eq!(audit["entries"][0]["action"], "store.forget");
    assert_eq!(audit["entries"][0]["after"]["personal_data"], 1);
    server.advance(20 * 24 * 3600).await;
    let after = shown().await;
    assert_eq!(count(&after, "decisions"), 0);
    for kept in ["attempts", "transitions", "events"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    // The address has been deleted, but the idempotency key still matches the same request.
    let folder = server.stop().await;
    done(&["verify", "--data-dir", text(&data_dir(&folder))], &[]);
}

#[test]
fn a_configuration_is_checked_whole_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("kassette.toml");
    let checked = |exit: i32| -> Value {
        let arguments = ["config", "check", "--json", "--config", text(folder.path())];
        let output = kassette(&arguments, &[]);
        assert_eq!(output.status.code(), Some(exit), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let bad = "public_url = \"http://pay.example\"\nadmin_listen = \"0.0.0.0:8081\"\n[payments]\nlife_seconds = 1\n";
    std::fs::write(&main, bad).unwrap();
    let providers = folder.path().join("providers");
    std::fs::create_dir(&providers).unwrap();
    std::fs::write(providers.join("broken.toml"), "module = 7\n").unwrap();
    let found = checked(1);
    let problems = found["problems"].as_array().unwrap();
    let at = |file: &str, line: Value| {
        problems.iter().any(|problem| {
            problem["path"].as_str().unwrap().ends_with(file) && problem["line"] == line
        })
    };
    for (file, line) in [
        ("kassette.toml", json!(1)),
        ("kassette.toml", json!(2)),
        ("kassette.toml", json!(4)),
        ("broken.toml", json!(1)),
    ] {
        assert!(at(file, line), "{file}: {problems:?}");
    }
    let says = |words: &str| {
        problems
            .iter()
            .any(|problem| problem["why"].as_str().unwrap().contains(words))
    };
    assert!(says("no master key"), "{problems:?}");

    std::fs::remove_dir_all(providers).unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    set_mode(&key, 0o644);
    std::fs::create_dir(folder.path().join("plugins")).unwrap();
    let good = "public_url = \"https://pay.example\"\nmaster_key_file = \"key\"\ndata_dir = \"data\"\nplugin_dir = \"plugins\"\n";
    std::fs::write(&main, good).unwrap();
    let found = checked(1);
    assert_eq!(found["problems"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["problems"][0]["line"], 2);
    set_mode(&key, 0o600);
    assert_eq!(checked(0)["problems"], json!([]));
}

/// A PostgreSQL server that syncs its writes to disk. `None` if PostgreSQL is not installed.
async fn database(folder: &tempfile::TempDir) -> Option<PrivateServer> {
    let options = PrivateOptions {
        folder: folder.path().to_owned(),
        disposable: false,
        settings: Vec::new(),
    };
    let started = tokio::task::spawn_blocking(move || PrivateServer::start(&options)).await;
    match started.unwrap() {
        Err(PrivateError::NotInstalled | PrivateError::NoUser)
            if std::env::var_os(REQUIRE).is_none() =>
        {
            eprintln!("NOT RUN: no PostgreSQL is installed");
            None
        }
        started => Some(started.unwrap()),
    }
}

#[tokio::test]
async fn a_store_is_moved_to_a_database_and_back() {
    let of_database = tempfile::tempdir().unwrap();
    let Some(database) = database(&of_database).await else {
        return;
    };
    let url = database.url("postgres");
    let set = [("KASSETTE_STORE_URL", url.as_str())];
    let (folder, payments) = stopped().await;
    let data = data_dir(&folder);
    let config = tempfile::tempdir().unwrap();
    let key = data.join("master.key");
    let main = format!("data_dir = {data:?}\nmaster_key_file = {key:?}\n");
    std::fs::write(config.path().join("kassette.toml"), main).unwrap();
    let config = ["--config", text(config.path())];
    let command = |words: &[&'static str]| {
        let mut all: Vec<&str> = words.to_vec();
        all.extend(config);
        all
    };

    let unmade = refused(&command(&["copy", "--to", "postgres"]), &set);
    assert!(unmade.contains("kassette migrate"), "{unmade}");
    done(&command(&["migrate"]), &set);
    let copy = ["copy", "--to", "postgres", "--actor", "ann", "--json"];
    let copied: Value = serde_json::from_str(&done(&command(&copy), &set)).unwrap();
    assert_eq!(copied["payments"].as_u64(), Some(payments.len() as u64));
    done(&command(&["verify"]), &set);
    let moved = refused(&command(&["verify"]), &[]);
    assert!(moved.contains("was moved to a database"), "{moved}");

    let there = refused(&command(&["copy", "--to", "sled"]), &set);
    assert!(there.contains("holds a store already"), "{there}");
    std::fs::rename(data.join("store"), data.join("store.before")).unwrap();
    let said = done(&command(&["copy", "--to", "sled"]), &set);
    assert!(said.contains("copied and read through"), "{said}");
    let moved = refused(&command(&["audit", "verify"]), &set);
    assert!(moved.contains("was moved to a data directory"), "{moved}");
    assert_serves(folder, &payments).await;
}
