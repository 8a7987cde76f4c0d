//! Tests of the scheduler over a store that answers immediately.

use super::super::circuit::CircuitState;
use super::*;
use kassette_domain::event::EventType;
use kassette_domain::id::{EventId, PaymentId};
use proptest::prelude::*;

const NOW: Time = Time::from_secs(1_800_000_000);

fn endpoint(name: u16) -> EndpointId {
    let mut id = [0; 16];
    id[..2].copy_from_slice(&name.to_be_bytes());
    EndpointId::from_bytes(id)
}

/// A store with this many due deliveries per endpoint.
#[derive(Default)]
struct Backlog {
    left: HashMap<EndpointId, usize>,
    serial: u64,
}

impl Backlog {
    fn take(&mut self, endpoint: EndpointId, at_most: usize) -> (Vec<DueDelivery>, Option<Time>) {
        let left = self.left.entry(endpoint).or_default();
        let count = at_most.min(*left);
        *left -= count;
        let next = (*left > 0).then_some(NOW);
        let taken = (0..count).map(|_| {
            self.serial += 1;
            due(self.serial)
        });
        (taken.collect(), next)
    }
}

fn due(serial: u64) -> DueDelivery {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&serial.to_be_bytes());
    DueDelivery {
        id: DeliveryId::from_bytes(id),
        event: EventId::from_bytes(id),
        kind: EventType::PaymentCompleted,
        payment: PaymentId::from_bytes(id),
        created_at: NOW,
        due_at: NOW,
        attempts: 0,
        body: String::new(),
    }
}

/// A scheduler over a backlog. Claims return immediately.
#[derive(Default)]
struct World {
    scheduler: Scheduler,
    backlog: Backlog,
    given_back: Vec<DeliveryId>,
}

impl World {
    fn queue(&mut self, name: u16, count: usize) {
        *self.backlog.left.entry(endpoint(name)).or_default() += count;
        self.scheduler.due(endpoint(name), NOW);
    }

    /// Returns everything that starts now, in order.
    fn start(&mut self, now: Time) -> Vec<(EndpointId, DeliveryId)> {
        let mut started = Vec::new();
        while let Some(action) = self.scheduler.next(now) {
            match action {
                SchedulerAction::Claim(endpoint, at_most) => {
                    let (taken, next) = self.backlog.take(endpoint, at_most);
                    self.scheduler.claimed(endpoint, taken, next, now);
                }
                SchedulerAction::GiveBack(dropped) => self.given_back.extend(dropped),
                SchedulerAction::Start(endpoint, due) => started.push((endpoint, due.id)),
            }
        }
        started
    }

    /// Ends an attempt and records it immediately.
    fn end(&mut self, id: DeliveryId, went: AttemptOutcome) {
        self.end_at(id, went, went == AttemptOutcome::NoAnswer, NOW);
    }

    fn end_at(&mut self, id: DeliveryId, went: AttemptOutcome, has_lingered: bool, now: Time) {
        if went == AttemptOutcome::Delivered {
            self.scheduler.arrived(id, has_lingered, now);
            self.scheduler.recorded(id, endpoint(0), None);
        } else {
            self.scheduler.ended(id, went, has_lingered, None, now);
        }
    }

    /// Delivers one event quickly.
    fn befriend(&mut self, name: u16) {
        self.queue(name, 1);
        for (_, id) in self.start(NOW) {
            self.end(id, AttemptOutcome::Delivered);
        }
    }
}

fn count(started: &[(EndpointId, DeliveryId)], name: u16) -> usize {
    let of = |(each, _): &&(EndpointId, DeliveryId)| *each == endpoint(name);
    started.iter().filter(of).count()
}

#[test]
fn endpoints_take_turns() {
    let mut world = World::default();
    for name in 0..4 {
        world.befriend(name);
    }
    for name in 0..4 {
        world.queue(name, 100);
    }
    let started = world.start(NOW);
    // At every point each endpoint has as many as the others, apart from the claims.
    for name in 0..4 {
        assert_eq!(count(&started, name), 8);
        assert_eq!(count(&started[..16], name), 4);
    }
}

