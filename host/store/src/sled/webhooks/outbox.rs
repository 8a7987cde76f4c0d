//! Queued events: one body per event, and a delivery for each endpoint that wants it.

use std::ops::ControlFlow;

use kassette_domain::event::{Event, EventSubject, EventType};
use kassette_domain::id::{DeliveryId, EndpointId, EventId, MerchantId, PaymentId};
use kassette_domain::key::KeyOwner;
use kassette_domain::order::ClientRef;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    AttemptRecord, Delivery, DeliveryAttempt, DeliveryStatus, Endpoint, Message, Tried,
};
use kassette_engine::Span;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::random_id;
use crate::rows::source::{RowSource, Save as _};
use crate::sled::memory::Rows;
use crate::sled::resellers::delegations;
use crate::sled::webhooks::endpoint_index::EndpointIndex;

/// Maximum length in bytes of a response stored in the delivery's row. A longer one has a separate row, so
/// that the delivery's row, which every attempt rewrites, stays small.
const SHORT_RESPONSE: usize = 256;

/// An event's stored body, without [`Additions`](kassette_domain::webhook::Additions).
#[derive(Serialize, Deserialize)]
pub(crate) struct BodyRow {
    pub(crate) kind: EventType,
    pub(crate) payment: PaymentId,
    pub(crate) body: String,
    /// The reseller's reference and the merchant. `None` if no reseller created the payment.
    pub(crate) delegated: Option<(ClientRef, MerchantId)>,
    /// Number of deliveries. The body is removed with the last one.
    pub(crate) deliveries: u32,
}

impl BodyRow {
    /// The body of an event without deliveries.
    fn new(event: &Event, payment: &Payment) -> Self {
        Self {
            kind: event.kind,
            payment: payment.id,
            body: Message::about(event, payment).body(),
            delegated: match &payment.origin {
                Origin::Merchant { .. } => None,
                Origin::Reseller { client_ref, .. } => Some((client_ref.clone(), payment.merchant)),
            },
            deliveries: 0,
        }
    }
}

/// A delivery's row. Its id is in its key.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DeliveryRow {
    pub(crate) event: EventId,
    /// Time at which the event's body was written.
    body_at: Time,
    pub(crate) kind: EventType,
    pub(crate) endpoint: EndpointId,
    pub(crate) payment: PaymentId,
    pub(crate) status: DeliveryStatus,
    pub(crate) created_at: Time,
    pub(crate) next_attempt_at: Option<Time>,
    pub(crate) attempts: Vec<DeliveryAttempt>,
    /// A bit for each attempt whose response has a separate row.
    long_responses: u8,
}

impl DeliveryRow {
    /// The row of a copied delivery, with the responses that need separate rows.
    pub(crate) fn split(mut whole: Delivery, body_at: Time) -> (Self, Vec<(u8, String)>) {
        let (mut long_responses, mut long) = (0, Vec::new());
        for (at, attempt) in (0_u8..8).zip(&mut whole.attempts) {
            if let Some(response) = attempt.response.take_if(|response| is_long(response)) {
                long_responses |= 1 << at;
                long.push((at, response));
            }
        }
        let row = Self {
            event: whole.event,
            body_at,
            kind: whole.kind,
            endpoint: whole.endpoint,
            payment: whole.payment,
            status: whole.status,
            created_at: whole.created_at,
            next_attempt_at: whole.next_attempt_at,
            attempts: whole.attempts,
            long_responses,
        };
        (row, long)
    }

    /// Key of the event's body.
    pub(crate) fn body(&self) -> Key {
        schema::webhooks::body(self.body_at, self.event)
    }

    /// Records an attempt. The domain decides the consequences.
    pub(crate) fn record(&mut self, id: DeliveryId, tried: Tried) -> AttemptRecord {
        let mut whole = delivery(id, self.clone());
        let recorded = whole.record(tried);
        self.status = whole.status;
        self.next_attempt_at = whole.next_attempt_at;
        self.attempts = whole.attempts;
        recorded
    }

    /// Attempts whose responses have separate rows.
    pub(crate) fn long_responses(&self) -> impl Iterator<Item = u8> {
        let long = self.long_responses;
        (0..8).filter(move |attempt| long & (1 << attempt) != 0)
    }

