//! Schemas of webhook endpoints and deliveries, for both documents.
#![expect(dead_code, reason = "only the schemas are used")]

use utoipa::ToSchema;

use crate::api::formats::{
    Circuit, Cursor, DeliveryId, DeliveryStatus, Destination, EndpointCreator, EndpointId,
    Environment, EventId, EventType, Instant, MerchantId, Overlap, PaymentId, ResellerId,
};

/// A new endpoint.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEndpoint {
    url: Destination,
    environment: Environment,
    /// All except `payment.attempt_failed` if absent; without duplicates.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
}

/// A new endpoint of the key's owner and environment.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnEndpoint {
    url: Destination,
    /// The key's environment.
    environment: Option<Environment>,
    /// All except `payment.attempt_failed` if absent; without duplicates.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
}

/// Changes of an endpoint.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointPatch {
    #[schema(nullable = false)]
    url: Option<Destination>,
    /// `null`: all except `payment.attempt_failed`.
    #[schema(min_items = 1)]
    event_types: Option<Vec<EventType>>,
    /// Whether it gets new events.
    #[schema(nullable = false)]
    enabled: Option<bool>,
}

/// A new endpoint with its secret.
#[derive(ToSchema)]
pub(crate) struct IssuedEndpoint {
    id: EndpointId,
    /// Secret that signs its events: shown only this time.
    #[schema(example = "whsec_…")]
    secret: String,
}

/// An endpoint.
#[derive(ToSchema)]
pub(crate) struct Endpoint {
    id: EndpointId,
    /// Null for a reseller's endpoint.
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    /// Null for a merchant's endpoint.
    #[schema(required)]
    reseller_id: Option<ResellerId>,
    url: Destination,
    environment: Environment,
    /// All except `payment.attempt_failed` if none was specified.
    event_types: Vec<EventType>,
    enabled: bool,
    created_at: Instant,
    created_by: EndpointCreator,
    circuit: Circuit,
    /// Time at which the next secret starts to sign, during a rotation.
    #[schema(required)]
    secret_changes_at: Option<Instant>,
}

/// A queued test event.
#[derive(ToSchema)]
pub(crate) struct Queued {
    delivery_id: DeliveryId,
}

/// A rotation of a secret.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointRotation {
    overlap_hours: Option<Overlap>,
}

/// A new secret.
#[derive(ToSchema)]
pub(crate) struct RotatedEndpoint {
    id: EndpointId,
    /// The new secret: shown only this time.
    #[schema(example = "whsec_…")]
    secret: String,
    /// Time from which it signs.
    active_from: Instant,
}

/// Selects deliveries to be sent again.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recovery {
    /// Events from this time on, not in the future.
    since: Instant,
}

/// Result of sending again.
#[derive(ToSchema)]
pub(crate) struct Recovered {
    /// Number of deliveries.
    deliveries: u64,
}

/// A page of webhook endpoints.
#[derive(ToSchema)]
pub(crate) struct Endpoints {
    /// Newest first.
    webhook_endpoints: Vec<Endpoint>,
    /// Null at the end.
    #[schema(required)]
    next_cursor: Option<Cursor>,
}

/// A page of deliveries. It may be short, or even empty, and still have a `next_cursor`.
#[derive(ToSchema)]
pub(crate) struct Deliveries {
    /// Newest first.
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
    /// Zeros for an event of the type `webhook.test`.
    payment_id: PaymentId,
    status: DeliveryStatus,
    created_at: Instant,
    /// Null once the delivery has ended.
    #[schema(required)]
    next_attempt_at: Option<Instant>,
    /// Oldest first.
    attempts: Vec<DeliveryAttempt>,
}

/// One attempt to deliver.
#[derive(ToSchema)]
pub(crate) struct DeliveryAttempt {
    at: Instant,
    /// The receiver's HTTP status; null if there was no response.
    #[schema(required)]
    status: Option<u16>,
    duration_ms: u64,
    /// Why there was no response, or why it did not count.
    #[schema(required)]
    error: Option<String>,
    /// The beginning of the response's body.
    #[schema(required)]
    response: Option<String>,
}
