//! Webhook endpoints, and the deliveries of events to them.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{DeliveryId, EndpointId, EventId, PaymentId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::payment::Payment;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryStatus, Endpoint, EndpointSecrets, Tried};

use crate::{Listed, Paging, StoreFuture};

/// Result of creating an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointCreated {
    Done(Endpoint),
    /// This endpoint of the owner in the environment has the address.
    Taken(EndpointId),
    /// The owner has [`Endpoint::MAX_PER_OWNER`] in this environment.
    TooMany,
    /// The merchant or reseller does not exist.
    NoSuchOwner,
}

/// Result of changing an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointReplaced {
    /// The changed endpoint.
    Done(Endpoint),
    /// This other endpoint of the owner in the environment has the new address.
    Taken(EndpointId),
    /// The endpoint has changed since the caller read it.
    Stale,
    /// The endpoint does not exist.
    Unknown,
}

/// A deleted endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointDeleted {
    /// The endpoint before its deletion.
    pub endpoint: Endpoint,
    /// Number of deliveries that were cancelled with it. If there are very many, [`Deliveries::sweep`] counts
    /// the rest.
    pub cancelled: u64,
}

/// Result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointRotated {
    /// The new secret was written.
    Done {
        endpoint: Endpoint,
        /// Time from which the new secret signs.
        active_from: Time,
    },
    /// The overlap exceeds [`EndpointSecrets::MAX_OVERLAP`].
    OverlapTooLong,
    /// The endpoint does not exist.
    Unknown,
}

/// Result of a redelivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redelivered {
    /// A new delivery of the same event.
    Queued(Delivery),
    EndpointDeleted,
    /// The delivery does not exist.
    Unknown,
}

/// Maximum number of events in [`Deliveries::queue_missed`]: the embedded store writes nothing else during the call.
pub const MISSED_MOST: usize = 16;

/// Result of one page of [`Deliveries::recover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Events were queued again.
    Page {
        /// Number of new deliveries.
        queued: u64,
        /// Start of the next page. `None` at the end.
        next: Option<DeliveryId>,
    },
    /// The endpoint does not exist.
    Unknown,
}

/// Result of one page of [`Deliveries::hasten`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeDue {
    /// Deliveries were made due.
    Page {
        /// Number of deliveries that were not due before.
        hastened: u64,
        /// Start of the next page. `None` at the end.
        next: Option<(Time, DeliveryId)>,
    },
    /// The endpoint does not exist.
    Unknown,
}

/// A claimed delivery that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDelivery {
    pub id: DeliveryId,
    pub event: EventId,
    pub kind: EventType,
    /// The payment that the event is about. Zeros for `webhook.test`.
    pub payment: PaymentId,
    pub created_at: Time,
    /// Time since which it is due.
    pub due_at: Time,
    /// Number of earlier attempts.
    pub attempts: usize,
    /// The exact body to send.
    pub body: String,
}

/// Result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimedDeliveries {
    /// Due deliveries, in order of their times.
    Due {
        /// No other worker gets them before the lease ends.
        deliveries: Vec<DueDelivery>,
        /// Time at which the next unclaimed delivery is due. `None` if no delivery waits.
        next: Option<Time>,
    },
    /// The endpoint is disabled or deleted. [`Deliveries::sweep`] ends the deliveries that must end.
    Held,
}

/// Disables an endpoint whose receiver no longer exists. Applied, with its audit line, only if the endpoint
/// is enabled and still has the address that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchOff {
    /// The address that answered.
    pub url: String,
    /// The audit line of the change.
    pub audited: Audited,
}

/// Result of recording an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedOutcome {
    /// The attempt is recorded.
    Taken {
        status: DeliveryStatus,
        /// Time of the next attempt. `None` if there is none.
        next_attempt_at: Option<Time>,
        /// Whether this record ended a pending delivery. A delivery that was cancelled while the attempt was
        /// in flight had ended before, even if it arrived.
        ended: bool,
    },
    /// Another attempt was recorded in the meantime.
    Late,
    /// The delivery does not exist.
    Unknown,
}

/// Result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Number of cancelled deliveries of a deleted endpoint.
    pub cancelled: u64,
    /// Number of exhausted deliveries of an endpoint that was disabled for too long.
    pub exhausted: u64,
    /// Time of the next sweep. `None` if no delivery waits.
    pub next: Option<Time>,
}

