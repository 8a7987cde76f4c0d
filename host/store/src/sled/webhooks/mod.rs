//! `Deliveries` on sled.

pub(crate) mod checks;
pub(crate) mod claims;
pub(crate) mod deliver;
pub(crate) mod endpoint_index;
pub(crate) mod endpoints;
pub(crate) mod outbox;

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::payment::Payment;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryStatus, Endpoint, EndpointSecrets, Tried};
use kassette_engine::{IVec, Operation, Span};

use crate::deliveries::MAX_WAITING;
use crate::rows::records;
use crate::rows::schema::webhooks::ID;
use crate::rows::schema::{self, Key};
use crate::rows::source::RowSource;
use crate::rows::stored::ListedEvent;
use crate::sled::lists::{Order, TIME_AND_ID};
use crate::sled::memory::{Memory, View};
use crate::sled::store::SledStore;
use crate::sled::webhooks::claims::{ClaimDeliveries, Ringing};
use crate::sled::webhooks::deliver::{
    MakeDue, Prune, QueueMissed, QueueTest, RecordAll, RecordTried, Recover, Redeliver, Sweep,
    trailing_id,
};
use crate::sled::webhooks::endpoint_index::EndpointIndex;
use crate::sled::webhooks::endpoints::{
    CreateEndpoint, DeleteEndpoint, ReplaceEndpoint, RotateEndpoint,
};
use crate::sled::webhooks::outbox::read_due;
use crate::{
    Backlog, ClaimedDeliveries, Deliveries, DeliveryFilter, EndpointCreated, EndpointDeleted,
    EndpointReplaced, EndpointRotated, Fault, Listed, MadeDue, Oldest, Paging, Pruned, Recovered,
    Redelivered, StoreFuture, Swept, SwitchOff, TRIED_MOST, TriedOutcome,
};

/// Maximum number of rows of waiting deliveries that are read to find the oldest.
const OLDEST_OF: usize = 10_000;
/// Number of rows read from both ends of each endpoint's rows if more deliveries wait.
const ENDS: usize = 8;
/// Maximum number of deliveries per endpoint that one page of an owner's list reads.
const MAX_MERGED: usize = 200;
/// Maximum number of an endpoint's waiting deliveries that are sorted for each page of a list.
const SORTED: usize = 2000;

impl SledStore {
    /// Runs an operation that may queue deliveries. The worker is notified after the commit.
    pub(crate) fn operate_ringing<O: Operation<Memory>>(
        &self,
        operation: O,
    ) -> StoreFuture<'_, O::Outcome> {
        let claims = Arc::clone(&self.claims);
        let operation = Ringing { operation, claims };
        Box::pin(async move {
            self.operate(operation)
                .await
                .map(|(outcome, _queued)| outcome)
        })
    }
}

/// Waiting deliveries of all endpoints after this one.
fn past(endpoint: EndpointId) -> Span {
    // After every row of this endpoint, because no time consists of eight bytes of ones.
    let mut end = schema::webhooks::due_of(endpoint);
    end.extend([u8::MAX; ID]);
    Span::prefix(schema::webhooks::DUE).after(&end)
}

/// Creation time of the oldest waiting delivery of each endpoint.
type OldestOf = HashMap<EndpointId, Time>;

/// Records the creation times of waiting deliveries.
fn note_oldest(oldest: &mut OldestOf, waiting: &[(Key, IVec)]) -> Result<(), Fault> {
    for (key, _) in waiting {
        let (endpoint, _, id) = read_due(key)?;
        let drawn = schema::webhooks::drawn_at(id);
        let known = oldest.entry(endpoint).or_insert(drawn);
        *known = drawn.min(*known);
    }
    Ok(())
}

impl SledStore {
    /// Keys under `dle/` of the pending deliveries of an endpoint, in no order. `None` if there are more than
    /// [`SORTED`].
    async fn pending_to(&self, endpoint: EndpointId) -> Result<Option<Vec<Key>>, Fault> {
        let span = Span::prefix(&schema::webhooks::due_of(endpoint));
        let waiting = self.rows_of(span, Order::Keys, SORTED + 1).await?;
        if waiting.len() > SORTED {
            return Ok(None);
        }
        let to = |(key, _): &(Key, _)| {
            read_due(key).map(|(_, _, id)| schema::webhooks::delivery_to(endpoint, id))
        };
        waiting.iter().map(to).collect::<Result<_, _>>().map(Some)
    }

