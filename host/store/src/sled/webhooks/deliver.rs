//! Operations on deliveries: recording attempts, queueing again, ending, pruning.

use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_domain::webhook::{AttemptRecord, Delivery, DeliveryStatus, HELD_BACK_MOST, Tried};
use kassette_engine::{Operation, Span};

use crate::rows::seal::Secrets;
use crate::rows::source::RowSource;
use crate::rows::{records, schema};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::webhooks::endpoints;
use crate::sled::webhooks::outbox::{self, DeliveryRow};
use crate::{Fault, MadeDue, Pruned, Recovered, Redelivered, Swept, SwitchOff, TriedOutcome};

pub(crate) struct QueueTest {
    pub(crate) endpoint: EndpointId,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for QueueTest {
    type Outcome = Option<Delivery>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        if endpoints::load(rows, self.endpoint)?.is_none() {
            return Ok(None);
        }
        let queued = outbox::test(rows, self.endpoint, self.now)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(queued)
    }
}

/// Queues the event of one delivery again.
pub(crate) struct Redeliver {
    pub(crate) id: DeliveryId,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for Redeliver {
    type Outcome = Redelivered;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Redelivered, Fault> {
        let Some(old) = rows.load::<DeliveryRow>(&schema::webhooks::delivery(self.id))? else {
            return Ok(Redelivered::Unknown);
        };
        if endpoints::load(rows, old.endpoint)?.is_none() {
            return Ok(Redelivered::EndpointDeleted);
        }
        let queued = outbox::queue_again(rows, self.id, &old, self.now)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(Redelivered::Queued(queued))
    }
}

/// Queues the events of exhausted deliveries again.
pub(crate) struct Recover {
    pub(crate) endpoint: EndpointId,
    pub(crate) since: Time,
    pub(crate) after: Option<DeliveryId>,
    pub(crate) audited: Option<Audited>,
    pub(crate) now: Time,
}

impl Operation<Memory> for Recover {
    type Outcome = Recovered;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Recovered, Fault> {
        if endpoints::load(rows, self.endpoint)?.is_none() {
            return Ok(Recovered::Unknown);
        }
        let all = Span::prefix(&schema::webhooks::failed_of(self.endpoint));
        let rest = match self.after {
            Some(last) => all.after(&schema::webhooks::failed(self.endpoint, last)),
            None => all.since(&schema::webhooks::failed(
                self.endpoint,
                schema::webhooks::first_delivery_id(self.since),
            )),
        };
        let mut queued = 0;
        let last = rows.walk(rest, |rows, key, row| {
            let id = trailing_id(key)?;
            // A damaged delivery must not block others.
            let again = records::decode(rows.sealer(), key, row)
                .and_then(|before: bool| Self::queue(rows, id, before, self.now));
            queued += u64::from(records::readable(again)?.unwrap_or(false));
            Ok(ControlFlow::Continue(()))
        })?;
        let next = last.map(|key| trailing_id(&key)).transpose()?;
        if let Some(audited) = self.audited {
            audit::append(rows, audited, self.now)?;
        }
        Ok(Recovered::Page { queued, next })
    }
}

impl Recover {
    /// Queues the event of an exhausted delivery again, unless that was done before. Writes nothing if it is
    /// damaged.
    fn queue(
        rows: &mut Rows<'_>,
        id: DeliveryId,
        queued_before: bool,
        now: Time,
    ) -> Result<bool, Fault> {
        if queued_before {
            return Ok(false);
        }
        let old: DeliveryRow = rows.expect(&schema::webhooks::delivery(id))?;
        outbox::queue_again(rows, id, &old, now)?;
        Ok(true)
    }
}

/// Queues events that an endpoint missed because it was off.
pub(crate) struct QueueMissed {
    pub(crate) endpoint: EndpointId,
    pub(crate) events: Vec<(Event, Payment)>,
    pub(crate) now: Time,
}

impl Operation<Memory> for QueueMissed {
    type Outcome = u64;

    fn apply(self, rows: &mut Rows<'_>) -> Result<u64, Fault> {
        if endpoints::load(rows, self.endpoint)?.is_none() {
            return Ok(0);
        }
        let mut queued = 0;
        for (event, payment) in &self.events {
            let is_new = outbox::queue_missed(rows, event, payment, self.endpoint, self.now)?;
            queued += u64::from(is_new);
        }
        Ok(queued)
    }
}

/// The delivery that an index key leads to.
pub(crate) fn trailing_id(key: &[u8]) -> Result<DeliveryId, Fault> {
    schema::trailing_id(key)
        .map(DeliveryId::from_bytes)
        .ok_or_else(|| records::damaged(key, "it names no delivery"))
}

/// The record of an attempt.
pub(crate) struct RecordTried {
    pub(crate) id: DeliveryId,
    pub(crate) tried: Tried,
    pub(crate) disable: Option<SwitchOff>,
    pub(crate) now: Time,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for RecordTried {
    type Outcome = TriedOutcome;

    const CAN_WAIT: bool = true;

    fn apply(self, rows: &mut Rows<'_>) -> Result<TriedOutcome, Fault> {
        let Some(mut row) = rows.load::<DeliveryRow>(&schema::webhooks::delivery(self.id))? else {
            return Ok(TriedOutcome::Unknown);
        };
        if let Some(off) = self.disable {
            let sealer = &self.secrets.sealer;
            endpoints::disable(rows, sealer, row.endpoint, off, self.now)?;
        }
        let (before, was_pending) = (row.next_attempt_at, row.status == DeliveryStatus::Pending);
        if row.record(self.id, self.tried) == AttemptRecord::Late {
            return Ok(TriedOutcome::Late);
        }
        let taken = TriedOutcome::Taken {
            status: row.status,
            next_attempt_at: row.next_attempt_at,
            ended: was_pending && row.status != DeliveryStatus::Pending,
        };
        outbox::save(rows, self.id, before, row)?;
        Ok(taken)
    }
}

/// Makes waiting deliveries due now.
pub(crate) struct MakeDue {
    pub(crate) endpoint: EndpointId,
    pub(crate) after: Option<(Time, DeliveryId)>,
    pub(crate) audited: Option<Audited>,
    pub(crate) now: Time,
}

impl Operation<Memory> for MakeDue {
    type Outcome = MadeDue;

