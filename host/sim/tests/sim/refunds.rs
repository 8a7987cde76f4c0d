//! Refunds at the providers' own addresses, requested like their client libraries do, including features that the
//! gateway's modules do not use.
use kassette_sim::{Environment, Fault, RefundState, Sim};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Clock, account, client, config, documented};

/// A simulated account of one provider with a paid payment of 49.90.
struct Paid {
    sim: Sim,
    clock: Clock,
    http: Client,
    module: &'static str,
    /// The payment's id at the provider's API.
    payment: String,
    _folder: TempDir,
}

impl Paid {
    async fn at(module: &'static str, method: Method<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new();
        let mut config = config(folder.path(), &clock);
        let mut account = account(module, Environment::Test);
        account.module = module.into();
        config.accounts = vec![account];
        let mut paid = Self {
            sim: Sim::start(config).await.unwrap(),
            clock,
            http: client(),
            module,
            payment: String::new(),
            _folder: folder,
        };
        let created = paid.post(method.path, &method.body).await;
        assert!(created.0.is_success(), "{created:?}");
        let page = created.1.pointer(method.page).unwrap().as_str().unwrap();
        let token = page.rsplit('/').next().unwrap();
        let url = format!("http://{}/{module}/pay", paid.sim.addr());
        let form = [("session", token), ("outcome", "approve")];
        let chosen = paid.http.post(url).form(&form).send().await.unwrap();
        assert_eq!(chosen.status(), 303);
        paid.sim.clock_moved();
        paid.payment = paid.sim.books(module).unwrap()[0].reference.clone();
        paid
    }

    async fn authorised(&self, request: RequestBuilder) -> RequestBuilder {
        match self.module {
            "stripe" => request.bearer_auth("sk_test_key-of-stripe"),
            "mollie" => request.bearer_auth("test_key-of-mollie"),
            "paypal" => request.bearer_auth(self.token().await),
            "razorpay" => {
                request.basic_auth("rzp_test_client-of-razorpay", Some("key-of-razorpay"))
            }
            "revolut" => request
                .bearer_auth("sk_key-of-revolut")
                .header("revolut-api-version", "2026-04-20"),
            _ => request.header("x-api-key", "AQEkey-of-adyen"),
        }
    }

    /// An access token for PayPal.
    async fn token(&self) -> String {
        let asked = self.http.post(self.url("/v1/oauth2/token"));
        let asked = asked.basic_auth("client-of-paypal", Some("key-of-paypal"));
        let form = [("grant_type", "client_credentials")];
        let told: Value = asked
            .form(&form)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        told["access_token"].as_str().unwrap().to_owned()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.sim.api_addr(self.module).unwrap())
    }

    async fn send(&self, request: RequestBuilder) -> (StatusCode, Value) {
        let answer = self.authorised(request).await.send().await.unwrap();
        let status = answer.status();
        (status, documented(answer.json().await.unwrap_or_default()))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, told) = self.send(self.http.get(self.url(path))).await;
        assert_eq!(status, 200, "{told}");
        told
    }

    /// Posts a form to Stripe, JSON to others, without an idempotency key.
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.http.post(self.url(path));
        let request = if self.module == "stripe" {
            request.form(body)
        } else {
            request.json(body)
        };
        self.send(request).await
    }

    fn refunded(&self) -> String {
        self.sim.books(self.module).unwrap()[0].refunded.clone()
    }
}

/// The creation of a payment at a provider, and the location of its page in the answer.
struct Method<'a> {
    path: &'a str,
    body: Value,
    page: &'a str,
}

fn stripe(kind: &str) -> Method<'static> {
    Method {
        path: "/v1/checkout/sessions",
        body: json!({
            "mode": "payment", "success_url": "https://shop.example/thanks",
            "line_items[0][quantity]": 1,
            "line_items[0][price_data][currency]": "eur",
            "line_items[0][price_data][unit_amount]": 4990,
            "line_items[0][price_data][product_data][name]": "A chair",
            "payment_method_types[0]": kind,
        }),
        page: "/url",
    }
}

fn mollie() -> Method<'static> {
    Method {
        path: "/v2/payments",
        body: json!({
            "amount": { "value": "49.90", "currency": "EUR" }, "description": "A chair",
            "redirectUrl": "https://shop.example/thanks", "metadata": { "cart": [7] },
        }),
        page: "/_links/checkout/href",
    }
}

