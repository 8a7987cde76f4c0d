//! The routing log: input and answers of each method's module and, if enabled, the calls of each provider
//! module with all requests and responses, so that another version can be replayed.
//!
//! A payment stores the reasons of its routing separately. The log is only for replays: it may lose the last
//! second when a node is killed, and no payment depends on it.

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

/// Maximum number of entries of one batch, which is one row. Fewer if they are large.
pub const ROUTING_BATCH: usize = 256;

/// An entry of the routing log: a decision, or a conversation with a provider.
pub trait RoutingEntry: Serialize {
    /// The slot whose batches contain it.
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

/// Entries of one slot that wait to be written, oldest first. They are encoded on the thread that created
/// them, because freeing memory on another thread slows both.
pub struct RoutingBatch {
    slot: Slot,
    entries: Zeroizing<Vec<u8>>,
    /// End of each entry.
    ends: Vec<usize>,
}

impl RoutingBatch {
    /// Creates an empty batch of a slot.
    pub fn new(slot: Slot) -> Self {
        Self {
            slot,
            entries: Zeroizing::default(),
            ends: Vec::new(),
        }
    }

    /// Groups entries by their slots.
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
    /// If it cannot be encoded. The batch is then unchanged.
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

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Size of the entries in bytes.
    pub fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of some entries.
    pub(crate) fn encoded(&self, some: Range<usize>) -> &[u8] {
        let end = |count: usize| count.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.entries[end(some.start)..end(some.end)]
    }
}

impl fmt::Debug for RoutingBatch {
    /// Shows no content, because entries contain settings of the operator and requests to providers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries of {}", self.len(), self.slot)
    }
}

/// End of a page of the routing log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingCursor {
    /// Time of a batch.
    pub at: Time,
    /// Number of the batch among those with the same time.
    pub number: u64,
}

/// A page of entries of a slot: decisions, or conversations with providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingPage<R> {
    /// Newest first, at most [`ROUTING_PAGE`].
    pub records: Vec<R>,
    /// Start of the next, earlier page. `None` at the end.
    pub next: Option<RoutingCursor>,
}

/// Maximum number of entries of one page.
pub const ROUTING_PAGE: usize = 16 * ROUTING_BATCH;

/// Stores routing decisions and conversations with providers for replays.
pub trait RoutingLog: Send + Sync {
    /// Appends decisions and conversations. Many are written in parts, so that after a failure some may be
    /// stored. An entry over 32 KiB after compression is left out, and the program's log reports that.
    fn append_routing(&self, batches: Vec<RoutingBatch>, now: Time) -> StoreFuture<'_, ()>;
    /// Decisions of a method, starting with the newest or at the end of a page.
    fn routing_log(
        &self,
        method: MethodId,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<RoutingRecord>>;
    /// Conversations of a provider's slot, starting with the newest or at the end of a page.
    fn conversations(
        &self,
        slot: &Slot,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<Conversation>>;
}
