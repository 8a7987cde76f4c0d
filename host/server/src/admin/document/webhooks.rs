//! Webhook endpoints and the delivery log.

use utoipa::ToSchema;

use super::call::Call;
use super::formats::*;
use crate::api::formats::{Circuit, Destination, EndpointCreator};
use crate::api::webhooks::schemas::*;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post(
            "/merchants/{id}/webhook-endpoints",
            "createEndpoint",
            "Makes a webhook endpoint.",
        )
        .body::<NewEndpoint>()
        .created::<IssuedEndpoint>("Its id and secret; the secret is shown this once.")
        .conflict("The merchant has too many, or another with the URL."),
        Call::get(
            "/merchants/{id}/webhook-endpoints",
            "listEndpoints",
            "Lists a merchant's webhook endpoints, the newest first.",
        )
        .list::<Endpoint>("webhook_endpoints"),
        Call::post(
            "/resellers/{id}/webhook-endpoints",
            "createResellerEndpoint",
            "Makes a reseller's webhook endpoint.",
        )
        .about(
            "It gets the events of the payments that the reseller makes from now on or made before, for merchants that \
             authorize it at that moment; those of live payments while the reseller is rolled out.",
        )
        .body::<NewEndpoint>()
        .created::<IssuedEndpoint>("Its id and secret; the secret is shown this once.")
        .conflict("The reseller has too many, or another with the URL."),
        Call::get(
            "/resellers/{id}/webhook-endpoints",
            "listResellerEndpoints",
            "Lists a reseller's webhook endpoints, the newest first.",
        )
        .list::<Endpoint>("webhook_endpoints"),
        Call::get(
            "/webhook-endpoints",
            "listAllEndpoints",
            "Lists the webhook endpoints of all merchants, or of one.",
        )
        .about("A page may be short, or even empty, and have a `next_cursor` all the same. Failing ones are as the node that answers has seen them, those of resellers included.")
        .query::<AnyMerchant>("merchant_id", "Of this merchant.")
        .query::<Switch>("failing", "Only those that keep failing.")
        .list::<EndpointTroubles>("webhook_endpoints"),
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
        .conflict("Others keep changing it, or another endpoint has the URL."),
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
        .attributed()
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
            "Makes due at once what waits for the endpoints of a merchant or a reseller, or for all.",
        )
        .about(
            "As after an outage. Each delivery uses one of its attempts. One call does some ten thousand and \
             says where the next begins: repeat it with `cursor` until `next_cursor` is null. One that is \
             begun anew does the rest. Disabled endpoints are passed over; each of the others has a line of the \
             audit log.",
        )
        .body::<WhoseWaiting>()
        .ok::<MadeDue>("How many are due, and where the next call begins.")
        .missing("There is no such merchant or reseller."),
        Call::get(
            "/deliveries",
            "listDeliveries",
            "Lists deliveries, the newest first.",
        )
        .query::<EndpointId>("endpoint_id", "Of one endpoint alone.")
        .about("With a status a page may be short, or even empty, and have a `next_cursor` all the same.")
        .query::<AnyDeliveryStatus>("status", "In one state alone; `failed`: given up, or waiting after an attempt that failed.")
        .query::<PaymentId>("payment_id", "Of this payment.")
        .query::<EventId>("event_id", "Of this event.")
        .query::<AnyMerchant>("merchant_id", "To endpoints of this merchant.")
        .query::<Instant>("since", "Queued at this time or later.")
        .query::<Instant>("until", "Queued before this time.")
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

/// Selects endpoints whose deliveries are made due: `merchant_id`, `reseller_id`, or `all` as true.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[serde(deny_unknown_fields)]
struct WhoseWaiting {
    merchant_id: Option<MerchantId>,
    reseller_id: Option<ResellerId>,
    all: Option<bool>,
    /// `next_cursor` of the previous call.
    cursor: Option<EndpointId>,
}

/// Result of one call.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MadeDue {
    /// Deliveries that were made due.
    deliveries: u64,
    /// Endpoints that have no further deliveries that wait for a later time.
    endpoints: u64,
    /// Endpoints whose deliveries remain waiting because they are disabled.
    disabled: u64,
    /// Null at the end.
    #[schema(required)]
    next_cursor: Option<EndpointId>,
}

/// An endpoint with its backlog.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct EndpointTroubles {
    id: EndpointId,
    /// Null for a reseller's endpoint.
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    /// Null for a merchant's endpoint.
    #[schema(required)]
    reseller_id: Option<ResellerId>,
    url: Destination,
    environment: Environment,
    event_types: Vec<EventType>,
    enabled: bool,
    created_at: Instant,
    created_by: EndpointCreator,
    circuit: Circuit,
    #[schema(required)]
    secret_changes_at: Option<Instant>,
    /// When its circuit first opened since the last success; null while it is closed.
    #[schema(required)]
    failing_since: Option<Instant>,
    /// Why the newest failed attempt failed.
    #[schema(required)]
    last_error: Option<String>,
    /// Number of waiting deliveries, at most 100.
    waiting: u64,
    /// Number of exhausted deliveries, at most 100.
    given_up: u64,
    /// Time of the next attempt.
    #[schema(required)]
    next_attempt_at: Option<Instant>,
}