fn adyen() -> Method<'static> {
    Method {
        path: "/v72/paymentLinks",
        body: json!({
            "merchantAccount": "client-of-adyenECOM", "reference": "chair",
            "amount": { "value": 4990, "currency": "EUR" }, "shopperReference": "shopper-1",
            "allowedPaymentMethods": ["ideal"],
        }),
        page: "/url",
    }
}

#[tokio::test]
async fn stripe_creates_reads_lists_changes_and_cancels_refunds() {
    let w = Paid::at("stripe", stripe("ideal")).await;
    let payment = w.payment.replacen("cs_test_", "pi_", 1);
    let refund = |fields: &Value| {
        let mut body = json!({ "payment_intent": payment });
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        body
    };
    let asked = refund(&json!({ "amount": 990, "reason": "duplicate", "metadata[cart]": "7" }));
    let (status, made) = w.post("/v1/refunds", &asked).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(
        (&made["status"], &made["amount"]),
        (&json!("pending"), &json!(990))
    );
    assert_eq!(made["metadata"], json!({ "cart": "7" }));
    let id = made["id"].as_str().unwrap();
    let (_, changed) = w
        .post(
            &format!("/v1/refunds/{id}"),
            &json!({ "metadata[note]": "x" }),
        )
        .await;
    assert_eq!(changed["metadata"], json!({ "cart": "7", "note": "x" }));
    let (status, cancelled) = w
        .post(&format!("/v1/refunds/{id}/cancel"), &json!({}))
        .await;
    assert_eq!(
        (status, &cancelled["status"]),
        (StatusCode::OK, &json!("canceled"))
    );
    let (status, _) = w
        .post(&format!("/v1/refunds/{id}/cancel"), &json!({}))
        .await;
    assert_eq!(status, 400);
    // Without an amount the rest is refunded.
    let (_, whole) = w.post("/v1/refunds", &refund(&json!({}))).await;
    assert_eq!(whole["amount"], 4990);
    w.clock.advance(2_000);
    w.sim.clock_moved();
    let told = w
        .get(&format!("/v1/refunds/{}", whole["id"].as_str().unwrap()))
        .await;
    assert_eq!(told["status"], "succeeded");
    assert_eq!(w.refunded(), "49.90");
    let listed = w
        .get(&format!("/v1/refunds?payment_intent={payment}&limit=1"))
        .await;
    assert_eq!(
        (&listed["data"][0]["id"], &listed["has_more"]),
        (&whole["id"], &json!(true))
    );
    let after = whole["id"].as_str().unwrap();
    let listed = w
        .get(&format!("/v1/refunds?limit=10&starting_after={after}"))
        .await;
    assert_eq!(
        (&listed["data"][0]["id"], &listed["has_more"]),
        (&made["id"], &json!(false))
    );
    for (fields, code) in [
        (json!({}), json!("charge_already_refunded")),
        (json!({ "amount": 0 }), json!("parameter_invalid_integer")),
        (json!({ "size": 1 }), json!("parameter_unknown")),
    ] {
        let (status, refused) = w.post("/v1/refunds", &refund(&fields)).await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (StatusCode::BAD_REQUEST, &code)
        );
    }
    let unknown = json!({ "payment_intent": "pi_unknown" });
    assert_eq!(w.post("/v1/refunds", &unknown).await.0, 404);
}

#[tokio::test]
async fn mollie_creates_reads_lists_and_cancels_refunds() {
    let w = Paid::at("mollie", mollie()).await;
    let payment = w.get(&format!("/v2/payments/{}", w.payment)).await;
    assert_eq!(payment["metadata"], json!({ "cart": [7] }));
    let refunds = format!("/v2/payments/{}/refunds", w.payment);
    let euros = |value: &str| json!({ "amount": { "value": value, "currency": "EUR" } });
    w.sim.set_fault("mollie", Fault::RefundLate, 1).unwrap();
    let (status, queued) = w.post(&refunds, &euros("9.90")).await;
    assert_eq!(
        (status, &queued["status"]),
        (StatusCode::CREATED, &json!("queued"))
    );
    let one = format!("{refunds}/{}", queued["id"].as_str().unwrap());
    let delete = || w.send(w.http.delete(w.url(&one)));
    assert_eq!(delete().await.0, 204);
    assert_eq!(delete().await.0, 422);
    assert_eq!(w.get(&one).await["status"], "canceled");
    let (_, made) = w.post(&refunds, &euros("10.00")).await;
    assert_eq!(made["status"], "pending");
    let payment = w
        .get(&format!(
            "/v2/payments/{}?embed=refunds&include=",
            w.payment
        ))
        .await;
    assert_eq!(payment["amountRefunded"]["value"], "10.00");
    assert_eq!(payment["amountRemaining"]["value"], "39.90");
    assert_eq!(payment["_embedded"]["refunds"].as_array().unwrap().len(), 2);
    for list in [refunds.as_str(), "/v2/refunds"] {
        let listed = w.get(&format!("{list}?limit=1")).await;
        assert_eq!(listed["count"], 1);
        let next = listed["_links"]["next"]["href"].as_str().unwrap();
        assert!(next.contains("from="), "{next}");
    }
    for (asked, status) in [
        (euros("39.91"), 422),
        (json!({}), 422),
        (euros("39.90"), 201),
    ] {
        assert_eq!(w.post(&refunds, &asked).await.0, status, "{asked}");
    }
    assert_eq!(
        w.post("/v2/payments/tr_0/refunds", &euros("1.00")).await.0,
        404
    );
}

