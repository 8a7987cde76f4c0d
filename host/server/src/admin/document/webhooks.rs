//! Webhook endpoints and the delivery log.
#![expect(dead_code, reason = "only the schemas are used")]

use utoipa::ToSchema;

use super::call::Call;
use super::formats::*;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post(
            "/merchants/{id}/webhook-endpoints",
            "createEndpoint",
            "Makes a webhook endpoint.",
        )
        .body::<NewEndpoint>()
        .created::<IssuedEndpoint>("Its id and secret; the secret is shown this once.")
        .conflict("The merchant has too many."),
        Call::get(
            "/merchants/{id}/webhook-endpoints",
            "listEndpoints",
            "Lists a merchant's webhook endpoints, the newest first.",
        )
        .list::<Endpoint>("webhook_endpoints"),
        Call::get(
            "/webhook-endpoints/{id}",
            "readEndpoint",
            "Shows a webhook endpoint.",
        )
        .ok::<Endpoint>("The endpoint."),
        Call::patch(
            "/webhook-endpoints/{id}",
            "changeEndpoint",
            "Changes a webhook endpoint.",
        )
        .about("A JSON merge patch: what is absent stays.")
        .body::<EndpointPatch>()
        .ok::<Endpoint>("The endpoint as it is now.")
        .conflict("Others keep changing it."),
        Call::delete(
            "/webhook-endpoints/{id}",
            "deleteEndpoint",
            "Deletes a webhook endpoint.",
        )
        .about("Its pending deliveries are cancelled."),
        Call::post(
            "/webhook-endpoints/{id}/test",
            "testEndpoint",
            "Sends an event of the type `webhook.test`.",
        )
        .created::<Queued>("Where its attempts are told.")
        .conflict("The endpoint was changed meanwhile."),
        Call::post(
            "/webhook-endpoints/{id}/rotate",
            "rotateEndpoint",
            "Gives a webhook endpoint a new secret.",
        )
        .about("With an overlap the old one signs until then.")
        .body::<EndpointRotation>()
        .ok::<RotatedEndpoint>("The new secret, shown this once.")
        .conflict("The endpoint was changed meanwhile."),
        Call::post(
            "/webhook-endpoints/{id}/recover",
            "recoverEndpoint",
            "Sends again what failed since a time.",
        )
        .body::<Recovery>()
        .ok::<Recovered>("How many deliveries were queued.")
        .conflict("The endpoint was changed meanwhile."),
        Call::post(
            "/webhook-endpoints/{id}/deliver",
            "deliverNow",
            "Makes due at once what waits for an endpoint.",
        )
        .about("As after an outage of the receiver. Each delivery uses one of its attempts.")
        .ok::<Recovered>("How many deliveries are due.")
        .conflict("The endpoint is disabled, or was changed meanwhile."),
        Call::post(
            "/webhook-endpoints/deliver",
            "deliverWaiting",
            "Makes due at once what waits for a merchant's endpoints, or for all.",
        )
        .about(
            "As after an outage. Each delivery uses one of its attempts. One call does some ten thousand and \
             says where the next begins: repeat it with `cursor` until `next_cursor` is null. One that is \
             begun anew does the rest. Disabled endpoints are passed over; each of the others has a line of the \
             audit log.",
        )
        .body::<WhoseWaiting>()
        .ok::<MadeDue>("How many are due, and where the next call begins.")
        .missing("There is no such merchant."),
        Call::get(
            "/deliveries",
            "listDeliveries",
            "Lists deliveries, the newest first.",
        )
        .query::<EndpointId>("endpoint_id", "Of one endpoint alone.")
        .query::<DeliveryStatus>("status", "In one state alone.")
        .list::<Delivery>("deliveries"),
        Call::get(
            "/deliveries/{id}",
            "readDelivery",
            "Shows a delivery with its attempts.",
        )
        .ok::<Delivery>("The delivery."),
        Call::post(
            "/deliveries/{id}/redeliver",
            "redeliver",
            "Sends the same event to the same endpoint again.",
        )
        .created::<Delivery>("The new delivery.")
        .conflict("The endpoint was deleted."),
    ]
}

/// An endpoint to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewEndpoint {
    url: Destination,
    environment: Environment,
    /// All but `payment.attempt_failed` where it is absent; each once.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
}

/// What is to change of an endpoint.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct EndpointPatch {
    #[schema(nullable = false)]
    url: Option<Destination>,
    /// `null`: all but `payment.attempt_failed`.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
    /// Whether it gets new events.
    #[schema(nullable = false)]
    enabled: Option<bool>,
}

/// An endpoint that was just made.
#[derive(ToSchema)]
struct IssuedEndpoint {
    id: EndpointId,
    /// What its events are signed with: shown this once.
    #[schema(example = "whsec_…")]
    secret: String,
}

/// An endpoint.
#[derive(ToSchema)]
struct Endpoint {
    id: EndpointId,
    merchant_id: MerchantId,
    url: Destination,
    environment: Environment,
    /// All but `payment.attempt_failed` where none was named.
    event_types: Vec<EventType>,
    enabled: bool,
    created_at: Instant,
    circuit: Circuit,
}

/// A test event that is on its way.
#[derive(ToSchema)]
struct Queued {
    delivery_id: DeliveryId,
}

/// How a secret is replaced.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct EndpointRotation {
    overlap_hours: Option<Overlap>,
}

/// A new secret.
#[derive(ToSchema)]
struct RotatedEndpoint {
    id: EndpointId,
    /// The new secret: shown this once.
    #[schema(example = "whsec_…")]
    secret: String,
    /// From when on it signs.
    active_from: Instant,
}

/// What is to be sent again.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct Recovery {
    /// Events from this time on, not in the future.
    since: Instant,
}

/// What is sent again.
#[derive(ToSchema)]
struct Recovered {
    /// How many.
    deliveries: u64,
}

/// Whose deliveries are made due: `merchant_id`, or `all` as true.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct WhoseWaiting {
    merchant_id: Option<MerchantId>,
    all: Option<bool>,
    /// `next_cursor` of the call before.
    cursor: Option<EndpointId>,
}

/// What one call made due.
#[derive(ToSchema)]
struct MadeDue {
    /// Deliveries that are due now and were not.
    deliveries: u64,
    /// Endpoints that nothing waits for any more but what is due.
    endpoints: u64,
    /// Endpoints for which something waits and stays, because they are disabled.
    disabled: u64,
    /// Null at the end.
    #[schema(required)]
    next_cursor: Option<EndpointId>,
}

/// An event for an endpoint.
#[derive(ToSchema)]
struct Delivery {
    id: DeliveryId,
    event_id: EventId,
    event_type: EventType,
    endpoint_id: EndpointId,
    /// Zeros of an event of the type `webhook.test`.
    payment_id: PaymentId,
    status: DeliveryStatus,
    created_at: Instant,
    /// Null once it is over.
    #[schema(required)]
    next_attempt_at: Option<Instant>,
    /// The oldest first.
    attempts: Vec<DeliveryAttempt>,
}

/// One attempt to deliver.
#[derive(ToSchema)]
struct DeliveryAttempt {
    at: Instant,
    /// The receiver's HTTP status; null where there was no answer.
    #[schema(required)]
    status: Option<u16>,
    duration_ms: u64,
    /// Why there was no answer, or it did not count.
    #[schema(required)]
    error: Option<String>,
    /// How the answer's body begins.
    #[schema(required)]
    response: Option<String>,
}
