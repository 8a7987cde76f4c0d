//! The routing log.

pub(crate) mod checks;

use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::conversation::Conversation;
use kassette_domain::id::Slot;
use kassette_domain::method::MethodId;
use kassette_domain::routing::RoutingRecord;
use kassette_domain::time::Time;
use kassette_engine::{Operation, Order, Span};
use serde::de::DeserializeOwned;

use crate::rows::routing::{self, Making, PackedBatch, RoutingLogTotals, Size};
use crate::rows::seal::Secrets;
use crate::rows::source::{RowSource as _, Save as _};
use crate::rows::{records, schema};
use crate::sled::memory::{Memory, Rows};
use crate::sled::store::SledStore;
use crate::{
    Fault, Forgotten, Retention, RoutingBatch, RoutingCursor, RoutingLog, RoutingPage, StoreFuture,
};

/// Size in bytes after which an operation leaves further batches to the next one. Sealing this much takes a
/// third of a millisecond.
const PART: u64 = 96 << 10;

/// Writes some batches.
struct AppendRouting {
    batches: std::vec::IntoIter<PackedBatch>,
    now: Time,
    secrets: Arc<Secrets>,
}

impl Operation<Memory> for AppendRouting {
    /// Remaining batches.
    type Outcome = std::vec::IntoIter<PackedBatch>;

    fn apply(mut self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let mut log: RoutingLogTotals = rows.load(schema::ROUTING_LOG)?.unwrap_or_default();
        let before = log.bytes;
        for batch in self.batches.by_ref() {
            let key = schema::routing_batch(&batch.slot, self.now, log.next);
            let row = routing::encode(&self.secrets.sealer, &key, &batch)?;
            let size = Size::new(batch.records, &row);
            let by_time = schema::routing_by_time(self.now, log.next, &batch.slot);
            rows.save(by_time, &size)?;
            rows.put(key, row);
            log.next += 1;
            log.bytes = log.bytes.saturating_add(size.bytes.into());
            if log.bytes - before >= PART || rows.is_enough() {
                break;
            }
        }
        rows.save(schema::ROUTING_LOG.to_vec(), &log)?;
        Ok(self.batches)
    }
}

/// Removes some batches that are too old or exceed the maximum size, oldest first.
pub(crate) fn forget(
    rows: &mut Rows<'_>,
    retention: &Retention,
    now: Time,
    forgotten: &mut Forgotten,
) -> Result<(), Fault> {
    let (keeps, most) = (retention.routing_log, retention.routing_log_bytes);
    // The operation that needs the log reports the damage. It must not block others.
    let log: Option<RoutingLogTotals> =
        records::readable(rows.load(schema::ROUTING_LOG))?.flatten();
    let Some(mut log) = log.filter(|_| keeps.is_some() || most.is_some()) else {
        return Ok(());
    };
    let before = log;
    let rest = rows.walk(Span::prefix(schema::ROUTING_BY_TIME), |rows, key, row| {
        let at = schema::leading_time(key, schema::ROUTING_BY_TIME).unwrap_or_default();
        let until = keeps.map(|keeps| at.after(keeps));
        let is_old = until.is_some_and(|until| until <= now);
        if !is_old && most.is_none_or(|most| log.bytes <= most) {
            until.into_iter().for_each(|until| forgotten.next_at(until));
            return Ok(ControlFlow::Break(()));
        }
        let size: Size =
            records::readable(records::decode(rows.sealer(), key, row))?.unwrap_or_default();
        log.bytes = log.bytes.saturating_sub(size.bytes.into());
        forgotten.routing_records += u64::from(size.records);
        schema::routing_batch_by_time(key)
            .into_iter()
            .for_each(|batch| rows.remove(batch));
        rows.remove(key.clone());
        Ok(ControlFlow::Continue(()))
    })?;
    if rest.is_some() {
        forgotten.next_at(now);
    }
    if log != before {
        rows.save(schema::ROUTING_LOG.to_vec(), &log)?;
    }
    Ok(())
}

impl SledStore {
    fn routing_page<R: DeserializeOwned + Send + 'static>(
        &self,
        slot: &Slot,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<R>> {
        let mut span = Span::prefix(&schema::routing_batches(slot));
        if let Some(RoutingCursor { at, number }) = before {
            span = span.before(&schema::routing_batch(slot, at, number));
        }
        let mut making = Making::default();
        Box::pin(async move {
            let read = self.read_aside(move |view| {
                // One at a time, because a batch is as large as half of a slice's limit.
                while let Some((key, row)) = view.scan_back(&span, 1)?.pop() {
                    let (_, at, number) = schema::routing_batch_of(&key)
                        .ok_or_else(|| records::damaged(&key, "it is about nothing"))?;
                    span = span.clone().behind(&key, Order::Backwards);
                    if !making.add(view.sealer(), key, row, RoutingCursor { at, number })? {
                        return Ok(ControlFlow::Break((std::mem::take(&mut making), true)));
                    }
                    if view.is_enough() {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                Ok(ControlFlow::Break((std::mem::take(&mut making), false)))
            });
            let (making, more) = read.await?;
            making.page(Arc::clone(&self.secrets), more).await
        })
    }
}

impl RoutingLog for SledStore {
    fn append_routing(&self, batches: Vec<RoutingBatch>, now: Time) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let packed = tokio::task::spawn_blocking(move || routing::pack(&batches)).await;
            let mut batches = packed.map_err(|_| Fault::Stopping)?.into_iter();
            while !batches.as_slice().is_empty() {
                let secrets = Arc::clone(&self.secrets);
                let part = AppendRouting {
                    batches,
                    now,
                    secrets,
                };
                batches = self.operate(part).await?;
            }
            Ok(())
        })
    }

    fn routing_log(
        &self,
        method: MethodId,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<RoutingRecord>> {
        self.routing_page(&Slot::of_method(method), before)
    }

    fn conversations(
        &self,
        slot: &Slot,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<Conversation>> {
        self.routing_page(slot, before)
    }
}
