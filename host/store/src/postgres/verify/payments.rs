//! Payments with their attempts, timers, timelines, and the rows by which they are found.

use std::collections::BTreeMap;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::{EventId, MerchantId, RefundId, WorkId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{PaymentAggregate, Transition};
use kassette_domain::payment::{Payment, RoutingDecision};
use kassette_domain::work::WorkItem;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::payment_steps::{contradiction, uses_account};
use crate::postgres::columns::{self, id, payment_id};
use crate::postgres::directory::keys::environment;
use crate::postgres::errors::OpenError;
use crate::postgres::payments::stored::{self, DECISION, EVENT, TRANSITION, status};
use crate::postgres::verify::COLUMNS;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::postgres::{millis, number, time, uuid};
use crate::report::{MISSING, STRAY};
use crate::retention::Rule;
use crate::rows::records;
use crate::rows::schema::{self, Key, Line};
use crate::rows::seal::Secrets;
use crate::rows::stored::{EventRow, PaymentCounters, PendingCallback, open_attempt};
use crate::rows::wants::number_of;

/// A payment; the last column says whether retention has been at its routing decisions.
const PAYMENTS: &str =
    "/* verify: payments */ SELECT p.id, p.body, p.owner_kind, p.owner, p.reference, p.merchant,
        p.environment, p.created_at, p.order_id, p.token_hash, p.status, p.number,
        coalesce((p.created_at, p.number) <= (f.created_at, f.number), false)
    FROM payment p LEFT JOIN forgotten f ON f.rule = 0 ORDER BY p.id";
const ATTEMPTS: &str =
    "/* verify: attempts */ SELECT payment, ordinal, id, return_hash, account, in_use, body
    FROM attempt ORDER BY payment, ordinal";
const LINES: &str = "/* verify: timelines */ SELECT payment, kind, ordinal, body
    FROM timeline ORDER BY payment, kind, ordinal";
const LISTED: &str =
    "/* verify: events by time */ SELECT payment, merchant, environment, created_at, id, ordinal, kind
    FROM event ORDER BY payment";
const DUE: &str =
    "/* verify: due */ SELECT payment, due_at, claimed_until FROM due ORDER BY payment";
const REFUNDS: &str = "/* verify: refunds */ SELECT payment, id, merchant, environment, key
    FROM refund ORDER BY payment";
const REFERENCES: &str = "/* verify: references */ SELECT payment, ordinal, account, reference
    FROM reference WHERE payment IS NOT NULL ORDER BY payment";
const SEARCHED: &str =
    "/* verify: references for searching */ SELECT payment, ordinal, reference, created_at, number
    FROM search_reference ORDER BY payment";
const WORK: &str =
    "/* verify: work */ SELECT w.id, w.opened_at, w.body, w.attempt, w.kind, w.is_open, a.payment
    FROM work w LEFT JOIN attempt a ON a.id = w.attempt";
/// Notices whose time has not passed: others can outlive the row that counts them until the next sweep.
const PARKED: &str =
    "/* verify: parked */ SELECT k.account, k.reference, k.ordinal, k.until, k.body, r.parked,
        k.until > extract(epoch FROM clock_timestamp()) * 1000
    FROM parked k LEFT JOIN reference r USING (account, reference)";
const LAGGARDS: &str = "/* verify: laggards */ SELECT l.rule, l.payment, l.at, p.id IS NOT NULL
    FROM laggard l LEFT JOIN payment p ON p.id = l.payment";

/// What is written with a payment.
struct Own {
    attempts: Vec<Row>,
    lines: Vec<Row>,
    listed: Vec<Row>,
    due: Vec<Row>,
    refunds: Vec<Row>,
    references: Vec<Row>,
    searched: Vec<Row>,
}

pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    let mut payments = reading.cursor(PAYMENTS, 0).await?;
    let mut attempts = reading.cursor(ATTEMPTS, 0).await?;
    let mut lines = reading.cursor(LINES, 0).await?;
    let mut listed = reading.cursor(LISTED, 0).await?;
    let mut due = reading.cursor(DUE, 0).await?;
    let mut refunds = reading.cursor(REFUNDS, 0).await?;
    let mut references = reading.cursor(REFERENCES, 0).await?;
    let mut searched = reading.cursor(SEARCHED, 0).await?;
    loop {
        let payment = reading.next(&mut payments).await?;
        let of = payment.as_ref().map(|row| row.get::<_, Uuid>(0));
        let own = Own {
            attempts: reading.own(&mut attempts, of, STRAY, attempt_named).await?,
            lines: reading.own(&mut lines, of, STRAY, line_named).await?,
            listed: reading.own(&mut listed, of, STRAY, listed_named).await?,
            due: reading
                .own(
                    &mut due,
                    of,
                    "the payment that it is about is missing",
                    due_named,
                )
                .await?,
            refunds: reading.own(&mut refunds, of, STRAY, refund_named).await?,
            references: reading
                .own(&mut references, of, STRAY, reference_named)
                .await?,
            searched: reading
                .own(&mut searched, of, STRAY, searched_named)
                .await?,
        };
        let Some(row) = payment else { break };
        reading.count("payment");
        judge(reading, &row, &own)?;
    }
    reading.each("work", WORK, work).await?;
    reading.each("parked-notice", PARKED, parked).await?;
    reading.each("retention-laggard", LAGGARDS, laggard).await
}

