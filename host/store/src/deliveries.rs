//! Webhook endpoints, and the deliveries that events are queued for.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::{DeliveryId, EndpointId, EventId, PaymentId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryStatus, Endpoint, EndpointSecrets, Tried};

use crate::{Listed, Paging, StoreFuture};

/// What became of a new endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointCreated {
    Done(Endpoint),
    /// This one of the owner's endpoints in the environment has the address.
    Taken(EndpointId),
    /// The owner has [`Endpoint::MAX_PER_OWNER`] in this environment.
    TooMany,
    /// There is no such merchant or reseller.
    NoSuchOwner,
}

/// What became of a change of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointReplaced {
    /// As it is now.
    Done(Endpoint),
    /// Another one of the owner's endpoints in the environment, this one, has the new address.
    Taken(EndpointId),
    /// It is not as the caller saw it.
    Stale,
    /// There is no such endpoint.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointDeleted {
    /// As it was.
    pub endpoint: Endpoint,
    /// How many deliveries to it were cancelled with it. [`Deliveries::sweep`] counts the rest of a
    /// great many.
    pub cancelled: u64,
}

/// What became of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointRotated {
    /// The new secret is written.
    Done {
        endpoint: Endpoint,
        /// From when on the new secret signs.
        active_from: Time,
    },
    /// The overlap is over [`EndpointSecrets::MAX_OVERLAP`].
    OverlapTooLong,
    /// There is no such endpoint.
    Unknown,
}

/// What became of a redelivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redelivered {
    /// A new delivery of the same event.
    Queued(Delivery),
    EndpointDeleted,
    /// There is no such delivery.
    Unknown,
}

/// What became of one page of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// So many were queued again.
    Page {
        /// New deliveries.
        queued: u64,
        /// Where the next page begins; none at the end.
        next: Option<DeliveryId>,
    },
    /// There is no such endpoint.
    Unknown,
}

/// What became of one page of what is to be tried sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeDue {
    /// So many are due now.
    Page {
        /// Deliveries that were not.
        hastened: u64,
        /// Where the next page begins; none at the end.
        next: Option<(Time, DeliveryId)>,
    },
    /// There is no such endpoint.
    Unknown,
}

/// A delivery that is to be tried now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDelivery {
    pub id: DeliveryId,
    pub event: EventId,
    pub kind: EventType,
    /// The payment that it tells of; zeros for `webhook.test`.
    pub payment: PaymentId,
    pub created_at: Time,
    /// Since when it is due.
    pub due_at: Time,
    /// How many attempts it has behind it.
    pub attempts: usize,
    /// Exactly what is sent.
    pub body: String,
}

/// What of an endpoint's deliveries is to be tried now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimedDeliveries {
    /// These, in order of their times.
    Due {
        /// No other worker gets them before the lease ends.
        deliveries: Vec<DueDelivery>,
        /// When the next one is due that no worker has; none where none waits.
        next: Option<Time>,
    },
    /// None: the endpoint is disabled or deleted. [`Deliveries::sweep`] ends what has to end.
    Held,
}

/// An endpoint's receiver is gone: its audit line is written where the endpoint is on and still has
/// the address that said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchOff {
    /// Which address answered.
    pub url: String,
    /// The audit line.
    pub audited: Audited,
}

/// What became of the record of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedOutcome {
    /// It is in the log.
    Taken {
        status: DeliveryStatus,
        /// When it is tried next.
        next_attempt_at: Option<Time>,
        /// Whether this record ended it: it was pending before and is not any more. What was cancelled
        /// while the attempt was under way had ended before, even where it arrived all the same.
        ended: bool,
    },
    /// Another attempt was recorded meanwhile.
    Late,
    /// There is no such delivery.
    Unknown,
}

/// What a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many deliveries of a deleted endpoint were cancelled.
    pub cancelled: u64,
    /// How many that a disabled one held back for too long are exhausted.
    pub exhausted: u64,
    /// When to look again; none where nothing waits.
    pub next: Option<Time>,
}

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Deliveries that are pending.
    pub pending: u64,
    /// The oldest of them.
    pub oldest: Oldest,
}

/// When the oldest pending deliveries were queued; none where nothing waits. Where very many wait, the
/// oldest of a part of them: of each endpoint those that are due first and last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oldest {
    /// Of those to endpoints for live payments.
    pub live: Option<Time>,
    /// Of those to endpoints for test payments.
    pub test: Option<Time>,
}

impl Oldest {
    /// A delivery was queued then.
    pub(crate) fn note(&mut self, environment: Environment, queued: Time) {
        let oldest = match environment {
            Environment::Live => &mut self.live,
            Environment::Test => &mut self.test,
        };
        *oldest = Some(oldest.map_or(queued, |known| known.min(queued)));
    }
}

/// What pruning removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// So many deliveries, with their logs, and events that no delivery is left of.
    pub deliveries: u64,
    /// Where the next page begins; none at the end.
    pub next: Option<DeliveryId>,
}

/// Which deliveries to list; all that are set must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub endpoint: Option<EndpointId>,
    /// To the endpoints that this owner has in this environment.
    pub of: Option<(KeyOwner, Environment)>,
    pub status: Option<DeliveryStatus>,
}