#[tokio::test]
async fn adyen_takes_every_refund_in_and_makes_those_that_can_be() {
    let w = Paid::at("adyen", adyen()).await;
    let payment = w.payment.trim_start_matches("PL");
    let path = format!("/v72/payments/{payment}/refunds");
    let ask = async |value: u64, currency: &str| {
        let body = json!({
            "merchantAccount": "client-of-adyenECOM",
            "amount": { "value": value, "currency": currency },
        });
        w.post(&path, &body).await
    };
    for value in [4_000, 1_000] {
        let (status, told) = ask(value, "EUR").await;
        assert_eq!(
            (status, &told["status"]),
            (StatusCode::CREATED, &json!("received"))
        );
    }
    w.clock.advance(2_000);
    w.sim.clock_moved();
    let refunds = &w.sim.books("adyen").unwrap()[0].refunds;
    let states: Vec<RefundState> = refunds.iter().map(|refund| refund.state).collect();
    assert_eq!(states, [RefundState::Succeeded, RefundState::Failed]);
    assert_eq!(w.refunded(), "40.00");
    assert_eq!(ask(1_000, "USD").await.0, 422);
    assert_eq!(ask(0, "EUR").await.0, 422);
}

fn paypal() -> Method<'static> {
    Method {
        path: "/v2/checkout/orders",
        body: json!({
            "intent": "CAPTURE",
            "purchase_units": [{
                "amount": {
                    "currency_code": "EUR", "value": "49.90",
                    "breakdown": { "item_total": { "currency_code": "EUR", "value": "49.90" } },
                },
                "items": [{ "name": "A chair", "quantity": "1" }], "soft_descriptor": "CHAIRS",
            }],
            "application_context": { "landing_page": "LOGIN", "locale": "de-DE" },
        }),
        page: "/links/1/href",
    }
}

