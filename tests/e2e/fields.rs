//! Valid values of each field and parameter, and the content of the method listing.

use serde_json::{Value, json};

use crate::harness::{new_payment, shared, unique};
use crate::requests::create_with;

const PAYMENTS: &str = "/api/v1/payments";

#[tokio::test]
async fn unknown_fields_are_named() {
    let server = shared().await;
    for field in ["wallet", "risk_override", "Amount"] {
        let answer = create_with(server, json!({ field: "x" })).await.expect(422);
        assert!(answer.error().contains(field));
    }
}

#[tokio::test]
async fn null_is_absence_where_a_field_is_optional_and_wrong_where_it_is_required() {
    let server = shared().await;
    let optional = json!({
        "currency": null, "checkout_mode": null, "payment_method": null, "customer_email": null, "return_url": null,
    });
    let payment = create_with(server, optional).await.expect(201).json();
    assert_eq!(payment["currency"], "USD");
    for field in ["order_id", "idempotency_key", "amount"] {
        let answer = create_with(server, json!({ field: null }))
            .await
            .expect(422);
        assert!(answer.error().contains(field));
        let mut body = new_payment();
        body.as_object_mut().unwrap().remove(field);
        let answer = server
            .post(server.test_key(), PAYMENTS, &body)
            .await
            .expect(422);
        assert!(answer.error().contains(field));
    }
}

