//! Conversion of tables to the embedded store's rows. Derived rows are written as verification expects them.

use kassette_domain::id::{
    DeliveryId, EndpointId, EventId, InvitationId, MovementId, ResellerId, Slot, WorkId,
};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::time::Time;
use kassette_domain::webhook::DeliveryStatus;
use kassette_engine::{Bulk, Db, IVec, Memtable};
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

use self::Convert::{All, Keyed};
use crate::Fault;
use crate::copy::CopyError;
use crate::copy::database::CopyConnection;
use crate::postgres::columns::{environment, id, merchant_id, payment_id, reseller_id};
use crate::postgres::directory::account;
use crate::postgres::movements;
use crate::postgres::payments::stored::{self, DECISION, EVENT, NOTES};
use crate::postgres::webhooks::outbox::{EventBody, delivery as whole_delivery, delivery_columns};
use crate::postgres::{audit, time};
use crate::report::{Progress, Unit, VerifyReport};
use crate::rows::routing::RoutingLogTotals;
use crate::rows::schema::{self, Key, Line, Position};
use crate::rows::seal::Secrets;
use crate::rows::stored::{AllReached, PaymentRow, Reached, Timer, open_attempt};
use crate::rows::wants::Wants;
use crate::rows::{nonces, records};
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::memory::payment_index::Entry;
use crate::sled::memory::payment_index_rows::FULL;
use crate::sled::memory::taken_nonces::Taken;
use crate::sled::open::this_format;
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::Derived;
use crate::sled::webhooks::endpoint_index::EndpointIndex;
use crate::sled::webhooks::outbox::{BodyRow, DeliveryRow};

/// Maximum number of nonces per row.
const NONCES: usize = 256;

/// How a row of a query is converted.
pub(crate) enum Convert {
    /// Becomes a row with this key; the body is in the last column.
    Keyed(fn(&Row) -> Result<Key, Fault>),
    /// A function writes the resulting rows.
    All(fn(&mut Target<'_, '_>, &Row) -> Result<(), CopyError>),
}

