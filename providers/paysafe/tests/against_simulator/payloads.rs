//! Real payloads of Paysafe, and the module's result for each.
use kassette_plugin::encode;
use kassette_plugin::provider::{QueryPurpose, secrets::Algorithm};
use kassette_provider_paysafe::Paysafe;
use kassette_world::payloads::{
    self, ATTEMPT, Replay, StubAnswer, callback_reading, given_reading, report_reading,
};
use serde_json::{Value, json};

/// Webhooks with the results for the unchanged payload, and with the test attempt's id as their reference.
const WEBHOOKS: &[(&str, &str, &str)] = &[
    ("ap-payment-completed-paysafecard-test", "200", "200; ask"),
    (
        "payment-completed-eft-2021",
        "200; ask aae755f6-988e-45a8-9629-97780372d3ee",
        "200; ask",
    ),
    ("payment-handle-completed-neteller-2020", "200", "200; ask"),
    ("payment-handle-payable-venmo-2022", "200", "200; ask"),
    (
        "payment-return-bacs-variables-envelope",
        "200; ask 7d0e5b52-4f0a-4b8e-9c3a-1f2e3d4c5b6a",
        "200; ask",
    ),
    (
        "payment-return-completed-sepa",
        "200; ask 7d0e5b52-4f0a-4b8e-9c3a-1f2e3d4c5b6a",
        "200; ask",
    ),
    ("test-connectivity", "200", "200"),
];

/// Answers to the module's own requests.
const ANSWERS: &[(&str, &str)] = &[
    (
        "payment-completed-settlement-pending",
        "completed confirmed 1.00 EUR",
    ),
    (
        "refund-refused-3407",
        "0c498606-3690-4b24-a083-0f8a75b8e043 failed",
    ),
    (
        "refunds-by-reference-pending",
        "completed confirmed 49.90 CAD, refund a9318b525273ee3cda79a2f947a9 11.16 pending",
    ),
    ("settlements-by-reference", "completed confirmed 5.00 CAD"),
];

fn replay() -> Replay<Paysafe> {
    Replay::new(env!("CARGO_MANIFEST_DIR"))
}

fn post(replay: &Replay<Paysafe>, body: &[u8]) -> String {
    let code = encode::base64(&replay.sign("webhook-key", Algorithm::HmacSha256, body));
    callback_reading(&replay.callback(&[("signature", &code)], body, &[]))
}

#[test]
fn every_payload_has_a_row() {
    let webhooks = WEBHOOKS.iter().map(|(name, ..)| *name);
    let answers = ANSWERS.iter().map(|(name, _)| *name);
    let rows = webhooks.chain(answers).chain(["signature-vectors-docs"]);
    replay().assert_complete(rows);
}

#[test]
fn paysafes_published_signatures_are_right_under_its_published_key() {
    let vectors = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/payloads/signature-vectors-docs.json"
    ));
    let vectors: Value = serde_json::from_slice(&vectors.unwrap()).unwrap();
    let key = vectors["key_as_shown_by_paysafe_base64"].as_str().unwrap();
    let replay = replay().secret("webhook-key", key);
    for vector in vectors["vectors"].as_array().unwrap() {
        let body = vector["body_text"].as_str().unwrap();
        let code = vector["headers"]["Signature"].as_str().unwrap();
        let post = |body: &str| replay.callback(&[("signature", code)], body.as_bytes(), &[]);
        assert_eq!(callback_reading(&post(body)), "200");
        assert_eq!(callback_reading(&post(&format!("{body} "))), "401");
    }
}

#[test]
fn each_webhook_is_read_as_its_row_says() {
    let replay = replay();
    for (name, unchanged, ours) in WEBHOOKS {
        let payload = replay.payload(name);
        assert_eq!(post(&replay, &payload.body), *unchanged, "{name}");
        let mut event = payload.json();
        for at in [
            "/payload/merchantRefNum",
            "/variables/payload/merchantRefNum",
        ] {
            if let Some(reference) = event.pointer_mut(at) {
                *reference = ATTEMPT.into();
            }
        }
        assert_eq!(post(&replay, event.to_string().as_bytes()), *ours, "{name}");
    }
}

#[test]
fn each_answer_is_read_as_its_row_says() {
    let replay = replay();
    for (name, reading) in ANSWERS {
        let payload = replay.payload(name);
        let ours = |list: &str, mut body: Value| {
            body[list][0]["merchantRefNum"] = ATTEMPT.into();
            StubAnswer::ok(&format!("GET /{list}?"), &body)
        };
        let none = |list: &str| StubAnswer::ok(&format!("GET /{list}?"), &json!({ list: [] }));
        let handles = json!({ "paymentHandles": [{ "id": "h1", "status": "COMPLETED" }] });
        let handles = StubAnswer::ok("GET /paymenthandles?", &handles);
        let paid = json!({ "payments": [{ "id": "p1", "status": "COMPLETED", "amount": 4990 }] });
        let unpriced = json!({ "payments": [{ "id": "p1", "status": "COMPLETED" }] });
        let answers = match *name {
            "payment-completed-settlement-pending" => vec![
                handles,
                ours("payments", json!({ "payments": [payload.json()] })),
                none("settlements"),
                none("refunds"),
            ],
            "refunds-by-reference-pending" => vec![
                handles,
                StubAnswer::ok("GET /payments?", &paid),
                none("settlements"),
                ours("refunds", payload.json()),
            ],
            "settlements-by-reference" => vec![
                handles,
                StubAnswer::ok("GET /payments?", &unpriced),
                ours("settlements", payload.json()),
                none("refunds"),
            ],
            _ => {
                let refused = [StubAnswer {
                    request: "POST /settlements/p1/refunds".into(),
                    status: 201,
                    body: payload.body,
                }];
                let paid = payloads::paid("interac", "p1", 4990, "CAD");
                let order = payloads::order(1116, "CAD");
                let given = replay.refund(&paid, &order, &refused);
                assert_eq!(given_reading(&given), *reading, "{name}");
                continue;
            }
        };
        let attempt = payloads::attempt("interac", 4990, "CAD");
        let told = replay.query(&attempt, "h1", QueryPurpose::Sync, &answers);
        assert_eq!(report_reading(&told), *reading, "{name}");
    }
}
