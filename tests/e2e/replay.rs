//! Replay of a running gateway's recorded decisions with other modules or settings.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::fallback::{SECOND, second_provider};
use crate::harness::{Answer, Server};
use crate::swap::{guest, slot, swapped};
use crate::versions::other;

const IDEAL: &str = "method.ideal";

/// Replays iDEAL's latest decisions with another module.
async fn replay(server: &Server, query: &str, bytes: Vec<u8>) -> Answer {
    replay_of(server, IDEAL, query, bytes).await
}

async fn replay_of(server: &Server, slot: &str, query: &str, bytes: Vec<u8>) -> Answer {
    let url = format!("{}/plugins/{slot}/replay{query}", server.admin_base());
    let request = server.http.post(url).bearer_auth(server.operator_token());
    let request = request.header("content-type", "application/wasm");
    server.send(request.body(bytes)).await
}

/// Replays iDEAL's latest decisions with the active version and other inputs, for example settings.
async fn tried(server: &Server, body: Value) -> Answer {
    let path = format!("/plugins/{IDEAL}/replay");
    server.admin("POST", &path, Some(&body)).await
}

/// Waits until the log has this many decisions. Other nodes write theirs within a second.
async fn recorded(server: &Server, decisions: u64) {
    let all = || async {
        let diff = tried(server, json!({ "settings": {} })).await;
        (diff.expect(200).json()["decisions"] == decisions).then_some(())
    };
    server.wait_for("all decisions to be recorded", all).await;
}

/// Starts payments of these amounts and returns their IDs.
async fn pay(server: &Server, amounts: &[&str]) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for amount in amounts {
        let more = json!({ "amount": amount });
        let (payment, _) = server.started(server.test_key(), "ideal", more).await;
        ids.insert(payment["payment_id"].as_str().unwrap().to_owned());
    }
    ids
}

async fn active(server: &Server) -> Vec<u8> {
    std::fs::read(server.plugin_dir().join(format!("{IDEAL}.wasm"))).unwrap()
}

/// The diff without its cost, which differs between runs.
fn figures(diff: &Value) -> Value {
    let mut figures = diff.clone();
    figures.as_object_mut().unwrap().remove("cost");
    figures
}

#[tokio::test]
async fn the_active_version_differs_nowhere_and_another_exactly_where_it_decides_otherwise() {
    let server = Server::fresh().await;
    pay(&server, &["0.01", "49.90", "100.00"]).await;
    let refused = pay(&server, &["100.01", "1234.56", "50000.00"]).await;
    // One for each creation and one for each start.
    recorded(&server, 12).await;

    let same = replay(&server, "?last=1000000", active(&server).await).await;
    let same = same.expect(200).json();
    let digest = slot(&server, IDEAL).await["active"]["digest"].clone();
    assert_eq!(same["active"], digest);
    assert_eq!(same["candidate"], digest);
    assert_eq!(same["decisions"], 12, "{same}");
    for none in [
        "differing",
        "newly_possible",
        "newly_impossible",
        "faults",
        "reordered",
    ] {
        assert_eq!(same[none], 0, "{same}");
    }
    assert_eq!((&same["moved"], &same["reasons"]), (&json!([]), &json!([])));

    let module = std::fs::read(swapped().await).unwrap();
    let other = replay(&server, "", module.clone()).await.expect(200).json();
    assert_ne!(other["candidate"], digest);
    assert_eq!(
        (&other["decisions"], &other["differing"]),
        (&json!(12), &json!(6))
    );
    let reason = json!({
        "change": "newly_impossible", "reason": "amount", "currency": "EUR",
        "payments": 3, "amount": "51334.57",
    });
    assert_eq!(other["reasons"], json!([reason]));
    assert_eq!(
        (&other["newly_impossible"], &other["faults"]),
        (&json!(3), &json!(0))
    );
    let examples = other["examples"].as_array().unwrap().iter();
    let told = examples.map(|each| each["payment_id"].as_str().unwrap().to_owned());
    assert_eq!(told.collect::<BTreeSet<_>>(), refused);
    // The replayed version was not activated and left no error.
    let plugin = slot(&server, IDEAL).await;
    assert_eq!(
        (&plugin["active"]["digest"], &plugin["last_error"]),
        (&digest, &Value::Null)
    );

    let server = Server::in_folder(server.stop().await).await;
    let again = replay(&server, "", module).await.expect(200).json();
    assert_eq!(figures(&again), figures(&other));
    let last = replay(&server, "?last=2", active(&server).await).await;
    assert_eq!(last.expect(200).json()["decisions"], 2);
}

