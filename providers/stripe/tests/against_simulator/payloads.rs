//! Real payloads of Stripe, and the module's result for each.
use kassette_plugin::provider::{QueryPurpose, secrets::Algorithm};
use kassette_provider_stripe::Stripe;
use kassette_world::payloads::{
    self, ATTEMPT, NOW_MS, Payload, Replay, StubAnswer, callback_reading, given_reading,
    report_reading, start_reading,
};
use serde_json::{Value, json};

/// Webhooks with the results after replacing another shop's references by the test attempt's, and unchanged.
/// Unchanged, they contain a payment or a charge that the host does not know.
const WEBHOOKS: &[(&str, &str, &str)] = &[
    (
        "charge-failed",
        "200; ask",
        "200; ask ch_000000000000000000000000",
    ),
    (
        "dispute-closed-won-no-id",
        "200; ask",
        "200; ask ch_00000000000000",
    ),
    (
        "dispute-funds-reinstated-needs-response",
        "200; ask",
        "200; ask ch_00000000000000",
    ),
    (
        "payment-capturable",
        "200; ask",
        "200; ask pi_000000000000000000000000",
    ),
    (
        "payment-failed-card-declined",
        "200; ask",
        "200; ask pi_000000000000000000000000",
    ),
    (
        "payment-requires-action-3ds",
        "200; ask",
        "200; ask pi_000000000000000000000000",
    ),
    (
        "session-completed-payment-mode",
        "200; ask",
        "200; ask cs_00000000000000",
    ),
];

/// Answers to the module's own requests.
const ANSWERS: &[(&str, &str)] = &[
    (
        "dispute-object-new",
        "review 49.90 USD, inquiry dp_1Pgc71B7WZ01zgkWMevJiAUx 10.00 open",
    ),
    (
        "dispute-under-review-two-bookings",
        "review 49.90 USD, dispute dp_1JAyTwJSZQVUcJYgPqasUEn1 10.00 open",
    ),
    ("error-cancel-succeeded", "completed confirmed 20.20 GBP"),
    ("error-requires-action-no-code", "declined"),
    (
        "refund-object-with-customer-account",
        "re_1Pgc72B7WZ01zgkWqPvrRrPE succeeded",
    ),
    (
        "session-open-amounts-null",
        "no answer: the answer cannot be read",
    ),
];

fn replay() -> Replay<Stripe> {
    Replay::new(env!("CARGO_MANIFEST_DIR"))
}

fn session(payment: &Value) -> Value {
    json!({
        "id": "cs_test_1", "object": "checkout.session", "livemode": false,
        "client_reference_id": ATTEMPT, "amount_total": 4990, "currency": "usd",
        "status": "complete", "expires_at": NOW_MS / 1_000 + 3_600, "payment_intent": payment,
    })
}

fn disputed() -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "status": "succeeded", "amount": 4990,
        "currency": "usd", "amount_received": 4990, "latest_charge": {
            "id": "ch_1", "object": "charge", "amount": 4990, "amount_captured": 4990,
            "amount_refunded": 0, "disputed": true, "refunds": { "data": [], "has_more": false },
        },
    })
}

/// Queries while Stripe answers with the payload.
fn answered(replay: &Replay<Stripe>, name: &str, payload: &Payload) -> String {
    let ok = StubAnswer::ok;
    let attempt = payloads::attempt("credit_card", 4990, "USD");
    let query = |purpose, answers: &[StubAnswer]| {
        report_reading(&replay.query(&attempt, "cs_test_1", purpose, answers))
    };
    match name {
        "dispute-object-new" | "dispute-under-review-two-bookings" => query(
            QueryPurpose::Sync,
            &[
                ok("GET /v1/checkout/sessions/", &session(&disputed())),
                ok(
                    "GET /v1/disputes",
                    &json!({ "data": [payload.json()], "has_more": false }),
                ),
            ],
        ),
        // Stripe returns the payment inside the error afterwards.
        "error-cancel-succeeded" => query(
            QueryPurpose::Sync,
            &[
                ok(
                    "GET /v1/checkout/sessions/",
                    &session(&payload.json()["error"]["payment_intent"]),
                ),
                ok("GET /v1/refunds", &json!({ "data": [], "has_more": false })),
                ok(
                    "GET /v1/disputes",
                    &json!({ "data": [], "has_more": false }),
                ),
            ],
        ),
        "error-requires-action-no-code" => {
            let answer = StubAnswer::payload("POST /v1/checkout/sessions", payload);
            let (started, _) = replay.start(&attempt, &[answer]);
            start_reading(&started).to_owned()
        }
        "refund-object-with-customer-account" => {
            let mut paid = payloads::paid("credit_card", "cs_test_1", 4990, "USD");
            paid.references = vec!["pi_1".into()];
            let answer = StubAnswer::payload("POST /v1/refunds", payload);
            given_reading(&replay.refund(&paid, &payloads::order(100, "USD"), &[answer]))
        }
        _ => query(
            QueryPurpose::Sync,
            &[StubAnswer::payload("GET /v1/checkout/sessions/", payload)],
        ),
    }
}

fn post(replay: &Replay<Stripe>, body: &[u8]) -> String {
    let time = (NOW_MS / 1_000).to_string();
    let message = [time.as_bytes(), b".", body].concat();
    let code = replay.sign("webhook-secret", Algorithm::HmacSha256, &message);
    let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    let header = format!("t={time},v1={code}");
    callback_reading(&replay.callback(&[("stripe-signature", &header)], body, &[]))
}

#[test]
fn every_collected_payload_has_its_reading() {
    let replay = replay();
    let webhooks = WEBHOOKS.iter().map(|(name, ..)| *name);
    replay.assert_complete(webhooks.chain(ANSWERS.iter().map(|(name, _)| *name)));
    for (name, reading, foreign) in WEBHOOKS {
        let payload = replay.payload(name);
        assert_eq!(post(&replay, &payload.body), *foreign, "{name}, unchanged");
        let mut event = payload.json();
        event["data"]["object"]["metadata"] = json!({ "attempt": ATTEMPT });
        assert_eq!(
            post(&replay, event.to_string().as_bytes()),
            *reading,
            "{name}"
        );
    }
    for (name, reading) in ANSWERS {
        let payload = replay.payload(name);
        assert_eq!(answered(&replay, name, &payload), *reading, "{name}");
    }
}
