//! Queueing events: one body, and a delivery for each subscribed endpoint.

use kassette_domain::event::{Event, EventSubject, EventType};
use kassette_domain::extras::Notes;
use kassette_domain::id::{DeliveryId, EndpointId, EventId, MerchantId, PaymentId, ResellerId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::order::ClientRef;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    Additions, Delivery, DeliveryAttempt, DeliveryStatus, Endpoint, Message,
};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;

use crate::Fault;
use crate::postgres::database::{Arguments, Failure, Tx, execute, row};
use crate::postgres::directory::keys::environment;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{columns, millis, number, time, uuid};
use crate::rows::seal::{Sealer, random_id};
use crate::rows::wants::{Wants, number_of};
use crate::rows::{records, schema};

/// A UUID greater than all earlier ones: the time in `at`, and 74 random bits.
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

/// SQL of [`schema::webhooks::first_delivery`] for the columns `at`, `event` and `endpoint`.
macro_rules! first_id {
    () => {
        "(lpad(to_hex(at), 12, '0')
            || right(encode(sha256(uuid_send(event) || uuid_send(endpoint)), 'hex'), 20))::uuid"
    };
}

/// A step's events, each for every endpoint that wants it: of the payment's merchant, and of others.
macro_rules! told {
    ($others:literal) => {
        concat!(
            "SELECT v.event, v.kind, v.at, v.body, e.id AS endpoint
            FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bytea[])
                AS v(event, kind, asking, at, body)
            JOIN (SELECT e.id, e.wants FROM endpoint e WHERE e.merchant = $6 AND e.environment = $7 ",
            $others,
            ") e ON e.wants & v.asking <> 0"
        )
    };
}

/// Adds the queueing of events to a step's statement: for each endpoint that subscribes to them, of the
/// payment's merchant and, if `tells_reseller`, of the reseller that created it and may still work for the
/// merchant. The statement returns these endpoints.
pub(crate) fn add(
    statement: &mut StatementBuilder,
    sealer: &Sealer,
    payment: &Payment,
    events: &[Event],
    tells_reseller: bool,
) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let mut bodies = Vec::new();
    for event in events {
        let text = Message::about(event, payment).body();
        let body = EventBody::new(event.kind, payment, text);
        bodies.push(body.encode(sealer, event.id)?);
    }
    let mut arguments = values![
        column(events, |event| uuid(event.id.as_bytes())),
        column(events, |event| i16::from(number_of(event.kind))),
        column(events, |event| Wants::asking_for(event.kind)),
        column(events, |event| millis(event.created_at)),
        bodies,
        number(payment.merchant.0),
        environment(payment.environment),
    ];
    let told = match payment.origin {
        Origin::Reseller { reseller, .. } if tells_reseller => {
            arguments.push(Box::new(number(reseller.0)));
            // Same condition as `may_work`.
            told!(
                "UNION ALL SELECT e.id, e.wants FROM endpoint e
                    JOIN delegation d ON d.reseller = e.reseller AND d.merchant = $6 AND d.authorized
                    JOIN reseller r ON r.id = e.reseller AND (r.live_rollout OR $7 = 0)
                WHERE e.merchant = 0 AND e.reseller = $8 AND e.environment = $7"
            )
        }
        Origin::Merchant { .. } | Origin::Reseller { .. } => told!(""),
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
            first_id!(),
            ", event, kind, endpoint, $1, 0, at, at FROM told RETURNING endpoint"
        ),
        values![uuid(payment.id.as_bytes())],
    );
    statement.answer("ARRAY(SELECT DISTINCT endpoint FROM queued)");
    Ok(())
}

/// An event's body without [`Additions`], and the parties that may receive it.
#[derive(Serialize, Deserialize)]
pub(crate) struct EventBody {
    pub(crate) kind: EventType,
    pub(crate) payment: PaymentId,
    /// `None` for a test event, which concerns no payment.
    parties: Option<EventParties>,
    pub(crate) text: String,
}

/// Parties that may receive an event.
#[derive(Serialize, Deserialize)]
struct EventParties {
    merchant: MerchantId,
    /// The reseller that created the payment, and its reference.
    reseller: Option<(ResellerId, ClientRef)>,
    environment: Environment,
}

impl EventBody {
    pub(crate) fn new(kind: EventType, payment: &Payment, text: String) -> Self {
        Self {
            kind,
            payment: payment.id,
            parties: Some(EventParties {
                merchant: payment.merchant,
                reseller: match payment.origin {
                    Origin::Merchant { .. } => None,
                    Origin::Reseller {
                        reseller,
                        ref client_ref,
                    } => Some((reseller, client_ref.clone())),
                },
                environment: payment.environment,
            }),
            text,
        }
    }

