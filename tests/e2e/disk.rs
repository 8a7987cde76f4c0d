//! Disks that fail and recover: requests get 503 and leave nothing half written, `/readyz` gives the reason, and
//! the service recovers automatically with everything that it had acknowledged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::crash::comparable;
use crate::harness::{Answer, Server, fresh_folder, new_payment};
use crate::keeping::done;
use crate::receiver::{Receiver, Reply};
use crate::steps::session;

/// File size limit, in bytes, that the process's log stays below and the store's database exceeds.
const FULL: u64 = 1 << 20;

/// Requests and the payments that they created.
type Made = Vec<(Value, Value)>;

async fn readyz(server: &Server) -> Answer {
    let url = format!("{}/readyz", server.admin_root());
    server.send(server.http.get(url)).await
}

pub(crate) async fn unready(server: &Server) -> String {
    server
        .wait_for("503 of /readyz", async || {
            let answer = readyz(server).await;
            (answer.status == 503).then_some(answer.text)
        })
        .await
}

pub(crate) async fn ready(server: &Server) {
    server
        .wait_for("200 of /readyz", async || {
            (readyz(server).await.status == 200).then_some(())
        })
        .await;
}

async fn create(server: &Server, request: &Value) -> Answer {
    server
        .post(server.test_key(), "/api/v1/payments", request)
        .await
}

/// Creates payments until the disk is full. Returns the last request, which was not acknowledged.
async fn create_until_refused(server: &Server, made: &mut Made) -> Value {
    loop {
        let request = new_payment();
        let answer = create(server, &request).await;
        if answer.status != 201 {
            let answer = answer.expect(503);
            assert!(answer.header("retry-after").is_some());
            let said = answer.error();
            for inner in ["disk", "sled", "store", "group", "space"] {
                assert!(!said.contains(inner), "tells of our inside: {said}");
            }
            return request;
        }
        made.push((request, answer.json()));
        assert!(made.len() < 20_000, "the disk does not fill");
    }
}

/// Asserts that every acknowledged payment exists, and that the doubtful request created at most one and can be
/// repeated.
async fn whole(server: &Server, made: &Made, doubtful: &Value) {
    let key = server.test_key();
    for (request, payment) in made {
        let path = format!(
            "/api/v1/payments/{}",
            payment["payment_id"].as_str().unwrap()
        );
        let found = server.get(key, &path).await.expect(200).json();
        assert_eq!(comparable(&found), comparable(payment));
        let again = create(server, request).await;
        assert_eq!(
            again.header("idempotent-replayed"),
            Some("true"),
            "{}",
            again.text
        );
    }
    let first = create(server, doubtful).await;
    assert!(matches!(first.status, 200 | 201), "{}", first.text);
    let again = create(server, doubtful).await.json();
    assert_eq!(again["payment_id"], first.json()["payment_id"]);
    let order = doubtful["order_id"].as_str().unwrap();
    let path = format!("/payments?order_id={order}");
    let listed = server.admin("GET", &path, None).await.expect(200).json();
    assert_eq!(listed["payments"].as_array().unwrap().len(), 1, "{listed}");
}

/// Limits the size of the files that the server process writes, in bytes. `None` removes the limit.
pub(crate) fn limit_files(server: &Server, bytes: Option<u64>) {
    let pid = i32::try_from(server.pid()).unwrap();
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Pid::from_raw(pid), Resource::Fsize, limit).unwrap();
}

/// Runs the binary so that a write beyond the limit fails, as on a full disk, instead of ending the process.
fn surviving_refusals() -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_kassette"));
    command
}

