//! Chooses the next delivery to attempt: fair queueing with one flow per endpoint. Contains only state; the
//! worker performs the actions.
//!
//! An attempt takes a slot, and an endpoint that does not answer occupies its slots for the maximum duration
//! of an attempt. Slots are therefore divided into two pools. Endpoints that answer quickly use the *quick*
//! pool in turn. An attempt that lingers moves to the *slow* pool, and its endpoint starts no more attempts
//! in the quick pool until it has answered quickly again. New endpoints, whose behavior is unknown, get one
//! attempt each and at most half of the quick pool together. Silent endpoints therefore never use up the
//! quick slots, and a new endpoint waits for other new ones only until they linger. Endpoints that answer
//! late and those that do not answer get a third of the slow pool each, so that neither waits for the other.
//! The last third is for attempts that linger in the quick pool.
//!
//! A slot is only for sending. A delivered attempt releases its slot before it is recorded, because the
//! record takes a sync of the store, during which the connection would be idle. A failed attempt keeps its
//! slot until it is recorded, so that an endpoint that answered 410 is disabled before the next attempt.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_store::DueDelivery;

use super::circuit::{Circuit, Wait};

/// Maximum number of attempts that have not lingered: enough for a dozen endpoints that answered quickly
/// until a moment ago. More would only wait for each other, because two cores send a few thousand per second.
pub(super) const QUICK: usize = 128;
/// Maximum number of these to endpoints that have not answered since this process started.
const NEWCOMERS: usize = QUICK / 2;
/// Slots of the quick pool that quick endpoints leave to new ones.
const FOR_NEWCOMERS: usize = QUICK / 8;
/// Maximum number of attempts that linger or go to slow endpoints. Each is a socket and some kilobytes.
pub(super) const SLOW: usize = LATE + SILENT + QUICK;
/// Maximum number of these to endpoints whose last answer was late.
const LATE: usize = 128;
/// Maximum number of these to endpoints that gave no answer. The remaining slots of the slow pool suffice for
/// all attempts that linger in the quick pool.
const SILENT: usize = 128;
/// Maximum number of deliveries that arrived and are not recorded yet. They are repeated after a crash.
pub(super) const UNRECORDED: usize = 256;
/// Maximum number of claimed deliveries in memory without an attempt, about a kilobyte each. Beyond it each
/// claim is for one delivery, so that no endpoint waits because others fill the memory.
const BUFFERED: usize = 2048;
/// Maximum number of concurrent claims. These are operations of the store that may wait for a sync.
const CLAIMS: usize = 32;
/// Number of flows at which idle ones are removed.
const REMEMBERED: usize = 10_000;
/// How long a claimed delivery may wait for a slot. The lease is longer by more than the time of an attempt
/// and its record.
const BUFFERED_FOR: Duration = Duration::from_secs(40);

/// An endpoint's behavior so far, which decides its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointClass {
    /// It has not answered yet.
    New,
    /// It answers quickly.
    Quick,
    /// It answers, but late.
    Slow,
    /// It gave no answer, or has not answered an attempt that lingers.
    Silent,
}

impl EndpointClass {
    /// Maximum number of concurrent attempts to one endpoint.
    const fn share(self) -> usize {
        match self {
            // The number of connections that the client keeps to one host.
            Self::Quick => 8,
            Self::Slow => 4,
            // One attempt is sufficient to learn how it behaves.
            Self::New | Self::Silent => 1,
        }
    }

    /// Maximum number of deliveries per claim.
    const fn page(self) -> usize {
        match self {
            // Enough for a fast receiver until the next claim is complete.
            Self::Quick => 8 * self.share(),
            Self::New | Self::Slow | Self::Silent => 1,
        }
    }

    /// Index in [`CLASSES`].
    const fn index(self) -> usize {
        self as usize
    }
}

/// All classes. Each has a separate queue.
const CLASSES: [EndpointClass; 4] = [
    EndpointClass::Quick,
    EndpointClass::New,
    EndpointClass::Slow,
    EndpointClass::Silent,
];

struct Buffered {
    due: DueDelivery,
    /// Time at which its lease is about to end.
    until: Time,
}

