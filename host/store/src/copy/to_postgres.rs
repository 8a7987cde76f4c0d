//! Conversion of the embedded store's rows to tables. Bodies are the same in both; the columns next to them are
//! used for searches. A payment is written with its attempts and index rows.

use std::collections::BTreeSet;

use kassette_domain::connect::{ConnectCode, ShopConnection};
use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::{Delegation, DelegationStatus};
use kassette_domain::id::{AccountId, EventId};
use kassette_domain::invitation::Reply;
use kassette_domain::key::{ApiKey, Environment, TokenHash};
use kassette_domain::operator::Operator;
use kassette_domain::payment::{Payment, Status};
use kassette_domain::pending_callback::PendingCallback;
use kassette_domain::reseller::Reseller;
use kassette_domain::time::Time;
use kassette_domain::work::WorkItem;
use kassette_engine::{IVec, Memtable};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use self::Convert::{All, Row};
use crate::copy::CopyError;
use crate::copy::database::{CopyConnection, Values, Writer};
use crate::payment_steps::count;
use crate::postgres::directory::keys::{environment, owner};
use crate::postgres::movements;
use crate::postgres::payments::stored::{self, DECISION, EVENT, NOTES, TRANSITION};
use crate::postgres::statement::values;
use crate::postgres::webhooks::outbox::{EventBody, log, status_number};
use crate::postgres::{millis, number, uuid, webhooks};
use crate::report::{Progress, Unit, VerifyReport};
use crate::retention::Rule;
use crate::rows::routing::{self, Size};
use crate::rows::seal::Secrets;
use crate::rows::source::RowSource as _;
use crate::rows::stored::{
    AllReached, AttemptKey, ListedEvent, PaymentCounters, PaymentRow, Reached,
};
use crate::rows::wants::{Wants, number_of};
use crate::rows::{endpoints, invitations, merchants, records, schema};
use crate::sled::maintenance::Stopped;
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::memory::payment_index::Entry;
use crate::sled::memory::taken_nonces::Taken;
use crate::sled::memory::{Shown, View};
use crate::sled::payments::aggregates;
use crate::sled::webhooks::deliver;
use crate::sled::webhooks::outbox::{self, BodyRow, DeliveryRow};
use crate::{Fault, LedgerState, SearchKey};

/// How a row is converted.
pub(crate) enum Convert {
    /// Becomes a row of a table.
    Row(
        &'static str,
        fn(&CopySource<'_>, &[u8], &IVec) -> Result<Values, CopyError>,
    ),
    /// A function writes the resulting rows.
    All(Write),
}
type Write = fn(&CopySource<'_>, &[u8], &IVec, &mut Writer<'_>) -> Result<(), CopyError>;

/// Kinds whose rows are read and converted. All others are derived from these, or have a single row.
pub(crate) const WALKED: [(&str, Convert); 28] = [
    ("account-switch", Row("account_switch", switch)),
    ("api-key", Row("api_key", api_key)),
    ("api-key-seen", Row("api_key_seen", seen)),
    ("audit-line", Row("audit", audit_line)),
    ("connect-code", Row("connect_code", connect_code)),
    ("connection", Row("connection", connection)),
    ("consent-code", Row("consent_code", consent_code)),
    ("delegation", Row("delegation", delegation)),
    ("delivery", Row("delivery", delivery)),
    ("endpoint", Row("endpoint", endpoint)),
    ("event", Row("timeline", event)),
    ("event-by-time", Row("event", listed_event)),
    ("invitation", Row("invitation", invitation)),
    ("merchant", Row("merchant", merchant)),
    ("movement", Row("movement", movement)),
    ("nonces", All(nonces)),
    ("notes", Row("timeline", notes)),
    ("operator", Row("operator", operator)),
    ("parked-notice", Row("parked", parked)),
    (INDEX, All(payments)),
    ("reference", Row("reference", reference)),
    ("reseller", Row("reseller", reseller)),
    ("retention-laggard", Row("laggard", laggard)),
    ("routing-batch", Row("routing_log", routing_batch)),
    ("timeline", Row("timeline", line)),
    ("trial", Row("trial", trial)),
    ("webhook-event", Row("event_body", event_body)),
    ("work", Row("work", work)),
];
const INDEX: &str = "payment index";

/// Inserts references of pending callbacks, and sets sequences to continue after the copied numbers.
const AT_LAST: &str = "INSERT INTO reference (account, reference, parked, until)
        SELECT account, reference, max(ordinal) + 1, max(until) FROM parked GROUP BY account, reference
        ON CONFLICT DO NOTHING;
    SELECT setval('payment_number', coalesce(max(number), 1), max(number) IS NOT NULL) FROM payment;
    SELECT setval('routing_log_number', greatest(max(number), 1)) FROM routing_log;
    UPDATE directory SET version = version + 1";

/// The store that is copied.
pub(crate) struct CopySource<'a> {
    view: View<'a>,
    secrets: &'a Secrets,
}

