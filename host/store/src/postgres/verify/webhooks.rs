//! Checks of endpoints, and of events with their deliveries.

use kassette_domain::id::{DeliveryId, EndpointId, EventId};
use kassette_domain::webhook::{Delivery, DeliveryStatus};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::columns::id;
use crate::postgres::directory::keys::environment;
use crate::postgres::errors::OpenError;
use crate::postgres::verify::COLUMNS;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::postgres::webhooks::endpoints::owner;
use crate::postgres::webhooks::outbox::{self, EventBody, delivery_columns};
use crate::postgres::{millis, uuid};
use crate::rows::endpoints;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Secrets;
use crate::rows::wants::Wants;

const ENDPOINTS: &str =
    "/* verify: endpoints */ SELECT e.id, e.body, e.merchant, e.environment, e.created_at,
        e.enabled, e.wants, m.id IS NOT NULL, e.reseller, r.id IS NOT NULL
    FROM endpoint e LEFT JOIN merchant m ON m.id = e.merchant LEFT JOIN reseller r ON r.id = e.reseller";
const EVENTS: &str =
    "/* verify: events */ SELECT id, kind, payment, body, deliveries FROM event_body ORDER BY id";
const DELIVERIES: &str = concat!(
    "/* verify: deliveries */ SELECT ",
    delivery_columns!(),
    ", d.attempts FROM delivery d ORDER BY d.event"
);

/// Finding for a delivery whose event is missing or has a lower count of deliveries.
const NO_EVENT: &str = "the event that it is of is missing, or counts fewer deliveries";

pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    reading.each("endpoint", ENDPOINTS, endpoint).await?;
    let mut events = reading.cursor(EVENTS, 0).await?;
    let mut deliveries = reading.cursor(DELIVERIES, 1).await?;
    loop {
        let event = reading.next(&mut events).await?;
        let of = event.as_ref().map(|row| row.get::<_, Uuid>(0));
        let own = reading.own(&mut deliveries, of, NO_EVENT, named).await?;
        let Some(row) = event else { break };
        reading.count("webhook-event");
        judge(reading, &row, &own)?;
    }
    Ok(())
}

fn named(row: &Row) -> (&'static str, Key) {
    let id = id(row, 0, DeliveryId::from_bytes);
    ("delivery", schema::webhooks::delivery(id))
}

/// Checks an endpoint: decodable, owner exists, columns match the subscriptions.
fn endpoint(row: &Row, secrets: &Secrets) -> CheckedRow {
    let id = id(row, 0, EndpointId::from_bytes);
    let key = schema::webhooks::endpoint(id);
    let opened = endpoints::open(&secrets.sealer, &key, row.get(1));
    let looked = opened.map(|(endpoint, _)| {
        let columns = owner(endpoint.owner) == (row.get(2), row.get(8))
            && environment(endpoint.environment) == row.get::<_, i16>(3)
            && millis(endpoint.created_at) == row.get::<_, i64>(4)
            && endpoint.enabled == row.get::<_, bool>(5);
        let wants = u32::try_from(row.get::<_, i64>(6)).map(Wants);
        let wants = wants.is_ok_and(|wants| wants.told() == Wants::new(&endpoint).told());
        vec![
            (endpoint.id == id, "it is another endpoint's"),
            (columns, COLUMNS),
            (
                wants,
                "its columns do not say what it wants: events go astray",
            ),
            (row.get(7) || row.get(9), schema::no_owner(endpoint.owner)),
        ]
    });
    (key, looked)
}

/// Checks an event with its deliveries, including their count.
fn judge(reading: &mut Reading<'_>, row: &Row, own: &[Row]) -> Result<(), OpenError> {
    let id = id(row, 0, EventId::from_bytes);
    let key = [schema::webhooks::BODIES, id.as_bytes()].concat();
    let sent = EventBody::decode(&reading.secrets.sealer, id, row.get(3));
    if let Some(sent) = reading.readable("webhook-event", &key, sent)?
        && !is_body(row, id, &sent)
    {
        reading.find("webhook-event", &key, "its body is not this event's");
    }
    let counted = usize::try_from(row.get::<_, i32>(4)).unwrap_or_default();
    if own.len() < counted {
        reading.find("webhook-event", &key, "a delivery of it is missing");
    }
    for delivery in own.iter().skip(counted) {
        reading.find("delivery", &named(delivery).1, NO_EVENT);
    }
    for delivery in own {
        let looked = outbox::delivery(&reading.secrets.sealer, delivery)
            .map(|each| looks(&each, delivery, row));
        reading.judge("delivery", (named(delivery).1, looked))?;
    }
    Ok(())
}

fn looks(delivery: &Delivery, row: &Row, event: &Row) -> Vec<(bool, &'static str)> {
    let is_pending = delivery.status == DeliveryStatus::Pending;
    let columns = row.get::<_, i16>(2) == event.get::<_, i16>(1)
        && row.get::<_, Uuid>(4) == event.get::<_, Uuid>(2)
        && usize::try_from(row.get::<_, i16>(9)) == Ok(delivery.attempts.len());
    let due = "it is due and over, or neither";
    vec![
        (delivery.next_attempt_at.is_some() == is_pending, due),
        (columns, COLUMNS),
    ]
}

/// Whether the body that is sent matches the event.
fn is_body(row: &Row, id: EventId, sent: &EventBody) -> bool {
    let body: Option<Value> = serde_json::from_str(&sent.text).ok();
    let text = |pointer: &str| {
        body.as_ref()
            .and_then(|body| body.pointer(pointer)?.as_str())
    };
    outbox::kind(row.get(1)) == Some(sent.kind)
        && row.get::<_, Uuid>(2) == uuid(sent.payment.as_bytes())
        && text("/id") == Some(&id.to_string())
        && text("/type") == Some(sent.kind.as_str())
        && text("/data/payment_id") == Some(&row.get::<_, Uuid>(2).simple().to_string())
}
