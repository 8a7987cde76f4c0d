//! Real payloads of PayPal (`tests/payloads`), and the module's result for each. Only PayPal can sign an event, so
//! events without a recorded signature skip the verification.
use kassette_plugin::provider::QueryPurpose;
use kassette_world::payloads::{
    self, ATTEMPT, Payload, Replay, StubAnswer, callback_reading, given_reading, report_reading,
};
use serde_json::json;

use crate::{PayPal, callback};

/// Events with the results for a payment of this gateway and for a foreign one. The difference is the event's own
/// `custom_id`, or that of the capture that the event names.
const EVENTS: &[(&str, &str, &str)] = &[
    ("capture-denied-from-authorization-aud", "200; ask", "200"),
    ("capture-denied-pui", "200; ask", "200"),
    ("capture-denied-resource-1.0", "200", "200"),
    ("capture-refunded-by-merchant-at-paypal", "200; ask", "200"),
    (
        "dispute-lost-partial-gbp",
        "200; completed confirmed 20.00 GBP, dispute PP-D-33305 8.00 lost with 8.00 withdrawn; ask",
        "200",
    ),
];

/// Answers to the module's own requests.
const ANSWERS: &[(&str, &str)] = &[
    (
        "order-capture-partially-refunded",
        "completed confirmed 100.00 EUR, given back 12.34, refund 33791463E79430539 12.34 succeeded",
    ),
    (
        "order-completed-capture-declined",
        "declined not-settled 0.00 EUR",
    ),
    (
        "order-multibanco-capture-pending",
        "verification-pending 0.00 EUR",
    ),
    ("order-pui-pending-approval", "pending 0.00 EUR"),
    ("refund-minimal", "33791463E79430539 succeeded"),
];

/// Recorded deliveries of PayPal's webhook simulator, signed for the webhook id `WEBHOOK_ID`. Their captures exist
/// in no account.
const SIGNED: &[(&str, &str)] = &[
    ("signed-capture-completed-platform-fee-2024", "200"),
    (
        "signed-capture-pending-unilateral-2024",
        "200; ask 02T21492PP3782704",
    ),
    ("signed-capture-refunded-2024", "200; ask 0JF852973C016714D"),
];

/// A minute after those deliveries, in milliseconds since 1970.
const AUGUST_2024_MS: u64 = 1_722_627_364_000;

fn replay() -> Replay<PayPal> {
    Replay::new(env!("CARGO_MANIFEST_DIR")).setting("webhook-id", "WEBHOOK_ID")
}

/// The answer to reading the capture that an event names.
fn capture(custom: &str) -> StubAnswer {
    let capture = json!({
        "id": "4BE79548VW224290D", "status": "COMPLETED", "custom_id": custom,
        "amount": { "currency_code": "GBP", "value": "20.00" },
        "supplementary_data": { "related_ids": { "order_id": "5O190127TN364715T" } },
    });
    StubAnswer::ok("GET /v2/payments/captures/", &capture)
}

fn event(replay: &Replay<PayPal>, payload: &Payload, custom: &str) -> String {
    let mut body = payload.json();
    // The payload is an API answer about a dispute, which has the same format as an event's resource.
    if body.get("dispute_id").is_some() {
        body = json!({ "event_type": "CUSTOMER.DISPUTE.RESOLVED", "resource": body });
        body["resource"]["disputed_transactions"][0]["custom"] = json!(custom);
    }
    if body["resource"].get("custom_id").is_some() {
        body["resource"]["custom_id"] = json!(custom);
    }
    let body = body.to_string();
    let read = || callback::read_event(&replay.account, body.as_bytes());
    let (reply, _) = replay.within(&[capture(custom)], read);
    callback_reading(&reply)
}

fn answered(replay: &Replay<PayPal>, name: &str, payload: &Payload) -> String {
    if name == "refund-minimal" {
        let paid = payloads::paid("paypal", "5O190127TN364715T", 4990, "EUR");
        let order = json!({ "id": "5O190127TN364715T", "status": "COMPLETED", "purchase_units": [{
            "payments": { "captures": [{ "id": "8F71337376765912W", "status": "COMPLETED",
                "amount": { "currency_code": "EUR", "value": "49.90" } }] },
        }] });
        let answers = [
            StubAnswer::ok("GET /v2/checkout/orders/", &order),
            StubAnswer::payload("POST /refund", payload),
        ];
        return given_reading(&replay.refund(&paid, &payloads::order(990, "EUR"), &answers));
    }
    let attempt = payloads::attempt("paypal", 10_000, "EUR");
    let answers = [
        StubAnswer::payload("GET /v2/checkout/orders/", payload),
        StubAnswer::ok("GET /v1/customer/disputes", &json!({ "items": [] })),
    ];
    let reference = payload.json()["id"].as_str().unwrap().to_owned();
    report_reading(&replay.query(&attempt, &reference, QueryPurpose::Sync, &answers))
}

fn signed(payload: &Payload, certificate: &str, body: &[u8]) -> String {
    let mut replay = replay();
    replay.account.now = AUGUST_2024_MS;
    replay.account.environment = kassette_plugin::provider::Environment::Live;
    let answers = [
        StubAnswer {
            request: "GET /v1/notifications/certs/".into(),
            status: 200,
            body: certificate.as_bytes().to_vec(),
        },
        // The file does not contain the chain to a root, so PayPal verifies the signature.
        StubAnswer::ok(
            "POST /v1/notifications/verify-webhook-signature",
            &json!({ "verification_status": "SUCCESS" }),
        ),
        StubAnswer {
            request: "GET /v2/payments/captures/".into(),
            status: 404,
            body: b"{}".to_vec(),
        },
    ];
    let headers = payload.headers.iter();
    let headers: Vec<(&str, &str)> = headers
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    callback_reading(&replay.callback(&headers, body, &answers))
}

#[test]
fn every_collected_payload_has_its_reading() {
    let replay = replay();
    let events = EVENTS.iter().map(|(name, ..)| *name);
    let others = ANSWERS.iter().chain(SIGNED).map(|(name, _)| *name);
    replay.assert_complete(events.chain(others));
    for (name, ours, foreign) in EVENTS {
        let payload = replay.payload(name);
        assert_eq!(event(&replay, &payload, ATTEMPT), *ours, "{name}");
        assert_eq!(
            event(&replay, &payload, "shop:1"),
            *foreign,
            "{name}, foreign"
        );
    }
    for (name, reading) in ANSWERS {
        let payload = replay.payload(name);
        assert_eq!(answered(&replay, name, &payload), *reading, "{name}");
    }
}

#[test]
fn recorded_signatures_are_right() {
    let replay = replay();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payloads");
    let certificate = std::fs::read_to_string(format!("{folder}/signing-certificate.pem")).unwrap();
    for (name, reading) in SIGNED {
        let payload = replay.payload(name);
        assert_eq!(
            signed(&payload, &certificate, &payload.body),
            *reading,
            "{name}"
        );
        let mut changed = payload.body.clone();
        changed.push(b' ');
        assert_eq!(
            signed(&payload, &certificate, &changed),
            "401",
            "{name}, changed"
        );
    }
}
