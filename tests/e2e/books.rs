//! Payment search by what finance and support know, and the export of money movements.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Server, shared, unique};

/// IDs of all payments that a query finds, in the order of the list.
async fn listed(server: &Server, query: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/payments?{query}&limit=2{cursor}");
        let page = server.admin("GET", &path, None).await.expect(200).json();
        let payments = page["payments"].as_array().unwrap();
        let id = |payment: &Value| payment["payment_id"].as_str().unwrap().to_owned();
        ids.extend(payments.iter().map(id));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

fn id(payment: &Value) -> String {
    payment["payment_id"].as_str().unwrap().to_owned()
}

/// A completed payment, as the admin API shows it.
async fn paid(server: &Server, key: &str, more: Value) -> Value {
    let (payment, url) = server.started(key, "ideal", more).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &payment, "completed").await;
    server.inside(&payment).await
}

#[tokio::test]
async fn payments_are_found_by_reference_attempt_account_and_time() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let mine = format!("merchant_id={merchant}");
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(paid(server, &key, json!({})).await);
    }
    let unpaid = server.create(&key, json!({})).await;
    let ids: Vec<String> = made.iter().map(|each| id(&each["payment"])).collect();
    let newest_first = [&ids[2], &ids[1], &ids[0]].map(String::clone);

    let all = listed(server, &mine).await;
    assert_eq!(all[1..], newest_first);
    assert_eq!(all[0], id(&unpaid));
    let at_account = listed(server, &format!("{mine}&provider_id=sandbox-test")).await;
    assert_eq!(at_account, newest_first);
    let elsewhere = listed(server, &format!("{mine}&provider_id=sandbox-live")).await;
    assert_eq!(elsewhere, [""; 0]);
    for (each, id) in made.iter().zip(&ids) {
        let attempt = &each["attempts"][0];
        let (attempt_id, reference) = (
            attempt["attempt_id"].as_str().unwrap(),
            attempt["reference"].as_str().unwrap(),
        );
        for query in [
            format!("attempt_id={attempt_id}"),
            format!("reference={reference}"),
            format!(
                "reference={reference}&attempt_id={attempt_id}&provider_id=sandbox-test&{mine}"
            ),
        ] {
            assert_eq!(
                listed(server, &query).await,
                std::slice::from_ref(id),
                "{query}"
            );
        }
        for query in [
            format!("attempt_id={attempt_id}&provider_id=sandbox-live"),
            format!("reference={reference}&status=failed"),
            format!("reference={reference}x"),
        ] {
            assert_eq!(listed(server, &query).await, [""; 0], "{query}");
        }
    }
    let at = |each: &Value| each["payment"]["created_at"].as_str().unwrap().to_owned();
    let (second, third) = (at(&made[1]), at(&made[2]));
    let between = format!("{mine}&since={second}&until={third}");
    assert_eq!(listed(server, &between).await, [ids[1].clone()]);
    let before = format!("{mine}&until={second}&status=completed");
    assert_eq!(listed(server, &before).await, [ids[0].clone()]);
    for wrong in ["since=today", "provider_id=A", "attempt_id=1", "made=now"] {
        let path = format!("/payments?{wrong}");
        server.admin("GET", &path, None).await.expect(422).error();
    }
}

/// Exit code and standard output of `kassette …`.
pub(crate) fn kassette(server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(words)
        .args(["--admin-url", server.admin_base()])
        .env("KASSETTE_OPERATOR_TOKEN", server.operator_token())
        .output()
        .unwrap();
    (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
}

/// Rows of a CSV table, keyed by the names in its first line.
fn table(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = records(csv).into_iter();
    let names = lines.next().unwrap();
    let row = |line: Vec<String>| {
        assert_eq!(line.len(), names.len(), "{line:?}");
        names.iter().cloned().zip(line).collect()
    };
    lines.map(row).collect()
}

/// Parses records in CSV format (RFC 4180).
fn records(csv: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = csv.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted => {
                assert_eq!(chars.next(), Some('\n'));
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            char => field.push(char),
        }
    }
    assert!(
        field.is_empty() && record.is_empty(),
        "a line without an end"
    );
    records
}

fn cents(amount: &str) -> u64 {
    amount.replace('.', "").parse().unwrap()
}

#[tokio::test]
async fn an_export_sums_up_to_what_the_payments_show() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let merchant = merchant.to_string();
    let odd = format!("\"odd\", {}", unique());
    let first = paid(server, &key, json!({ "order_id": odd, "amount": "12.34" })).await;
    let second = paid(server, &key, json!({ "amount": "50.00" })).await;
    server.create(&key, json!({})).await;
    let since = second["payment"]["created_at"].as_str().unwrap();

    let of_merchant = ["payment", "export", "--merchant-id", &merchant];
    let (code, csv) = kassette(server, &of_merchant);
    assert_eq!(code, Some(0));
    let rows = table(&csv);
    assert_eq!(rows.len(), 2, "{csv}");
    for (row, payment) in rows.iter().zip([&second, &first]) {
        let attempt = &payment["attempts"][0];
        assert_eq!((&*row["type"], &*row["state"]), ("capture", "captured"));
        assert_eq!(row["amount"], attempt["received"].as_str().unwrap());
        assert_eq!(row["payment_id"], id(&payment["payment"]));
        assert_eq!(
            row["amount"],
            payment["payment"]["amount"].as_str().unwrap()
        );
        assert_eq!(row["currency"], "EUR");
        assert_eq!(row["environment"], "test");
        for name in ["attempt_id", "provider_id", "payment_method", "reference"] {
            assert_eq!(row[name], attempt[name].as_str().unwrap(), "{name}");
        }
    }
    assert_eq!(rows[1]["order_id"], odd);
    let sum: u64 = rows.iter().map(|row| cents(&row["amount"])).sum();
    assert_eq!(sum, 1234 + 5000);

    let (_, later) = kassette(server, &[&of_merchant[..], &["--since", since]].concat());
    assert_eq!(table(&later).len(), 1);
    let (_, earlier) = kassette(server, &[&of_merchant[..], &["--until", since]].concat());
    assert_eq!(table(&earlier)[0]["order_id"], odd);
    let (_, none) = kassette(
        server,
        &[&of_merchant[..], &["--environment", "live"]].concat(),
    );
    assert_eq!(table(&none).len(), 0, "{none}");
    let (code, nothing) = kassette(server, &["payment", "export", "--since", "today"]);
    assert_eq!((code, nothing.as_str()), (Some(1), ""));
    let (code, objects) = kassette(server, &[&of_merchant[..], &["--json"]].concat());
    let objects = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let objects: Vec<Value> = objects.collect();
    assert_eq!((code, objects.len()), (Some(0), 2));
    assert_eq!(objects[0]["payment_id"], id(&second["payment"]));
}
