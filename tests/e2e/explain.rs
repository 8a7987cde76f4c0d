//! Why methods are offered: the explanation agrees with the listing.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Server, fresh_folder, merge, new_payment, shared, unique};

async fn merchant(server: &Server, rates: Value) -> (u64, String) {
    let body = json!({ "name": format!("Shop {}", unique()), "fx_rates": rates });
    let made = server.admin("POST", "/merchants", Some(&body)).await;
    let id = made.expect(201).json()["merchant_id"].as_u64().unwrap();
    let path = format!("/merchants/{id}/keys");
    let body = json!({ "environment": "test" });
    let issued = server.admin("POST", &path, Some(&body)).await.expect(201);
    (id, issued.json()["key"].as_str().unwrap().to_owned())
}

async fn policy(server: &Server, merchant: u64, policy: Value) {
    let path = format!("/merchants/{merchant}");
    let body = json!({ "policy": policy });
    server.admin("PATCH", &path, Some(&body)).await.expect(200);
}

/// All methods, each with the reason why it is offered or not.
async fn explain(server: &Server, merchant: u64, query: &str) -> Vec<Value> {
    let path = format!("/explain?merchant_id={merchant}&{query}");
    let explained = server.admin("GET", &path, None).await.expect(200).json();
    explained["methods"].as_array().unwrap().clone()
}

async fn explained(server: &Server, merchant: u64, method: &str, query: &str) -> Value {
    let methods = explain(server, merchant, query).await;
    let mut methods = methods.into_iter();
    methods
        .find(|explained| explained["method_id"] == method)
        .unwrap()
}

fn reason(explained: &Value) -> &str {
    assert_eq!(explained["offered"], false, "{explained}");
    explained["reason"].as_str().unwrap()
}

