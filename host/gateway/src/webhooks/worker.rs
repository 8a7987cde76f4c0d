//! The worker: claims due deliveries, runs attempts, and sleeps until something is queued or due.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_domain::webhook::DeliveryStatus;
use kassette_http::{CertificateDer, Client, HostPattern};
use kassette_store::{ClaimedDeliveries, DueDelivery, Fault, Swept, TRIED_MOST};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempt::{Attempted, FAULT_PAUSE, LEASE, Unrecorded, count_ended};
use super::gone::GoneEndpoints;
use super::scheduler::{AttemptOutcome, Scheduler, SchedulerAction};
use super::status::{CircuitChange, WorkerStatus};
use crate::Gateway;
use crate::settings::Webhooks;
use crate::watch::NO_ENVIRONMENT;

/// Duration after which an attempt counts as slow: the maximum time that a new endpoint waits for a quick
/// slot while silent ones occupy them all, and longer than most receivers take.
const LINGERS: Duration = Duration::from_millis(250);
/// Interval at which all waiting deliveries are requested from the store, unless a request is in flight.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The same with several nodes, because what one node leaves behind is for the others.
const LOOK_EVERY_AMONG_NODES: Duration = Duration::from_secs(5);
/// Maximum number of concurrent records: one that is synced, and one that is prepared in the meantime.
const RECORDINGS: usize = 2;
/// Maximum number of finished attempts that are processed before other work.
const AT_ONCE: usize = 64;
/// Number of endpoints read per page.
const PAGE: usize = 1000;
/// Maximum time for running attempts to end when the process stops. Unfinished ones are repeated later.
const LEAVE: Duration = Duration::from_secs(2);

/// State of the gateway for deliveries.
pub(crate) struct Deliverer {
    client: Client,
    /// Client for test events, created while the settings name hosts for them. It shares no connection with
    /// the other client, so that no live event reaches those hosts.
    test_client: Mutex<Option<TestClient>>,
    activity: watch::Sender<Activity>,
    /// Requests a search for everything that waits.
    look: Notify,
    asked: AtomicU64,
    /// State of the worker for other callers.
    pub(super) status: WorkerStatus,
    pub(super) gone: GoneEndpoints,
}

/// A client that reaches internal hosts, with the settings that it was created for.
struct TestClient {
    hosts: Vec<HostPattern>,
    authorities: Vec<CertificateDer<'static>>,
    client: Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Off,
    Busy,
    /// Nothing was due at the last search. Contains the number of the last request for a search that was
    /// followed.
    Idle(u64),
}

impl Deliverer {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            test_client: Mutex::default(),
            activity: watch::Sender::new(Activity::Off),
            look: Notify::new(),
            asked: AtomicU64::new(0),
            status: WorkerStatus::default(),
            gone: GoneEndpoints::default(),
        }
    }

    /// The client for public hosts.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The client for the internal hosts that these settings allow.
    pub(super) fn inner_client(&self, webhooks: &Webhooks) -> Client {
        let test_authorities = &webhooks.test_authorities;
        let test_hosts: Vec<_> = webhooks
            .test_hosts
            .iter()
            .map(|host| host.host.clone())
            .collect();
        let mut known = self.test_client.lock();
        match &*known {
            Some(known) if known.hosts == test_hosts && known.authorities == *test_authorities => {
                known.client.clone()
            }
            _ => {
                let client = self.client.reaching(test_hosts.clone(), test_authorities);
                *known = Some(TestClient {
                    hosts: test_hosts.clone(),
                    authorities: test_authorities.clone(),
                    client: client.clone(),
                });
                client
            }
        }
    }

    fn publish(&self, activity: Activity) {
        self.activity
            .send_if_modified(|now| std::mem::replace(now, activity) != activity);
    }
}