/// Amount of a payment, in minor units, and its currency in the merchant API.
async fn read_amount(server: &Server, key: &str, id: &str) -> (u64, String) {
    let path = format!("/api/v1/payments/{id}");
    let payment = server.get(key, &path).await.expect(200).json();
    let amount = payment["amount"].as_str().unwrap().replace('.', "");
    let currency = payment["currency"].as_str().unwrap().to_owned();
    (amount.parse().unwrap(), currency)
}

#[tokio::test]
async fn a_candidate_for_large_payments_in_forints_moves_exactly_those_to_the_cent() {
    let server = Server::fresh().await;
    let _second = second_provider(&server).await;
    let (id, key, _) = server.merchant(json!({})).await;
    let rates = json!({ "fx_rates": { "HUF": "0.0027", "CZK": "0.043" } });
    server.change_merchant(id, rates).await;

    // Amounts around the limit and far from it; more payments than the default number of examples.
    let around = ["9999.99", "10000.00", "10000.01"].map(str::to_owned);
    let spread = (0..26_u64).map(|n| format!("{}.{:02}", 9_100 + 337 * n, (n * 37) % 100));
    let forints: Vec<String> = around.iter().cloned().chain(spread).collect();
    let others = ["EUR", "CZK", "USD"].map(|other| (other, &around[..]));
    let (mut made, mut large, mut sum) = (0, BTreeSet::new(), 0);
    for (currency, amounts) in [("HUF", &forints[..])].into_iter().chain(others) {
        for amount in amounts {
            let more = json!({ "amount": amount, "currency": currency });
            let (payment, _) = server.started(&key, "credit_card", more).await;
            assert_eq!(
                server.attempts(&payment).await[0]["provider_id"],
                "sandbox-test"
            );
            let id = payment["payment_id"].as_str().unwrap().to_owned();
            let minor: u64 = amount.replace('.', "").parse().unwrap();
            made += 1;
            if currency == "HUF" && minor > 1_000_000 {
                large.insert(id);
                sum += minor;
            }
        }
    }
    assert!(large.len() > 20, "{}", large.len());

    let candidate = std::fs::read(guest("kassette-method-credit-card").await).unwrap();
    let slot = "method.credit_card";
    let all = || async {
        let diff = replay_of(&server, slot, "?examples=1000", candidate.clone()).await;
        let diff = diff.expect(200).json();
        (diff["decisions"] == 2 * made).then_some(diff)
    };
    let diff = server.wait_for("all decisions to be recorded", all).await;
    // One for each creation and one for each start.
    assert_eq!(diff["differing"], 2 * large.len(), "{diff}");
    let moved = json!([{
        "currency": "HUF", "from": "sandbox-test", "to": SECOND, "payments": large.len(),
        "amount": format!("{}.{:02}", sum / 100, sum % 100),
    }]);
    assert_eq!(diff["moved"], moved, "{diff}");
    assert_eq!((&diff["reasons"], &diff["faults"]), (&json!([]), &json!(0)));
    assert_eq!(diff["reordered"], 0, "{diff}");

    // Every payment is listed, and their amounts in the merchant API have the same sum.
    let named = |diff: &Value| -> BTreeSet<String> {
        let examples = diff["examples"].as_array().unwrap().iter();
        let ids = examples.map(|each| each["payment_id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    assert_eq!(named(&diff), large);
    let mut read = 0;
    for id in named(&diff) {
        let (minor, currency) = read_amount(&server, &key, &id).await;
        assert_eq!(currency, "HUF");
        read += minor;
    }
    assert_eq!(read, sum);
    for (query, count) in [("", 20), ("?examples=3", 3), ("?examples=0", 0)] {
        let diff = replay_of(&server, slot, query, candidate.clone()).await;
        let diff = diff.expect(200).json();
        assert_eq!(named(&diff).len(), count, "{query}");
        assert_eq!(diff["moved"], moved, "{query}");
    }
}

#[tokio::test]
async fn a_setting_and_a_policy_move_the_money_that_they_would_have_moved() {
    let server = Server::fresh().await;
    let _second = second_provider(&server).await;
    pay(&server, &["10.00", "20.50", "0.01"]).await;
    recorded(&server, 6).await;
    let moved = json!([{
        "currency": "EUR", "from": "sandbox-test", "to": SECOND, "payments": 3, "amount": "30.51",
    }]);
    let policy = json!({ "methods": { "ideal": { "providers": [SECOND] } } });
    for body in [
        json!({ "policy": policy }),
        json!({ "policy": policy, "merchant_id": 1 }),
    ] {
        let diff = tried(&server, body.clone()).await.expect(200).json();
        assert_eq!(diff["moved"], moved, "{body}: {diff}");
        assert_eq!(diff["active"], diff["candidate"]);
        assert!(diff["unknown"].is_string(), "{diff}");
    }
    let settings = json!({ "settings": { "maximum-usd": "15.00", "wero": true } });
    let limited = tried(&server, settings).await.expect(200).json();
    assert_eq!(
        (&limited["newly_impossible"], &limited["moved"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(limited["reasons"][0]["amount"], "20.50");
    assert_eq!(limited["unknown"], Value::Null);
    let off = json!({ "policy": { "methods": { "ideal": { "enabled": false } } } });
    let off = tried(&server, off).await.expect(200).json();
    assert_eq!(
        (&off["newly_impossible"], &off["moved"]),
        (&json!(3), &json!([]))
    );
    assert_eq!(off["reasons"][0]["reason"], "policy");
}

#[tokio::test]
async fn what_cannot_be_replayed_is_refused() {
    let server = Server::fresh().await;
    for body in [
        json!({}),
        json!({ "settings": {}, "policy": {} }),
        json!({ "settings": { "no-such-setting": true } }),
        json!({ "settings": { "wero": [] } }),
        json!({ "policy": { "no_such_field": 1 } }),
        json!({ "settings": {}, "reason": "because" }),
    ] {
        tried(&server, body).await.expect(422).error();
    }
    let unknown = json!({ "settings": {}, "merchant_id": 999_999 });
    tried(&server, unknown).await.expect(404).error();
    for query in [
        "?last=0",
        "?last=1000001",
        "?last=x",
        "?first=1",
        "?examples=100001",
        "?examples=-1",
    ] {
        let answer = replay(&server, query, active(&server).await).await;
        answer.expect(422).error();
    }
    let other = std::fs::read(server.plugin_dir().join("method.paypal.wasm")).unwrap();
    for (module, why) in [
        (Vec::new(), "not WebAssembly"),
        (b"\0asm\x01\0\0\0".to_vec(), "core module"),
        (other, "describes itself as \"paypal\""),
    ] {
        let error = replay(&server, "", module).await.expect(422).error();
        assert!(error.contains(why), "{error}");
    }
    replay(&server, "", vec![0; 40 << 20])
        .await
        .expect(413)
        .error();
    let refused = |slot: &'static str| {
        let url = format!("{}/plugins/{slot}/replay", server.admin_base());
        let request = server.http.post(url).bearer_auth(server.operator_token());
        server.send(request.json(&json!({ "settings": {} })))
    };
    let provider = refused("provider.sandbox").await.expect(409).error();
    assert!(provider.contains("another version"), "{provider}");
    refused("method.nothing").await.expect(404).error();
    // Refusals for other slots are not shown at this one.
    assert_eq!(slot(&server, IDEAL).await["last_error"], Value::Null);
}

#[tokio::test]
async fn the_command_tells_people_and_scripts() {
    let server = Server::fresh().await;
    pay(&server, &["49.90", "200.00"]).await;
    recorded(&server, 4).await;
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
        command
            .args(["plugin", "replay", IDEAL])
            .args(arguments)
            .args(["--admin-url", server.admin_base()])
            .env("KASSETTE_OPERATOR_TOKEN", server.operator_token());
        let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
        let ended = ended.await.unwrap();
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            ended.status.code(),
            told(&ended.stdout),
            told(&ended.stderr),
        )
    };
    let module: &Path = swapped().await;
    let module = module.to_str().unwrap();
    let (code, table, said) = run(&[module, "--last", "100"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(
        table.contains("newly_impossible") && table.contains("200.00"),
        "{table}"
    );
    assert!(said.contains("decisions made again"), "{said}");
    let (code, json, said) = run(&[module, "--json"]).await;
    assert_eq!(code, Some(0), "{said}");
    let diff: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&diff["decisions"], &diff["newly_impossible"]),
        (&json!(4), &json!(1))
    );
    let (code, _, said) = run(&["/nowhere.wasm"]).await;
    assert_eq!((code, said.contains("/nowhere.wasm")), (Some(1), true));
}

#[tokio::test]
async fn another_version_of_a_provider_s_module_is_tried_on_what_the_provider_said() {
    let server = Server::configured("[plugins]\nrecord_conversations = true\n").await;
    let file = server.plugin_dir().join("provider.sandbox.wasm");
    let active = std::fs::read(&file).unwrap();
    // The gateway learns of one payment by a query and of the other by a callback.
    server.fault("sandbox-test", "callback-never", 1).await;
    for amount in ["12.34", "56.78"] {
        let (payment, page) = server
            .started(server.test_key(), "ideal", json!({ "amount": amount }))
            .await;
        let back = server.pay(&page, "approve").await.expect(303);
        server
            .open(back.header("location").unwrap())
            .await
            .expect(200);
        server.until(server.test_key(), &payment, "completed").await;
    }
    let all = || async {
        let diff = replay_of(&server, "provider.sandbox", "", active.clone()).await;
        let diff = diff.expect(200).json();
        // Two starts, a query and a callback.
        (diff["decisions"].as_u64() >= Some(4)).then_some(diff)
    };
    let same = server.wait_for("the calls to be recorded", all).await;
    assert_eq!(
        (&same["differing"], &same["faults"]),
        (&json!(0), &json!(0)),
        "{same}"
    );

    // The other sandbox module reports paid sessions as under review, and acknowledges callbacks with another
    // text.
    let candidate = replay_of(&server, "provider.sandbox", "", other().await).await;
    let diff = candidate.expect(200).json();
    assert_eq!(
        (&diff["faults"], &diff["active_faults"]),
        (&json!(0), &json!(0)),
        "{diff}"
    );
    assert_eq!(
        (&diff["newly_possible"], &diff["newly_impossible"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        diff["differing"].as_u64(),
        same["decisions"].as_u64().map(|all| all - 2),
        "{diff}"
    );
    let reasons = diff["reasons"].as_array().unwrap().iter();
    let reasons: BTreeSet<_> = reasons
        .map(|it| (it["change"].as_str(), it["reason"].as_str()))
        .collect();
    for differs in ["reply", "report"] {
        let told = reasons.contains(&(Some("otherwise"), Some(differs)));
        assert!(told, "{differs}: {diff}");
    }
    let unknown = diff["unknown"].as_str().unwrap();
    assert!(unknown.contains("record_conversations"), "{unknown}");
    // The replayed version was not activated.
    assert_eq!(
        slot(&server, "provider.sandbox").await["active"]["digest"],
        same["active"]
    );
}