/// Figures of waiting deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of pending deliveries.
    pub pending: u64,
    /// Creation times of the oldest ones.
    pub oldest: Oldest,
}

/// Creation times of the oldest pending deliveries. `None` without any. If very many are pending, only the
/// first and last due ones of each endpoint are considered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oldest {
    /// To endpoints for live payments.
    pub live: Option<Time>,
    /// To endpoints for test payments.
    pub test: Option<Time>,
}

impl Oldest {
    /// Adds a delivery that was queued at `queued`.
    pub(crate) fn note(&mut self, environment: Environment, queued: Time) {
        let oldest = match environment {
            Environment::Live => &mut self.live,
            Environment::Test => &mut self.test,
        };
        *oldest = Some(oldest.map_or(queued, |known| known.min(queued)));
    }
}

/// Result of pruning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Number of removed deliveries. Their attempts, and events without further deliveries, were removed too.
    pub deliveries: u64,
    /// Start of the next page. `None` at the end.
    pub next: Option<DeliveryId>,
}

/// Filter for deliveries. All given conditions must match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub endpoint: Option<EndpointId>,
    /// To this owner's endpoints, in one environment or in both.
    pub of: Option<(KeyOwner, Option<Environment>)>,
    pub status: Option<DeliveryStatus>,
    /// Exhausted, or pending after a failed attempt.
    pub failed: bool,
    pub payment: Option<PaymentId>,
    pub event: Option<EventId>,
    /// Queued at this time or later.
    pub since: Option<Time>,
    /// Queued before this time.
    pub until: Option<Time>,
}

impl DeliveryFilter {
    /// Whether a delivery matches the filter. Does not check the endpoint's owner.
    pub(crate) fn fits(&self, delivery: &Delivery) -> bool {
        let has_failed = match delivery.status {
            DeliveryStatus::Exhausted => true,
            DeliveryStatus::Pending => !delivery.attempts.is_empty(),
            DeliveryStatus::Delivered | DeliveryStatus::Cancelled => false,
        };
        self.endpoint.is_none_or(|id| id == delivery.endpoint)
            && self.status.is_none_or(|status| status == delivery.status)
            && (!self.failed || has_failed)
            && self.payment.is_none_or(|id| id == delivery.payment)
            && self.event.is_none_or(|id| id == delivery.event)
            && self.since.is_none_or(|since| since <= delivery.created_at)
            && self.until.is_none_or(|until| delivery.created_at < until)
    }
}

/// Maximum number of attempts recorded together, because other operations wait in the meantime.
pub const TRIED_MOST: usize = 64;
/// Maximum number of deliveries of one claim.
pub(crate) const MAX_CLAIM: usize = 64;
/// Maximum number of endpoints in one page of [`Deliveries::waiting`].
pub(crate) const MAX_WAITING: usize = 1000;

