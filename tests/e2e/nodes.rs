//! Several nodes on one database: a change at one node applies at all of them, and losing a node loses no work.
//!
//! Needs PostgreSQL, so `.ci/run` names these tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kassette_domain::id::{Digest, PaymentId};
use kassette_domain::key::TokenHash;
use kassette_store::postgres::OpenOptions;
use kassette_store::{
    Cluster as _, Directory as _, Fault, MasterKey, ModulesInfo, NodeInfo, Payments as _,
    PostgresStore, SharedModules as _, SlotStage, StoreHealth as _,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::books::kassette;
use crate::crash::comparable;
use crate::disk;
use crate::fallback::{SECOND, TRIES, second_provider, wait_for_accounts};
use crate::harness::{Answer, Server, TEST_TIMEOUT, merge, new_payment};
use crate::keeping::refused;
use crate::service::signal;
use crate::signatures::Key;
use crate::swap::{label, put, slot, swapped};
use crate::trials::{IDEAL, SOON, act, digest_of_decision, staged, start};
use crate::uploads::upload;

const PAYMENTS: &str = "/api/v1/payments";
const NAMES: [&str; 3] = ["n1", "n2", "n3"];
/// Number of concurrent clients while nodes end. Each pauses for [`PAUSE`] between two payments.
const CLIENTS: usize = 6;
const PAUSE: Duration = Duration::from_millis(30);

/// Three nodes shared by tests that end no node and change only data of their own.
async fn three() -> &'static Server {
    static SHARED: OnceCell<Server> = OnceCell::const_new();
    SHARED.get_or_init(|| Server::nodes(3, "")).await
}

fn each(server: &Server) -> [Server; 3] {
    NAMES.map(|name| server.node(name))
}

fn pid(told: &Value) -> u32 {
    u32::try_from(told["pid"].as_u64().unwrap()).unwrap()
}

/// Whether a process is running. A zombie does not count.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until the ready file shows another process for this node.
async fn wait_for_another(server: &Server, name: &str, before: u32) {
    server
        .wait_for("the node that is started again", async || {
            (pid(&server.told_of(name)) != before).then_some(())
        })
        .await;
}

