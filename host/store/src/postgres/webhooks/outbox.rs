//! Events on their way out: the body once, and a delivery for each endpoint that wants it.

use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{DeliveryId, EndpointId, EventId, PaymentId};
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryAttempt, DeliveryStatus, Message};
use tokio_postgres::Row;

use crate::Fault;
use crate::postgres::database::{Failure, Tx, execute};
use crate::postgres::directory::keys::environment;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{columns, millis, number, time, uuid};
use crate::rows::seal::random_id;
use crate::rows::wants::{Wants, number_of};
use crate::rows::{records, schema};

/// An id that stands after all that were drawn earlier: the time in `at`, and 74 random bits.
macro_rules! new_id {
    ($at:literal) => {
        concat!(
            "(lpad(to_hex(",
            $at,
            "), 12, '0') || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid"
        )
    };
}
pub(crate) use new_id;

/// A step's events, each for every endpoint that wants it: of the payment's merchant, and of others.
macro_rules! told {
    ($others:literal) => {
        concat!(
            "SELECT v.event, v.kind, v.at, v.body, e.id AS endpoint
            FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[], $5::text[])
                AS v(event, kind, asking, at, body)
            JOIN (SELECT e.id, e.wants FROM endpoint e WHERE e.merchant = $6 AND e.environment = $7 ",
            $others,
            ") e ON e.wants & v.asking <> 0"
        )
    };
}

/// Adds to the statement of a step that its events are queued: for each endpoint that wants them at that moment, of
/// the payment's merchant and of the reseller that made it, if it may work for the merchant.
/// The statement answers these endpoints.
pub(crate) fn add(statement: &mut StatementBuilder, payment: &Payment, events: &[Event]) {
    if events.is_empty() {
        return;
    }
    let mut arguments = values![
        column(events, |event| uuid(event.id.as_bytes())),
        column(events, |event| i16::from(number_of(event.kind))),
        column(events, |event| Wants::asking_for(event.kind)),
        column(events, |event| millis(event.created_at)),
        column(events, |event| Message::of(event, payment).body()),
        number(payment.merchant.0),
        environment(payment.environment),
    ];
    let told = match payment.origin {
        Origin::Merchant { .. } => told!(""),
        Origin::Reseller { reseller, .. } => {
            arguments.push(Box::new(number(reseller.0)));
            // As `may_work` says.
            told!(
                "UNION ALL SELECT e.id, e.wants FROM endpoint e
                    JOIN delegation d ON d.reseller = e.reseller AND d.merchant = $6 AND d.authorized
                    JOIN reseller r ON r.id = e.reseller AND (r.live_rollout OR $7 = 0)
                WHERE e.merchant = 0 AND e.reseller = $8 AND e.environment = $7"
            )
        }
    };
    statement.add("told", told, arguments);
    statement.add(
        "bodies",
        "INSERT INTO event_body (id, kind, payment, body, deliveries)
            SELECT event, kind, $1, body, count(*) FROM told GROUP BY event, kind, body",
        values![uuid(payment.id.as_bytes())],
    );
    statement.add(
        "queued",
        concat!(
            "INSERT INTO delivery (id, event, kind, endpoint, payment, status, created_at, next_at) SELECT ",
            new_id!("at"),
            ", event, kind, endpoint, $1, 0, at, at FROM told RETURNING endpoint"
        ),
        values![uuid(payment.id.as_bytes())],
    );
    statement.answer("ARRAY(SELECT DISTINCT endpoint FROM queued)");
}

/// Queues a test for one endpoint, whatever it wants.
pub(crate) async fn test(
    tx: &Tx<'_>,
    endpoint: EndpointId,
    now: Time,
) -> Result<Delivery, Failure> {
    let event = EventId::from_bytes(random_id()?);
    let message = Message::test(event, now);
    let sql = "/* event: insert */ INSERT INTO event_body (id, kind, payment, body, deliveries)
        VALUES ($1, $2, $3, $4, 1)";
    let (kind, payment) = (
        i16::from(number_of(message.kind)),
        uuid(message.payment.as_bytes()),
    );
    execute(
        tx,
        sql,
        &[&uuid(event.as_bytes()), &kind, &payment, &message.body()],
    )
    .await?;
    let delivery = new_delivery(event, message.kind, endpoint, message.payment, now)?;
    insert(tx, &delivery).await?;
    Ok(delivery)
}

