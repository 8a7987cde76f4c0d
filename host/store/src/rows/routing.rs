//! Rows of the routing log: some entries of one slot, compressed and then sealed, because a module's input
//! includes the operator's settings. Redaction of a payer does not change them. The context of a decision
//! contains only the payer's country and whether there is an e-mail address, but a conversation contains
//! everything that was sent to the provider.

use std::ops::Range;

use kassette_domain::conversation::Conversation;
use kassette_domain::id::{Slot, SlotKind};
use kassette_domain::routing::RoutingRecord;
use kassette_engine::IVec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::rows::records;
use crate::rows::schema::Key;
use crate::rows::seal::{Sealer, Secrets};
use crate::{
    Fault, ROUTING_BATCH, ROUTING_PAGE, RoutingBatch, RoutingCursor, RoutingEntry, RoutingPage,
};

/// Maximum size of a batch, in bytes. A typical one has 20 KiB; a few of the largest are read in one slice.
const MOST: usize = 32 << 10;

/// A batch of entries of one slot, ready to be written.
#[derive(Debug)]
pub(crate) struct PackedBatch {
    pub(crate) slot: Slot,
    pub(crate) records: u32,
    bytes: Vec<u8>,
}

/// Compresses batches, in order. Takes a millisecond for some thousands of decisions, so it must not run on
/// threads that others wait for.
pub(crate) fn pack(batches: &[RoutingBatch]) -> Vec<PackedBatch> {
    let mut packed = Vec::new();
    for batch in batches {
        for first in (0..batch.len()).step_by(ROUTING_BATCH) {
            let end = batch.len().min(first + ROUTING_BATCH);
            pack_some(batch, first..end, &mut packed);
        }
    }
    packed
}

/// Compresses some entries, in several parts if they are large.
fn pack_some(batch: &RoutingBatch, some: Range<usize>, packed: &mut Vec<PackedBatch>) {
    let entries = batch.encoded(some.clone());
    // In postcard's encoding of a list.
    let mut plain = Zeroizing::new(Vec::with_capacity(entries.len() + 10));
    let _ = postcard::to_io(&some.len(), &mut *plain);
    plain.extend_from_slice(entries);
    let bytes = lz4_flex::compress_prepend_size(&plain);
    if bytes.len() <= MOST {
        packed.push(PackedBatch {
            slot: batch.slot().clone(),
            records: u32::try_from(some.len()).unwrap_or(u32::MAX),
            bytes,
        });
    } else if some.len() == 1 {
        tracing::warn!(
            plugin.slot = %batch.slot(),
            bytes = bytes.len(),
            "an entry of the routing log is not kept: it is over {MOST} bytes"
        );
    } else {
        let middle = some.start + some.len() / 2;
        pack_some(batch, some.start..middle, packed);
        pack_some(batch, middle..some.end, packed);
    }
}

/// The row of a batch.
#[derive(Serialize, Deserialize)]
struct BatchRow {
    records: u32,
    sealed: Vec<u8>,
}

/// Totals of the log, as the embedded store counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoutingLogTotals {
    /// Number of the next batch.
    pub(crate) next: u64,
    /// Total size of all batches, in bytes.
    pub(crate) bytes: u64,
}

/// Size of a batch, as in the embedded store's index by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) records: u32,
    pub(crate) bytes: u32,
}