    fn apply(self, rows: &mut Rows<'_>) -> Result<MadeDue, Fault> {
        if endpoints::load(rows, self.endpoint)?.is_none() {
            return Ok(MadeDue::Unknown);
        }
        // Deliveries that are already due, or that a previous page made due, come before and stay unchanged.
        let due = (self.now, DeliveryId::from_bytes([0xff; 16]));
        let (at, id) = self.after.map_or(due, |after| after.max(due));
        let all = Span::prefix(&schema::webhooks::due_of(self.endpoint));
        let rest = all.after(&schema::webhooks::due(self.endpoint, at, id));
        let mut hastened = 0;
        let last = rows.walk(rest, |rows, key, _| {
            // A damaged delivery must not block others.
            let made = outbox::hasten(rows, key, self.now);
            hastened += u64::from(records::readable(made)?.unwrap_or(false));
            Ok(ControlFlow::Continue(()))
        })?;
        let next = last.map(|key| outbox::read_due(&key)).transpose()?;
        if let Some(audited) = self.audited {
            audit::append(rows, audited, self.now)?;
        }
        let next = next.map(|(_, at, id)| (at, id));
        Ok(MadeDue::Page { hastened, next })
    }
}

/// The records of several attempts.
pub(crate) struct RecordAll(pub(crate) Vec<RecordTried>);

impl Operation<Memory> for RecordAll {
    type Outcome = Vec<TriedOutcome>;

    const CAN_WAIT: bool = true;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let records = self.0.into_iter();
        records.map(|record| record.apply(rows)).collect()
    }
}

/// Ends the deliveries of a disabled or deleted endpoint that must end.
pub(crate) struct Sweep {
    pub(crate) endpoint: EndpointId,
    pub(crate) now: Time,
}

impl Operation<Memory> for Sweep {
    type Outcome = Swept;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Swept, Fault> {
        let mut swept = Swept {
            cancelled: 0,
            exhausted: 0,
            next: None,
        };
        let due = Span::prefix(&schema::webhooks::due_of(self.endpoint));
        match endpoints::load(rows, self.endpoint)? {
            None => {
                let (cancelled, more) = outbox::cancel_some(rows, self.endpoint)?;
                swept.cancelled = cancelled;
                swept.next = more.then_some(self.now);
            }
            Some(endpoint) if endpoint.enabled => {
                let first = rows.scan(&due, 1)?;
                let first = first.first().map(|(key, _)| outbox::read_due(key));
                swept.next = first.transpose()?.map(|(_, at, _)| at);
            }
            Some(_) => {
                let rest = rows.walk(due, |rows, key, _| {
                    let (_, at, _) = outbox::read_due(key)?;
                    let held_until = at.after(HELD_BACK_MOST);
                    if self.now < held_until {
                        swept.next = Some(held_until);
                        return Ok(ControlFlow::Break(()));
                    }
                    let ended = outbox::end(rows, key.clone(), DeliveryStatus::Exhausted)?;
                    swept.exhausted += u64::from(ended);
                    Ok(ControlFlow::Continue(()))
                })?;
                if rest.is_some() {
                    swept.next = Some(self.now);
                }
            }
        }
        Ok(swept)
    }
}

/// Removes ended deliveries.
pub(crate) struct Prune {
    pub(crate) before: Time,
    pub(crate) after: Option<DeliveryId>,
    pub(crate) at_most: usize,
}

impl Operation<Memory> for Prune {
    type Outcome = Pruned;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Pruned, Fault> {
        let all = Span::prefix(schema::webhooks::DELIVERIES);
        let rest = match self.after {
            Some(last) => all.after(&schema::webhooks::delivery(last)),
            None => all,
        };
        let (mut deliveries, mut looked) = (0, 0);
        let mut last = None;
        let rest = rows.walk(rest, |rows, key, row| {
            let id = trailing_id(key)?;
            if self.before <= schema::webhooks::drawn_at(id) {
                last = None;
                return Ok(ControlFlow::Break(()));
            }
            // A damaged delivery must not block later ones permanently.
            let removed = records::decode(rows.sealer(), key, row)
                .and_then(|row: DeliveryRow| Self::remove(rows, id, &row));
            deliveries += u64::from(records::readable(removed)?.unwrap_or(false));
            looked += 1;
            if looked >= self.at_most {
                last = Some(id);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let next = rest.map(|key| trailing_id(&key)).transpose()?.or(last);
        Ok(Pruned { deliveries, next })
    }
}

impl Prune {
    /// Removes an ended delivery. Writes nothing if it is damaged.
    fn remove(rows: &mut Rows<'_>, id: DeliveryId, row: &DeliveryRow) -> Result<bool, Fault> {
        if row.status == DeliveryStatus::Pending {
            return Ok(false);
        }
        outbox::remove(rows, id, row)?;
        Ok(true)
    }
}