    /// Whether the response of an attempt has a separate row.
    const fn is_long(&self, attempt: usize) -> bool {
        self.long_responses & (1 << attempt) != 0
    }
}

/// Returns a delivery with all its attempts. `None` if it does not exist.
pub(crate) fn load(source: &impl RowSource, id: DeliveryId) -> Result<Option<Delivery>, Fault> {
    let row: Option<DeliveryRow> = source.load(&schema::webhooks::delivery(id))?;
    row.map(|row| whole(source, id, row)).transpose()
}

/// Adds the responses from separate rows.
pub(crate) fn whole(
    source: &impl RowSource,
    id: DeliveryId,
    mut row: DeliveryRow,
) -> Result<Delivery, Fault> {
    for at in 0..row.attempts.len() {
        if row.is_long(at) {
            let response = source.expect(&schema::webhooks::response(id, ordinal(at)))?;
            row.attempts[at].response = Some(response);
        }
    }
    Ok(delivery(id, row))
}

fn delivery(id: DeliveryId, row: DeliveryRow) -> Delivery {
    Delivery {
        id,
        event: row.event,
        kind: row.kind,
        endpoint: row.endpoint,
        payment: row.payment,
        status: row.status,
        created_at: row.created_at,
        next_attempt_at: row.next_attempt_at,
        attempts: row.attempts,
    }
}

const fn is_long(response: &str) -> bool {
    response.len() > SHORT_RESPONSE
}

/// A delivery has at most eight attempts.
fn ordinal(attempt: usize) -> u8 {
    u8::try_from(attempt).unwrap_or(u8::MAX)
}

/// Queues an event of a payment for each endpoint that wants it: of its merchant, and of the reseller that
/// created it, if the reseller may act for the merchant now.
pub(crate) fn fan_out(rows: &mut Rows<'_>, payment: &Payment, event: &Event) -> Result<(), Fault> {
    let wanted_by = |rows: &Rows<'_>, owner| {
        let roster =
            rows.load::<EndpointIndex>(&schema::webhooks::roster(owner, payment.environment))?;
        Ok::<_, Fault>(roster.map_or_else(Vec::new, |roster| roster.wanting(event.kind)))
    };
    let mut wanting = wanted_by(rows, KeyOwner::Merchant(payment.merchant))?;
    if let Origin::Reseller { reseller, .. } = payment.origin {
        let own = wanted_by(rows, KeyOwner::Reseller(reseller))?;
        let bars = || delegations::bars(rows, reseller, payment.merchant, payment.environment);
        if !own.is_empty() && bars()?.is_none() {
            wanting.extend(own);
        }
    }
    if wanting.is_empty() {
        return Ok(());
    }
    let row = BodyRow::new(event, payment);
    put_out(rows, event.id, row, &wanting, event.created_at).map(drop)
}

/// Queues a test event for one endpoint.
pub(crate) fn test(
    rows: &mut Rows<'_>,
    endpoint: EndpointId,
    now: Time,
) -> Result<Option<Delivery>, Fault> {
    let event = EventId::from_bytes(random_id()?);
    let message = Message::test(event, now);
    let row = BodyRow {
        kind: message.kind,
        payment: message.payment,
        body: message.body(),
        delegated: None,
        deliveries: 0,
    };
    let queued = put_out(rows, event, row, &[endpoint], now)?;
    Ok(queued.into_iter().next())
}

/// Queues an event for the endpoints `told`: another endpoint of their owner was disabled.
pub(crate) fn tell_disabled(
    rows: &mut Rows<'_>,
    disabled: &Endpoint,
    told: &[EndpointId],
    now: Time,
) -> Result<(), Fault> {
    if told.is_empty() {
        return Ok(());
    }
    let event = EventId::from_bytes(random_id()?);
    let subject = EventSubject::EndpointDisabled(disabled.id);
    let message = Message::disabled(event, &subject, disabled.environment, now);
    let row = BodyRow {
        kind: message.kind,
        payment: message.payment,
        body: message.body(),
        delegated: None,
        deliveries: 0,
    };
    put_out(rows, event, row, told, now).map(drop)
}

