//! The routing log.

use std::sync::Arc;

use kassette_domain::conversation::Conversation;
use kassette_domain::id::Slot;
use kassette_domain::method::MethodId;
use kassette_domain::routing::RoutingRecord;
use kassette_domain::time::Time;
use serde::de::DeserializeOwned;

use crate::postgres::database::Arguments;
use crate::postgres::{PostgresStore, millis, number, time};
use crate::rows::routing::{self, Making, Size};
use crate::rows::schema;
use crate::{
    Fault, Forgotten, Retention, RoutingBatch, RoutingCursor, RoutingLog, RoutingPage, StoreFuture,
};

const NUMBERS: &str = "/* routing log: numbers */ SELECT nextval('routing_log_number')
    FROM generate_series(1, $1::bigint)";
const APPEND: &str =
    "/* routing log: append */ INSERT INTO routing_log (method, at, number, records, bytes, body)
    SELECT method, $1::bigint, number, records, bytes, body
    FROM unnest($2::text[], $3::bigint[], $4::integer[], $5::integer[], $6::bytea[])
        AS v (method, number, records, bytes, body)
    ON CONFLICT DO NOTHING";
const READ: &str = "/* routing log */ SELECT at, number, body FROM routing_log
    WHERE method = $1 AND (at, number) < ($2, $3) ORDER BY at DESC, number DESC LIMIT $4";
/// Deletes the oldest entries that exceed the age or size limit.
const FORGET: &str = "/* routing log: forget */ DELETE FROM routing_log r USING (
        SELECT method, at, number, sum(bytes) OVER (ORDER BY at, number) - bytes AS before
        FROM (SELECT method, at, number, bytes FROM routing_log ORDER BY at, number LIMIT $1) o) oldest
    WHERE (r.method, r.at, r.number) = (oldest.method, oldest.at, oldest.number)
        AND (oldest.at <= $2 OR $3::bigint IS NOT NULL AND oldest.before < (SELECT sum(bytes) FROM routing_log) - $3)
    RETURNING r.records";
const OLDEST: &str = "/* routing log: oldest */ SELECT min(at) FROM routing_log";

/// Maximum number of batches that one query reads.
const ROWS: usize = 32;
/// Maximum number of batches that one call deletes.
const FORGOTTEN: usize = 512;

impl PostgresStore {
    async fn append(&self, batches: Vec<RoutingBatch>, now: Time) -> Result<(), Fault> {
        let packed = tokio::task::spawn_blocking(move || routing::pack(&batches)).await;
        let batches = packed.map_err(|_| Fault::Stopping)?;
        let count = i64::try_from(batches.len()).unwrap_or(i64::MAX);
        if count == 0 {
            return Ok(());
        }
        let numbers = self.workers.read(NUMBERS, &[&count]).await?;
        let numbers: Vec<i64> = numbers.iter().map(|row| row.get(0)).collect();
        let (mut names, mut records, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut bodies = Vec::new();
        for (batch, number) in batches.iter().zip(&numbers) {
            let key = schema::routing_batch(&batch.slot, now, number.unsigned_abs());
            let body = routing::encode(&self.secrets.sealer, &key, batch)?;
            let size = Size::new(batch.records, &body);
            names.push(schema::routing_name(&batch.slot));
            records.push(size.records.cast_signed());
            bytes.push(size.bytes.cast_signed());
            bodies.push(body.to_vec());
        }
        let arguments: Arguments<'_> = &[&millis(now), &names, &numbers, &records, &bytes, &bodies];
        // Repeatable, because the entries have ids of their own.
        self.workers.repeat(APPEND, arguments).await.map(drop)
    }

    async fn routing_page<R: DeserializeOwned + Send + 'static>(
        &self,
        slot: Slot,
        before: Option<RoutingCursor>,
    ) -> Result<RoutingPage<R>, Fault> {
        let name = schema::routing_name(&slot);
        let (mut at, mut last) = before.map_or((i64::MAX, i64::MAX), |cursor| {
            (millis(cursor.at), number(cursor.number))
        });
        let limit = i64::try_from(ROWS).unwrap_or(i64::MAX);
        let mut making = Making::default();
        let more = 'page: loop {
            let arguments: Arguments<'_> = &[&name, &at, &last, &limit];
            let rows = self.workers.read(READ, arguments).await?;
            for row in &rows {
                (at, last) = (row.get(0), row.get(1));
                let cursor = RoutingCursor {
                    at: time(at),
                    number: last.unsigned_abs(),
                };
                let key = schema::routing_batch(&slot, cursor.at, cursor.number);
                if !making.add(&self.secrets.sealer, key, row.get::<_, Vec<u8>>(2), cursor)? {
                    break 'page true;
                }
            }
            if rows.len() < ROWS {
                break false;
            }
        };
        making.page(Arc::clone(&self.secrets), more).await
    }

    /// Deletes a batch of decisions that exceed the age or number limit, oldest first.
    pub(crate) async fn forget_routing(
        &self,
        retention: &Retention,
        now: Time,
        forgotten: &mut Forgotten,
    ) -> Result<(), Fault> {
        let (keeps, most) = (retention.routing_log, retention.routing_log_bytes);
        if keeps.is_none() && most.is_none() {
            return Ok(());
        }
        let limit = i64::try_from(FORGOTTEN).unwrap_or(i64::MAX);
        let old = keeps.map_or(-1, |keeps| millis(now.before(keeps)));
        let gone = self
            .workers
            .repeat(FORGET, &[&limit, &old, &most.map(number)])
            .await?;
        let records = gone.iter().map(|row| row.get::<_, i32>(0).unsigned_abs());
        forgotten.routing_records += records.map(u64::from).sum::<u64>();
        if gone.len() == FORGOTTEN {
            forgotten.next_at(now);
        } else if let Some(keeps) = keeps {
            let oldest = self.workers.read_one(OLDEST, &[]).await?;
            let oldest = oldest.and_then(|row| row.get::<_, Option<i64>>(0));
            oldest
                .into_iter()
                .for_each(|oldest| forgotten.next_at(time(oldest).after(keeps)));
        }
        Ok(())
    }
}

impl RoutingLog for PostgresStore {
    fn append_routing(&self, batches: Vec<RoutingBatch>, now: Time) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| store.append(batches, now).await)
    }

    fn routing_log(
        &self,
        method: MethodId,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<RoutingRecord>> {
        Box::pin(self.routing_page(Slot::of_method(method), before))
    }

    fn conversations(
        &self,
        slot: &Slot,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<Conversation>> {
        Box::pin(self.routing_page(slot.clone(), before))
    }
}
