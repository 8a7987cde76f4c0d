//! Which delivery is tried next: fair queueing, with one flow per endpoint. Plain
//! state; the worker acts on it.
//!
//! An attempt takes a slot, and an endpoint that does not answer keeps its slots for as long as an
//! attempt may take. So slots are of two pools. What answers quickly uses the *quick* pool, in turn.
//! An attempt that lingers moves to the *slow* pool, and its endpoint starts no more in the quick one
//! until it has answered quickly again. Endpoints that nothing is known of are tried with one attempt
//! each, and may take half of the quick pool together. So whatever the silent ones do, quick slots
//! stay free for the others, and a newcomer waits for newcomers no longer than until they linger.
//! Those that answer late and those that do not answer have a third of the slow pool each, so neither
//! waits for the other, and the last third is for what lingers in the quick one.
//!
//! A slot is for sending. What was delivered gives its slot back before that is recorded: the store
//! takes a sync's time for it, and a connection would be idle meanwhile. What failed keeps its slot
//! until it is recorded, so that an endpoint that answered 410 is off before anything else is tried.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_store::DueDelivery;

use super::circuit::{Circuit, Wait};

/// Attempts that have not lingered: as much as a dozen endpoints may take that answered quickly until
/// a moment ago. Many more would only make them wait for one another: two cores send some thousand a
/// second.
pub(super) const QUICK: usize = 128;
/// Of these, those to endpoints that have not answered since this process began.
const NEWCOMERS: usize = QUICK / 2;
/// Slots of the quick pool that endpoints in the quick class leave to them.
const FOR_NEWCOMERS: usize = QUICK / 8;
/// Attempts that linger, or go to endpoints that did: each is a socket and some kilobytes that wait.
pub(super) const SLOW: usize = LATE + SILENT + QUICK;
/// Of these, those to endpoints that answered late last time.
const LATE: usize = 128;
/// Those to endpoints that gave no answer at all. As many as may linger in the quick pool are left to
/// what does.
const SILENT: usize = 128;
/// Deliveries that arrived and are not recorded yet. They are repeated after a crash.
pub(super) const UNRECORDED: usize = 256;
/// Deliveries held in memory that no attempt has begun for, about a kilobyte each; beyond it each
/// claim is for one, so that an endpoint never waits because others fill the memory.
const BUFFERED: usize = 2048;
/// Claims under way at once: reads of the store, which may wait for a sync.
const CLAIMS: usize = 32;
/// Flows of idle endpoints that are remembered for what is known of them.
const REMEMBERED: usize = 10_000;
/// How long what was claimed may wait for a slot. The lease is longer by more than an attempt and
/// its record take.
const BUFFERED_FOR: Duration = Duration::from_secs(40);

/// How an endpoint has answered so far, which decides its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointClass {
    /// Nothing.
    New,
    /// It answers quickly.
    Quick,
    /// It answers, but late.
    Slow,
    /// It gave no answer, or has not given one yet after a while.
    Silent,
}

impl EndpointClass {
    /// Attempts to one endpoint at once.
    const fn share(self) -> usize {
        match self {
            // As many connections as the client keeps for one host.
            Self::Quick => 8,
            Self::Slow => 4,
            // One tells what it is.
            Self::New | Self::Silent => 1,
        }
    }

    /// Deliveries claimed at once.
    const fn page(self) -> usize {
        match self {
            // What a fast receiver takes while the next ones are claimed.
            Self::Quick => 8 * self.share(),
            Self::New | Self::Slow | Self::Silent => 1,
        }
    }

    /// Its index in [`CLASSES`].
    const fn index(self) -> usize {
        self as usize
    }
}

/// All classes, each with a queue of its own.
const CLASSES: [EndpointClass; 4] = [
    EndpointClass::Quick,
    EndpointClass::New,
    EndpointClass::Slow,
    EndpointClass::Silent,
];

/// A delivery that was claimed.
struct Buffered {
    due: DueDelivery,
    /// Afterwards its lease is about to end.
    until: Time,
}