/// Queues an event that an endpoint missed because it was off. Returns false if it is already queued for it.
pub(crate) fn queue_missed(
    rows: &mut Rows<'_>,
    event: &Event,
    payment: &Payment,
    endpoint: EndpointId,
    now: Time,
) -> Result<bool, Fault> {
    let id = schema::webhooks::first_delivery(event.created_at, event.id, endpoint);
    if rows.get(&schema::webhooks::delivery(id))?.is_some() {
        return Ok(false);
    }
    let key = schema::webhooks::body(event.created_at, event.id);
    let known: Option<BodyRow> = rows.load(&key)?;
    let mut body = known.unwrap_or_else(|| BodyRow::new(event, payment));
    body.deliveries = body.deliveries.saturating_add(1);
    rows.save(key, &body)?;
    count_pending(rows, 1)?;
    queue(rows, id, (event.id, event.created_at), &body, endpoint, now)?;
    Ok(true)
}

/// Writes an event's body and its deliveries.
fn put_out(
    rows: &mut Rows<'_>,
    event: EventId,
    mut row: BodyRow,
    endpoints: &[EndpointId],
    now: Time,
) -> Result<Vec<Delivery>, Fault> {
    row.deliveries = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
    rows.save(schema::webhooks::body(now, event), &row)?;
    count_pending(rows, row.deliveries.into())?;
    endpoints
        .iter()
        .map(|endpoint| {
            let id = schema::webhooks::first_delivery(now, event, *endpoint);
            queue(rows, id, (event, now), &row, *endpoint, now)
        })
        .collect()
}

/// Writes one delivery of an event, due now. The caller counts it. `body_at` is the time at which the event's
/// body was written.
fn queue(
    rows: &mut Rows<'_>,
    id: DeliveryId,
    (event, body_at): (EventId, Time),
    body: &BodyRow,
    endpoint: EndpointId,
    now: Time,
) -> Result<Delivery, Fault> {
    let row = DeliveryRow {
        event,
        body_at,
        kind: body.kind,
        endpoint,
        payment: body.payment,
        status: DeliveryStatus::Pending,
        created_at: schema::webhooks::drawn_at(id),
        next_attempt_at: Some(now),
        attempts: Vec::new(),
        long_responses: 0,
    };
    rows.save(schema::webhooks::delivery(id), &row)?;
    rows.put(
        schema::webhooks::delivery_to(endpoint, id),
        kassette_engine::IVec::default(),
    );
    if let Some(listed) = schema::webhooks::delivery_of(body.payment, id) {
        rows.put(listed, kassette_engine::IVec::default());
    }
    rows.put(
        schema::webhooks::due(endpoint, now, id),
        kassette_engine::IVec::default(),
    );
    Ok(delivery(id, row))
}

/// Queues the event of a delivery again. Writes nothing if the event's body is damaged.
pub(crate) fn queue_again(
    rows: &mut Rows<'_>,
    id: DeliveryId,
    old: &DeliveryRow,
    now: Time,
) -> Result<Delivery, Fault> {
    let key = old.body();
    let mut body: BodyRow = rows.expect(&key)?;
    body.deliveries = body.deliveries.saturating_add(1);
    rows.save(key, &body)?;
    if old.status == DeliveryStatus::Exhausted {
        rows.save(schema::webhooks::failed(old.endpoint, id), &true)?;
    }
    count_pending(rows, 1)?;
    let again = schema::webhooks::delivery_id(now, random_id()?);
    let of = (old.event, old.body_at);
    queue(rows, again, of, &body, old.endpoint, now)
}

/// Writes a changed delivery with the rows that follow from it. `before` is the time of its previous row of
/// `dld/`.
pub(crate) fn save(
    rows: &mut Rows<'_>,
    id: DeliveryId,
    before: Option<Time>,
    mut row: DeliveryRow,
) -> Result<(), Fault> {
    if let Some(at) = row.attempts.len().checked_sub(1)
        && let Some(response) = row.attempts[at]
            .response
            .take_if(|response| is_long(response))
    {
        rows.save(schema::webhooks::response(id, ordinal(at)), &response)?;
        row.long_responses |= 1 << at;
    }
    let after = row.next_attempt_at;
    if before != after {
        let due = |at| schema::webhooks::due(row.endpoint, at, id);
        if let Some(at) = before {
            rows.remove(due(at));
        }
        if let Some(at) = after {
            rows.put(due(at), kassette_engine::IVec::default());
        }
    }
    if before.is_some() != after.is_some() {
        count_pending(rows, if after.is_some() { 1 } else { -1 })?;
    }
    if row.status == DeliveryStatus::Exhausted {
        rows.save(schema::webhooks::failed(row.endpoint, id), &false)?;
    }
    rows.save(schema::webhooks::delivery(id), &row)
}