impl Size {
    /// Size of a batch with this row.
    pub(crate) fn new(records: u32, row: &[u8]) -> Self {
        Self {
            records,
            bytes: u32::try_from(row.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Encodes a batch.
pub(crate) fn encode(sealer: &Sealer, key: &[u8], batch: &PackedBatch) -> Result<IVec, Fault> {
    let row = BatchRow {
        records: batch.records,
        sealed: sealer.seal(key, &batch.bytes)?,
    };
    records::encode(sealer, key, &row)
}

/// Number of entries in a row.
pub(crate) fn count(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<u32, Fault> {
    records::decode_head(sealer, key, row)
}

/// Decodes the entries of a row, in order.
pub(crate) fn open<R: DeserializeOwned>(
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Vec<R>, Fault> {
    let row: BatchRow = records::decode(sealer, key, row)?;
    let packed = open_packed(sealer, key, &row)?;
    let plain = lz4_flex::decompress_size_prepended(&packed).map(Zeroizing::new);
    let plain = plain.map_err(|_| records::damaged(key, "it does not unpack"))?;
    postcard::from_bytes(&plain)
        .map_err(|_| records::damaged(key, "its entries do not have their form"))
}

/// Slots of the entries in a row that is stored under `slot`.
pub(crate) fn slots(
    sealer: &Sealer,
    slot: &Slot,
    key: &[u8],
    row: &[u8],
) -> Result<Vec<Slot>, Fault> {
    fn slots_of<R: RoutingEntry>(entries: Vec<R>) -> Vec<Slot> {
        entries.iter().map(RoutingEntry::slot).collect()
    }
    match slot.kind() {
        SlotKind::Method => open::<RoutingRecord>(sealer, key, row).map(slots_of),
        SlotKind::Provider => open::<Conversation>(sealer, key, row).map(slots_of),
    }
}

fn open_packed(sealer: &Sealer, key: &[u8], row: &BatchRow) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let opened = sealer.open(key, &row.sealed).map(Zeroizing::new);
    opened.map_err(|_| records::damaged(key, "it does not open"))
}

/// Seals a row under another key.
pub(crate) fn reseal(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let mut row: BatchRow = records::decode(old, key, row)?;
    row.sealed = new.seal(key, &*open_packed(old, key, &row)?)?;
    records::encode(new, key, &row)
}

/// Collects the rows of a page, newest first.
pub(crate) struct Making<R> {
    rows: Vec<(Key, R)>,
    records: usize,
    last: Option<RoutingCursor>,
}

impl<R> Default for Making<R> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            records: 0,
            last: None,
        }
    }
}

impl<R: AsRef<[u8]> + Send + 'static> Making<R> {
    /// Adds the next row. False if it belongs to the next page.
    pub(crate) fn add(
        &mut self,
        sealer: &Sealer,
        key: Key,
        row: R,
        at: RoutingCursor,
    ) -> Result<bool, Fault> {
        let count = count(sealer, &key, row.as_ref())?;
        self.records += usize::try_from(count).unwrap_or(usize::MAX);
        if self.records > ROUTING_PAGE {
            return Ok(false);
        }
        self.rows.push((key, row));
        self.last = Some(at);
        Ok(true)
    }

    /// Returns the page. `more` means that a row follows. Opens the rows on the blocking thread pool.
    pub(crate) async fn page<E: DeserializeOwned + Send + 'static>(
        self,
        secrets: std::sync::Arc<Secrets>,
        more: bool,
    ) -> Result<RoutingPage<E>, Fault> {
        let next = self.last.filter(|_| more);
        let opened = tokio::task::spawn_blocking(move || {
            let mut records = Vec::with_capacity(self.records.min(ROUTING_PAGE));
            for (key, row) in self.rows {
                let opened = open::<E>(&secrets.sealer, &key, row.as_ref())?;
                records.extend(opened.into_iter().rev());
            }
            Ok(RoutingPage { records, next })
        });
        opened.await.unwrap_or(Err(Fault::Stopping))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kassette_domain::method::MethodId;
    use proptest::prelude::*;

    use super::*;
    use crate::rows::schema;
    use crate::rows::seal::MasterKey;
    use crate::suite::fixtures::{NOW, routing_record};

    fn sealer(key: u8) -> Sealer {
        Sealer::new(&MasterKey::from_bytes([key; 32]))
    }

    /// Text that hardly compresses.
    fn noise(seed: u64, length: usize) -> String {
        let mut text = String::new();
        while text.len() < length {
            let of = (seed, text.len() as u64);
            let bytes = postcard::to_stdvec(&of).unwrap();
            text += &kassette_domain::id::Digest::hash(&bytes).to_string();
        }
        text.truncate(length);
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_packed_and_sealed_opens_as_it_was(
            lengths in prop::collection::vec((0..3_usize, 0..20_000_usize), 0..700),
            small in any::<bool>(),
        ) {
            let methods = [MethodId::Ideal, MethodId::Paypal, MethodId::Klarna];
            let mut written: BTreeMap<Slot, Vec<RoutingRecord>> = BTreeMap::new();
            let mut all = Vec::new();
            for (number, (method, length)) in (0_u64..).zip(lengths) {
                let mut record = routing_record(methods[method], number);
                let length = if small { length % 50 } else { length };
                record.context.settings.push(("text".into(), noise(number, length)));
                written.entry(record.slot()).or_default().push(record.clone());
                all.push(record);
            }
            let sealer = sealer(1);
            let mut read: BTreeMap<Slot, Vec<RoutingRecord>> = BTreeMap::new();
            for (number, batch) in (0..).zip(pack(&RoutingBatch::group(&all).unwrap())) {
                let key = schema::routing_batch(&batch.slot, NOW, number);
                let row = encode(&sealer, &key, &batch).unwrap();
                prop_assert!(row.len() <= MOST + 100, "{} bytes", row.len());
                let opened: Vec<RoutingRecord> = open(&sealer, &key, &row).unwrap();
                prop_assert!(opened.len() <= ROUTING_BATCH);
                prop_assert_eq!(count(&sealer, &key, &row), Ok(opened.len() as u32));
                read.entry(batch.slot).or_default().extend(opened);
            }
            prop_assert_eq!(read, written);
        }
    }

    #[test]
    fn a_decision_that_is_too_large_is_left_out_and_no_other() {
        let mut large = routing_record(MethodId::Ideal, 1);
        let text = ("text".to_owned(), noise(1, 4 * MOST));
        large.context.settings.push(text);
        let others = [0, 2].map(|number| routing_record(MethodId::Ideal, number));
        let all = vec![others[0].clone(), large, others[1].clone()];
        let mut read = Vec::new();
        for batch in pack(&RoutingBatch::group(&all).unwrap()) {
            let row = encode(&sealer(1), b"rlg/", &batch).unwrap();
            read.extend(open::<RoutingRecord>(&sealer(1), b"rlg/", &row).unwrap());
        }
        assert_eq!(read, others);
    }

    #[test]
    fn a_row_opens_under_its_key_alone_and_after_another_seal_under_the_new_one() {
        let records = vec![routing_record(MethodId::Ideal, 1)];
        let batch = pack(&RoutingBatch::group(&records).unwrap()).remove(0);
        let key = schema::routing_batch(&batch.slot, NOW, 7);
        let row = encode(&sealer(1), &key, &batch).unwrap();
        assert!(open::<RoutingRecord>(&sealer(2), &key, &row).is_err());
        let resealed = reseal(&sealer(1), &sealer(2), &key, &row).unwrap();
        assert_eq!(open(&sealer(2), &key, &resealed), Ok(records));
        assert!(open::<RoutingRecord>(&sealer(1), &key, &resealed).is_err());
    }
}
