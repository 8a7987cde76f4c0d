//! Webhook events in the document. The gateway sends them to merchants' servers.

use kassette_domain::extras::Metadata;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{
    ContentBuilder, HttpMethod, PathItem, Paths, PathsBuilder, Ref, RefOr, Required,
    ResponseBuilder,
};
use utoipa::{PartialSchema as _, ToSchema};

use super::formats;

const DESCRIPTION: &str = "\
Posted to each webhook endpoint of the payment's merchant and environment that wants the type; `payment.attempt_failed` goes to those alone that name it. \
Answer 2xx once the event is processed and that is committed; anything else is tried again, eight \
times in all, with the same id and the same bytes. Verify before reading: \
`X-Service-Signature` is `v1=` and the lower-case hex HMAC-SHA256, keyed with the endpoint's whole \
secret, over the timestamp, `.`, the event's id, `.`, and the raw body. Refuse timestamps more than \
five minutes away, compare in constant time, and check that the body's id is the header's. The libraries of Standard Webhooks verify the \
`webhook-` headers with the same secret. Events \
come more than once and out of order, and types that are not named here may be added: ignore them.";

/// An event.
#[derive(ToSchema)]
#[schema(as = Event, example = json!({
    "id": "4c6d1f0e8a2b4c3d9e5f7a6b8c0d1e2f", "type": "payment.completed",
    "created_at": "2026-03-01T09:30:00.000Z",
    "data": {
        "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c", "order_id": "order-1042",
        "status": "completed", "amount": "49.90", "currency": "EUR", "usd_amount": "53.89",
        "settlement_status": "confirmed", "test_mode": false
    }
}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct EventBody {
    #[schema(value_type = formats::EventId)]
    id: String,
    #[schema(value_type = formats::EventType)]
    r#type: String,
    #[schema(value_type = formats::CreatedAt)]
    created_at: String,
    data: EventData,
}

/// The payment at the time of the event.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct EventData {
    #[schema(value_type = formats::PaymentId)]
    payment_id: String,
    #[schema(value_type = formats::OrderId)]
    order_id: String,
    #[schema(value_type = formats::PaymentStatus)]
    status: String,
    #[schema(value_type = formats::InvoiceAmount)]
    amount: String,
    #[schema(value_type = formats::PaymentCurrency)]
    currency: String,
    #[schema(value_type = formats::UsdAmount)]
    usd_amount: String,
    #[schema(value_type = formats::SettlementStatus)]
    settlement_status: String,
    /// True for payments of test keys, which are never real money.
    test_mode: bool,
    /// The amount that an operator accepted instead of the invoice's, in events after that.
    #[schema(value_type = Option<EventShort>, nullable = false)]
    short: Option<EventShort>,
    /// For `payment.refunded` and `payment.refund_failed`.
    #[schema(value_type = Option<formats::RefundId>, nullable = false)]
    refund_id: Option<String>,
    /// The amount to be refunded, in `refund_currency`.
    #[schema(value_type = Option<formats::InvoiceAmount>, nullable = false)]
    refund_amount: Option<String>,
    /// The currency that was received.
    #[schema(value_type = Option<formats::ReceivedCurrency>, nullable = false)]
    refund_currency: Option<String>,
    #[schema(value_type = Option<formats::RefundOrigin>, nullable = false)]
    origin: Option<String>,
    /// The amount of a refund that has come back, in `refund_currency`; for `payment.capture_reversed`, the
    /// amount of captured money that the provider has now reversed, in `reversed_currency`.
    #[schema(value_type = Option<formats::Amount>, nullable = false)]
    reversed_amount: Option<String>,
    #[schema(value_type = Option<formats::ReceivedCurrency>, nullable = false)]
    reversed_currency: Option<String>,
    /// For `payment.refund_failed`: whether the refund had been reported as succeeded.
    #[schema(nullable = false)]
    late: Option<bool>,
    /// For `payment.disputed` and `payment.dispute_closed`: the provider's id.
    #[schema(nullable = false)]
    dispute_id: Option<String>,
    #[schema(value_type = Option<formats::DisputeKind>, nullable = false)]
    kind: Option<String>,
    #[schema(value_type = Option<formats::Amount>, nullable = false)]
    dispute_amount: Option<String>,
    #[schema(value_type = Option<formats::ReceivedCurrency>, nullable = false)]
    dispute_currency: Option<String>,
    /// The provider's code; null if it sent none.
    reason: Option<String>,
    /// Time until which the provider accepts a response; null if it sent none.
    #[schema(value_type = Option<formats::Instant>)]
    respond_by: Option<String>,
    /// For `payment.dispute_closed`: `won` or `lost`.
    #[schema(value_type = Option<formats::DisputeState>, nullable = false)]
    outcome: Option<String>,
    /// Why the attempt ended; only for `payment.attempt_failed`.
    #[schema(value_type = Option<formats::DeclineCode>, nullable = false)]
    decline_code: Option<String>,
    /// Only in `webhook.disabled`: the disabled endpoint.
    #[schema(value_type = Option<formats::EndpointId>, nullable = false)]
    endpoint_id: Option<String>,
    /// The merchant's values. Absent if there are none.
    #[schema(value_type = Option<formats::Metadata>, nullable = false)]
    metadata: Option<Metadata>,
    /// Only for the reseller that created the payment.
    #[schema(value_type = Option<formats::ClientRef>, nullable = false)]
    client_ref: Option<String>,
    /// Only for the reseller that created the payment.
    #[schema(value_type = Option<formats::MerchantId>, nullable = false)]
    merchant_id: Option<u64>,
}