struct Flow {
    class: EndpointClass,
    in_flight: usize,
    is_claiming: bool,
    /// Number of deliveries that it is for.
    claims_for: usize,
    /// Something was queued during a claim, which may not have seen it.
    was_rung: bool,
    /// Claimed deliveries without an attempt, in order of their claims.
    buffer: VecDeque<Buffered>,
    /// Time of the next due delivery in the store, claimed ones excluded.
    next: Option<Time>,
    /// The queue that the flow is in.
    queue: Option<EndpointClass>,
    /// Whether it waits until fewer claims are running.
    is_claimer: bool,
    /// Its time in `waiting`.
    wakes_at: Option<Time>,
    circuit: Circuit,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            class: EndpointClass::New,
            in_flight: 0,
            is_claiming: false,
            claims_for: 0,
            was_rung: false,
            buffer: VecDeque::new(),
            next: None,
            queue: None,
            is_claimer: false,
            wakes_at: None,
            circuit: Circuit::default(),
        }
    }
}

impl Flow {
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.is_claiming && self.buffer.is_empty() && self.next.is_none()
    }
}

struct UnderWay {
    endpoint: EndpointId,
    /// Class of the endpoint when the attempt started.
    class: EndpointClass,
    /// Whether it has moved from the quick to the slow pool.
    has_moved: bool,
}

/// Counts of running attempts.
#[derive(Default)]
struct Slots {
    /// By the class at the start of the attempt. Moved attempts are not included.
    begun: [usize; CLASSES.len()],
    moved: usize,
    /// Use only a quarter of all slots, because the process may open few files.
    are_few: bool,
}

impl Slots {
    const fn count(&self, class: EndpointClass) -> usize {
        self.begun[class.index()]
    }

    const fn quick(&self) -> usize {
        self.count(EndpointClass::Quick) + self.count(EndpointClass::New)
    }

    const fn slow(&self) -> usize {
        self.count(EndpointClass::Slow) + self.count(EndpointClass::Silent) + self.moved
    }

    /// Whether another attempt may start.
    const fn has_room(&self, class: EndpointClass) -> bool {
        let of = self.count(class);
        let (all, own) = match class {
            EndpointClass::Quick => (QUICK, QUICK - FOR_NEWCOMERS),
            EndpointClass::New => (QUICK, NEWCOMERS),
            EndpointClass::Slow => (SLOW, LATE),
            EndpointClass::Silent => (SLOW, SILENT),
        };
        let taken = match class {
            EndpointClass::Quick | EndpointClass::New => self.quick(),
            EndpointClass::Slow | EndpointClass::Silent => self.slow(),
        };
        taken < self.most(all) && of < self.most(own)
    }

    const fn most(&self, slots: usize) -> usize {
        if self.are_few { slots / 4 } else { slots }
    }

    const fn take(&mut self, class: EndpointClass) {
        self.begun[class.index()] += 1;
    }

    /// Moves an attempt to the slow pool if there is a free slot and it is not there yet.
    const fn move_over(&mut self, attempt: &mut UnderWay) {
        let is_quick = matches!(attempt.class, EndpointClass::Quick | EndpointClass::New);
        if is_quick && !attempt.has_moved && self.slow() < self.most(SLOW) {
            attempt.has_moved = true;
            self.begun[attempt.class.index()] -= 1;
            self.moved += 1;
        }
    }

    const fn give_back(&mut self, attempt: &UnderWay) {
        if attempt.has_moved {
            self.moved -= 1;
        } else {
            self.begun[attempt.class.index()] -= 1;
        }
    }
}

/// Next action of the worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SchedulerAction {
    /// Claim at most this many deliveries of an endpoint.
    Claim(EndpointId, usize),
    /// Release claimed deliveries without an attempt. Returned before every claim for the same endpoint,
    /// which would otherwise skip them as claimed, or get a lease that ends with the old one.
    GiveBack(Vec<DeliveryId>),
    Start(EndpointId, Box<DueDelivery>),
}

/// Outcome of an attempt, as the scheduler needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// The receiver accepted it.
    Delivered,
    /// The receiver rejected it, or its address is not allowed.
    Failed,
    /// The receiver asked for a pause of this length.
    AskedToWait(Duration),
    NoAnswer,
    /// Not sent, which shows nothing about the receiver: its reseller may not receive the payment's events
    /// now.
    Withheld,
    /// No attempt was made: the endpoint is disabled or deleted.
    NotTried,
}

/// The flows of all endpoints with waiting deliveries.
#[derive(Default)]
pub(super) struct Scheduler {
    flows: HashMap<EndpointId, Flow>,
    turns: [VecDeque<EndpointId>; CLASSES.len()],
    waiting: BTreeSet<(Time, EndpointId)>,
    under_way: HashMap<DeliveryId, UnderWay>,
    /// Delivered, and not recorded yet.
    unrecorded: HashSet<DeliveryId>,
    slots: Slots,
    buffered: usize,
    claims: usize,
    /// Maximum number of deliveries that the running claims may return. They need memory too.
    claimed_for: usize,
    /// Flows that wait until fewer claims are running.
    claimers: VecDeque<EndpointId>,
    /// Claimed deliveries to be released without an attempt.
    dropped: Vec<DeliveryId>,
    /// Number of flows at which idle ones are searched again. Without it, a search for each new flow would be
    /// quadratic if nearly all are busy.
    crowd: usize,
    /// Maximum time for which an open circuit holds an attempt back.
    hold: Duration,
}

