//! `Movements` on PostgreSQL.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::{MovementId, PaymentId};
use kassette_domain::lifecycle::{Change, PaymentAggregate};
use kassette_domain::movement::Movement;
use kassette_domain::time::Time;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::movements::{MAX_CLOCK_STEP, in_order};
use crate::payment_steps::time_movements;
use crate::postgres::columns::id;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::postgres::lists::{ListPosition, ListQuery};
use crate::postgres::membership::GONE;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{PostgresStore, audit, millis, time, uuid};
use crate::rows::movements::{decode, encode};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::{Booking, Fault, LedgerState, Listed, MovementFilter, Movements, Paging, StoreFuture};

/// Maximum number of movements that one call reads.
const MAX_SCAN: i64 = 2000;

/// SQL expression for the ledger's state, usable in any statement.
pub(crate) const LEDGER: &str = "(SELECT body FROM ledger)";

/// SQL expression for the server's clock in whole milliseconds, rounded down. A cast would round up, so that a
/// booking could be in the future.
pub(crate) const CLOCK: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
/// Maximum time by which a booking may be behind the server's clock. Smaller than the distance of
/// `closed_until`, so that nothing is committed in a closed period, however long the commit takes.
const MAX_BEHIND: Duration = Duration::from_secs(60);

/// Booking time of a write: the node's time, unless it is too far behind the store's clock or has jumped ahead
/// of it. `clock` is `None` if the ledger uses the nodes' clocks.
fn by_store_clock(at: Time, clock: Option<Time>) -> Time {
    match clock {
        Some(clock) if at < clock.before(MAX_BEHIND) || at > clock.after(MAX_CLOCK_STEP) => clock,
        _ => at,
    }
}

/// Reads [`LEDGER`].
pub(crate) fn ledger(sealer: &Sealer, body: &[u8]) -> Result<LedgerState, Fault> {
    if body.is_empty() {
        return Ok(LedgerState::default());
    }
    records::decode(sealer, schema::LEDGER, body)
}

/// Stored payment id of a movement: the nil UUID for `None`.
pub(crate) fn owner(payment: Option<PaymentId>) -> Uuid {
    payment.map_or(Uuid::nil(), |payment| uuid(payment.as_bytes()))
}

/// The key of a movement's row, from the columns of its payment and its id.
pub(crate) fn key(payment: Uuid, movement: MovementId) -> schema::Key {
    let payment = (!payment.is_nil()).then(|| PaymentId::from_bytes(payment.into_bytes()));
    schema::movement(payment, movement)
}

/// Reads a row of `payment, id, body`.
fn read(sealer: &Sealer, row: &Row) -> Result<Movement, Fault> {
    let key = key(row.get(0), id(row, 1, MovementId::from_bytes));
    decode(sealer, &key, row.get(2))
}

/// Writes movements unless their booking times are in a closed period; movements with a known id are unchanged.
/// `timed` is the store's time of the booking: if it is too long ago, nothing is written.
pub(crate) fn write(
    statement: &mut StatementBuilder,
    sealer: &Sealer,
    movements: &[Movement],
    timed: Option<Time>,
) -> Result<(), Fault> {
    let Some(first) = movements.iter().map(|each| each.booked_at).min() else {
        return Ok(());
    };
    let mut bodies = Vec::new();
    for movement in movements {
        bodies.push(encode(sealer, movement)?.1.to_vec());
    }
    statement.add(
        "movements",
        "INSERT INTO movement (payment, id, booked_at, body)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bytea[])
            ON CONFLICT (payment, id) DO NOTHING",
        values![
            column(movements, |each| owner(each.payment)),
            column(movements, |each| uuid(each.id.as_bytes())),
            column(movements, |each| millis(each.booked_at)),
            bodies,
        ],
    );
    let sql = format!(
        "SELECT FROM ledger WHERE closed_until <= $1 AND ($2::bigint IS NULL OR $2 >= {CLOCK})"
    );
    let until = timed.map(|timed| millis(timed.after(MAX_BEHIND)));
    statement.add("open_period", &sql, values![millis(first), until]);
    statement.assert("open_period", 1);
    Ok(())
}

impl PostgresStore {
    /// The server's clock, if the ledger uses it.
    fn clock(&self, read: Time) -> Option<Time> {
        Some(read).filter(|_| self.server_clock)
    }

    /// Sets the booking times of a step's movements from the ledger and the server's clock at the time when the
    /// payment was loaded. Returns the time of the write for [`write`].
    pub(crate) fn time_step(
        &self,
        (ledger, clock): (&LedgerState, Time),
        now: Time,
        before: &PaymentAggregate,
        after: &mut PaymentAggregate,
        change: &mut Change,
    ) -> Option<Time> {
        let clock = self.clock(clock);
        for movement in &mut change.movements {
            movement.booked_at = by_store_clock(movement.booked_at, clock);
        }
        time_movements(ledger, before, after, change);
        clock.map(|_| by_store_clock(now, clock))
    }