#[tokio::test]
async fn paypal_gives_captures_back_and_says_why_not() {
    let w = Paid::at("paypal", paypal()).await;
    let order = format!("/v2/checkout/orders/{}", w.payment);
    let patches = json!([
        { "op": "replace", "path": "/purchase_units/@reference_id=='default'/custom_id", "value": "c-7" },
        { "op": "add", "path": "/purchase_units/@reference_id=='default'/description", "value": "A chair" },
    ]);
    let patched = w.send(w.http.patch(w.url(&order)).json(&patches)).await;
    assert_eq!(patched.0, 204, "{patched:?}");
    // Neither a body nor a request id.
    let captured = w
        .send(w.http.post(w.url(&format!("{order}/capture"))))
        .await;
    assert_eq!(captured.0, 201, "{captured:?}");
    let told = w.get(&order).await;
    let capture = &told["purchase_units"][0]["payments"]["captures"][0];
    assert_eq!(capture["custom_id"], "c-7");
    let path = format!(
        "/v2/payments/captures/{}/refund",
        capture["id"].as_str().unwrap()
    );
    let ask = async |key: &str, body: Value| {
        let asked = w.http.post(w.url(&path)).header("paypal-request-id", key);
        let (status, told) = w
            .send(asked.header("prefer", "return=representation").json(&body))
            .await;
        (status.as_u16(), told)
    };
    let euros = |value: &str| json!({ "currency_code": "EUR", "value": value });
    let part = json!({ "amount": euros("9.90"), "invoice_id": "i-7", "note_to_payer": "Broken" });
    w.sim.set_fault("paypal", Fault::RefundLate, 1).unwrap();
    let (status, made) = ask("k-1", part.clone()).await;
    assert_eq!((status, &made["status"]), (201, &json!("PENDING")));
    assert_eq!(
        (&made["invoice_id"], &made["note_to_payer"]),
        (&json!("i-7"), &json!("Broken"))
    );
    w.sim.clock_moved();
    let (status, again) = ask("k-1", part.clone()).await;
    assert_eq!(
        (status, &again["id"], &again["status"]),
        (200, &made["id"], &json!("COMPLETED"))
    );
    let one = format!("/v2/payments/refunds/{}", made["id"].as_str().unwrap());
    assert_eq!(w.get(&one).await, again);
    for (key, body, issue) in [
        (
            "k-1",
            json!({ "amount": euros("1.00") }),
            "DUPLICATE_REQUEST_ID",
        ),
        ("k-2", part.clone(), "DUPLICATE_INVOICE_ID"),
        (
            "k-3",
            json!({ "amount": euros("40.01") }),
            "REFUND_AMOUNT_EXCEEDED",
        ),
        (
            "k-4",
            json!({ "amount": euros("0.00") }),
            "CANNOT_BE_ZERO_OR_NEGATIVE",
        ),
    ] {
        let (status, told) = ask(key, body).await;
        assert_eq!((status, &told["details"][0]["issue"]), (422, &json!(issue)));
    }
    w.sim.set_fault("paypal", Fault::RefundRefused, 1).unwrap();
    let (_, refused) = ask("k-5", json!({})).await;
    assert_eq!(
        refused["details"][0]["issue"],
        "REFUND_FAILED_INSUFFICIENT_FUNDS"
    );
    // Without an amount the rest is refunded.
    assert_eq!(ask("k-6", json!({})).await.1["amount"], euros("40.00"));
    let (_, refused) = ask("k-7", json!({})).await;
    assert_eq!(refused["details"][0]["issue"], "CAPTURE_FULLY_REFUNDED");
    assert_eq!(w.refunded(), "49.90");
    // A request id is forgotten after 45 days, the invoice id never.
    w.clock.advance(46 * 86_400_000);
    assert_eq!(
        ask("k-1", part).await.1["details"][0]["issue"],
        "DUPLICATE_INVOICE_ID"
    );
}

#[tokio::test]
async fn paypal_gives_nothing_back_after_180_days() {
    let w = Paid::at("paypal", paypal()).await;
    let capture = format!("/v2/checkout/orders/{}/capture", w.payment);
    assert_eq!(w.post(&capture, &json!({})).await.0, 201);
    w.clock.advance(181 * 86_400_000);
    let id = w.payment.replacen('5', "3", 1);
    let path = format!("/v2/payments/captures/{id}/refund");
    let (status, told) = w.post(&path, &json!({})).await;
    assert_eq!(
        (status.as_u16(), &told["details"][0]["issue"]),
        (422, &json!("REFUND_TIME_LIMIT_EXCEEDED"))
    );
}

