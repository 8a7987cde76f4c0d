//! `Deliveries` on PostgreSQL.

pub(crate) mod claims;
pub(crate) mod deliver;
mod endings;
pub(crate) mod endpoints;
mod list;
pub(crate) mod outbox;

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::payment::Payment;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Delivery, Endpoint, EndpointSecrets, Tried};

use crate::postgres::database::TransactionWork;
use crate::postgres::webhooks::deliver::{
    MakeDue, Prune, QueueMissed, QueueTest, RecordAndDisable, Recover, Redeliver,
};
use crate::postgres::webhooks::endpoints::{
    CreateEndpoint, DeleteEndpoint, ReplaceEndpoint, RotateEndpoint,
};
use crate::postgres::{PostgresStore, uuid};
use crate::{
    Backlog, ClaimedDeliveries, Deliveries, DeliveryFilter, EndpointCreated, EndpointDeleted,
    EndpointReplaced, EndpointRotated, Listed, MadeDue, Paging, Pruned, Recovered, Redelivered,
    StoreFuture, Swept, SwitchOff, TRIED_MOST, TriedOutcome,
};

impl PostgresStore {
    /// Executes an operation after which deliveries of an endpoint may be due from `at` on, and wakes the
    /// worker.
    fn operate_ringing<W: TransactionWork>(
        &self,
        work: W,
        (endpoint, at): (EndpointId, Time),
    ) -> StoreFuture<'static, W::Outcome> {
        self.run_to_end(async move |store| {
            let done = store.requests.transact(&work).await;
            // If the answer was lost, the operation may have succeeded.
            store.claims.ring(&[endpoint], at);
            done
        })
    }
}

