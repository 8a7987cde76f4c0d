//! Real payloads of Razorpay, and the module's result for each.
use kassette_plugin::provider::{QueryPurpose, secrets::Algorithm};
use kassette_provider_razorpay::Razorpay;
use kassette_world::payloads::{
    self, ATTEMPT, Payload, Replay, StubAnswer, callback_reading, given_reading, report_reading,
};
use serde_json::{Value, json};

/// Webhooks with another shop's references replaced by the test attempt's: in the notes and as the link's
/// reference.
const WEBHOOKS: &[(&str, &str)] = &[
    ("payment-authorized-signed-but-captured", "200; ask"),
    ("payment-link-expired-docs-2025", "200; ask"),
    ("payment-link-paid-upi-live-2024", "200; ask"),
    ("refund-created-already-processed-docs", "200; ask"),
    ("refund-failed-docs", "200; ask"),
    ("refund-speed-changed-created-at-inside", "200; ask"),
];

/// Result for the unchanged webhooks, which are about the merchant's other payments.
const FOREIGN: &str = "200";

/// Answers to the module's own requests.
const ANSWERS: &[(&str, &str)] = &[
    (
        "disputes-open-and-won",
        "review 50.00 INR, dispute disp_Esz7KAitoYM7PJ 100.00 open, dispute disp_Esyvk3kZj0isXk 50.00 won",
    ),
    ("order-payments-no-order-id", "processing 0.00 INR"),
    (
        "payment-link-cancelled-empty-reference",
        "declined 0.00 INR",
    ),
    (
        "payment-link-status-active-no-reference",
        "no answer: the link's status is unknown, or it is paid and shows no payment",
    ),
    ("refund-receipt-twice", "rfnd_FP8QHiV938haTz succeeded"),
];

fn replay() -> Replay<Razorpay> {
    Replay::new(env!("CARGO_MANIFEST_DIR"))
}

fn link() -> Value {
    json!({
        "id": "plink_1", "reference_id": ATTEMPT, "amount": 5000, "amount_paid": 0,
        "currency": "INR", "status": "created", "short_url": "https://rzp.io/i/1",
        "expire_by": 0, "order_id": "order_1", "payments": null,
    })
}

fn captured(id: &str, amount: u64) -> Value {
    json!({ "items": [{
        "id": id, "entity": "payment", "amount": amount, "currency": "INR", "status": "captured",
        "captured": true, "amount_refunded": 0, "created_at": 1_590_000_000,
    }] })
}

fn none() -> Value {
    json!({ "entity": "collection", "count": 0, "items": [] })
}

/// Queries the payment while Razorpay answers with the payload.
fn answered(replay: &Replay<Razorpay>, name: &str, payload: &Payload) -> String {
    let ok = StubAnswer::ok;
    let query = |answers: &[StubAnswer]| {
        let attempt = payloads::attempt("upi_imps", 5000, "INR");
        report_reading(&replay.query(&attempt, "plink_1", QueryPurpose::Sync, answers))
    };
    match name {
        "disputes-open-and-won" => query(&[
            ok("GET /v1/payment_links/", &link()),
            ok("GET /v1/orders/", &captured("pay_EsyWjHrfzb59eR", 5000)),
            ok("GET /refunds", &none()),
            StubAnswer::payload("GET /v1/disputes", payload),
        ]),
        "order-payments-no-order-id" => query(&[
            ok("GET /v1/payment_links/", &link()),
            StubAnswer::payload("GET /v1/orders/", payload),
        ]),
        "refund-receipt-twice" => {
            let paid = payloads::paid("upi_imps", "plink_1", 600_000, "INR");
            let order = payloads::order(500_100, "INR");
            given_reading(&replay.refund(
                &paid,
                &order,
                &[
                    ok("GET /v1/payment_links/", &link()),
                    ok("GET /v1/orders/", &captured("pay_29QQoUBi66xm2f", 600_000)),
                    ok("GET /refunds", &none()),
                    StubAnswer::payload("POST /refund", payload),
                ],
            ))
        }
        _ => query(&[
            StubAnswer::payload("GET /v1/payment_links/", payload),
            ok("GET /v1/orders/", &none()),
        ]),
    }
}

fn post(replay: &Replay<Razorpay>, body: &[u8]) -> String {
    let code = replay.sign("webhook-secret", Algorithm::HmacSha256, body);
    let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    let unknown = StubAnswer {
        request: "GET /v1/orders/".into(),
        status: 400,
        body: br#"{"error":{"description":"The id provided does not exist"}}"#.to_vec(),
    };
    let headers = [("x-razorpay-signature", code.as_str())];
    callback_reading(&replay.callback(&headers, body, &[unknown]))
}

fn with_our_references(mut event: Value) -> Value {
    for name in ["payment", "order"] {
        if let Some(entity) = event.pointer_mut(&format!("/payload/{name}/entity")) {
            entity["notes"] = json!({ "attempt": ATTEMPT });
        }
    }
    if let Some(link) = event.pointer_mut("/payload/payment_link/entity") {
        link["reference_id"] = json!(ATTEMPT);
    }
    event
}

#[test]
fn every_collected_payload_has_its_reading() {
    let replay = replay();
    let rows = WEBHOOKS.iter().chain(ANSWERS);
    replay.assert_complete(rows.map(|(name, _)| *name));
    for (name, reading) in WEBHOOKS {
        let payload = replay.payload(name);
        let ours = with_our_references(payload.json()).to_string();
        assert_eq!(post(&replay, ours.as_bytes()), *reading, "{name}");
        assert_eq!(post(&replay, &payload.body), FOREIGN, "{name}, unchanged");
    }
    for (name, reading) in ANSWERS {
        let payload = replay.payload(name);
        assert_eq!(answered(&replay, name, &payload), *reading, "{name}");
    }
}

#[test]
fn a_published_signature_is_right() {
    let replay = replay().secret("webhook-secret", "chosen_webhook_secret");
    let payload = replay.payload("payment-authorized-signed-but-captured");
    let headers: Vec<(&str, &str)> = payload
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let unknown = StubAnswer::ok("GET /v1/orders/", &json!({ "receipt": "another" }));
    let reply = replay.callback(&headers, &payload.body, &[unknown]);
    assert_eq!(callback_reading(&reply), "200");
    let mut changed = payload.body.clone();
    changed.push(b' ');
    let reply = replay.callback(&headers, &changed, &[]);
    assert_eq!(callback_reading(&reply), "401");
}