/// Reason why the account is not eligible.
fn account(explained: &Value, id: &str) -> String {
    let accounts = explained["accounts"].as_array().unwrap();
    let account = accounts.iter().find(|account| account["provider_id"] == id);
    let account = account.unwrap();
    assert_eq!(account["eligible"], false, "{account}");
    account["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_method_is_explained_as_offered_exactly_where_a_listing_shows_it() {
    let server = shared().await;
    let rates = json!({ "EUR": "1.08", "HUF": "0.0026", "PLN": "0.27" });
    let (id, key) = merchant(server, rates).await;
    let (mut offered, mut refused) = (0, 0);
    let policies = [
        json!({}),
        json!({ "methods": { "ideal": { "enabled": false } } }),
        json!({ "methods": { "paypal": { "enabled": true, "min": "20.00", "max": "60.00" } } }),
        json!({ "methods": { "credit_card": { "enabled": true, "providers": [] } } }),
        json!({ "max_usd": "50.00" }),
    ];
    for told in policies {
        policy(server, id, Value::Null).await;
        policy(server, id, told.clone()).await;
        for currency in ["EUR", "USD", "HUF", "PLN", "CAD"] {
            for amount in ["0.01", "10.13", "49.90", "5000.00", "999999.00"] {
                let query = format!("amount={amount}&currency={currency}");
                let path = format!("/api/v1/methods?{query}");
                let listed = server.get(&key, &path).await;
                let listed = match listed.status {
                    200 => listed.json()["methods"].as_array().unwrap().clone(),
                    // There is no rate, or the amount is below one cent.
                    _ => Vec::new(),
                };
                let listed: Vec<_> = listed.iter().map(|method| method["id"].clone()).collect();
                let query = format!("environment=test&{query}");
                let explained = explain(server, id, &query).await;
                let shows = |explained: &&Value| explained["offered"] == true;
                let explained_offered = explained.iter().filter(shows);
                let ids: Vec<_> = explained_offered
                    .map(|explained| explained["method_id"].clone())
                    .collect();
                assert_eq!(ids, listed, "{told} {query}");
                for method in &explained {
                    assert!(!method["reason"].as_str().unwrap().is_empty(), "{method}");
                }
                offered += ids.len();
                refused += explained.len() - ids.len();
            }
        }
    }
    assert!(offered > 100 && refused > 100, "{offered} and {refused}");
}

#[tokio::test]
async fn the_step_at_which_a_method_falls_is_named() {
    let server = Server::fresh().await;
    let (id, _key) = merchant(&server, json!({ "EUR": "1.08" })).await;
    let euros = "environment=test&amount=49.90&currency=EUR";
    let ideal = async |query: &str| explained(&server, id, "ideal", query).await;
    assert_eq!(ideal(euros).await["offered"], true);

    // Restrictions of the payment itself.
    let said = ideal("environment=test&currency=CAD").await;
    assert!(
        reason(&said).contains("no usable exchange rate for CAD"),
        "{said}"
    );
    let said = ideal("environment=live&currency=EUR").await;
    assert!(reason(&said).contains("not approved for live"), "{said}");
    policy(&server, id, json!({ "max_usd": "10.00" })).await;
    let said = ideal(euros).await;
    assert!(reason(&said).contains("max_usd"), "{said}");
    policy(&server, id, json!({ "max_usd": null })).await;

    // Restrictions of the currency and of the policy.
    let said = ideal("environment=test&amount=49.90&currency=USD").await;
    assert!(reason(&said).contains("currency"), "{said}");
    for (told, why) in [
        (json!({ "enabled": false }), "switches it off"),
        (json!({ "enabled": true, "min": "100.00" }), "limits in USD"),
    ] {
        policy(&server, id, json!({ "methods": { "ideal": told } })).await;
        let said = ideal(euros).await;
        assert!(reason(&said).contains(why), "{said}");
    }
    policy(&server, id, Value::Null).await;
    let others = json!({ "methods": { "ideal": { "enabled": true, "providers": [] } } });
    policy(&server, id, others).await;
    let said = ideal(euros).await;
    assert!(reason(&said).contains("no account takes it"), "{said}");
    assert!(account(&said, "sandbox-test").contains("names other accounts"));
    policy(&server, id, Value::Null).await;

    // Limits of the account: the reason is the provider module's text.
    let said = ideal("environment=test&amount=9999999.00&currency=EUR").await;
    reason(&said);
    account(&said, "sandbox-test");

    // A disabled method module and a disabled provider module.
    let switch = async |path: &str| {
        server.admin("POST", path, None).await.expect(200);
    };
    switch("/plugins/method.ideal/disable").await;
    let said = ideal(euros).await;
    assert!(reason(&said).contains("switched its module off"), "{said}");
    switch("/plugins/method.ideal/enable").await;
    switch("/plugins/provider.sandbox/disable").await;
    let said = ideal(euros).await;
    assert!(account(&said, "sandbox-test").contains("provider.sandbox off"));
    switch("/plugins/provider.sandbox/enable").await;
    let off = json!({ "enabled": false });
    let path = "/providers/sandbox-test";
    server.admin("PATCH", path, Some(&off)).await.expect(200);
    let said = ideal(euros).await;
    assert!(
        account(&said, "sandbox-test").contains("switched it off"),
        "{said}"
    );
    let on = json!({ "enabled": true });
    server.admin("PATCH", path, Some(&on)).await.expect(200);
    assert_eq!(ideal(euros).await["offered"], true);
}

#[tokio::test]
async fn a_question_that_names_no_merchant_or_environment_is_refused() {
    let server = shared().await;
    for (query, status, field) in [
        ("environment=test", 422, "merchant_id"),
        ("merchant_id=1", 422, "environment"),
        ("merchant_id=1&environment=test&amount=1", 422, "amount"),
        (
            "merchant_id=1&environment=test&currency=eur",
            422,
            "currency",
        ),
        ("merchant_id=1&environment=test&method=ideal", 422, "method"),
        ("merchant_id=999999&environment=test", 404, "merchant"),
    ] {
        let path = format!("/explain?{query}");
        let refused = server.admin("GET", &path, None).await.expect(status);
        assert!(refused.error().contains(field), "{query}: {}", refused.text);
    }
}

#[tokio::test]
async fn a_refused_create_and_a_refused_start_leave_the_same_reason_at_debug() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    command.env("RUST_LOG", "info,kassette_gateway::explain=debug");
    let server = Server::through(command, fresh_folder()).await;
    let (id, key) = merchant(&server, json!({ "EUR": "1.08" })).await;
    let told_of = |what: &str| {
        let log = server.log();
        let lines = log
            .lines()
            .filter(|line| line.contains(what) && line.contains(&format!("merchant.id={id}")));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let told = || told_of("a method was refused");
    let by_ideal = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let made = server.create(&key, by_ideal).await;
    let off = json!({ "methods": { "ideal": { "enabled": false } } });
    policy(&server, id, off).await;
    let mut direct = new_payment();
    merge(
        &mut direct,
        json!({ "checkout_mode": "direct", "payment_method": "ideal" }),
    );
    let query = "environment=test&amount=20.00&currency=EUR";
    let why = reason(&explained(&server, id, "ideal", query).await).to_owned();
    assert!(told().is_empty(), "{:?}", told());

    let refused = server.post(&key, "/api/v1/payments", &direct).await;
    refused.expect(422).error();
    let create = server.wait_for("the line of the create", async || told().first().cloned());
    let create = create.await;
    assert!(create.contains(&why), "{why}: {create}");
    server.start(&key, &made, "ideal").await.expect(422);
    let start = server.wait_for("the line of the start", async || told().get(1).cloned());
    let start = start.await;
    assert!(start.contains(&why), "{why}: {start}");

    // No method accepts the amount, so every method gets a reason.
    policy(&server, id, json!({ "max_usd": "5.00" })).await;
    let why = reason(&explained(&server, id, "paypal", query).await).to_owned();
    merge(&mut direct, json!({ "payment_method": "paypal" }));
    let refused = server.post(&key, "/api/v1/payments", &direct).await;
    refused.expect(422).error();
    let line = server.wait_for("the line of the payment", async || {
        told_of("a payment was refused").first().cloned()
    });
    let line = line.await;
    assert!(line.contains(&why), "{why}: {line}");
}