/// The end of a concurrent job of the worker.
enum Done {
    Claimed(EndpointId, Result<ClaimedDeliveries, Fault>),
    Swept(EndpointId, Option<Time>),
    /// An attempt was made, or could not be, and everything about it is recorded.
    Ended(DeliveryId, AttemptOutcome, Option<Time>),
    /// An attempt was delivered and must be recorded.
    Arrived(DeliveryId, Box<Unrecorded>),
    /// These delivered attempts are recorded. Contains the times at which their endpoints must be checked
    /// again, if any.
    Recorded(Vec<(DeliveryId, EndpointId, Option<Time>)>),
    /// Everything that waits, for the request with this number.
    Looked(u64, Result<Vec<(EndpointId, Time)>, Fault>),
}

struct Worker<'a> {
    gateway: &'a Gateway,
    scheduler: Scheduler,
    jobs: JoinSet<Done>,
    /// Start times of running attempts.
    begun: HashMap<DeliveryId, Instant>,
    /// Times at which attempts start to linger, earliest first. May contain ended attempts.
    lingering: VecDeque<(Instant, DeliveryId)>,
    /// Delivered attempts that are not being recorded yet.
    arrived: Vec<Unrecorded>,
    recording: usize,
    look_at: Instant,
    is_looking: bool,
    /// Number of the last request for a search that was followed.
    looked: u64,
}

impl Gateway {
    /// Delivers events until `stop` resolves.
    pub(crate) async fn deliver(&self, stop: impl Future<Output = ()> + Send) {
        let mut worker = Worker {
            gateway: self,
            scheduler: Scheduler::default(),
            jobs: JoinSet::new(),
            begun: HashMap::new(),
            lingering: VecDeque::new(),
            arrived: Vec::new(),
            recording: 0,
            look_at: Instant::now(),
            is_looking: false,
            looked: 0,
        };
        self.inner.deliverer.publish(Activity::Busy);
        worker.run(stop).await;
        self.inner.deliverer.publish(Activity::Off);
    }

    /// Counts the deliveries that a sweep has ended, and logs the exhausted ones.
    async fn tell_swept(&self, endpoint: EndpointId, swept: &Swept) {
        let Swept {
            cancelled,
            exhausted,
            ..
        } = *swept;
        if cancelled == 0 && exhausted == 0 {
            return;
        }
        let directory = &self.inner.directory;
        // The environment of a deleted endpoint is unknown.
        let environment = match directory.recipient(self.store().as_ref(), endpoint).await {
            Ok(Some(recipient)) => recipient.endpoint.environment.as_str(),
            _ => NO_ENVIRONMENT,
        };
        if exhausted > 0 {
            tracing::warn!(
                endpoint.id = %endpoint, environment, deliveries = exhausted,
                "deliveries are given up: their endpoint has been disabled for too long"
            );
        }
        count_ended(DeliveryStatus::Cancelled, environment, cancelled);
        count_ended(DeliveryStatus::Exhausted, environment, exhausted);
    }

    /// Resolves when nothing is due now, or if no worker runs.
    pub(crate) async fn delivered(&self) {
        let deliverer = &self.inner.deliverer;
        let mut activity = deliverer.activity.subscribe();
        let request = deliverer.asked.fetch_add(1, Ordering::SeqCst) + 1;
        deliverer.look.notify_one();
        let over = |activity: &Activity| match activity {
            Activity::Off => true,
            Activity::Busy => false,
            Activity::Idle(looked) => request <= *looked,
        };
        // Cannot fail, because the sender lives as long as the gateway.
        let _ = activity.wait_for(over).await;
    }
}

