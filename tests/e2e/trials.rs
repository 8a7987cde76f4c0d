//! Candidate modules as shadow or canary, and their automatic rollback.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::fallback::second_provider;
use crate::harness::{Answer, Server};
use crate::receiver::{Receiver, Reply};
use crate::swap::{label, put, slot, swapped};
use crate::uploads::upload;
use crate::versions::{Open, other};

pub(crate) const IDEAL: &str = "method.ideal";
const SANDBOX: &str = "provider.sandbox";
/// Low enough that a test reaches the number of payments quickly.
pub(crate) const SOON: &str = "[plugins]\ncanary_min_payments = 5\n";

pub(crate) async fn act(server: &Server, slot: &str, what: &str, more: Value) -> Answer {
    let mut words = json!({ "actor": "Ada", "reason": "a cheaper route" });
    crate::harness::merge(&mut words, more);
    let path = format!("/plugins/{slot}/{what}");
    server.admin("POST", &path, Some(&words)).await
}

/// Uploads the other iDEAL module as a shadow candidate. Returns its digest.
pub(crate) async fn staged(server: &Server) -> String {
    let module = std::fs::read(swapped().await).unwrap();
    let plugin = upload(server, IDEAL, "?mode=shadow", module).await;
    let plugin = plugin.expect(200).json();
    assert_eq!(plugin["candidate"]["mode"], "shadow");
    plugin["candidate"]["digest"].as_str().unwrap().to_owned()
}

/// Makes the same candidate a canary with this share, in percent.
async fn canary(server: &Server, share: u8) -> String {
    let digest = staged(server).await;
    let order = json!({ "digest": digest, "share": share });
    let plugin = act(server, IDEAL, "canary", order).await.expect(200).json();
    assert_eq!(
        (&plugin["candidate"]["mode"], &plugin["candidate"]["share"]),
        (&json!("canary"), &json!(share))
    );
    digest
}

async fn diff(server: &Server, slot: &str) -> Value {
    let path = format!("/plugins/{slot}/diff");
    server.admin("GET", &path, None).await.expect(200).json()
}

