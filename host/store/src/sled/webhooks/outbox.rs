//! Events on their way out: the body once, and a delivery for each endpoint that wants it.

use std::ops::ControlFlow;

use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{DeliveryId, EndpointId, EventId, PaymentId};
use kassette_domain::key::KeyOwner;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    AttemptRecord, Delivery, DeliveryAttempt, DeliveryStatus, Message, Tried,
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

/// Longest answer that stands in the log itself, bytes; a longer one has a row of its own, so that
/// the log, which is written with every attempt, stays small.
const SHORT_RESPONSE: usize = 256;

/// An event's body, frozen.
#[derive(Serialize, Deserialize)]
pub(crate) struct BodyRow {
    pub(crate) kind: EventType,
    pub(crate) payment: PaymentId,
    pub(crate) body: String,
    /// How many deliveries are of it; with the last one it goes.
    pub(crate) deliveries: u32,
}

/// A delivery's row. Its id stands in its key.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DeliveryRow {
    pub(crate) event: EventId,
    /// When the event's body was written.
    body_at: Time,
    pub(crate) kind: EventType,
    pub(crate) endpoint: EndpointId,
    pub(crate) payment: PaymentId,
    pub(crate) status: DeliveryStatus,
    pub(crate) created_at: Time,
    pub(crate) next_attempt_at: Option<Time>,
    pub(crate) attempts: Vec<DeliveryAttempt>,
    /// A bit for each attempt whose answer has a row of its own.
    long_responses: u8,
}

impl DeliveryRow {
    /// The row of a delivery from elsewhere, with the answers that have rows of their own.
    pub(crate) fn of(mut whole: Delivery, body_at: Time) -> (Self, Vec<(u8, String)>) {
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

    /// Where the event's body stands.
    pub(crate) fn body(&self) -> Key {
        schema::webhooks::body(self.body_at, self.event)
    }

    /// Takes an attempt into the log; the domain says what follows.
    pub(crate) fn record(&mut self, id: DeliveryId, tried: Tried) -> AttemptRecord {
        let mut whole = delivery(id, self.clone());
        let recorded = whole.record(tried);
        self.status = whole.status;
        self.next_attempt_at = whole.next_attempt_at;
        self.attempts = whole.attempts;
        recorded
    }

    /// Attempts whose answers have rows of their own.
    pub(crate) fn long_responses(&self) -> impl Iterator<Item = u8> {
        let long = self.long_responses;
        (0..8).filter(move |attempt| long & (1 << attempt) != 0)
    }

    /// Whether it is in an attempt's own row.
    const fn is_long(&self, attempt: usize) -> bool {
        self.long_responses & (1 << attempt) != 0
    }
}

/// A delivery with its whole log; none where there is none.
pub(crate) fn load(source: &impl RowSource, id: DeliveryId) -> Result<Option<Delivery>, Fault> {
    let row: Option<DeliveryRow> = source.load(&schema::webhooks::delivery(id))?;
    row.map(|row| whole(source, id, row)).transpose()
}

/// A row with the answers that stand elsewhere.
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

/// A delivery has eight attempts at most.
fn ordinal(attempt: usize) -> u8 {
    u8::try_from(attempt).unwrap_or(u8::MAX)
}

/// Queues an event of a payment for each endpoint that wants it: of its merchant, and of the reseller that made it,
/// if it may work for the merchant now.
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
    let body = Message::of(event, payment).body();
    put_out(
        rows,
        event.id,
        event.kind,
        payment.id,
        body,
        &wanting,
        event.created_at,
    )
    .map(drop)
}

/// Queues a test for one endpoint.
pub(crate) fn test(
    rows: &mut Rows<'_>,
    endpoint: EndpointId,
    now: Time,
) -> Result<Option<Delivery>, Fault> {
    let event = EventId::from_bytes(random_id()?);
    let message = Message::test(event, now);
    let queued = put_out(
        rows,
        event,
        message.kind,
        message.payment,
        message.body(),
        &[endpoint],
        now,
    )?;
    Ok(queued.into_iter().next())
}