impl Worker<'_> {
    async fn run(&mut self, stop: impl Future<Output = ()>) {
        let gateway = self.gateway;
        let deliverer = &gateway.inner.deliverer;
        let mut stop = pin!(stop);
        loop {
            let has_time_come = |at: Instant| at <= Instant::now();
            if has_time_come(self.look_at) {
                self.look();
            }
            self.note_lingering();
            self.act().await;
            deliverer.status.slots(self.scheduler.slots());
            let now = gateway.now();
            deliverer.publish(if self.scheduler.is_idle(now) {
                Activity::Idle(self.looked)
            } else {
                Activity::Busy
            });
            let due = async {
                match self.scheduler.wakes_at() {
                    Some(at) => gateway.clock().wait_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let first_lingers = self.lingering.front().map(|(at, _)| *at);
            let wake_at = first_lingers.map_or(self.look_at, |at| at.min(self.look_at));
            tokio::select! {
                () = &mut stop => break,
                Some(done) = self.jobs.join_next() => self.take_all(done.ok()),
                queued = gateway.store().queued() => self.hear(queued).await,
                () = deliverer.look.notified() => self.look_at = Instant::now(),
                () = due => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
        }
        let leave = async {
            while let Some(done) = self.jobs.join_next().await {
                self.take(done.ok());
                self.record();
            }
        };
        if tokio::time::timeout(LEAVE, leave).await.is_err() {
            tracing::info!("deliveries under way are left; they are repeated after their leases");
        }
        // Other nodes need not wait for the leases of deliveries without an attempt.
        let buffered = self.scheduler.take_buffered();
        self.give_back(buffered).await;
    }

    /// Performs all actions that can start now.
    async fn act(&mut self) {
        let settings = self.gateway.settings();
        self.scheduler.hold_for(settings.webhooks.circuit_hold);
        self.scheduler.limit_slots(settings.webhooks.few_files);
        self.record();
        let now = self.gateway.now();
        while let Some(action) = self.scheduler.next(now) {
            match action {
                SchedulerAction::Claim(endpoint, at_most) => self.claim(endpoint, at_most, now),
                SchedulerAction::GiveBack(dropped) => self.give_back(dropped).await,
                SchedulerAction::Start(endpoint, due) => self.start(endpoint, *due),
            }
        }
    }

    async fn give_back(&self, dropped: Vec<DeliveryId>) {
        if let Err(fault) = self.gateway.store().give_back(dropped).await {
            tracing::warn!(error = %fault, "deliveries were not given back");
        }
    }

    fn claim(&mut self, endpoint: EndpointId, at_most: usize, now: Time) {
        let gateway = self.gateway.clone();
        self.jobs.spawn(async move {
            let claim = async { gateway.store().claim(endpoint, now, LEASE, at_most).await };
            Done::Claimed(endpoint, caught(claim).await)
        });
    }

    fn start(&mut self, endpoint: EndpointId, due: DueDelivery) {
        let gateway = self.gateway.clone();
        let (id, began) = (due.id, Instant::now());
        self.begun.insert(id, began);
        self.lingering.push_back((began + LINGERS, id));
        self.jobs.spawn(async move {
            let attempt = AssertUnwindSafe(gateway.attempt(endpoint, due));
            match attempt.catch_unwind().await {
                Ok(Attempted::Not(again)) => Done::Ended(id, AttemptOutcome::NotTried, Some(again)),
                Ok(Attempted::Sent(sent)) if sent.went() == AttemptOutcome::Delivered => {
                    Done::Arrived(id, sent)
                }
                Ok(Attempted::Sent(sent)) => {
                    let went = sent.went();
                    Done::Ended(id, went, record(&gateway, *sent).await)
                }
                Err(_) => Done::Ended(
                    id,
                    AttemptOutcome::Failed,
                    Some(again_after_panic(&gateway)),
                ),
            }
        });
    }

    /// Records delivered attempts. Their slots are already used by others.
    fn record(&mut self) {
        while self.recording < RECORDINGS && !self.arrived.is_empty() {
            let count = self.arrived.len().min(TRIED_MOST);
            let arrived: Vec<_> = self.arrived.drain(..count).collect();
            self.recording += 1;
            let gateway = self.gateway.clone();
            self.jobs.spawn(async move {
                let again = again_after_panic(&gateway);
                let ids: Vec<_> = arrived
                    .iter()
                    .map(|each| (each.id(), each.endpoint()))
                    .collect();
                let recorded = AssertUnwindSafe(gateway.record_all(arrived)).catch_unwind();
                let recorded = recorded.await.unwrap_or_else(|_| {
                    let ids = ids.into_iter();
                    ids.map(|(id, endpoint)| (id, endpoint, Some(again)))
                        .collect()
                });
                Done::Recorded(recorded)
            });
        }
    }

    /// Ends the deliveries of a disabled or deleted endpoint that must end.
    fn sweep(&mut self, endpoint: EndpointId) {
        let gateway = self.gateway.clone();
        self.jobs.spawn(async move {
            let now = gateway.now();
            let sweep = async { gateway.store().sweep(endpoint, now).await };
            let next = match caught(sweep).await {
                Ok(swept) => {
                    gateway.tell_swept(endpoint, &swept).await;
                    swept.next
                }
                Err(fault) => {
                    tracing::error!(error = %fault, endpoint.id = %endpoint, "what waits for an endpoint could not be ended");
                    Some(now.after(FAULT_PAUSE))
                }
            };
            Done::Swept(endpoint, next)
        });
    }

    /// Processes the first finished job, and others that have finished since.
    fn take_all(&mut self, first: Option<Done>) {
        self.take(first);
        for _ in 0..AT_ONCE {
            let Some(done) = self.jobs.try_join_next() else {
                return;
            };
            self.take(done.ok());
        }
    }

    fn take(&mut self, done: Option<Done>) {
        let now = self.gateway.now();
        match done {
            Some(Done::Claimed(endpoint, Ok(ClaimedDeliveries::Due { deliveries, next }))) => {
                self.scheduler.claimed(endpoint, deliveries, next, now);
            }
            Some(Done::Claimed(endpoint, Ok(ClaimedDeliveries::Held))) => {
                self.scheduler.disable_flow(endpoint);
                // An operator disabled it; its circuit says nothing about the receiver.
                let _closed = self.tell_circuit(Some(endpoint));
                self.sweep(endpoint);
            }
            Some(Done::Claimed(endpoint, Err(fault))) => {
                tracing::error!(error = %fault, endpoint.id = %endpoint, "deliveries could not be claimed");
                let later = Some(now.after(FAULT_PAUSE));
                self.scheduler.claim_over(endpoint, later, now);
            }
            Some(Done::Swept(endpoint, next)) => self.scheduler.claim_over(endpoint, next, now),
            Some(Done::Ended(id, went, again)) => {
                let has_lingered = self.has_lingered(id);
                let endpoint = self.scheduler.ended(id, went, has_lingered, again, now);
                if self.tell_circuit(endpoint) == Some(CircuitChange::Open)
                    && let Some(endpoint) = endpoint
                {
                    tracing::warn!(
                        endpoint.id = %endpoint,
                        "a webhook endpoint keeps failing: it is left alone for a while"
                    );
                }
            }
            Some(Done::Arrived(id, arrived)) => {
                let has_lingered = self.has_lingered(id);
                self.scheduler.arrived(id, has_lingered, now);
                let endpoint = arrived.endpoint();
                if self.tell_circuit(Some(endpoint)) == Some(CircuitChange::Closed) {
                    tracing::info!(endpoint.id = %endpoint, "the webhook endpoint is well again");
                }
                self.arrived.push(*arrived);
            }
            Some(Done::Recorded(recorded)) => {
                self.recording -= 1;
                for (id, endpoint, again) in recorded {
                    self.scheduler.recorded(id, endpoint, again);
                }
            }
            Some(Done::Looked(asked, Ok(waiting))) => {
                for (endpoint, at) in waiting {
                    self.scheduler.due(endpoint, at);
                }
                (self.is_looking, self.looked) = (false, asked);
            }
            Some(Done::Looked(_, Err(fault))) => {
                tracing::error!(error = %fault, "the store does not say what waits");
                self.is_looking = false;
                self.look_at = Instant::now() + FAULT_PAUSE;
            }
            // Panics are caught inside the jobs.
            None => {}
        }
    }

    /// Whether an ended attempt lingered.
    fn has_lingered(&mut self, delivery: DeliveryId) -> bool {
        let began = self.begun.remove(&delivery);
        began.is_some_and(|began| began.elapsed() >= LINGERS)
    }

    /// Publishes the circuit of an endpoint. Returns its change, if any.
    fn tell_circuit(&self, endpoint: Option<EndpointId>) -> Option<CircuitChange> {
        let endpoint = endpoint?;
        let status = &self.gateway.inner.deliverer.status;
        status.circuit(endpoint, self.scheduler.circuit(endpoint))
    }

    async fn hear(&mut self, queued: Result<Vec<EndpointId>, Fault>) {
        match queued {
            Ok(endpoints) => {
                let now = self.gateway.now();
                for endpoint in endpoints {
                    self.scheduler.due(endpoint, now);
                }
            }
            Err(fault) => {
                tracing::error!(error = %fault, "the store does not say what is queued");
                tokio::time::sleep(FAULT_PAUSE).await;
            }
        }
    }

    /// Asks the store for everything that waits. The worker continues in the meantime, because that may take
    /// long.
    fn look(&mut self) {
        if self.is_looking {
            self.look_at = Instant::now() + FAULT_PAUSE;
            return;
        }
        let every = match self.gateway.store().live_nodes() {
            1 => LOOK_EVERY,
            _ => LOOK_EVERY_AMONG_NODES,
        };
        (self.look_at, self.is_looking) = (Instant::now() + every, true);
        let deliverer = &self.gateway.inner.deliverer;
        deliverer.status.circuits(self.scheduler.circuits());
        let asked = deliverer.asked.load(Ordering::SeqCst);
        let gateway = self.gateway.clone();
        self.jobs.spawn(async move {
            let look = async {
                let (mut waiting, mut after) = (Vec::new(), None);
                loop {
                    let page = gateway.store().waiting(after, PAGE).await?;
                    after = page.last().map(|(endpoint, _)| *endpoint);
                    let is_last = page.len() < PAGE;
                    waiting.extend(page);
                    if is_last {
                        return Ok(waiting);
                    }
                }
            };
            Done::Looked(asked, caught(look).await)
        });
    }

    /// Reports attempts that have started to linger to the scheduler.
    fn note_lingering(&mut self) {
        let now = Instant::now();
        while let Some((at, id)) = self.lingering.pop_front_if(|(at, _)| *at <= now) {
            // A later attempt of the same delivery has its own time.
            if self
                .begun
                .get(&id)
                .is_some_and(|began| *began + LINGERS == at)
            {
                self.scheduler.lingers(id);
            }
        }
    }
}

/// Records an attempt. Returns the time of its endpoint's next check.
async fn record(gateway: &Gateway, attempt: Unrecorded) -> Option<Time> {
    let recorded = AssertUnwindSafe(gateway.record(attempt)).catch_unwind();
    recorded
        .await
        .unwrap_or_else(|_| Some(again_after_panic(gateway)))
}

/// The store should not panic. If it does, the endpoint waits for a moment instead of permanently.
async fn caught<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let caught = AssertUnwindSafe(work).catch_unwind().await;
    caught.unwrap_or_else(|_| Err(Fault::Unavailable("it panicked".into())))
}

/// An attempt should not panic. If it does, the delivery waits for its lease to end.
fn again_after_panic(gateway: &Gateway) -> Time {
    gateway.now().after(LEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_panics_has_failed_and_its_endpoint_is_looked_at_again() {
        let panics = async { panic!("on purpose") };
        let failed: Result<(), Fault> = caught(panics).await;
        assert!(matches!(failed, Err(Fault::Unavailable(_))));
        assert_eq!(caught(async { Ok(7) }).await, Ok(7));
    }
}