/// Copies all records. Call within a transaction.
pub(crate) fn copy(
    from: &Stopped,
    writer: Writer<'_>,
    before: &VerifyReport,
    progress: &dyn Progress,
) -> Result<(), CopyError> {
    let memtable = Memtable::over(from.db.clone());
    let shown = Shown::new(&from.secrets.sealer);
    let source = CopySource {
        view: View::new(&memtable, &shown),
        secrets: &from.secrets,
    };
    let rows = |name: &str| match name {
        INDEX => before.payments,
        name => before.rows.get(name).copied().unwrap_or_default(),
    };
    let total = WALKED.iter().map(|(name, _)| rows(name)).sum();
    progress.begin("Copying", Unit::Rows, Some(total));
    let (database, mut writer) = (writer.database, writer);
    for (name, convert) in WALKED {
        let Some(kind) = KINDS.all().iter().find(|kind| kind.name == name) else {
            continue;
        };
        for row in from.db.scan_prefix(kind.prefix) {
            let (key, row) = row.map_err(Fault::database)?;
            match convert {
                Row(table, of) => writer.push(table, of(&source, &key, &row)?)?,
                All(write) => write(&source, &key, &row, &mut writer)?,
            }
            progress.advance(match name {
                INDEX => {
                    records::decode::<Vec<Entry>>(&source.secrets.sealer, &key, &row)?.len() as u64
                }
                _ => 1,
            });
        }
    }
    writer.finish()?;
    database.run(AT_LAST)?;
    let in_review = stored::status(Status::Review);
    let sql = format!("INSERT INTO review SELECT id FROM payment WHERE status = {in_review}");
    database.run(&sql)?;
    singles(&source, database)
}

/// Copies unique rows.
fn singles(source: &CopySource<'_>, database: &CopyConnection) -> Result<(), CopyError> {
    let mark = source.view.get(schema::MARK)?;
    let mark = mark.ok_or_else(|| records::damaged(schema::MARK, "it is missing"))?;
    database.execute("UPDATE meta SET mark = $1", &[&&mark[..]])?;
    for (name, key) in [
        ("merchant", schema::MERCHANT_COUNT),
        ("reseller", schema::resellers::COUNT),
    ] {
        let counted = number(source.load_or_default(key)?);
        let sql = "UPDATE counter SET value = $2 WHERE name = $1";
        database.execute(sql, &[&name, &counted])?;
    }
    if let Some(end) = source.view.get(schema::AUDIT_END)? {
        database.execute("UPDATE audit_end SET body = $1", &[&&end[..]])?;
    }
    if let Some(ledger) = source.view.load::<LedgerState>(schema::LEDGER)? {
        let body = records::encode(source.view.sealer(), schema::LEDGER, &ledger)?;
        let sql = "UPDATE ledger SET closed_until = $1, body = $2";
        database.execute(sql, &[&millis(ledger.closed_until), &&body[..]])?;
    }
    let freed = millis(source.load_or_default(schema::NONCES_FREED)?);
    database.execute("UPDATE nonce_end SET freed = $1", &[&freed])?;
    let reached: AllReached = source.load_or_default(schema::RETENTION)?;
    for (rule, reached) in Rule::ALL.into_iter().zip(reached) {
        retention(database, rule, reached)?;
    }
    Ok(())
}