struct Flow {
    class: EndpointClass,
    in_flight: usize,
    /// A claim is under way.
    is_claiming: bool,
    /// For how many.
    claims_for: usize,
    /// Something was queued while a claim was under way, which may not have seen it.
    was_rung: bool,
    /// Claimed and not begun, in order of their claims.
    buffer: VecDeque<Buffered>,
    /// When something is due in the store that is not in hand.
    next: Option<Time>,
    /// In which queue it stands.
    queue: Option<EndpointClass>,
    /// Whether it waits until fewer claims are under way.
    is_claimer: bool,
    /// Where it stands among those that wait for a time.
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

/// An attempt under way.
struct UnderWay {
    endpoint: EndpointId,
    /// The endpoint's when it began.
    class: EndpointClass,
    /// Whether it began in the quick pool and is in the slow one.
    has_moved: bool,
}

/// Attempts under way.
#[derive(Default)]
struct Slots {
    /// By the classes that they began with; what has moved is not among them.
    begun: [usize; CLASSES.len()],
    moved: usize,
    /// A quarter of all slots alone: the process may open few files.
    are_few: bool,
}

impl Slots {
    const fn of(&self, class: EndpointClass) -> usize {
        self.begun[class.index()]
    }

    const fn quick(&self) -> usize {
        self.of(EndpointClass::Quick) + self.of(EndpointClass::New)
    }

    const fn slow(&self) -> usize {
        self.of(EndpointClass::Slow) + self.of(EndpointClass::Silent) + self.moved
    }

    /// Whether another attempt may begin.
    const fn has_room(&self, class: EndpointClass) -> bool {
        let of = self.of(class);
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

    /// Moves an attempt to the slow pool, if there is room and it is not there.
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

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SchedulerAction {
    /// Claim at most so many deliveries of an endpoint.
    Claim(EndpointId, usize),
    /// Give back what was claimed and put aside untried. It stands before every claim that may meet
    /// it, which would pass it over as being in hand, or get a lease that is ended with the old one.
    GiveBack(Vec<DeliveryId>),
    /// Try one.
    Start(EndpointId, Box<DueDelivery>),
}

/// How an attempt went, as far as turns are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// The receiver has it.
    Delivered,
    /// It answered something else, or is none to be sent to.
    Failed,
    /// It asked to be left alone for so long.
    AskedToWait(Duration),
    NoAnswer,
    /// It was not sent, which says nothing of the receiver: its reseller may not hear of the payment now.
    Withheld,
    /// It was not tried: the endpoint is disabled or gone.
    NotTried,
}

/// The flows of all endpoints with deliveries that wait.
#[derive(Default)]
pub(super) struct Scheduler {
    flows: HashMap<EndpointId, Flow>,
    turns: [VecDeque<EndpointId>; CLASSES.len()],
    /// Flows that wait for a time.
    waiting: BTreeSet<(Time, EndpointId)>,
    under_way: HashMap<DeliveryId, UnderWay>,
    /// Arrived, and not recorded yet.
    unrecorded: HashSet<DeliveryId>,
    slots: Slots,
    buffered: usize,
    claims: usize,
    /// What the claims under way may bring: it needs room too.
    claimed_for: usize,
    /// Flows that wait until fewer claims are under way.
    claimers: VecDeque<EndpointId>,
    /// Claimed and put aside untried.
    dropped: Vec<DeliveryId>,
    /// Flows from which on idle ones are looked for again: where nearly all are busy, a look at all of
    /// them for each new one would be the square of their number.
    crowd: usize,
    /// How long an open circuit may hold back.
    hold: Duration,
}

impl Scheduler {
    /// Sets how long an open circuit may hold back.
    pub(super) const fn hold_for(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Sets whether few attempts are under way at once, because the process may open few files.
    pub(super) const fn limit_slots(&mut self, few: bool) {
        self.slots.are_few = few;
    }

    /// Something is due for an endpoint at a time.
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

    /// What to do now; none where everything waits.
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

    /// When to look again, if nothing happens until then.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Whether nothing is under way and nothing could be.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        self.under_way.is_empty()
            && self.unrecorded.is_empty()
            && self.claims == 0
            && self.turns.iter().all(VecDeque::is_empty)
            && self.wakes_at().is_none_or(|at| now < at)
    }