/// Creates and starts a direct payment of an amount. Returns it and the start's response.
pub(crate) async fn start(server: &Server, amount: &str) -> (Value, Answer) {
    let fields = json!({ "amount": amount, "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server.create(server.test_key(), fields).await;
    let answer = server.start(server.test_key(), &payment, "ideal").await;
    (payment, answer)
}

/// Starts payments of an amount until the slot has no candidate. Returns the slot.
async fn until_rolled_back(server: &Server, amount: &str, then: impl AsyncFn(Value)) -> Value {
    let none = || async {
        let (_, answer) = start(server, amount).await;
        if answer.status == 200 {
            then(answer.json()).await;
        }
        let plugin = slot(server, IDEAL).await;
        plugin["candidate"].is_null().then_some(plugin)
    };
    server.wait_for("the canary to be rolled back", none).await
}

async fn last_line(server: &Server, slot: &str) -> Value {
    let path = format!("/audit?object=plugin/{slot}&limit=1");
    let audit = server.admin("GET", &path, None).await.expect(200).json();
    audit["entries"][0].clone()
}

/// Asserts the audit log entry of a rolled back canary and, with a single node, the slot's last error and the
/// metric.
async fn told(server: &Server, plugin: &Value, word: &str, sentence: &str) {
    let line = || async {
        let line = last_line(server, IDEAL).await;
        (line["action"] == "plugin.rollback").then_some(line)
    };
    let line = server.wait_for("the audit line", line).await;
    assert_eq!(line["operator"], "system");
    let reason = line["reason"].as_str().unwrap();
    let says_so = reason.contains("was rolled back") && reason.contains(sentence);
    assert!(says_so, "{reason}");
    if server.ready()["nodes"].as_array().unwrap().len() == 1 {
        assert_eq!(plugin["last_error"], reason);
        let rollbacks = server.counted("kassette_canary_rollbacks_total", word);
        assert_eq!(rollbacks.await, 1);
    }
}

pub(crate) async fn digest_of_decision(server: &Server, payment: &Value) -> Value {
    let inside = server.inside(payment).await;
    let decisions = inside["decisions"].as_array().unwrap().iter();
    let start = decisions
        .rev()
        .find(|decision| decision["purpose"] == "start");
    start.map_or(Value::Null, |decision| decision["digest"].clone())
}

#[tokio::test]
async fn a_candidate_in_the_shadow_says_what_it_would_decide_and_decides_nothing() {
    let server = Server::fresh().await;
    let before = slot(&server, IDEAL).await;
    let active = before["active"]["digest"].clone();
    let candidate = staged(&server).await;
    for amount in ["49.90", "200.00", "300.50"] {
        let (payment, started) = start(&server, amount).await;
        started.expect(200);
        assert_eq!(digest_of_decision(&server, &payment).await, active);
    }
    assert_eq!(
        label(&server, "200.00").await.as_deref(),
        Some("iDEAL | Wero")
    );
    let compared = || async {
        let diff = diff(&server, IDEAL).await;
        (diff["decisions"].as_u64() >= Some(7) && diff["queued"] == 0).then_some(diff)
    };
    let diff = server.wait_for("the comparison", compared).await;
    assert_eq!(
        (&diff["mode"], &diff["active"], &diff["candidate"]),
        (&json!("shadow"), &active, &json!(candidate))
    );
    assert_eq!(diff["newly_impossible"], 2, "{diff}");
    assert_eq!((&diff["faults"], &diff["dropped"]), (&json!(0), &json!(0)));
    let reason = &diff["reasons"][0];
    assert_eq!(
        (&reason["reason"], &reason["amount"]),
        (&json!("amount"), &json!("500.50"))
    );

    let server = Server::in_folder(server.stop().await).await;
    let kept = slot(&server, IDEAL).await;
    assert_eq!(kept["candidate"]["digest"], candidate);
    let promoted = act(&server, IDEAL, "promote", json!({}))
        .await
        .expect(200)
        .json();
    assert_eq!(promoted["active"]["digest"], candidate);
    assert_eq!(
        (&promoted["candidate"], &promoted["previous"]["digest"]),
        (&Value::Null, &active)
    );
    assert_eq!(
        label(&server, "49.90").await.as_deref(),
        Some("iDEAL, swapped")
    );
    assert_eq!(last_line(&server, IDEAL).await["action"], "plugin.promote");
    let promoted = history(&server).await[0].clone();
    assert_eq!(
        (&promoted["cause"], &promoted["digest"]),
        (&json!("promote"), &json!(candidate))
    );
    assert_eq!(promoted["trial"]["share"], Value::Null);
    assert!(promoted["trial"]["since"].is_string(), "{promoted}");
    act(&server, IDEAL, "promote", json!({}))
        .await
        .expect(409)
        .error();
    let back = act(&server, IDEAL, "rollback", json!({}))
        .await
        .expect(200)
        .json();
    assert_eq!(back["active"]["digest"], active);
}

#[tokio::test]
async fn a_payment_stays_on_its_side_and_each_side_is_counted() {
    let server = Server::fresh().await;
    let (early, _) = start(&server, "10.00").await;
    let candidate = canary(&server, 50).await;
    let active = slot(&server, IDEAL).await["active"]["digest"].clone();
    let mut payments = Vec::new();
    let mut sides: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..30 {
        let (payment, started) = start(&server, "49.90").await;
        let url = started.expect(200).json()["redirect_url"].clone();
        let digest = digest_of_decision(&server, &payment).await;
        *sides
            .entry(digest.as_str().unwrap().to_owned())
            .or_default() += 1;
        payments.push((payment, url, digest));
    }
    assert_eq!(sides.len(), 2, "with a chance of one in 2^29: {sides:?}");
    let counted = || async {
        let evidence = diff(&server, IDEAL).await["evidence"]["starts"].clone();
        let payments = |side: &str| evidence[side]["payments"].as_u64().unwrap();
        (payments("candidate") + payments("control") == 30).then_some(evidence)
    };
    let evidence = server.wait_for("all starts to be counted", counted).await;
    assert_eq!(
        evidence["candidate"]["payments"].as_u64(),
        sides.get(&candidate).copied()
    );
    assert_eq!(evidence["candidate"]["failed"], 0);

    // Attempts that were declined and started again after a restart with another share keep their version.
    for (_, url, _) in &payments[..6] {
        server
            .pay(url.as_str().unwrap(), "decline")
            .await
            .expect(303);
    }
    for (payment, ..) in &payments[..6] {
        server.until(server.test_key(), payment, "created").await;
    }
    let server = Server::in_folder(server.stop().await).await;
    let order = json!({ "digest": candidate, "share": 51 });
    act(&server, IDEAL, "canary", order).await.expect(200);
    for (payment, _, side) in &payments[..6] {
        server
            .start(server.test_key(), payment, "ideal")
            .await
            .expect(200);
        assert_eq!(digest_of_decision(&server, payment).await, *side);
    }
    assert_eq!(digest_of_decision(&server, &early).await, active);
    let kept = diff(&server, IDEAL).await["evidence"].clone();
    let total = |of: &Value| {
        let sides = ["candidate", "control"].map(|side| of[side]["payments"].as_u64().unwrap());
        sides.iter().sum::<u64>()
    };
    assert_eq!(
        total(&kept["starts"]),
        30,
        "a second start counts nothing: {kept}"
    );
    assert_eq!(total(&kept["completions"]), 6, "{kept}");
    let plugin = act(&server, IDEAL, "rollback", json!({}))
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&plugin["candidate"], &plugin["active"]["digest"]),
        (&Value::Null, &active)
    );
    let (payment, _) = start(&server, "49.90").await;
    assert_eq!(digest_of_decision(&server, &payment).await, active);

    // Its figures outlast the trial and the process.
    let server = Server::in_folder(server.stop().await).await;
    let ended = history(&server).await[0].clone();
    assert_eq!(
        (&ended["cause"], &ended["digest"]),
        (&json!("ended"), &json!(candidate))
    );
    let trial = &ended["trial"];
    assert_eq!((&trial["share"], total(&trial["starts"])), (&json!(51), 30));
    assert_eq!(total(&trial["completions"]), 6, "{trial}");
}