impl Scheduler {
    /// Sets the maximum time for which an open circuit holds an attempt back.
    pub(super) const fn hold_for(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Sets whether only few attempts run at the same time, because the process may open few files.
    pub(super) const fn limit_slots(&mut self, few: bool) {
        self.slots.are_few = few;
    }

    /// Records that a delivery for an endpoint is due at a time.
    pub(super) fn due(&mut self, endpoint: EndpointId, at: Time) {
        let many = REMEMBERED.max(self.crowd);
        if self.flows.len() >= many && !self.flows.contains_key(&endpoint) {
            self.flows.retain(|_, flow| !flow.is_idle());
            self.crowd = 2 * self.flows.len();
        }
        let flow = self.flows.entry(endpoint).or_default();
        flow.was_rung |= flow.is_claiming;
        flow.next = Some(flow.next.map_or(at, |next| next.min(at)));
        self.give_turn(endpoint);
    }

    /// Returns the next action. `None` if everything waits.
    pub(super) fn next(&mut self, now: Time) -> Option<SchedulerAction> {
        while let Some((at, endpoint)) = self.waiting.first().copied()
            && at <= now
        {
            self.waiting.pop_first();
            if let Some(flow) = self.flows.get_mut(&endpoint) {
                flow.wakes_at = None;
            }
            self.give_turn(endpoint);
        }
        if !self.dropped.is_empty() {
            return Some(SchedulerAction::GiveBack(std::mem::take(&mut self.dropped)));
        }
        for class in CLASSES {
            while self.has_slot(class) {
                let Some(endpoint) = self.turns[class.index()].pop_front() else {
                    break;
                };
                if let Some(action) = self.turn_of(endpoint, class, now) {
                    return Some(action);
                }
            }
        }
        None
    }

    /// Time of the next check, if nothing happens before.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Whether nothing is running and nothing could start.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        self.under_way.is_empty()
            && self.unrecorded.is_empty()
            && self.claims == 0
            && self.turns.iter().all(VecDeque::is_empty)
            && self.wakes_at().is_none_or(|at| now < at)
    }

    /// Adds claimed deliveries, in order of time, and the time at which more are due.
    pub(super) fn claimed(
        &mut self,
        endpoint: EndpointId,
        deliveries: Vec<DueDelivery>,
        next: Option<Time>,
        now: Time,
    ) {
        self.claim_over(endpoint, next, now);
        let Some(flow) = self.flows.get_mut(&endpoint) else {
            return;
        };
        // The clock may have been moved, or the store may have answered late, so that claims return
        // deliveries that are already in flight.
        let (under_way, unrecorded) = (&self.under_way, &self.unrecorded);
        let until = now.after(BUFFERED_FOR);
        for due in deliveries {
            let is_kept = flow.buffer.iter().any(|kept| kept.due.id == due.id);
            if !(is_kept || under_way.contains_key(&due.id) || unrecorded.contains(&due.id)) {
                flow.buffer.push_back(Buffered { due, until });
                self.buffered += 1;
            }
        }
    }

    /// Ends a claim that returned nothing: the store failed, or the endpoint is disabled. Checks again at
    /// `next`.
    pub(super) fn claim_over(&mut self, endpoint: EndpointId, next: Option<Time>, now: Time) {
        self.claims -= 1;
        if let Some(next) = self.claimers.pop_front()
            && let Some(flow) = self.flows.get_mut(&next)
        {
            flow.is_claimer = false;
            self.give_turn(next);
        }
        let Some(flow) = self.flows.get_mut(&endpoint) else {
            return;
        };
        flow.is_claiming = false;
        self.claimed_for -= std::mem::take(&mut flow.claims_for);
        let again = std::mem::take(&mut flow.was_rung).then_some(now);
        // The earliest time, so that no due delivery is held back longer than allowed.
        flow.next = [flow.next, next, again].into_iter().flatten().min();
        self.give_turn(endpoint);
    }