#[tokio::test]
async fn a_disk_that_refuses_writes_is_survived_without_a_restart() {
    let server = Server::through(surviving_refusals(), fresh_folder()).await;
    let pid = server.pid();
    let mut made = Made::new();
    for _ in 0..20 {
        let request = new_payment();
        let answer = create(&server, &request).await.expect(201);
        made.push((request, answer.json()));
    }
    limit_files(&server, Some(FULL));
    let doubtful = create_until_refused(&server, &mut made).await;
    let why = unready(&server).await;
    assert!(why.contains("the disk failed"), "{why}");
    create(&server, &new_payment()).await.expect(503);
    let body = json!({ "name": "Shop", "live_approved": false });
    let refused = server.admin("POST", "/merchants", Some(&body)).await;
    let refused = refused.expect(503);
    assert!(refused.header("retry-after").is_some());
    assert!(!refused.error().contains("disk"));
    limit_files(&server, None);
    ready(&server).await;
    whole(&server, &made, &doubtful).await;
    assert_eq!(server.pid(), pid);
    // The payments were also written to disk: a restarted server finds them.
    let server = Server::in_folder(server.kill()).await;
    let doubtful = new_payment();
    whole(&server, &made, &doubtful).await;
}

#[tokio::test]
async fn what_has_arrived_while_the_disk_refuses_writes_is_recorded_later_and_not_sent_again() {
    let server = Server::through(surviving_refusals(), fresh_folder()).await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    // The disk fails during a delivery attempt.
    let told = Arc::new(Notify::new());
    receiver.answer_next([Reply::Held(Arc::clone(&told))]);
    server.hook_act(&hook, "test", json!({})).await;
    receiver.wait(1).await;
    limit_files(&server, Some(0));
    told.notify_one();
    // Wait for many retries: the outcome must never be dropped.
    server
        .wait_for("many tries", async || {
            let tries = server.counted("kassette_webhook_record_retries_total", "");
            (tries.await >= 20).then_some(())
        })
        .await;
    limit_files(&server, None);
    ready(&server).await;
    let done = server.settled(&hook).await.remove(0);
    assert_eq!(done["status"], "delivered");
    assert_eq!(done["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(receiver.got().len(), 1, "it was not sent again");
}

#[tokio::test]
async fn callbacks_beside_a_disk_that_refuses_writes_write_few_lines_of_the_log() {
    let server = Server::through(surviving_refusals(), fresh_folder()).await;
    let (payment, _) = server.started(server.test_key(), "ideal", json!({})).await;
    let attempt = server.attempts(&payment).await[0].clone();
    // The clock of `dev` can be read only while the store answers.
    let account = attempt["provider_id"].as_str().unwrap();
    let session = session(&attempt, "captured", "49.90");
    let body = json!({ "id": "evt_1", "type": "captured", "created_at": 1, "session": session });
    let body = body.to_string();
    let signature = server.signature(account, server.now().await, &body);
    limit_files(&server, Some(FULL));
    create_until_refused(&server, &mut Made::new()).await;
    let since = Instant::now();
    for _ in 0..300 {
        let answer = server.callback(account, &signature, body.clone()).await;
        assert!(answer.status >= 500, "{}", answer.text);
    }
    let told = server.log().matches("a notice could not be stored").count();
    let most = usize::try_from(since.elapsed().as_secs()).unwrap() + 2;
    assert!((1..=most).contains(&told), "{told} lines");
    limit_files(&server, None);
    ready(&server).await;
    server.tell(&attempt, "captured", "49.90").await.expect(200);
}

/// Runs the binary on a disk where syncs fail or reads hang while `syncs-fail` or `reads-hang` exists in the
/// folder.
fn on_a_faulty_disk(folder: &Path) -> Command {
    let layer = folder.join("disk_faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/disk_faults.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&layer, &source])
        .status();
    assert!(built.unwrap().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    command
        .env("LD_PRELOAD", layer)
        .env("KASSETTE_DISK_FAULTS", folder);
    command
}

#[tokio::test]
async fn syncs_that_fail_are_told_and_the_service_goes_on_when_they_do_not() {
    let folder = fresh_folder();
    let server = Server::through(on_a_faulty_disk(folder.path()), Arc::clone(&folder)).await;
    let fault = folder.path().join("syncs-fail");
    let mut made = Made::new();
    for _ in 0..2 {
        for _ in 0..20 {
            let request = new_payment();
            let answer = create(&server, &request).await.expect(201);
            made.push((request, answer.json()));
        }
        std::fs::write(&fault, "").unwrap();
        let doubtful = create_until_refused(&server, &mut made).await;
        let why = unready(&server).await;
        assert!(why.contains("the disk failed"), "{why}");
        assert!(why.contains("Input/output error"), "{why}");
        let unavailable = server.counted("kassette_unready", "\"store_unavailable\"");
        assert_eq!(unavailable.await, 1);
        // Data read from a disk that may have lost it is not shown either.
        let path = format!(
            "/api/v1/payments/{}",
            made[0].1["payment_id"].as_str().unwrap()
        );
        let read = server.get(server.test_key(), &path).await.expect(503);
        assert!(read.header("retry-after").is_some());
        let body = json!({ "name": "Shop", "live_approved": false });
        let refused = server.admin("POST", "/merchants", Some(&body)).await;
        assert!(refused.expect(503).header("retry-after").is_some());
        std::fs::remove_file(&fault).unwrap();
        ready(&server).await;
        whole(&server, &made, &doubtful).await;
    }
    assert!(server.counted("kassette_store_recoveries_total", "").await >= 2);
    let server = Server::in_folder(server.kill()).await;
    whole(&server, &made, &new_payment()).await;
}

#[tokio::test]
async fn reads_that_hang_are_answered_in_time_and_hold_up_nothing_else() {
    let folder = fresh_folder();
    let server = Server::in_folder(Arc::clone(&folder)).await;
    let mut made = Made::new();
    // The next process must not hold the first payments in memory: it reads more data at its start than fits into
    // the cache of the database.
    for _ in 0..50 {
        let requests: Vec<_> = (0..100).map(|_| new_payment()).collect();
        let creates = requests.iter().map(|request| create(&server, request));
        let answers = futures_util::future::join_all(creates).await;
        let created = answers.into_iter().map(|answer| answer.expect(201).json());
        made.extend(requests.iter().cloned().zip(created));
    }
    made.truncate(200);
    server.stop().await;
    let server = Server::through(on_a_faulty_disk(folder.path()), Arc::clone(&folder)).await;
    let fault = folder.path().join("reads-hang");
    std::fs::write(&fault, "").unwrap();
    let mut hung = None;
    for (_, payment) in &made {
        let path = format!(
            "/api/v1/payments/{}",
            payment["payment_id"].as_str().unwrap()
        );
        let read = server.get(server.test_key(), &path).await;
        if read.status != 200 {
            hung = Some((path, read.expect(503)));
            break;
        }
    }
    let (path, answer) = hung.expect("a read hangs");
    assert!(answer.header("retry-after").is_some());
    assert!(!answer.error().contains("disk"));
    let live = format!("{}/livez", server.admin_root());
    let live = server.send(server.http.get(live)).await;
    live.expect(200);
    assert!(server.log().contains("the disk hangs: a read was given up"));
    std::fs::remove_file(&fault).unwrap();
    server.get(server.test_key(), &path).await.expect(200);
    ready(&server).await;
    whole(&server, &made, &new_payment()).await;
}

#[tokio::test]
async fn refused_creates_beside_a_disk_that_refuses_writes_write_few_lines_of_the_log() {
    const REFUSED: usize = 3_000;
    let server = Server::through(surviving_refusals(), fresh_folder()).await;
    limit_files(&server, Some(FULL));
    create_until_refused(&server, &mut Made::new()).await;
    let (before, since) = (server.log().len(), Instant::now());
    for _ in 0..REFUSED / 100 {
        let bodies: Vec<_> = (0..100).map(|_| new_payment()).collect();
        let creates = bodies.iter().map(|body| create(&server, body));
        for answer in futures_util::future::join_all(creates).await {
            answer.expect(503);
        }
    }
    let log = server.log();
    let lines = log[before..].lines().count() as u64;
    // In each second at most 20 failures of two lines each, in addition to the store's messages about the disk.
    let seconds = since.elapsed().as_secs() + 2;
    assert!(
        lines <= 45 * seconds,
        "{lines} lines in {seconds} s:\n{}",
        &log[before..]
    );
    limit_files(&server, None);
    ready(&server).await;
    create(&server, &new_payment()).await.expect(201);
}

/// Runs the binary with the store on a separate file system of 128 MiB.
fn on_a_small_file_system(folder: &Path, options: &str) -> Command {
    let store = folder.join("data/store");
    std::fs::create_dir_all(&store).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs -o \"$1\" tmpfs \"$0\" && shift && exec \"$@\"")
        .arg(store)
        .arg(options)
        .arg(env!("CARGO_BIN_EXE_kassette"));
    command
}

#[tokio::test]
#[ignore = "needs the right to mount (`unshare -rm`); .ci/run runs it where it has that"]
async fn a_small_file_system_that_is_full_takes_nothing_new_and_still_reads() {
    let folder = fresh_folder();
    let command = on_a_small_file_system(folder.path(), "size=128m");
    let server = Server::through(command, folder).await;
    let pid = server.pid();
    let mut made = Made::new();
    let request = new_payment();
    let answer = create(&server, &request).await.expect(201);
    made.push((request, answer.json()));
    // Path of the file system as the process sees it.
    let inside = PathBuf::from(format!("/proc/{pid}/root"));
    let store = server.folder().join("data/store");
    let filler = inside.join(store.strip_prefix("/").unwrap()).join("filler");
    for again in 0..2 {
        std::fs::write(&filler, vec![1; 80 << 20]).unwrap();
        let doubtful = create_until_refused(&server, &mut made).await;
        let why = unready(&server).await;
        assert!(why.contains("the disk is full"), "{why}");
        let path = format!(
            "/api/v1/payments/{}",
            made[0].1["payment_id"].as_str().unwrap()
        );
        server.get(server.test_key(), &path).await.expect(200);
        // A backup goes to another disk, which is not full.
        let backup = server.folder().join("backup");
        let (file, data) = (backup.to_str().unwrap(), server.folder().join("data"));
        let set = [
            ("KASSETTE_OPERATOR_TOKEN", server.operator_token()),
            ("KASSETTE_ADMIN_URL", server.admin_base()),
        ];
        done(&["backup", file], &set);
        let data = data.to_str().unwrap();
        let verified = done(&["verify", file, "--data-dir", data, "--json"], &[]);
        let verified: Value = serde_json::from_str(&verified).unwrap();
        assert_eq!(verified["findings"], json!([]));
        // Requests that were refused before have succeeded in the end.
        assert_eq!(verified["payments"], made.len() + again, "{verified}");
        std::fs::remove_file(&backup).unwrap();
        std::fs::remove_file(&filler).unwrap();
        ready(&server).await;
        whole(&server, &made, &doubtful).await;
    }
    assert_eq!(server.pid(), pid);
}

#[tokio::test]
#[ignore = "needs the right to mount (`unshare -rm`); .ci/run runs it where it has that"]
async fn a_small_file_system_of_the_store_alone_is_refused_before_a_store_is_written_anew() {
    let server = Server::fresh().await;
    let backup = server.folder().join("backup");
    let file = backup.to_str().unwrap();
    let folder = server.stop().await;
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    done(&["backup", file, "--data-dir", data], &[]);
    std::fs::remove_dir_all(folder.path().join("data/store")).unwrap();
    let output = on_a_small_file_system(folder.path(), "size=128m")
        .args(["restore", file, "--data-dir", data])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot be exchanged"), "{said}");
    assert!(!said.contains("Reading the backup"), "{said}");
    assert!(!folder.path().join("data/store.rebuilding").exists());
}

#[tokio::test]
#[ignore = "needs the right to mount (`unshare -rm`); .ci/run runs it where it has that"]
async fn a_small_file_system_that_is_read_only_is_named_at_the_start() {
    let folder = fresh_folder();
    let output = on_a_small_file_system(folder.path(), "ro")
        .args([
            "dev",
            "--no-watch",
            "--simulate",
            "sandbox",
            "--listen",
            "127.0.0.1:0",
        ])
        .args(["--admin-listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(
        said.contains("space left") || said.contains("owner"),
        "{said}"
    );
}
