//! Checks of payments with their attempts, timers, timelines and index rows.

use std::collections::BTreeMap;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::{EventId, MerchantId, MovementId, RefundId, WorkId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{PaymentAggregate, Transition};
use kassette_domain::movement::Movement;
use kassette_domain::payment::{Payment, RoutingDecision};
use kassette_domain::pending_callback::PendingCallback;
use kassette_domain::work::WorkItem;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::SearchKey;
use crate::payment_steps::{OUT_OF_BALANCE, contradiction, out_of_balance};
use crate::postgres::columns::{self, id, payment_id};
use crate::postgres::directory::keys::environment;
use crate::postgres::errors::OpenError;
use crate::postgres::movements;
use crate::postgres::payments::stored::{self, DECISION, EVENT, NOTES, TRANSITION, status};
use crate::postgres::verify::COLUMNS;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::postgres::{millis, number, time, uuid};
use crate::report::{MISSING, STRAY};
use crate::retention::Rule;
use crate::rows::movements::decode;
use crate::rows::notes;
use crate::rows::records;
use crate::rows::schema::{self, Key, Line};
use crate::rows::seal::Secrets;
use crate::rows::stored::{EventRow, PaymentCounters, open_attempt};
use crate::rows::wants::number_of;

/// A payment; the last column is true if retention has processed its routing decisions.
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
const REFUNDS: &str = "/* verify: refunds */ SELECT payment, id, key
    FROM refund ORDER BY payment";
const REFERENCES: &str = "/* verify: references */ SELECT payment, ordinal, account, reference
    FROM reference WHERE payment IS NOT NULL ORDER BY payment";
const SEARCHED: &str =
    "/* verify: references for searching */ SELECT payment, ordinal, reference, created_at, number
    FROM search_reference ORDER BY payment";
const MARKED: &str = "/* verify: search marks */ SELECT payment, mark, created_at, number
    FROM search_mark ORDER BY payment";
const MOVEMENTS: &str = "/* verify: movements */ SELECT payment, id, booked_at, body FROM movement
    WHERE payment <> '00000000-0000-0000-0000-000000000000' ORDER BY payment";
/// Movements without a payment.
const UNKNOWN: &str = "/* verify: movements */ SELECT payment, id, booked_at, body FROM movement
    WHERE payment = '00000000-0000-0000-0000-000000000000'";
const NO_PAYMENT: &str = "the payment whose money it moved is missing";
const WORK: &str =
    "/* verify: work */ SELECT w.id, w.opened_at, w.body, w.attempt, w.kind, w.is_open, a.payment, w.subject
    FROM work w LEFT JOIN attempt a ON a.id = w.attempt";
/// Pending callbacks that have not expired: expired ones can outlive the row that counts them until the next
/// sweep.
const PARKED: &str =
    "/* verify: parked */ SELECT k.account, k.reference, k.ordinal, k.until, k.body, r.parked,
        k.until > extract(epoch FROM clock_timestamp()) * 1000
    FROM parked k LEFT JOIN reference r USING (account, reference)";
const LAGGARDS: &str = "/* verify: laggards */ SELECT l.rule, l.payment, l.at, p.id IS NOT NULL
    FROM laggard l LEFT JOIN payment p ON p.id = l.payment";

/// Rows that belong to a payment.
struct Own {
    attempts: Vec<Row>,
    lines: Vec<Row>,
    listed: Vec<Row>,
    due: Vec<Row>,
    refunds: Vec<Row>,
    references: Vec<Row>,
    searched: Vec<Row>,
    marked: Vec<Row>,
    movements: Vec<Row>,
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
    let mut marked = reading.cursor(MARKED, 0).await?;
    let mut moved = reading.cursor(MOVEMENTS, 0).await?;
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
            marked: reading.own(&mut marked, of, STRAY, marked_named).await?,
            movements: reading
                .own(&mut moved, of, NO_PAYMENT, movement_named)
                .await?,
        };
        let Some(row) = payment else { break };
        reading.count("payment");
        judge(reading, &row, &own)?;
    }
    reading.each("movement", UNKNOWN, unknown).await?;
    reading.each("work", WORK, work).await?;
    reading.each("parked-notice", PARKED, parked).await?;
    reading.each("retention-laggard", LAGGARDS, laggard).await
}

/// An attempt's ordinal; an invalid one becomes 255, which no attempt has.
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
        NOTES => ("notes", schema::notes(id)),
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

fn movement_named(row: &Row) -> (&'static str, Key) {
    let id = id(row, 1, MovementId::from_bytes);
    ("movement", movements::key(row.get(0), id))
}

/// A movement without a payment.
fn unknown(row: &Row, secrets: &Secrets) -> CheckedRow {
    let (_, key) = movement_named(row);
    let looked = decode(&secrets.sealer, &key, row.get(3));
    let columns = |movement: Movement| millis(movement.booked_at) == row.get::<_, i64>(2);
    let looked = looked.map(|movement| vec![(columns(movement), COLUMNS)]);
    (key, looked)
}

