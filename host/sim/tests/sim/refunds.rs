//! Refunds at vendors' own addresses, asked for as their client libraries do: what the gateway's modules
//! do not need of them too.
use kassette_sim::{Environment, Fault, RefundState, Sim};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Clock, account, client, config};

/// A simulated account of one vendor with a payment of 49.90 that was paid.
struct Paid {
    sim: Sim,
    clock: Clock,
    http: Client,
    module: &'static str,
    /// As the vendor's API names the payment.
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

    fn authorised(&self, request: RequestBuilder) -> RequestBuilder {
        match self.module {
            "stripe" => request.bearer_auth("sk_test_key-of-stripe"),
            "mollie" => request.bearer_auth("test_key-of-mollie"),
            _ => request.header("x-api-key", "AQEkey-of-adyen"),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.sim.api_addr(self.module).unwrap())
    }

    async fn send(&self, request: RequestBuilder) -> (StatusCode, Value) {
        let answer = self.authorised(request).send().await.unwrap();
        let status = answer.status();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, told) = self.send(self.http.get(self.url(path))).await;
        assert_eq!(status, 200, "{told}");
        told
    }

    /// A form at Stripe, JSON elsewhere; no idempotency key.
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

/// How a payment is made at a vendor, and where its page stands in the answer.
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
    assert_eq!((&made["status"], &made["amount"]), (&json!("pending"), &json!(990)));
    assert_eq!(made["metadata"], json!({ "cart": "7" }));
    let id = made["id"].as_str().unwrap();
    let (_, changed) = w
        .post(&format!("/v1/refunds/{id}"), &json!({ "metadata[note]": "x" }))
        .await;
    assert_eq!(changed["metadata"], json!({ "cart": "7", "note": "x" }));
    let (status, cancelled) = w.post(&format!("/v1/refunds/{id}/cancel"), &json!({})).await;
    assert_eq!((status, &cancelled["status"]), (StatusCode::OK, &json!("canceled")));
    let (status, _) = w.post(&format!("/v1/refunds/{id}/cancel"), &json!({})).await;
    assert_eq!(status, 400);
    // Without an amount all that is left.
    let (_, whole) = w.post("/v1/refunds", &refund(&json!({}))).await;
    assert_eq!(whole["amount"], 4990);
    w.clock.advance(2_000);
    w.sim.clock_moved();
    let told = w.get(&format!("/v1/refunds/{}", whole["id"].as_str().unwrap())).await;
    assert_eq!(told["status"], "succeeded");
    assert_eq!(w.refunded(), "49.90");
    let listed = w.get(&format!("/v1/refunds?payment_intent={payment}&limit=1")).await;
    assert_eq!((&listed["data"][0]["id"], &listed["has_more"]), (&whole["id"], &json!(true)));
    let after = whole["id"].as_str().unwrap();
    let listed = w.get(&format!("/v1/refunds?limit=10&starting_after={after}")).await;
    assert_eq!((&listed["data"][0]["id"], &listed["has_more"]), (&made["id"], &json!(false)));
    for (fields, code) in [
        (json!({}), json!("charge_already_refunded")),
        (json!({ "amount": 0 }), json!("parameter_invalid_integer")),
        (json!({ "size": 1 }), json!("parameter_unknown")),
    ] {
        let (status, refused) = w.post("/v1/refunds", &refund(&fields)).await;
        assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &code));
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
    assert_eq!((status, &queued["status"]), (StatusCode::CREATED, &json!("queued")));
    let one = format!("{refunds}/{}", queued["id"].as_str().unwrap());
    let delete = || w.send(w.http.delete(w.url(&one)));
    assert_eq!(delete().await.0, 204);
    assert_eq!(delete().await.0, 422);
    assert_eq!(w.get(&one).await["status"], "canceled");
    let (_, made) = w.post(&refunds, &euros("10.00")).await;
    assert_eq!(made["status"], "pending");
    let payment = w.get(&format!("/v2/payments/{}?embed=refunds&include=", w.payment)).await;
    assert_eq!(payment["amountRefunded"]["value"], "10.00");
    assert_eq!(payment["amountRemaining"]["value"], "39.90");
    assert_eq!(payment["_embedded"]["refunds"].as_array().unwrap().len(), 2);
    for list in [refunds.as_str(), "/v2/refunds"] {
        let listed = w.get(&format!("{list}?limit=1")).await;
        assert_eq!(listed["count"], 1);
        let next = listed["_links"]["next"]["href"].as_str().unwrap();
        assert!(next.contains("from="), "{next}");
    }
    for (asked, status) in [(euros("39.91"), 422), (json!({}), 422), (euros("39.90"), 201)] {
        assert_eq!(w.post(&refunds, &asked).await.0, status, "{asked}");
    }
    assert_eq!(w.post("/v2/payments/tr_0/refunds", &euros("1.00")).await.0, 404);
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
        assert_eq!((status, &told["status"]), (StatusCode::CREATED, &json!("received")));
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