#[test]
fn a_silent_endpoint_keeps_its_share_once_and_one_slot_from_then_on() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 1000);
    let first = world.start(NOW);
    assert_eq!(first.len(), EndpointClass::Quick.share());
    for (_, id) in &first {
        world.scheduler.lingers(*id);
    }
    assert_eq!(world.scheduler.slots(), (0, first.len()));
    assert_eq!(world.start(NOW), []);
    for (_, id) in &first[..4] {
        world.end(*id, AttemptOutcome::NoAnswer);
    }
    assert_eq!(world.start(NOW), [], "as long as others are under way");
    for (_, id) in &first[4..] {
        world.end(*id, AttemptOutcome::NoAnswer);
    }
    // The circuit is not tested here and holds nothing back.
    assert_eq!(world.start(NOW).len(), 1);
    assert_eq!(world.scheduler.slots(), (0, 1));
}

#[test]
fn of_a_stranger_one_attempt_tells_what_it_is() {
    let mut world = World::default();
    world.queue(1, 1000);
    let first = world.start(NOW);
    assert_eq!(first.len(), 1);
    assert_eq!(world.start(NOW), []);
    world.end(first[0].1, AttemptOutcome::Delivered);
    assert_eq!(world.start(NOW).len(), EndpointClass::Quick.share());
}

#[test]
fn thirty_silent_strangers_delay_no_other_stranger() {
    let mut world = World::default();
    for name in 0..30 {
        world.queue(name, 1000);
    }
    assert_eq!(world.start(NOW).len(), 30);
    world.queue(99, 3);
    let stranger = world.start(NOW);
    assert_eq!(count(&stranger, 99), 1);
    world.end(stranger[0].1, AttemptOutcome::Delivered);
    assert_eq!(count(&world.start(NOW), 99), 2);
}

#[test]
fn a_dozen_friends_that_fall_silent_delay_no_other_friend() {
    let mut world = World::default();
    for name in 0..12 {
        world.befriend(name);
    }
    world.befriend(99);
    for name in 0..12 {
        world.queue(name, 1000);
    }
    assert_eq!(world.start(NOW).len(), 12 * EndpointClass::Quick.share());
    world.queue(99, 1);
    assert_eq!(count(&world.start(NOW), 99), 1);
}

#[test]
fn strangers_wait_for_silent_ones_no_longer_than_until_they_linger() {
    let mut world = World::default();
    for name in 0..100 {
        world.queue(name, 1000);
    }
    let silent = world.start(NOW);
    assert_eq!(silent.len(), NEWCOMERS);
    world.queue(999, 3);
    for (_, id) in &silent {
        world.scheduler.lingers(*id);
    }
    assert_eq!(count(&world.start(NOW), 999), 1);
}

#[test]
fn who_answers_again_does_not_stand_in_line_with_the_silent() {
    let mut world = World::default();
    // Enough to fill their pool, and more that wait for it.
    for name in 0..300 {
        world.queue(name, 10);
    }
    for _ in 0..6 {
        for (_, id) in world.start(NOW) {
            world.scheduler.lingers(id);
            world.end(id, AttemptOutcome::NoAnswer);
        }
    }
    world.start(NOW);
    assert_eq!(world.scheduler.slots.count(EndpointClass::Silent), SILENT);
    world.befriend(999);
    world.queue(999, 30);
    let own: Vec<_> = world.start(NOW).into_iter().map(|(_, id)| id).collect();
    assert_eq!(own.len(), EndpointClass::Quick.share());
    for id in &own[1..] {
        world.scheduler.lingers(*id);
        world.end(*id, AttemptOutcome::NoAnswer);
    }
    world.scheduler.lingers(own[0]);
    assert_eq!(
        count(&world.start(NOW), 999),
        0,
        "it stands among the silent"
    );
    world.end(own[0], AttemptOutcome::Delivered);
    assert_eq!(count(&world.start(NOW), 999), EndpointClass::Quick.share());
}

#[test]
fn what_has_arrived_leaves_its_slot_and_stays_in_hand_until_it_is_recorded() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 1);
    let (_, id) = world.start(NOW)[0];
    world.scheduler.arrived(id, false, NOW);
    assert_eq!(world.scheduler.slots(), (0, 0));
    assert!(!world.scheduler.is_idle(NOW));
    // The clock was moved, so that its lease has ended.
    world.scheduler.due(endpoint(1), NOW);
    let again = DueDelivery { id, ..due(77) };
    let Some(SchedulerAction::Claim(..)) = world.scheduler.next(NOW) else {
        panic!("a claim");
    };
    let end = Some(NOW.after(Duration::from_secs(60)));
    world.scheduler.claimed(endpoint(1), vec![again], end, NOW);
    assert_eq!(world.start(NOW), [], "it is not sent twice");
    world.scheduler.recorded(id, endpoint(1), None);
    assert!(world.scheduler.is_idle(NOW));
}