/// An attempt's number; one that none can have is no attempt's.
fn ordinal(row: &Row) -> u8 {
    u8::try_from(row.get::<_, i16>(1)).unwrap_or(u8::MAX)
}

fn attempt_named(row: &Row) -> (&'static str, Key) {
    ("attempt", schema::attempt(payment_id(row, 0), ordinal(row)))
}

fn line_named(row: &Row) -> (&'static str, Key) {
    let (id, at) = (payment_id(row, 0), line_number(row));
    match row.get::<_, i16>(1) {
        EVENT => ("event", schema::event(id, at)),
        DECISION => ("timeline", schema::line(id, Line::Decision, at)),
        _ => ("timeline", schema::line(id, Line::Transition, at)),
    }
}

fn listed_named(row: &Row) -> (&'static str, Key) {
    let merchant = MerchantId(u64::try_from(row.get::<_, i64>(1)).unwrap_or_default());
    let world = columns::environment(row, 2);
    let id = id(row, 4, EventId::from_bytes);
    let key = schema::listed_event(merchant, world, time(row.get(3)), id);
    ("event-by-time", key)
}

fn line_number(row: &Row) -> u16 {
    u16::try_from(row.get::<_, i32>(2)).unwrap_or(u16::MAX)
}

fn due_named(row: &Row) -> (&'static str, Key) {
    ("due", schema::timer(time(row.get(1)), payment_id(row, 0)))
}

fn refund_named(row: &Row) -> (&'static str, Key) {
    let key = schema::refund_index(id(row, 1, RefundId::from_bytes));
    ("refund-by-id", key)
}

fn reference_named(row: &Row) -> (&'static str, Key) {
    ("reference", reference_key(row.get(2), row.get(3)))
}

fn reference_key(account: &str, reference: &[u8]) -> Key {
    [schema::REFERENCES, account.as_bytes(), b"\0", reference].concat()
}

fn searched_named(row: &Row) -> (&'static str, Key) {
    let reference = String::from_utf8_lossy(row.get(2));
    let key = schema::referred_by(
        &reference,
        time(row.get(3)),
        payment_id(row, 0),
        ordinal(row),
    );
    ("reference-for-search", key)
}

/// A payment with everything that was written with it.
fn judge(reading: &mut Reading<'_>, row: &Row, own: &Own) -> Result<(), OpenError> {
    let (id, due) = (payment_id(row, 0), own.due.first());
    let key = schema::payment(id);
    let claimed = due.and_then(|due| due.get(2));
    let opened = stored::open(&reading.secrets.sealer, row.get(0), row.get(1), claimed);
    let Some((payment, counters)) = reading.readable("payment", &key, opened)? else {
        return Ok(());
    };
    if !has_columns(&payment, row) {
        reading.find("payment", &key, COLUMNS);
    }
    if let Some(email) = &payment.email
        && payment.email_mark != Some(reading.secrets.marker.email(email))
    {
        let what = "the mark of its e-mail address is another address's";
        reading.find("payment", &key, what);
    }
    history(reading, &key, &payment, &counters, row, own)?;
    let attempts = attempts(reading, &payment, counters.attempts, &own.attempts)?;
    indexes(reading, &payment, &attempts, row.get(11), own);
    if attempts.len() != usize::from(counters.attempts) {
        return Ok(());
    }
    let attempts = attempts.into_iter().map(|(_, attempt)| attempt).collect();
    let expected = PaymentAggregate { payment, attempts }.due_at().map(millis);
    match (expected, due.map(|due| due.get::<_, i64>(1))) {
        (Some(_), None) => {
            reading.find("payment", &key, "no row says when something is due on it");
        }
        (None, Some(at)) => {
            reading.find("due", &schema::timer(time(at), id), "nothing is due then");
        }
        (Some(expected), Some(at)) if expected != at => {
            let what = "its next due time does not follow from its state";
            reading.find("payment", &key, what);
        }
        _ => {}
    }
    Ok(())
}

