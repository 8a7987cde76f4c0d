//! Payments with their attempts as rows: loaded, and saved with everything that follows from a change.

use kassette_domain::attempt::Attempt;
use kassette_domain::event::Event;
use kassette_domain::id::{AccountId, MerchantId, PaymentId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{Change, PaymentAggregate};
use kassette_domain::payment::{Origin, Payment, Status};
use kassette_domain::time::Time;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::payment_steps::{self, count, uses_account};
use crate::postgres::database::Database;
use crate::postgres::directory::keys;
use crate::postgres::payments::work;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{millis, number, time, uuid, webhooks};
use crate::rows::records;
use crate::rows::schema::{self, Line};
use crate::rows::seal::{Sealer, Secrets};
use crate::rows::stored::{EventRow, PaymentCounters, PaymentRow, encode_attempt, open_attempt};
use crate::rows::wants::number_of;
use crate::{About, Fault};

/// Columns of a payment alone, as [`payment`] reads them.
pub(crate) const COLUMNS: &str = "p.id, p.body, d.claimed_until";
/// Where they come from.
pub(crate) const FROM: &str = "payment p LEFT JOIN due d ON d.payment = p.id";

/// Kinds of lines in `timeline`.
pub(crate) const DECISION: i16 = 0;
pub(crate) const TRANSITION: i16 = 1;
pub(crate) const EVENT: i16 = 2;

/// Operations of a payment that are remembered, and the bytes of each.
const OPS: usize = 8;
pub(crate) const OP: usize = 8;

/// A payment as it was loaded.
pub(crate) struct Loaded {
    pub(crate) aggregate: PaymentAggregate,
    pub(crate) counters: PaymentCounters,
    revision: i64,
    /// Its number in order of arrival.
    number: i64,
    ops: Vec<u8>,
    /// Its row of `due`.
    timer: Option<TimerRow>,
}

#[derive(Clone, Copy)]
struct TimerRow {
    at: i64,
    claim: i64,
}

impl Loaded {
    /// Whether an operation is one of the last that changed it.
    pub(crate) fn has_done(&self, op: [u8; OP]) -> bool {
        self.ops.chunks(OP).any(|done| done == op)
    }
}

/// A status, as it is stored.
pub(crate) fn status(status: Status) -> i16 {
    let at = Status::ALL.iter().position(|each| *each == status);
    at.and_then(|at| i16::try_from(at).ok()).unwrap_or(-1)
}

/// The space of a reference and the reference, as they are stored.
pub(crate) fn origin(merchant: MerchantId, origin: &Origin) -> (i16, i64, Vec<u8>) {
    match origin {
        Origin::Merchant { idempotency_key } => {
            (0, number(merchant.0), idempotency_key.as_str().into())
        }
        Origin::Reseller {
            reseller,
            client_ref,
        } => (1, number(reseller.0), client_ref.as_str().into()),
    }
}

/// Opens a payment's row; `claimed` is until when `due` says that it is claimed.
pub(crate) fn open(
    sealer: &Sealer,
    id: Uuid,
    body: &[u8],
    claimed: Option<i64>,
) -> Result<(Payment, PaymentCounters), Fault> {
    let id = PaymentId::from_bytes(id.into_bytes());
    let (mut payment, counters) =
        PaymentRow::decode(id, &schema::payment(id), body)?.open(sealer)?;
    if let Some(claimed) = claimed {
        payment.claimed_until = Some(time(claimed));
    }
    Ok((payment, counters))
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn payment(sealer: &Sealer, row: &Row) -> Result<Payment, Fault> {
    Ok(open(sealer, row.get(0), row.get(1), row.get(2))?.0)
}

/// Loads the payment that is meant, with its attempts, all of it as of one moment.
pub(crate) async fn load(
    database: &Database,
    sealer: &Sealer,
    about: &About,
) -> Result<Option<Loaded>, Fault> {
    match about {
        About::Payment(id) => {
            load_where(database, sealer, "p.id = $1", &[&uuid(id.as_bytes())]).await
        }
        About::Attempt(id) => {
            let of = "p.id = (SELECT payment FROM attempt WHERE id = $1)";
            load_where(database, sealer, of, &[&uuid(id.as_bytes())]).await
        }
        About::Refund(id) => {
            let of = "p.id = (SELECT payment FROM refund WHERE id = $1)";
            load_where(database, sealer, of, &[&uuid(id.as_bytes())]).await
        }
        About::Reference { account, reference } => {
            let of = "p.id = (SELECT payment FROM reference WHERE account = $1 AND reference = $2)";
            load_where(
                database,
                sealer,
                of,
                &[&account.as_str(), &reference.as_bytes()],
            )
            .await
        }
    }
}

/// Loads the payment that a condition finds.
pub(crate) async fn load_where(
    database: &Database,
    sealer: &Sealer,
    condition: &str,
    arguments: crate::postgres::database::Arguments<'_>,
) -> Result<Option<Loaded>, Fault> {
    let sql = format!(
        "SELECT {COLUMNS}, p.revision, p.number, p.ops, d.due_at, d.claim, a.ordinal, a.body FROM {FROM}
            LEFT JOIN attempt a ON a.payment = p.id WHERE {condition} ORDER BY a.ordinal"
    );
    let rows = database.read(&sql, arguments).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let (payment, counters) = open(sealer, first.get(0), first.get(1), first.get(2))?;
    let mut attempts = Vec::with_capacity(counters.attempts.into());
    for (at, row) in rows
        .iter()
        .filter(|row| row.get::<_, Option<i16>>(8).is_some())
        .enumerate()
    {
        let key = schema::attempt(payment.id, count(at)?);
        attempts.push(open_attempt(sealer, &key, row.get(9))?);
    }
    if attempts.len() != usize::from(counters.attempts) {
        return Err(records::damaged(
            &schema::payment(payment.id),
            "it has not its number of attempts",
        ));
    }
    let timer = first
        .get::<_, Option<i64>>(6)
        .zip(first.get::<_, Option<i64>>(7));
    Ok(Some(Loaded {
        aggregate: PaymentAggregate { payment, attempts },
        counters,
        revision: first.get(3),
        number: first.get(4),
        ops: first.get(5),
        timer: timer.map(|(at, claim)| TimerRow { at, claim }),
    }))
}

/// A reference that a change makes known: of which account it is, the number of the attempt, and how often notices
/// were kept for it.
pub(crate) struct Named {
    pub(crate) account: AccountId,
    pub(crate) reference: String,
    pub(crate) ordinal: u8,
    pub(crate) parked: i32,
}

/// What a change to a payment is, to be saved.
pub(crate) struct Saved<'s> {
    pub(crate) before: &'s Loaded,
    pub(crate) after: &'s PaymentAggregate,
    pub(crate) change: &'s Change,
    pub(crate) named: &'s [Named],
    pub(crate) works: Vec<work::Line>,
    pub(crate) op: [u8; OP],
    pub(crate) now: Time,
}

impl Saved<'_> {
    /// The statement that saves it, if the payment is still as it was loaded.
    pub(crate) fn statement(self, secrets: &Secrets) -> Result<StatementBuilder, Fault> {
        let (sealer, payment) = (&secrets.sealer, &self.after.payment);
        let mut statement = StatementBuilder::default();
        let mut counters = self.before.counters.clone();
        counters.attempts = count(self.after.attempts.len())?;
        let mut lines = Lines::default();
        for (ordinal, decision) in
            payment_steps::decisions(payment.id, &mut counters, &self.change.decisions)
        {
            lines.add(
                DECISION,
                ordinal,
                records::encode(&schema::line(payment.id, Line::Decision, ordinal), decision)?,
            );
        }
        for (ordinal, transition) in
            payment_steps::transitions(payment.id, &mut counters, self.change)
        {
            let key = schema::line(payment.id, Line::Transition, ordinal);
            lines.add(TRANSITION, ordinal, records::encode(&key, transition)?);
        }
        let events = payment_steps::events(payment.id, &mut counters, self.change, self.now)?;
        for (ordinal, event) in &events {
            let key = schema::event(payment.id, *ordinal);
            lines.add(
                EVENT,
                *ordinal,
                records::encode(&key, &EventRow::of(event))?,
            );
        }
        self.payment(&mut statement, sealer, counters)?;
        self.attempts(&mut statement, sealer)?;
        self.refunds(&mut statement);
        self.references(&mut statement);
        self.search_references(&mut statement)?;
        self.timer(&mut statement);
        self.review(&mut statement);
        lines.write(&mut statement, payment.id);
        work::write(&mut statement, self.works)?;
        listed(&mut statement, payment, &events);
        let events: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
        webhooks::outbox::add(&mut statement, payment, &events);
        Ok(statement)
    }

    fn payment(
        &self,
        statement: &mut StatementBuilder,
        sealer: &Sealer,
        counters: PaymentCounters,
    ) -> Result<(), Fault> {
        let payment = &self.after.payment;
        let (_, body) = PaymentRow::encode(sealer, payment, counters)?;
        let mut ops = self.op.to_vec();
        ops.extend(self.before.ops.iter().take((OPS - 1) * OP));
        statement.add(
            "u",
            "UPDATE payment SET revision = revision + 1, status = $3, ops = $4, body = $5
                WHERE id = $1 AND revision = $2 RETURNING 1",
            values![
                uuid(payment.id.as_bytes()),
                self.before.revision,
                status(payment.status),
                ops,
                body.to_vec(),
            ],
        );
        statement.assert("u", 1);
        Ok(())
    }

    /// Has the other nodes hear of it where the payment goes into review or out of it.
    fn review(&self, statement: &mut StatementBuilder) {
        let waits = |payment: &Payment| payment.status == Status::Review;
        let (before, after) = (&self.before.aggregate.payment, &self.after.payment);
        let sql = match (waits(before), waits(after)) {
            (false, true) => "INSERT INTO review (payment) VALUES ($1) ON CONFLICT DO NOTHING",
            (true, false) => "DELETE FROM review WHERE payment = $1",
            _ => return,
        };
        statement.add("review", sql, values![uuid(after.id.as_bytes())]);
    }

    fn attempts(&self, statement: &mut StatementBuilder, sealer: &Sealer) -> Result<(), Fault> {
        let before = &self.before.aggregate;
        let (mut ordinals, mut ids, mut returns) = (Vec::new(), Vec::new(), Vec::new());
        let (mut accounts, mut uses, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for (at, attempt) in self.after.attempts.iter().enumerate() {
            let used = uses_account(&self.after.payment, attempt);
            let old = before.attempts.get(at);
            if old.is_some_and(|old| old == attempt && uses_account(&before.payment, old) == used) {
                continue;
            }
            let ordinal = count(at)?;
            ordinals.push(i16::from(ordinal));
            ids.push(uuid(attempt.id.as_bytes()));
            returns.push(TokenHash::of(attempt.return_token.expose()).0.to_vec());
            accounts.push(attempt.account.as_str().to_owned());
            uses.push(used);
            bodies.push(encode_attempt(sealer, attempt, ordinal)?.1.to_vec());
        }
        if !ordinals.is_empty() {
            statement.add(
                "attempts",
                "INSERT INTO attempt (payment, ordinal, id, return_hash, account, in_use, body)
                    SELECT $1, * FROM unnest($2::smallint[], $3::uuid[], $4::bytea[], $5::text[], $6::boolean[], $7::bytea[])
                    ON CONFLICT (payment, ordinal) DO UPDATE SET in_use = excluded.in_use, body = excluded.body",
                values![
                    uuid(self.after.payment.id.as_bytes()),
                    ordinals,
                    ids,
                    returns,
                    accounts,
                    uses,
                    bodies,
                ],
            );
        }
        Ok(())
    }

    /// Keeps the rows by which refunds are found.
    fn refunds(&self, statement: &mut StatementBuilder) {
        let (mut gone, mut ids, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (at, attempt) in self.after.attempts.iter().enumerate() {
            let (new, over) =
                payment_steps::refunds(self.before.aggregate.attempts.get(at), attempt);
            gone.extend(over.iter().map(|refund| uuid(refund.id.as_bytes())));
            for refund in new {
                let ordered = refund.ordered.as_ref();
                let key = ordered.and_then(|ordered| ordered.key.as_ref());
                ids.push(uuid(refund.id.as_bytes()));
                texts.push(key.map(|key| key.as_str().as_bytes().to_vec()));
            }
        }
        if !gone.is_empty() {
            let sql = "DELETE FROM refund WHERE id = ANY($1)";
            statement.add("refunds_gone", sql, values![gone]);
        }
        if ids.is_empty() {
            return;
        }
        let payment = &self.after.payment;
        statement.add(
            "refunds",
            "INSERT INTO refund (id, payment, merchant, environment, key)
                SELECT v.id, $3, $4, $5, v.key FROM unnest($1::uuid[], $2::bytea[]) AS v (id, key)",
            values![
                ids,
                texts,
                uuid(payment.id.as_bytes()),
                number(payment.merchant.0),
                keys::environment(payment.environment),
            ],
        );
    }

    /// A reference that notices were kept for since it was read is not taken: they have to be applied.
    fn references(&self, statement: &mut StatementBuilder) {
        if self.named.is_empty() {
            return;
        }
        let accounts = column(self.named, |each| each.account.as_str().to_owned());
        let references = column(self.named, |each| each.reference.clone().into_bytes());
        statement.add(
            "named",
            "INSERT INTO reference AS known (account, reference, payment, ordinal, parked)
                SELECT v.account, v.reference, $1, v.ordinal, v.parked
                FROM unnest($2::text[], $3::bytea[], $4::smallint[], $5::integer[]) AS v (account, reference, ordinal, parked)
                ORDER BY v.account, v.reference
                ON CONFLICT (account, reference) DO UPDATE SET payment = excluded.payment, ordinal = excluded.ordinal
                WHERE known.parked = excluded.parked AND (known.payment IS NULL
                    OR known.payment = excluded.payment AND known.ordinal = excluded.ordinal)
                RETURNING 1",
            values![
                uuid(self.after.payment.id.as_bytes()),
                accounts.clone(),
                references.clone(),
                column(self.named, |each| i16::from(each.ordinal)),
                column(self.named, |each| each.parked),
            ],
        );
        statement.assert("named", self.named.len());
        if self.named.iter().any(|each| each.parked > 0) {
            statement.add(
                "applied",
                "DELETE FROM parked WHERE (account, reference) IN (SELECT * FROM unnest($1::text[], $2::bytea[]))",
                values![accounts, references],
            );
        }
    }

    fn search_references(&self, statement: &mut StatementBuilder) -> Result<(), Fault> {
        let (mut references, mut ordinals) = (Vec::new(), Vec::new());
        for (attempt, reference) in &self.change.search_references {
            if let Some(at) = self
                .after
                .attempts
                .iter()
                .position(|each| each.id == *attempt)
            {
                references.push(reference.clone().into_bytes());
                ordinals.push(i16::from(count(at)?));
            }
        }
        if !references.is_empty() {
            statement.add(
                "searched",
                "INSERT INTO search_reference (reference, created_at, number, payment, ordinal)
                    SELECT v.reference, $2, $3, $1, v.ordinal
                    FROM unnest($4::bytea[], $5::smallint[]) AS v (reference, ordinal) ON CONFLICT DO NOTHING",
                values![
                    uuid(self.after.payment.id.as_bytes()),
                    millis(self.after.payment.created_at),
                    self.before.number,
                    references,
                    ordinals,
                ],
            );
        }
        Ok(())
    }

    /// A claim since the payment was read is not overwritten.
    fn timer(&self, statement: &mut StatementBuilder) {
        let (before, after) = (&self.before.aggregate, self.after);
        let due = after.due_at().map(millis);
        let claimed = after.payment.claimed_until;
        if due == self.before.timer.map(|row| row.at) && claimed == before.payment.claimed_until {
            return;
        }
        let id = uuid(after.payment.id.as_bytes());
        let claim = self.before.timer.map_or(0, |row| row.claim);
        match due {
            Some(due) => statement.add(
                "timer",
                "INSERT INTO due AS known (payment, due_at, claimed_until, claim) VALUES ($1, $2, $3, $4)
                    ON CONFLICT (payment) DO UPDATE SET due_at = excluded.due_at, claimed_until = excluded.claimed_until
                    WHERE known.claim = excluded.claim RETURNING 1",
                values![id, due, claimed.map(millis), claim],
            ),
            None => statement.add(
                "timer",
                "DELETE FROM due WHERE payment = $1 AND claim = $2 RETURNING 1",
                values![id, claim],
            ),
        }
        statement.assert(
            "timer",
            usize::from(due.is_some() || self.before.timer.is_some()),
        );
    }
}

/// Lines of a timeline.
#[derive(Default)]
struct Lines {
    kinds: Vec<i16>,
    ordinals: Vec<i32>,
    bodies: Vec<Vec<u8>>,
}

impl Lines {
    fn add(&mut self, kind: i16, ordinal: u16, body: impl AsRef<[u8]>) {
        self.kinds.push(kind);
        self.ordinals.push(ordinal.into());
        self.bodies.push(body.as_ref().to_vec());
    }

    fn write(self, statement: &mut StatementBuilder, payment: PaymentId) {
        if self.kinds.is_empty() {
            return;
        }
        statement.add(
            "lines",
            "INSERT INTO timeline (payment, kind, ordinal, body)
                SELECT $1, * FROM unnest($2::smallint[], $3::integer[], $4::bytea[])",
            values![
                uuid(payment.as_bytes()),
                self.kinds,
                self.ordinals,
                self.bodies,
            ],
        );
    }
}

/// Whether two attempts are the same one of a payment.
pub(crate) fn is_attempt(
    aggregate: &PaymentAggregate,
    payment: Uuid,
    ordinal: i16,
    attempt: &Attempt,
) -> bool {
    let there = usize::try_from(ordinal)
        .ok()
        .and_then(|at| aggregate.attempts.get(at));
    payment == uuid(aggregate.payment.id.as_bytes())
        && there.is_some_and(|there| there.id == attempt.id)
}

/// Lists events among those of their merchant and environment.
fn listed(statement: &mut StatementBuilder, payment: &Payment, events: &[(u16, Event)]) {
    if events.is_empty() {
        return;
    }
    statement.add(
        "events",
        "INSERT INTO event (merchant, environment, payment, created_at, id, kind, ordinal)
            SELECT $1, $2, $3, * FROM unnest($4::bigint[], $5::uuid[], $6::smallint[], $7::integer[])",
        values![
            number(payment.merchant.0),
            keys::environment(payment.environment),
            uuid(payment.id.as_bytes()),
            column(events, |(_, event)| millis(event.created_at)),
            column(events, |(_, event)| uuid(event.id.as_bytes())),
            column(events, |(_, event)| i16::from(number_of(event.kind))),
            column(events, |(ordinal, _)| i32::from(*ordinal)),
        ],
    );
}
