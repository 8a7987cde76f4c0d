//! Real payloads of Revolut, and the module's result for each.
use kassette_plugin::encode;
use kassette_plugin::provider::{QueryPurpose, secrets::Algorithm};
use kassette_provider_revolut::Revolut;
use kassette_world::payloads::{
    self, ATTEMPT, NOW_MS, Replay, StubAnswer, callback_reading, given_reading, report_reading,
};
use serde_json::{Value, json};

/// Webhooks with the results for the unchanged payload, and with the test attempt's id as the merchant reference.
const WEBHOOKS: &[(&str, &str, &str)] = &[
    ("business-event-signed-docs", "200", "200"),
    (
        "order-incremental-authorisation-declined",
        "200; ask 6634c172-3398-ac93-aee9-50de0282e3ac",
        "200; ask",
    ),
    (
        "order-payment-authorisation-started-sepa",
        "200",
        "200; ask",
    ),
    ("subscription-initiated", "200", "200"),
];

/// Answers to the module's own requests.
const ANSWERS: &[(&str, &str)] = &[
    (
        "dispute-sepa-needs-response",
        "review 100.00 EUR, dispute 7a2d8f4b-1c3e-4a56-b789-0d1e2f3a4b5c 100.00 open",
    ),
    (
        "disputes-list-odd-amounts",
        "review 100.00 EUR, given back 0.40, dispute ab934829-e4ba-4e7f-8a21-365cad85c763 0.50 open, \
         dispute 340b85dc-da99-4c5f-9d47-37a45d52a455 0.40 lost with 0.40 withdrawn",
    ),
    ("order-cancelled", "declined 0.00 GBP"),
    ("payment-3ds-fingerprint-challenge", "pending 0.00 EUR"),
    ("payment-declined-with-fee", "pending 0.00 EUR"),
    (
        "refund-order-processing",
        "6852e9a6-5cf0-ac65-8182-6a9c251011ce pending",
    ),
];

/// An answer of an unsupported API version, and a header without its key.
const OTHERS: [&str; 2] = ["order-completed-api-1.0", "two-signatures-header-docs"];

const ORDER: &str = "6516e61c-d279-a454-a837-bc52ce55ed49";

fn replay() -> Replay<Revolut> {
    Replay::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_payload_has_a_row() {
    let webhooks = WEBHOOKS.iter().map(|(name, ..)| *name);
    let answers = ANSWERS.iter().map(|(name, _)| *name);
    replay().assert_complete(webhooks.chain(answers).chain(OTHERS));
}

fn code(replay: &Replay<Revolut>, time: u64, body: &[u8]) -> String {
    let message = [format!("v1.{time}.").as_bytes(), body].concat();
    encode::hex(&replay.sign("webhook-secret", Algorithm::HmacSha256, &message))
}

fn post(replay: &Replay<Revolut>, time: u64, signature: &str, body: &[u8]) -> String {
    let time = time.to_string();
    let headers = [
        ("revolut-request-timestamp", time.as_str()),
        ("revolut-signature", signature),
    ];
    callback_reading(&replay.callback(&headers, body, &[]))
}

#[test]
fn revoluts_published_signature_is_right_under_its_published_secret() {
    let mut replay = replay().secret("webhook-secret", "wsk_r59a4HfWVAKycbCaNO1RvgCJec02gRd8");
    let payload = replay.payload("business-event-signed-docs");
    let header = |name: &str| {
        let found = payload.headers.iter().find(|(known, _)| known == name);
        found.unwrap().1.clone()
    };
    let time: u64 = header("revolut-request-timestamp").parse().unwrap();
    let signature = header("revolut-signature");
    replay.account.now = time + 1_000;
    assert_eq!(post(&replay, time, &signature, &payload.body), "200");
    assert_eq!(post(&replay, time + 1, &signature, &payload.body), "401");
}

#[test]
fn either_of_two_signatures_counts() {
    let replay = replay();
    let body = br#"{"event":"ORDER_COMPLETED"}"#;
    let right = code(&replay, NOW_MS, body);
    let wrong = "0".repeat(64);
    for (first, second, reading) in [
        (&right, &wrong, "200"),
        (&wrong, &right, "200"),
        (&wrong, &wrong, "401"),
    ] {
        let both = format!("v1={first},v1={second}");
        assert_eq!(post(&replay, NOW_MS, &both, body), reading);
    }
    let published = replay.payload("two-signatures-header-docs").headers[0]
        .1
        .clone();
    assert_eq!(post(&replay, NOW_MS, &published, body), "401");
}

#[test]
fn each_webhook_is_read_as_its_row_says() {
    let replay = replay();
    let read = |body: &[u8]| {
        let signature = format!("v1={}", code(&replay, NOW_MS, body));
        post(&replay, NOW_MS, &signature, body)
    };
    for (name, unchanged, ours) in WEBHOOKS {
        let payload = replay.payload(name);
        assert_eq!(read(&payload.body), *unchanged, "{name}");
        let mut event = payload.json();
        event["merchant_order_ext_ref"] = ATTEMPT.into();
        assert_eq!(read(event.to_string().as_bytes()), *ours, "{name}");
    }
}

/// An order of the test attempt with a payment.
fn order(state: &str, payment: Value) -> Value {
    json!({
        "id": ORDER, "type": "payment", "state": state, "amount": 10_000, "currency": "EUR",
        "payments": [payment],
    })
}

#[test]
fn each_answer_is_read_as_its_row_says() {
    let replay = replay();
    for (name, reading) in ANSWERS {
        let payload = replay.payload(name);
        let taken = json!({
            "id": "6516f38a-a12b-aca3-83f2-6ed16d6ed246", "state": "completed", "amount": 10_000,
        });
        let mut disputes = json!([]);
        let mut told = match *name {
            "dispute-sepa-needs-response" => {
                disputes = json!([payload.json()]);
                order("completed", taken)
            }
            "disputes-list-odd-amounts" => {
                disputes = payload.json();
                order("completed", taken)
            }
            "payment-3ds-fingerprint-challenge" | "payment-declined-with-fee" => {
                order("pending", payload.json())
            }
            "refund-order-processing" => {
                let answers = [
                    StubAnswer::ok("GET /api/orders?", &json!({ "orders": [] })),
                    StubAnswer::payload(&format!("POST /api/orders/{ORDER}/refund"), &payload),
                ];
                let paid = payloads::paid("revolut", ORDER, 10_000, "GBP");
                let given = replay.refund(&paid, &payloads::order(100, "GBP"), &answers);
                assert_eq!(given_reading(&given), *reading, "{name}");
                continue;
            }
            _ => payload.json(),
        };
        told["merchant_order_data"] = json!({ "reference": ATTEMPT });
        let id = told["id"].as_str().unwrap().to_owned();
        let answers = [
            StubAnswer::ok("GET /api/disputes?", &disputes),
            StubAnswer::ok("GET /api/orders?", &json!({ "orders": [] })),
            StubAnswer::ok(&format!("GET /api/orders/{id}"), &told),
        ];
        let attempt = payloads::attempt("revolut", 10_000, "EUR");
        let report = replay.query(&attempt, &id, QueryPurpose::Sync, &answers);
        assert_eq!(report_reading(&report), *reading, "{name}");
    }
}
