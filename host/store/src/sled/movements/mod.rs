//! `Movements` on sled.

pub(crate) mod checks;

use kassette_domain::audit::Audited;
use kassette_domain::id::{MovementId, PaymentId};
use kassette_domain::lifecycle::{Change, PaymentAggregate};
use kassette_domain::movement::Movement;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Order, Span};

use crate::movements::in_order;
use crate::payment_steps;
use crate::rows::movements::{decode, encode};
use crate::rows::schema;
use crate::rows::source::{RowSource, Save as _};
use crate::sled::audit;
use crate::sled::lists::bad_cursor;
use crate::sled::memory::{Memory, Rows, View};
use crate::sled::store::SledStore;
use crate::{Booking, Fault, LedgerState, Listed, MovementFilter, Movements, Paging, StoreFuture};

/// Bytes of a time, a movement and a payment, with which keys by booking time end.
const PLACE: usize = 40;
/// Maximum number of movements read for a payment. No payment has nearly as many.
pub(crate) const MAX_MOVEMENTS: usize = 10_000;

pub(crate) fn ledger(source: &impl RowSource) -> Result<LedgerState, Fault> {
    Ok(source.load(schema::LEDGER)?.unwrap_or_default())
}

/// Assigns booking times to the movements of a step.
pub(crate) fn time(
    rows: &Rows<'_>,
    before: &PaymentAggregate,
    after: &mut PaymentAggregate,
    change: &mut Change,
) -> Result<(), Fault> {
    if !change.movements.is_empty() {
        payment_steps::time_movements(&ledger(rows)?, before, after, change);
    }
    Ok(())
}

/// Writes movements. A movement with a known id is left unchanged.
pub(crate) fn write(rows: &mut Rows<'_>, movements: &[Movement]) -> Result<(), Fault> {
    for movement in movements {
        let (key, row) = encode(rows.sealer(), movement)?;
        if rows.get(&key)?.is_some() {
            tracing::warn!(movement.id = %movement.id, "a movement is in the ledger already");
            continue;
        }
        let by_time = schema::movement_by_time(movement.booked_at, &key);
        rows.put(by_time, IVec::default());
        rows.put(key, row);
    }
    Ok(())
}

/// Returns a movement by its id.
pub(crate) fn read(
    source: &impl RowSource,
    payment: Option<PaymentId>,
    id: MovementId,
) -> Result<Option<Movement>, Fault> {
    let key = schema::movement(payment, id);
    let row = source.get(&key)?;
    row.map(|row| decode(source.sealer(), &key, &row))
        .transpose()
}

/// All movements of a payment, oldest first.
pub(crate) fn of_payment(view: &View<'_>, payment: PaymentId) -> Result<Vec<Movement>, Fault> {
    let span = Span::prefix(&schema::movements(Some(payment)));
    let rows = view.scan(&span, MAX_MOVEMENTS)?;
    let movements = rows
        .iter()
        .map(|(key, row)| decode(view.sealer(), key, row));
    Ok(in_order(movements.collect::<Result<_, _>>()?))
}

/// Books a movement without a payment.
pub(crate) struct Book {
    pub(crate) movement: Movement,
    pub(crate) audited: Option<Audited>,
    pub(crate) now: Time,
}

impl Operation<Memory> for Book {
    type Outcome = Booking;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Booking, Fault> {
        let mut movement = self.movement;
        movement.payment = None;
        if let Some(known) = read(rows, None, movement.id)? {
            return Ok(Booking::Known(known));
        }
        movement.booked_at = ledger(rows)?.booking_time(self.now);
        write(rows, std::slice::from_ref(&movement))?;
        if let Some(audited) = self.audited {
            audit::append(rows, audited, self.now)?;
        }
        Ok(Booking::New(movement))
    }
}

struct Advance {
    now: Time,
    jump_allowed: bool,
}

