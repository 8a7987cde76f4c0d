//! The gateway's reading of each payload. The tables next to each module's tests hold the module's reading.
//!
//! The reading of a payment contains its status, the money received and returned, the provider's refunds and
//! disputes, and the kinds of open work items. `asks`: after the callback the gateway queries the provider, whose
//! response is that nothing was paid yet.

use super::stub::{Edit, Edits};

/// How a payload is delivered to the gateway.
#[derive(Clone, Copy)]
pub(crate) enum When {
    /// As a callback about an open payment.
    Callback,
    /// As the response to a start.
    Start,
    /// As a response about an open payment.
    Open,
    /// As a response about a paid payment.
    Paid,
    /// As the response to a refund of this amount.
    Refund(&'static str),
    /// Not tested here, for this reason.
    Never(&'static str),
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) when: When,
    /// Amount of the payment, in the module's currency or in the currency that follows after a space.
    pub(crate) due: &'static str,
    pub(crate) edits: Edits,
    pub(crate) reading: &'static str,
}

pub(crate) struct Table {
    pub(crate) module: &'static str,
    pub(crate) method: &'static str,
    pub(crate) currency: &'static str,
    pub(crate) rows: &'static [Row],
}

const fn callback(name: &'static str, due: &'static str, reading: &'static str) -> Row {
    answer(name, When::Callback, due, &[], reading)
}

const fn never(name: &'static str, why: &'static str) -> Row {
    answer(name, When::Never(why), "", &[], "")
}

const fn answer(
    name: &'static str,
    when: When,
    due: &'static str,
    edits: Edits,
    reading: &'static str,
) -> Row {
    Row {
        name,
        when,
        due,
        edits,
        reading,
    }
}

const fn part(from: &'static str, to: &'static str) -> Edit {
    Edit::Part { from, to }
}

/// Only the published key verifies it, which the module's own tests use.
const SIGNED: &str = "a vector of signatures under a published key";

pub(crate) const TABLES: [Table; 8] = [
    Table {
        module: "stripe",
        method: "credit_card",
        currency: "USD",
        rows: &[
            callback("charge-failed", "49.90", "200 asks: pending 0.00 USD"),
            callback(
                "dispute-closed-won-no-id",
                "49.90",
                "200 asks: pending 0.00 USD",
            ),
            callback(
                "dispute-funds-reinstated-needs-response",
                "49.90",
                "200 asks: pending 0.00 USD",
            ),
            callback("payment-capturable", "49.90", "200 asks: pending 0.00 USD"),
            callback(
                "payment-failed-card-declined",
                "49.90",
                "200 asks: pending 0.00 USD",
            ),
            callback(
                "payment-requires-action-3ds",
                "49.90",
                "200 asks: pending 0.00 USD",
            ),
            callback(
                "session-completed-payment-mode",
                "49.90",
                "200 asks: pending 0.00 USD",
            ),
            answer(
                "dispute-object-new",
                When::Paid,
                "49.90",
                &[
                    (
                        "GET /v1/checkout/sessions/",
                        Edit::Set("/payment_intent/latest_charge/disputed", "true"),
                    ),
                    ("GET /v1/disputes", part("", "/data")),
                ],
                "completed 49.90 USD, inquiry 10.00 open, work: dispute",
            ),
            answer(
                "dispute-under-review-two-bookings",
                When::Paid,
                "49.90",
                &[
                    (
                        "GET /v1/checkout/sessions/",
                        Edit::Set("/payment_intent/latest_charge/disputed", "true"),
                    ),
                    ("GET /v1/disputes", part("", "/data")),
                ],
                "completed 49.90 USD, dispute 10.00 open, work: dispute",
            ),
            answer(
                "error-cancel-succeeded",
                When::Open,
                "20.20 GBP",
                &[
                    (
                        "GET /v1/checkout/sessions/",
                        part("/error/payment_intent", "/payment_intent"),
                    ),
                    (
                        "GET /v1/radar/early_fraud_warnings",
                        Edit::Json("{\"data\":[{\"fraud_type\":\"misc\"}]}"),
                    ),
                ],
                "completed 20.20 GBP, work: fraud_warning, work: unreadable",
            ),
            answer(
                "error-requires-action-no-code",
                When::Start,
                "49.90",
                &[("POST /v1/checkout/sessions", Edit::Instead)],
                "422: created 0.00 USD",
            ),
            answer(
                "refund-object-with-customer-account",
                When::Refund("1.00"),
                "49.90",
                &[("POST /v1/refunds", Edit::Instead)],
                "201: 1.00 succeeded",
            ),
            answer(
                "session-open-amounts-null",
                When::Open,
                "49.90",
                &[("GET /v1/checkout/sessions/", Edit::Whole(&[]))],
                "pending 0.00 USD",
            ),
        ],
    },
    Table {
        module: "adyen",
        method: "credit_card",
        currency: "EUR",
        rows: &[
            callback(
                "authorisation-padded-extra-fields",
                "101.00",
                "200: processing 0.00 EUR",
            ),
            callback(
                "authorisation-signed-leading-space",
                "11.30",
                "200: processing 0.00 EUR",
            ),
            callback(
                "authorisation-signed-minimal",
                "11.30",
                "200: processing 0.00 EUR",
            ),
            callback(
                "batch-signed-payment-and-unsigned-report",
                "11.30",
                "200: processing 0.00 EUR",
            ),
            callback(
                "cancellation-no-reference-no-additional-data",
                "49.90",
                "200: created 0.00 EUR",
            ),
            callback(
                "chargeback-dispute-status-lost",
                "100.00 GBP",
                "200: review 0.00 GBP, returned 100.00, dispute 100.00 lost, work: dispute, work: negative",
            ),
            callback(
                "chargeback-dispute-status-won",
                "49.90",
                "200: pending 0.00 EUR, dispute 10.00 won",
            ),
            callback(
                "offer-closed-odd-offset",
                "49.90",
                "200 asks: pending 0.00 EUR",
            ),
            callback(
                "refund-failed",
                "49.90",
                "200: pending 0.00 EUR, refund 15.00 failed",
            ),
            callback(
                "report-available-test-signed-amount-as-text",
                "49.90",
                "200: pending 0.00 EUR",
            ),
            callback(
                "report-available-unsigned-2026",
                "49.90",
                "200: pending 0.00 EUR",
            ),
        ],
    },
    Table {
        module: "paypal",
        method: "paypal",
        currency: "EUR",
        rows: &[
            callback(
                "capture-denied-from-authorization-aud",
                "100.00",
                "200: pending 0.00 EUR",
            ),
            callback("capture-denied-pui", "100.00", "200 asks: pending 0.00 EUR"),
            callback(
                "capture-denied-resource-1.0",
                "100.00",
                "200: pending 0.00 EUR",
            ),
            callback(
                "capture-refunded-by-merchant-at-paypal",
                "100.00",
                "200: pending 0.00 EUR",
            ),
            callback(
                "dispute-lost-partial-gbp",
                "100.00",
                "200 asks: pending 0.00 EUR",
            ),
            answer(
                "order-capture-partially-refunded",
                When::Open,
                "100.00",
                &[("GET /v2/checkout/orders/", Edit::Whole(&["/id"]))],
                "review 100.00 EUR, returned 12.34, refund 12.34 succeeded",
            ),
            answer(
                "order-completed-capture-declined",
                When::Open,
                "100.00",
                &[("GET /v2/checkout/orders/", Edit::Whole(&["/id"]))],
                "created 0.00 EUR",
            ),
            answer(
                "order-multibanco-capture-pending",
                When::Open,
                "100.00",
                &[("GET /v2/checkout/orders/", Edit::Whole(&["/id"]))],
                "verification_pending 0.00 EUR",
            ),
            answer(
                "order-pui-pending-approval",
                When::Open,
                "100.00",
                &[("GET /v2/checkout/orders/", Edit::Whole(&["/id"]))],
                "pending 0.00 EUR",
            ),
            answer(
                "refund-minimal",
                When::Refund("9.90"),
                "100.00",
                &[("POST /refund", Edit::Instead)],
                "201: 9.90 succeeded",
            ),
            never("signed-capture-completed-platform-fee-2024", SIGNED),
            never("signed-capture-pending-unilateral-2024", SIGNED),
            never("signed-capture-refunded-2024", SIGNED),
        ],
    },
    Table {
        module: "mollie",
        method: "ideal",
        currency: "EUR",
        rows: &[
            callback("webhook-classic", "49.90", "200 asks: pending 0.00 EUR"),
            callback(
                "webhook-next-gen-payment-link-paid",
                "49.90",
                "200: pending 0.00 EUR",
            ),
            answer(
                "capture-without-status",
                When::Open,
                "35.95",
                &[
                    ("GET /v2/payments/", Edit::Set("/status", "\"authorized\"")),
                    ("GET /v2/payments/", Edit::Set("/_embedded/captures", "[]")),
                    ("GET /v2/payments/", part("", "/_embedded/captures")),
                    ("POST /captures", Edit::Instead),
                ],
                "processing 0.00 EUR",
            ),
            answer(
                "chargebacks-negative-amounts",
                When::Paid,
                "49.90",
                &[(
                    "GET /v2/payments/",
                    part("/_embedded/chargebacks", "/_embedded/chargebacks"),
                )],
                "completed 49.90 EUR, returned 13.37, dispute 13.00 lost, dispute 0.37 lost, work: dispute",
            ),
            answer(
                "chargebacks-with-embedded-payment",
                When::Paid,
                "49.90",
                &[(
                    "GET /v2/payments/",
                    part("/_embedded/chargebacks", "/_embedded/chargebacks"),
                )],
                "completed 49.90 EUR, returned 20.00, dispute 10.00 lost, dispute 10.00 lost, work: dispute",
            ),
            answer(
                "payment-expired-other-self-link",
                When::Open,
                "10.00",
                &[("GET /v2/payments/", Edit::Whole(&["/id", "/metadata"]))],
                "created 0.00 EUR",
            ),
            answer(
                "payment-ideal-failed-with-settlement-amount",
                When::Open,
                "10.00",
                &[("GET /v2/payments/", Edit::Whole(&["/id", "/metadata"]))],
                "created 0.00 EUR",
            ),
            answer(
                "payment-paid-method-null-no-paid-at",
                When::Open,
                "10.00",
                &[("GET /v2/payments/", Edit::Whole(&["/id", "/metadata"]))],
                "completed 10.00 EUR",
            ),
            answer(
                "refund-pending-metadata-text",
                When::Refund("5.95"),
                "49.90",
                &[("POST /refunds", Edit::Instead)],
                "201: 5.95 pending",
            ),
        ],
    },
    Table {
        module: "btcpay",
        method: "crypto",
        currency: "EUR",
        rows: &[
            callback(
                "invoice-expired-partially-paid",
                "49.90",
                "200 asks: pending 0.00 EUR",
            ),
            callback(
                "invoice-received-payment-1x-names",
                "49.90",
                "200 asks: pending 0.00 EUR",
            ),
            callback(
                "invoice-settled-signed-2023",
                "49.90",
                "200 asks: pending 0.00 EUR",
            ),
            callback(
                "signature-vector-php",
                "49.90",
                "200 asks: pending 0.00 EUR",
            ),
            callback(
                "test-delivery-invoice-created-2025",
                "49.90",
                "200: pending 0.00 EUR",
            ),
            answer(
                "invoice-2021-times-as-text-amount-as-number",
                When::Open,
                "6.15",
                &[
                    ("GET /payment-methods", Edit::Json("[]")),
                    (
                        "GET /invoices/",
                        Edit::Whole(&["/id", "/storeId", "/metadata"]),
                    ),
                ],
                "created 0.00 EUR",
            ),
            answer(
                "invoice-2021-times-as-text-amount-as-number",
                When::Open,
                "6.15",
                &[
                    ("GET /payment-methods", Edit::Json("[]")),
                    (
                        "GET /invoices/",
                        Edit::Whole(&["/id", "/storeId", "/metadata"]),
                    ),
                    ("GET /invoices/", Edit::Set("/status", "\"Settled\"")),
                ],
                "completed 6.15 EUR",
            ),
        ],
    },
    Table {
        module: "razorpay",
        method: "upi_imps",
        currency: "INR",
        rows: &[
            callback(
                "payment-authorized-signed-but-captured",
                "49.90",
                "200 asks: pending 0.00 INR",
            ),
            callback(
                "payment-link-expired-docs-2025",
                "49.90",
                "200 asks: pending 0.00 INR",
            ),
            callback(
                "payment-link-paid-upi-live-2024",
                "49.90",
                "200 asks: pending 0.00 INR",
            ),
            callback(
                "refund-created-already-processed-docs",
                "49.90",
                "200 asks: pending 0.00 INR",
            ),
            callback("refund-failed-docs", "49.90", "200 asks: pending 0.00 INR"),
            callback(
                "refund-speed-changed-created-at-inside",
                "49.90",
                "200 asks: pending 0.00 INR",
            ),
            answer(
                "disputes-open-and-won",
                When::Paid,
                "100.00",
                &[("GET /v1/disputes", Edit::Whole(&[]))],
                "completed 100.00 INR, dispute 100.00 open, dispute 50.00 won, work: dispute",
            ),
            answer(
                "order-payments-no-order-id",
                When::Open,
                "50.00",
                &[
                    (
                        "GET /v1/payment_links/",
                        Edit::Set("/order_id", "\"order_1\""),
                    ),
                    ("GET /v1/orders/", Edit::Instead),
                    (
                        "POST /capture",
                        Edit::Json(
                            "{\"id\":\"pay_50sbkZA9AcyE5a\",\"amount\":5000,\"currency\":\"INR\",\"status\":\"authorized\"}",
                        ),
                    ),
                ],
                "processing 0.00 INR",
            ),
            answer(
                "payment-link-cancelled-empty-reference",
                When::Open,
                "10.00",
                &[("GET /v1/payment_links/", Edit::Whole(&["/id"]))],
                "created 0.00 INR",
            ),
            answer(
                "payment-link-status-active-no-reference",
                When::Open,
                "10.00",
                &[("GET /v1/payment_links/", Edit::Whole(&["/id"]))],
                "pending 0.00 INR",
            ),
            answer(
                "refund-receipt-twice",
                When::Refund("5001.00"),
                "6000.00",
                &[("POST /refund", Edit::Instead)],
                "201: 5001.00 succeeded",
            ),
        ],
    },
    Table {
        module: "revolut",
        method: "revolut",
        currency: "EUR",
        rows: &[
            callback(
                "business-event-signed-docs",
                "100.00",
                "200: pending 0.00 EUR",
            ),
            callback(
                "order-incremental-authorisation-declined",
                "100.00",
                "200 asks: pending 0.00 EUR",
            ),
            callback(
                "order-payment-authorisation-started-sepa",
                "100.00",
                "200 asks: pending 0.00 EUR",
            ),
            callback("subscription-initiated", "100.00", "200: pending 0.00 EUR"),
            answer(
                "dispute-sepa-needs-response",
                When::Paid,
                "100.00",
                &[
                    (
                        "GET /api/orders/",
                        Edit::Set("/payments/0/id", "\"6516f38a-a12b-aca3-83f2-6ed16d6ed246\""),
                    ),
                    ("GET /api/disputes", Edit::Set("", "[]")),
                    ("GET /api/disputes", part("", "")),
                ],
                "completed 100.00 EUR, dispute 100.00 open, work: dispute",
            ),
            answer(
                "disputes-list-odd-amounts",
                When::Paid,
                "100.00",
                &[
                    (
                        "GET /api/orders/",
                        Edit::Set("/payments/0/id", "\"6516f38a-a12b-aca3-83f2-6ed16d6ed246\""),
                    ),
                    ("GET /api/disputes", Edit::Whole(&[])),
                ],
                "completed 100.00 EUR, returned 0.40, dispute 0.50 open, dispute 0.40 lost, work: dispute",
            ),
            answer(
                "order-cancelled",
                When::Open,
                "5.00 GBP",
                &[(
                    "GET /api/orders/",
                    Edit::Whole(&["/id", "/merchant_order_data"]),
                )],
                "created 0.00 GBP",
            ),
            answer(
                "payment-3ds-fingerprint-challenge",
                When::Open,
                "100.00",
                &[
                    ("GET /api/orders/", Edit::Set("/payments", "[]")),
                    ("GET /api/orders/", part("", "/payments")),
                ],
                "pending 0.00 EUR",
            ),
            answer(
                "payment-declined-with-fee",
                When::Open,
                "100.00",
                &[
                    ("GET /api/orders/", Edit::Set("/payments", "[]")),
                    ("GET /api/orders/", part("", "/payments")),
                ],
                "pending 0.00 EUR",
            ),
            answer(
                "refund-order-processing",
                When::Refund("1.00"),
                "100.00 GBP",
                &[("POST /refund", Edit::Instead)],
                "201: 1.00 pending",
            ),
            never(
                "order-completed-api-1.0",
                "an answer of an API that the module does not speak",
            ),
            never("two-signatures-header-docs", SIGNED),
        ],
    },
    Table {
        module: "paysafe",
        method: "interac",
        currency: "CAD",
        rows: &[
            callback(
                "ap-payment-completed-paysafecard-test",
                "49.90",
                "200 asks: pending 0.00 CAD",
            ),
            callback(
                "payment-completed-eft-2021",
                "49.90",
                "200 asks: pending 0.00 CAD",
            ),
            callback(
                "payment-handle-completed-neteller-2020",
                "49.90",
                "200 asks: pending 0.00 CAD",
            ),
            callback(
                "payment-handle-payable-venmo-2022",
                "49.90",
                "200 asks: pending 0.00 CAD",
            ),
            callback(
                "payment-return-bacs-variables-envelope",
                "49.90",
                "200 asks: pending 0.00 CAD",
            ),
            callback(
                "payment-return-completed-sepa",
                "49.90",
                "200 asks: pending 0.00 CAD",
            ),
            callback("test-connectivity", "49.90", "200: pending 0.00 CAD"),
            answer(
                "payment-completed-settlement-pending",
                When::Paid,
                "1.00",
                &[(
                    "GET /payments?",
                    Edit::At("/payments/0", &["/id", "/currencyCode"]),
                )],
                "completed 1.00 CAD",
            ),
            answer(
                "refund-refused-3407",
                When::Refund("11.16"),
                "49.90",
                &[("POST /refunds", Edit::Instead)],
                "201: 11.16 failed",
            ),
            answer(
                "refunds-by-reference-pending",
                When::Paid,
                "49.90",
                &[("GET /refunds?", Edit::Whole(&[]))],
                "completed 49.90 CAD, refund 11.16 pending",
            ),
            answer(
                "settlements-by-reference",
                When::Paid,
                "5.00",
                &[
                    ("GET /payments?", Edit::Set("/payments/0/amount", "null")),
                    ("GET /settlements?", Edit::Whole(&[])),
                ],
                "completed 5.00 CAD",
            ),
            never("signature-vectors-docs", SIGNED),
        ],
    },
];
