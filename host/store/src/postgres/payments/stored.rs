//! Rows of payments and their attempts: loading, and saving a change with all its effects.

use kassette_domain::attempt::Attempt;
use kassette_domain::event::Event;
use kassette_domain::id::{AccountId, MerchantId, PaymentId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{Change, PaymentAggregate};
use kassette_domain::payment::{Origin, Payment, Status};
use kassette_domain::reseller::may_work;
use kassette_domain::time::Time;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::payment_steps::{self, count};
use crate::postgres::database::Database;
use crate::postgres::directory::keys;
use crate::postgres::movements::{self, CLOCK, LEDGER};
use crate::postgres::payments::work;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{millis, number, time, uuid, webhooks};
use crate::rows::notes;
use crate::rows::records::{self, OTHER_COLUMNS};
use crate::rows::schema::{self, Line};
use crate::rows::seal::{Sealer, SearchMark, Secrets};
use crate::rows::stored::{EventRow, PaymentCounters, PaymentRow, encode_attempt, open_attempt};
use crate::rows::wants::number_of;
use crate::{About, Fault, LedgerState};

/// Columns of a payment's row as [`payment`] reads them: the body, then those compared with it.
pub(crate) const COLUMNS: &str =
    "p.id, p.body, d.claimed_until, p.merchant, p.environment, p.status, p.created_at,
    p.owner_kind, p.owner, p.reference, p.order_id, p.token_hash";
/// Number of [`COLUMNS`].
pub(crate) const COLUMN_COUNT: usize = 12;
/// Source of [`COLUMNS`].
pub(crate) const FROM: &str = "payment p LEFT JOIN due d ON d.payment = p.id";
/// Determines whether the reseller that created the payment receives its events.
const RESELLER: &str = "(SELECT r.body FROM reseller r WHERE p.owner_kind = 1 AND r.id = p.owner),
    (SELECT g.body FROM delegation g WHERE p.owner_kind = 1 AND g.reseller = p.owner AND g.merchant = p.merchant)";

/// Kinds of lines in `timeline`.
pub(crate) const DECISION: i16 = 0;
pub(crate) const TRANSITION: i16 = 1;
pub(crate) const EVENT: i16 = 2;
pub(crate) const NOTES: i16 = 3;

/// Number of recent operations stored per payment, and the size of each in bytes.
const OPS: usize = 8;
pub(crate) const OP: usize = 8;

/// A loaded payment.
pub(crate) struct Loaded {
    pub(crate) aggregate: PaymentAggregate,
    pub(crate) counters: PaymentCounters,
    revision: i64,
    /// Number in order of creation.
    number: i64,
    ops: Vec<u8>,
    /// Its row in `due`.
    timer: Option<TimerRow>,
    pub(crate) ledger: LedgerState,
    /// Whether the payment was created by a reseller that may work for the merchant.
    tells_reseller: bool,
    /// Time of the database server when the payment was loaded.
    pub(crate) clock: Time,
}

#[derive(Clone, Copy)]
struct TimerRow {
    at: i64,
    claim: i64,
}

impl Loaded {
    /// Whether an operation is among the last ones that changed the payment.
    pub(crate) fn has_done(&self, op: [u8; OP]) -> bool {
        self.ops.chunks(OP).any(|done| done == op)
    }
}

/// Stored number of a status.
pub(crate) fn status(status: Status) -> i16 {
    let at = Status::ALL.iter().position(|each| *each == status);
    at.and_then(|at| i16::try_from(at).ok()).unwrap_or(-1)
}

/// Stored kind, owner and bytes of a reference.
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

/// Decodes a payment's row; `claimed` is the end of the claim according to `due`.
pub(crate) fn open(
    sealer: &Sealer,
    id: Uuid,
    body: &[u8],
    claimed: Option<i64>,
) -> Result<(Payment, PaymentCounters), Fault> {
    let id = PaymentId::from_bytes(id.into_bytes());
    let (mut payment, counters) =
        PaymentRow::decode(sealer, id, &schema::payment(id), body)?.open(sealer)?;
    if let Some(claimed) = claimed {
        payment.claimed_until = Some(time(claimed));
    }
    Ok((payment, counters))
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn payment(sealer: &Sealer, row: &Row) -> Result<Payment, Fault> {
    Ok(compared(sealer, row)?.0)
}

/// The same with its counters. Columns used by statements must match the body.
fn compared(sealer: &Sealer, row: &Row) -> Result<(Payment, PaymentCounters), Fault> {
    let (payment, counters) = open(sealer, row.get(0), row.get(1), row.get(2))?;
    let (kind, owner, reference) = origin(payment.merchant, &payment.origin);
    let token = TokenHash::hash(payment.token.expose());
    let fits = row.get::<_, i64>(3) == number(payment.merchant.0)
        && row.get::<_, i16>(4) == keys::environment(payment.environment)
        && row.get::<_, i16>(5) == status(payment.status)
        && row.get::<_, i64>(6) == millis(payment.created_at)
        && (row.get(7), row.get(8)) == (kind, owner)
        && row.get::<_, &[u8]>(9) == reference
        && row.get::<_, &[u8]>(10) == payment.order_id.as_str().as_bytes()
        && row.get::<_, &[u8]>(11) == token.0;
    match fits {
        true => Ok((payment, counters)),
        false => Err(records::damaged(
            &schema::payment(payment.id),
            OTHER_COLUMNS,
        )),
    }
}

/// Loads a payment with its attempts in one snapshot.
pub(crate) async fn load(
    database: &Database,
    sealer: &Sealer,
    about: &About,
) -> Result<Option<Loaded>, Fault> {
    let loaded = match about {
        About::Payment(id) => {
            load_where(database, sealer, "p.id = $1", &[&uuid(id.as_bytes())]).await?
        }
        About::Attempt(id) => {
            let of = "p.id = (SELECT payment FROM attempt WHERE id = $1)";
            load_where(database, sealer, of, &[&uuid(id.as_bytes())]).await?
        }
        About::Refund(id) => {
            let of = "p.id = (SELECT payment FROM refund WHERE id = $1)";
            load_where(database, sealer, of, &[&uuid(id.as_bytes())]).await?
        }
        About::Reference { account, reference } => {
            let of = "p.id = (SELECT payment FROM reference WHERE account = $1 AND reference = $2)";
            load_where(
                database,
                sealer,
                of,
                &[&account.as_str(), &reference.as_bytes()],
            )
            .await?
        }
    };
    // The payment's body must confirm the key by which it was found.
    if let Some(loaded) = &loaded
        && !is_about(&loaded.aggregate, about)
    {
        let key = schema::payment(loaded.aggregate.payment.id);
        return Err(records::damaged(
            &key,
            "an index leads to it that is another's",
        ));
    }
    Ok(loaded)
}

fn is_about(aggregate: &PaymentAggregate, about: &About) -> bool {
    let mut attempts = aggregate.attempts.iter();
    match about {
        About::Payment(id) => aggregate.payment.id == *id,
        About::Attempt(id) => attempts.any(|attempt| attempt.id == *id),
        About::Refund(id) => attempts.any(|attempt| attempt.funds.refund(*id).is_some()),
        About::Reference { account, reference } => attempts
            .any(|attempt| attempt.account == *account && attempt.references.contains(reference)),
    }
}

/// Loads the payment that matches a condition.
pub(crate) async fn load_where(
    database: &Database,
    sealer: &Sealer,
    condition: &str,
    arguments: crate::postgres::database::Arguments<'_>,
) -> Result<Option<Loaded>, Fault> {
    const ORDINAL: usize = COLUMN_COUNT + 5;
    let sql = format!(
        "SELECT {COLUMNS}, p.revision, p.number, p.ops, d.due_at, d.claim, a.ordinal, a.body, a.id,
            a.return_hash, a.account, {LEDGER}, {CLOCK}, {RESELLER} FROM {FROM}
            LEFT JOIN attempt a ON a.payment = p.id WHERE {condition} ORDER BY a.ordinal"
    );
    let rows = database.read(&sql, arguments).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let (payment, counters) = compared(sealer, first)?;
    let mut attempts = Vec::with_capacity(counters.attempts.into());
    for (at, row) in rows
        .iter()
        .filter(|row| row.get::<_, Option<i16>>(ORDINAL).is_some())
        .enumerate()
    {
        let key = schema::attempt(payment.id, count(at)?);
        let attempt = open_attempt(sealer, &key, row.get(ORDINAL + 1))?;
        let fits = row.get::<_, i16>(ORDINAL) == i16::from(count(at)?)
            && row.get::<_, Uuid>(ORDINAL + 2) == uuid(attempt.id.as_bytes())
            && row.get::<_, &[u8]>(ORDINAL + 3) == TokenHash::hash(attempt.return_token.expose()).0
            && row.get::<_, &str>(ORDINAL + 4) == attempt.account.as_str();
        if !fits {
            return Err(records::damaged(&key, OTHER_COLUMNS));
        }
        attempts.push(attempt);
    }
    if attempts.len() != usize::from(counters.attempts) {
        return Err(records::damaged(
            &schema::payment(payment.id),
            "it has not its number of attempts",
        ));
    }
    let timer = first
        .get::<_, Option<i64>>(COLUMN_COUNT + 3)
        .zip(first.get::<_, Option<i64>>(COLUMN_COUNT + 4));
    Ok(Some(Loaded {
        tells_reseller: tells_reseller(sealer, &payment, first)?,
        aggregate: PaymentAggregate { payment, attempts },
        counters,
        revision: first.get(COLUMN_COUNT),
        number: first.get(COLUMN_COUNT + 1),
        ops: first.get(COLUMN_COUNT + 2),
        timer: timer.map(|(at, claim)| TimerRow { at, claim }),
        ledger: movements::ledger(sealer, first.get(COLUMN_COUNT + 10))?,
        clock: time(first.get(COLUMN_COUNT + 11)),
    }))
}

/// Decodes [`RESELLER`]. Damaged rows of the reseller must not block the payment.
fn tells_reseller(sealer: &Sealer, payment: &Payment, row: &Row) -> Result<bool, Fault> {
    let body = |at| row.get::<_, Option<&[u8]>>(COLUMN_COUNT + at);
    let (Origin::Reseller { reseller, .. }, Some(who), Some(granted)) =
        (&payment.origin, body(12), body(13))
    else {
        return Ok(false);
    };
    let key = schema::resellers::delegation(*reseller, payment.merchant);
    let granted = records::readable(records::decode(sealer, &key, granted))?;
    let key = schema::resellers::reseller(*reseller);
    let who = records::readable(records::decode(sealer, &key, who))?;
    let may = |who| may_work(&who, granted.as_ref(), payment.environment).is_ok();
    Ok(who.is_some_and(may))
}

/// A reference that becomes known in a change: its account, the attempt's ordinal, and the number of callbacks
/// stored for it.
pub(crate) struct Named {
    pub(crate) account: AccountId,
    pub(crate) reference: String,
    pub(crate) ordinal: u8,
    pub(crate) parked: i32,
}

/// A change to a payment that is to be saved.
pub(crate) struct Saved<'s> {
    pub(crate) before: &'s Loaded,
    pub(crate) after: &'s PaymentAggregate,
    pub(crate) change: &'s Change,
    pub(crate) named: &'s [Named],
    pub(crate) works: Vec<work::Line>,
    pub(crate) op: [u8; OP],
    /// See [`movements::write`].
    pub(crate) timed: Option<Time>,
    pub(crate) now: Time,
}

impl Saved<'_> {
    /// Builds the statement that saves the change if the payment is unchanged since it was loaded.
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
                records::encode(
                    sealer,
                    &schema::line(payment.id, Line::Decision, ordinal),
                    decision,
                )?,
            );
        }
        for (ordinal, transition) in
            payment_steps::transitions(payment.id, &mut counters, self.change)
        {
            let key = schema::line(payment.id, Line::Transition, ordinal);
            lines.add(
                TRANSITION,
                ordinal,
                records::encode(sealer, &key, transition)?,
            );
        }
        let events = payment_steps::events(payment, &mut counters, self.change, self.now)?;
        for (ordinal, event) in &events {
            let key = schema::event(payment.id, *ordinal);
            lines.add(
                EVENT,
                *ordinal,
                records::encode(sealer, &key, &EventRow::new(event))?,
            );
        }
        self.payment(&mut statement, sealer, counters)?;
        self.attempts(&mut statement, sealer)?;
        self.refunds(&mut statement);
        self.references(&mut statement);
        self.search_references(&mut statement)?;
        self.search_marks(&mut statement, secrets);
        self.notes(&mut statement);
        self.timer(&mut statement);
        self.review(&mut statement);
        lines.write(&mut statement, payment.id);
        work::write(&mut statement, sealer, self.works)?;
        movements::write(&mut statement, sealer, &self.change.movements, self.timed)?;
        listed(&mut statement, payment, &events);
        let events: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
        let told = self.before.tells_reseller;
        webhooks::outbox::add(&mut statement, sealer, payment, &events, told)?;
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

    /// Removes the notes of a payment whose payer's data are erased.
    fn notes(&self, statement: &mut StatementBuilder) {
        if notes::has_row(&self.before.aggregate.payment) && !notes::has_row(&self.after.payment) {
            statement.add(
                "notes",
                "DELETE FROM timeline WHERE payment = $1 AND kind = $2",
                values![uuid(self.after.payment.id.as_bytes()), NOTES],
            );
        }
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
            let used = attempt.needs_account(self.after.payment.settlement);
            let old = before.attempts.get(at);
            if old.is_some_and(|old| {
                old == attempt && old.needs_account(before.payment.settlement) == used
            }) {
                continue;
            }
            let ordinal = count(at)?;
            ordinals.push(i16::from(ordinal));
            ids.push(uuid(attempt.id.as_bytes()));
            returns.push(TokenHash::hash(attempt.return_token.expose()).0.to_vec());
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

    /// Maintains the rows by which refunds are found.
    fn refunds(&self, statement: &mut StatementBuilder) {
        let (mut ids, mut keys) = (Vec::new(), Vec::new());
        for (at, attempt) in self.after.attempts.iter().enumerate() {
            let before = self.before.aggregate.attempts.get(at);
            for refund in payment_steps::new_refunds(before, attempt) {
                ids.push(uuid(refund.id.as_bytes()));
                keys.push(schema::key_of_refund(&self.after.payment, refund));
            }
        }
        if ids.is_empty() {
            return;
        }
        let payment = uuid(self.after.payment.id.as_bytes());
        statement.add(
            "refunds",
            "INSERT INTO refund (id, payment, key)
                SELECT v.id, $3, v.key FROM unnest($1::uuid[], $2::bytea[]) AS v (id, key)",
            values![ids, keys, payment],
        );
    }

    /// Saves references, unless callbacks were stored for them since they were read: those must be applied
    /// first.
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

    fn search_marks(&self, statement: &mut StatementBuilder, secrets: &Secrets) {
        let old = secrets.search_marks(&self.before.aggregate);
        let new = secrets.search_marks(self.after);
        let payment = &self.after.payment;
        let marks = |marks: Vec<&SearchMark>| column(&marks, |mark| mark.to_vec());
        let gone: Vec<_> = old.difference(&new).collect();
        if !gone.is_empty() {
            statement.add(
                "unmarked",
                "DELETE FROM search_mark WHERE mark = ANY($1::bytea[]) AND created_at = $2 AND number = $3",
                values![marks(gone), millis(payment.created_at), self.before.number],
            );
        }
        let added: Vec<_> = new.difference(&old).collect();
        if !added.is_empty() {
            statement.add(
                "marked",
                "INSERT INTO search_mark (mark, created_at, number, payment)
                    SELECT v.mark, $2, $3, $4 FROM unnest($1::bytea[]) AS v (mark) ON CONFLICT DO NOTHING",
                values![
                    marks(added),
                    millis(payment.created_at),
                    self.before.number,
                    uuid(payment.id.as_bytes()),
                ],
            );
        }
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

/// Whether two attempts are the same attempt of a payment.
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

/// Adds events to the list of their merchant and environment.
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
