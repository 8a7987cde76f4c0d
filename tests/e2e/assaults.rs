//! Attacks by single clients: other clients are still served, and memory stays bounded.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::attacks::{Aim, Attack, Kind};
use crate::harness::{Server, fresh_folder, new_payment};

const PAYMENTS: &str = "/api/v1/payments";
const START: &str = "/api/v1/payments/start";
/// Maximum peak memory during any attack, in bytes.
const MEMORY: usize = 300_000_000;
/// Maximum duration of a create and its start during any attack, which runs on the same processors.
const CREATE_TIMEOUT: Duration = Duration::from_secs(15);

fn aim(server: &Server) -> Aim {
    aim_at(server, server.base())
}

fn aim_at(server: &Server, url: &str) -> Aim {
    let listener = url.strip_prefix("http://").unwrap();
    let listener = listener.split('/').next().unwrap();
    Aim {
        listener: listener.parse().unwrap(),
        account: "sandbox-test".to_owned(),
        key: server.test_key().to_owned(),
    }
}

/// Starts an attack on threads with the lowest priority: real attackers use the processors of their own machines.
fn attack(kind: Kind, aim: &Aim) -> Attack {
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            // Sets the priority of this thread, which the threads that it starts inherit.
            rustix::process::setpriority_process(None, 19).unwrap();
            Attack::begin(kind, aim)
        });
        attacker.join().unwrap()
    })
}

async fn direct(server: &Server, key: &str) -> Value {
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    server.create(key, fields).await
}

/// Command that runs the binary with a limit on open files.
fn with_files(most: u32) -> Command {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_kassette")]);
    command
}

/// Peak memory of the server process, in bytes.
fn memory(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse::<usize>().unwrap() << 10
}

/// Creates and starts live payments, each within `CREATE_TIMEOUT`.
async fn others_are_served(server: &Server, payments: usize) {
    for _ in 0..payments {
        let began = Instant::now();
        server.started(server.live_key(), "ideal", json!({})).await;
        let took = began.elapsed();
        assert!(took < CREATE_TIMEOUT, "{took:?}");
    }
}

#[tokio::test]
async fn others_are_served_beside_each_attack_and_memory_is_bounded() {
    let server = Server::fresh().await;
    let mut all = Vec::new();
    for kind in Kind::all() {
        let attack = attack(kind, &aim(&server));
        others_are_served(&server, 4).await;
        drop(attack);
        let held = memory(&server);
        assert!(held < MEMORY, "{held} bytes beside {kind:?}");
    }
    // In addition, the provider hangs in test, so that calls to it wait until they time out.
    server
        .fault("sandbox-test", "timeout-before-effect", 1_000_000)
        .await;
    for kind in Kind::all().into_iter().chain([Kind::Hanging]) {
        all.push(attack(kind, &aim(&server)));
    }
    others_are_served(&server, 10).await;
    drop(all);
    assert!(server.counted("kassette_http2_pauses_total", "").await > 0);
    let held = memory(&server);
    assert!(held < MEMORY, "{held} bytes");
}

#[tokio::test]
async fn operators_are_served_beside_each_attack_on_their_listener() {
    let server = Server::fresh().await;
    for kind in [Kind::Held, Kind::Unread, Kind::Unended] {
        let attack = attack(kind, &aim_at(&server, server.admin_base()));
        for _ in 0..10 {
            let began = Instant::now();
            server.admin("GET", "/providers", None).await.expect(200);
            let took = began.elapsed();
            assert!(took < CREATE_TIMEOUT, "{took:?} beside {kind:?}");
        }
        others_are_served(&server, 10).await;
        drop(attack);
    }
    let held = memory(&server);
    assert!(held < MEMORY, "{held} bytes");
}