    /// Sets the booking time of a movement without a payment, in the same way.
    pub(crate) async fn time_movement(
        &self,
        movement: &mut Movement,
        now: Time,
    ) -> Result<Option<Time>, Fault> {
        let sql = format!("SELECT body, {CLOCK} FROM ledger");
        let found = self.requests.read_one(&sql, &[]).await?;
        let Some(row) = found else {
            movement.booked_at = now;
            return Ok(None);
        };
        let clock = self.clock(time(row.get(1)));
        let at = by_store_clock(now, clock);
        movement.booked_at = ledger(&self.secrets.sealer, row.get(0))?.booking_time(at);
        Ok(clock.map(|_| at))
    }

    pub(crate) async fn movement_read(
        &self,
        payment: Option<PaymentId>,
        id: MovementId,
    ) -> Result<Option<Movement>, Fault> {
        let sql = "/* movements: one */ SELECT payment, id, body FROM movement
            WHERE payment = $1 AND id = $2";
        let (owner, id) = (owner(payment), uuid(id.as_bytes()));
        let found = self.requests.read_one(sql, &[&owner, &id]).await?;
        let sealer = &self.secrets.sealer;
        found.as_ref().map(|row| read(sealer, row)).transpose()
    }

    pub(crate) async fn ledger_read(&self) -> Result<LedgerState, Fault> {
        let found = self
            .requests
            .read_one("SELECT body FROM ledger", &[])
            .await?;
        let sealer = &self.secrets.sealer;
        found.map_or_else(
            || Ok(LedgerState::default()),
            |row| ledger(sealer, row.get(0)),
        )
    }

    fn advance(&self, now: Time, jump_allowed: bool, confirmed: Option<Audited>) -> Advance {
        Advance {
            now,
            jump_allowed,
            server_clock: self.server_clock,
            incarnation: self.node_state.incarnation(),
            confirmed,
        }
    }

    async fn movements_listed(
        &self,
        filter: MovementFilter,
        paging: Paging,
    ) -> Result<Listed<Movement>, Fault> {
        let Some(asked) = ListQuery::read(&self.secrets.sealer, b"mvt/", &paging) else {
            return Ok(Listed::BadCursor);
        };
        let ListPosition(at, id) = match paging.cursor {
            None => ListPosition(i64::MIN, Uuid::nil()),
            Some(_) => asked.before,
        };
        let filters = filter.environment.is_some()
            || filter.merchant.is_some()
            || filter.account.is_some()
            || filter.kind.is_some();
        let scan = if filters { MAX_SCAN } else { asked.rows() };
        let since = filter.since.map_or(i64::MIN, millis);
        let until = filter.until.map_or(i64::MAX, millis);
        let of = if filter.payment.is_some() {
            "payment = $6"
        } else {
            "$6::uuid IS NULL"
        };
        let sql = format!(
            "/* movements: list */ SELECT payment, id, body, booked_at FROM movement
                WHERE (booked_at, id) > ($1, $2) AND booked_at >= $3 AND booked_at < $4 AND {of}
                ORDER BY booked_at, id LIMIT $5"
        );
        let payment = filter.payment.map(|payment| uuid(payment.as_bytes()));
        let rows = self
            .requests
            .read(&sql, &[&at, &id, &since, &until, &scan, &payment])
            .await?;
        asked.page_of_looked(
            scan,
            rows.iter().map(|row| {
                let place = ListPosition(row.get(3), row.get(1));
                let movement = read(&self.secrets.sealer, row)?;
                if place.0 != millis(movement.booked_at) {
                    let key = schema::movement(movement.payment, movement.id);
                    return Err(records::damaged(&key, OTHER_COLUMNS));
                }
                Ok((
                    place,
                    Some(movement).filter(|movement| filter.matches(movement)),
                ))
            }),
        )
    }
}

/// Books a movement without a payment.
struct Book {
    movement: Movement,
    audited: Option<Audited>,
    now: Time,
    server_clock: bool,
}

impl TransactionWork for Book {
    type Outcome = Booking;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Booking, Failure> {
        // The lock ensures that the period is not closed before the commit.
        let (ledger, clock) = locked(tx, "SHARE").await?;
        let mut movement = self.movement.clone();
        movement.payment = None;
        let clock = Some(clock).filter(|_| self.server_clock);
        movement.booked_at = ledger.booking_time(by_store_clock(self.now, clock));
        let (owner, id) = (owner(None), uuid(movement.id.as_bytes()));
        let (_, body) = encode(tx.sealer(), &movement)?;
        let sql = "INSERT INTO movement (payment, id, booked_at, body) VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING";
        let booked_at = millis(movement.booked_at);
        if execute(tx, sql, &[&owner, &id, &booked_at, &&body[..]]).await? == 0 {
            let sql = "SELECT payment, id, body FROM movement WHERE payment = $1 AND id = $2";
            let known = row(tx, sql, &[&owner, &id])
                .await?
                .ok_or(Failure::Collided)?;
            return Ok(Booking::Known(read(tx.sealer(), &known)?));
        }
        if let Some(audited) = &self.audited {
            audit::append(tx, audited.clone(), self.now).await?;
        }
        Ok(Booking::New(movement))
    }
}