async fn history(server: &Server) -> Vec<Value> {
    let path = format!("/plugins/{IDEAL}/history");
    let history = server.admin("GET", &path, None).await.expect(200).json();
    history["history"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_canary_whose_starts_fail_more_often_is_rolled_back() {
    let server = Server::configured(SOON).await;
    canary(&server, 50).await;
    let plugin = until_rolled_back(&server, "200.00", async |_| {}).await;
    told(&server, &plugin, "starts", "starts failed").await;
    start(&server, "200.00").await.1.expect(200);
}

#[tokio::test]
async fn live_payments_alone_judge_a_canary_where_there_are_any() {
    let server = Server::configured(SOON).await;
    canary(&server, 50).await;
    let live = async |amount: &str| {
        let fields =
            json!({ "amount": amount, "checkout_mode": "direct", "payment_method": "ideal" });
        let payment = server.create(server.live_key(), fields).await;
        server.start(server.live_key(), &payment, "ideal").await
    };
    live("20.00").await.expect(200);
    let counted = || async {
        let environment = diff(&server, IDEAL).await["evidence"]["environment"].clone();
        (environment == "live").then_some(())
    };
    server
        .wait_for("the live payment to be counted", counted)
        .await;
    // More payments in test than any decision needs.
    for _ in 0..40 {
        start(&server, "200.00").await;
    }
    let made = AtomicU64::new(1);
    let none = || async {
        live("200.00").await;
        made.fetch_add(1, Ordering::Relaxed);
        let plugin = slot(&server, IDEAL).await;
        plugin["candidate"].is_null().then_some(())
    };
    server.wait_for("the canary to be rolled back", none).await;
    let line = || async {
        let line = last_line(&server, IDEAL).await;
        (line["action"] == "plugin.rollback").then_some(line)
    };
    let line = server.wait_for("the audit line", line).await;
    let after = &line["after"];
    let starts = &after["counted"]["starts"];
    let payments = |side: &str| starts[side]["payments"].as_u64().unwrap();
    assert_eq!(after["counted"]["environment"], "live");
    assert!(
        payments("candidate") + payments("control") <= made.into_inner(),
        "{after}"
    );
}

#[tokio::test]
async fn operators_are_told_of_a_rollback_where_they_wish_to_be() {
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let main = format!("alerts_url = \"{}\"\n{SOON}", receiver.url());
    let server = Server::configured(&main).await;
    let candidate = canary(&server, 50).await;
    until_rolled_back(&server, "200.00", async |_| {}).await;
    // The receiver refuses the first alert, so it is sent again.
    receiver.wait(1).await;
    receiver.answer(Reply::Status(204));
    let got = receiver.wait(2).await;
    let alert = got[1].event();
    assert_eq!(got[0].body, got[1].body);
    assert_eq!(
        (
            &alert["type"],
            &alert["slot"],
            &alert["reason"],
            &alert["candidate"]
        ),
        (
            &json!("plugin.rollback"),
            &json!(IDEAL),
            &json!("starts"),
            &json!(candidate)
        )
    );
    let text = alert["text"].as_str().unwrap();
    assert!(text.contains("was rolled back"), "{text}");
    assert!(
        alert["counted"]["starts"]["candidate"]["failed"].is_number(),
        "{alert}"
    );
}

#[tokio::test]
async fn a_canary_whose_payments_complete_less_often_is_rolled_back() {
    let server = Server::configured(SOON).await;
    let _second = second_provider(&server).await;
    canary(&server, 50).await;
    let plugin = until_rolled_back(&server, "88.88", async |started| {
        let url = started["redirect_url"].as_str().unwrap();
        // Payers of the second account are declined.
        let outcome = match url.contains("/sandbox-test/") {
            true => "approve",
            false => "decline",
        };
        server.pay(url, outcome).await.expect(303);
    })
    .await;
    told(&server, &plugin, "completions", "not paid").await;
}

#[tokio::test]
async fn a_canary_that_differs_too_often_is_rolled_back() {
    let server = Server::configured(&format!("{SOON}canary_max_differing_percent = 10\n")).await;
    let _second = second_provider(&server).await;
    canary(&server, 100).await;
    let plugin = until_rolled_back(&server, "88.88", async |_| {}).await;
    told(
        &server,
        &plugin,
        "divergence",
        "differ from the active version's",
    )
    .await;
}

#[tokio::test]
async fn a_canary_that_fails_is_rolled_back_and_its_payment_is_decided_all_the_same() {
    for amount in ["66.66", "77.77"] {
        let server = Server::fresh().await;
        canary(&server, 100).await;
        let active = slot(&server, IDEAL).await["active"]["digest"].clone();
        let (payment, started) = start(&server, amount).await;
        started.expect(200);
        assert_eq!(digest_of_decision(&server, &payment).await, active);
        let plugin = until_rolled_back(&server, "10.00", async |_| {}).await;
        told(&server, &plugin, "fault", "it failed").await;
    }
}

#[tokio::test]
async fn a_ramp_goes_on_while_nothing_speaks_against_it_and_ends_in_a_promotion() {
    let server = Server::configured(SOON).await;
    let digest = staged(&server).await;
    let order = json!({ "digest": digest, "steps": [50, 90, 100], "every_seconds": 1 });
    let plugin = act(&server, IDEAL, "canary", order)
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&plugin["candidate"]["share"], &plugin["candidate"]["steps"]),
        (&json!(50), &json!([90, 100]))
    );
    let promoted = || async {
        start(&server, "20.00").await.1.expect(200);
        let plugin = slot(&server, IDEAL).await;
        (plugin["active"]["digest"] == digest).then_some(plugin)
    };
    let plugin = server.wait_for("the ramp to end", promoted).await;
    assert_eq!(plugin["candidate"], Value::Null);
    let path = format!("/audit?object=plugin/{IDEAL}&operator=system");
    let audit = server.admin("GET", &path, None).await.expect(200).json();
    let lines = audit["entries"].as_array().unwrap().iter();
    let actions: Vec<_> = lines.map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(actions[..2], ["plugin.promote", "plugin.canary"]);
}