/// Queues the event of a delivery once more.
pub(crate) async fn again(tx: &Tx<'_>, old: &Delivery, now: Time) -> Result<Delivery, Failure> {
    let sql = "/* event: again */ UPDATE event_body SET deliveries = deliveries + 1 WHERE id = $1";
    if execute(tx, sql, &[&uuid(old.event.as_bytes())]).await? == 0 {
        return Err(damaged(old.id, "its event is missing").into());
    }
    let sql = "/* delivery: queued again */ UPDATE delivery SET queued_again = true WHERE id = $1 AND status = 2";
    execute(tx, sql, &[&uuid(old.id.as_bytes())]).await?;
    let delivery = new_delivery(old.event, old.kind, old.endpoint, old.payment, now)?;
    insert(tx, &delivery).await?;
    Ok(delivery)
}

fn new_delivery(
    event: EventId,
    kind: EventType,
    endpoint: EndpointId,
    payment: PaymentId,
    now: Time,
) -> Result<Delivery, Fault> {
    Ok(Delivery {
        id: schema::webhooks::delivery_id(now, random_id()?),
        event,
        kind,
        endpoint,
        payment,
        status: DeliveryStatus::Pending,
        created_at: now,
        next_attempt_at: Some(now),
        attempts: Vec::new(),
    })
}

async fn insert(tx: &Tx<'_>, delivery: &Delivery) -> Result<(), Failure> {
    let sql = "/* delivery: insert */ INSERT INTO delivery
        (id, event, kind, endpoint, payment, status, created_at, next_at)
        VALUES ($1, $2, $3, $4, $5, 0, $6, $6)";
    execute(
        tx,
        sql,
        &[
            &uuid(delivery.id.as_bytes()),
            &uuid(delivery.event.as_bytes()),
            &i16::from(number_of(delivery.kind)),
            &uuid(delivery.endpoint.as_bytes()),
            &uuid(delivery.payment.as_bytes()),
            &millis(delivery.created_at),
        ],
    )
    .await?;
    Ok(())
}

/// What [`delivery`] reads, of `delivery d`.
macro_rules! delivery_columns {
    () => {
        "d.id, d.event, d.kind, d.endpoint, d.payment, d.status, d.created_at, d.next_at, d.log"
    };
}
pub(crate) use delivery_columns;

/// A delivery, from a row of the columns of [`delivery_columns`].
pub(crate) fn delivery(row: &Row) -> Result<Delivery, Fault> {
    let id = columns::id(row, 0, DeliveryId::from_bytes);
    let log: Option<&[u8]> = row.get(8);
    let attempts: Option<Vec<DeliveryAttempt>> = log
        .map(|log| records::decode(&schema::webhooks::delivery(id), log))
        .transpose()?;
    Ok(Delivery {
        id,
        event: columns::id(row, 1, EventId::from_bytes),
        kind: kind(row.get(2)).ok_or_else(|| damaged(id, "its kind is not known"))?,
        endpoint: columns::id(row, 3, EndpointId::from_bytes),
        payment: columns::payment_id(row, 4),
        status: status(row.get(5)).ok_or_else(|| damaged(id, "its status is not known"))?,
        created_at: time(row.get(6)),
        next_attempt_at: row.get::<_, Option<i64>>(7).map(time),
        attempts: attempts.unwrap_or_default(),
    })
}

/// The log of a delivery, as a column.
pub(crate) fn log(delivery: &Delivery) -> Result<Vec<u8>, Fault> {
    let row = records::encode(&schema::webhooks::delivery(delivery.id), &delivery.attempts)?;
    Ok(row.to_vec())
}

pub(crate) fn damaged(id: DeliveryId, what: &str) -> Fault {
    records::damaged(&schema::webhooks::delivery(id), what)
}

/// The kind of event that has a number.
pub(crate) fn kind(number: i16) -> Option<EventType> {
    EventType::ALL
        .into_iter()
        .find(|kind| i16::from(number_of(*kind)) == number)
}

/// The number of a status. Statements name those of pending and exhausted deliveries, so that they find the
/// indexes of these alone.
pub(crate) const fn status_number(status: DeliveryStatus) -> i16 {
    match status {
        DeliveryStatus::Pending => 0,
        DeliveryStatus::Delivered => 1,
        DeliveryStatus::Exhausted => 2,
        DeliveryStatus::Cancelled => 3,
    }
}

fn status(number: i16) -> Option<DeliveryStatus> {
    DeliveryStatus::ALL
        .into_iter()
        .find(|status| status_number(*status) == number)
}
