//! Claims of deliveries, and this node's in-memory state for them.
//!
//! The lease is stored in the delivery's row, so that no two nodes send it. It need not survive a crash,
//! because the delivery is then retried. Claims therefore commit without waiting for the disk.

use std::collections::HashMap;
use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId, EventId};
use kassette_domain::time::Time;
use kassette_domain::webhook::Endpoint;
use parking_lot::Mutex;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::bell::Bell;
use crate::deliveries::MAX_CLAIM;
use crate::postgres::database::{Arguments, count_lapsed};
use crate::postgres::webhooks::outbox::{self, EventBody, damaged};
use crate::postgres::{PostgresStore, columns, millis, time, uuid};
use crate::rows::seal::Sealer;
use crate::rows::{endpoints, notes, schema};
use crate::{ClaimedDeliveries, DueDelivery, Fault};

/// How far another node's clock, or its commit, may be late: the deliveries that it queues may be due this much
/// earlier. A scan of all waiting deliveries finds those that a mark has passed anyway.
const SLACK: Duration = Duration::from_secs(5);
/// The same if no other node serves. Each claim scans what was due within this time. A new node is known after
/// one heartbeat, and finds the deliveries that it queues until then.
const SLACK_ALONE: Duration = Duration::from_millis(100);
/// How far back claims of an endpoint search after a claim of all waiting deliveries has failed.
const RECENT: Duration = Duration::from_mins(2);
/// Marks that were not used for this long are removed.
const MARK_LIFE: Duration = Duration::from_secs(60);
/// Number of marks and leases above which expired ones are removed.
const SWEEP_FROM: usize = 4096;

/// This node's state of deliveries.
#[derive(Default)]
pub(crate) struct Claims {
    pub(crate) bell: Bell,
    /// This node's leases, with their ends.
    leases: Mutex<HashMap<DeliveryId, Time>>,
    marks: Mutex<HashMap<EndpointId, EarliestDue>>,
}

/// Time before which no waiting delivery of an endpoint is due. Claims thus skip delivered rows that are not
/// vacuumed yet, whose number grows while any transaction of the database is open.
#[derive(Default)]
struct EarliestDue {
    from: Time,
    /// Time of the last claim.
    used: Time,
    /// The number of the last claim, and the earliest due time of deliveries queued since it started: it may
    /// not have seen them.
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
    /// Deliveries of endpoints were queued or may resume, and are due at `at`.
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

    /// Starts a claim; returns the due time to search from, and the claim's number.
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

    /// Records that a claim found the first waiting delivery of an endpoint due at `first`. Later deliveries
    /// are due from `recent` on.
    fn note(
        &self,
        endpoint: EndpointId,
        (looked, claim): (Time, u64),
        first: Option<Time>,
        recent: Time,
    ) {
        // If another claim has started, or the mark was moved back, this claim has not seen everything that it
        // would skip.
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

    /// Removes and returns this node's leases on deliveries.
    fn take(&self, deliveries: &[DeliveryId]) -> (Vec<Uuid>, Vec<i64>) {
        let mut leases = self.leases.lock();
        let taken = deliveries.iter().filter_map(|id| leases.remove_entry(id));
        taken
            .map(|(id, until)| (uuid(id.as_bytes()), millis(until)))
            .unzip()
    }

    /// Moves marks back to waiting deliveries that they have passed. `waiting` is the first due time per
    /// endpoint.
    pub(crate) fn found_waiting(&self, waiting: &[(EndpointId, Time)]) {
        let mut marks = self.marks.lock();
        for (endpoint, at) in waiting {
            if let Some(mark) = marks.get_mut(endpoint).filter(|mark| *at < mark.from) {
                mark.queue(*at);
            }
        }
    }

    /// Records that a claim failed which started at the mark `looked`. A scan of all waiting deliveries may
    /// take too long, so later claims scan recent ones only; other scans of all waiting deliveries find the
    /// older ones.
    fn fail(&self, endpoint: EndpointId, (looked, claim): (Time, u64), now: Time) {
        if looked == Time::default()
            && let Some(mark) = self.marks.lock().get_mut(&endpoint)
            && mark.claim == claim
        {
            let queued = mark.queued.into_iter();
            mark.from = queued.fold(now.before(RECENT), Time::min);
        }
    }

    /// Removes leases that records have ended.
    pub(crate) fn forget(&self, deliveries: impl Iterator<Item = DeliveryId>) {
        let mut leases = self.leases.lock();
        for id in deliveries {
            leases.remove(&id);
        }
    }
}

/// Claims deliveries of `$1` that are due from `$2` until `$3`, with a lease until `$4`, at most `$5`. The
/// first column is the endpoint if it is enabled, the second the due time of the first of all waiting
/// deliveries, the third that of the first without a lease.
///
/// The claim is a separate CTE: in a subquery, skipping locked rows would break the limit.
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
    SELECT (SELECT e.body FROM endpoint e WHERE e.id = $1 AND e.enabled),
        (SELECT d.next_at FROM delivery d
            WHERE d.endpoint = $1 AND d.status = 0 AND d.next_at >= $2 ORDER BY d.next_at, d.id LIMIT 1),
        (SELECT d.next_at FROM delivery d
            WHERE d.endpoint = $1 AND d.status = 0 AND d.next_at >= $2 AND d.leased_until <= $3
                AND (d.next_at > $3 OR ((SELECT count(*) FROM page) = $5
                    AND NOT EXISTS (SELECT FROM page p WHERE p.id = d.id)))
            ORDER BY d.next_at, d.id LIMIT 1),
        l.id, l.event, l.kind, l.created_at, l.next_at, l.attempts, b.body, l.payment, l.lapsed, n.body
    FROM (VALUES (true)) AS always LEFT JOIN leased l ON true LEFT JOIN event_body b ON b.id = l.event
        LEFT JOIN timeline n ON n.payment = l.payment AND n.kind = 3
    ORDER BY l.next_at, l.id";

/// Ends leases that are unchanged since they were granted.
const GIVE_BACK: &str = "/* deliveries: give back */
    WITH lightly AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    UPDATE delivery d SET leased_until = 0
    FROM lightly, unnest($1::uuid[], $2::bigint[]) AS v(id, until)
    WHERE d.id = v.id AND d.leased_until = v.until";

impl PostgresStore {
    /// Claims due deliveries of an endpoint.
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
        let id = uuid(endpoint.as_bytes());
        let (since, by, end) = (millis(mark.0), millis(now), millis(until));
        // If the answer is lost, the leases that it contained expire.
        let arguments: Arguments<'_> = &[&id, &since, &by, &end, &at_most];
        let found = self.workers.repeat(CLAIM, arguments).await;
        let found = found.inspect_err(|_| self.claims.fail(endpoint, mark, now))?;
        let Some(first) = found.first() else {
            return Err(Fault::Unavailable("a claim has answered nothing".into()));
        };
        let body: Option<&[u8]> = first.get(0);
        let key = schema::webhooks::endpoint(endpoint);
        let of = body.map(|body| endpoints::decode(&self.secrets.sealer, &key, body));
        let Some(of) = of.transpose()?.filter(|of| of.enabled) else {
            return Ok(ClaimedDeliveries::Held);
        };
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
        // One damaged delivery must not block the others: it is read again when its lease ends.
        let deliveries: Vec<_> = found
            .iter()
            .filter_map(|row| due(&self.secrets.sealer, &of, row))
            .collect();
        self.claims.leased(&deliveries, until, now);
        Ok(ClaimedDeliveries::Due { deliveries, next })
    }