/// Writes an event's body and its deliveries.
fn put_out(
    rows: &mut Rows<'_>,
    event: EventId,
    kind: EventType,
    payment: PaymentId,
    body: String,
    endpoints: &[EndpointId],
    now: Time,
) -> Result<Vec<Delivery>, Fault> {
    let row = BodyRow {
        kind,
        payment,
        body,
        deliveries: u32::try_from(endpoints.len()).unwrap_or(u32::MAX),
    };
    rows.save(schema::webhooks::body(now, event), &row)?;
    count_pending(rows, row.deliveries.into())?;
    endpoints
        .iter()
        .map(|endpoint| queue(rows, (event, now), &row, *endpoint, now))
        .collect()
}

/// Writes one delivery of an event, due at once, which the caller counts. With the event stands when its body was written.
fn queue(
    rows: &mut Rows<'_>,
    (event, body_at): (EventId, Time),
    body: &BodyRow,
    endpoint: EndpointId,
    now: Time,
) -> Result<Delivery, Fault> {
    let id = schema::webhooks::delivery_id(now, random_id()?);
    let row = DeliveryRow {
        event,
        body_at,
        kind: body.kind,
        endpoint,
        payment: body.payment,
        status: DeliveryStatus::Pending,
        created_at: now,
        next_attempt_at: Some(now),
        attempts: Vec::new(),
        long_responses: 0,
    };
    rows.save(schema::webhooks::delivery(id), &row)?;
    rows.put(
        schema::webhooks::delivery_to(endpoint, id),
        kassette_engine::IVec::default(),
    );
    rows.put(
        schema::webhooks::due(endpoint, now, id),
        kassette_engine::IVec::default(),
    );
    Ok(delivery(id, row))
}

/// Queues the event of a delivery once more. Where the event's body is damaged, nothing was written.
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
    queue(rows, (old.event, old.body_at), &body, old.endpoint, now)
}

/// Writes a delivery that has changed, with the rows that follow from it. `before` is where its row
/// of `dld/` stood.
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

/// Makes the pending delivery due that a row of `dld/` leads to. False where it does not wait there; where it
/// is damaged, nothing was written.
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

/// Ends the pending delivery that a row of `dld/` leads to. False where that is damaged: its row of
/// `dld/` goes all the same, or every sweep would find it again and none would ever be the last.
pub(crate) fn end(rows: &mut Rows<'_>, due: Key, status: DeliveryStatus) -> Result<bool, Fault> {
    let (_, at, id) = read_due(&due)?;
    let read = rows.expect::<DeliveryRow>(&schema::webhooks::delivery(id));
    let Some(mut row) = records::readable(read)? else {
        rows.remove(due);
        count_pending(rows, -1)?;
        return Ok(false);
    };
    if row.next_attempt_at != Some(at) {
        // Over, or due at another time, which has a row of its own: it is not what waits here.
        records::damaged(&due, "its delivery is not due then");
        rows.remove(due);
        return Ok(false);
    }
    row.next_attempt_at = None;
    row.status = status;
    save(rows, id, Some(at), row)?;
    Ok(true)
}

/// Cancels what waits for an endpoint, some of it; says how many were, and whether more waits.
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

/// Removes a delivery that is over, and its event with the last one. Where the event's body is damaged,
/// nothing was written.
pub(crate) fn remove(rows: &mut Rows<'_>, id: DeliveryId, row: &DeliveryRow) -> Result<(), Fault> {
    let key = row.body();
    let mut body: BodyRow = rows.expect(&key)?;
    rows.remove(schema::webhooks::delivery(id));
    rows.remove(schema::webhooks::delivery_to(row.endpoint, id));
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

/// How many deliveries are pending. It is told to operators and nothing goes by it, so where it does
/// not read back it is counted from zero again: no payment waits for a number.
pub(crate) fn pending(source: &impl RowSource) -> Result<u64, Fault> {
    let count = records::readable(source.load(schema::webhooks::PENDING))?;
    if count.is_none() {
        tracing::error!(
            "how many deliveries are pending is not known: from now on they are counted from zero"
        );
    }
    Ok(count.flatten().unwrap_or_default())
}

/// One row for all, written once a group: what waits is told without counting it.
fn count_pending(rows: &mut Rows<'_>, change: i64) -> Result<(), Fault> {
    let count = pending(rows)?.saturating_add_signed(change);
    rows.save(schema::webhooks::PENDING.to_vec(), &count)
}