/// Reads the ledger's state under a lock, and the server's clock.
async fn locked(tx: &Tx<'_>, lock: &str) -> Result<(LedgerState, Time), Failure> {
    let sql = format!("SELECT body, {CLOCK} FROM ledger FOR {lock}");
    let found = row(tx, &sql, &[]).await?;
    let found = found.ok_or_else(|| Fault::Corrupt("the ledger's state is missing".into()))?;
    Ok((ledger(tx.sealer(), found.get(0))?, time(found.get(1))))
}

/// Marks this node as one that moves `closed_until`; returns whether another live node does too. Only
/// compares the database's clock with the times of heartbeats: after a jump of that clock, other nodes look gone
/// until their next heartbeat, half a second later.
const KEEPS_LEDGER: &str = "/* ledger: keepers */ WITH kept AS (
        UPDATE node SET keeps_ledger = true WHERE incarnation = $1 AND NOT keeps_ledger)
    SELECT EXISTS (SELECT FROM node WHERE keeps_ledger AND incarnation <> $1
        AND beat > clock_timestamp() - make_interval(secs => $2))";

/// Moves `closed_until`, or accepts a jump of the clock.
struct Advance {
    now: Time,
    jump_allowed: bool,
    server_clock: bool,
    /// This node, see [`crate::postgres::node::NodeState::incarnation`].
    incarnation: i64,
    /// The audit entry of a confirmation: without a pending jump, nothing is changed.
    confirmed: Option<Audited>,
}

impl TransactionWork for Advance {
    type Outcome = Option<LedgerState>;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let (before, clock) = locked(tx, "UPDATE").await?;
        let alive = GONE.as_secs_f64();
        let others = row(tx, KEEPS_LEDGER, &[&self.incarnation, &alive]).await?;
        let others = others.is_some_and(|row| row.get(0));
        if self.confirmed.is_some() && before.jump.is_none() {
            return Ok(None);
        }
        // A starting node confirms a jump only if no other node has seen it.
        let (now, jump_allowed) = match self.server_clock {
            true => (
                clock,
                self.jump_allowed && (!others || self.confirmed.is_some()),
            ),
            false => (self.now, self.jump_allowed),
        };
        let after = before.advanced(now, jump_allowed);
        if after != before {
            let body = records::encode(tx.sealer(), schema::LEDGER, &after)?;
            let sql = "UPDATE ledger SET closed_until = $1, body = $2";
            execute(tx, sql, &[&millis(after.closed_until), &&body[..]]).await?;
        }
        if let Some(audited) = &self.confirmed {
            audit::append(tx, audited.clone(), self.now).await?;
        }
        Ok(Some(after))
    }
}

impl Movements for PostgresStore {
    fn movements(
        &self,
        filter: MovementFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Movement>> {
        Box::pin(self.movements_listed(filter, paging))
    }

    fn movements_of(&self, payment: PaymentId) -> StoreFuture<'_, Vec<Movement>> {
        Box::pin(async move {
            let sql = "/* movements: of a payment */ SELECT payment, id, body FROM movement
                WHERE payment = $1";
            let rows = self
                .requests
                .read(sql, &[&uuid(payment.as_bytes())])
                .await?;
            let sealer = &self.secrets.sealer;
            let movements = rows.iter().map(|row| read(sealer, row));
            Ok(in_order(movements.collect::<Result<_, _>>()?))
        })
    }

    fn movement(
        &self,
        payment: Option<PaymentId>,
        id: MovementId,
    ) -> StoreFuture<'_, Option<Movement>> {
        Box::pin(self.movement_read(payment, id))
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
            server_clock: self.server_clock,
        })
    }

    fn ledger(&self) -> StoreFuture<'_, LedgerState> {
        Box::pin(self.ledger_read())
    }

    fn advance_closed_until(&self, now: Time, jump_allowed: bool) -> StoreFuture<'_, LedgerState> {
        let advance = self.advance(now, jump_allowed, None);
        self.run_to_end(async move |store| {
            let advanced = store.workers.transact(&advance).await?;
            Ok(advanced.unwrap_or_default())
        })
    }

    fn confirm_clock(&self, audited: Audited, now: Time) -> StoreFuture<'_, Option<LedgerState>> {
        self.operate(self.advance(now, true, Some(audited)))
    }
}
