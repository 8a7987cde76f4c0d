//! Real payloads of BTCPay Servers, and the module's result for each.
use kassette_plugin::encode;
use kassette_plugin::provider::{QueryPurpose, secrets::Algorithm};
use kassette_provider_btcpay::BtcPay;
use kassette_world::payloads::{
    self, ATTEMPT, Replay, StubAnswer, callback_reading, report_reading,
};

/// Webhooks with the results for the unchanged payload, and with the test store and attempt in the metadata.
const WEBHOOKS: &[(&str, &str, &str)] = &[
    ("invoice-expired-partially-paid", "200", "200; ask"),
    ("invoice-received-payment-1x-names", "200", "200; ask"),
    ("invoice-settled-signed-2023", "200", "200; ask"),
    ("signature-vector-php", "200", "200; ask"),
    ("test-delivery-invoice-created-2025", "200", "200"),
];

/// An invoice of a server of 2021.
const OLD: &str = "invoice-2021-times-as-text-amount-as-number";

fn replay() -> Replay<BtcPay> {
    Replay::new(env!("CARGO_MANIFEST_DIR"))
        .setting("base-url", "https://btcpay.shop.example")
        .setting("store-id", "shop")
}

#[test]
fn every_payload_has_a_row() {
    let webhooks = WEBHOOKS.iter().map(|(name, ..)| *name);
    replay().assert_complete(webhooks.chain([OLD]));
}

#[test]
fn recorded_signatures_are_right() {
    for (name, secret) in [
        ("invoice-settled-signed-2023", "Y6Tio3rXRT4dGqpk43GvBPK9fHQ"),
        ("signature-vector-php", "abc"),
    ] {
        let replay = replay().secret("webhook-secret", secret);
        let payload = replay.payload(name);
        let headers = payload.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let post = |body: &[u8]| callback_reading(&replay.callback(&headers, body, &[]));
        assert_eq!(post(&payload.body), "200", "{name}");
        assert_eq!(post(&[&payload.body[..], b" "].concat()), "401", "{name}");
    }
}

#[test]
fn each_webhook_is_read_as_its_row_says() {
    let replay = replay();
    let post = |body: &[u8]| {
        let code = replay.sign("webhook-secret", Algorithm::HmacSha256, body);
        let code = format!("sha256={}", encode::hex(&code));
        callback_reading(&replay.callback(&[("btcpay-sig", &code)], body, &[]))
    };
    for (name, unchanged, ours) in WEBHOOKS {
        let payload = replay.payload(name);
        assert_eq!(post(&payload.body), *unchanged, "{name}");
        let mut event = payload.json();
        event["storeId"] = "shop".into();
        event["metadata"]["orderId"] = ATTEMPT.into();
        assert_eq!(post(event.to_string().as_bytes()), *ours, "{name}");
    }
}

#[test]
fn an_invoice_of_an_old_server_is_read() {
    let replay = replay();
    let read = |status: &str| {
        let mut invoice = replay.payload(OLD).json();
        invoice["storeId"] = "shop".into();
        invoice["metadata"]["orderId"] = ATTEMPT.into();
        invoice["status"] = status.into();
        let answers = [
            StubAnswer::ok("GET /payment-methods", &serde_json::json!([])),
            StubAnswer::ok("GET /stores/shop/invoices/VDdmfYJzJm9VtqW8hqhypF", &invoice),
        ];
        let attempt = payloads::attempt("crypto", 615, "EUR");
        let id = "VDdmfYJzJm9VtqW8hqhypF";
        report_reading(&replay.query(&attempt, id, QueryPurpose::Sync, &answers))
    };
    assert_eq!(read("Expired"), "expired 0.00 EUR");
    assert_eq!(read("Settled"), "completed confirmed 6.15 EUR");
}