#[test]
fn no_more_is_sent_than_the_store_records() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 10_000);
    let mut arrived = Vec::new();
    loop {
        let started = world.start(NOW);
        if started.is_empty() {
            break;
        }
        for (_, id) in started {
            world.scheduler.arrived(id, false, NOW);
            arrived.push(id);
        }
    }
    let share = EndpointClass::Quick.share();
    assert!((UNRECORDED..UNRECORDED + share).contains(&arrived.len()));
    for id in arrived {
        world.scheduler.recorded(id, endpoint(1), None);
    }
    assert_eq!(world.start(NOW).len(), share);
}

#[test]
fn whatever_silent_strangers_do_known_endpoints_start_at_once() {
    let mut world = World::default();
    world.befriend(9999);
    for name in 0..2000 {
        world.queue(name, 50);
    }
    let mut under_way = world.start(NOW);
    for _ in 0..20 {
        // All linger, the slow pool is full, and more arrive.
        for (_, id) in &under_way {
            world.scheduler.lingers(*id);
        }
        under_way.extend(world.start(NOW));
        world.queue(9999, 1);
        let friend = world.start(NOW);
        assert_eq!(count(&friend, 9999), 1);
        for (who, id) in friend {
            if who == endpoint(9999) {
                world.end(id, AttemptOutcome::Delivered);
            } else {
                under_way.push((who, id));
            }
        }
        let (_, oldest) = under_way.remove(0);
        world.end(oldest, AttemptOutcome::NoAnswer);
    }
    let (quick, slow) = world.scheduler.slots();
    assert!(slow <= SLOW && quick <= NEWCOMERS, "{quick} {slow}");
}

#[test]
fn many_that_answer_late_leave_slots_to_the_silent_and_to_what_lingers() {
    let mut world = World::default();
    for name in 0..400 {
        world.queue(name, 1000);
    }
    // Three hundred answer late, a hundred do not answer.
    for _ in 0..7 {
        for (who, id) in world.start(NOW) {
            world.scheduler.lingers(id);
            let is_silent = (300..400).any(|name| who == endpoint(name));
            let went = if is_silent {
                AttemptOutcome::NoAnswer
            } else {
                AttemptOutcome::Failed
            };
            world.end_at(id, went, true, NOW);
        }
    }
    world.start(NOW);
    let slots = &world.scheduler.slots;
    assert_eq!(slots.count(EndpointClass::Slow), LATE);
    assert_eq!(slots.count(EndpointClass::Silent), 100, "each has one");
    for name in 1000..1016 {
        world.befriend(name);
        world.queue(name, 1000);
    }
    // All friends fall silent together, and all their attempts still leave the quick pool.
    let friends = world.start(NOW);
    assert_eq!(friends.len(), QUICK - FOR_NEWCOMERS);
    for (_, id) in friends {
        world.scheduler.lingers(id);
    }
    assert_eq!(world.scheduler.slots.quick(), 0);
}

#[test]
fn a_host_that_cannot_be_reached_and_takes_long_to_tell_is_silent() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 1000);
    let mut under_way = world.start(NOW);
    assert_eq!(under_way.len(), EndpointClass::Quick.share());
    for (_, id) in under_way.drain(..) {
        world.end_at(id, AttemptOutcome::NoAnswer, true, NOW);
    }
    assert_eq!(world.start(NOW).len(), EndpointClass::Silent.share());
    // An endpoint that refuses immediately does not delay others.
    world.befriend(2);
    world.queue(2, 1000);
    for (_, id) in world.start(NOW) {
        world.end_at(id, AttemptOutcome::NoAnswer, false, NOW);
    }
    assert_eq!(
        count(&world.start(NOW), 2),
        EndpointClass::Quick.share(),
        "but for its circuit, which holds nothing back here"
    );
}

#[test]
fn busy_friends_leave_slots_to_strangers() {
    let mut world = World::default();
    for name in 0..20 {
        world.befriend(name);
    }
    for name in 0..20 {
        world.queue(name, 1000);
    }
    assert_eq!(world.start(NOW).len(), QUICK - FOR_NEWCOMERS);
    world.queue(77, 2);
    world.queue(78, 2);
    let strangers = world.start(NOW);
    assert_eq!((count(&strangers, 77), count(&strangers, 78)), (1, 1));
}