/// Copies a rule's progress. A database orders payments by time first, so that payments which arrived later but
/// were created earlier are visited again.
fn retention(
    database: &CopyConnection,
    rule: Rule,
    Reached { next, made_before }: Reached,
) -> Result<(), CopyError> {
    if next == 0 {
        return Ok(());
    }
    let (rule, next, made) = (i16::from(rule.tag()), i64::from(next), millis(made_before));
    let sql = "INSERT INTO forgotten (rule, created_at, number) VALUES ($1, $3, $2)";
    database.execute(sql, &[&rule, &next, &made])?;
    let sql = "INSERT INTO laggard (rule, payment, at) SELECT $1, id, 0 FROM payment
        WHERE number > $2 AND created_at < $3 ON CONFLICT DO NOTHING";
    database.execute(sql, &[&rule, &next, &made])
}

impl CopySource<'_> {
    fn load_or_default<T: DeserializeOwned + Default>(&self, key: &[u8]) -> Result<T, Fault> {
        Ok(self.view.load(key)?.unwrap_or_default())
    }
}

/// The id at the end of a key.
fn last_id(key: &[u8]) -> Result<Uuid, Fault> {
    let id = schema::trailing_id(key).ok_or_else(|| records::damaged(key, "it has no id"))?;
    Ok(uuid(&id))
}

/// The hash at the end of a key.
fn last_hash(key: &[u8]) -> Vec<u8> {
    key.last_chunk::<32>()
        .map_or_else(Vec::new, |hash| hash.to_vec())
}

fn text(key: &[u8], bytes: &[u8]) -> Result<String, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| records::damaged(key, "it is no text"))?;
    Ok(text.to_owned())
}

/// Copies payments in order of arrival, without leases.
fn payments(
    source: &CopySource<'_>,
    key: &[u8],
    row: &IVec,
    writer: &mut Writer<'_>,
) -> Result<(), CopyError> {
    let entries: Vec<Entry> = records::decode(&source.secrets.sealer, key, row)?;
    let first = schema::payment_index_first(key).unwrap_or_default();
    for (arrived, entry) in (i64::from(first) + 1..).zip(entries) {
        let sealer = &source.secrets.sealer;
        let loaded = aggregates::load_promised(&source.view, sealer, entry.id)?;
        let mut aggregate = loaded.aggregate;
        aggregate.payment.claimed_until = None;
        let due = aggregate.due_at();
        let payment = &aggregate.payment;
        let id = uuid(payment.id.as_bytes());
        if let Some(due) = due {
            writer.push("due", values![id, millis(due)])?;
        }
        let mut marks = source.secrets.search_marks(&aggregate);
        marks.extend(
            source
                .secrets
                .marker
                .search(&SearchKey::Amount(payment.due)),
        );
        for mark in marks {
            let found = values![mark.to_vec(), millis(payment.created_at), arrived, id];
            writer.push("search_mark", found)?;
        }
        for (at, attempt) in aggregate.attempts.iter().enumerate() {
            let ordinal = count(at)?;
            let key = schema::attempt(payment.id, ordinal);
            let body = source.view.get(&key)?;
            let body = body.ok_or_else(|| records::damaged(&key, "it is missing"))?;
            let ordinal = i16::from(ordinal);
            let attempt_row = values![
                id,
                ordinal,
                uuid(attempt.id.as_bytes()),
                TokenHash::hash(attempt.return_token.expose()).0.to_vec(),
                attempt.account.as_str().to_owned(),
                attempt.needs_account(payment.settlement),
                body.to_vec(),
            ];
            writer.push("attempt", attempt_row)?;
            let references: BTreeSet<_> = attempt.particulars.references.iter().collect();
            for reference in references {
                let made = millis(payment.created_at);
                let found = values![reference.clone().into_bytes(), made, arrived, id, ordinal];
                writer.push("search_reference", found)?;
            }
            for refund in &attempt.funds.refunds {
                let key = schema::key_of_refund(payment, refund);
                for of in refund.ids() {
                    let found = values![
                        uuid(of.as_bytes()),
                        id,
                        key.as_ref()
                            .filter(|_| of == refund.id)
                            .map(|key| key.to_vec()),
                    ];
                    writer.push("refund", found)?;
                }
            }
        }
        let counters = PaymentCounters {
            timer: None,
            ..loaded.counters
        };
        let (_, body) = PaymentRow::encode(sealer, payment, counters)?;
        writer.push("payment", payment_row(payment, arrived, &body))?;
    }
    Ok(())
}

