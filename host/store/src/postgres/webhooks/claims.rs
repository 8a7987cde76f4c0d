//! Claims of deliveries, and what this node knows of them.
//!
//! A lease stands in its delivery's row, so that no two nodes send it. It need not survive a crash: what it was for
//! is tried again. So it is not waited for until it is on disk.

use std::collections::{HashMap, VecDeque};
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
/// The same where no other node serves: one that joins is known after a beat. Each claim walks along what was due
/// within it.
const SLACK_ALONE: Duration = Duration::from_millis(500);
/// How often a claim looks further back than from its mark on, and how far: for what another node queued whose clock is
/// behind by more, or whose commit took longer. It reaches beyond the look before.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_BACK: Duration = Duration::from_mins(2);
/// How often a claim looks at all that waits. Beside a transaction that is held open for long it takes longer than a
/// statement may: then it has to be a rare one that fails.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_hours(1);
/// How many times of what was queued last are kept for an endpoint: more than are queued during a claim.
const QUEUED_KEPT: usize = 64;
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
#[derive(Default)]
struct EarliestDue {
    from: Time,
    /// When a claim looked further back last, and when at all.
    looked: Time,
    looked_at_all: Time,
    /// How often something was queued.
    queued: u64,
    /// When the last of it was due: a claim under way need not have seen them.
    queued_for: VecDeque<Time>,
}

impl EarliestDue {
    fn queue(&mut self, at: Time) {
        self.from = self.from.min(at);
        self.queued += 1;
        self.queued_for.truncate(QUEUED_KEPT - 1);
        self.queued_for.push_front(at);
    }

    /// When the first was due of what was queued since so many were; the beginning of time where that is not known.
    fn queued_since(&self, queued: u64) -> Option<Time> {
        // One that was swept out and made anew counts from zero.
        let since = self.queued.checked_sub(queued).map(usize::try_from);
        match since {
            Some(Ok(since)) if since <= self.queued_for.len() => {
                self.queued_for.iter().take(since).min().copied()
            }
            _ => Some(Time::default()),
        }
    }
}

impl Claims {
    /// Something was queued for endpoints, or may go on, and is due then.
    pub(crate) fn ring(&self, endpoints: &[EndpointId], at: Time) {
        let mut marks = self.marks.lock();
        for endpoint in endpoints {
            if let Some(mark) = marks.get_mut(endpoint) {
                mark.queue(at);
            }
        }
        drop(marks);
        self.bell.ring(endpoints);
    }

    /// From where on a claim looks, and how often something was queued before.
    fn mark(&self, endpoint: EndpointId, now: Time) -> (Time, u64) {
        let mut marks = self.marks.lock();
        if marks.len() >= SWEEP_FROM {
            marks.retain(|_, mark| now.since(mark.looked) < LOOK_EVERY);
        }
        let mark = marks.entry(endpoint).or_default();
        let is_late = |last: Time, every| now < last || now.since(last) >= every;
        let from = if is_late(mark.looked_at_all, LOOK_AT_ALL_EVERY) {
            (mark.looked, mark.looked_at_all) = (now, now);
            Time::default()
        } else if is_late(mark.looked, LOOK_EVERY) {
            mark.looked = now;
            mark.from.before(LOOK_BACK)
        } else {
            mark.from
        };
        (from, mark.queued)
    }

    /// The first that waits for an endpoint was due then, for a claim that looked from `looked` on and began when so
    /// many were queued. What is queued later is due from `recent` on.
    fn note(
        &self,
        endpoint: EndpointId,
        (looked, queued): (Time, u64),
        first: Option<Time>,
        recent: Time,
    ) {
        // Where the mark was put back meanwhile, the claim has not seen what for. One that looked further back than
        // the mark may have found what that has passed.
        if let Some(mark) = self.marks.lock().get_mut(&endpoint)
            && looked <= mark.from
        {
            let seen = [first, mark.queued_since(queued)];
            let from = seen.into_iter().flatten().fold(recent, Time::min);
            mark.from = from.max(looked);
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
        let mark = self.claims.mark(endpoint, now);
        let until = now.after(lease);
        let at_most = i64::try_from(at_most.clamp(1, MAX_CLAIM)).unwrap_or(1);
        let of = uuid(endpoint.as_bytes());
        let (since, by, end) = (millis(mark.0), millis(now), millis(until));
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
        let slack = match self.standing.live() {
            1 => SLACK_ALONE,
            _ => SLACK,
        };
        self.claims
            .note(endpoint, mark, waits_since, now.before(slack));
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

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: EndpointId = EndpointId::from_bytes([1; 16]);

    fn at(seconds: u64) -> Time {
        Time::from_secs(10_000 + seconds)
    }

    #[test]
    fn a_claim_moves_the_mark_on_though_something_is_queued_meanwhile_and_misses_none_of_it() {
        let claims = Claims::default();
        let mark = claims.mark(ENDPOINT, at(100));
        assert_eq!(mark.0, Time::default());
        claims.ring(&[ENDPOINT], at(100));
        // Nothing waits: the mark stays behind the clocks of other nodes.
        claims.note(ENDPOINT, mark, None, at(95));
        assert_eq!(claims.mark(ENDPOINT, at(101)).0, at(95));
        // One whose step took long was queued while a claim was under way that did not see it.
        let mark = claims.mark(ENDPOINT, at(120));
        claims.ring(&[ENDPOINT], at(110));
        claims.note(ENDPOINT, mark, None, at(115));
        assert_eq!(claims.mark(ENDPOINT, at(121)).0, at(110));
        let mark = claims.mark(ENDPOINT, at(122));
        claims.note(ENDPOINT, mark, Some(at(110)), at(117));
        assert_eq!(claims.mark(ENDPOINT, at(123)).0, at(110));
        // More than are remembered: nothing is known of them.
        let mark = claims.mark(ENDPOINT, at(130));
        for _ in 0..=QUEUED_KEPT {
            claims.ring(&[ENDPOINT], at(129));
        }
        claims.note(ENDPOINT, mark, None, at(125));
        assert_eq!(claims.mark(ENDPOINT, at(131)).0, at(110));
    }

    #[test]
    fn a_claim_looks_back_each_minute_and_at_all_each_hour_and_one_that_fails_moves_no_mark() {
        let claims = Claims::default();
        let noted = |now: u64, first| {
            let mark = claims.mark(ENDPOINT, at(now));
            claims.note(ENDPOINT, mark, first, at(now - 5));
            mark.0
        };
        assert_eq!(noted(100, None), Time::default());
        assert_eq!(noted(130, None), at(95));
        // It reaches what was queued right after the look before.
        assert_eq!(noted(160, None), at(125).before(LOOK_BACK));
        // The answer to this one is lost: the next goes on as if it had not been.
        assert_eq!(claims.mark(ENDPOINT, at(220)).0, at(155).before(LOOK_BACK));
        assert_eq!(noted(221, None), at(155));
        // A row that the mark had passed is found, and the mark goes back to it.
        assert_eq!(noted(280, Some(at(170))), at(216).before(LOOK_BACK));
        assert_eq!(noted(281, Some(at(170))), at(170));
        let before = claims.mark(ENDPOINT, at(282));
        claims.ring(&[ENDPOINT], at(150));
        claims.note(ENDPOINT, before, None, at(277));
        assert_eq!(noted(283, None), at(150));
        assert_eq!(noted(3700, None), Time::default());
    }
}