#[tokio::test]
async fn attempts_that_a_provider_s_candidate_opened_finish_on_it() {
    let server = Server::fresh().await;
    let active = slot(&server, SANDBOX).await["active"]["digest"].clone();
    let module = other().await;
    let plugin = upload(&server, SANDBOX, "?mode=shadow", module)
        .await
        .expect(200)
        .json();
    let candidate = plugin["candidate"]["digest"].clone();
    let before = Open::start(&server).await;
    let order = json!({ "digest": candidate, "share": 100 });
    act(&server, SANDBOX, "canary", order).await.expect(200);
    let opened = Open::start(&server).await;
    assert_eq!(before.digest(&server).await, active);
    assert_eq!(opened.digest(&server).await, candidate);
    act(&server, SANDBOX, "rollback", json!({}))
        .await
        .expect(200);
    assert_eq!(Open::start(&server).await.digest(&server).await, active);
    let server = Server::in_folder(server.stop().await).await;
    assert_eq!(before.paid(&server).await, "completed");
    // The other sandbox module reports a paid session as under review.
    assert_eq!(opened.paid(&server).await, "review");
}

#[tokio::test]
async fn a_provider_s_canary_that_fails_is_rolled_back() {
    let server = Server::fresh().await;
    let active = slot(&server, SANDBOX).await["active"]["digest"].clone();
    let staged = upload(&server, SANDBOX, "?mode=shadow", other().await).await;
    let digest = staged.expect(200).json()["candidate"]["digest"].clone();
    let order = json!({ "digest": digest, "share": 100 });
    act(&server, SANDBOX, "canary", order).await.expect(200);
    start(&server, "66.66").await;
    let rolled_back = || async {
        let plugin = slot(&server, SANDBOX).await;
        plugin["candidate"].is_null().then_some(plugin)
    };
    let plugin = server.wait_for("the canary to be rolled back", rolled_back);
    assert_eq!(plugin.await["active"]["digest"], active);
    let line = || async {
        let line = last_line(&server, SANDBOX).await;
        (line["action"] == "plugin.rollback").then_some(line)
    };
    let line = server.wait_for("the audit line", line).await;
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("it failed"), "{reason}");
}