fn payment_row(payment: &Payment, arrived: i64, body: &[u8]) -> Values {
    let (kind, owner, reference) = stored::origin(payment.merchant, &payment.origin);
    values![
        uuid(payment.id.as_bytes()),
        arrived,
        kind,
        owner,
        reference,
        number(payment.merchant.0),
        environment(payment.environment),
        millis(payment.created_at),
        payment.order_id.as_str().as_bytes().to_vec(),
        TokenHash::hash(payment.token.expose()).0.to_vec(),
        stored::status(payment.status),
        body.to_vec(),
    ]
}

/// A line of a timeline. The key contains, after its prefix, payment, kind and ordinal.
fn line(_: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let parts = key.get(4..).and_then(<[u8]>::split_first_chunk::<16>);
    let (payment, kind, ordinal) = match parts {
        Some((payment, [b'd', high, low])) => (payment, DECISION, [*high, *low]),
        Some((payment, [b't', high, low])) => (payment, TRANSITION, [*high, *low]),
        _ => return Err(records::damaged(key, "it is about nothing").into()),
    };
    let ordinal = i32::from(u16::from_be_bytes(ordinal));
    Ok(values![uuid(payment), kind, ordinal, row.to_vec()])
}

fn notes(_: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    Ok(values![last_id(key)?, NOTES, 0_i32, row.to_vec()])
}

fn event(_: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let of = schema::event_of(key);
    let (payment, ordinal) = of.ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let payment = uuid(payment.as_bytes());
    Ok(values![payment, EVENT, i32::from(ordinal), row.to_vec()])
}

/// A listed event. The key contains, after its prefix, merchant, environment, time and event.
fn listed_event(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let listed: ListedEvent = records::decode(&source.secrets.sealer, key, row)?;
    let damaged = || records::damaged(key, "it is cut off");
    let of = key.get(4..).and_then(<[u8]>::split_first_chunk::<8>);
    let (merchant, rest) = of.ok_or_else(damaged)?;
    let (world, rest) = rest.split_first().ok_or_else(damaged)?;
    let (at, _) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let world = match world {
        b't' => Environment::Test,
        _ => Environment::Live,
    };
    Ok(values![
        number(u64::from_be_bytes(*merchant)),
        environment(world),
        millis(Time::from_millis(u64::from_be_bytes(*at))),
        last_id(key)?,
        i16::from(number_of(listed.kind)),
        uuid(listed.payment.as_bytes()),
        i32::from(listed.ordinal),
    ])
}

fn reference(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let of: AttemptKey = records::decode(&source.secrets.sealer, key, row)?;
    let account = schema::account_in(key).unwrap_or_default();
    let reference = key.get(4 + account.len() + 1..).unwrap_or_default();
    Ok(values![
        text(key, account)?,
        reference.to_vec(),
        uuid(of.payment.as_bytes()),
        i16::from(of.ordinal),
    ])
}

/// A pending callback. The key contains, after the account, the reference's length, the reference and the
/// ordinal.
fn parked(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let notice: PendingCallback = records::decode(&source.secrets.sealer, key, row)?;
    let account = schema::account_in(key).unwrap_or_default();
    let rest = key.get(4 + account.len() + 1 + 4..).unwrap_or_default();
    let (reference, ordinal) = rest
        .split_last_chunk::<4>()
        .ok_or_else(|| records::damaged(key, "it is cut off"))?;
    Ok(values![
        text(key, account)?,
        reference.to_vec(),
        i32::from_be_bytes(*ordinal),
        millis(notice.until),
        row.to_vec(),
    ])
}