/// The amount that an operator accepted instead of the invoice's.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct EventShort {
    #[schema(value_type = formats::Amount)]
    amount: String,
    #[schema(value_type = formats::ReceivedCurrency)]
    currency: String,
}

/// The document's `webhooks`: one entry for all types.
pub(super) fn webhooks() -> Paths {
    let header = |name: &str, description: &str, pattern: &str| {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern));
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(schema))
            .build()
    };
    let headers = [
        header(
            "X-Service-Event-ID",
            "The event's id, as in the body.",
            "^[0-9a-f]{32}$",
        ),
        header(
            "X-Service-Timestamp",
            "Unix seconds of this attempt.",
            "^[0-9]{10}$",
        ),
        header(
            "X-Service-Signature",
            "Over timestamp, event id and raw body.",
            "^v1=[0-9a-f]{64}$",
        ),
        header(
            "webhook-id",
            "The event's id, for the libraries of Standard Webhooks.",
            "^[0-9a-f]{32}$",
        ),
        header(
            "webhook-timestamp",
            "Unix seconds of this attempt.",
            "^[0-9]{10}$",
        ),
        header(
            "webhook-signature",
            "Over event id, timestamp and raw body, keyed with the base64-decoded text after `whsec_`; two during a rotation.",
            "^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)?$",
        ),
    ];
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(EventBody::name())))
        .build();
    let body = RequestBodyBuilder::new()
        .content("application/json", content)
        .required(Some(Required::True))
        .build();
    let taken = ResponseBuilder::new()
        .description("Processed, now or before.")
        .build();
    let operation = OperationBuilder::new()
        .operation_id(Some("receiveEvent"))
        .tag("Webhooks")
        .summary(Some("Tells a merchant's server what became of a payment."))
        .description(Some(DESCRIPTION))
        .parameters(Some(headers))
        .request_body(Some(body))
        // It is signed instead of using a key.
        .securities(Some([]))
        .response("2XX", taken);
    PathsBuilder::new()
        .path("payment-event", PathItem::new(HttpMethod::Post, operation))
        .build()
}

/// The schemas referenced by [`webhooks`].
pub(super) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let mut schemas = vec![(EventBody::name().into_owned(), EventBody::schema())];
    EventBody::schemas(&mut schemas);
    schemas
}