/// Most attempts that are recorded at once: others wait meanwhile.
pub const TRIED_MOST: usize = 64;
/// Most deliveries of one claim.
pub(crate) const MAX_CLAIM: usize = 64;
/// Most endpoints of one page of those that something waits for.
pub(crate) const MAX_WAITING: usize = 1000;

/// Webhook endpoints and deliveries.
///
/// Events are queued by [`crate::Payments::step`], in the transaction of the change that they tell of:
/// a delivery for each endpoint that wants the event at that moment: of the payment's merchant, and of the
/// reseller that made it, if it may work for the merchant then.
pub trait Deliveries: Send + Sync {
    fn create_endpoint(
        &self,
        endpoint: Endpoint,
        secrets: EndpointSecrets,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointCreated>;
    /// An endpoint by its id; none once it is deleted.
    fn endpoint(&self, id: EndpointId) -> StoreFuture<'_, Option<Endpoint>>;
    /// An endpoint with what signs for it.
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
    /// Replaces address, filter and switch of an endpoint where it is still as `before`. The address may
    /// stay whatever others have.
    fn replace_endpoint(
        &self,
        before: Endpoint,
        after: Endpoint,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointReplaced>;
    /// Deletes an endpoint; what waits for it is cancelled, the rest of a great many by
    /// [`Deliveries::sweep`]. None where there is no such endpoint.
    fn delete_endpoint(
        &self,
        id: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<EndpointDeleted>>;
    /// Has another secret sign after an overlap.
    fn rotate_endpoint(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointRotated>;

    /// Queues a `webhook.test` for one endpoint, whatever its filter; none where there is no such
    /// endpoint.
    fn queue_test(
        &self,
        endpoint: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Delivery>>;
    /// Queues the event of a delivery once more, for the same endpoint.
    fn redeliver(
        &self,
        id: DeliveryId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Redelivered>;
    /// Queues again what was created since a time, is exhausted and was not queued again yet: one
    /// page, which begins after a delivery of the page before. The `audited` line goes with the
    /// first. What is damaged is left out.
    fn recover(
        &self,
        endpoint: EndpointId,
        since: Time,
        after: Option<DeliveryId>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Recovered>;
    /// Makes due what is pending of an endpoint and due later: one page, which begins after where the page
    /// before ended. The `audited` line goes with the first. What is damaged is left out.
    fn hasten(
        &self,
        endpoint: EndpointId,
        after: Option<(Time, DeliveryId)>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, MadeDue>;
    /// Lists deliveries, newest first. One call looks at so many rows and no more: where a filter
    /// leaves out very many, a page can be short, or even empty, and say all the same where the next
    /// one begins. What is pending at one endpoint is found at once, however much has arrived since,
    /// unless thousands wait for it.
    fn deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Delivery>>;
    fn delivery(&self, id: DeliveryId) -> StoreFuture<'_, Option<Delivery>>;

    /// Resolves when deliveries were queued, or may go on, for endpoints that no answer of it has
    /// named since. One worker listens.
    fn queued(&self) -> StoreFuture<'_, Vec<EndpointId>>;
    /// Endpoints that something waits for, with the time when the first of it is due: those after
    /// one, in an order of the store's own.
    fn waiting(
        &self,
        after: Option<EndpointId>,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<(EndpointId, Time)>>;
    /// Takes what is due of an endpoint: no other worker gets it before `lease` has passed, it is given
    /// back or an attempt recorded. A lease need not survive the process: what it was for is tried
    /// again.
    fn claim(
        &self,
        endpoint: EndpointId,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, ClaimedDeliveries>;
    /// Gives back what was claimed and not tried.
    fn give_back(&self, deliveries: Vec<DeliveryId>) -> StoreFuture<'_, ()>;
    /// Records an attempt and ends its lease. `disable` switches the endpoint off in the same
    /// transaction.
    fn tried(
        &self,
        id: DeliveryId,
        tried: Tried,
        disable: Option<SwitchOff>,
        now: Time,
    ) -> StoreFuture<'_, TriedOutcome>;
    /// Records attempts of several deliveries at once, all or none of them, and ends their leases; the
    /// outcomes in the same order. At most [`TRIED_MOST`].
    fn tried_all(
        &self,
        tried: Vec<(DeliveryId, Tried)>,
        now: Time,
    ) -> StoreFuture<'_, Vec<TriedOutcome>>;
    /// Ends what waits for a deleted endpoint, and what a disabled one has held back for longer than
    /// [`kassette_domain::webhook::HELD_BACK_MOST`]; one page. A delivery that is damaged waits no
    /// longer either, but is not counted: what became of it is not known.
    fn sweep(&self, endpoint: EndpointId, now: Time) -> StoreFuture<'_, Swept>;
    /// What waits, counted.
    fn backlog(&self) -> StoreFuture<'_, Backlog>;
    /// Removes deliveries that are over and were queued before a time, one page; and events that no
    /// delivery is left of. What is damaged stays.
    fn prune_deliveries(
        &self,
        before: Time,
        after: Option<DeliveryId>,
        at_most: usize,
    ) -> StoreFuture<'_, Pruned>;
}
