//! The shapes of webhook endpoints and deliveries, for both documents.
#![expect(dead_code, reason = "only the schemas are used")]

use utoipa::ToSchema;

use crate::api::formats::{
    Circuit, Cursor, DeliveryId, DeliveryStatus, Destination, EndpointId, Environment, EventId,
    EventType, Instant, MerchantId, Overlap, PaymentId, ResellerId,
};

/// An endpoint to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEndpoint {
    url: Destination,
    environment: Environment,
    /// All but `payment.attempt_failed` where it is absent; each once.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
}

/// An endpoint to be, of the key's owner and environment.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnEndpoint {
    url: Destination,
    /// The key's.
    environment: Option<Environment>,
    /// All but `payment.attempt_failed` where it is absent; each once.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
}

/// What is to change of an endpoint.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointPatch {
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
pub(crate) struct IssuedEndpoint {
    id: EndpointId,
    /// What its events are signed with: shown this once.
    #[schema(example = "whsec_…")]
    secret: String,
}

/// An endpoint.
#[derive(ToSchema)]
pub(crate) struct Endpoint {
    id: EndpointId,
    /// Null of a reseller's.
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    /// Null of a merchant's.
    #[schema(required)]
    reseller_id: Option<ResellerId>,
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
pub(crate) struct Queued {
    delivery_id: DeliveryId,
}

/// How a secret is replaced.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointRotation {
    overlap_hours: Option<Overlap>,
}

/// A new secret.
#[derive(ToSchema)]
pub(crate) struct RotatedEndpoint {
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
pub(crate) struct Recovery {
    /// Events from this time on, not in the future.
    since: Instant,
}

/// What is sent again.
#[derive(ToSchema)]
pub(crate) struct Recovered {
    /// How many.
    deliveries: u64,
}

/// A page of webhook endpoints.
#[derive(ToSchema)]
pub(crate) struct Endpoints {
    /// The newest first.
    webhook_endpoints: Vec<Endpoint>,
    /// Null at the end.
    #[schema(required)]
    next_cursor: Option<Cursor>,
}

/// A page of deliveries. It may be short, or even empty, and have a `next_cursor` all the same.
#[derive(ToSchema)]
pub(crate) struct Deliveries {
    /// The newest first.
    deliveries: Vec<Delivery>,
    /// Null at the end.
    #[schema(required)]
    next_cursor: Option<Cursor>,
}

/// An event for an endpoint.
#[derive(ToSchema)]
pub(crate) struct Delivery {
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
pub(crate) struct DeliveryAttempt {
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