fn work(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let item: WorkItem = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        uuid(item.id.as_bytes()),
        uuid(item.key.attempt.as_bytes()),
        item.key.kind as i16,
        item.key.subject.clone().into_bytes(),
        millis(item.opened_at),
        item.done_at.is_none(),
        row.to_vec(),
    ])
}

fn movement(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let movement = crate::rows::movements::decode(source.view.sealer(), key, row)?;
    Ok(values![
        movements::owner(movement.payment),
        uuid(movement.id.as_bytes()),
        millis(movement.booked_at),
        row.to_vec(),
    ])
}

fn laggard(_: &CopySource<'_>, key: &[u8], _: &IVec) -> Result<Values, CopyError> {
    let about = schema::laggard_about(key);
    let (rule, payment) = about.ok_or_else(|| records::damaged(key, "it is about nothing"))?;
    let at = schema::leading_time(key, schema::LAGGARDS).unwrap_or_default();
    Ok(values![
        i16::from(rule),
        uuid(payment.as_bytes()),
        millis(at)
    ])
}

fn endpoint(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let endpoint = endpoints::decode(&source.secrets.sealer, key, row)?;
    let (merchant, reseller) = webhooks::endpoints::owner(endpoint.owner);
    Ok(values![
        uuid(endpoint.id.as_bytes()),
        merchant,
        reseller,
        environment(endpoint.environment),
        millis(endpoint.created_at),
        endpoint.enabled,
        Wants::new(&endpoint).bits(),
        row.to_vec(),
    ])
}

fn event_body(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let body: BodyRow = records::decode(&source.secrets.sealer, key, row)?;
    let event = schema::trailing_id(key).map(EventId::from_bytes);
    let event = event.ok_or_else(|| records::damaged(key, "it has no id"))?;
    let sent = match PaymentRow::load(&source.view, body.payment)? {
        Some(payment) => EventBody::new(body.kind, payment.plain(), body.body),
        None => EventBody::of_test(body.kind, body.payment, body.body),
    };
    Ok(values![
        uuid(event.as_bytes()),
        i16::from(number_of(body.kind)),
        uuid(body.payment.as_bytes()),
        sent.encode(&source.secrets.sealer, event)?,
        i32::try_from(body.deliveries).unwrap_or(i32::MAX),
    ])
}

/// A delivery with its whole log, without its lease.
fn delivery(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let row: DeliveryRow = records::decode(&source.secrets.sealer, key, row)?;
    let id = deliver::trailing_id(key)?;
    let failed = schema::webhooks::failed(row.endpoint, id);
    let queued_again: bool = source.load_or_default(&failed)?;
    let delivery = outbox::whole(&source.view, id, row)?;
    let attempts = delivery.attempts.len();
    Ok(values![
        uuid(id.as_bytes()),
        uuid(delivery.event.as_bytes()),
        i16::from(number_of(delivery.kind)),
        uuid(delivery.endpoint.as_bytes()),
        uuid(delivery.payment.as_bytes()),
        status_number(delivery.status),
        millis(delivery.created_at),
        delivery.next_attempt_at.map(millis),
        i16::try_from(attempts).unwrap_or(i16::MAX),
        (attempts > 0)
            .then(|| log(&source.secrets.sealer, &delivery))
            .transpose()?,
        queued_again,
    ])
}

fn merchant(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let merchant = merchants::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        number(merchant.id.0),
        merchant.live_approved,
        row.to_vec()
    ])
}

fn api_key(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let api_key: ApiKey = records::decode(&source.secrets.sealer, key, row)?;
    let (kind, owner) = owner(api_key.owner);
    Ok(values![
        api_key.hash.0.to_vec(),
        uuid(api_key.id.as_bytes()),
        kind,
        owner,
        environment(api_key.environment),
        millis(api_key.created_at),
        api_key.expires_at.map(millis),
        api_key.revoked_at.is_some(),
        row.to_vec(),
    ])
}

fn seen(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let seen: Time = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![last_hash(key), millis(seen)])
}

fn operator(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let operator: Operator = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        operator.hash.0.to_vec(),
        uuid(operator.id.as_bytes()),
        millis(operator.created_at),
        row.to_vec(),
    ])
}

