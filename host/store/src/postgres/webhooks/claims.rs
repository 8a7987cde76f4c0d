//! Claims of deliveries, and what this node knows of them.
//!
//! A lease stands in its delivery's row, so that no two nodes send it. It need not survive a crash: what it was for
//! is tried again. So it is not waited for until it is on disk.

use std::collections::HashMap;
use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId, EventId};
use kassette_domain::time::Time;
use parking_lot::Mutex;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::bell::Bell;
use crate::deliveries::MAX_CLAIM;
use crate::postgres::database::{Arguments, count_lapsed, execute};
use crate::postgres::webhooks::outbox::{self, damaged};
use crate::postgres::{PostgresStore, columns, millis, time, uuid};
use crate::{ClaimedDeliveries, DueDelivery, Fault};

/// How far a clock of another node may be behind this one: what it queues is due so much earlier.
const SLACK: Duration = Duration::from_secs(5);
/// How often a claim looks at all that waits for an endpoint, and not from a mark on.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long a node that ends tries to give its leases back.
const HAND_BACK: Duration = Duration::from_secs(1);
/// Marks and leases kept before those that are over are swept out.
const SWEEP_FROM: usize = 4096;

/// What this node knows of deliveries.
#[derive(Default)]
pub(crate) struct Claims {
    pub(crate) bell: Bell,
    /// Until when this node has leased what.
    leases: Mutex<HashMap<DeliveryId, Time>>,
    marks: Mutex<HashMap<EndpointId, EarliestDue>>,
}

/// Nothing that waits for an endpoint is due before this. It spares claims the walk along what is delivered and
/// not cleaned away yet, which grows for as long as any transaction of the database is open.
#[derive(Clone, Copy, Default)]
struct EarliestDue {
    from: Time,
    /// When all was looked at last.
    looked: Time,
    /// How often something was queued.
    queued: u64,
}

impl Claims {
    /// Something was queued for endpoints, or may go on, and is due then.
    pub(crate) fn ring(&self, endpoints: &[EndpointId], at: Time) {
        let mut marks = self.marks.lock();
        for endpoint in endpoints {
            if let Some(mark) = marks.get_mut(endpoint) {
                mark.from = mark.from.min(at);
                mark.queued += 1;
            }
        }
        drop(marks);
        self.bell.ring(endpoints);
    }

    /// From where on a claim looks, and the mark that it goes by.
    fn mark(&self, endpoint: EndpointId, now: Time) -> (Time, EarliestDue) {
        let mut marks = self.marks.lock();
        if marks.len() >= SWEEP_FROM {
            marks.retain(|_, mark| now.since(mark.looked) < LOOK_EVERY);
        }
        let mark = marks.entry(endpoint).or_default();
        if now < mark.looked || now.since(mark.looked) >= LOOK_EVERY {
            (mark.from, mark.looked) = (Time::default(), now);
        }
        (mark.from, *mark)
    }

    /// The first that waits for an endpoint was due then.
    fn note(&self, endpoint: EndpointId, before: EarliestDue, first: Option<Time>, now: Time) {
        let recent = now.before(SLACK);
        let from = first.map_or(recent, |first| first.min(recent));
        if let Some(mark) = self.marks.lock().get_mut(&endpoint)
            && mark.queued == before.queued
        {
            mark.from = mark.from.max(from);
        }
    }

    fn leased(&self, deliveries: &[DueDelivery], until: Time, now: Time) {
        let mut leases = self.leases.lock();
        if leases.len() >= SWEEP_FROM {
            leases.retain(|_, until| now < *until);
        }
        leases.extend(deliveries.iter().map(|delivery| (delivery.id, until)));
    }

    /// The leases of this node on deliveries, or on all of them, which it has no more.
    fn take(&self, deliveries: Option<&[DeliveryId]>) -> (Vec<Uuid>, Vec<i64>) {
        let mut leases = self.leases.lock();
        let taken: Vec<_> = match deliveries {
            Some(ids) => {
                let each = ids.iter().filter_map(|id| leases.remove_entry(id));
                each.collect()
            }
            None => leases.drain().collect(),
        };
        let each = taken.into_iter();
        each.map(|(id, until)| (uuid(id.as_bytes()), millis(until)))
            .unzip()
    }

    /// Records have ended these leases.
    pub(crate) fn forget(&self, deliveries: impl Iterator<Item = DeliveryId>) {
        let mut leases = self.leases.lock();
        for id in deliveries {
            leases.remove(&id);
        }
    }
}

