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
use crate::postgres::database::{Arguments, count_lapsed};
use crate::postgres::webhooks::outbox::{self, damaged};
use crate::postgres::{PostgresStore, columns, millis, time, uuid};
use crate::{ClaimedDeliveries, DueDelivery, Fault};

/// How far a clock of another node may be behind this one, or its commit behind its clock: what it queues is due so
/// much earlier. What a mark has passed all the same is found when the store is asked for all that waits.
const SLACK: Duration = Duration::from_secs(5);
/// The same where no other node serves. Each claim walks along what was due within it. One that joins is known after a
/// beat, and finds by itself what it queues until then.
const SLACK_ALONE: Duration = Duration::from_millis(100);
/// How far back claims of an endpoint look after one that looked at all that waits has failed.
const RECENT: Duration = Duration::from_mins(2);
/// A mark that was not used for so long is swept out.
const MARK_LIFE: Duration = Duration::from_secs(60);
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
    /// When a claim looked last.
    used: Time,
    /// The number of the last claim, and when the first is due of what was queued since it began: it need not have seen
    /// that.
    claim: u64,
    queued: Option<Time>,
}

impl EarliestDue {
    fn queue(&mut self, at: Time) {
        self.from = self.from.min(at);
        self.queued = Some(self.queued.map_or(at, |first| first.min(at)));
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

    /// Begins a claim: from where on it looks, and its number.
    fn mark(&self, endpoint: EndpointId, now: Time) -> (Time, u64) {
        let mut marks = self.marks.lock();
        if marks.len() >= SWEEP_FROM && marks.len() == marks.capacity() {
            marks.retain(|_, mark| now.since(mark.used) < MARK_LIFE);
        }
        let mark = marks.entry(endpoint).or_default();
        mark.used = now;
        mark.claim += 1;
        mark.queued = None;
        (mark.from, mark.claim)
    }

    /// A claim has found when the first that waits for an endpoint is due. What is queued later is due from `recent` on.
    fn note(
        &self,
        endpoint: EndpointId,
        (looked, claim): (Time, u64),
        first: Option<Time>,
        recent: Time,
    ) {
        // Where another claim has begun, or the mark was put back, this one has not seen all that it would move past.
        if let Some(mark) = self.marks.lock().get_mut(&endpoint)
            && mark.claim == claim
            && looked <= mark.from
        {
            let seen = [first, mark.queued].into_iter().flatten();
            mark.from = seen.fold(recent, Time::min).max(looked);
        }
    }

    fn leased(&self, deliveries: &[DueDelivery], until: Time, now: Time) {
        let mut leases = self.leases.lock();
        if leases.len() >= SWEEP_FROM && leases.len() == leases.capacity() {
            leases.retain(|_, until| now < *until);
        }
        leases.extend(deliveries.iter().map(|delivery| (delivery.id, until)));
    }

    /// The leases of this node on deliveries, which it has no more.
    fn take(&self, deliveries: &[DeliveryId]) -> (Vec<Uuid>, Vec<i64>) {
        let mut leases = self.leases.lock();
        let taken = deliveries.iter().filter_map(|id| leases.remove_entry(id));
        taken
            .map(|(id, until)| (uuid(id.as_bytes()), millis(until)))
            .unzip()
    }

    /// These wait, of all that does: a mark that has passed one goes back to it.
    pub(crate) fn found_waiting(&self, waiting: &[(EndpointId, Time)]) {
        let mut marks = self.marks.lock();
        for (endpoint, at) in waiting {
            if let Some(mark) = marks.get_mut(endpoint).filter(|mark| *at < mark.from) {
                mark.queue(*at);
            }
        }
    }

    /// A claim that looked from then on has failed. One that looks at all that waits may take too long: the next ones
    /// look at what is recent, and what waits longer is found when the store is asked for all that waits.
    fn fail(&self, endpoint: EndpointId, (looked, claim): (Time, u64), now: Time) {
        if looked == Time::default()
            && let Some(mark) = self.marks.lock().get_mut(&endpoint)
            && mark.claim == claim
        {
            let queued = mark.queued.into_iter();
            mark.from = queued.fold(now.before(RECENT), Time::min);
        }
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
        let found = self.workers.repeat(CLAIM, arguments).await;
        let found = found.inspect_err(|_| self.claims.fail(endpoint, mark, now))?;
        let Some(first) = found.first() else {
            return Err(Fault::Unavailable("a claim has answered nothing".into()));
        };
        if first.get::<_, Option<bool>>(0) != Some(true) {
            return Ok(ClaimedDeliveries::Held);
        }
        let next = first.get::<_, Option<i64>>(2).map(time);
        let waits_since = first.get::<_, Option<i64>>(1).map(time);
        let slack = match self.node_state.live() {
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
        let (ids, until) = self.claims.take(deliveries);
        if ids.is_empty() {
            return Ok(());
        }
        let given = self.workers.repeat(GIVE_BACK, &[&ids, &until]).await;
        given.map(drop)
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
        // However many they are.
        let mark = claims.mark(ENDPOINT, at(130));
        for nth in 0..1000 {
            claims.ring(&[ENDPOINT], at(if nth == 500 { 121 } else { 129 }));
        }
        claims.note(ENDPOINT, mark, None, at(125));
        assert_eq!(claims.mark(ENDPOINT, at(131)).0, at(121));
        // Another claim has begun meanwhile: what became of this one is not known to be all.
        let before = claims.mark(ENDPOINT, at(132));
        claims.ring(&[ENDPOINT], at(122));
        let mark = claims.mark(ENDPOINT, at(133));
        claims.note(ENDPOINT, before, None, at(127));
        assert_eq!(claims.mark(ENDPOINT, at(134)).0, at(121));
        claims.note(ENDPOINT, mark, None, at(128));
        assert_eq!(claims.mark(ENDPOINT, at(135)).0, at(121));
    }

    #[test]
    fn a_mark_that_has_passed_something_goes_back_to_it_once_all_that_waits_is_looked_at() {
        let claims = Claims::default();
        let noted = |now: u64, first| {
            let mark = claims.mark(ENDPOINT, at(now));
            claims.note(ENDPOINT, mark, first, at(now - 5));
            mark.0
        };
        assert_eq!(noted(100, None), Time::default());
        // Another node's row of that time is seen now alone; a claim is under way that did not.
        let mark = claims.mark(ENDPOINT, at(130));
        claims.found_waiting(&[(ENDPOINT, at(80))]);
        claims.note(ENDPOINT, mark, None, at(125));
        assert_eq!(noted(131, Some(at(80))), at(80));
        assert_eq!(noted(132, None), at(80));
        claims.found_waiting(&[(ENDPOINT, at(150))]);
        assert_eq!(noted(133, None), at(127));
    }

    #[test]
    fn a_claim_that_fails_moves_no_mark_but_one_that_looked_at_all_that_waits() {
        let claims = Claims::default();
        let mark = claims.mark(ENDPOINT, at(1000));
        claims.fail(ENDPOINT, mark, at(1000));
        let mark = claims.mark(ENDPOINT, at(1001));
        assert_eq!(mark.0, at(880));
        claims.fail(ENDPOINT, mark, at(1001));
        assert_eq!(claims.mark(ENDPOINT, at(1002)).0, at(880));
        // What was queued meanwhile is not passed.
        let (claims, late) = (Claims::default(), at(500));
        let mark = claims.mark(ENDPOINT, at(1000));
        claims.ring(&[ENDPOINT], late);
        claims.fail(ENDPOINT, mark, at(1000));
        assert_eq!(claims.mark(ENDPOINT, at(1001)).0, late);
    }
}