#[tokio::test]
async fn every_field_has_its_rule() {
    let server = shared().await;
    let wrong = [
        ("order_id", json!("")),
        ("order_id", json!("é".repeat(151))),
        ("order_id", json!("   ")),
        ("order_id", json!("\u{200B}\u{FE0F}\u{3164}")),
        ("order_id", json!("a\u{202E}b")),
        ("order_id", json!("a\u{0}b")),
        ("order_id", json!(7)),
        ("idempotency_key", json!("short12")),
        ("idempotency_key", json!("k".repeat(191))),
        ("idempotency_key", json!("with space")),
        ("amount", json!(49.90)),
        ("amount", json!(49)),
        ("amount", json!("49.9")),
        ("amount", json!("49.900")),
        ("amount", json!("0.00")),
        ("amount", json!("-1.00")),
        ("amount", json!("01.00")),
        ("amount", json!("1e2")),
        ("amount", json!("10000000000.00")),
        ("amount", json!("1,00")),
        ("currency", json!("eur")),
        ("currency", json!("JPY")),
        ("currency", json!("")),
        ("checkout_mode", json!("redirect")),
        ("payment_method", json!("cash")),
        ("customer_email", json!("nobody")),
        (
            "customer_email",
            json!(format!("{}@example.com", "a".repeat(250))),
        ),
        ("return_url", json!("http://shop.example/")),
        ("return_url", json!("https://user@shop.example/")),
        ("return_url", json!("https://shop.example:8443/")),
        ("return_url", json!("https://shop.example./")),
        ("return_url", json!("https://127.0.0.1/")),
        ("return_url", json!("https://shop.example\\@evil.test/")),
        ("return_url", json!("https://elsewhere.example/")),
        ("return_url", json!("https://sub.shop.example/")),
        (
            "return_url",
            json!(format!("https://shop.example/{}", "a".repeat(2048))),
        ),
    ];
    for (field, value) in wrong {
        let answer = create_with(server, json!({ field: value })).await;
        assert_eq!(answer.status, 422, "{field} {value}: {}", answer.text);
        assert!(answer.error().contains(field), "{field}: {}", answer.text);
    }
    for (field, value) in [
        ("order_id", json!("é".repeat(150))),
        ("order_id", json!(" Nº 7 \u{1F600}")),
        ("idempotency_key", json!(format!("{:x<190}", unique()))),
        ("amount", json!("0.01")),
        ("amount", json!("9999999999.99")),
        ("return_url", json!("https://Shop.Example:443/x")),
    ] {
        let answer = create_with(server, json!({ field: value, "currency": "USD" })).await;
        assert_eq!(answer.status, 201, "{field} {value}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_method_must_fit_its_fixed_currency_and_direct_needs_one() {
    let server = shared().await;
    let direct = |method: &str, currency: &str| json!({ "checkout_mode": "direct", "payment_method": method, "currency": currency });
    create_with(server, json!({ "checkout_mode": "direct" }))
        .await
        .expect(422);
    for (method, currency) in [
        ("upi_imps", "EUR"),
        ("interac", "USD"),
        ("ideal", "USD"),
        ("venmo", "EUR"),
    ] {
        create_with(server, direct(method, currency))
            .await
            .expect(422)
            .error();
    }
    for (method, currency) in [
        ("upi_imps", "INR"),
        ("interac", "CAD"),
        ("ideal", "EUR"),
        ("venmo", "USD"),
    ] {
        let payment = create_with(server, direct(method, currency))
            .await
            .expect(201)
            .json();
        assert_eq!(payment["payment_method"], method, "direct fixes it");
    }
    let preselected = json!({ "payment_method": "ideal", "currency": "EUR" });
    let payment = create_with(server, preselected).await.expect(201).json();
    assert_eq!(
        payment["payment_method"],
        Value::Null,
        "hosted only preselects"
    );
    create_with(
        server,
        json!({ "payment_method": "interac", "currency": "EUR" }),
    )
    .await
    .expect(422);
}

#[tokio::test]
async fn query_parameters_are_known_and_single() {
    let server = shared().await;
    let key = server.test_key();
    for path in [
        "/api/v1/methods?colour=red",
        "/api/v1/methods?amount=1.00&amount=2.00",
        "/api/v1/methods?amount=abc",
        "/api/v1/methods?amount=0.00",
        "/api/v1/methods?currency=eur",
    ] {
        server.get(key, path).await.expect(422).error();
    }
    let answer = server
        .post(key, "/api/v1/payments?x=1", &new_payment())
        .await
        .expect(422);
    answer.error();
    let payment = server.create(key, json!({})).await;
    let id = payment["payment_id"].as_str().unwrap();
    server
        .get(key, &format!("/api/v1/payments/{id}?x=1"))
        .await
        .expect(422);
    server
        .get(key, "/api/v1/methods?amount=10.00&currency=EUR")
        .await
        .expect(200);
}

#[tokio::test]
async fn the_listing_is_ordered_and_limited_as_routing_is() {
    let server = shared().await;
    let ids = async |query: &str| -> Vec<String> {
        let body = server
            .get(server.test_key(), &format!("/api/v1/methods{query}"))
            .await
            .expect(200)
            .json();
        let methods = body["methods"].as_array().unwrap().clone();
        for method in &methods {
            assert!(method["label"].is_string());
            let provider = &method["providers"][0];
            assert_eq!(provider["id"], "sandbox-test");
            assert!(provider["name"].is_string());
            assert!(
                provider
                    .as_object()
                    .unwrap()
                    .contains_key("verification_url")
            );
            assert!(
                provider
                    .as_object()
                    .unwrap()
                    .contains_key("verification_note")
            );
        }
        methods
            .iter()
            .map(|method| method["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let usd = ids("").await;
    assert!(usd.contains(&"venmo".to_owned()) && usd.contains(&"cash_app".to_owned()));
    assert!(!usd.contains(&"ideal".to_owned()) && !usd.contains(&"upi_imps".to_owned()));
    let inr = ids("?currency=INR&amount=100.00").await;
    assert!(inr.contains(&"upi_imps".to_owned()) && !inr.contains(&"interac".to_owned()));
    let large = ids("?currency=INR&amount=9999999.00").await;
    assert!(
        !large.contains(&"upi_imps".to_owned()),
        "over the scheme's limit, in test too"
    );
    assert!(
        ids("?currency=CAD&amount=50.00")
            .await
            .contains(&"interac".to_owned())
    );
}

#[tokio::test]
async fn the_listing_follows_the_merchants_policy() {
    let server = shared().await;
    let policy = json!({ "methods": {
        "paypal": { "enabled": false },
        "ideal": { "min": "10.00", "max": "100.00" },
        "revolut": { "providers": ["sandbox-live"] },
    } });
    let (_, test, live) = server.merchant(policy).await;
    let ids = async |key: &str, query: &str| -> Vec<String> {
        let path = format!("/api/v1/methods?currency=EUR{query}");
        let body = server.get(key, &path).await.expect(200).json();
        let methods = body["methods"].as_array().unwrap().iter();
        methods
            .map(|method| method["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let has = |ids: &[String], id: &str| ids.iter().any(|each| each == id);
    let any = ids(&test, "").await;
    assert!(has(&any, "ideal"), "without an amount no limit applies");
    assert!(has(&any, "credit_card") && !has(&any, "paypal"));
    assert!(
        !has(&any, "revolut"),
        "a method without an account is left out"
    );
    assert!(has(&ids(&live, "").await, "revolut"));
    // Limits are in USD: 9.00 EUR are 9.72, and 93.00 EUR are 100.44.
    for (amount, offered) in [
        ("9.00", false),
        ("10.00", true),
        ("92.00", true),
        ("93.00", false),
    ] {
        let ids = ids(&test, &format!("&amount={amount}")).await;
        assert_eq!(has(&ids, "ideal"), offered, "{amount}");
    }
}

#[tokio::test]
async fn subdomains_are_verified_where_the_operator_says_so() {
    let server = shared().await;
    let (id, key, _) = server.merchant(json!({})).await;
    let domain = format!("shop{}.example", unique());
    let path = format!("/merchants/{id}/domains");
    let body = json!({ "domain": domain, "include_subdomains": true });
    server.admin("POST", &path, Some(&body)).await.expect(201);
    for suffix in ["com", "co.uk", "10.0.0.1"] {
        let body = json!({ "domain": suffix });
        server
            .admin("POST", &path, Some(&body))
            .await
            .expect(422)
            .error();
    }
    for (host, status) in [
        (domain.clone(), 201),
        (format!("a.b.{domain}"), 201),
        (format!("evil{domain}"), 422),
        (format!("{domain}.evil.example"), 422),
    ] {
        let mut body = new_payment();
        body["return_url"] = json!(format!("https://{host}/done"));
        let answer = server.post(&key, PAYMENTS, &body).await;
        assert_eq!(answer.status, status, "{host}: {}", answer.text);
    }
}