/// Takes what is due of `$1` from `$2` on at `$3`, until `$4`, at most `$5`. The first column says whether the
/// endpoint is on, the second when the first of all that waits is due, the third when the next is that no worker
/// has.
///
/// The claim stands in a part of its own: in a subquery, skipping what is locked would break the limit.
const CLAIM: &str = "/* deliveries: claim */
    WITH lightly AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
    page AS MATERIALIZED (
        SELECT d.id, d.leased_until > 0 AS lapsed FROM lightly, delivery d
        WHERE d.endpoint = $1 AND d.status = 0 AND d.next_at >= $2 AND d.next_at <= $3 AND d.leased_until <= $3
            AND EXISTS (SELECT FROM endpoint e WHERE e.id = $1 AND e.enabled)
        ORDER BY d.next_at, d.id LIMIT $5 FOR UPDATE OF d SKIP LOCKED),
    leased AS (
        UPDATE delivery d SET leased_until = $4 FROM page p WHERE d.id = p.id
        RETURNING d.id, d.event, d.kind, d.created_at, d.next_at, d.attempts, d.payment, p.lapsed)
    SELECT (SELECT e.enabled FROM endpoint e WHERE e.id = $1),
        (SELECT d.next_at FROM delivery d
            WHERE d.endpoint = $1 AND d.status = 0 AND d.next_at >= $2 ORDER BY d.next_at, d.id LIMIT 1),
        (SELECT d.next_at FROM delivery d
            WHERE d.endpoint = $1 AND d.status = 0 AND d.next_at >= $2 AND d.leased_until <= $3
                AND (d.next_at > $3 OR ((SELECT count(*) FROM page) = $5
                    AND NOT EXISTS (SELECT FROM page p WHERE p.id = d.id)))
            ORDER BY d.next_at, d.id LIMIT 1),
        l.id, l.event, l.kind, l.created_at, l.next_at, l.attempts, b.body, l.payment, l.lapsed
    FROM (VALUES (true)) AS always LEFT JOIN leased l ON true LEFT JOIN event_body b ON b.id = l.event
    ORDER BY l.next_at, l.id";

/// Ends leases that are still as they were given.
const GIVE_BACK: &str = "/* deliveries: give back */
    WITH lightly AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    UPDATE delivery d SET leased_until = 0
    FROM lightly, unnest($1::uuid[], $2::bigint[]) AS v(id, until)
    WHERE d.id = v.id AND d.leased_until = v.until";

impl PostgresStore {
    /// Takes what is due of an endpoint.
    pub(crate) async fn claim_deliveries(
        &self,
        endpoint: EndpointId,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> Result<ClaimedDeliveries, Fault> {
        let (from, mark) = self.claims.mark(endpoint, now);
        let until = now.after(lease);
        let at_most = i64::try_from(at_most.clamp(1, MAX_CLAIM)).unwrap_or(1);
        let of = uuid(endpoint.as_bytes());
        let (since, by, end) = (millis(from), millis(now), millis(until));
        // Where the answer is lost the leases that it told of end by time.
        let arguments: Arguments<'_> = &[&of, &since, &by, &end, &at_most];
        let found = self.workers.repeat(CLAIM, arguments).await?;
        let Some(first) = found.first() else {
            return Err(Fault::Unavailable("a claim has answered nothing".into()));
        };
        if first.get::<_, Option<bool>>(0) != Some(true) {
            return Ok(ClaimedDeliveries::Held);
        }
        let next = first.get::<_, Option<i64>>(2).map(time);
        let waits_since = first.get::<_, Option<i64>>(1).map(time);
        self.claims.note(endpoint, mark, waits_since, now);
        let lapsed = found
            .iter()
            .filter(|row| row.get::<_, Option<bool>>(11) == Some(true));
        count_lapsed("delivery", lapsed.count());
        // One damaged delivery must not keep the others waiting: it is looked at again when its lease ends.
        let deliveries: Vec<_> = found.iter().filter_map(due).collect();
        self.claims.leased(&deliveries, until, now);
        Ok(ClaimedDeliveries::Due { deliveries, next })
    }

    /// Gives back what was claimed and not tried.
    pub(crate) async fn give_deliveries_back(
        &self,
        deliveries: &[DeliveryId],
    ) -> Result<(), Fault> {
        let (ids, until) = self.claims.take(Some(deliveries));
        if ids.is_empty() {
            return Ok(());
        }
        let given = self.workers.repeat(GIVE_BACK, &[&ids, &until]).await;
        given.map(drop)
    }

    /// Gives back all that this node has claimed, at its end: no other node has to wait for the leases.
    pub(crate) async fn hand_back(&self) {
        let (ids, until) = self.claims.take(None);
        if ids.is_empty() {
            return;
        }
        let given = tokio::time::timeout(HAND_BACK, async {
            let connection = self.workers.pool.get().await?;
            execute(&connection, GIVE_BACK, &[&ids, &until]).await
        });
        if !matches!(given.await, Ok(Ok(_))) {
            tracing::warn!("leases of deliveries were not given back: they end by time");
        }
    }
}

/// A claimed delivery; none where the claim took nothing, or the delivery is damaged.
fn due(row: &Row) -> Option<DueDelivery> {
    let id = DeliveryId::from_bytes(row.get::<_, Option<Uuid>>(3)?.into_bytes());
    let (kind, body) = (outbox::kind(row.get(5)), row.get::<_, Option<String>>(9));
    let (Some(kind), Some(body)) = (kind, body) else {
        let _told = damaged(id, "its event is missing, or of a kind that is not known");
        return None;
    };
    Some(DueDelivery {
        id,
        event: columns::id(row, 4, EventId::from_bytes),
        kind,
        payment: columns::payment_id(row, 10),
        created_at: time(row.get(6)),
        due_at: time(row.get(7)),
        attempts: usize::try_from(row.get::<_, i16>(8)).unwrap_or_default(),
        body,
    })
}
