//! Changes of deliveries: recording attempts, queueing again, making due, ending, pruning.

use std::collections::HashMap;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_domain::webhook::{AttemptRecord, Delivery, DeliveryStatus, Tried};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::postgres::PostgresStore;
use crate::postgres::audit;
use crate::postgres::database::{Failure, TransactionWork, Tries, Tx, execute, row, rows};
use crate::postgres::webhooks::endings::{PAGE, count, one};
use crate::postgres::webhooks::endpoints;
use crate::postgres::webhooks::outbox::{
    self, delivery, delivery_columns, log, new_id, status_number,
};
use crate::postgres::{columns, millis, time, uuid};
use crate::rows::schema;
use crate::rows::seal::Sealer;
use crate::{Fault, MadeDue, Pruned, Recovered, Redelivered, SwitchOff, TriedOutcome};

/// Deliveries by id.
pub(crate) const SOME: &str = concat!(
    "/* deliveries */ SELECT ",
    delivery_columns!(),
    " FROM delivery d WHERE d.id = ANY($1)"
);

/// Queues a test event.
pub(super) struct QueueTest {
    pub(super) endpoint: EndpointId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for QueueTest {
    type Outcome = Option<Delivery>;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        if !endpoints::is_there(tx, self.endpoint).await? {
            return Ok(None);
        }
        let queued = outbox::test(tx, self.endpoint, self.now).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(Some(queued))
    }
}

