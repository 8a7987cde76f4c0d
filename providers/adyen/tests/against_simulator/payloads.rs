//! Real payloads of Adyen, and the module's result for each.
use base64::{Engine, engine::general_purpose::STANDARD};
use kassette_plugin::provider::secrets::Algorithm;
use kassette_provider_adyen::Adyen;
use kassette_world::payloads::{ATTEMPT, Replay, callback_reading};
use serde_json::{Value, json};

/// Notifications with the expected results: rewritten for the test attempt and signed under the account's key; and
/// as they were collected, so for another merchant account or environment, and unsigned or under another key.
const WEBHOOKS: &[(&str, &str, &str)] = &[
    (
        "authorisation-padded-extra-fields",
        "200; processing 101.00 EUR",
        "401",
    ),
    (
        "authorisation-signed-leading-space",
        "200; processing 11.30 EUR",
        "401",
    ),
    (
        "authorisation-signed-minimal",
        "200; processing 11.30 EUR",
        "401",
    ),
    (
        "batch-signed-payment-and-unsigned-report",
        "200; processing 11.30 EUR",
        "401",
    ),
    (
        "cancellation-no-reference-no-additional-data",
        "200; cancelled 0.00 EUR",
        "200",
    ),
    (
        "chargeback-dispute-status-lost",
        "200; review 0.00 GBP, dispute 9915555555555555 100.00 lost with 100.00 withdrawn",
        "200",
    ),
    (
        "chargeback-dispute-status-won",
        "200; pending 0.00 EUR, dispute 9915555555555555 10.00 won",
        "200",
    ),
    ("offer-closed-odd-offset", "200; ask", "200"),
    (
        "refund-failed",
        "200; pending 0.00 EUR, refund PSP_REFERENCE 15.00 failed",
        "401",
    ),
    ("report-available-test-signed-amount-as-text", "200", "401"),
    ("report-available-unsigned-2026", "200", "200"),
];

const MERCHANT_ACCOUNT: &str = "ShopECOM";

fn replay() -> Replay<Adyen> {
    Replay::new(env!("CARGO_MANIFEST_DIR")).setting("merchant-account", MERCHANT_ACCOUNT)
}

fn post(replay: &Replay<Adyen>, body: &Value) -> String {
    let body = body.to_string();
    callback_reading(&replay.callback(&[], body.as_bytes(), &[]))
}

/// The items, rewritten for the test attempt. In a batch, an item without a signature stays unsigned.
fn with_our_references(replay: &Replay<Adyen>, mut body: Value) -> Value {
    body["live"] = json!("false");
    let items = body["notificationItems"].as_array_mut().unwrap();
    let batch = items.len() > 1;
    for item in items {
        let item = &mut item["NotificationRequestItem"];
        let report = item["eventCode"] == "REPORT_AVAILABLE";
        let signed = item["additionalData"]["hmacSignature"].is_string();
        if (batch || report) && !signed {
            continue;
        }
        item["merchantAccountCode"] = json!(MERCHANT_ACCOUNT);
        item["merchantReference"] = json!(ATTEMPT);
        sign(replay, item);
    }
    body
}

fn sign(replay: &Replay<Adyen>, item: &mut Value) {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let fields = [
        &item["pspReference"],
        &item["originalReference"],
        &item["merchantAccountCode"],
        &item["merchantReference"],
        &item["amount"]["value"],
        &item["amount"]["currency"],
        &item["eventCode"],
        &item["success"],
    ];
    let message = fields.map(text).join(":");
    let code = replay.sign("hmac-key", Algorithm::HmacSha256, message.as_bytes());
    item["additionalData"]["hmacSignature"] = json!(STANDARD.encode(code));
}

#[test]
fn every_collected_payload_has_its_reading() {
    let replay = replay();
    replay.assert_complete(WEBHOOKS.iter().map(|(name, ..)| *name));
    for (name, reading, unchanged) in WEBHOOKS {
        let body = replay.payload(name).json();
        assert_eq!(post(&replay, &body), *unchanged, "{name}, unchanged");
        let ours = with_our_references(&replay, body);
        assert_eq!(post(&replay, &ours), *reading, "{name}");
    }
}

#[test]
fn published_signatures_are_right() {
    let minimal = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00";
    let report = "9064450A8892A093D9E97EFCC9639DE31B74F3A7803135555A3C96F5A57915D6";
    for (name, key) in [
        ("authorisation-signed-leading-space", minimal),
        ("authorisation-signed-minimal", minimal),
        ("batch-signed-payment-and-unsigned-report", minimal),
        ("report-available-test-signed-amount-as-text", report),
    ] {
        let replay = replay().secret("hmac-key", key);
        let mut body = replay.payload(name).json();
        assert_eq!(post(&replay, &body), "200", "{name}");
        let item = &mut body["notificationItems"][0]["NotificationRequestItem"];
        item["merchantReference"] = json!("another");
        assert_eq!(post(&replay, &body), "401", "{name}, changed");
    }
}
