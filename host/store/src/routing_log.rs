//! The routing log: what each method's module saw and said, and where that is switched on what each provider's was
//! asked, heard and answered, so that another version can be asked the same.
//!
//! A payment keeps why it went where it went by itself. The log is for replay: it may lose what the last second
//! brought when a node is killed, and nothing of a payment depends on it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use kassette_domain::conversation::Conversation;
use kassette_domain::id::Slot;
use kassette_domain::method::MethodId;
use kassette_domain::routing::RoutingRecord;
use kassette_domain::time::Time;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::{Fault, StoreFuture};

/// Most entries of one batch, which is one row. Fewer where they are large.
pub const ROUTING_BATCH: usize = 256;

/// An entry of the routing log: a decision, or a conversation with a provider.
pub trait RoutingEntry: Serialize {
    /// Whose batches it stands in.
    fn slot(&self) -> Slot;
}

impl<C: Serialize, A: Serialize> RoutingEntry for RoutingRecord<C, A> {
    fn slot(&self) -> Slot {
        Slot::of_method(self.method)
    }
}

impl RoutingEntry for Conversation {
    fn slot(&self) -> Slot {
        self.slot.clone()
    }
}

/// Entries of one slot that wait to be written, oldest first. They are encoded where they were made: a thread that
/// frees what others have allocated makes both slower.
pub struct RoutingBatch {
    slot: Slot,
    entries: Zeroizing<Vec<u8>>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl RoutingBatch {
    pub fn new(slot: Slot) -> Self {
        Self {
            slot,
            entries: Zeroizing::default(),
            ends: Vec::new(),
        }
    }

    /// Parts entries by their slots.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub fn group<E: RoutingEntry>(entries: &[E]) -> Result<Vec<Self>, Fault> {
        let mut by_slot: BTreeMap<Slot, Self> = BTreeMap::new();
        for entry in entries {
            let slot = entry.slot();
            let batch = by_slot.entry(slot.clone());
            batch.or_insert_with(|| Self::new(slot)).push(entry)?;
        }
        Ok(by_slot.into_values().collect())
    }

    /// Appends an entry of the batch's slot.
    ///
    /// # Errors
    /// Where it cannot be encoded; the batch is as it was.
    pub fn push<E: RoutingEntry>(&mut self, entry: &E) -> Result<(), Fault> {
        let before = self.entries.len();
        if let Err(error) = postcard::to_io(entry, &mut *self.entries) {
            self.entries.truncate(before);
            let why = format!("an entry of the routing log cannot be encoded: {error}");
            return Err(Fault::Unavailable(why));
        }
        self.ends.push(self.entries.len());
        Ok(())
    }

    pub const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of some of them.
    pub(crate) fn encoded(&self, some: Range<usize>) -> &[u8] {
        let end = |count: usize| count.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.entries[end(some.start)..end(some.end)]
    }
}

impl fmt::Debug for RoutingBatch {
    /// Entries hold settings of the operator and what providers were told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries of {}", self.len(), self.slot)
    }
}

/// Where a page of the routing log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingCursor {
    /// The time of a batch.
    pub at: Time,
    /// Its number among those of one time.
    pub number: u64,
}

/// Some entries of a slot: decisions, or conversations with providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingPage<R> {
    /// Newest first, at most [`ROUTING_PAGE`].
    pub records: Vec<R>,
    /// Where earlier ones begin; none at the end.
    pub next: Option<RoutingCursor>,
}

/// Most entries of one page.
pub const ROUTING_PAGE: usize = 16 * ROUTING_BATCH;

/// Keeps routing decisions, and conversations with providers, for replay.
pub trait RoutingLog: Send + Sync {
    /// Appends decisions and conversations. Many are written in parts: where it fails, some may be there. One that is
    /// over 32 KiB when it is compressed is left out, which the log of the program tells.
    fn append_routing(&self, batches: Vec<RoutingBatch>, now: Time) -> StoreFuture<'_, ()>;
    /// Decisions of a method, from the newest or from where a page ended.
    fn routing_log(
        &self,
        method: MethodId,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<RoutingRecord>>;
    /// Conversations of a provider's slot, from the newest or from where a page ended.
    fn conversations(
        &self,
        slot: &Slot,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<Conversation>>;
}