#[tokio::test]
async fn a_pinned_version_serves_whatever_is_put_into_the_folder() {
    let server = Server::fresh().await;
    let first = slot(&server, IDEAL).await["active"]["digest"].clone();
    let original = std::fs::read(server.plugin_dir().join("method.ideal.wasm")).unwrap();
    let module = std::fs::read(swapped().await).unwrap();
    upload(&server, IDEAL, "?mode=activate", module.clone())
        .await
        .expect(200);
    let pinned = act(&server, IDEAL, "pin", json!({ "digest": first })).await;
    let pinned = pinned.expect(200).json();
    assert_eq!(
        (&pinned["active"]["digest"], &pinned["pinned"]),
        (&first, &json!(true))
    );
    put(&server, IDEAL, &module);
    let refused = || async {
        let plugin = slot(&server, IDEAL).await;
        let error = plugin["last_error"]
            .as_str()
            .is_some_and(|error| error.contains("pinned"));
        error.then_some(plugin)
    };
    let plugin = server.wait_for("the file to be refused", refused).await;
    assert_eq!(plugin["active"]["digest"], first);
    let unknown = json!({ "digest": "0".repeat(64) });
    act(&server, IDEAL, "pin", unknown)
        .await
        .expect(422)
        .error();
    let free = upload(&server, IDEAL, "", module).await.expect(200).json();
    assert_eq!(free["pinned"], false);
    put(&server, IDEAL, &original);
    let back = || async { (slot(&server, IDEAL).await["active"]["digest"] == first).then_some(()) };
    server.wait_for("the file to serve", back).await;
}

#[tokio::test]
async fn where_staging_is_required_no_upload_serves_at_once() {
    let server = Server::configured("[plugins]\nuploads = \"shadow-first\"\n").await;
    let active = slot(&server, IDEAL).await["active"]["digest"].clone();
    let module = std::fs::read(swapped().await).unwrap();
    let refused = upload(&server, IDEAL, "?mode=activate", module.clone()).await;
    assert!(refused.expect(409).error().contains("shadow-first"));
    let plugin = upload(&server, IDEAL, "", module).await.expect(200).json();
    assert_eq!(
        (&plugin["active"]["digest"], &plugin["candidate"]["mode"]),
        (&active, &json!("shadow"))
    );
}

#[tokio::test]
async fn what_is_no_trial_is_refused_and_changes_nothing() {
    let server = Server::fresh().await;
    let zeros = "0".repeat(64);
    for (what, body, status) in [
        ("canary", json!({ "digest": zeros, "share": 5 }), 409),
        ("promote", json!({}), 409),
    ] {
        act(&server, IDEAL, what, body).await.expect(status).error();
    }
    let path = format!("/plugins/{IDEAL}/diff");
    server.admin("GET", &path, None).await.expect(409).error();
    let digest = staged(&server).await;
    let candidate = async || slot(&server, IDEAL).await["candidate"].clone();
    let before = candidate().await;
    for wrong in [
        json!({ "digest": digest }),
        json!({ "digest": "no", "share": 5 }),
        json!({ "digest": digest, "share": 0 }),
        json!({ "digest": digest, "share": 101 }),
        json!({ "digest": digest, "share": 5, "steps": [5] }),
        json!({ "digest": digest, "steps": [] }),
        json!({ "digest": digest, "steps": [5, 5], "every_seconds": 60 }),
        json!({ "digest": digest, "steps": [5, 10] }),
        json!({ "digest": digest, "share": 5, "colour": "red" }),
    ] {
        act(&server, IDEAL, "canary", wrong)
            .await
            .expect(422)
            .error();
    }
    act(
        &server,
        IDEAL,
        "canary",
        json!({ "digest": zeros, "share": 5 }),
    )
    .await
    .expect(409)
    .error();
    assert_eq!(candidate().await, before);
}