    pub(crate) const fn of_test(kind: EventType, payment: PaymentId, text: String) -> Self {
        Self {
            kind,
            payment,
            parties: None,
            text,
        }
    }

    pub(crate) fn encode(&self, sealer: &Sealer, event: EventId) -> Result<Vec<u8>, Fault> {
        let body = records::encode(sealer, &schema::webhooks::sent(event), self)?;
        Ok(body.to_vec())
    }

    pub(crate) fn decode(sealer: &Sealer, event: EventId, body: &[u8]) -> Result<Self, Fault> {
        records::decode(sealer, &schema::webhooks::sent(event), body)
    }

    /// Whether the owner of an endpoint may receive the event.
    pub(crate) fn is_for(&self, endpoint: &Endpoint) -> bool {
        self.parties.as_ref().is_none_or(|parties| {
            parties.environment == endpoint.environment
                && match endpoint.owner {
                    KeyOwner::Merchant(merchant) => merchant == parties.merchant,
                    KeyOwner::Reseller(reseller) => {
                        let made_by = parties.reseller.as_ref();
                        made_by.is_some_and(|(made_by, _)| *made_by == reseller)
                    }
                }
        })
    }

    /// Additions to the text for an endpoint that may receive the event.
    pub(crate) fn additions<'a>(&'a self, endpoint: &Endpoint, notes: &'a Notes) -> Additions<'a> {
        let is_resellers = matches!(endpoint.owner, KeyOwner::Reseller(_));
        let parties = self.parties.as_ref().filter(|_| is_resellers);
        let made_by = parties.and_then(|parties| parties.reseller.as_ref());
        Additions {
            metadata: Some(&notes.metadata).filter(|metadata| !metadata.is_empty()),
            client_ref: made_by.map(|(_, client_ref)| client_ref),
            merchant_id: parties.map(|parties| parties.merchant),
        }
    }

    /// The reseller's reference and the merchant. `None` if no reseller created the payment.
    pub(crate) fn delegated(&self) -> Option<(ClientRef, MerchantId)> {
        let parties = self.parties.as_ref()?;
        let (_, client_ref) = parties.reseller.as_ref()?;
        Some((client_ref.clone(), parties.merchant))
    }
}

/// Queues a test event for one endpoint, regardless of its subscriptions.
pub(crate) async fn test(
    tx: &Tx<'_>,
    endpoint: EndpointId,
    now: Time,
) -> Result<Delivery, Failure> {
    let event = EventId::from_bytes(random_id()?);
    let message = Message::test(event, now);
    let sql = "/* event: insert */ INSERT INTO event_body (id, kind, payment, body, deliveries)
        VALUES ($1, $2, $3, $4, 1)";
    let body = EventBody::of_test(message.kind, message.payment, message.body());
    let body = body.encode(tx.sealer(), event)?;
    let (kind, payment) = (
        i16::from(number_of(message.kind)),
        uuid(message.payment.as_bytes()),
    );
    execute(tx, sql, &[&uuid(event.as_bytes()), &kind, &payment, &body]).await?;
    let delivery = new_delivery(event, message.kind, endpoint, message.payment, now)?;
    insert(tx, &delivery).await?;
    Ok(delivery)
}

/// Queues an event for the endpoints `told`: another endpoint of their owner was disabled.
pub(crate) async fn tell_disabled(
    tx: &Tx<'_>,
    disabled: &Endpoint,
    told: &[EndpointId],
    now: Time,
) -> Result<(), Failure> {
    if told.is_empty() {
        return Ok(());
    }
    let event = EventId::from_bytes(random_id()?);
    let subject = EventSubject::EndpointDisabled(disabled.id);
    let message = Message::disabled(event, &subject, disabled.environment, now);
    let (kind, payment) = (message.kind, message.payment);
    let body = EventBody::of_test(kind, payment, message.body()).encode(tx.sealer(), event)?;
    let sql = "/* event: insert */ INSERT INTO event_body (id, kind, payment, body, deliveries)
        VALUES ($1, $2, $3, $4, $5)";
    let count = i32::try_from(told.len()).unwrap_or(i32::MAX);
    let number = i16::from(number_of(kind));
    let of = uuid(payment.as_bytes());
    execute(
        tx,
        sql,
        &[&uuid(event.as_bytes()), &number, &of, &body, &count],
    )
    .await?;
    for endpoint in told {
        let id = schema::webhooks::first_delivery(now, event, *endpoint);
        let delivery = Delivery {
            id,
            ..new_delivery(event, kind, *endpoint, payment, now)?
        };
        insert(tx, &delivery).await?;
    }
    Ok(())
}