impl Deliveries for PostgresStore {
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
        Box::pin(async move {
            let found = self
                .requests
                .read_one(endpoints::ONE, &[&uuid(id.as_bytes())])
                .await?;
            found
                .map(|found| endpoints::plain(&self.secrets.sealer, id, &found))
                .transpose()
        })
    }

    fn endpoint_secrets(
        &self,
        id: EndpointId,
    ) -> StoreFuture<'_, Option<(Endpoint, EndpointSecrets)>> {
        Box::pin(async move {
            let found = self
                .workers
                .read_one(endpoints::ONE, &[&uuid(id.as_bytes())])
                .await?;
            let sealer = &self.secrets.sealer;
            found
                .map(|found| endpoints::whole(sealer, id, &found))
                .transpose()
        })
    }

    fn endpoints(
        &self,
        owner: KeyOwner,
        environment: Option<Environment>,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Endpoint>> {
        Box::pin(self.list_endpoints(owner, environment, paging))
    }

    fn replace_endpoint(
        &self,
        before: Endpoint,
        after: Endpoint,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, EndpointReplaced> {
        // Waiting deliveries may resume.
        let ringing = (before.id, Time::default());
        let replace = ReplaceEndpoint {
            before,
            after,
            audited,
            now,
            secrets: Arc::clone(&self.secrets),
        };
        self.operate_ringing(replace, ringing)
    }

    fn delete_endpoint(
        &self,
        id: EndpointId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<EndpointDeleted>> {
        // The worker cancels the remaining deliveries.
        self.operate_ringing(DeleteEndpoint { id, audited, now }, (id, Time::default()))
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
        let test = QueueTest {
            endpoint,
            audited,
            now,
        };
        self.operate_ringing(test, (endpoint, now))
    }

    fn redeliver(
        &self,
        id: DeliveryId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Redelivered> {
        self.run_to_end(async move |store| {
            let queued = store
                .requests
                .transact(&Redeliver { id, audited, now })
                .await?;
            if let Redelivered::Queued(delivery) = &queued {
                store.claims.ring(&[delivery.endpoint], now);
            }
            Ok(queued)
        })
    }

    fn recover(
        &self,
        endpoint: EndpointId,
        since: Time,
        after: Option<DeliveryId>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Recovered> {
        let recover = Recover {
            endpoint,
            since,
            after,
            audited,
            now,
        };
        self.operate_ringing(recover, (endpoint, now))
    }

    fn queue_missed(
        &self,
        endpoint: EndpointId,
        events: Vec<(Event, Payment)>,
        now: Time,
    ) -> StoreFuture<'_, u64> {
        let queue = QueueMissed {
            endpoint,
            events,
            now,
        };
        self.operate_ringing(queue, (endpoint, now))
    }

    fn hasten(
        &self,
        endpoint: EndpointId,
        after: Option<(Time, DeliveryId)>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, MadeDue> {
        let hasten = MakeDue {
            endpoint,
            after,
            audited,
            now,
        };
        self.operate_ringing(hasten, (endpoint, now))
    }

    fn deliveries(
        &self,
        filter: DeliveryFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Delivery>> {
        Box::pin(self.list_deliveries(filter, paging))
    }

    fn delivery(&self, id: DeliveryId) -> StoreFuture<'_, Option<Delivery>> {
        Box::pin(async move {
            let ids = [uuid(id.as_bytes())];
            let found = self
                .requests
                .read_one(deliver::SOME, &[&ids.as_slice()])
                .await?;
            found
                .map(|found| outbox::delivery(&self.secrets.sealer, &found))
                .transpose()
        })
    }

    fn queued(&self) -> StoreFuture<'_, Vec<EndpointId>> {
        Box::pin(async move { Ok(self.claims.bell.queued().await) })
    }

    fn waiting(
        &self,
        after: Option<EndpointId>,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<(EndpointId, Time)>> {
        Box::pin(self.list_waiting(after, at_most))
    }

    fn claim(
        &self,
        endpoint: EndpointId,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, ClaimedDeliveries> {
        self.run_to_end(async move |store| {
            store.claim_deliveries(endpoint, now, lease, at_most).await
        })
    }

    fn give_back(&self, deliveries: Vec<DeliveryId>) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| store.give_deliveries_back(&deliveries).await)
    }

    fn tried(
        &self,
        id: DeliveryId,
        tried: Tried,
        disable: Option<SwitchOff>,
        now: Time,
    ) -> StoreFuture<'_, TriedOutcome> {
        self.run_to_end(async move |store| {
            let tried = [(id, tried)];
            let outcomes = match disable {
                Some(disable) if store.is_gone(id, &disable).await? => {
                    let tried = tried.clone();
                    let record = RecordAndDisable {
                        tried,
                        disable,
                        now,
                    };
                    store.workers.transact(&record).await?
                }
                _ => store.record(&tried).await?,
            };
            store.end_leases(&tried, &outcomes).await;
            Ok(outcomes.into_iter().next().unwrap_or(TriedOutcome::Unknown))
        })
    }

    fn tried_all(
        &self,
        tried: Vec<(DeliveryId, Tried)>,
        _now: Time,
    ) -> StoreFuture<'_, Vec<TriedOutcome>> {
        debug_assert!(tried.len() <= TRIED_MOST, "others wait meanwhile");
        self.run_to_end(async move |store| {
            let outcomes = store.record(&tried).await?;
            store.end_leases(&tried, &outcomes).await;
            Ok(outcomes)
        })
    }

    fn sweep(&self, endpoint: EndpointId, now: Time) -> StoreFuture<'_, Swept> {
        self.run_to_end(async move |store| store.sweep_endpoint(endpoint, now).await)
    }

    fn backlog(&self) -> StoreFuture<'_, Backlog> {
        Box::pin(self.count_waiting())
    }

    fn prune_deliveries(
        &self,
        before: Time,
        after: Option<DeliveryId>,
        at_most: usize,
    ) -> StoreFuture<'_, Pruned> {
        let prune = Prune {
            before,
            after,
            at_most,
        };
        self.run_to_end(async move |store| store.workers.transact(&prune).await)
    }
}