/// A node's entry in the list of nodes of another one. `None` if it is not listed.
async fn seen(by: &Server, name: &str) -> Option<Value> {
    let list = by.admin("GET", "/nodes", None).await.expect(200).json();
    let nodes = list["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).cloned()
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_payment_goes_from_node_to_node() {
    let [first, second, third] = each(three().await);
    let key = first.test_key();
    let mut request = new_payment();
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    merge(&mut request, direct);
    let payment = first.post(key, PAYMENTS, &request).await.expect(201).json();
    // The same request at another node is a replay.
    let replay = second
        .post(key, PAYMENTS, &request)
        .await
        .expect(200)
        .json();
    assert_eq!(replay, payment);
    let started = second
        .start(key, &payment, "ideal")
        .await
        .expect(200)
        .json();
    let again = third.start(key, &payment, "ideal").await.expect(200).json();
    assert_eq!(again, started);
    first
        .pay(started["redirect_url"].as_str().unwrap(), "approve")
        .await;
    third
        .wait_for("the end of the payment", async || {
            let found = third.payment(key, &payment).await;
            (found["settlement_status"] == "confirmed").then_some(())
        })
        .await;
    let books = first.books("sandbox-test").await;
    let id = payment["payment_id"].as_str().unwrap();
    let inside = second.inside(&payment).await;
    let attempts = inside["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{id}: {inside}");
    let attempt = &attempts[0]["attempt_id"];
    let entries: Vec<_> = books
        .iter()
        .filter(|entry| entry["attempt_id"] == *attempt)
        .collect();
    assert_eq!(entries.len(), 1, "{books:?}");
    assert_eq!(entries[0]["captured_times"], 1);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn the_clock_of_all_nodes_is_one() {
    let server = Server::nodes(2, "").await;
    let payment = server.create(server.test_key(), json!({})).await;
    let (first, second) = (server.node("n1"), server.node("n2"));
    first.advance(2 * 24 * 3600).await;
    let apart = first.now().await - second.now().await;
    assert!(apart.abs() <= 1, "{apart} s apart");
    // When the call that moves the clock returns, due work is done. A node that starts later has the same time.
    for node in [&first, &second] {
        let found = node.payment(server.test_key(), &payment).await;
        assert_eq!(found["status"], "expired");
    }
    let before = pid(&server.told_of("n2"));
    signal(before, "KILL");
    wait_for_another(&server, "n2", before).await;
    let apart = first.now().await - server.node("n2").now().await;
    assert!(apart.abs() <= 1, "{apart} s apart");
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn what_is_taken_back_at_one_node_is_refused_at_the_others_once_it_is_answered() {
    let server = Server::nodes(3, "").await;
    let [first, second, third] = each(&server);
    for _ in 0..10 {
        let scopes = json!({ "environment": "test" });
        let key = first
            .admin("POST", "/merchants/1/keys", Some(&scopes))
            .await
            .expect(201)
            .json();
        let (id, key) = (
            key["key_id"].as_str().unwrap(),
            key["key"].as_str().unwrap(),
        );
        for node in [&second, &third] {
            node.post(key, PAYMENTS, &new_payment()).await.expect(201);
            node.get(key, "/api/v1/methods").await.expect(200);
        }
        first
            .admin("DELETE", &format!("/keys/{id}"), None)
            .await
            .expect(204);
        for node in [&second, &third] {
            node.get(key, "/api/v1/methods").await.expect(401);
            node.post(key, PAYMENTS, &new_payment()).await.expect(401);
        }
    }

    let operator = json!({ "name": "ann", "role": "viewer" });
    let made = first.admin("POST", "/operators", Some(&operator)).await;
    let made = made.expect(201).json();
    let token = made["token"].as_str().unwrap();
    second
        .admin_as(token, "GET", "/merchants", None)
        .await
        .expect(200);
    let path = format!("/operators/{}", made["operator_id"].as_str().unwrap());
    first.admin("DELETE", &path, None).await.expect(204);
    second
        .admin_as(token, "GET", "/merchants", None)
        .await
        .expect(401);

    assert!(label(&second, "49.90").await.is_some());
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = first.create(first.test_key(), direct).await;
    let switch = async |enabled: bool| {
        let body = json!({ "enabled": enabled });
        let path = "/providers/sandbox-test";
        first.admin("PATCH", path, Some(&body)).await.expect(200);
    };
    switch(false).await;
    for node in [&second, &third] {
        assert_eq!(label(node, "49.90").await, None);
        let refused = node.start(node.test_key(), &payment, "ideal").await;
        assert!(refused.status >= 400, "{}", refused.text);
    }
    switch(true).await;
    for node in [&second, &third] {
        assert!(label(node, "49.90").await.is_some());
    }
    third
        .start(third.test_key(), &payment, "ideal")
        .await
        .expect(200);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_rate_limit_holds_for_all_nodes_together() {
    /// Requests per second.
    const RATE: u32 = 20;
    let server = three().await;
    let policy = json!({ "rate_limit": { "per_second": RATE, "burst": RATE } });
    let (_, key, _) = server.merchant(policy).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v1/methods?currency=EUR", server.base());
    let (granted, ends) = (AtomicU64::new(0), Instant::now() + Duration::from_secs(8));
    // By then the nodes have exchanged their request counts, and the burst is used up.
    let counts_from = Instant::now() + Duration::from_secs(4);
    let ask = async || {
        while Instant::now() < ends {
            let answer = client.get(&url).bearer_auth(&key).send().await.unwrap();
            let now = Instant::now();
            match answer.status().as_u16() {
                200 if now >= counts_from && now < ends => {
                    granted.fetch_add(1, Ordering::Relaxed);
                }
                200 | 429 => {}
                status => panic!("{status}"),
            }
            tokio::time::sleep(PAUSE / 3).await;
        }
    };
    join_all((0..CLIENTS).map(|_| ask())).await;
    let (granted, all) = (granted.into_inner(), u64::from(RATE) * 4);
    // Three nodes with independent limits would grant three times as many.
    assert!(
        (all / 2..=all * 3 / 2).contains(&granted),
        "{granted} of {all}"
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn the_list_of_nodes_tells_how_each_fares() {
    let server = three().await;
    let by = server.node("n1");
    let answer = by.admin("GET", "/nodes", None).await.expect(200).json();
    let nodes = answer["nodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, NAMES, "{answer}");
    for node in nodes {
        let name = node["name"].as_str().unwrap();
        assert_eq!(node["self"], name == "n1", "{node}");
        assert_eq!(node["state"], "live", "{node}");
        assert_eq!(node["drift"], json!([]), "{node}");
        assert!(node["beat_age_seconds"].as_f64().unwrap() < 1.5, "{node}");
        let told = server.told_of(name);
        let address = told["base_url"].as_str().unwrap();
        assert_eq!(
            format!("http://{}", node["public_address"].as_str().unwrap()),
            address
        );
        for digest in ["configuration", "modules"] {
            assert_eq!(node[digest].as_str().unwrap().len(), 64, "{node}");
        }
    }
    let (code, table) = kassette(server, &["node", "list"]);
    assert_eq!(code, Some(0), "{table}");
    for name in NAMES {
        assert!(table.contains(name), "{table}");
    }
    let (_, listed) = kassette(server, &["node", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["nodes"].as_array().unwrap().len(), 3);
    assert!(server.metrics().await.contains("kassette_nodes 3"));
}

/// Digest of the active version in a slot, as each node reports it.
async fn active(server: &Server, slot: &str) -> [Value; 3] {
    let each = each(server);
    let of = async |node: &Server| crate::swap::slot(node, slot).await["active"]["digest"].clone();
    let [first, second, third] = &each;
    [of(first).await, of(second).await, of(third).await]
}

/// Waits until a version of iDEAL's module is active on all nodes.
async fn all_serve(server: &Server, digest: &Value) {
    server
        .wait_for("the module on all nodes", async || {
            let all = active(server, "method.ideal").await;
            all.iter().all(|active| active == digest).then_some(())
        })
        .await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
#[expect(
    clippy::print_stdout,
    reason = "how long a rollback takes on all nodes"
)]
async fn a_module_that_comes_to_one_node_serves_on_all() {
    let server = Server::nodes(3, "").await;
    let [first, second, third] = each(&server);
    let component = std::fs::read(swapped().await).unwrap();
    let original = std::fs::read(server.plugin_dir().join("method.ideal.wasm")).unwrap();
    let before = slot(&server, "method.ideal").await["active"]["digest"].clone();
    let after = json!(Digest::hash(&component).to_string());

    // When the upload is acknowledged, the version is active on all nodes.
    let uploaded = upload(&first, "method.ideal", "", component.clone()).await;
    assert_eq!(uploaded.expect(200).json()["active"]["digest"], after);
    assert_eq!(
        active(&server, "method.ideal").await,
        [(); 3].map(|()| after.clone())
    );
    let labels = async |node: &Server| label(node, "49.90").await;
    for node in [&first, &second, &third] {
        assert_eq!(labels(node).await.as_deref(), Some("iDEAL, swapped"));
    }
    let reason = json!({ "actor": "ann", "reason": "test" });
    let change = async |node: &Server, what: &str| {
        let path = format!("/plugins/method.ideal/{what}");
        node.admin("POST", &path, Some(&reason)).await.expect(200);
    };
    let began = Instant::now();
    change(&second, "rollback").await;
    println!(
        "a rollback holds on three nodes after {:?}",
        began.elapsed()
    );
    assert_eq!(
        active(&server, "method.ideal").await,
        [(); 3].map(|()| before.clone())
    );
    change(&third, "disable").await;
    for node in [&first, &second, &third] {
        assert_eq!(labels(node).await, None);
    }
    change(&first, "enable").await;
    for node in [&first, &second, &third] {
        assert_eq!(labels(node).await.as_deref(), Some("iDEAL | Wero"));
    }

    // A file in the folder that all nodes watch. Only one node proposes it.
    put(&server, "method.ideal", &component);
    all_serve(&server, &after).await;
    let audit = first.admin("GET", "/audit?limit=100", None).await;
    let lines = audit.expect(200).json()["entries"].clone();
    let dropped = lines.as_array().unwrap().iter().filter(|line| {
        line["action"] == "plugin.drop"
            && line["object"] == "plugin/method.ideal"
            && line["after"]["digest"] == after
    });
    assert_eq!(dropped.count(), 1, "{lines}");

    // A node that was down during an upload serves the new version, and knows the previous one.
    let pid_before = pid(&server.told_of("n2"));
    signal(pid_before, "KILL");
    upload(&first, "method.ideal", "", original)
        .await
        .expect(200);
    wait_for_another(&server, "n2", pid_before).await;
    all_serve(&server, &before).await;
    let back = slot(&server.node("n2"), "method.ideal").await;
    assert_eq!(back["previous"]["digest"], after, "{back}");
}

/// An additional node in the test process, which accepts or refuses modules as the test decides.
async fn judge(server: &Server) -> Arc<PostgresStore> {
    opened(
        server,
        server.ready()["store"]["url"].as_str().unwrap(),
        "judge",
    )
    .await
}

/// A node of the test's own on a database that has a server's master key.
async fn opened(server: &Server, url: &str, name: &str) -> Arc<PostgresStore> {
    let key = std::fs::read_to_string(server.folder().join("data/master.key")).unwrap();
    let options = OpenOptions {
        url: url.to_owned(),
        master: MasterKey::parse(key.trim()).unwrap(),
        volatile: true,
        node: name.into(),
        alone: false,
        server_clock: false,
    };
    PostgresStore::open(&options).await.unwrap()
}

/// Number of the proposed slot change. `None` if there is no proposal.
async fn proposed(judge: &PostgresStore) -> Option<u64> {
    let changes = judge.slot_changes(0).await.unwrap();
    let mut proposed = changes
        .iter()
        .filter(|change| change.stage == SlotStage::Proposed);
    proposed.next().map(|change| change.number)
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn an_upload_goes_on_where_its_caller_leaves() {
    let server = Server::nodes(3, "").await;
    let component = std::fs::read(swapped().await).unwrap();
    let judge = judge(&server).await;
    let [first, ..] = each(&server);
    let after = json!(Digest::hash(&component).to_string());
    tokio::select! {
        _ = upload(&first, "method.ideal", "", component) => panic!("a node has not checked it"),
        _ = server.wait_for("the proposal", async || proposed(&judge).await) => {}
    }
    judge.shut_down().await.unwrap();
    all_serve(&server, &after).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_module_that_one_node_cannot_serve_serves_on_none() {
    let server = Server::nodes(3, "").await;
    let component = std::fs::read(swapped().await).unwrap();
    let before = active(&server, "method.ideal").await;

    // A fourth node refuses the module.
    let judge = judge(&server).await;
    let refusing = async {
        server
            .wait_for("the proposal", async || {
                let checked = proposed(&judge).await?;
                judge.announce_modules(ModulesInfo {
                    checked,
                    refusal: Some("too little memory".into()),
                    ..ModulesInfo::default()
                });
                Some(())
            })
            .await;
    };
    let [first, ..] = each(&server);
    let uploading = upload(&first, "method.ideal", "", component.clone());
    let (refused, ()) = tokio::join!(uploading, refusing);
    let why = refused.expect(422).error();
    assert!(
        why.contains("judge") && why.contains("too little memory"),
        "{why}"
    );
    assert_eq!(active(&server, "method.ideal").await, before);
    assert_eq!(judge.slot_changes(0).await.unwrap(), []);

    // After that node has left, the module is accepted.
    judge.shut_down().await.unwrap();
    upload(&first, "method.ideal", "", component.clone())
        .await
        .expect(200);
    let after = json!(Digest::hash(&component).to_string());
    assert_eq!(
        active(&server, "method.ideal").await,
        [(); 3].map(|()| after.clone())
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_candidate_decides_its_share_on_every_node_and_is_rolled_back_on_all() {
    let server = Server::nodes(3, SOON).await;
    let [first, second, _] = each(&server);
    let digest = staged(&first).await;
    let candidates = async || {
        let slots = NAMES.map(|name| async { slot(&server.node(name), IDEAL).await });
        let slots = join_all(slots).await;
        slots
            .into_iter()
            .map(|slot| slot["candidate"].clone())
            .collect::<Vec<_>>()
    };
    let order = json!({ "digest": digest, "share": 50 });
    act(&second, IDEAL, "canary", order).await.expect(200);
    let shown = candidates().await;
    assert_eq!(
        (&shown[0]["digest"], &shown[0]["share"]),
        (&json!(digest), &json!(50))
    );
    assert!(shown.iter().all(|other| *other == shown[0]), "{shown:?}");

    // A restarted node loads the candidate too and assigns payments to the same version.
    let before = pid(&server.told_of("n3"));
    signal(before, "KILL");
    wait_for_another(&server, "n3", before).await;
    let third = server.node("n3");
    let loaded = || async { (candidates().await[2] == shown[0]).then_some(()) };
    server
        .wait_for("the candidate of the node that came back", loaded)
        .await;
    let key = first.test_key();
    for _ in 0..6 {
        let (payment, started) = start(&first, "49.90").await;
        let url = started.expect(200).json()["redirect_url"].clone();
        let side = digest_of_decision(&first, &payment).await;
        first
            .pay(url.as_str().unwrap(), "decline")
            .await
            .expect(303);
        third.until(key, &payment, "created").await;
        third.start(key, &payment, "ideal").await.expect(200);
        assert_eq!(digest_of_decision(&first, &payment).await, side);
    }

    // The counts of all nodes are judged together. No single node has enough calls for a decision.
    let nodes = [&first, &second, &third];
    let turn = std::cell::Cell::new(0);
    let none = || async {
        turn.set(turn.get() + 1);
        start(nodes[turn.get() % nodes.len()], "200.00").await;
        candidates().await.iter().all(Value::is_null).then_some(())
    };
    server.wait_for("all nodes to end the trial", none).await;
    let (payment, started) = start(&third, "200.00").await;
    started.expect(200);
    assert_ne!(digest_of_decision(&first, &payment).await, json!(digest));
    let path = "/audit?operator=system&action=plugin.rollback";
    let lines = first.admin("GET", path, None).await.expect(200).json();
    assert_eq!(lines["entries"].as_array().unwrap().len(), 1, "{lines}");
}

/// Responses that clients received while nodes ended.
#[derive(Default)]
struct Journal {
    /// Acknowledged requests with their payments.
    told: Mutex<Vec<(Value, Value)>>,
    failed: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Journal {
    /// Creates, starts and reads payments until `over` is set.
    async fn press_on(&self, server: &Server) {
        // Keeps connections open, as a shop's client does.
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(TEST_TIMEOUT)
            .build()
            .unwrap();
        let url = format!("{}{PAYMENTS}", server.base());
        let key = server.test_key();
        while !self.over.load(Ordering::Relaxed) {
            tokio::time::sleep(PAUSE).await;
            let mut request = new_payment();
            let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
            merge(&mut request, direct);
            let create = client.post(&url).json(&request);
            let Some(payment) = self.answer(create.bearer_auth(key), 201).await else {
                continue;
            };
            self.told.lock().push((request, payment.clone()));
            let id = payment["payment_id"].as_str().unwrap();
            let start = json!({ "payment_id": id, "payment_method": "ideal" });
            let start = client.post(format!("{url}/start")).json(&start);
            self.answer(start.bearer_auth(key), 200).await;
            let read = client.get(format!("{url}/{id}"));
            self.answer(read.bearer_auth(key), 200).await;
        }
    }

    async fn answer(&self, request: reqwest::RequestBuilder, status: u16) -> Option<Value> {
        let failed = match request.send().await {
            Ok(answer) if answer.status().as_u16() == status => match answer.json().await {
                Ok(answer) => return Some(answer),
                Err(error) => error.to_string(),
            },
            Ok(answer) => format!("{}: {:?}", answer.status(), answer.text().await),
            Err(error) => error.to_string(),
        };
        self.failed.lock().push(failed);
        None
    }

    async fn reaches(&self, server: &Server, payments: usize) {
        server
            .wait_for("some payments", async || {
                (self.told.lock().len() >= payments).then_some(())
            })
            .await;
    }
}

/// Runs `act` on the nodes while clients make payments. Returns the clients' journal.
async fn under_load(server: &Arc<Server>, act: impl AsyncFnOnce(&Journal)) -> Arc<Journal> {
    let journal = Arc::new(Journal::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (server, journal) = (Arc::clone(server), Arc::clone(&journal));
            tokio::spawn(async move { journal.press_on(&server).await })
        })
        .collect();
    journal.reaches(server, 50).await;
    act(&journal).await;
    journal.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    journal
}

/// Repeats a request until the response is not a 503, which a node without its database returns.
async fn answered(server: &Server, ask: impl AsyncFn() -> Answer) -> Answer {
    server
        .wait_for("an answer", async || {
            let answer = ask().await;
            (answer.status != 503).then_some(answer)
        })
        .await
}

async fn read(server: &Server, payment: &Value) -> Value {
    let path = format!("{PAYMENTS}/{}", payment["payment_id"].as_str().unwrap());
    let answer = answered(server, async || server.get(server.test_key(), &path).await).await;
    answer.expect(200).json()
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn what_was_acknowledged_is_there_and_can_be_paid_after_nodes_and_database_are_killed() {
    let server = Arc::new(Server::nodes(3, "").await);
    let journal = under_load(&server, async |journal| {
        for name in ["n2", "n1"] {
            let before = pid(&server.told_of(name));
            signal(before, "KILL");
            wait_for_another(&server, name, before).await;
            let told = journal.told.lock().len();
            journal.reaches(&server, told + 20).await;
        }
        let before = pid(&server.ready_now()["store"]);
        signal(before, "KILL");
        server
            .wait_for("another database", async || {
                (pid(&server.ready_now()["store"]) != before).then_some(())
            })
            .await;
        let told = journal.told.lock().len();
        journal.reaches(&server, told + 20).await;
    })
    .await;
    let key = server.test_key();
    let told = std::mem::take(&mut *journal.told.lock());
    for (request, payment) in &told {
        let mut expected = comparable(payment);
        let found = comparable(&read(&server, payment).await);
        assert!(
            ["created", "pending"].contains(&found["status"].as_str().unwrap()),
            "{found}"
        );
        expected["status"] = found["status"].clone();
        assert_eq!(found, expected);
        let again = async || server.post(key, PAYMENTS, request).await;
        let replay = answered(&server, again).await;
        let replay = replay.expect(200).json();
        assert_eq!(comparable(&replay), expected);
    }
    // A killed node's attempt claims end after their lease.
    server.advance(120).await;
    // The last payments were in flight when the database was killed.
    let last: Vec<_> = told
        .iter()
        .rev()
        .take(20)
        .map(|(_, payment)| payment)
        .collect();
    for payment in &last {
        let started = server
            .wait_for("a start", async || {
                let answer = server.start(key, payment, "ideal").await;
                (answer.status == 200).then(|| answer.json())
            })
            .await;
        server
            .pay(started["redirect_url"].as_str().unwrap(), "approve")
            .await;
    }
    for payment in &last {
        server
            .wait_for("the end of a payment", async || {
                let found = read(&server, payment).await;
                (found["status"] == "completed").then_some(())
            })
            .await;
    }
    for entry in server.books("sandbox-test").await {
        assert!(entry["captured_times"].as_u64().unwrap() <= 1, "{entry}");
    }
}

/// Upgrades a database to a schema that this release can still read.
fn expand(url: &str) {
    run_sql(
        url,
        "ALTER TABLE kassette.payment ADD COLUMN of_a_later_release bigint;
        UPDATE kassette.meta SET schema_version = schema_version + 1",
    );
}

fn run_sql(url: &str, sql: &str) {
    let folder = tempfile::tempdir().unwrap();
    // The SQL may be longer than a command-line argument may be.
    let file = folder.path().join("sql");
    std::fs::write(&file, sql).unwrap();
    let psql = std::process::Command::new("psql")
        .args([url, "--quiet", "--set=ON_ERROR_STOP=1", "--file"])
        .arg(file)
        .output()
        .unwrap();
    assert!(psql.status.success(), "{psql:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn one_node_after_the_other_restarts_without_a_failed_request() {
    let server = Arc::new(Server::nodes(3, "drain_seconds = 1").await);
    let journal = under_load(&server, async |journal| {
        // Migrates like the next release's `migrate`, while nodes of this release run.
        expand(server.ready()["store"]["url"].as_str().unwrap());
        for name in NAMES {
            let before = pid(&server.told_of(name));
            signal(before, "TERM");
            wait_for_another(&server, name, before).await;
            let told = journal.told.lock().len();
            journal.reaches(&server, told + 20).await;
        }
    })
    .await;
    let failed = journal.failed.lock();
    assert!(failed.is_empty(), "{failed:?}\n{}", server.log());
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_node_that_is_stopped_lapses_and_comes_back() {
    let server = Server::nodes(2, "").await;
    let (first, stopped) = (server.node("n1"), pid(&server.told_of("n2")));
    signal(stopped, "STOP");
    first
        .wait_for("the lapse", async || {
            let seen = seen(&first, "n2").await;
            seen.is_none_or(|node| node["state"] == "lapsed")
                .then_some(())
        })
        .await;
    // Other nodes do not wait for the stopped node, and the balancer skips it.
    first.advance(60).await;
    for _ in 0..10 {
        server
            .wait_for("the other node", async || {
                let body = new_payment();
                let answer = server.post(server.test_key(), PAYMENTS, &body).await;
                (answer.status == 201).then_some(())
            })
            .await;
    }
    signal(stopped, "CONT");
    first
        .wait_for("the return", async || {
            let seen = seen(&first, "n2").await?;
            (seen["state"] == "live").then_some(())
        })
        .await;
    let second = server.node("n2");
    second
        .wait_for("its readiness", async || {
            let body = new_payment();
            let answer = second.post(server.test_key(), PAYMENTS, &body).await;
            (answer.status == 201).then_some(())
        })
        .await;
    // The node catches up on the changes of the clock.
    let apart = first.now().await - second.now().await;
    assert!(apart.abs() <= 1, "{apart} s apart");
}

/// A new configuration does not reach all nodes at the same time.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_callback_for_an_account_that_another_node_may_have_is_to_be_repeated() {
    let server = Server::nodes(2, "").await;
    let first = server.node("n1");
    let answered = async |expected: u16| {
        let waited = format!("{expected} for the callback");
        server
            .wait_for(&waited, async || {
                let body = "{}".to_owned();
                let answer = first.callback("another-account", "t=1,v1=00", body).await;
                (answer.status == expected).then_some(())
            })
            .await;
    };
    answered(404).await;
    let other = judge(&server).await;
    other.announce(NodeInfo {
        configuration: "another".into(),
        ..NodeInfo::default()
    });
    answered(503).await;
    other.shut_down().await.unwrap();
    answered(404).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_start_at_an_account_that_another_node_may_have_is_not_given_up() {
    let server = Server::nodes(2, "[payments]\nprovider_deadline_ms = 1000\n").await;
    let [first, second] = ["n1", "n2"].map(|name| server.node(name));
    // The first node is stopped while the second node's account is added and removed, and never sees it.
    signal(pid(&server.told_of("n1")), "STOP");
    let simulator = second_provider(&second).await;
    let key = server.test_key();
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = second.create(key, fields).await;
    second.fault("sandbox-test", "status-429", TRIES).await;
    // The second node cannot know whether the provider has received the start.
    signal(simulator.pid(), "STOP");
    let started = second.start(key, &payment, "ideal").await;
    assert!(started.status >= 400, "{}", started.text);
    let file = format!("config/providers/{SECOND}.toml");
    std::fs::remove_file(server.folder().join(file)).unwrap();
    signal(pid(&server.told_of("n1")), "CONT");
    disk::ready(&first).await;
    wait_for_accounts(&first, &["sandbox-test"]).await;
    // The start is due again; neither node has the account.
    for seconds in [6, 12] {
        first.advance(seconds).await;
        let attempts = second.attempts(&payment).await;
        assert_eq!(attempts[1]["provider_id"], SECOND);
        assert_eq!(attempts[1]["state"], "unknown");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn what_dev_has_started_ends_with_it() {
    let server = Server::nodes(2, "").await;
    // A stopped process does not react to its parent's end.
    signal(pid(&server.told_of("n2")), "STOP");
    let ready = server.ready_now();
    let nodes = ready["nodes"].as_array().unwrap();
    let started: Vec<u32> = nodes.iter().chain([&ready["store"]]).map(pid).collect();
    assert_eq!(started.len(), 3);
    assert!(started.iter().all(|pid| runs(*pid)), "{ready}");
    let _folder = server.kill();
    let began = Instant::now();
    while started.iter().any(|pid| runs(*pid)) {
        assert!(began.elapsed() < TEST_TIMEOUT, "{ready}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_slot_with_a_key_serves_signed_modules_alone_on_all_nodes() {
    let release = Key::draw();
    let server = Server::nodes(2, &release.for_slots("method.ideal")).await;
    let module = swapped().await;
    let unsigned = std::fs::read(module).unwrap();
    let refused = upload(&server, "method.ideal", "", unsigned.clone()).await;
    assert!(refused.expect(422).error().contains("no signature"));
    let signed = release.signed(module);
    upload(&server, "method.ideal", "", signed.clone())
        .await
        .expect(200);
    for name in ["n1", "n2"] {
        let serves = label(&server.node(name), "49.90").await;
        assert_eq!(serves.as_deref(), Some("iDEAL, swapped"), "{name}");
    }

    // A node does not serve an unsigned module from the database or from its local history either.
    let evil = Digest::hash(&unsigned);
    let bytes = hex::encode(&unsigned);
    run_sql(
        server.ready()["store"]["url"].as_str().unwrap(),
        &format!(
            "INSERT INTO kassette.module (digest, bytes) VALUES ('\\x{evil}', '\\x{bytes}');
            INSERT INTO kassette.slot_change (number, slot, digest, cause, proposed, proposer, incarnation, at, body)
                SELECT number + 1, slot, '\\x{evil}', 'bundled', false, 'n1', 1, 1, body
                FROM kassette.slot_change ORDER BY number DESC LIMIT 1;
            UPDATE kassette.directory SET version = version + 1"
        ),
    );
    let folder = server.folder().join("data/nodes/n2/modules/method.ideal");
    std::fs::write(folder.join(format!("{evil}.wasm")), &unsigned).unwrap();
    let history = std::fs::read_to_string(folder.join("history.json")).unwrap();
    let altered = history.replace(&Digest::hash(&signed).to_string(), &evil.to_string());
    assert_ne!(altered, history);
    std::fs::write(folder.join("history.json"), altered).unwrap();
    for name in ["n1", "n2"] {
        let before = pid(&server.told_of(name));
        signal(before, "TERM");
        wait_for_another(&server, name, before).await;
    }
    assert!(folder.join("history.refused.json").exists());
    for name in ["n1", "n2"] {
        let node = server.node(name);
        let active = || async { slot(&node, "method.ideal").await["active"]["digest"].clone() };
        let serves = async || (active().await == Digest::hash(&signed).to_string()).then_some(());
        server.wait_for("the signed module", serves).await;
        assert_eq!(
            label(&node, "49.90").await.as_deref(),
            Some("iDEAL, swapped")
        );
    }
}

/// Changes by someone with the database's password, in the live database and in a dump that is restored, are not used.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn altered_operators_and_payments_are_used_by_no_node_and_after_no_restore() {
    let server = Server::nodes(2, "").await;
    let nodes = ["n1", "n2"].map(|name| server.node(name));
    let url = server.ready()["store"]["url"].as_str().unwrap();
    let key = server.test_key();
    let viewers = ["vera", "vlad", "vito"].map(|name| json!({ "name": name, "role": "viewer" }));
    let made = viewers
        .each_ref()
        .map(|viewer| server.admin("POST", "/operators", Some(viewer)));
    let made = join_all(made).await;
    let made: Vec<Value> = made
        .into_iter()
        .map(|made| made.expect(201).json())
        .collect();
    // No node has read them before, so none has them in its cache.
    for (viewer, at) in made[..2].iter().zip(["0", "length(body) - 1"]) {
        let id = viewer["operator_id"].as_str().unwrap();
        run_sql(url, &flip("operator", at, id));
        for node in &nodes {
            let token = viewer["token"].as_str().unwrap();
            let asked = node.admin_as(token, "GET", "/payments?limit=1", None);
            asked.await.expect(401);
        }
    }
    let token = made[2]["token"].as_str().unwrap();
    for node in &nodes {
        let asked = node.admin_as(token, "GET", "/payments?limit=1", None);
        asked.await.expect(200);
    }

    let [altered, other] = [
        server.create(key, json!({})).await,
        server.create(key, json!({})).await,
    ];
    let id = altered["payment_id"].as_str().unwrap();
    let path = |payment: &Value| format!("{PAYMENTS}/{}", payment["payment_id"].as_str().unwrap());
    let set = |status: &str| {
        format!("UPDATE kassette.payment SET status = status {status} WHERE id = '{id}'")
    };
    // What is due stands beside the header and the merchant.
    for (change, back) in [
        (set("+ 1"), set("- 1")),
        (flip("payment", "40", id), flip("payment", "40", id)),
        (flip("payment", "60", id), flip("payment", "60", id)),
    ] {
        run_sql(url, &change);
        for node in &nodes {
            let refused = node.get(key, &path(&altered)).await.expect(500);
            assert_eq!(refused.json()["code"], "unreadable", "{change}");
            node.get(key, &path(&other)).await.expect(200);
        }
        run_sql(url, &back);
    }
    for node in &nodes {
        node.get(key, &path(&altered)).await.expect(200);
    }

    let vito = made[2]["operator_id"].as_str().unwrap();
    let restored = restored(url, server.folder(), &[vito, id]);
    let main = server.folder().join("restored.d");
    std::fs::create_dir(&main).unwrap();
    let data = server.folder().join("data");
    let text = format!(
        "data_dir = {data:?}\nmaster_key_file = {:?}\n",
        data.join("master.key")
    );
    std::fs::write(main.join("kassette.toml"), text).unwrap();
    let verify = ["verify", "--config", main.to_str().unwrap()];
    let said = refused(&verify, &[("KASSETTE_STORE_URL", &restored)]);
    for what in ["operator ", "payment "] {
        assert!(said.lines().any(|line| line.starts_with(what)), "{said}");
    }
    let payment =
        |payment: &Value| PaymentId::parse(payment["payment_id"].as_str().unwrap()).unwrap();
    for name in ["after-one", "after-two"] {
        let node = opened(&server, &restored, name).await;
        let hash = TokenHash::hash(token);
        assert!(matches!(node.operator(hash).await, Err(Fault::Corrupt(_))));
        let read = node.payment(payment(&altered)).await;
        assert!(matches!(read, Err(Fault::Corrupt(_))));
        assert!(node.payment(payment(&other)).await.unwrap().is_some());
        node.shut_down().await.unwrap();
    }
}

/// Changes one bit of a row's body, or changes it back.
fn flip(table: &str, at: &str, id: &str) -> String {
    format!(
        "UPDATE kassette.{table} SET body = set_byte(body, {at}, get_byte(body, {at}) # 1) WHERE id = '{id}'"
    )
}

/// Restores a dump of a database as another database of the server, with one digit changed in the last column of the
/// rows that hold these ids; returns its address.
fn restored(url: &str, folder: &Path, ids: &[&str]) -> String {
    let dump = std::process::Command::new("pg_dump")
        .args([url, "--schema=kassette"])
        .output();
    let dump = dump.unwrap();
    assert!(dump.status.success(), "{dump:?}");
    let mut altered = 0;
    let mut table = "";
    let dump = String::from_utf8(dump.stdout).unwrap();
    let lines = dump.lines().map(|line| {
        if let Some(begins) = line.strip_prefix("COPY kassette.") {
            table = begins.split(' ').next().unwrap_or_default();
        }
        // PostgreSQL writes ids with dashes.
        let plain = line.replace('-', "");
        let is_meant =
            ["operator", "payment"].contains(&table) && ids.iter().any(|id| plain.contains(id));
        if !is_meant {
            return line.to_owned();
        }
        altered += 1;
        let (rest, last) = line.split_at(line.len() - 1);
        format!("{rest}{}", if last == "0" { "1" } else { "0" })
    });
    let lines: Vec<String> = lines.collect();
    assert_eq!(altered, ids.len());
    let file = folder.join("altered.sql");
    std::fs::write(&file, lines.join("\n")).unwrap();
    run_sql(url, "CREATE DATABASE restored");
    let (server, _) = url.rsplit_once('/').unwrap();
    let restored = format!("{server}/restored");
    run_sql(&restored, &format!("\\i {}", file.display()));
    restored
}