/// Queues events for the endpoint `$1`, due at `$3`, unless their deliveries `$2` exist. `$4` to `$8` are the events.
const QUEUE_MISSED: &str = "/* deliveries: missed */
    WITH v AS MATERIALIZED (SELECT * FROM unnest($2::uuid[], $4::uuid[], $5::smallint[], $6::uuid[], $7::bigint[], $8::bytea[])
        AS v (id, event, kind, payment, at, body)),
    new AS (INSERT INTO delivery (id, event, kind, endpoint, payment, status, created_at, next_at)
        SELECT id, event, kind, $1, payment, 0, at, $3 FROM v ON CONFLICT (id) DO NOTHING RETURNING event),
    bodies AS (INSERT INTO event_body AS known (id, kind, payment, body, deliveries)
        SELECT v.event, v.kind, v.payment, v.body, 1 FROM v JOIN new ON new.event = v.event
        ON CONFLICT (id) DO UPDATE SET deliveries = known.deliveries + 1)
    SELECT count(*) FROM new";

/// Queues events that an endpoint missed, unless they are already queued for it. Returns the number queued.
pub(crate) async fn queue_missed(
    tx: &Tx<'_>,
    endpoint: EndpointId,
    events: &[(Event, Payment)],
    now: Time,
) -> Result<u64, Failure> {
    let mut bodies = Vec::new();
    for (event, payment) in events {
        let text = Message::about(event, payment).body();
        bodies.push(EventBody::new(event.kind, payment, text).encode(tx.sealer(), event.id)?);
    }
    let first =
        |event: &Event| schema::webhooks::first_delivery(event.created_at, event.id, endpoint);
    let ids = column(events, |(event, _)| uuid(first(event).as_bytes()));
    let of = column(events, |(event, _)| uuid(event.id.as_bytes()));
    let kinds = column(events, |(event, _)| i16::from(number_of(event.kind)));
    let payments = column(events, |(_, payment)| uuid(payment.id.as_bytes()));
    let times = column(events, |(event, _)| millis(event.created_at));
    let (id, at) = (uuid(endpoint.as_bytes()), millis(now));
    let arguments: Arguments<'_> = &[&id, &ids, &at, &of, &kinds, &payments, &times, &bodies];
    let written = row(tx, QUEUE_MISSED, arguments).await?;
    Ok(written.map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

/// Queues the event of a delivery again.
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

/// Columns that [`delivery`] reads from `delivery d`.
macro_rules! delivery_columns {
    () => {
        "d.id, d.event, d.kind, d.endpoint, d.payment, d.status, d.created_at, d.next_at, d.log"
    };
}
pub(crate) use delivery_columns;

/// Decodes a delivery from [`delivery_columns`].
pub(crate) fn delivery(sealer: &Sealer, row: &Row) -> Result<Delivery, Fault> {
    let id = columns::id(row, 0, DeliveryId::from_bytes);
    let log: Option<&[u8]> = row.get(8);
    let attempts: Option<Vec<DeliveryAttempt>> = log
        .map(|log| records::decode(sealer, &schema::webhooks::delivery(id), log))
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

/// Encodes a delivery's log column.
pub(crate) fn log(sealer: &Sealer, delivery: &Delivery) -> Result<Vec<u8>, Fault> {
    let row = records::encode(
        sealer,
        &schema::webhooks::delivery(delivery.id),
        &delivery.attempts,
    )?;
    Ok(row.to_vec())
}

pub(crate) fn damaged(id: DeliveryId, what: &str) -> Fault {
    records::damaged(&schema::webhooks::delivery(id), what)
}

/// The kind of event with a number.
pub(crate) fn kind(number: i16) -> Option<EventType> {
    EventType::ALL
        .into_iter()
        .find(|kind| i16::from(number_of(*kind)) == number)
}

/// The number of a status. Statements contain the literals for pending and exhausted, so that the planner can
/// use partial indexes.
pub(crate) const fn status_number(status: DeliveryStatus) -> i16 {
    match status {
        DeliveryStatus::Pending => 0,
        DeliveryStatus::Delivered => 1,
        DeliveryStatus::Exhausted => 2,
        DeliveryStatus::Cancelled => 3,
    }
}

/// The status that has a number.
pub(crate) fn status(number: i16) -> Option<DeliveryStatus> {
    DeliveryStatus::ALL
        .into_iter()
        .find(|status| status_number(*status) == number)
}