#[test]
fn a_process_that_may_open_few_files_has_a_quarter_of_the_attempts_under_way() {
    let mut world = World::default();
    world.scheduler.limit_slots(true);
    for name in 0..1000 {
        world.queue(name, 10);
    }
    let mut begun = 0;
    loop {
        let started = world.start(NOW);
        if started.is_empty() {
            break;
        }
        begun += started.len();
        for (_, id) in started {
            world.scheduler.lingers(id);
        }
    }
    assert!((QUICK / 4..=(QUICK + SLOW) / 4).contains(&begun), "{begun}");
}

#[test]
fn a_recovered_endpoint_has_its_share_again() {
    let mut world = World::default();
    world.queue(1, 1000);
    for (_, id) in world.start(NOW) {
        world.scheduler.lingers(id);
        world.end(id, AttemptOutcome::NoAnswer);
    }
    for (_, id) in world.start(NOW) {
        world.end(id, AttemptOutcome::Delivered);
    }
    assert_eq!(world.start(NOW).len(), EndpointClass::Quick.share());
}

#[test]
fn what_is_held_in_memory_is_bounded() {
    let mut world = World::default();
    for name in 0..300 {
        world.befriend(name);
    }
    for name in 0..300 {
        world.queue(name, 100);
    }
    world.start(NOW);
    // Of 30,000: full pages until the limit, then one per endpoint, so that no endpoint starves.
    let most = BUFFERED + 300;
    assert!(
        world.scheduler.buffered <= most,
        "{}",
        world.scheduler.buffered
    );
}

#[test]
fn what_was_claimed_too_long_ago_is_given_back_and_claimed_anew() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 20);
    let first = world.start(NOW);
    assert_eq!(first.len(), 8);
    assert_eq!(world.scheduler.buffered, 12);
    let later = NOW.after(BUFFERED_FOR);
    for (_, id) in &first {
        world.end_at(*id, AttemptOutcome::Delivered, false, later);
    }
    assert_eq!(world.start(later), []);
    assert_eq!(world.given_back.len(), 12);
    world.queue(1, 12);
    assert_eq!(world.start(later).len(), 8);
}

#[test]
fn an_open_circuit_waits_and_then_lets_one_try() {
    let mut world = World::default();
    world.scheduler.hold_for(Duration::from_secs(60));
    world.queue(1, 1000);
    let mut failed = 0;
    while failed < 5 {
        for (_, id) in world.start(NOW) {
            world.end(id, AttemptOutcome::Failed);
            failed += 1;
        }
    }
    assert_eq!(world.start(NOW), []);
    let state = |world: &World, now| world.scheduler.circuit(endpoint(1)).state(now);
    assert_eq!(state(&world, NOW), CircuitState::Open);
    assert_eq!(world.scheduler.circuits().count(), 1);
    let wakes = world.scheduler.wakes_at().unwrap();
    assert_eq!(wakes, NOW.after(Duration::from_secs(10)));
    assert!(world.scheduler.is_idle(NOW) && !world.scheduler.is_idle(wakes));
    assert_eq!(world.start(wakes).len(), 1);
    assert_eq!(state(&world, wakes), CircuitState::HalfOpen);
}

#[test]
fn what_a_reseller_may_not_hear_says_nothing_of_its_receiver() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 8);
    for (_, id) in world.start(NOW) {
        world.end(id, AttemptOutcome::Withheld);
    }
    assert_eq!(world.scheduler.circuits().count(), 0);
    world.queue(1, 8);
    assert_eq!(world.start(NOW).len(), 8, "it is a friend still");
}

#[test]
fn no_attempt_waits_longer_for_an_open_circuit_than_it_may() {
    const HOLD: u64 = 60;
    let mut world = World::default();
    world.scheduler.hold_for(Duration::from_secs(HOLD));
    world.befriend(1);
    // All are claimed together, so that nothing in the store shows how long they have waited.
    let all = EndpointClass::Quick.page();
    world.queue(1, all);
    let (mut tried, mut given_back) = (0, 0);
    for second in 0..=HOLD {
        let now = NOW.after(Duration::from_secs(second));
        while let Some(action) = world.scheduler.next(now) {
            match action {
                SchedulerAction::Claim(endpoint, at_most) => {
                    let (taken, next) = world.backlog.take(endpoint, at_most);
                    world.scheduler.claimed(endpoint, taken, next, now);
                }
                // Their leases end before the hold does, so they are claimed again.
                SchedulerAction::GiveBack(dropped) => {
                    *world.backlog.left.entry(endpoint(1)).or_default() += dropped.len();
                    given_back += dropped.len();
                }
                SchedulerAction::Start(_, due) => {
                    tried += 1;
                    world.end_at(due.id, AttemptOutcome::Failed, false, now);
                }
            }
        }
    }
    assert!(given_back > 0);
    assert_eq!(tried, all);
}

