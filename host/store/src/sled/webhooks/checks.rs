//! Checks of the rows of webhooks, and of their consistency.

use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::webhook::{DeliveryStatus, EventFilter};
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::{records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, empty, plain};
use crate::sled::webhooks::endpoint_index::{EndpointIndex, wanted_by};
use crate::sled::webhooks::outbox::{BodyRow, DeliveryRow};
use crate::sled::webhooks::{deliver, endpoints};

/// The kinds of rows of webhooks.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(4, "webhook-event", b"dlb/", body),
    Kind::new(5, "delivery-due", schema::webhooks::DUE, empty).following(Derived::Key),
    Kind::new(6, "delivery-by-endpoint", b"dle/", empty).following(Derived::Key),
    Kind::new(103, "delivery-by-payment", b"dlp/", empty).following(Derived::Key),
    Kind::new(7, "delivery-failed", b"dlf/", plain::<bool>).following(Derived::Key),
    Kind::new(8, "delivery-response", b"dlr/", plain::<String>).following(Derived::Key),
    Kind::new(9, "delivery", schema::webhooks::DELIVERIES, delivery),
    Kind::new(
        24,
        "pending-deliveries",
        schema::webhooks::PENDING,
        plain::<u64>,
    ),
    Kind::new(40, "endpoint", schema::webhooks::ENDPOINTS, endpoint)
        .sealing(crate::rows::endpoints::reseal),
    Kind::new(41, "endpoint-by-owner", b"whm/", empty).following(Derived::Key),
    Kind::new(42, "endpoint-roster", b"whr/", roster),
];

/// Checks that an endpoint can be opened, that its owner exists, and that its roster contains its filter.
fn endpoint(verifier: &mut Verifier<'_>, key: &[u8], _: &IVec) -> Result<(), Fault> {
    let id = schema::trailing_id(key).map(EndpointId::from_bytes);
    let id = id.ok_or_else(|| records::damaged(key, "it names no endpoint"))?;
    let sealer = &verifier.secrets.sealer;
    let loaded = endpoints::load_with_secrets(&verifier.view(), sealer, id)?;
    let (endpoint, _) = loaded.ok_or_else(|| records::damaged(key, "it is missing"))?;
    if endpoint.id != id {
        return Err(records::damaged(key, "it is another endpoint's"));
    }
    let owner = endpoint.owner;
    let index = schema::webhooks::endpoint_of(owner, endpoint.created_at, id);
    verifier.promise(index, &[])?;
    let roster = schema::webhooks::roster(owner, endpoint.environment);
    let told = [&roster, id.as_bytes().as_slice(), &wanted_by(&endpoint)].concat();
    let missing = "its owner's roster does not say what it wants: no event reaches it";
    verifier.promise_told(b"whr/", key, &told, missing)?;
    verifier.needs_owner(key, owner)
}

/// Checks the roster of an owner's endpoints.
fn roster(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let roster: EndpointIndex = records::decode(&verifier.secrets.sealer, key, row)?;
    for (id, wants) in roster.told() {
        let told = [key, id.as_bytes().as_slice(), &wants].concat();
        verifier.tells(
            key,
            &told,
            "an endpoint that it names is missing or wants other events",
        )?;
    }
    for id in roster.wanting_all() {
        // A missing endpoint was reported above, a damaged one by its own row.
        let endpoint = records::readable(endpoints::load(&verifier.view(), id))?.flatten();
        if endpoint.is_some_and(|endpoint| endpoint.event_types != EventFilter::All) {
            verifier.find(key, "an endpoint that it has hear of all wants only some");
        }
    }
    Ok(())
}

fn delivery(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let row: DeliveryRow = records::decode(&verifier.secrets.sealer, key, row)?;
    let id: DeliveryId = deliver::trailing_id(key)?;
    verifier.promise(schema::webhooks::delivery_to(row.endpoint, id), &[])?;
    if let Some(listed) = schema::webhooks::delivery_of(row.payment, id) {
        verifier.promise(listed, &[])?;
    }
    if row.next_attempt_at.is_some() != (row.status == DeliveryStatus::Pending) {
        verifier.find(key, "it is due and over, or neither");
    }
    if let Some(at) = row.next_attempt_at {
        verifier.promise(schema::webhooks::due(row.endpoint, at, id), &[])?;
        verifier.count_pending();
    }
    if row.status == DeliveryStatus::Exhausted {
        verifier.promise(schema::webhooks::failed(row.endpoint, id), &[])?;
    }
    for attempt in row.long_responses() {
        verifier.promise(schema::webhooks::response(id, attempt), &[])?;
    }
    let missing = "the event that it is of is missing, or counts fewer deliveries";
    let told = row.body().split_off(schema::webhooks::BODIES.len());
    verifier.promise_told(schema::webhooks::BODIES, key, &told, missing)
}

/// Checks an event's body, which counts its deliveries.
fn body(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let row: BodyRow = records::decode(&verifier.secrets.sealer, key, row)?;
    let told = key
        .get(schema::webhooks::BODIES.len()..)
        .unwrap_or_default();
    for _ in 0..row.deliveries {
        verifier.tells(key, told, "a delivery of it is missing")?;
    }
    Ok(())
}