    /// What a claim brought, in order of time, and when more is due.
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
        // A moved clock, or a store that answers late, ends leases of what is in hand all the same.
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

    /// A claim brought nothing: the store failed, or the endpoint takes nothing. Look again then.
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
        // The earliest: what is due since then is held back by no more than that allows.
        flow.next = [flow.next, next, again].into_iter().flatten().min();
        self.give_turn(endpoint);
    }

    /// An attempt has lingered: it and its endpoint are no longer quick.
    pub(super) fn lingers(&mut self, delivery: DeliveryId) {
        let Some(attempt) = self.under_way.get_mut(&delivery) else {
            return;
        };
        if let Some(flow) = self.flows.get_mut(&attempt.endpoint) {
            flow.class = EndpointClass::Silent;
        }
        self.slots.move_over(attempt);
    }

    /// A delivery has arrived. It is in hand until that is recorded.
    pub(super) fn arrived(&mut self, delivery: DeliveryId, has_lingered: bool, now: Time) {
        self.unrecorded.insert(delivery);
        self.ended(delivery, AttemptOutcome::Delivered, has_lingered, None, now);
    }

    /// It is recorded that a delivery has arrived; where it could not be, when to look again.
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

    /// An attempt is over; where it is to be repeated, when. Says whose it was.
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
            // A refused connection costs a slot no longer than an answer does.
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

    /// What was claimed and is not begun, at the end.
    pub(super) fn take_buffered(&mut self) -> Vec<DeliveryId> {
        self.buffered = 0;
        let mut buffered = std::mem::take(&mut self.dropped);
        for flow in self.flows.values_mut() {
            buffered.extend(flow.buffer.drain(..).map(|kept| kept.due.id));
        }
        buffered
    }

    /// An endpoint is disabled or gone: that it kept failing is over.
    pub(super) fn disable_flow(&mut self, endpoint: EndpointId) {
        if let Some(flow) = self.flows.get_mut(&endpoint) {
            flow.circuit = Circuit::default();
        }
    }

    pub(super) fn circuit(&self, endpoint: EndpointId) -> Circuit {
        let flow = self.flows.get(&endpoint);
        flow.map(|flow| flow.circuit).unwrap_or_default()
    }

    /// Circuits that are not closed.
    pub(super) fn circuits(&self) -> impl Iterator<Item = (EndpointId, Circuit)> {
        let flows = self.flows.iter();
        let circuits = flows.map(|(endpoint, flow)| (*endpoint, flow.circuit));
        circuits.filter(|(_, circuit)| !circuit.is_closed())
    }

    /// Attempts under way in the quick pool, and in the slow one.
    pub(super) const fn slots(&self) -> (usize, usize) {
        (self.slots.quick(), self.slots.slow())
    }

    fn has_slot(&self, class: EndpointClass) -> bool {
        self.unrecorded.len() < UNRECORDED && self.slots.has_room(class)
    }

    /// Puts a flow into the queue of its class, unless it is there. One whose class has changed
    /// leaves the queue of the old one: silent endpoints may fill it for long.
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

    /// A flow is at the head of a queue. It is put back where it may go on at once.
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
            // Its leases are about to end: claimed anew. A claim under way has passed them over.
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
            // It goes on with what is left.
            self.give_turn(endpoint);
            return Some(claim);
        }
        let flow = self.flows.get_mut(&endpoint)?;
        let head = &flow.buffer.front()?.due;
        if flow.in_flight >= flow.class.share() {
            // The end of an attempt gives it a turn.
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

    /// A flow with little in hand claims what is due; earlier than it has a slot for more, so that it
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
