//! The worker: claims what is due, has it tried, and sleeps until something is queued or due.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_http::Client;
use kassette_store::{Claimed, DueDelivery, Fault};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempt::Ended;
use super::lanes::{Action, Lanes, Went};
use crate::Gateway;
use crate::settings::Settings;

/// How long a delivery is a worker's: longer than it may wait for its slot, an attempt, and its
/// record together.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// The pause after the store failed.
pub(super) const FAULT_PAUSE: Duration = Duration::from_secs(1);
/// From then on an attempt counts as slow. Most receivers answer within half of it.
const LINGERS: Duration = Duration::from_secs(1);
/// How often the store is asked for everything that waits: another process may have queued.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often what waits is measured.
const MEASURE_EVERY: Duration = Duration::from_secs(15);
/// Endpoints read at once where something waits.
const PAGE: usize = 1000;
/// How long attempts under way may take to end when the process does. Others are repeated later.
const LEAVE: Duration = Duration::from_secs(2);

/// What the gateway keeps for deliveries.
pub(crate) struct Deliverer {
    /// The guarded client.
    pub(super) client: Client,
    activity: watch::Sender<Activity>,
    /// Asks the worker to look at everything that waits.
    look: Notify,
    /// How often it was asked to.
    asked: AtomicU64,
}

/// What the worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// It does not run.
    Off,
    /// Something is under way.
    Busy,
    /// Nothing is due of all that waited when it last looked; with the number of the last wish to
    /// look that it heeded.
    Idle(u64),
}

impl Deliverer {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            client: Client::new(settings.webhooks.guard()),
            activity: watch::Sender::new(Activity::Off),
            look: Notify::new(),
            asked: AtomicU64::new(0),
        }
    }

    fn publish(&self, activity: Activity) {
        self.activity
            .send_if_modified(|now| std::mem::replace(now, activity) != activity);
    }
}

/// The end of something that ran beside the worker.
enum Done {
    Claimed(EndpointId, Result<Claimed, Fault>),
    Swept(EndpointId, Option<Time>),
    Tried(DeliveryId, Option<Ended>),
    Measured,
}

struct Worker<'a> {
    gateway: &'a Gateway,
    lanes: Lanes,
    jobs: JoinSet<Done>,
    /// When attempts under way began.
    begun: HashMap<DeliveryId, Instant>,
    /// When attempts begin to linger, earliest first; those that are over too.
    lingering: VecDeque<(Instant, DeliveryId)>,
    look_at: Instant,
    /// The last wish to look that was heeded.
    heeded: u64,
    measure_at: Instant,
}

impl Gateway {
    /// Delivers events until `stop` resolves.
    pub(crate) async fn deliver(&self, stop: impl Future<Output = ()> + Send) {
        let mut worker = Worker {
            gateway: self,
            lanes: Lanes::default(),
            jobs: JoinSet::new(),
            begun: HashMap::new(),
            lingering: VecDeque::new(),
            look_at: Instant::now(),
            heeded: 0,
            measure_at: Instant::now(),
        };
        self.inner.deliverer.publish(Activity::Busy);
        worker.run(stop).await;
        self.inner.deliverer.publish(Activity::Off);
    }