    /// Releases the leases of deliveries that were claimed but not attempted.
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

/// A claimed delivery. `None` if the claim found nothing, or the delivery is damaged or belongs to another
/// endpoint.
fn due(sealer: &Sealer, endpoint: &Endpoint, row: &Row) -> Option<DueDelivery> {
    let id = DeliveryId::from_bytes(row.get::<_, Option<Uuid>>(3)?.into_bytes());
    let event = columns::id(row, 4, EventId::from_bytes);
    let Some(body) = row.get::<_, Option<&[u8]>>(9) else {
        let _told = damaged(id, "its event is missing");
        return None;
    };
    let body = EventBody::decode(sealer, event, body).ok()?;
    if !body.is_for(endpoint)
        || outbox::kind(row.get(5)) != Some(body.kind)
        || columns::payment_id(row, 10) != body.payment
    {
        let _told = damaged(id, "it is not of its event, or not for its endpoint");
        return None;
    }
    let key = schema::notes(body.payment);
    let notes = row.get::<_, Option<&[u8]>>(12);
    let notes = notes.map(|notes| notes::decode(sealer, &key, notes));
    let notes = notes.transpose().ok()?.unwrap_or_default();
    let additions = body.additions(endpoint, &notes);
    Some(DueDelivery {
        id,
        event,
        kind: body.kind,
        payment: body.payment,
        created_at: time(row.get(6)),
        due_at: time(row.get(7)),
        attempts: usize::try_from(row.get::<_, i16>(8)).unwrap_or_default(),
        body: additions.add_to(body.text.clone()),
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
        // A slow step queues a delivery while a claim is under way that does not see it.
        let mark = claims.mark(ENDPOINT, at(120));
        claims.ring(&[ENDPOINT], at(110));
        claims.note(ENDPOINT, mark, None, at(115));
        assert_eq!(claims.mark(ENDPOINT, at(121)).0, at(110));
        let mark = claims.mark(ENDPOINT, at(122));
        claims.note(ENDPOINT, mark, Some(at(110)), at(117));
        assert_eq!(claims.mark(ENDPOINT, at(123)).0, at(110));
        // Any number of queued deliveries.
        let mark = claims.mark(ENDPOINT, at(130));
        for nth in 0..1000 {
            claims.ring(&[ENDPOINT], at(if nth == 500 { 121 } else { 129 }));
        }
        claims.note(ENDPOINT, mark, None, at(125));
        assert_eq!(claims.mark(ENDPOINT, at(131)).0, at(121));
        // Another claim has started, so the result of this one may be incomplete.
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
        // Another node's row of that time becomes visible only now; a claim that did not see it is under way.
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
        // Deliveries queued in the meantime are not skipped.
        let (claims, late) = (Claims::default(), at(500));
        let mark = claims.mark(ENDPOINT, at(1000));
        claims.ring(&[ENDPOINT], late);
        claims.fail(ENDPOINT, mark, at(1000));
        assert_eq!(claims.mark(ENDPOINT, at(1001)).0, late);
    }
}