#[tokio::test]
async fn razorpay_creates_reads_lists_and_changes_refunds() {
    let method = Method {
        path: "/v1/payment_links",
        body: json!({
            "amount": 4990, "currency": "INR", "customer": { "name": "A payer" }, "notes": { "cart": 7 },
            "notify": { "sms": true, "whatsapp": false },
        }),
        page: "/short_url",
    };
    let w = Paid::at("razorpay", method).await;
    let links = w.get("/v1/payment_links?count=5&skip=0").await;
    assert_eq!(links["payment_links"][0]["notes"], json!({ "cart": 7 }));
    let payment = w.payment.replacen("plink_", "pay_", 1);
    let path = format!("/v1/payments/{payment}/refund");
    let ask = async |key: &str, body: Value| {
        let asked = w
            .http
            .post(w.url(&path))
            .header("x-refund-idempotency", key);
        let (status, told) = w.send(asked.json(&body)).await;
        (status.as_u16(), told)
    };
    let part =
        json!({ "amount": 990, "receipt": "r-7", "speed": "normal", "notes": { "why": "broken" } });
    let (status, made) = ask("key-number-1", part.clone()).await;
    assert_eq!((status, &made["status"]), (200, &json!("processed")));
    assert_eq!(
        (&made["receipt"], &made["notes"]),
        (&json!("r-7"), &json!({ "why": "broken" }))
    );
    assert_eq!(ask("key-number-1", part).await, (200, made.clone()));
    for (key, body, why) in [
        (
            "key-number-1",
            json!({ "amount": 100 }),
            "Different request",
        ),
        ("short", json!({ "amount": 100 }), "key is invalid"),
        ("key-number-2", json!({ "amount": 4001 }), "greater than"),
        ("key-number-3", json!({ "amount": 99 }), "atleast INR 1.00"),
    ] {
        let (status, told) = ask(key, body).await;
        let described = told["error"]["description"].as_str().unwrap();
        assert!(status == 400 && described.contains(why), "{described}");
    }
    let id = made["id"].as_str().unwrap();
    let one = format!("/v1/refunds/{id}");
    let change = json!({ "notes": { "why": "late" } });
    let (status, changed) = w.send(w.http.patch(w.url(&one)).json(&change)).await;
    assert_eq!(
        (status.as_u16(), &changed["notes"]),
        (200, &change["notes"])
    );
    assert_eq!(w.get(&one).await, changed);
    assert_eq!(
        w.get(&format!("/v1/payments/{payment}/refunds/{id}")).await,
        changed
    );
    // Without a body the rest is refunded.
    let (_, whole) = w.send(w.http.post(w.url(&path))).await;
    assert_eq!(whole["amount"], 4000);
    for list in [
        format!("/v1/payments/{payment}/refunds"),
        "/v1/refunds".into(),
    ] {
        let listed = w.get(&format!("{list}?count=10&from=1&skip=1")).await;
        assert_eq!(listed["items"], json!([changed]), "{list}");
    }
    let (_, told) = ask("key-number-4", json!({})).await;
    assert!(
        told["error"]["description"]
            .as_str()
            .unwrap()
            .contains("fully refunded")
    );
    assert_eq!(w.refunded(), "49.90");
}

#[tokio::test]
async fn revolut_makes_an_order_of_each_refund_of_declined_ones_too() {
    let method = Method {
        path: "/api/orders",
        body: json!({ "amount": 4990, "currency": "EUR", "merchant_order_data": { "reference": "chair" } }),
        page: "/checkout_url",
    };
    let w = Paid::at("revolut", method).await;
    let path = format!("/api/orders/{}/refund", w.payment);
    let ask = async |key: &str, body: Value| {
        let asked = w.http.post(w.url(&path)).header("idempotency-key", key);
        let (status, told) = w.send(asked.json(&body)).await;
        (status.as_u16(), told)
    };
    let of = |amount: u64| {
        json!({ "amount": amount, "currency": "EUR", "merchant_order_data": { "reference": "chair" },
            "metadata": { "number": "7" } })
    };
    let (status, made) = ask("k-1", of(990)).await;
    assert_eq!((status, &made["state"]), (201, &json!("processing")));
    assert_eq!(
        (&made["type"], &made["metadata"]),
        (&json!("refund"), &json!({ "number": "7" }))
    );
    assert_eq!(ask("k-1", of(990)).await, (201, made.clone()));
    w.clock.advance(2_000);
    w.sim.clock_moved();
    let one = format!("/api/orders/{}", made["id"].as_str().unwrap());
    assert_eq!(w.get(&one).await["state"], "completed");
    let order = w.get(&format!("/api/orders/{}", w.payment)).await;
    assert_eq!(order["refunded_amount"], 990);
    for (key, body, status) in [
        ("k-1", of(1), 409),
        ("k-2", of(4001), 422),
        ("k-3", of(0), 422),
        ("k-4", json!({ "amount": 1, "currency": "USD" }), 422),
    ] {
        assert_eq!(ask(key, body).await.0, status, "{key}");
    }
    w.sim.set_fault("revolut", Fault::RefundRefused, 1).unwrap();
    assert_eq!(ask("k-5", of(4000)).await.0, 400);
    let listed = w
        .get("/api/orders?merchant_order_data_reference=chair")
        .await;
    let states: Vec<(&Value, &Value)> = listed["orders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|order| (&order["type"], &order["state"]))
        .collect();
    let expected = [
        ("refund", "failed"),
        ("refund", "completed"),
        ("payment", "completed"),
    ];
    let expected = expected.map(|(kind, state)| (json!(kind), json!(state)));
    let expected: Vec<(&Value, &Value)> =
        expected.iter().map(|(kind, state)| (kind, state)).collect();
    assert_eq!(states, expected);
    assert_eq!(w.refunded(), "9.90");
}
