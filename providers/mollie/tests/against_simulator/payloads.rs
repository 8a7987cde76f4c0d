//! Real payloads of Mollie, and the module's result for each.
use kassette_plugin::provider::QueryPurpose;
use kassette_provider_mollie::Mollie;
use kassette_world::payloads::{
    self, ATTEMPT, Replay, StubAnswer, callback_reading, given_reading, report_reading,
};
use serde_json::{Value, json};

const WEBHOOKS: &[(&str, &str)] = &[
    ("webhook-classic", "200; ask tr_WDqYK6vllg"),
    ("webhook-next-gen-payment-link-paid", "200"),
];

/// Answers to the module's own requests.
const ANSWERS: &[(&str, &str)] = &[
    ("capture-without-status", "processing 0.00 EUR"),
    (
        "chargebacks-negative-amounts",
        "review 49.90 EUR, given back 13.37, dispute chb_n9z0tp 13.00 lost with 13.00 withdrawn, dispute chb_6cqlwf 0.37 lost with 0.37 withdrawn",
    ),
    (
        "chargebacks-with-embedded-payment",
        "review 49.90 EUR, given back 20.00, dispute chb_xg7414 10.00 lost with 10.00 withdrawn, dispute chb_ls7ahg 10.00 lost with 10.00 withdrawn",
    ),
    ("payment-expired-other-self-link", "expired 0.00 EUR"),
    (
        "payment-ideal-failed-with-settlement-amount",
        "declined 0.00 EUR",
    ),
    (
        "payment-paid-method-null-no-paid-at",
        "completed confirmed 10.00 EUR",
    ),
    ("refund-pending-metadata-text", "re_4qqhO89gsT pending"),
];

fn replay() -> Replay<Mollie> {
    Replay::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_payload_has_a_row() {
    let rows = WEBHOOKS.iter().chain(ANSWERS).map(|(name, _)| *name);
    replay().assert_complete(rows);
}

#[test]
fn each_webhook_is_read_as_its_row_says() {
    let replay = replay();
    for (name, reading) in WEBHOOKS {
        let body = replay.payload(name).body;
        assert_eq!(
            callback_reading(&replay.callback(&[], &body, &[])),
            *reading,
            "{name}"
        );
    }
    // Mollie's check of the webhook address.
    let check = replay.callback(&[], b"testByMollie=1", &[]);
    assert_eq!(callback_reading(&check), "200");
}

/// A payment of the test attempt with embedded parts.
fn payment(status: &str, what: &str, list: Value) -> Value {
    json!({
        "resource": "payment", "id": "tr_1", "mode": "test", "status": status,
        "amount": { "value": "49.90", "currency": "EUR" }, "_embedded": { what: list },
    })
}

#[test]
fn each_answer_is_read_as_its_row_says() {
    let replay = replay();
    for (name, reading) in ANSWERS {
        let payload = replay.payload(name);
        let mut told = match *name {
            "capture-without-status" => payment("authorized", "captures", json!([payload.json()])),
            "refund-pending-metadata-text" => {
                let made = [StubAnswer::payload(
                    "POST /v2/payments/tr_1/refunds",
                    &payload,
                )];
                let paid = payloads::paid("ideal", "tr_1", 4990, "EUR");
                let given = replay.refund(&paid, &payloads::order(595, "EUR"), &made);
                assert_eq!(given_reading(&given), *reading, "{name}");
                continue;
            }
            name if name.starts_with("chargebacks") => {
                let list = payload.json()["_embedded"]["chargebacks"].take();
                payment("paid", "chargebacks", list)
            }
            _ => payload.json(),
        };
        told["metadata"] = ATTEMPT.into();
        let id = told["id"].as_str().unwrap().to_owned();
        let answers = [StubAnswer::ok(&format!("GET /v2/payments/{id}?"), &told)];
        let attempt = payloads::attempt("ideal", 4990, "EUR");
        let report = replay.query(&attempt, &id, QueryPurpose::Sync, &answers);
        assert_eq!(report_reading(&report), *reading, "{name}");
    }
}