fn has_columns(payment: &Payment, row: &Row) -> bool {
    let (kind, owner, reference) = stored::origin(payment.merchant, &payment.origin);
    kind == row.get::<_, i16>(2)
        && owner == row.get::<_, i64>(3)
        && reference == row.get::<_, &[u8]>(4)
        && number(payment.merchant.0) == row.get::<_, i64>(5)
        && environment(payment.environment) == row.get::<_, i16>(6)
        && millis(payment.created_at) == row.get::<_, i64>(7)
        && payment.order_id.as_str().as_bytes() == row.get::<_, &[u8]>(8)
        && TokenHash::of(payment.token.expose()).0 == row.get::<_, &[u8]>(9)
        && status(payment.status) == row.get::<_, i16>(10)
}

/// The attempts that read back, each with its number.
fn attempts(
    reading: &mut Reading<'_>,
    payment: &Payment,
    count: u8,
    rows: &[Row],
) -> Result<Vec<(u8, Attempt)>, OpenError> {
    let there: Vec<u8> = rows.iter().map(ordinal).collect();
    for missing in (0..count).filter(|at| !there.contains(at)) {
        reading.find("attempt", &schema::attempt(payment.id, missing), MISSING);
    }
    let mut attempts = Vec::new();
    for (ordinal, row) in there.into_iter().zip(rows) {
        let key = schema::attempt(payment.id, ordinal);
        if ordinal >= count {
            reading.find("attempt", &key, STRAY);
            continue;
        }
        let opened = open_attempt(&reading.secrets.sealer, &key, row.get(6));
        let Some(attempt) = reading.readable("attempt", &key, opened)? else {
            continue;
        };
        let token = TokenHash::of(attempt.return_token.expose()).0;
        if uuid(attempt.id.as_bytes()) != row.get::<_, Uuid>(2)
            || token != row.get::<_, &[u8]>(3)
            || attempt.account.as_str() != row.get::<_, &str>(4)
            || uses_account(payment, &attempt) != row.get::<_, bool>(5)
        {
            reading.find("attempt", &key, COLUMNS);
        }
        attempts.push((ordinal, attempt));
    }
    Ok(attempts)
}

/// The rows by which a payment is found, and those that it promises.
fn indexes(
    reading: &mut Reading<'_>,
    payment: &Payment,
    attempts: &[(u8, Attempt)],
    arrived: i64,
    own: &Own,
) {
    let (mut references, mut searched) = (BTreeMap::new(), BTreeMap::new());
    let mut refunds = BTreeMap::new();
    for (ordinal, attempt) in attempts {
        for reference in &attempt.references {
            let key = schema::reference(&attempt.account, reference);
            references.insert(key, *ordinal);
        }
        for reference in &attempt.particulars.references {
            let made = payment.created_at;
            let key = schema::referred_by(reference, made, payment.id, *ordinal);
            searched.insert(key, arrived);
        }
        for refund in &attempt.returns.refunds {
            let ordered = refund.ordered.as_ref();
            let key = ordered.and_then(|ordered| ordered.key.as_ref());
            let key = key.map(|key| key.as_str().as_bytes().to_vec());
            let world = environment(payment.environment);
            let found_by = (number(payment.merchant.0), world, key);
            refunds.insert(schema::refund_index(refund.id), found_by);
        }
    }
    let there = own.references.iter();
    let there = there.map(|row| (reference_named(row).1, ordinal(row)));
    reading.match_up("reference", &references, &there.collect());
    let there = own.searched.iter();
    let there = there.map(|row| (searched_named(row).1, row.get(4)));
    reading.match_up("reference-for-search", &searched, &there.collect());
    let there = own.refunds.iter();
    let there = there.map(|row| (refund_named(row).1, (row.get(2), row.get(3), row.get(4))));
    reading.match_up("refund-by-id", &refunds, &there.collect());
}

