//! Keys of the rows of webhooks.
//!
//! | prefix | key | value |
//! |---|---|---|
//! | `whe/` | endpoint | an endpoint, its secrets sealed |
//! | `whm/` | owner, newest first, endpoint | – |
//! | `whr/` | owner, environment | the roster: its endpoints with the events that each wants |
//! | `dlb/` | time, event | the body of the event, and its number of deliveries |
//! | `dlv/` | delivery | a delivery with the log of its attempts |
//! | `dlr/` | delivery, attempt | a response too long for the delivery's row |
//! | `dle/` | endpoint, delivery | – |
//! | `dlp/` | payment, delivery | –; none for `webhook.test` |
//! | `dld/` | endpoint, time, delivery | –; a row is there while the delivery is pending |
//! | `dlf/` | endpoint, delivery | an exhausted one: whether it was queued again |
//! | `meta/pending` | | how many deliveries are pending |
//!
//! An owner is a merchant's number, or 0, which is never a merchant's, and a reseller's number.
//!
//! A delivery's id starts with the time at which it was queued, so that ids are in order of time.

use kassette_domain::id::{DeliveryId, Digest, EndpointId, EventId, PaymentId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::time::Time;

use crate::rows::schema::{Key, key, newest_first, world};

pub(crate) const PENDING: &[u8] = b"meta/pending";
pub(crate) const DELIVERIES: &[u8] = b"dlv/";
pub(crate) const DUE: &[u8] = b"dld/";
pub(crate) const BODIES: &[u8] = b"dlb/";
pub(crate) const ENDPOINTS: &[u8] = b"whe/";
/// Bytes of an id.
pub(crate) const ID: usize = 16;
/// Bytes of a time before an id.
const TIME: usize = 8;
/// Bytes of the time at the start of a delivery's id, in milliseconds.
const ID_TIME: usize = 6;

/// An id that is greater than all earlier ones: the time and 80 random bits.
pub(crate) fn delivery_id(at: Time, mut random: [u8; ID]) -> DeliveryId {
    random[..ID_TIME].copy_from_slice(&at.as_millis().to_be_bytes()[2..]);
    DeliveryId::from_bytes(random)
}

/// The id of an event's first delivery to an endpoint. It has no random part, so that no event is queued twice.
pub(crate) fn first_delivery(queued_at: Time, event: EventId, endpoint: EndpointId) -> DeliveryId {
    let of = [event.as_bytes().as_slice(), endpoint.as_bytes()].concat();
    let hash = Digest::hash(&of).0;
    let mut last = [0; ID];
    last.copy_from_slice(&hash[hash.len() - ID..]);
    delivery_id(queued_at, last)
}

/// The first id that could be drawn then.
pub(crate) fn first_delivery_id(at: Time) -> DeliveryId {
    delivery_id(at, [0; ID])
}

/// Time at which an id was created.
pub(crate) fn drawn_at(id: DeliveryId) -> Time {
    let mut time = [0; 8];
    time[2..].copy_from_slice(&id.as_bytes()[..ID_TIME]);
    Time::from_millis(u64::from_be_bytes(time))
}

pub(crate) fn endpoint(id: EndpointId) -> Key {
    key(&[ENDPOINTS, id.as_bytes()])
}

/// Prefix of an owner's keys.
fn owned(prefix: &[u8], owner: KeyOwner) -> Key {
    match owner {
        KeyOwner::Merchant(id) => key(&[prefix, &id.0.to_be_bytes()]),
        KeyOwner::Reseller(id) => key(&[prefix, &[0; 8], &id.0.to_be_bytes()]),
    }
}

pub(crate) fn endpoints_of(owner: KeyOwner) -> Key {
    owned(b"whm/", owner)
}

pub(crate) fn endpoint_of(owner: KeyOwner, created_at: Time, id: EndpointId) -> Key {
    key(&[
        &endpoints_of(owner),
        &newest_first(created_at),
        id.as_bytes(),
    ])
}

pub(crate) fn roster(owner: KeyOwner, environment: Environment) -> Key {
    key(&[&owned(b"whr/", owner), world(environment)])
}

/// In order of time, so that events of the same period are close together, regardless of the number of
/// earlier deliveries.
pub(crate) fn body(written_at: Time, event: EventId) -> Key {
    let time = written_at.as_millis().to_be_bytes();
    key(&[BODIES, &time, event.as_bytes()])
}

/// The body of an event, in stores on PostgreSQL.
pub(crate) fn sent(event: EventId) -> Key {
    key(&[BODIES, event.as_bytes()])
}

pub(crate) fn delivery(id: DeliveryId) -> Key {
    key(&[DELIVERIES, id.as_bytes()])
}

pub(crate) fn response(id: DeliveryId, attempt: u8) -> Key {
    key(&[b"dlr/", id.as_bytes(), &[attempt]])
}

pub(crate) fn deliveries_to(endpoint: EndpointId) -> Key {
    key(&[b"dle/", endpoint.as_bytes()])
}

pub(crate) fn delivery_to(endpoint: EndpointId, id: DeliveryId) -> Key {
    key(&[&deliveries_to(endpoint), id.as_bytes()])
}

pub(crate) fn deliveries_of(payment: PaymentId) -> Key {
    key(&[b"dlp/", payment.as_bytes()])
}

/// Key by payment. `None` for `webhook.test`, which has no payment.
pub(crate) fn delivery_of(payment: PaymentId, id: DeliveryId) -> Option<Key> {
    let is_test = *payment.as_bytes() == [0; ID];
    (!is_test).then(|| key(&[&deliveries_of(payment), id.as_bytes()]))
}

pub(crate) fn due_of(endpoint: EndpointId) -> Key {
    key(&[DUE, endpoint.as_bytes()])
}

pub(crate) fn due(endpoint: EndpointId, at: Time, id: DeliveryId) -> Key {
    key(&[
        &due_of(endpoint),
        &at.as_millis().to_be_bytes(),
        id.as_bytes(),
    ])
}

/// Reads a key of `dld/`.
pub(crate) fn read_due(key: &[u8]) -> Option<(EndpointId, Time, DeliveryId)> {
    let rest = key.strip_prefix(DUE)?;
    let (endpoint, rest) = rest.split_first_chunk::<ID>()?;
    let (time, rest) = rest.split_first_chunk::<TIME>()?;
    Some((
        EndpointId::from_bytes(*endpoint),
        Time::from_millis(u64::from_be_bytes(*time)),
        DeliveryId::from_bytes(rest.try_into().ok()?),
    ))
}

pub(crate) fn failed_of(endpoint: EndpointId) -> Key {
    key(&[b"dlf/", endpoint.as_bytes()])
}

pub(crate) fn failed(endpoint: EndpointId, id: DeliveryId) -> Key {
    key(&[&failed_of(endpoint), id.as_bytes()])
}

/// The endpoint whose worker must check for work because this row was written.
pub(crate) fn wakes(key: &[u8]) -> Option<EndpointId> {
    let rest = key
        .strip_prefix(DUE)
        .or_else(|| key.strip_prefix(ENDPOINTS))?;
    rest.first_chunk().copied().map(EndpointId::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_deliveries_stand_in_order_of_time_and_tell_it() {
        let (early, late) = (
            Time::from_millis(1_800_000_000_001),
            Time::from_secs(1_900_000_000),
        );
        let (a, b) = (delivery_id(early, [255; 16]), delivery_id(late, [0; 16]));
        assert!(a < b && first_delivery_id(early) < a);
        assert_eq!((drawn_at(a), drawn_at(b)), (early, late));
    }

    #[test]
    fn a_due_row_reads_back_and_stands_in_order_of_time() {
        let (endpoint, id) = (
            EndpointId::from_bytes([3; 16]),
            DeliveryId::from_bytes([9; 16]),
        );
        let at = Time::from_millis(77);
        let row = due(endpoint, at, id);
        assert_eq!(read_due(&row), Some((endpoint, at, id)));
        assert!(
            row < due(
                endpoint,
                Time::from_millis(78),
                DeliveryId::from_bytes([0; 16])
            )
        );
        assert_eq!(wakes(&row), Some(endpoint));
        assert_eq!(
            wakes(&crate::rows::schema::webhooks::endpoint(endpoint)),
            Some(endpoint)
        );
        assert_eq!(wakes(&delivery(id)), None);
    }
}