    /// Records that an attempt lingers: it and its endpoint are no longer quick.
    pub(super) fn lingers(&mut self, delivery: DeliveryId) {
        let Some(attempt) = self.under_way.get_mut(&delivery) else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(&attempt.endpoint) {
            flow.class = EndpointClass::Silent;
        }
        self.slots.move_over(attempt);
    }

    /// Records a successful attempt. The delivery stays in flight until that is recorded.
    pub(super) fn arrived(&mut self, delivery: DeliveryId, has_lingered: bool, now: Time) {
        self.unrecorded.insert(delivery);
        self.ended(delivery, AttemptOutcome::Delivered, has_lingered, None, now);
    }

    /// A delivered attempt was recorded. If that failed, its endpoint is checked again at `again`.
    pub(super) fn recorded(
        &mut self,
        delivery: DeliveryId,
        endpoint: EndpointId,
        again: Option<Time>,
    ) {
        self.unrecorded.remove(&delivery);
        if let Some(at) = again {
            self.due(endpoint, at);
        }
    }

    /// Ends an attempt, with the time of the next one if there is one. Returns its endpoint.
    pub(super) fn ended(
        &mut self,
        delivery: DeliveryId,
        went: AttemptOutcome,
        has_lingered: bool,
        retry_at: Option<Time>,
        now: Time,
    ) -> Option<EndpointId> {
        let attempt = self.under_way.remove(&delivery)?;
        self.slots.give_back(&attempt);
        let flow = self.flows.get_mut(&attempt.endpoint)?;
        flow.in_flight -= 1;
        flow.class = match (went, has_lingered, flow.class) {
            (AttemptOutcome::NotTried | AttemptOutcome::Withheld, _, class) => class,
            (AttemptOutcome::NoAnswer, true, _) => EndpointClass::Silent,
            (_, true, _) => EndpointClass::Slow,
            (AttemptOutcome::Delivered, false, _) => EndpointClass::Quick,
            // A refused connection occupies a slot no longer than an answer does.
            (_, false, EndpointClass::Quick) => EndpointClass::Quick,
            (_, false, _) => EndpointClass::New,
        };
        match went {
            AttemptOutcome::Delivered => flow.circuit.succeeded(),
            AttemptOutcome::Failed | AttemptOutcome::NoAnswer => {
                flow.circuit.failed(now, self.hold)
            }
            AttemptOutcome::AskedToWait(pause) => flow.circuit.asked_to_wait(now, pause, self.hold),
            AttemptOutcome::Withheld => {}
            AttemptOutcome::NotTried => {
                self.buffered -= flow.buffer.len();
                let dropped = flow.buffer.drain(..).map(|kept| kept.due.id);
                self.dropped.extend(dropped);
            }
        }
        if let Some(at) = retry_at {
            flow.was_rung |= flow.is_claiming;
            flow.next = Some(flow.next.map_or(at, |next| next.min(at)));
        }
        self.give_turn(attempt.endpoint);
        Some(attempt.endpoint)
    }

    /// Removes and returns the claimed deliveries without an attempt, at the end of the worker.
    pub(super) fn take_buffered(&mut self) -> Vec<DeliveryId> {
        self.buffered = 0;
        let mut buffered = std::mem::take(&mut self.dropped);
        for flow in self.flows.values_mut() {
            buffered.extend(flow.buffer.drain(..).map(|kept| kept.due.id));
        }
        buffered
    }

    /// Resets the circuit of an endpoint that is disabled or deleted.
    pub(super) fn disable_flow(&mut self, endpoint: EndpointId) {
        if let Some(flow) = self.flows.get_mut(&endpoint) {
            flow.circuit = Circuit::default();
        }
    }

    pub(super) fn circuit(&self, endpoint: EndpointId) -> Circuit {
        let flow = self.flows.get(&endpoint);
        flow.map(|flow| flow.circuit).unwrap_or_default()
    }

    pub(super) fn circuits(&self) -> impl Iterator<Item = (EndpointId, Circuit)> {
        let flows = self.flows.iter();
        let circuits = flows.map(|(endpoint, flow)| (*endpoint, flow.circuit));
        circuits.filter(|(_, circuit)| !circuit.is_closed())
    }

    /// Numbers of attempts in the quick and in the slow pool.
    pub(super) const fn slots(&self) -> (usize, usize) {
        (self.slots.quick(), self.slots.slow())
    }

    fn has_slot(&self, class: EndpointClass) -> bool {
        self.unrecorded.len() < UNRECORDED && self.slots.has_room(class)
    }

