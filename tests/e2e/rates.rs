//! Exchange rates from the operator's file and the European Central Bank (ECB), during changes, failures and
//! restarts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Answer, Server, fresh_folder, merge, new_payment, unique};
use crate::receiver::{Receiver, Reply};

/// Replaces a configuration file atomically.
fn put(folder: &Path, name: &str, text: &str) {
    let config = folder.join("config");
    std::fs::create_dir_all(&config).unwrap();
    let aside = folder.join("aside");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(aside, config.join(name)).unwrap();
}

fn ago(time: Duration) -> Timestamp {
    Timestamp::from_second((Timestamp::now() - time).as_second()).unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn with_file(rates: &str) -> Server {
    let folder = fresh_folder();
    put(
        folder.path(),
        "kassette.toml",
        "[rates]\nfile = \"rates.toml\"\n",
    );
    put(folder.path(), "rates.toml", rates);
    Server::in_folder(folder).await
}

/// A merchant with a test key. The body may set the merchant's own rates.
async fn merchant(server: &Server, body: Value) -> (u64, String) {
    let mut whole = json!({ "name": format!("Shop {}", unique()) });
    merge(&mut whole, body);
    let made = server.admin("POST", "/merchants", Some(&whole)).await;
    let id = made.expect(201).json()["merchant_id"].as_u64().unwrap();
    let key = json!({ "environment": "test" });
    let path = format!("/merchants/{id}/keys");
    let issued = server.admin("POST", &path, Some(&key)).await.expect(201);
    (id, issued.json()["key"].as_str().unwrap().to_owned())
}

async fn asked(server: &Server, key: &str, amount: &str, currency: &str) -> Answer {
    let mut body = new_payment();
    merge(&mut body, json!({ "amount": amount, "currency": currency }));
    server.post(key, "/api/v1/payments", &body).await
}

/// US dollars, rate, rate source and rate time of a new payment.
async fn converted(server: &Server, key: &str, amount: &str, currency: &str) -> [Value; 4] {
    let payment = asked(server, key, amount, currency)
        .await
        .expect(201)
        .json();
    kept(server, &payment).await
}

async fn kept(server: &Server, payment: &Value) -> [Value; 4] {
    let inside = server.inside(payment).await;
    ["usd_amount", "fx_rate", "fx_source", "fx_source_date"].map(|name| {
        let found = inside["payment"].get(name);
        found
            .unwrap_or_else(|| panic!("no {name}: {inside}"))
            .clone()
    })
}

/// The rate that currently applies to a currency.
async fn rate(server: &Server, merchant: u64, currency: &str) -> Value {
    let path = format!("/merchants/{merchant}/rates");
    let listed = server.admin("GET", &path, None).await.expect(200).json();
    let listed = listed["rates"].as_array().unwrap();
    assert_eq!(listed.len(), 21);
    let found = listed.iter().find(|rate| rate["currency"] == currency);
    found.unwrap().clone()
}

fn millis(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

#[tokio::test]
async fn a_payment_is_converted_by_the_file_less_the_margin_where_the_merchant_has_no_rate() {
    let date = ago(HOUR);
    let server = with_file(&format!(
        "date = {date}\n[usd_per_unit]\nEUR = \"1.1\"\nGBP = \"1.25\"\n"
    ))
    .await;
    let policy = json!({ "fx_margin": "0.02" });
    let (id, key) = merchant(
        &server,
        json!({ "policy": policy, "fx_rates": { "EUR": "1.08" } }),
    )
    .await;
    let by_file = converted(&server, &key, "100.00", "GBP").await;
    assert_eq!(
        by_file,
        [
            json!("122.50"),
            json!("1.225"),
            json!("file"),
            json!(millis(date))
        ]
    );
    let own = converted(&server, &key, "100.00", "EUR").await;
    assert_eq!(
        own,
        [
            json!("108.00"),
            json!("1.08"),
            json!("merchant"),
            Value::Null
        ]
    );
    let dollars = converted(&server, &key, "100.00", "USD").await;
    assert_eq!(
        dollars,
        [json!("100.00"), json!("1"), Value::Null, Value::Null]
    );
    let refused = asked(&server, &key, "100.00", "PLN").await.expect(422);
    assert!(
        refused.error().contains("no usable exchange rate for PLN"),
        "{}",
        refused.text
    );
    server
        .get(&key, "/api/v1/methods?currency=GBP&amount=5.00")
        .await
        .expect(200);
    server
        .get(&key, "/api/v1/methods?currency=PLN")
        .await
        .expect(422);

    let gbp = rate(&server, id, "GBP").await;
    assert_eq!(gbp["rate"], "1.225", "{gbp}");
    assert_eq!(gbp["source"], "file", "{gbp}");
    assert_eq!(gbp["set_at"], json!(millis(date)), "{gbp}");
    assert!(gbp["age_seconds"].as_u64().unwrap() >= 3600, "{gbp}");
    assert_eq!(gbp["usable"], true, "{gbp}");
    assert_eq!(rate(&server, id, "EUR").await["source"], "merchant");
    let pln = rate(&server, id, "PLN").await;
    assert_eq!(
        (&pln["rate"], &pln["usable"]),
        (&Value::Null, &json!(false)),
        "{pln}"
    );

    server
        .change_merchant(
            id,
            json!({ "fx_rates": { "EUR": null }, "policy": { "fx_margin": null } }),
        )
        .await;
    let plain = converted(&server, &key, "100.00", "EUR").await;
    assert_eq!(plain[1..3], [json!("1.1"), json!("file")]);
    let metrics = server.metrics().await;
    let age = metrics
        .lines()
        .find_map(|line| line.strip_prefix("kassette_rates_age_seconds{source=\"file\"} "));
    assert!(age.unwrap().parse::<f64>().unwrap() >= 3600.0, "{metrics}");
}

#[tokio::test]
async fn a_changed_file_is_taken_over_and_a_wrong_one_is_not() {
    let file = |date: Timestamp, rate: &str| {
        format!("date = {date}\n[units_per_euro]\nUSD = \"1.08\"\nGBP = \"{rate}\"\n")
    };
    let server = with_file(&file(ago(HOUR), "0.9")).await;
    let (id, key) = merchant(&server, json!({})).await;
    let before = asked(&server, &key, "100.00", "GBP")
        .await
        .expect(201)
        .json();
    assert_eq!(kept(&server, &before).await[1], "1.2");
    let becomes = async |folder: &Path, text: &str, expected: &str| {
        put(folder, "rates.toml", text);
        let is_so = async || (rate(&server, id, "GBP").await["rate"] == expected).then_some(());
        server.wait_for(expected, is_so).await;
    };
    becomes(server.folder(), &file(ago(HOUR), "0.8"), "1.35").await;
    assert_eq!(converted(&server, &key, "100.00", "GBP").await[0], "135.00");
    assert_eq!(
        kept(&server, &before).await[1],
        "1.2",
        "fixed at its creation"
    );

    let wrong = [
        (
            file(ago(HOUR), "0"),
            "units_per_euro.GBP: must be a positive decimal",
        ),
        (
            file(Timestamp::now() + DAY, "0.7"),
            "is ahead of this machine's clock",
        ),
        ("date = 2020-01-01\n".to_owned(), "there are no rates"),
    ];
    for (text, expected) in wrong {
        put(server.folder(), "rates.toml", &text);
        let is_said = async || {
            let log = server.log();
            let mut lines = log.lines();
            let said = |line: &str| {
                line.contains("exchange rates were not taken over") && line.contains(expected)
            };
            lines.any(said).then_some(())
        };
        server.wait_for(expected, is_said).await;
        assert_eq!(rate(&server, id, "GBP").await["rate"], "1.35", "{text}");
    }
    becomes(server.folder(), &file(ago(HOUR), "0.75"), "1.44").await;
    // Another file, then none.
    put(server.folder(), "other.toml", &file(ago(HOUR), "0.675"));
    put(
        server.folder(),
        "kassette.toml",
        "[rates]\nfile = \"other.toml\"\n",
    );
    becomes(server.folder(), "gone", "1.6").await;
    put(server.folder(), "kassette.toml", "");
    let is_gone = async || {
        rate(&server, id, "GBP").await["rate"]
            .is_null()
            .then_some(())
    };
    server.wait_for("no rates", is_gone).await;
    asked(&server, &key, "100.00", "GBP").await.expect(422);

    let folder = server.stop().await;
    let server = Server::in_folder(folder).await;
    let [_, rate, source, date] = kept(&server, &before).await;
    assert_eq!((rate, source), (json!("1.2"), json!("file")));
    assert!(date.is_string());
}

#[tokio::test]
async fn a_sources_rate_ages_by_its_own_date() {
    let server = with_file(&format!(
        "date = {}\n[usd_per_unit]\nGBP = \"1.25\"\n",
        ago(HOUR)
    ))
    .await;
    let policy = json!({ "fx_max_age_seconds": 2 * 3600 });
    let (id, key) = merchant(&server, json!({ "policy": policy })).await;
    asked(&server, &key, "10.00", "GBP").await.expect(201);
    server.advance(3601).await;
    let refused = asked(&server, &key, "10.00", "GBP").await.expect(422);
    assert!(
        refused.error().contains("no usable exchange rate for GBP"),
        "{}",
        refused.text
    );
    let found = rate(&server, id, "GBP").await;
    assert_eq!(
        (&found["rate"], &found["usable"]),
        (&json!("1.25"), &json!(false)),
        "{found}"
    );
    server
        .change_merchant(id, json!({ "fx_rates": { "GBP": "1.3" } }))
        .await;
    assert_eq!(
        converted(&server, &key, "10.00", "GBP").await[2],
        "merchant"
    );
}

/// The ECB's file with one day of rates.
fn table(day: Timestamp, gbp: &str) -> String {
    let day = day.strftime("%Y-%m-%d");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<gesmes:Envelope \
         xmlns:gesmes=\"http://www.gesmes.org/xml/2002-08-01\" \
         xmlns=\"http://www.ecb.int/vocabulary/2002-08-01/eurofxref\">\n\
         <gesmes:subject>Reference rates</gesmes:subject>\n<Cube><Cube time='{day}'>\
         <Cube currency='USD' rate='1.08'/><Cube currency='JPY' rate='162.91'/>\
         <Cube currency='GBP' rate='{gbp}'/></Cube></Cube></gesmes:Envelope>"
    )
}

fn full(text: &str) -> Reply {
    Reply::Full(200, String::new(), text.as_bytes().to_vec())
}

/// Sets the ECB's address. A new path on each call makes the gateway fetch immediately.
fn at(folder: &Path, bank: &Receiver, path: &str) {
    let main = format!(
        "[rates]\necb = true\necb_url = \"http://{}/{path}\"\n",
        bank.address
    );
    put(folder, "kassette.toml", &main);
}

async fn with_bank(bank: &Receiver) -> Server {
    let folder = fresh_folder();
    at(folder.path(), bank, "first");
    Server::in_folder(folder).await
}

async fn until_rate(server: &Server, merchant: u64, expected: &str) {
    let is_so = async || (rate(server, merchant, "GBP").await["rate"] == expected).then_some(());
    server.wait_for(expected, is_so).await;
}

#[tokio::test]
async fn the_banks_rates_are_fetched_and_outlast_its_failures_and_a_restart() {
    let yesterday = ago(DAY);
    let bank = Receiver::answering(full(&table(yesterday, "0.9"))).await;
    let server = with_bank(&bank).await;
    let (id, key) = merchant(&server, json!({})).await;
    until_rate(&server, id, "1.2").await;
    let [usd, rate_used, source, date] = converted(&server, &key, "100.00", "GBP").await;
    assert_eq!(
        [usd, rate_used, source],
        [json!("120.00"), json!("1.2"), json!("ecb")]
    );
    let midnight = format!("{}T00:00:00.000Z", yesterday.strftime("%Y-%m-%d"));
    assert_eq!(date, json!(midnight));
    let euros = converted(&server, &key, "100.00", "EUR").await;
    assert_eq!(euros[..3], [json!("108.00"), json!("1.08"), json!("ecb")]);
    asked(&server, &key, "100.00", "AED").await.expect(422);
    let log = server.log();
    let line = log
        .lines()
        .find(|line| line.contains("exchange rates were taken over"));
    assert!(line.unwrap().contains("AED"), "{log}");

    let wrong = table(yesterday, "0.5");
    let failures = [
        (Reply::Status(500), "answered 500"),
        (
            Reply::Full(302, format!("location: {}\r\n", bank.url()), Vec::new()),
            "redirects are not followed",
        ),
        (Reply::HangUp, "no answer"),
        (Reply::EndlessBody, "more than 64 KiB"),
        (full(&wrong[..wrong.len() / 2]), "it is no XML"),
        (
            full("<html><body>Sorry</body></html>"),
            "the rates of 0 days",
        ),
        (
            full(&wrong.replace("'0.5'", "'0'")),
            "its rate of GBP is no positive decimal",
        ),
        (full(&wrong.replace("'USD'", "'XXX'")), "has no rate of USD"),
        (
            full(&table(yesterday - 2 * DAY, "0.5")),
            "older than those of",
        ),
        (
            full(&table(Timestamp::now() + 2 * DAY, "0.5")),
            "which has not come",
        ),
    ];
    let count = failures.len();
    for (number, (reply, expected)) in failures.into_iter().enumerate() {
        bank.answer(reply);
        at(server.folder(), &bank, &number.to_string());
        let is_said = async || {
            let log = server.log();
            let mut lines = log.lines();
            let said = |line: &str| {
                line.contains("exchange rates were not fetched") && line.contains(expected)
            };
            lines.any(said).then_some(())
        };
        server.wait_for(expected, is_said).await;
        assert_eq!(rate(&server, id, "GBP").await["rate"], "1.2", "{expected}");
    }
    let failed = server
        .counted("kassette_rates_fetch_failures_total", "")
        .await;
    assert!(failed >= count as u64, "{failed}");

    // The gateway fetches automatically again and uses the new rates.
    bank.answer(full(&table(ago(HOUR), "0.8")));
    server.advance(15).await;
    until_rate(&server, id, "1.35").await;

    // After a restart, the last fetched rates apply immediately, although the ECB cannot be reached.
    let folder: Arc<TempDir> = server.stop().await;
    bank.answer(Reply::Status(503));
    let server = Server::in_folder(folder).await;
    assert_eq!(
        converted(&server, &key, "100.00", "GBP").await[..3],
        [json!("135.00"), json!("1.35"), json!("ecb")]
    );

    put(server.folder(), "kassette.toml", "[rates]\necb = false\n");
    let is_gone = async || {
        rate(&server, id, "GBP").await["rate"]
            .is_null()
            .then_some(())
    };
    server.wait_for("no rates", is_gone).await;
    asked(&server, &key, "100.00", "GBP").await.expect(422);
}