/// Webhook endpoints and deliveries.
///
/// [`crate::Payments::step`] queues events, in the transaction of the change that they describe: a delivery
/// for each endpoint that wants the event at that time, of the payment's merchant, and of the reseller that
/// created it if it may act for the merchant then.
pub trait Deliveries: Send + Sync {
    /// Creates an endpoint. The owner must exist and the address must be free in the environment.
    fn create_endpoint(
        &self,
        endpoint: Endpoint,
        secrets: EndpointSecrets,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointCreated>;
    /// Returns an endpoint by its id. `None` after its deletion.
    fn endpoint(&self, id: EndpointId) -> StoreFuture<'_, Option<Endpoint>>;
    /// Returns an endpoint with its signing secrets.
    fn endpoint_secrets(
        &self,
        id: EndpointId,
    ) -> StoreFuture<'_, Option<(Endpoint, EndpointSecrets)>>;
    /// Lists an owner's endpoints, in one environment or in both, newest first.
    fn endpoints(
        &self,
        owner: KeyOwner,
        environment: Option<Environment>,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Endpoint>>;
    /// Replaces address, filter and enabled state of an endpoint that still equals `before`. An unchanged
    /// address is allowed even if other endpoints have it.
    fn replace_endpoint(
        &self,
        before: Endpoint,
        after: Endpoint,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointReplaced>;
    /// Deletes an endpoint and cancels its waiting deliveries. If there are very many, [`Deliveries::sweep`]
    /// cancels the rest. `None` if the endpoint does not exist.
    fn delete_endpoint(
        &self,
        id: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<EndpointDeleted>>;
    /// Adds a new secret that signs after an overlap.
    fn rotate_endpoint(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointRotated>;

    /// Queues a `webhook.test` for one endpoint, regardless of its filter. `None` if the endpoint does not
    /// exist.
    fn queue_test(
        &self,
        endpoint: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Delivery>>;
    /// Queues the event of a delivery again, for the same endpoint.
    fn redeliver(
        &self,
        id: DeliveryId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Redelivered>;
    /// Queues again, in pages, the events of exhausted deliveries that were created since a time and were not
    /// queued again yet. Each page starts after a delivery of the previous page. The `audited` line is
    /// written with the first page. Skips damaged deliveries.
    fn recover(
        &self,
        endpoint: EndpointId,
        since: Time,
        after: Option<DeliveryId>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Recovered>;
    /// Queues events that an endpoint missed because it was off, each with its payment. Skips events that are already
    /// queued for it. At most [`MISSED_MOST`]. Returns the number queued.
    fn queue_missed(
        &self,
        endpoint: EndpointId,
        events: Vec<(Event, Payment)>,
        now: Time,
    ) -> StoreFuture<'_, u64>;
    /// Makes one page of an endpoint's pending deliveries due now, starting after `after`. The `audited` line is
    /// written with the first page. Skips damaged deliveries.
    fn hasten(
        &self,
        endpoint: EndpointId,
        after: Option<(Time, DeliveryId)>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, MadeDue>;
    /// Lists deliveries, newest first. One call reads a limited number of rows, so that a page of a filter
    /// with few matches may be short or empty and still have a cursor. Pending deliveries of one endpoint are
    /// found immediately, regardless of the number of newer ones, unless thousands wait for it.
    fn deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Delivery>>;
    /// Returns a delivery with its attempts. `None` if it does not exist.
    fn delivery(&self, id: DeliveryId) -> StoreFuture<'_, Option<Delivery>>;

    /// Resolves when deliveries were queued or can continue. Returns their endpoints that no earlier call has
    /// returned since. One worker waits.
    fn queued(&self) -> StoreFuture<'_, Vec<EndpointId>>;
    /// Returns endpoints with waiting deliveries, each with the time at which the first one is due: those
    /// after the endpoint `after`, in an order that the store chooses.
    fn waiting(
        &self,
        after: Option<EndpointId>,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<(EndpointId, Time)>>;
    /// Claims due deliveries of an endpoint: no other worker gets them before `lease` has passed, they are
    /// released or an attempt is recorded. A lease need not survive the process, after which the deliveries
    /// are attempted again.
    fn claim(
        &self,
        endpoint: EndpointId,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, ClaimedDeliveries>;
    /// Releases claimed deliveries without an attempt.
    fn give_back(&self, deliveries: Vec<DeliveryId>) -> StoreFuture<'_, ()>;
    /// Records an attempt and ends its lease. `disable` disables the endpoint in the same transaction.
    fn tried(
        &self,
        id: DeliveryId,
        tried: Tried,
        disable: Option<SwitchOff>,
        now: Time,
    ) -> StoreFuture<'_, TriedOutcome>;
    /// Records attempts of several deliveries, all or none, and ends their leases. Returns the results in the
    /// same order. At most [`TRIED_MOST`].
    fn tried_all(
        &self,
        tried: Vec<(DeliveryId, Tried)>,
        now: Time,
    ) -> StoreFuture<'_, Vec<TriedOutcome>>;
    /// Ends one page of the deliveries of a deleted endpoint, or of those that a disabled one has held back
    /// for longer than [`kassette_domain::webhook::HELD_BACK_MOST`]. A damaged delivery ends too, but is not
    /// counted, because its outcome is unknown.
    fn sweep(&self, endpoint: EndpointId, now: Time) -> StoreFuture<'_, Swept>;
    /// Returns the figures of waiting deliveries.
    fn backlog(&self) -> StoreFuture<'_, Backlog>;
    /// Removes one page of ended deliveries that were queued before a time, and events without further
    /// deliveries. Damaged ones stay.
    fn prune_deliveries(
        &self,
        before: Time,
        after: Option<DeliveryId>,
        at_most: usize,
    ) -> StoreFuture<'_, Pruned>;
}