    /// Puts a flow into the queue of its class, unless it is there. A flow whose class has changed leaves the
    /// old queue, because silent endpoints may fill that for a long time.
    fn give_turn(&mut self, endpoint: EndpointId) {
        let Some(flow) = self.flows.get_mut(&endpoint) else {
            return;
        };
        let class = flow.class;
        if flow.is_claimer || flow.queue == Some(class) {
            return;
        }
        if let Some(before) = flow.queue.replace(class) {
            self.turns[before.index()].retain(|each| *each != endpoint);
        }
        self.turns[class.index()].push_back(endpoint);
    }

    /// Handles the flow at the head of a queue. Puts it back if it can continue immediately.
    fn turn_of(
        &mut self,
        endpoint: EndpointId,
        queue: EndpointClass,
        now: Time,
    ) -> Option<SchedulerAction> {
        let hold = self.hold;
        let flow = self.flows.get_mut(&endpoint)?;
        flow.queue = None;
        if flow.class != queue {
            self.give_turn(endpoint);
            return None;
        }
        if let Some(first) = flow.buffer.front()
            && first.until <= now
        {
            // The leases are about to end, so claim again. A running claim has skipped these deliveries.
            let since = first.due.due_at;
            flow.next = Some(flow.next.map_or(since, |next| next.min(since)));
            flow.was_rung |= flow.is_claiming;
            self.buffered -= flow.buffer.len();
            let dropped = flow.buffer.drain(..).map(|kept| kept.due.id).collect();
            self.give_turn(endpoint);
            return Some(SchedulerAction::GiveBack(dropped));
        }
        if flow.buffer.len() * 2 <= flow.class.page()
            && let Some(claim) = self.claim_for(endpoint, now)
        {
            // The flow continues with the remaining deliveries.
            self.give_turn(endpoint);
            return Some(claim);
        }
        let flow = self.flows.get_mut(&endpoint)?;
        let head = &flow.buffer.front()?.due;
        if flow.in_flight >= flow.class.share() {
            // The flow gets its next turn when an attempt ends.
            return None;
        }
        match flow
            .circuit
            .may_start(now, head.due_at, hold, flow.in_flight > 0)
        {
            Ok(()) => {}
            Err(wait) => {
                self.wait(endpoint, wait);
                return None;
            }
        }
        let due = flow.buffer.pop_front()?.due;
        self.buffered -= 1;
        flow.in_flight += 1;
        self.slots.take(queue);
        let attempt = UnderWay {
            endpoint,
            class: queue,
            has_moved: false,
        };
        self.under_way.insert(due.id, attempt);
        self.give_turn(endpoint);
        Some(SchedulerAction::Start(endpoint, Box::new(due)))
    }

    /// Claims due deliveries for a flow with few claimed ones, before it has a slot for more, so that it
    /// never waits for the store.
    fn claim_for(&mut self, endpoint: EndpointId, now: Time) -> Option<SchedulerAction> {
        let hold = self.hold;
        let room = BUFFERED.saturating_sub(self.buffered + self.claimed_for);
        let flow = self.flows.get_mut(&endpoint)?;
        if flow.is_claiming || (room == 0 && !flow.buffer.is_empty()) {
            return None;
        }
        let Some(next) = flow.next else {
            if flow.is_idle()
                && flow.class == EndpointClass::New
                && flow.wakes_at.is_none()
                && flow.circuit.is_closed()
            {
                self.flows.remove(&endpoint);
            }
            return None;
        };
        if now < next {
            self.wait(endpoint, Wait::Until(next));
            return None;
        }
        let is_full = flow.in_flight >= flow.class.share();
        if is_full && flow.class != EndpointClass::Quick {
            return None;
        }
        if let Err(wait) = flow.circuit.may_start(now, next, hold, flow.in_flight > 0) {
            self.wait(endpoint, wait);
            return None;
        }
        if self.claims >= CLAIMS {
            if flow.buffer.is_empty() {
                flow.is_claimer = true;
                self.claimers.push_back(endpoint);
            }
            return None;
        }
        flow.is_claiming = true;
        flow.claims_for = flow.class.page().min(room.max(1));
        flow.next = None;
        self.claims += 1;
        self.claimed_for += flow.claims_for;
        Some(SchedulerAction::Claim(endpoint, flow.claims_for))
    }

    fn wait(&mut self, endpoint: EndpointId, wait: Wait) {
        let (Wait::Until(at), Some(flow)) = (wait, self.flows.get_mut(&endpoint)) else {
            return;
        };
        if let Some(before) = flow.wakes_at.replace(at) {
            self.waiting.remove(&(before, endpoint));
        }
        self.waiting.insert((at, endpoint));
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