/// The timeline and the events, and whether one tells the other.
fn history(
    reading: &mut Reading<'_>,
    key: &[u8],
    payment: &Payment,
    counters: &PaymentCounters,
    row: &Row,
    own: &Own,
) -> Result<(), OpenError> {
    let rows = &own.lines;
    let is_decision = |line: &&Row| line.get::<_, i16>(1) == DECISION;
    let decisions = rows.iter().filter(is_decision).count();
    // Retention takes all of them, of payments that are over.
    let are_forgotten = decisions == 0 && payment.status.is_final() && row.get::<_, bool>(12);
    let mut left: Vec<&Row> = rows.iter().collect();
    let kept = if are_forgotten { 0 } else { counters.decisions };
    let mut lines = Lines {
        reading,
        payment: key,
        rows: &mut left,
    };
    lines.take::<RoutingDecision>(DECISION, kept, "routing decisions")?;
    let transitions: Vec<Transition> =
        lines.take(TRANSITION, counters.transitions, "lines of its timeline")?;
    let events: Vec<EventRow> = lines.take(EVENT, counters.events, "events")?;
    for line in left {
        let (kind, line) = line_named(line);
        reading.find(kind, &line, STRAY);
    }
    let complete = (transitions.len(), events.len())
        == (
            usize::from(counters.transitions),
            usize::from(counters.events),
        );
    if complete {
        let of = (payment.merchant, payment.environment);
        let listed = (0_u16..).zip(&events).map(|(ordinal, event)| {
            let (key, listed) = event.listed(of, payment.id, ordinal);
            (key, (i32::from(ordinal), i16::from(number_of(listed.kind))))
        });
        let there = own.listed.iter();
        let there = there.map(|row| (listed_named(row).1, (row.get(5), row.get(6))));
        reading.match_up("event-by-time", &listed.collect(), &there.collect());
    }
    if complete && let Some(what) = contradiction(payment, &transitions, &events) {
        reading.find("payment", key, what);
    }
    Ok(())
}

/// Lines of a payment that were not looked at yet.
struct Lines<'l, 'r, 'a> {
    reading: &'l mut Reading<'r>,
    payment: &'l [u8],
    rows: &'l mut Vec<&'a Row>,
}

impl Lines<'_, '_, '_> {
    /// Lines 0 to `count` of a kind; one that is missing is told.
    fn take<T: DeserializeOwned>(
        &mut self,
        kind: i16,
        count: u16,
        what: &str,
    ) -> Result<Vec<T>, OpenError> {
        let is_one = |row: &mut &Row| row.get::<_, i16>(1) == kind && line_number(row) < count;
        let taken: Vec<&Row> = self.rows.extract_if(.., is_one).collect();
        let there: Vec<u16> = taken.iter().map(|row| line_number(row)).collect();
        for missing in (0..count).filter(|at| !there.contains(at)) {
            let what = format!("one of its {what} is missing, number {missing}");
            self.reading.find("payment", self.payment, what);
        }
        let mut read = Vec::new();
        for row in taken {
            let (name, key) = line_named(row);
            let line = records::decode(&key, row.get(3));
            read.extend(self.reading.readable(name, &key, line)?);
        }
        Ok(read)
    }
}

/// A line of the work list. One about unknown money names no payment, and an attempt that is not here.
fn work(row: &Row, _: &Secrets) -> CheckedRow {
    let id = id(row, 0, WorkId::from_bytes);
    let key = schema::work(time(row.get(1)), id);
    let item = records::decode::<WorkItem>(&key, row.get(2));
    let looked = item.map(|item| {
        let its = item.payment.map(|payment| uuid(payment.as_bytes()));
        let columns = item.id == id
            && millis(item.opened_at) == row.get::<_, i64>(1)
            && uuid(item.attempt.as_bytes()) == row.get::<_, Uuid>(3)
            && item.kind as i16 == row.get::<_, i16>(4)
            && item.done_at.is_none() == row.get::<_, bool>(5);
        let missing = "the attempt that it is about is missing, or another payment's";
        vec![(columns, COLUMNS), (its == row.get(6), missing)]
    });
    (key, looked)
}

/// A notice that waits for its reference.
fn parked(row: &Row, _: &Secrets) -> CheckedRow {
    let (account, reference): (&str, &[u8]) = (row.get(0), row.get(1));
    let ordinal: i32 = row.get(2);
    let length = u32::try_from(reference.len()).unwrap_or(u32::MAX);
    let key = [
        b"prk/",
        account.as_bytes(),
        b"\0",
        &length.to_be_bytes(),
        reference,
        &ordinal.to_be_bytes(),
    ]
    .concat();
    let notice = records::decode::<PendingCallback>(&key, row.get(4));
    let looked = notice.map(|notice| {
        let counted = row.get::<_, Option<i32>>(5).unwrap_or_default();
        let is_alive: bool = row.get(6);
        let uncounted = "its account's notices are not counted";
        vec![
            (millis(notice.until) == row.get::<_, i64>(3), COLUMNS),
            (ordinal < counted || !is_alive, uncounted),
        ]
    });
    (key, looked)
}

/// A payment that retention looks at again.
fn laggard(row: &Row, _: &Secrets) -> CheckedRow {
    let rule = u8::try_from(row.get::<_, i16>(0))
        .ok()
        .and_then(Rule::of_tag);
    let tag = rule.map_or(u8::MAX, Rule::tag);
    let key = schema::laggard(time(row.get(2)), tag, payment_id(row, 1));
    let missing = "the payment that it is about is missing";
    let looked = vec![
        (rule.is_some(), "it is about nothing"),
        (row.get(3), missing),
    ];
    (key, Ok(looked))
}