/// Queries with their kinds of rows. Other tables are derived from these.
pub(crate) const READ: [(&str, &str, Convert); 30] = [
    ("payment", "SELECT p.id, p.body, ARRAY(SELECT a.body FROM attempt a WHERE a.payment = p.id ORDER BY a.ordinal)
        FROM payment p ORDER BY p.created_at, p.number", All(payment)),
    ("timeline", "SELECT payment, kind, ordinal, body FROM timeline", Keyed(line)),
    ("work", "SELECT id, opened_at, body FROM work",
        Keyed(|row| Ok(schema::work(time(row.get(1)), id(row, 0, WorkId::from_bytes))))),
    ("movement", "SELECT payment, id, body FROM movement",
        Keyed(|row| Ok(movements::key(row.get(0), id(row, 1, MovementId::from_bytes))))),
    ("parked-notice", "SELECT account, reference, ordinal, body FROM parked", Keyed(parked)),
    ("parked-count", "SELECT account, count(*) FROM parked GROUP BY account", All(parked_count)),
    ("retention-laggard", "SELECT rule, payment, at FROM laggard", All(laggard)),
    ("endpoint", "SELECT id, body FROM endpoint",
        Keyed(|row| Ok(schema::webhooks::endpoint(id(row, 0, EndpointId::from_bytes))))),
    ("endpoint-roster", "SELECT merchant, environment, array_agg(id ORDER BY created_at, id),
        array_agg(wants ORDER BY created_at, id), reseller FROM endpoint GROUP BY merchant, reseller, environment", All(roster)),
    ("webhook-event", "SELECT b.id, b.kind, b.payment, b.body, b.deliveries, d.at FROM event_body b
        LEFT JOIN (SELECT event, min(created_at) AS at FROM delivery GROUP BY event) d ON d.event = b.id", All(event_body)),
    ("delivery", concat!("SELECT ", delivery_columns!(), ", d.queued_again, min(d.created_at) OVER (PARTITION BY d.event)
        FROM delivery d"), All(delivery)),
    ("pending-deliveries", "SELECT count(*) FROM delivery WHERE status = 0",
        All(|target, row| target.save(schema::webhooks::PENDING.to_vec(), &row.get::<_, i64>(0).unsigned_abs()))),
    ("merchant", "SELECT id, body FROM merchant", Keyed(|row| Ok(schema::merchant(merchant_id(row, 0))))),
    ("api-key", "SELECT hash, body FROM api_key", Keyed(|row| Ok(schema::api_key(hash(row)?)))),
    ("api-key-seen", "SELECT hash, seen FROM api_key_seen",
        All(|target, row| target.save(schema::api_key_seen(hash(row)?), &time(row.get(1))))),
    ("operator", "SELECT hash, body FROM operator", Keyed(|row| Ok(schema::operator(hash(row)?)))),
    ("account-switch", "SELECT account, body FROM account_switch", Keyed(|row| Ok(schema::switch(&account(row.get(0))?)))),
    ("reseller", "SELECT id, body FROM reseller", Keyed(|row| Ok(schema::resellers::reseller(reseller_id(row, 0))))),
    ("invitation", "SELECT id, body FROM invitation",
        Keyed(|row| Ok(schema::resellers::invitation(id(row, 0, InvitationId::from_bytes))))),
    ("invitation-count", "SELECT reseller, count(*) FROM invitation GROUP BY reseller",
        All(|target, row| target.save(schema::resellers::invited(reseller_id(row, 0)), &counted(row)))),
    ("delegation", "SELECT reseller, merchant, body FROM delegation",
        Keyed(|row| Ok(schema::resellers::delegation(reseller_id(row, 0), merchant_id(row, 1))))),
    ("consent-code", "SELECT handle, body FROM consent_code", Keyed(|row| Ok(schema::resellers::consent(hash(row)?)))),
    ("connect-code", "SELECT hash, body FROM connect_code", Keyed(|row| Ok(schema::connect::code(hash(row)?)))),
    ("connection", "SELECT merchant, environment, origin, body FROM connection", Keyed(connection)),
    ("nonces", "SELECT reseller, mark, until FROM nonce ORDER BY until", All(nonce)),
    ("audit-line", "SELECT number, body FROM audit",
        Keyed(|row| Ok(schema::audit(row.get::<_, i64>(0).unsigned_abs())))),
    ("routing-batch", "SELECT method, at, number, body FROM routing_log", Keyed(routing_batch)),
    ("routing-log", "SELECT coalesce(max(number) + 1, 0), coalesce(sum(bytes), 0)::bigint FROM routing_log", All(routing_log)),
    ("trial", "SELECT slot, body FROM trial", Keyed(trial)),
    ("retention", "SELECT f.rule, f.created_at, (SELECT count(*) FROM payment p
        WHERE (p.created_at, p.number) <= (f.created_at, f.number)) FROM forgotten f", All(reached)),
];

/// The store that is written.
pub(crate) struct Target<'a, 'b> {
    bulk: &'a mut Bulk<'b>,
    secrets: &'a Secrets,
    /// The payments for the next row of the payment index, and its first position.
    index: (Position, Vec<Entry>),
    /// The nonces for the next row.
    taken: Vec<Taken>,
    rows_of_nonces: u64,
    reached: AllReached,
}

/// Copies all rows that are not derived from others. Call within a snapshot of the database.
pub(crate) fn fill(
    from: &CopyConnection,
    bulk: &mut Bulk<'_>,
    before: &VerifyReport,
    progress: &dyn Progress,
) -> Result<(), CopyError> {
    let rows = |kind| before.rows.get(kind).copied().unwrap_or_default();
    let total = READ.iter().map(|(kind, ..)| rows(*kind)).sum::<u64>() + rows("event");
    progress.begin("Copying", Unit::Rows, Some(total));
    let mut target = Target {
        bulk,
        secrets: &from.secrets,
        index: (0, Vec::new()),
        taken: Vec::new(),
        rows_of_nonces: 0,
        reached: AllReached::default(),
    };
    for (_, sql, convert) in READ {
        from.each(sql, |row| {
            progress.advance(1);
            match convert {
                Keyed(key) => target.put(key(row)?, row.get::<_, &[u8]>(row.len() - 1)),
                All(write) => write(&mut target, row),
            }
        })?;
    }
    target.end_of_index()?;
    target.end_of_nonces()?;
    target.singles(from)
}

/// Writes derived rows.
pub(crate) fn derive(db: &Db, secrets: &Secrets, progress: &dyn Progress) -> Result<(), CopyError> {
    progress.begin("Writing indexes", Unit::Rows, None);
    let memtable = Memtable::over(db.clone());
    let mut bulk = Bulk::new(db);
    let mut write = |key: Key, row: &[u8]| {
        let row = match KINDS.split(&key)?.0.derived {
            // Derived rows with content were already copied.
            _ if db.contains_key(&key).map_err(Fault::database)? => return Ok(()),
            Derived::Row => IVec::from(row),
            Derived::Key | Derived::Not => records::encode(&secrets.sealer, &key, &())?,
        };
        bulk.push(key.into(), Some(row))
    };
    let verifier = Verifier::new(&KINDS, &memtable, secrets);
    verifier
        .telling(&mut write)
        .look(&mut |rows| progress.advance(rows))?;
    Ok(bulk.write()?)
}

impl Target<'_, '_> {
    fn put(&mut self, key: Key, row: impl Into<IVec>) -> Result<(), CopyError> {
        Ok(self.bulk.push(key.into(), Some(row.into()))?)
    }

    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), CopyError> {
        let row = records::encode(&self.secrets.sealer, &key, value)?;
        self.put(key, row)
    }

    fn end_of_index(&mut self) -> Result<(), CopyError> {
        let (first, entries) = &mut self.index;
        let (first_of_next, at, entries) =
            (*first + FULL as Position, *first, std::mem::take(entries));
        *first = first_of_next;
        if entries.is_empty() {
            return Ok(());
        }
        self.save(schema::payment_index(at), &entries)
    }

    /// Numbers decrease from the maximum, whereas the store's own groups count up, so they do not collide.
    fn end_of_nonces(&mut self) -> Result<(), CopyError> {
        let taken = std::mem::take(&mut self.taken);
        let Some(last) = taken.last() else {
            return Ok(());
        };
        self.rows_of_nonces += 1;
        let key = schema::nonces(last.until, u64::MAX - self.rows_of_nonces);
        self.save(key, &taken)
    }

    /// Copies unique rows. Sealed values are unchanged, because they belong to the same row under the same key.
    fn singles(&mut self, from: &CopyConnection) -> Result<(), CopyError> {
        self.put(schema::FORMAT.to_vec(), this_format())?;
        let ledger = from.one("SELECT body FROM ledger")?;
        if let Some(ledger) = Some(ledger.get::<_, &[u8]>(0)).filter(|body| !body.is_empty()) {
            self.put(schema::LEDGER.to_vec(), ledger)?;
        }
        let meta = from.one("SELECT canary, mark FROM meta")?;
        self.put(schema::CANARY.to_vec(), meta.get::<_, Vec<u8>>(0))?;
        self.put(schema::MARK.to_vec(), meta.get::<_, Vec<u8>>(1))?;
        if let Some(end) = from.one(audit::END)?.get::<_, Option<Vec<u8>>>(0) {
            self.put(schema::AUDIT_END.to_vec(), end)?;
        }
        let counted = |name| from.one(&format!("SELECT value FROM counter WHERE name = '{name}'"));
        for (name, key) in [
            ("merchant", schema::MERCHANT_COUNT),
            ("reseller", schema::resellers::COUNT),
        ] {
            let counted = counted(name)?.get::<_, i64>(0).unsigned_abs();
            self.save(key.to_vec(), &counted)?;
        }
        let freed = time(from.one("SELECT freed FROM nonce_end")?.get(0));
        self.save(schema::NONCES_FREED.to_vec(), &freed)?;
        self.save(schema::RETENTION.to_vec(), &self.reached.clone())
    }
}

/// The hash in the first column.
fn hash(row: &Row) -> Result<TokenHash, Fault> {
    let hash = row.get::<_, &[u8]>(0).try_into();
    Ok(TokenHash(hash.map_err(|_| {
        Fault::Corrupt("the length of a hash".into())
    })?))
}

/// A count in the embedded store's type.
fn counted(row: &Row) -> u32 {
    u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX)
}

/// Converts a payment with its attempts, without its lease. Rows are in order of time.
fn payment(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let sealer = &target.secrets.sealer;
    let (mut payment, mut counters) = stored::open(sealer, row.get(0), row.get(1), None)?;
    payment.claimed_until = None;
    let mut rows = Vec::new();
    for (ordinal, body) in (0_u8..).zip(row.get::<_, Vec<&[u8]>>(2)) {
        rows.push((schema::attempt(payment.id, ordinal), body));
    }
    let attempts = rows
        .iter()
        .map(|(key, body)| open_attempt(sealer, key, body));
    let attempts = attempts.collect::<Result<_, _>>()?;
    let aggregate = PaymentAggregate { payment, attempts };
    let due = aggregate.due_at();
    counters.timer = due.map(Timer::Own);
    let payment = aggregate.payment;
    let marks = target.secrets.marks(&payment);
    let (key, body) = PaymentRow::encode(sealer, &payment, counters)?;
    target.put(key, body)?;
    for (key, body) in rows {
        target.put(key, body)?;
    }
    if let Some(due) = due {
        target.put(schema::timer(due, payment.id), IVec::default())?;
    }
    let entry = Entry::new(payment.id, payment.merchant, payment.created_at, marks);
    target.index.1.push(entry);
    match target.index.1.len() {
        FULL => target.end_of_index(),
        _ => Ok(()),
    }
}

fn line(row: &Row) -> Result<Key, Fault> {
    let (payment, ordinal) = (payment_id(row, 0), row.get::<_, i32>(2));
    let ordinal =
        u16::try_from(ordinal).map_err(|_| Fault::Corrupt("the number of a line".into()))?;
    Ok(match row.get::<_, i16>(1) {
        EVENT => schema::event(payment, ordinal),
        DECISION => schema::line(payment, Line::Decision, ordinal),
        NOTES => schema::notes(payment),
        _ => schema::line(payment, Line::Transition, ordinal),
    })
}

fn parked(row: &Row) -> Result<Key, Fault> {
    let reference = std::str::from_utf8(row.get(1));
    let reference = reference.map_err(|_| Fault::Corrupt("a reference".into()))?;
    let ordinal = row.get::<_, i32>(2).unsigned_abs();
    Ok(schema::pending_callback(
        &account(row.get(0))?,
        reference,
        ordinal,
    ))
}

fn parked_count(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let key = schema::pending_callback_count(row.get::<_, &str>(0).as_bytes());
    target.save(key, &counted(row))
}

fn laggard(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let rule = u8::try_from(row.get::<_, i16>(0)).unwrap_or(u8::MAX);
    let key = schema::laggard(time(row.get(2)), rule, payment_id(row, 1));
    target.put(key, IVec::default())
}

fn roster(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let (ids, wants): (Vec<Uuid>, Vec<i64>) = (row.get(2), row.get(3));
    let ids = ids.iter().map(|id| EndpointId::from_bytes(*id.as_bytes()));
    let wants = wants.iter().map(|bits| u32::try_from(*bits).map(Wants));
    let each = ids.zip(wants).map(|(id, wants)| Ok((id, wants?)));
    let each = each.collect::<Result<_, std::num::TryFromIntError>>();
    let each = each.map_err(|_| Fault::Corrupt("what an endpoint wants".into()))?;
    let owner = match row.get::<_, i64>(4) {
        0 => KeyOwner::Merchant(merchant_id(row, 0)),
        reseller => KeyOwner::Reseller(ResellerId(reseller.unsigned_abs())),
    };
    let key = schema::webhooks::roster(owner, environment(row, 1));
    target.save(key, &EndpointIndex(each))
}

fn event_body(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let event = id(row, 0, EventId::from_bytes);
    let sent = EventBody::decode(&target.secrets.sealer, event, row.get(3))?;
    let body = BodyRow {
        kind: sent.kind,
        payment: sent.payment,
        delegated: sent.delegated(),
        body: sent.text,
        deliveries: row.get::<_, i32>(4).unsigned_abs(),
    };
    let at = row.get::<_, Option<i64>>(5).map_or(Time::default(), time);
    target.save(schema::webhooks::body(at, event), &body)
}

fn delivery(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let delivery = whole_delivery(&target.secrets.sealer, row)?;
    let (id, endpoint): (DeliveryId, _) = (delivery.id, delivery.endpoint);
    if delivery.status == DeliveryStatus::Exhausted {
        let queued_again: bool = row.get(9);
        target.save(schema::webhooks::failed(endpoint, id), &queued_again)?;
    }
    let (delivery, long) = DeliveryRow::split(delivery, time(row.get(10)));
    for (attempt, response) in long {
        target.save(schema::webhooks::response(id, attempt), &response)?;
    }
    target.save(schema::webhooks::delivery(id), &delivery)
}

fn connection(row: &Row) -> Result<Key, Fault> {
    let world: &[u8] = match environment(row, 1) {
        Environment::Test => b"t",
        Environment::Live => b"l",
    };
    let merchant = merchant_id(row, 0).0.to_be_bytes();
    Ok([schema::connect::CONNECTIONS, &merchant, world, row.get(2)].concat())
}

fn nonce(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let mark = nonces::NonceDigest::try_from(row.get::<_, &[u8]>(1));
    target.taken.push(Taken {
        reseller: reseller_id(row, 0),
        mark: mark.map_err(|_| Fault::Corrupt("the mark of a nonce".into()))?,
        until: time(row.get(2)),
    });
    match target.taken.len() {
        NONCES => target.end_of_nonces(),
        _ => Ok(()),
    }
}

fn routing_batch(row: &Row) -> Result<Key, Fault> {
    let slot = schema::slot_of_routing(row.get(0));
    let slot =
        slot.ok_or_else(|| Fault::Corrupt("the slot of an entry of the routing log".into()))?;
    let number = row.get::<_, i64>(2).unsigned_abs();
    Ok(schema::routing_batch(&slot, time(row.get(1)), number))
}

fn routing_log(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let [next, bytes] = [0, 1].map(|column| row.get::<_, i64>(column).unsigned_abs());
    target.save(
        schema::ROUTING_LOG.to_vec(),
        &RoutingLogTotals { next, bytes },
    )
}

fn trial(row: &Row) -> Result<Key, Fault> {
    let slot = Slot::parse(row.get(0));
    let slot = slot.ok_or_else(|| Fault::Corrupt("the slot of a trial".into()))?;
    Ok(schema::trial(&slot))
}

/// Records a rule's progress.
fn reached(target: &mut Target<'_, '_>, row: &Row) -> Result<(), CopyError> {
    let rule = usize::try_from(row.get::<_, i16>(0)).unwrap_or(usize::MAX);
    if let Some(reached) = target.reached.get_mut(rule) {
        *reached = Reached {
            next: Position::try_from(row.get::<_, i64>(2)).unwrap_or(Position::MAX),
            made_before: time(row.get(1)),
        };
    }
    Ok(())
}