/// Queues the event of one delivery again. A concurrent prune waits, or is waited for.
pub(super) struct Redeliver {
    pub(super) id: DeliveryId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for Redeliver {
    type Outcome = Redelivered;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Redelivered, Failure> {
        let sql = concat!(
            "/* delivery: lock */ SELECT ",
            delivery_columns!(),
            " FROM delivery d WHERE d.id = $1 FOR UPDATE"
        );
        let Some(found) = row(tx, sql, &[&uuid(self.id.as_bytes())]).await? else {
            return Ok(Redelivered::Unknown);
        };
        let old = delivery(tx.sealer(), &found)?;
        if !endpoints::is_there(tx, old.endpoint).await? {
            return Ok(Redelivered::EndpointDeleted);
        }
        let queued = outbox::again(tx, &old, self.now).await?;
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(Redelivered::Queued(queued))
    }
}

/// Queues one page of exhausted deliveries again: those of `$1` after `$2`, at most `$3`, due at `$4`.
/// Deliveries whose event is missing are skipped.
const RECOVER: &str = concat!(
    "/* deliveries: recover */
    WITH page AS MATERIALIZED (
        SELECT id, event, kind, endpoint, payment, queued_again FROM delivery
        WHERE endpoint = $1 AND status = 2 AND id > $2 ORDER BY id LIMIT $3 FOR UPDATE),
    event AS (
        UPDATE event_body b SET deliveries = b.deliveries + n.more
        FROM (SELECT event, count(*) AS more FROM page WHERE NOT queued_again GROUP BY event) n
        WHERE b.id = n.event RETURNING b.id),
    old AS (
        UPDATE delivery d SET queued_again = true
        FROM page p JOIN event ON event.id = p.event
        WHERE d.id = p.id AND NOT p.queued_again
        RETURNING d.event, d.kind, d.endpoint, d.payment),
    new AS (
        INSERT INTO delivery (id, event, kind, endpoint, payment, status, created_at, next_at)
        SELECT ",
    new_id!("$4::bigint"),
    ", event, kind, endpoint, payment, 0, $4, $4 FROM old RETURNING 1)
    SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1), (SELECT count(*) FROM new)"
);

/// Queues deliveries again that failed after `since`; continues after the delivery `after`.
pub(super) struct Recover {
    pub(super) endpoint: EndpointId,
    pub(super) since: Time,
    pub(super) after: Option<DeliveryId>,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

impl TransactionWork for Recover {
    type Outcome = Recovered;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Recovered, Failure> {
        if !endpoints::is_there(tx, self.endpoint).await? {
            return Ok(Recovered::Unknown);
        }
        // No generated id has a random part of zeros.
        let first = schema::webhooks::first_delivery_id(self.since);
        let behind = uuid(self.after.unwrap_or(first).as_bytes());
        let (of, now) = (uuid(self.endpoint.as_bytes()), millis(self.now));
        let found = one(row(tx, RECOVER, &[&of, &behind, &PAGE, &now]).await?)?;
        if let Some(audited) = &self.audited {
            audit::append(tx, audited.clone(), self.now).await?;
        }
        Ok(Recovered::Page {
            queued: count(&found, 2),
            next: next_id(&found, PAGE),
        })
    }
}

/// Queues events that an endpoint missed because it was off.
pub(super) struct QueueMissed {
    pub(super) endpoint: EndpointId,
    pub(super) events: Vec<(Event, Payment)>,
    pub(super) now: Time,
}

impl TransactionWork for QueueMissed {
    type Outcome = u64;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<u64, Failure> {
        if !endpoints::is_there(tx, self.endpoint).await? {
            return Ok(0);
        }
        outbox::queue_missed(tx, self.endpoint, &self.events, self.now).await
    }
}

/// Position after all due deliveries in the order of waiting ones.
const LAST: [u8; 16] = [u8::MAX; 16];

/// Makes one page of pending deliveries due: those of `$1` after `($2, $3)`, at most `$4`, due at `$5`.
const HASTEN: &str = "/* deliveries: hasten */
    WITH page AS MATERIALIZED (
        SELECT id, next_at FROM delivery
        WHERE endpoint = $1 AND status = 0 AND (next_at, id) > ($2, $3)
        ORDER BY next_at, id LIMIT $4 FOR UPDATE),
    made AS (
        UPDATE delivery d SET next_at = $5 FROM page p WHERE d.id = p.id RETURNING 1),
    last AS (SELECT id, next_at FROM page ORDER BY next_at DESC, id DESC LIMIT 1)
    SELECT (SELECT count(*) FROM page), (SELECT id FROM last), (SELECT count(*) FROM made),
        (SELECT next_at FROM last)";

/// Makes deliveries due that wait for a later time.
pub(super) struct MakeDue {
    pub(super) endpoint: EndpointId,
    pub(super) after: Option<(Time, DeliveryId)>,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

impl TransactionWork for MakeDue {
    type Outcome = MadeDue;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<MadeDue, Failure> {
        if !endpoints::is_there(tx, self.endpoint).await? {
            return Ok(MadeDue::Unknown);
        }
        // Deliveries that are due by now sort before this position and do not change. The same holds for those
        // that an earlier page has made due.
        let due = (self.now, DeliveryId::from_bytes(LAST));
        let (at, id) = self.after.map_or(due, |after| after.max(due));
        let (of, behind) = (uuid(self.endpoint.as_bytes()), uuid(id.as_bytes()));
        let (at, now) = (millis(at), millis(self.now));
        let found = one(row(tx, HASTEN, &[&of, &at, &behind, &PAGE, &now]).await?)?;
        if let Some(audited) = &self.audited {
            audit::append(tx, audited.clone(), self.now).await?;
        }
        let last = found.get::<_, Option<i64>>(3).map(time);
        Ok(MadeDue::Page {
            hastened: count(&found, 2),
            next: last.zip(next_id(&found, PAGE)),
        })
    }
}

impl PostgresStore {
    /// Whether a delivery's endpoint must be disabled: it is enabled and still has the URL that responded
    /// "gone".
    pub(crate) async fn is_gone(&self, id: DeliveryId, off: &SwitchOff) -> Result<bool, Fault> {
        let sql = "/* delivery: endpoint */ SELECT e.body, e.id FROM delivery d
            JOIN endpoint e ON e.id = d.endpoint WHERE d.id = $1";
        let Some(found) = self.workers.read_one(sql, &[&uuid(id.as_bytes())]).await? else {
            return Ok(false);
        };
        let endpoint = endpoints::plain(
            &self.secrets.sealer,
            columns::id(&found, 1, EndpointId::from_bytes),
            &found,
        )?;
        Ok(endpoint.enabled && endpoint.url == off.url)
    }

