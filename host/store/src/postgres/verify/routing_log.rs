//! Checks of the routing log.

use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::postgres::errors::OpenError;
use crate::postgres::time;
use crate::postgres::verify::COLUMNS;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::rows::routing::{self, Size};
use crate::rows::seal::Secrets;
use crate::rows::{records, schema};

const BATCHES: &str = "/* verify: routing log */ SELECT method, at, number, body, records, bytes
    FROM routing_log";

pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    reading.each("routing-batch", BATCHES, batch).await
}

/// Checks a batch of entries of one slot: decodable, and as many as the column states.
fn batch(row: &Row, secrets: &Secrets) -> CheckedRow {
    let (at, number): (Time, i64) = (time(row.get(1)), row.get(2));
    let Some(slot) = schema::slot_of_routing(row.get(0)) else {
        let key = [schema::ROUTING_BATCHES, row.get::<_, &str>(0).as_bytes()].concat();
        let damaged = records::damaged(&key, "it is of no slot");
        return (key, Err(damaged));
    };
    let key = schema::routing_batch(&slot, at, number.unsigned_abs());
    let body: &[u8] = row.get(3);
    let looked = routing::slots(&secrets.sealer, &slot, &key, body).map(|held| {
        let count = u32::try_from(held.len()).unwrap_or(u32::MAX);
        let size = Size::new(count, body);
        let columns =
            (row.get(4), row.get(5)) == (size.records.cast_signed(), size.bytes.cast_signed());
        let counted = routing::count(&secrets.sealer, &key, body) == Ok(count);
        let own = held.iter().all(|other| *other == slot);
        vec![
            (columns, COLUMNS),
            (counted, "it counts other entries than it holds"),
            (own, "it holds entries of another slot"),
        ]
    });
    (key, looked)
}