fn switch(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let (account, _): (AccountId, bool) = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![account.as_str().to_owned(), row.to_vec()])
}

fn audit_line(_: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let line = schema::audit_number(key).unwrap_or_default();
    Ok(values![number(line), row.to_vec()])
}

fn reseller(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let reseller: Reseller = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        number(reseller.id.0),
        reseller.live_rollout,
        row.to_vec()
    ])
}

fn delegation(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let delegation: Delegation = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        number(delegation.reseller.0),
        number(delegation.merchant.0),
        delegation.status() == DelegationStatus::Authorized,
        delegation.invitation.map(|id| uuid(id.as_bytes())),
        millis(delegation.created_at),
        row.to_vec(),
    ])
}

fn invitation(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let id = schema::resellers::invitation_id(key);
    let id = id.ok_or_else(|| records::damaged(key, "it names no invitation"))?;
    let invitation = invitations::open(
        &source.secrets.sealer,
        id,
        records::decode(&source.secrets.sealer, key, row)?,
    )?;
    let merchant = match invitation.reply {
        Reply::Accepted { merchant, .. } => Some(number(merchant.0)),
        Reply::Open | Reply::Declined { .. } => None,
    };
    Ok(values![
        uuid(id.as_bytes()),
        number(invitation.reseller.0),
        invitation.client_ref.as_str().as_bytes().to_vec(),
        TokenHash::hash(invitation.token.expose()).0.to_vec(),
        millis(invitation.created_at),
        merchant,
        row.to_vec(),
    ])
}

fn consent_code(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let code: ConsentCode = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        code.handle.0.to_vec(),
        millis(code.expires_at),
        row.to_vec()
    ])
}

fn connect_code(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let code: ConnectCode = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        code.hash.0.to_vec(),
        uuid(code.id.as_bytes()),
        number(code.merchant.0),
        millis(code.created_at),
        millis(code.expires_at),
        row.to_vec(),
    ])
}

fn connection(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let made: ShopConnection = records::decode(&source.secrets.sealer, key, row)?;
    Ok(values![
        number(made.merchant.0),
        environment(made.environment),
        made.origin.as_str().as_bytes().to_vec(),
        row.to_vec(),
    ])
}

fn trial(_: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let slot = schema::slot_of_trial(key);
    let slot = slot.ok_or_else(|| records::damaged(key, "it is of no slot"))?;
    Ok(values![slot.as_str().to_owned(), row.to_vec()])
}

fn routing_batch(source: &CopySource<'_>, key: &[u8], row: &IVec) -> Result<Values, CopyError> {
    let of = schema::routing_batch_of(key);
    let (slot, at, batch) = of.ok_or_else(|| records::damaged(key, "it is about nothing"))?;
    let size = Size::new(routing::count(&source.secrets.sealer, key, row)?, row);
    Ok(values![
        schema::routing_name(&slot).to_owned(),
        millis(at),
        number(batch),
        size.records.cast_signed(),
        size.bytes.cast_signed(),
        row.to_vec(),
    ])
}

/// Nonces reserved by one group commit. A nonce that was reserved again after expiry is in two rows.
fn nonces(
    source: &CopySource<'_>,
    key: &[u8],
    row: &IVec,
    writer: &mut Writer<'_>,
) -> Result<(), CopyError> {
    let taken: Vec<Taken> = records::decode(&source.secrets.sealer, key, row)?;
    let sql = "INSERT INTO nonce AS known (reseller, mark, until, asked, holder)
        SELECT reseller, mark, max(until), 0, 0
        FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS v (reseller, mark, until) GROUP BY reseller, mark
        ON CONFLICT (reseller, mark) DO UPDATE SET until = greatest(known.until, excluded.until)";
    let resellers: Vec<_> = taken.iter().map(|each| number(each.reseller.0)).collect();
    let marks: Vec<_> = taken.iter().map(|each| &each.mark[..]).collect();
    let ends: Vec<_> = taken.iter().map(|each| millis(each.until)).collect();
    writer.database.execute(sql, &[&resellers, &marks, &ends])
}