    /// Records attempts, all or none.
    pub(crate) async fn record(
        &self,
        tried: &[(DeliveryId, Tried)],
    ) -> Result<Vec<TriedOutcome>, Fault> {
        let ids = ids(tried);
        let mut tries = Tries::new();
        loop {
            let found = self.workers.read(SOME, &[&ids]).await?;
            let (outcomes, changed) = judge(&self.secrets.sealer, &found, tried, tries.lost)?;
            if changed.is_empty() {
                return Ok(outcomes);
            }
            match self.workers.write(RECORD, &changed.arguments()).await {
                Ok(_) => return Ok(outcomes),
                // Another record, or the end of the endpoint, was faster.
                Err(failure @ (Failure::Stale | Failure::Lost)) => {
                    tries.again(&failure).await?;
                }
                Err(failure) => return Err(failure.fault()),
            }
        }
    }
}

impl PostgresStore {
    /// Ends the leases of recorded attempts, whatever the outcome.
    pub(crate) async fn end_leases(
        &self,
        tried: &[(DeliveryId, Tried)],
        outcomes: &[TriedOutcome],
    ) {
        let each = || tried.iter().zip(outcomes);
        let is_taken = |outcome: &TriedOutcome| matches!(outcome, TriedOutcome::Taken { .. });
        let taken = each().filter(|(_, outcome)| is_taken(outcome));
        self.claims.forget(taken.map(|((id, _), _)| *id));
        let others = each().filter(|(_, outcome)| !is_taken(outcome));
        let others: Vec<_> = others.map(|((id, _), _)| *id).collect();
        // Leases that are not ended here expire.
        if let Err(fault) = self.give_deliveries_back(&others).await {
            tracing::warn!(error = %fault, "leases of deliveries were not given back");
        }
    }
}

/// Records an attempt and disables its endpoint.
pub(super) struct RecordAndDisable {
    pub(super) tried: [(DeliveryId, Tried); 1],
    pub(super) disable: SwitchOff,
    pub(super) now: Time,
}

impl TransactionWork for RecordAndDisable {
    type Outcome = Vec<TriedOutcome>;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let found = rows(tx, SOME, &[&ids(&self.tried)]).await?;
        let (outcomes, changed) = judge(tx.sealer(), &found, &self.tried, false)?;
        if !changed.is_empty() {
            execute(tx, RECORD, &changed.arguments()).await?;
        }
        if let Some(found) = found.first() {
            let (endpoint, sealer) = (delivery(tx.sealer(), found)?.endpoint, tx.sealer());
            endpoints::disable(tx, sealer, endpoint, &self.disable, self.now).await?;
        }
        Ok(outcomes)
    }
}

fn ids(tried: &[(DeliveryId, Tried)]) -> Vec<Uuid> {
    tried.iter().map(|(id, _)| uuid(id.as_bytes())).collect()
}

/// Writes deliveries if their status and attempt count are unchanged since they were read. All or none.
const RECORD: &str = "/* deliveries: record */
    WITH written AS (
        UPDATE delivery d SET status = v.status, next_at = v.next_at, attempts = v.attempts, log = v.log,
            leased_until = 0
        FROM unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::smallint[],
            $7::bytea[]) AS v(id, was, had, status, next_at, attempts, log)
        WHERE d.id = v.id AND d.status = v.was AND d.attempts = v.had
        RETURNING 1)
    SELECT 1 / ((SELECT count(*) FROM written) = cardinality($1::uuid[]))::int";

/// Changed deliveries, column by column.
#[derive(Default)]
struct Changed {
    ids: Vec<Uuid>,
    was: Vec<i16>,
    had: Vec<i16>,
    statuses: Vec<i16>,
    next_at: Vec<Option<i64>>,
    attempts: Vec<i16>,
    logs: Vec<Vec<u8>>,
}

impl Changed {
    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn push(&mut self, sealer: &Sealer, before: &Delivery, after: &Delivery) -> Result<(), Fault> {
        let attempts =
            |delivery: &Delivery| i16::try_from(delivery.attempts.len()).unwrap_or(i16::MAX);
        self.ids.push(uuid(after.id.as_bytes()));
        self.was.push(status_number(before.status));
        self.had.push(attempts(before));
        self.statuses.push(status_number(after.status));
        self.next_at.push(after.next_attempt_at.map(millis));
        self.attempts.push(attempts(after));
        self.logs.push(log(sealer, after)?);
        Ok(())
    }

