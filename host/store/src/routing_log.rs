//! The routing log: what each method's module saw and said, and where that is switched on what each provider's was
//! asked, heard and answered, so that another version can be asked the same.
//!
//! A payment keeps why it went where it went by itself. The log is for replay: it may lose what the last second
//! brought when a node is killed, and nothing of a payment depends on it.

use kassette_domain::conversation::Conversation;
use kassette_domain::id::Slot;
use kassette_domain::method::MethodId;
use kassette_domain::routing::RoutingRecord;
use kassette_domain::time::Time;

use crate::StoreFuture;

/// Most entries of one batch, which is one row. Fewer where they are large.
pub const ROUTING_BATCH: usize = 256;

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
    /// Appends decisions, oldest first and of any methods. Many are written in parts: where it fails, some may be
    /// there. One that is over 32 KiB when it is compressed is left out, which the log of the program tells.
    fn append_routing(&self, records: Vec<RoutingRecord>, now: Time) -> StoreFuture<'_, ()>;
    /// Decisions of a method, from the newest or from where a page ended.
    fn routing_log(
        &self,
        method: MethodId,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<RoutingRecord>>;
    /// Appends conversations with providers, oldest first and of any slots, as [`RoutingLog::append_routing`] does
    /// decisions.
    fn append_conversations(
        &self,
        conversations: Vec<Conversation>,
        now: Time,
    ) -> StoreFuture<'_, ()>;
    /// Conversations of a provider's slot, from the newest or from where a page ended.
    fn conversations(
        &self,
        slot: &Slot,
        before: Option<RoutingCursor>,
    ) -> StoreFuture<'_, RoutingPage<Conversation>>;
}