impl Operation<Memory> for Advance {
    type Outcome = LedgerState;

    fn apply(self, rows: &mut Rows<'_>) -> Result<LedgerState, Fault> {
        let before = ledger(rows)?;
        let after = before.advanced(self.now, self.jump_allowed);
        if after != before {
            rows.save(schema::LEDGER.to_vec(), &after)?;
        }
        Ok(after)
    }
}

struct ConfirmClock {
    audited: Audited,
    now: Time,
}

impl Operation<Memory> for ConfirmClock {
    type Outcome = Option<LedgerState>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let before = ledger(rows)?;
        if before.jump.is_none() {
            return Ok(None);
        }
        let after = before.advanced(self.now, true);
        rows.save(schema::LEDGER.to_vec(), &after)?;
        audit::append(rows, self.audited, self.now)?;
        Ok(Some(after))
    }
}

impl Movements for SledStore {
    fn movements(
        &self,
        filter: MovementFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Movement>> {
        if let Some(payment) = filter.payment {
            return self.movements_of_payment(payment, filter, paging);
        }
        let prefix = schema::MOVEMENTS_BY_TIME;
        let mut span = Span::prefix(prefix);
        if let Some(since) = filter.since {
            span = span.since(&schema::movements_since(since));
        }
        if let Some(until) = filter.until {
            span = span.before(&schema::movements_since(until));
        }
        self.list_in(
            span,
            (prefix, PLACE),
            Order::Keys,
            &paging,
            move |view, by_time, _| {
                let key = schema::movement_of_time(by_time);
                let row = view.get(&key)?;
                let row =
                    row.ok_or_else(|| crate::rows::records::damaged(&key, "it is missing"))?;
                Ok(Some(decode(view.sealer(), &key, &row)?)
                    .filter(|movement| filter.matches(movement)))
            },
        )
    }

    fn movements_of(&self, payment: PaymentId) -> StoreFuture<'_, Vec<Movement>> {
        self.read(move |view| of_payment(view, payment))
    }

    fn movement(
        &self,
        payment: Option<PaymentId>,
        id: MovementId,
    ) -> StoreFuture<'_, Option<Movement>> {
        self.read(move |view| read(view, payment, id))
    }

    fn book(
        &self,
        movement: Movement,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Booking> {
        self.operate(Book {
            movement,
            audited,
            now,
        })
    }

    fn ledger(&self) -> StoreFuture<'_, LedgerState> {
        self.read(|view| ledger(view))
    }

    fn advance_closed_until(&self, now: Time, jump_allowed: bool) -> StoreFuture<'_, LedgerState> {
        self.operate(Advance { now, jump_allowed })
    }

    fn confirm_clock(&self, audited: Audited, now: Time) -> StoreFuture<'_, Option<LedgerState>> {
        self.operate(ConfirmClock { audited, now })
    }
}

impl SledStore {
    fn movements_of_payment(
        &self,
        payment: PaymentId,
        filter: MovementFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Movement>> {
        let mut after = None;
        if let Some(cursor) = &paging.cursor {
            let Some(last) = self.read_cursor(cursor, schema::MOVEMENTS_BY_TIME, PLACE) else {
                return bad_cursor();
            };
            after = Some(last);
        }
        let place = |movement: &Movement| {
            let key = schema::movement(movement.payment, movement.id);
            schema::movement_by_time(movement.booked_at, &key)
        };
        self.read(move |view| {
            let mut items = of_payment(view, payment)?;
            items.retain(|movement| {
                filter.matches(movement)
                    && after.as_ref().is_none_or(|last| place(movement) > *last)
            });
            let more = items.len() > paging.limit;
            items.truncate(paging.limit);
            let last = items.last().filter(|_| more);
            let next = last.map(|last| view.sealer().seal_cursor(&place(last)));
            let next = next.transpose()?;
            Ok(Listed::Page(crate::Page { items, next }))
        })
    }
}