    fn arguments(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.ids,
            &self.was,
            &self.had,
            &self.statuses,
            &self.next_at,
            &self.attempts,
            &self.logs,
        ]
    }
}

/// Decides the new state of deliveries from the rows read, in their order. With `was_lost`, the answer to these
/// records was lost, so an equal attempt in the log is this one.
fn judge(
    sealer: &Sealer,
    found: &[Row],
    tried: &[(DeliveryId, Tried)],
    was_lost: bool,
) -> Result<(Vec<TriedOutcome>, Changed), Fault> {
    let mut known = HashMap::new();
    for found in found {
        let before = delivery(sealer, found)?;
        known.insert(before.id, (before.clone(), before));
    }
    let mut outcomes = Vec::new();
    for (id, tried) in tried {
        let Some((_, delivery)) = known.get_mut(id) else {
            outcomes.push(TriedOutcome::Unknown);
            continue;
        };
        let is_in_the_log = was_lost
            && delivery.attempts.len() == tried.after + 1
            && delivery.attempts.last() == Some(&tried.attempt);
        let was_pending = is_in_the_log || delivery.status == DeliveryStatus::Pending;
        if !is_in_the_log && delivery.record(tried.clone()) == AttemptRecord::Late {
            outcomes.push(TriedOutcome::Late);
            continue;
        }
        outcomes.push(TriedOutcome::Taken {
            status: delivery.status,
            next_attempt_at: delivery.next_attempt_at,
            ended: was_pending && delivery.status != DeliveryStatus::Pending,
        });
    }
    let mut changed = Changed::default();
    let mut known: Vec<_> = known.into_values().collect();
    // The same order everywhere, so that two records of the same deliveries cannot deadlock.
    known.sort_unstable_by_key(|(before, _)| before.id);
    for (before, after) in known.iter().filter(|(before, after)| before != after) {
        changed.push(sealer, before, after)?;
    }
    Ok((outcomes, changed))
}

/// Prunes one page after `$1`, before `$2`, at most `$3`: ended deliveries are deleted, and their events'
/// counts decreased.
const PRUNE: &str = "/* deliveries: prune */
    WITH page AS MATERIALIZED (SELECT id FROM delivery WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3),
    gone AS (
        DELETE FROM delivery d USING page p WHERE d.id = p.id AND d.status <> 0
        RETURNING d.event),
    counted AS (
        UPDATE event_body b SET deliveries = b.deliveries - n.fewer
        FROM (SELECT event, count(*) AS fewer FROM gone GROUP BY event) n
        WHERE b.id = n.event RETURNING b.id, b.deliveries)
    SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1),
        (SELECT count(*) FROM gone), ARRAY(SELECT id FROM counted WHERE deliveries <= 0)";

/// Removes one page of ended deliveries that were queued before `before`, and events without deliveries.
pub(super) struct Prune {
    pub(super) before: Time,
    pub(super) after: Option<DeliveryId>,
    pub(super) at_most: usize,
}

impl TransactionWork for Prune {
    type Outcome = Pruned;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Pruned, Failure> {
        let behind = self
            .after
            .map_or(Uuid::nil(), |after| uuid(after.as_bytes()));
        let before = uuid(schema::webhooks::first_delivery_id(self.before).as_bytes());
        let at_most = i64::try_from(self.at_most).unwrap_or(i64::MAX);
        let found = one(row(tx, PRUNE, &[&behind, &before, &at_most]).await?)?;
        let left: Vec<Uuid> = found.get(3);
        if !left.is_empty() {
            // An event that has received a new delivery counts it.
            let sql =
                "/* events: prune */ DELETE FROM event_body WHERE id = ANY($1) AND deliveries <= 0";
            execute(tx, sql, &[&left]).await?;
        }
        Ok(Pruned {
            deliveries: count(&found, 2),
            next: next_id(&found, at_most),
        })
    }
}

/// Position of the next page, from the count and the last row of a page. `None` if the page was not full.
fn next_id(row: &Row, page: i64) -> Option<DeliveryId> {
    let is_full = row.get::<_, i64>(0) >= page;
    let last: Option<Uuid> = row.get(1);
    last.filter(|_| is_full)
        .map(|last| DeliveryId::from_bytes(last.into_bytes()))
}
