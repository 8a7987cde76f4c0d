//! The worker: claims what is due, has it tried, and sleeps until something is queued or due.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::key::Environment;
use kassette_domain::time::Time;
use kassette_domain::webhook::DeliveryStatus;
use kassette_http::{CertificateDer, Client, HostPattern};
use kassette_store::{ClaimedDeliveries, DueDelivery, Fault, Swept, TRIED_MOST};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempt::{Attempted, FAULT_PAUSE, LEASE, Unrecorded, count_ended};
use super::scheduler::{AttemptOutcome, Scheduler, SchedulerAction};
use super::status::{CircuitChange, WorkerStatus};
use crate::Gateway;
use crate::settings::Webhooks;
use crate::watch::NO_ENVIRONMENT;

/// From then on an attempt counts as slow. It is the longest that a stranger waits for a quick slot
/// while silent ones have them all, and longer than most receivers take.
const LINGERS: Duration = Duration::from_millis(250);
/// How often the store is asked for everything that waits, once it has answered the time before.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// So often where other nodes serve the store too: what one of them leaves is for the others.
const LOOK_EVERY_AMONG_NODES: Duration = Duration::from_secs(5);
/// Records under way at once: one that is synced, and one that is made meanwhile.
const RECORDINGS: usize = 2;
/// Most ends of attempts that are taken before anything else is looked at.
const AT_ONCE: usize = 64;
/// Endpoints read at once where something waits.
const PAGE: usize = 1000;
/// How long attempts under way may take to end when the process does. Others are repeated later.
const LEAVE: Duration = Duration::from_secs(2);

/// What the gateway keeps for deliveries.
pub(crate) struct Deliverer {
    /// The guarded client.
    client: Client,
    /// What test events go through while the settings name hosts for them: it shares no connection with
    /// the other, so that nothing live reaches what it reaches.
    test_client: Mutex<Option<TestClient>>,
    activity: watch::Sender<Activity>,
    /// Asks the worker to look at everything that waits.
    look: Notify,
    /// How often it was asked to.
    asked: AtomicU64,
    /// What the worker knows, for callers that ask.
    pub(super) status: WorkerStatus,
}

/// A client that reaches inner hosts, with what it was made for.
struct TestClient {
    hosts: Vec<HostPattern>,
    authorities: Vec<CertificateDer<'static>>,
    client: Client,
}

/// What the worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Off,
    Busy,
    /// Nothing is due of all that waited when it last looked; with the number of the last request to
    /// look that it followed.
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
        }
    }

    /// What an environment's events go through under these settings.
    pub(crate) fn client(&self, environment: Environment, webhooks: &Webhooks) -> Client {
        let Webhooks {
            test_hosts,
            test_authorities,
            ..
        } = webhooks;
        if environment == Environment::Live || test_hosts.is_empty() {
            return self.client.clone();
        }
        let mut known = self.test_client.lock();
        match &*known {
            Some(known) if known.hosts == *test_hosts && known.authorities == *test_authorities => {
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

/// The end of something that ran beside the worker.
enum Done {
    Claimed(EndpointId, Result<ClaimedDeliveries, Fault>),
    Swept(EndpointId, Option<Time>),
    /// It was tried, or could not be, and what was to be recorded is.
    Ended(DeliveryId, AttemptOutcome, Option<Time>),
    /// It has arrived, which is to be recorded.
    Arrived(DeliveryId, Box<Unrecorded>),
    /// That these have arrived is recorded; when to look at their endpoints again, if ever.
    Recorded(Vec<(DeliveryId, EndpointId, Option<Time>)>),
    /// What waits, for that request to look.
    Looked(u64, Result<Vec<(EndpointId, Time)>, Fault>),
}

struct Worker<'a> {
    gateway: &'a Gateway,
    scheduler: Scheduler,
    jobs: JoinSet<Done>,
    /// When attempts under way began.
    begun: HashMap<DeliveryId, Instant>,
    /// When attempts begin to linger, earliest first; those that are over too.
    lingering: VecDeque<(Instant, DeliveryId)>,
    /// Deliveries that have arrived, which are not being recorded yet.
    arrived: Vec<Unrecorded>,
    /// Records under way.
    recording: usize,
    look_at: Instant,
    is_looking: bool,
    /// The number of the last request to look that was followed.
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

    /// Counts what a sweep has ended, and tells the log of what it gave up.
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
        // One that is deleted does not say any more.
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

    /// Resolves when nothing is left that is due now, or where no worker runs.
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
        // The sender lives as long as the gateway.
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
        // No other node has to wait for the leases of what was not begun.
        let buffered = self.scheduler.take_buffered();
        self.give_back(buffered).await;
    }

    /// Does everything that can be begun now.
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

    /// Records what has arrived, while its slots are others'.
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

    /// Ends what has to end of an endpoint that takes nothing.
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

    /// Takes what has ended, and what else has by now.
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
                // An operator's act; its circuit says nothing of the receiver.
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
            // Whatever panics here is caught where it runs.
            None => {}
        }
    }

    /// Whether an attempt that is over lingered.
    fn has_lingered(&mut self, delivery: DeliveryId) -> bool {
        let began = self.begun.remove(&delivery);
        began.is_some_and(|began| began.elapsed() >= LINGERS)
    }

    /// Shows callers of the status what became of an endpoint's circuit; what has changed, if anything.
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

    /// Asks the store for everything that waits. The worker goes on meanwhile: that may take long.
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

    /// Tells flows of attempts that have begun to linger.
    fn note_lingering(&mut self) {
        let now = Instant::now();
        while let Some((at, id)) = self.lingering.pop_front_if(|(at, _)| *at <= now) {
            // A later attempt of the same delivery has a time of its own.
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

/// Records an attempt; says when to look at its endpoint again.
async fn record(gateway: &Gateway, attempt: Unrecorded) -> Option<Time> {
    let recorded = AssertUnwindSafe(gateway.record(attempt)).catch_unwind();
    recorded
        .await
        .unwrap_or_else(|_| Some(again_after_panic(gateway)))
}

/// Nothing of the store should panic; where it does, its endpoint waits a moment and not for ever.
async fn caught<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let caught = AssertUnwindSafe(work).catch_unwind().await;
    caught.unwrap_or_else(|_| Err(Fault::Unavailable("it panicked".into())))
}

/// Nothing of an attempt should panic; where it does, one delivery waits for its lease to end.
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