    /// One page of the deliveries that match a filter.
    async fn list_deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> Result<Listed<Delivery>, Fault> {
        let take = move |view: &View<'_>, key: &[u8]| {
            // A missing delivery was pruned after its key was read.
            let delivery = outbox::load(view, trailing_id(key)?)?;
            Ok(delivery.filter(|delivery| filter.fits(delivery)))
        };
        let exhausted = filter.status == Some(DeliveryStatus::Exhausted);
        let payment = match (filter.payment, filter.event) {
            (Some(payment), _) => Some(payment),
            (None, Some(event)) => {
                let key = schema::event_index(event);
                let found: Option<ListedEvent> = self.read(move |view| view.load(&key)).await?;
                found.map(|found| found.payment)
            }
            (None, None) => None,
        };
        let prefix = match (payment, filter.endpoint) {
            (Some(payment), _) => schema::webhooks::deliveries_of(payment),
            (None, Some(endpoint)) if exhausted => schema::webhooks::failed_of(endpoint),
            (None, Some(endpoint)) => schema::webhooks::deliveries_to(endpoint),
            (None, None) => schema::webhooks::DELIVERIES.to_vec(),
        };
        if let Some((owner, environment)) = filter.of {
            let endpoints = self.endpoints_of(owner, environment).await?;
            if payment.is_none() && filter.endpoint.is_none() {
                return self.deliveries_to(endpoints, filter, paging).await;
            }
            let is_own = move |delivery: &Delivery| endpoints.contains(&delivery.endpoint);
            let take =
                move |view: &View<'_>, key: &[u8], _: &IVec| Ok(take(view, key)?.filter(&is_own));
            let span = queued_within(&prefix, &filter);
            let page = self.list_in(span, (&prefix, ID), Order::Backwards, &paging, take);
            return page.await;
        }
        if let (None, Some(endpoint), Some(DeliveryStatus::Pending)) =
            (payment, filter.endpoint, filter.status)
            && let Some(keys) = self.pending_to(endpoint).await?
        {
            let page = self.page_of((keys, None), (&prefix, ID), &paging, take);
            return page.await;
        }
        let take = move |view: &View<'_>, key: &[u8], _: &IVec| take(view, key);
        let span = queued_within(&prefix, &filter);
        let page = self.list_in(span, (&prefix, ID), Order::Backwards, &paging, take);
        page.await
    }

    /// An owner's endpoints.
    async fn endpoints_of(
        &self,
        owner: KeyOwner,
        environment: Option<Environment>,
    ) -> Result<Vec<EndpointId>, Fault> {
        self.read(move |view| {
            let mut endpoints = Vec::new();
            for world in [Environment::Test, Environment::Live] {
                if environment.is_none_or(|environment| environment == world) {
                    let key = schema::webhooks::roster(owner, world);
                    let own: Option<EndpointIndex> = view.load(&key)?;
                    endpoints.extend(own.unwrap_or_default().0.into_iter().map(|(id, _)| id));
                }
            }
            Ok(endpoints)
        })
        .await
    }

    /// One page of the deliveries to several endpoints, merged from the newest of each.
    async fn deliveries_to(
        &self,
        endpoints: Vec<EndpointId>,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> Result<Listed<Delivery>, Fault> {
        let prefix = schema::webhooks::DELIVERIES;
        let last = match &paging.cursor {
            None => None,
            Some(cursor) => match self.read_cursor(cursor, prefix, ID) {
                Some(last) => Some(trailing_id(&last)?),
                None => return Ok(Listed::BadCursor),
            },
        };
        let (mut found, mut rest) = (BTreeSet::new(), None);
        for endpoint in endpoints {
            let to = match filter.status {
                Some(DeliveryStatus::Exhausted) => schema::webhooks::failed_of(endpoint),
                _ => schema::webhooks::deliveries_to(endpoint),
            };
            let mut span = queued_within(&to, &filter);
            if let Some(last) = last {
                span = span.before(&[&to[..], last.as_bytes()].concat());
            }
            let rows = self.rows_of(span, Order::Backwards, MAX_MERGED).await?;
            let keys = rows.iter().map(|(key, _)| trailing_id(key));
            let keys = keys.map(|id| id.map(schema::webhooks::delivery));
            let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
            if keys.len() == MAX_MERGED {
                rest = rest.max(keys.last().cloned());
            }
            found.extend(keys);
        }
        if let Some(rest) = &rest {
            // Older deliveries follow rows that are not read yet.
            found = found.split_off(rest);
        }
        let found = (found.into_iter().collect(), rest);
        let page = self.page_of(found, (prefix, ID), &paging, move |view, key| {
            let delivery = outbox::load(view, trailing_id(key)?)?;
            Ok(delivery.filter(|delivery| filter.fits(delivery)))
        });
        page.await
    }

    /// Creation times of the oldest waiting deliveries. If more than [`OLDEST_OF`] wait, only the first and last due
    /// ones of each endpoint are read.
    async fn oldest_waiting(&self) -> Result<Oldest, Fault> {
        let mut span = Span::prefix(schema::webhooks::DUE);
        let waiting = self.rows_of(span.clone(), Order::Keys, OLDEST_OF).await?;
        let mut oldest = OldestOf::new();
        note_oldest(&mut oldest, &waiting)?;
        if waiting.len() < OLDEST_OF {
            return self.by_environment(oldest).await;
        }
        // The first and last due deliveries of each endpoint: a delivery with many attempts is due late.
        let mut seen = 0;
        let of_ends = self.read_aside(move |view| {
            while seen < OLDEST_OF && !view.is_enough() {
                let found = view.scan(&span, 1)?;
                let Some((key, _)) = found.first() else {
                    return Ok(ControlFlow::Break(std::mem::take(&mut oldest)));
                };
                let (endpoint, ..) = read_due(key)?;
                let of_it = Span::prefix(&schema::webhooks::due_of(endpoint));
                let mut ends = view.scan(&of_it, ENDS)?;
                ends.extend(view.scan_back(&of_it, ENDS)?);
                note_oldest(&mut oldest, &ends)?;
                seen += ends.len();
                span = past(endpoint);
            }
            Ok(match seen < OLDEST_OF {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(std::mem::take(&mut oldest)),
            })
        });
        let oldest = of_ends.await?;
        self.by_environment(oldest).await
    }

    /// The oldest of each environment. Deliveries of a deleted endpoint are ignored, because they will be
    /// cancelled.
    async fn by_environment(&self, of: OldestOf) -> Result<Oldest, Fault> {
        let (mut rest, mut oldest) = (of.into_iter(), Oldest::default());
        self.read_aside(move |view| {
            for (endpoint, drawn) in rest.by_ref() {
                if let Some(endpoint) = endpoints::load(view, endpoint)? {
                    oldest.note(endpoint.environment, drawn);
                }
                if view.is_enough() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            Ok(ControlFlow::Break(oldest))
        })
        .await
    }
}

/// Range of keys with a prefix and the id of a delivery that was queued in the filter's period.
fn queued_within(prefix: &[u8], filter: &DeliveryFilter) -> Span {
    let first = |at| {
        let id = schema::webhooks::first_delivery_id(at);
        [prefix, id.as_bytes().as_slice()].concat()
    };
    let mut span = Span::prefix(prefix);
    if let Some(since) = filter.since {
        span = span.since(&first(since));
    }
    if let Some(until) = filter.until {
        span = span.before(&first(until));
    }
    span
}

impl Deliveries for SledStore {
    fn create_endpoint(
        &self,
        endpoint: Endpoint,
        secrets: EndpointSecrets,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointCreated> {
        self.operate(CreateEndpoint {
            endpoint,
            endpoint_secrets: secrets,
            audited,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn endpoint(&self, id: EndpointId) -> StoreFuture<'_, Option<Endpoint>> {
        self.read(move |view| endpoints::load(view, id))
    }

    fn endpoint_secrets(
        &self,
        id: EndpointId,
    ) -> StoreFuture<'_, Option<(Endpoint, EndpointSecrets)>> {
        let secrets = Arc::clone(&self.secrets);
        self.read(move |view| endpoints::load_with_secrets(view, &secrets.sealer, id))
    }

    fn endpoints(
        &self,
        owner: KeyOwner,
        environment: Option<Environment>,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Endpoint>> {
        let (prefix, order) = (schema::webhooks::endpoints_of(owner), Order::Keys);
        self.list(&prefix, TIME_AND_ID, order, &paging, move |view, key, _| {
            let id = schema::trailing_id(key).map(EndpointId::from_bytes);
            let id = id.ok_or_else(|| records::damaged(key, "it names no endpoint"))?;
            // A missing endpoint was deleted after its key was read.
            let endpoint = endpoints::load(view, id)?;
            Ok(endpoint.filter(|found| environment.is_none_or(|of| of == found.environment)))
        })
    }

    fn replace_endpoint(
        &self,
        before: Endpoint,
        after: Endpoint,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointReplaced> {
        self.operate_ringing(ReplaceEndpoint {
            before,
            after,
            audited,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn delete_endpoint(
        &self,
        id: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<EndpointDeleted>> {
        self.operate_ringing(DeleteEndpoint { id, audited, now })
    }

    fn rotate_endpoint(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointRotated> {
        self.operate(RotateEndpoint {
            id,
            secret,
            overlap,
            audited,
            now,
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn queue_test(
        &self,
        endpoint: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Delivery>> {
        self.operate_ringing(QueueTest {
            endpoint,
            audited,
            now,
        })
    }

    fn redeliver(
        &self,
        id: DeliveryId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Redelivered> {
        self.operate_ringing(Redeliver { id, audited, now })
    }

    fn recover(
        &self,
        endpoint: EndpointId,
        since: Time,
        after: Option<DeliveryId>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Recovered> {
        self.operate_ringing(Recover {
            endpoint,
            since,
            after,
            audited,
            now,
        })
    }

    fn queue_missed(
        &self,
        endpoint: EndpointId,
        events: Vec<(Event, Payment)>,
        now: Time,
    ) -> StoreFuture<'_, u64> {
        self.operate_ringing(QueueMissed {
            endpoint,
            events,
            now,
        })
    }

    fn hasten(
        &self,
        endpoint: EndpointId,
        after: Option<(Time, DeliveryId)>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, MadeDue> {
        self.operate_ringing(MakeDue {
            endpoint,
            after,
            audited,
            now,
        })
    }

    fn deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Delivery>> {
        Box::pin(self.list_deliveries(filter, paging))
    }

    fn delivery(&self, id: DeliveryId) -> StoreFuture<'_, Option<Delivery>> {
        self.read(move |view| outbox::load(view, id))
    }

    fn queued(&self) -> StoreFuture<'_, Vec<EndpointId>> {
        Box::pin(async move { Ok(self.claims.bell.queued().await) })
    }

    fn waiting(
        &self,
        after: Option<EndpointId>,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<(EndpointId, Time)>> {
        let mut span = after.map_or_else(|| Span::prefix(schema::webhooks::DUE), past);
        let mut waiting = Vec::new();
        self.read_aside(move |view| {
            while waiting.len() < at_most.min(MAX_WAITING) {
                if view.is_enough() {
                    return Ok(ControlFlow::Continue(()));
                }
                let found = view.scan(&span, 1)?;
                let Some((key, _)) = found.first() else {
                    break;
                };
                let (endpoint, at, _) = read_due(key)?;
                waiting.push((endpoint, at));
                span = past(endpoint);
            }
            Ok(ControlFlow::Break(std::mem::take(&mut waiting)))
        })
    }

    fn claim(
        &self,
        endpoint: EndpointId,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, ClaimedDeliveries> {
        let claims = Arc::clone(&self.claims);
        let mut claim = ClaimDeliveries::new(claims, endpoint, now, lease, at_most);
        self.read_aside(move |view| claim.go_on(view))
    }

    fn give_back(&self, deliveries: Vec<DeliveryId>) -> StoreFuture<'_, ()> {
        self.claims.give_back(&deliveries);
        Box::pin(async { Ok(()) })
    }

    fn tried(
        &self,
        id: DeliveryId,
        tried: Tried,
        disable: Option<SwitchOff>,
        now: Time,
    ) -> StoreFuture<'_, TriedOutcome> {
        let record = RecordTried {
            id,
            tried,
            disable,
            now,
            secrets: Arc::clone(&self.secrets),
        };
        Box::pin(async move {
            // Disabling an endpoint queues events for others.
            let outcome = match record.disable.is_some() {
                true => self.operate_ringing(record).await?,
                false => self.operate(record).await?,
            };
            self.claims.give_back(&[id]);
            Ok(outcome)
        })
    }

    fn tried_all(
        &self,
        tried: Vec<(DeliveryId, Tried)>,
        now: Time,
    ) -> StoreFuture<'_, Vec<TriedOutcome>> {
        debug_assert!(
            tried.len() <= TRIED_MOST,
            "the applier does nothing else meanwhile"
        );
        let ids: Vec<_> = tried.iter().map(|(id, _)| *id).collect();
        let records = tried.into_iter().map(|(id, tried)| RecordTried {
            id,
            tried,
            disable: None,
            now,
            secrets: Arc::clone(&self.secrets),
        });
        let records = RecordAll(records.collect());
        Box::pin(async move {
            let outcomes = self.operate(records).await?;
            self.claims.give_back(&ids);
            Ok(outcomes)
        })
    }

    fn sweep(&self, endpoint: EndpointId, now: Time) -> StoreFuture<'_, Swept> {
        self.tidy(Sweep { endpoint, now })
    }

    fn backlog(&self) -> StoreFuture<'_, Backlog> {
        Box::pin(async move {
            Ok(Backlog {
                pending: self.read(|view| outbox::pending(view)).await?,
                oldest: self.oldest_waiting().await?,
            })
        })
    }

    fn prune_deliveries(
        &self,
        before: Time,
        after: Option<DeliveryId>,
        at_most: usize,
    ) -> StoreFuture<'_, Pruned> {
        self.tidy(Prune {
            before,
            after,
            at_most,
        })
    }
}