#[test]
fn what_was_due_before_a_claim_is_not_due_later_for_it() {
    let mut world = World::default();
    world.scheduler.due(endpoint(1), NOW);
    let claim = world.scheduler.next(NOW);
    assert!(
        matches!(claim, Some(SchedulerAction::Claim(..))),
        "{claim:?}"
    );
    // Something is queued in the meantime. The claim has not seen it, and returns a delivery that has been
    // due for long.
    let later = NOW.after(Duration::from_secs(30));
    world.scheduler.due(endpoint(1), later);
    world
        .scheduler
        .claimed(endpoint(1), vec![], Some(NOW), later);
    assert_eq!(world.scheduler.flows[&endpoint(1)].next, Some(NOW));
}

#[test]
fn an_endpoint_that_takes_nothing_has_no_open_circuit() {
    let mut world = World::default();
    world.scheduler.hold_for(Duration::from_secs(60));
    world.queue(1, 1000);
    for _ in 0..5 {
        for (_, id) in world.start(NOW) {
            world.end(id, AttemptOutcome::Failed);
        }
    }
    assert_eq!(world.scheduler.circuits().count(), 1);
    world.scheduler.disable_flow(endpoint(1));
    assert_eq!(world.scheduler.circuits().count(), 0);
}

#[test]
fn a_disabled_endpoint_gives_back_what_waits() {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 50);
    let started = world.start(NOW);
    // Some of the claimed deliveries are in flight, the rest waits for slots.
    let share = EndpointClass::Quick.share();
    assert_eq!(started.len(), share);
    world.end(started[0].1, AttemptOutcome::NotTried);
    assert_eq!(world.scheduler.buffered, 0);
    world.start(NOW);
    assert_eq!(world.given_back.len(), 50 - share);
}

#[test]
fn what_is_put_aside_is_given_back_before_it_is_claimed_anew() {
    // Their leases are about to end, or their endpoint was disabled for a moment.
    for later in [NOW.after(BUFFERED_FOR), NOW] {
        let mut world = World::default();
        world.befriend(1);
        world.queue(1, 20);
        let started = world.start(NOW);
        let (_, id) = started[0];
        if later == NOW {
            world
                .scheduler
                .ended(id, AttemptOutcome::NotTried, false, Some(NOW), later);
        } else {
            world.end_at(id, AttemptOutcome::Delivered, false, later);
        }
        let Some(SchedulerAction::GiveBack(dropped)) = world.scheduler.next(later) else {
            panic!("a lease that is held hides what it is for");
        };
        assert_eq!(dropped.len(), 12);
        let claim = world.scheduler.next(later);
        assert!(
            matches!(claim, Some(SchedulerAction::Claim(..))),
            "{claim:?}"
        );
    }
}

/// Twenty deliveries wait. Returns the started ones; another claim is running.
fn claiming_more() -> (World, Vec<(EndpointId, DeliveryId)>) {
    let mut world = World::default();
    world.befriend(1);
    world.queue(1, 20);
    let started = world.start(NOW);
    world.scheduler.due(endpoint(1), NOW);
    let claim = world.scheduler.next(NOW);
    assert!(
        matches!(claim, Some(SchedulerAction::Claim(..))),
        "{claim:?}"
    );
    (world, started)
}

#[test]
fn a_claim_that_has_passed_over_what_is_given_back_is_made_again() {
    // More is queued, and the store answers late.
    let (mut world, started) = claiming_more();
    assert_eq!(world.scheduler.next(NOW), None);
    let later = NOW.after(BUFFERED_FOR);
    world.end_at(started[0].1, AttemptOutcome::Delivered, false, later);
    let dropped = world.scheduler.next(later);
    assert!(
        matches!(dropped, Some(SchedulerAction::GiveBack(_))),
        "{dropped:?}"
    );
    world.scheduler.claimed(endpoint(1), vec![], None, later);
    let again = world.scheduler.next(later);
    assert!(
        matches!(again, Some(SchedulerAction::Claim(..))),
        "{again:?}"
    );
}