    /// Resolves when nothing is left that is due now, or where nobody delivers.
    pub(crate) async fn delivered(&self) {
        let deliverer = &self.inner.deliverer;
        let mut activity = deliverer.activity.subscribe();
        let wish = deliverer.asked.fetch_add(1, Ordering::SeqCst) + 1;
        deliverer.look.notify_one();
        let over = |activity: &Activity| match activity {
            Activity::Off => true,
            Activity::Busy => false,
            Activity::Idle(heeded) => wish <= *heeded,
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
                self.look().await;
            }
            if has_time_come(self.measure_at) {
                self.measure();
            }
            self.note_lingering();
            self.act().await;
            let now = gateway.now();
            deliverer.publish(if self.lanes.is_idle(now) {
                Activity::Idle(self.heeded)
            } else {
                Activity::Busy
            });
            let due = async {
                match self.lanes.wakes_at() {
                    Some(at) => gateway.clock().wait_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let first_lingers = self.lingering.front().map(|(at, _)| *at);
            let look_at = self.look_at.min(self.measure_at);
            let wake_at = first_lingers.map_or(look_at, |at| at.min(look_at));
            tokio::select! {
                () = &mut stop => break,
                Some(done) = self.jobs.join_next() => self.take(done.ok()),
                queued = gateway.store().queued() => self.hear(queued).await,
                () = deliverer.look.notified() => self.look_at = Instant::now(),
                () = due => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
        }
        let leave = async { while self.jobs.join_next().await.is_some() {} };
        if tokio::time::timeout(LEAVE, leave).await.is_err() {
            tracing::info!("deliveries under way are left; they are repeated after the next start");
        }
    }

    /// Does everything that can be begun now.
    async fn act(&mut self) {
        self.lanes
            .hold_for(self.gateway.settings().webhooks.circuit_hold);
        let now = self.gateway.now();
        while let Some(action) = self.lanes.next(now) {
            match action {
                Action::Claim(endpoint, at_most) => self.claim(endpoint, at_most, now),
                Action::Start(endpoint, due) => self.start(endpoint, due),
            }
        }
        let dropped = self.lanes.take_dropped();
        if !dropped.is_empty()
            && let Err(fault) = self.gateway.store().give_back(dropped).await
        {
            tracing::warn!(error = %fault, "deliveries were not given back");
        }
    }

    fn claim(&mut self, endpoint: EndpointId, at_most: usize, now: Time) {
        let gateway = self.gateway.clone();
        self.jobs.spawn(async move {
            let claimed = gateway.store().claim(endpoint, now, LEASE, at_most).await;
            Done::Claimed(endpoint, claimed)
        });
    }

    fn start(&mut self, endpoint: EndpointId, due: Box<DueDelivery>) {
        let gateway = self.gateway.clone();
        let (id, began) = (due.id, Instant::now());
        self.begun.insert(id, began);
        self.lingering.push_back((began + LINGERS, id));
        self.jobs.spawn(async move {
            let attempt = AssertUnwindSafe(gateway.attempt(endpoint, &due));
            // Nothing here should panic; where it does, one delivery waits for its lease to end.
            let ended = attempt.catch_unwind().await.ok();
            Done::Tried(id, ended)
        });
    }

    /// Ends what has to end of an endpoint that takes nothing.
    fn sweep(&mut self, endpoint: EndpointId) {
        let gateway = self.gateway.clone();
        self.jobs.spawn(async move {
            let now = gateway.now();
            let next = match gateway.store().sweep(endpoint, now).await {
                Ok(swept) => {
                    let count = |status: &'static str, ended: u64| {
                        let labels = [("status", status)];
                        metrics::counter!("kassette_webhook_deliveries_total", &labels)
                            .increment(ended);
                    };
                    count("cancelled", swept.cancelled);
                    count("exhausted", swept.exhausted);
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

    fn take(&mut self, done: Option<Done>) {
        let now = self.gateway.now();
        match done {
            Some(Done::Claimed(endpoint, Ok(Claimed::Due { deliveries, next }))) => {
                self.lanes.claimed(endpoint, deliveries, next, now);
            }
            Some(Done::Claimed(endpoint, Ok(Claimed::Held))) => self.sweep(endpoint),
            Some(Done::Claimed(endpoint, Err(fault))) => {
                tracing::error!(error = %fault, endpoint.id = %endpoint, "deliveries could not be claimed");
                let later = Some(now.after(FAULT_PAUSE));
                self.lanes.claim_over(endpoint, later, now);
            }
            Some(Done::Swept(endpoint, next)) => self.lanes.claim_over(endpoint, next, now),
            Some(Done::Tried(id, ended)) => {
                let began = self.begun.remove(&id);
                let has_lingered = began.is_some_and(|began| began.elapsed() >= LINGERS);
                let ended = ended.unwrap_or(Ended {
                    went: Went::Failed,
                    retry_at: Some(now.after(LEASE)),
                });
                self.lanes
                    .ended(id, ended.went, has_lingered, ended.retry_at, now);
            }
            // A measurement, or a read that panicked: it is done again.
            Some(Done::Measured) | None => {}
        }
    }

    async fn hear(&mut self, queued: Result<Vec<EndpointId>, Fault>) {
        match queued {
            Ok(endpoints) => {
                let now = self.gateway.now();
                for endpoint in endpoints {
                    self.lanes.due(endpoint, now);
                }
            }
            Err(fault) => {
                tracing::error!(error = %fault, "the store does not say what is queued");
                tokio::time::sleep(FAULT_PAUSE).await;
            }
        }
    }

    /// Asks the store for everything that waits.
    async fn look(&mut self) {
        self.look_at = Instant::now() + LOOK_EVERY;
        let asked = self.gateway.inner.deliverer.asked.load(Ordering::SeqCst);
        let mut after = None;
        loop {
            match self.gateway.store().waiting(after, PAGE).await {
                Ok(page) => {
                    for (endpoint, at) in &page {
                        self.lanes.due(*endpoint, *at);
                    }
                    after = page.last().map(|(endpoint, _)| *endpoint);
                    if page.len() < PAGE {
                        self.heeded = asked;
                        return;
                    }
                }
                Err(fault) => {
                    tracing::error!(error = %fault, "the store does not say what waits");
                    self.look_at = Instant::now() + FAULT_PAUSE;
                    return;
                }
            }
        }
    }

    /// Tells lanes of attempts that have begun to linger.
    fn note_lingering(&mut self) {
        let now = Instant::now();
        while let Some((at, id)) = self.lingering.pop_front_if(|(at, _)| *at <= now) {
            // A later attempt of the same delivery has a time of its own.
            if self
                .begun
                .get(&id)
                .is_some_and(|began| *began + LINGERS == at)
            {
                self.lanes.lingers(id);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    fn measure(&mut self) {
        self.measure_at = Instant::now() + MEASURE_EVERY;
        let now = self.gateway.now();
        let gauge = |state: &'static str, count: usize| {
            metrics::gauge!("kassette_webhook_circuits", "state" => state).set(count as f64);
        };
        let (open, half_open) = self.lanes.circuits(now);
        gauge("open", open);
        gauge("half_open", half_open);
        let (quick, slow) = self.lanes.slots();
        for (pool, count) in [("quick", quick), ("slow", slow)] {
            metrics::gauge!("kassette_webhook_attempts_under_way", "pool" => pool)
                .set(count as f64);
        }
        let gateway = self.gateway.clone();
        self.jobs.spawn(async move {
            match gateway.store().backlog().await {
                Ok(backlog) => {
                    let age = backlog.oldest.map(|oldest| now.since(oldest));
                    metrics::gauge!("kassette_webhook_pending").set(backlog.pending as f64);
                    metrics::gauge!("kassette_webhook_oldest_seconds")
                        .set(age.unwrap_or_default().as_secs_f64());
                }
                Err(fault) => tracing::warn!(error = %fault, "what waits was not measured"),
            }
            Done::Measured
        });
    }
}