/// Checks that the balances of a payment's attempts are the sums of its movements.
fn ledger(
    reading: &mut Reading<'_>,
    key: &[u8],
    attempts: &[Attempt],
    own: &Own,
) -> Result<(), OpenError> {
    let mut read = Vec::new();
    for row in &own.movements {
        let (kind, key) = movement_named(row);
        let movement = decode(&reading.secrets.sealer, &key, row.get(3));
        let Some(movement) = reading.readable(kind, &key, movement)? else {
            return Ok(());
        };
        if millis(movement.booked_at) != row.get::<_, i64>(2) {
            reading.find(kind, &key, COLUMNS);
        }
        read.push(movement);
    }
    if out_of_balance(attempts, &read).is_some() {
        reading.find("payment", key, OUT_OF_BALANCE);
    }
    Ok(())
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

fn marked_named(row: &Row) -> (&'static str, Key) {
    let mark = row.get::<_, &[u8]>(1).try_into().unwrap_or_default();
    let key = schema::marked(mark, time(row.get(2)), payment_id(row, 0));
    ("search-mark", key)
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
    let attempts: Vec<_> = attempts.into_iter().map(|(_, attempt)| attempt).collect();
    ledger(reading, &key, &attempts, own)?;
    let aggregate = PaymentAggregate { payment, attempts };
    let amount = SearchKey::Amount(aggregate.payment.due);
    let mut marks = reading.secrets.search_marks(&aggregate);
    marks.extend(reading.secrets.marker.search(&amount));
    let (made, arrived): (_, i64) = (aggregate.payment.created_at, row.get(11));
    let marks = marks
        .into_iter()
        .map(|mark| (schema::marked(mark, made, id), arrived));
    let there = own.marked.iter();
    let there = there.map(|row| (marked_named(row).1, row.get(3)));
    reading.match_up("search-mark", &marks.collect(), &there.collect());
    let expected = aggregate.due_at().map(millis);
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
        && TokenHash::hash(payment.token.expose()).0 == row.get::<_, &[u8]>(9)
        && status(payment.status) == row.get::<_, i16>(10)
}

/// The attempts that could be decoded, with their ordinals.
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
        let token = TokenHash::hash(attempt.return_token.expose()).0;
        if uuid(attempt.id.as_bytes()) != row.get::<_, Uuid>(2)
            || token != row.get::<_, &[u8]>(3)
            || attempt.account.as_str() != row.get::<_, &str>(4)
            || attempt.needs_account(payment.settlement) != row.get::<_, bool>(5)
        {
            reading.find("attempt", &key, COLUMNS);
        }
        attempts.push((ordinal, attempt));
    }
    Ok(attempts)
}

/// Compares the index rows of a payment with those that it should have.
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
        for refund in &attempt.funds.refunds {
            let key = schema::key_of_refund(payment, refund);
            refunds.insert(schema::refund_index(refund.id), key);
            if let Some(id) = refund.earlier_id {
                refunds.insert(schema::refund_index(id), None);
            }
        }
    }
    let there = own.references.iter();
    let there = there.map(|row| (reference_named(row).1, ordinal(row)));
    reading.match_up("reference", &references, &there.collect());
    let there = own.searched.iter();
    let there = there.map(|row| (searched_named(row).1, row.get(4)));
    reading.match_up("reference-for-search", &searched, &there.collect());
    let there = own.refunds.iter();
    let there = there.map(|row| (refund_named(row).1, row.get(2)));
    reading.match_up("refund-by-id", &refunds, &there.collect());
}

/// Checks the timeline and the events, and that they match.
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
    // Retention deletes all decisions of finished payments.
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
    let is_notes = |row: &mut &Row| notes::has_row(payment) && row.get::<_, i16>(1) == NOTES;
    let noted: Vec<&Row> = left.extract_if(.., is_notes).take(1).collect();
    if notes::has_row(payment) && noted.is_empty() {
        reading.find("payment", key, "its notes are missing");
    }
    for row in noted {
        let (kind, key) = line_named(row);
        let opened = notes::decode(&reading.secrets.sealer, &key, row.get(3));
        reading.readable(kind, &key, opened)?;
    }
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

/// Lines of a payment that were not checked yet.
struct Lines<'l, 'r, 'a> {
    reading: &'l mut Reading<'r>,
    payment: &'l [u8],
    rows: &'l mut Vec<&'a Row>,
}

impl Lines<'_, '_, '_> {
    /// Removes and decodes lines 0 to `count` (exclusive) of a kind; reports missing ones.
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
            let line = records::decode(&self.reading.secrets.sealer, &key, row.get(3));
            read.extend(self.reading.readable(name, &key, line)?);
        }
        Ok(read)
    }
}

/// Checks a work item. An item about unknown money refers to no payment and to an attempt that does not exist.
fn work(row: &Row, secrets: &Secrets) -> CheckedRow {
    let id = id(row, 0, WorkId::from_bytes);
    let key = schema::work(time(row.get(1)), id);
    let item = records::decode::<WorkItem>(&secrets.sealer, &key, row.get(2));
    let looked = item.map(|item| {
        let its = item.payment.map(|payment| uuid(payment.as_bytes()));
        let columns = item.id == id
            && millis(item.opened_at) == row.get::<_, i64>(1)
            && uuid(item.key.attempt.as_bytes()) == row.get::<_, Uuid>(3)
            && item.key.kind as i16 == row.get::<_, i16>(4)
            && item.key.subject.as_bytes() == row.get::<_, &[u8]>(7)
            && item.done_at.is_none() == row.get::<_, bool>(5);
        let missing = "the attempt that it is about is missing, or another payment's";
        vec![(columns, COLUMNS), (its == row.get(6), missing)]
    });
    (key, looked)
}

/// Checks a pending callback.
fn parked(row: &Row, secrets: &Secrets) -> CheckedRow {
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
    let notice = records::decode::<PendingCallback>(&secrets.sealer, &key, row.get(4));
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

/// A payment that retention will examine again.
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