#[test]
fn what_is_in_hand_is_not_taken_a_second_time() {
    // Their leases have ended because the store answered late, so the claim returns all of them again.
    let (mut world, started) = claiming_more();
    let all = (2..=21).map(due).collect();
    world.scheduler.claimed(endpoint(1), all, None, NOW);
    let mut ids: Vec<_> = started.into_iter().map(|(_, id)| id).collect();
    for at in 0..20 {
        world.end(ids[at], AttemptOutcome::Delivered);
        ids.extend(world.start(NOW).into_iter().map(|(_, id)| id));
    }
    let distinct: HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (20, 20));
    assert_eq!(
        (world.scheduler.slots(), world.scheduler.buffered),
        ((0, 0), 0)
    );
}

#[test]
fn idle_endpoints_are_forgotten_beyond_a_number() {
    let mut world = World::default();
    for name in 0..3_000 {
        world.queue(name, 1);
    }
    world.start(NOW);
    for name in 3_000..40_000 {
        world.scheduler.due(endpoint(name), NOW);
        let flow = world.scheduler.flows.get_mut(&endpoint(name)).unwrap();
        flow.next = None;
    }
    let known = world.scheduler.flows.len();
    assert!((3_000..=REMEMBERED).contains(&known), "{known}");
}

#[test]
fn nothing_is_remembered_of_an_endpoint_that_nothing_is_known_of() {
    let mut world = World::default();
    world.scheduler.due(endpoint(1), NOW);
    assert_eq!(world.start(NOW), []);
    assert!(world.scheduler.flows.is_empty() && world.scheduler.is_idle(NOW));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn slots_are_counted_right_whatever_happens(
        steps in prop::collection::vec((0_u8..6, 0_u16..80, any::<prop::sample::Index>()), 1..400),
    ) {
        let mut world = World::default();
        world.scheduler.hold_for(Duration::from_secs(60));
        let mut under_way: Vec<(EndpointId, DeliveryId)> = Vec::new();
        let mut now = NOW;
        for (what, name, index) in steps {
            match what {
                0 | 1 => world.queue(name, usize::from(name)),
                2 => now = now.after(Duration::from_secs(u64::from(name))),
                _ => {}
            }
            if what > 2 && !under_way.is_empty() {
                let at = index.index(under_way.len());
                let (_, id) = under_way[at];
                if what == 3 {
                    world.scheduler.lingers(id);
                } else {
                    under_way.swap_remove(at);
                    let pause = Duration::from_secs(name.into());
                    let went = [
                        AttemptOutcome::Delivered,
                        AttemptOutcome::Failed,
                        AttemptOutcome::AskedToWait(pause),
                        AttemptOutcome::NoAnswer,
                        AttemptOutcome::NotTried,
                    ];
                    let went = went[usize::from(name) % 5];
                    world.end_at(id, went, name % 3 == 0, now);
                }
            }
            under_way.extend(world.start(now));
            let scheduler = &world.scheduler;
            let of = |pick: &dyn Fn(&UnderWay) -> bool| {
                scheduler.under_way.values().filter(|each| pick(each)).count()
            };
            prop_assert_eq!(scheduler.under_way.len(), under_way.len());
            prop_assert_eq!(scheduler.slots.moved, of(&|each| each.has_moved));
            for class in CLASSES {
                let begun = of(&|each| each.class == class && !each.has_moved);
                prop_assert_eq!(scheduler.slots.count(class), begun);
            }
            let (quick, slow) = scheduler.slots();
            prop_assert_eq!(quick + slow, under_way.len());
            prop_assert!(quick <= QUICK && slow <= SLOW);
            prop_assert!(scheduler.slots.count(EndpointClass::New) <= NEWCOMERS);
            prop_assert!(scheduler.slots.count(EndpointClass::Slow) <= LATE);
            prop_assert!(scheduler.slots.count(EndpointClass::Silent) <= SILENT);
            let buffered: usize = scheduler.flows.values().map(|flow| flow.buffer.len()).sum();
            prop_assert_eq!(scheduler.buffered, buffered);
            for (id, flow) in &scheduler.flows {
                let mine = scheduler.under_way.values().filter(|each| each.endpoint == *id);
                prop_assert_eq!(flow.in_flight, mine.count());
                prop_assert!(flow.in_flight <= EndpointClass::Quick.share());
            }
        }
    }
}