#[tokio::test]
async fn a_test_key_at_a_provider_that_hangs_takes_nothing_from_live() {
    const STARTS: usize = 220;
    let server = Arc::new(Server::fresh().await);
    let made = (0..STARTS).map(|_| direct(&server, server.test_key()));
    let payments = join_all(made).await;
    server
        .fault("sandbox-test", "timeout-before-effect", 10_000)
        .await;
    let answered = Arc::new(AtomicUsize::new(0));
    let hanging: Vec<_> = payments
        .into_iter()
        .map(|payment| {
            let (server, answered) = (Arc::clone(&server), Arc::clone(&answered));
            tokio::spawn(async move {
                let body =
                    json!({ "payment_id": payment["payment_id"], "payment_method": "ideal" });
                let answer = server.post(server.test_key(), START, &body).await;
                answered.fetch_add(1, Ordering::SeqCst);
                answer.status
            })
        })
        .collect();
    // Starts beyond the share of the key's merchant are refused; the others hang.
    server
        .wait_for("refused starts", async || {
            (answered.load(Ordering::SeqCst) >= STARTS / 2).then_some(())
        })
        .await;
    others_are_served(&server, 10).await;
    let key = server.live_key();
    let (payment, url) = server.started(key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    let still = STARTS - answered.load(Ordering::SeqCst);
    assert!(still > 0, "nothing hung any more");
    for start in hanging {
        start.abort();
    }
}

/// Callbacks from a provider's verified address are processed while forgers use up the limit of unverified
/// addresses.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures of the long form")]
async fn forged_notices_hold_up_no_genuine_one_and_fill_no_log() {
    let server = Server::fresh().await;
    let key = server.test_key();
    // `sent`: whether the simulator sends the callback. If not, the test sends it over the public listener.
    let paid_by_notice = async |sent: bool| {
        let (payment, url) = server.started(key, "ideal", json!({})).await;
        if sent {
            server.pay(&url, "approve").await.expect(303);
        } else {
            let attempt = server.attempts(&payment).await[0].clone();
            server.tell(&attempt, "captured", "49.90").await.expect(200);
        }
        server.until(key, &payment, "completed").await;
    };
    paid_by_notice(false).await;
    let counted = async |outcome: &str| {
        let labels = format!(r#"provider="sandbox-test",outcome="{outcome}""#);
        server.counted("kassette_callbacks_total", &labels).await
    };
    let (before, began) = (server.log().len(), Instant::now());
    let set = std::env::var("KASSETTE_FORGED_SECONDS").ok();
    let least = set.map_or(0, |set| set.parse().expect("seconds"));
    let attack = attack(Kind::Forged, &aim(&server));
    // Wait until the account's limit for unverified addresses is used up.
    let used_up = async || (counted("limited").await >= 1000).then_some(());
    server.wait_for("refused notices", used_up).await;
    let (mut paid, mut longest) = (0, Duration::ZERO);
    while paid < 10 || began.elapsed().as_secs() < least {
        let since = Instant::now();
        paid_by_notice(paid % 2 == 0).await;
        longest = longest.max(since.elapsed());
        paid += 1;
    }
    let forged = async || (counted("forged").await >= 200).then_some(());
    server.wait_for("two hundred forged notices", forged).await;
    let (forged, limited) = (counted("forged").await, counted("limited").await);
    drop(attack);
    let log = server.log();
    // The simulator repeats a callback that is not accepted, which would hide the failure from this test.
    assert!(!log.contains("a simulated callback was not taken"), "{log}");
    let lines = log[before..].matches("a callback was refused").count();
    let bytes = log.len() - before;
    let seconds = began.elapsed().as_secs();
    assert!(lines as u64 <= seconds + 50, "{lines} lines in {seconds} s");
    // The account's limit for unverified addresses: a burst of 100, then 50 a second.
    assert!(
        forged <= 100 + 50 * (seconds + 1),
        "{forged} in {seconds} s"
    );
    assert!(longest < CREATE_TIMEOUT, "{longest:?}");
    let held = memory(&server);
    assert!(held < MEMORY, "{held} bytes");
    println!(
        "{seconds} s: {forged} forged notices read and {limited} refused; {paid} payments, the slowest in \
         {longest:?}; {lines} lines about them and {bytes} bytes of log; at most {held} bytes of memory"
    );
}

#[tokio::test]
async fn refused_operator_tokens_that_the_log_leaves_out_are_counted() {
    let server = Server::fresh().await;
    let counted = async || {
        for _ in 0..2 {
            let work = server.http.get(format!("{}/work", server.admin_base()));
            let refused = server.send(work.bearer_auth("ko_guess")).await;
            refused.expect(401);
        }
        let left_out = server.counted("kassette_log_lines_left_out_total", "refused-request");
        (left_out.await > 0).then_some(())
    };
    server.wait_for("a line that is left out", counted).await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("/work with 401"));
    let line = line.expect("a line about a refused token");
    assert!(line.contains("INFO"), "{line}");
    assert!(line.contains("listener=\"admin\""), "{line}");
    assert!(line.contains("client.address=127.0.0.1"), "{line}");
    assert!(!log.contains("ko_guess"), "{log}");
}

#[test]
fn a_process_that_may_open_too_few_files_for_the_store_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    crate::serving::prepare(folder.path(), "");
    let mut serve = with_files(1023);
    serve
        .args(["serve", "--config"])
        .arg(folder.path().join("config"));
    let output = serve.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1023") && said.contains("1024"), "{said}");
}

#[tokio::test]
async fn a_key_holder_who_takes_no_answers_is_told_to_wait_and_others_are_not() {
    let server = Server::fresh().await;
    let attack = attack(Kind::Unread, &aim(&server));
    let refused = async || {
        let count = server
            .counted("kassette_http_budget_refusals_total", "")
            .await;
        (count > 0).then_some(())
    };
    server.wait_for("a refused request", refused).await;
    for _ in 0..10 {
        let body = new_payment();
        let created = server.post(server.test_key(), PAYMENTS, &body);
        created.await.expect(201);
    }
    drop(attack);
}

#[tokio::test]
async fn strangers_leave_the_store_its_files_where_the_process_may_open_few() {
    let server = Server::through(with_files(1024), fresh_folder()).await;
    assert!(server.log().contains("the limit of open files is too low"));
    let attack = attack(Kind::Held, &aim(&server));
    let files = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid()));
        open.unwrap().count()
    };
    assert!(files() < 900, "{}", files());
    server.admin("GET", "/providers", None).await.expect(200);
    assert!(!server.log().contains("disk"), "{}", server.log());
    drop(attack);
    let created = async || {
        let body = new_payment();
        let url = format!("{}{PAYMENTS}", server.base());
        let post = server.http.post(url).bearer_auth(server.test_key());
        let answer = post.json(&body).send().await.ok()?;
        (answer.status() == 201).then_some(())
    };
    server.wait_for("a create", created).await;
}