/// Makes the pending delivery of a row of `dld/` due. False if it is not due at that time. Writes nothing if
/// it is damaged.
pub(crate) fn hasten(rows: &mut Rows<'_>, due: &Key, now: Time) -> Result<bool, Fault> {
    let (_, at, id) = read_due(due)?;
    let mut row: DeliveryRow = rows.expect(&schema::webhooks::delivery(id))?;
    if row.next_attempt_at != Some(at) {
        return Ok(false);
    }
    row.next_attempt_at = Some(now);
    save(rows, id, Some(at), row)?;
    Ok(true)
}

/// Ends the pending delivery of a row of `dld/`. False if it is damaged. The row is removed even then,
/// because otherwise every sweep would find it again and never finish.
pub(crate) fn end(rows: &mut Rows<'_>, due: Key, status: DeliveryStatus) -> Result<bool, Fault> {
    let (_, at, id) = read_due(&due)?;
    let read = rows.expect::<DeliveryRow>(&schema::webhooks::delivery(id));
    let Some(mut row) = records::readable(read)? else {
        rows.remove(due);
        count_pending(rows, -1)?;
        return Ok(false);
    };
    if row.next_attempt_at != Some(at) {
        // The delivery has ended, or is due at another time and has another row.
        records::damaged(&due, "its delivery is not due then");
        rows.remove(due);
        return Ok(false);
    }
    row.next_attempt_at = None;
    row.status = status;
    save(rows, id, Some(at), row)?;
    Ok(true)
}

/// Cancels some of the waiting deliveries of an endpoint. Returns their number, and whether more are waiting.
pub(crate) fn cancel_some(rows: &mut Rows<'_>, endpoint: EndpointId) -> Result<(u64, bool), Fault> {
    let mut cancelled = 0;
    let due = Span::prefix(&schema::webhooks::due_of(endpoint));
    let rest = rows.walk(due, |rows, key, _| {
        cancelled += u64::from(end(rows, key.clone(), DeliveryStatus::Cancelled)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((cancelled, rest.is_some()))
}

pub(crate) fn read_due(key: &[u8]) -> Result<(EndpointId, Time, DeliveryId), Fault> {
    schema::webhooks::read_due(key).ok_or_else(|| records::damaged(key, "it names no delivery"))
}

/// Removes an ended delivery, and its event's body with the last one. Writes nothing if the body is damaged.
pub(crate) fn remove(rows: &mut Rows<'_>, id: DeliveryId, row: &DeliveryRow) -> Result<(), Fault> {
    let key = row.body();
    let mut body: BodyRow = rows.expect(&key)?;
    rows.remove(schema::webhooks::delivery(id));
    rows.remove(schema::webhooks::delivery_to(row.endpoint, id));
    if let Some(listed) = schema::webhooks::delivery_of(row.payment, id) {
        rows.remove(listed);
    }
    for at in 0..row.attempts.len() {
        if row.is_long(at) {
            rows.remove(schema::webhooks::response(id, ordinal(at)));
        }
    }
    if row.status == DeliveryStatus::Exhausted {
        rows.remove(schema::webhooks::failed(row.endpoint, id));
    }
    if body.deliveries > 1 {
        body.deliveries -= 1;
        return rows.save(key, &body);
    }
    rows.remove(key);
    Ok(())
}

/// Number of pending deliveries. Only operators see it, so that a damaged number is counted again from zero
/// instead of blocking payments.
pub(crate) fn pending(source: &impl RowSource) -> Result<u64, Fault> {
    let count = records::readable(source.load(schema::webhooks::PENDING))?;
    if count.is_none() {
        tracing::error!(
            "how many deliveries are pending is not known: from now on they are counted from zero"
        );
    }
    Ok(count.flatten().unwrap_or_default())
}

/// One row for all deliveries, written one time per group, so that the number is known without counting.
fn count_pending(rows: &mut Rows<'_>, change: i64) -> Result<(), Fault> {
    let count = pending(rows)?.saturating_add_signed(change);
    rows.save(schema::webhooks::PENDING.to_vec(), &count)
}
