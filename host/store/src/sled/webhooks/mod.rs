//! `Deliveries` on sled.

pub(crate) mod checks;
pub(crate) mod claims;
pub(crate) mod deliver;
pub(crate) mod endpoint_index;
pub(crate) mod endpoints;
pub(crate) mod outbox;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, DeliveryStatus, Endpoint, EndpointSecrets, Tried};
use kassette_engine::{IVec, Operation, Span};

use crate::deliveries::MAX_WAITING;
use crate::rows::records;
use crate::rows::schema::webhooks::ID;
use crate::rows::schema::{self, Key};
use crate::rows::source::RowSource;
use crate::sled::lists::{Order, TIME_AND_ID};
use crate::sled::memory::{Memory, View};
use crate::sled::store::SledStore;
use crate::sled::webhooks::claims::{ClaimDeliveries, Ringing};
use crate::sled::webhooks::deliver::{
    MakeDue, Prune, QueueTest, RecordAll, RecordTried, Recover, Redeliver, Sweep, trailing_id,
};
use crate::sled::webhooks::endpoint_index::EndpointIndex;
use crate::sled::webhooks::endpoints::{
    CreateEndpoint, DeleteEndpoint, ReplaceEndpoint, RotateEndpoint,
};
use crate::sled::webhooks::outbox::{DeliveryRow, read_due};
use crate::{
    Backlog, ClaimedDeliveries, Deliveries, DeliveryFilter, EndpointCreated, EndpointDeleted,
    EndpointReplaced, EndpointRotated, Fault, Listed, MadeDue, Oldest, Paging, Pruned, Recovered,
    Redelivered, StoreFuture, Swept, SwitchOff, TRIED_MOST, TriedOutcome,
};

/// Rows of waiting deliveries that are looked at for the oldest.
const OLDEST_OF: usize = 10_000;
/// Rows that are looked at from either end of an endpoint's, where more wait than that.
const ENDS: usize = 8;
/// Most waiting deliveries of an endpoint that are put into the order of a list with each page.
const SORTED: usize = 2000;

impl SledStore {
    /// Does an operation that may queue deliveries; the worker hears of it after the commit.
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

/// What waits for the endpoints behind one.
fn past(endpoint: EndpointId) -> Span {
    // Behind every row of this endpoint: no time has eight bytes of ones.
    let mut end = schema::webhooks::due_of(endpoint);
    end.extend([u8::MAX; ID]);
    Span::prefix(schema::webhooks::DUE).after(&end)
}

/// Of endpoints that something waits for, when the oldest of it was drawn.
type OldestOf = HashMap<EndpointId, Time>;

/// Notes when some waiting deliveries were drawn.
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
    /// Keys under `dle/` of what is pending at an endpoint, in no order; none where that is more than
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

    /// When the oldest of all that waits was drawn; where there is more of it than [`OLDEST_OF`], of those
    /// that are most likely to be.
    async fn oldest_waiting(&self) -> Result<Oldest, Fault> {
        let mut span = Span::prefix(schema::webhooks::DUE);
        let waiting = self.rows_of(span.clone(), Order::Keys, OLDEST_OF).await?;
        let mut oldest = OldestOf::new();
        note_oldest(&mut oldest, &waiting)?;
        if waiting.len() < OLDEST_OF {
            return self.by_environment(oldest).await;
        }
        // Of each endpoint what is due first, and last: what was tried often is due late.
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

    /// The oldest of each environment. What waits for a deleted endpoint is about to be cancelled.
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
            // Deleted since its key was read where it is missing.
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
        let prefix = match (filter.endpoint, filter.status) {
            (Some(endpoint), Some(DeliveryStatus::Exhausted)) => {
                schema::webhooks::failed_of(endpoint)
            }
            (Some(endpoint), _) => schema::webhooks::deliveries_to(endpoint),
            (None, _) => schema::webhooks::DELIVERIES.to_vec(),
        };
        let mut own: Option<EndpointIndex> = None;
        let mut take = move |view: &View<'_>, key: &[u8]| {
            let id = trailing_id(key)?;
            // Pruned since its key was read where it is missing.
            let Some(row) = view.load::<DeliveryRow>(&schema::webhooks::delivery(id))? else {
                return Ok(None);
            };
            if let Some((owner, environment)) = filter.of {
                if own.is_none() {
                    let roster = schema::webhooks::roster(owner, environment);
                    own = Some(view.load(&roster)?.unwrap_or_default());
                }
                let is_own = |own: &EndpointIndex| own.0.iter().any(|(id, _)| *id == row.endpoint);
                if !own.as_ref().is_some_and(is_own) {
                    return Ok(None);
                }
            }
            if filter.status.is_some_and(|status| status != row.status) {
                return Ok(None);
            }
            outbox::whole(view, id, row).map(Some)
        };
        Box::pin(async move {
            if let (Some(endpoint), Some(DeliveryStatus::Pending)) =
                (filter.endpoint, filter.status)
                && let Some(keys) = self.pending_to(endpoint).await?
            {
                let page = self.page_of((keys, None), (&prefix, ID), &paging, take);
                return page.await;
            }
            let order = Order::Backwards;
            let take = move |view: &View<'_>, key: &[u8], _: &IVec| take(view, key);
            self.list(&prefix, ID, order, &paging, take).await
        })
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
            let outcome = self.operate(record).await?;
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
