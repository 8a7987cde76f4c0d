//! Checks the rules of heartbeats with random schedules, and shows that each planted fault breaks them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

use super::*;

const NODES: usize = 3;
const NAMES: [&str; NODES] = ["a", "b", "c"];

/// An event of a schedule.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A node sends a heartbeat.
    Send(usize),
    /// The database executes a sent statement.
    Arrive(usize),
    /// The node receives an answer.
    Hear(usize),
    /// The node's connection breaks; statements already sent may still arrive.
    Break(usize),
    /// The directory is changed.
    Change,
    /// The node that changed the directory checks whether it may answer.
    Look,
    /// A node removes the rows of nodes that are gone.
    Remove(usize),
    /// A node receives a request.
    Request(usize),
    /// The standby replicates the current state of the database.
    Replicate,
    /// The standby is promoted, without later changes.
    FailOver,
}

/// A fault planted in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    None,
    /// A heartbeat reports the version that it reads.
    ToldBeforeAdopted,
    /// A heartbeat is valid from the arrival of its answer.
    GoodFromAnswer,
    /// A new connection retains the version adopted over the old one.
    NeverAnew,
    /// A row is removed even if it was renewed.
    RemovedBlindly,
    /// A change is answered without waiting.
    NoWait,
    /// Cached data is not dropped.
    NothingDropped,
}

fn event() -> impl Strategy<Value = Event> {
    let node = 0..NODES;
    prop_oneof![
        3 => (0_u64..400).prop_map(Event::Pass),
        1 => (1000_u64..4000).prop_map(Event::Pass),
        4 => node.clone().prop_map(Event::Send),
        4 => node.clone().prop_map(Event::Arrive),
        4 => node.clone().prop_map(Event::Hear),
        1 => node.clone().prop_map(Event::Break),
        3 => Just(Event::Change),
        5 => Just(Event::Look),
        1 => node.clone().prop_map(Event::Remove),
        5 => node.prop_map(Event::Request),
        1 => Just(Event::Replicate),
        1 => Just(Event::FailOver),
    ]
}

#[derive(Clone, Default)]
struct Database {
    version: i64,
    /// Number of the latest change; never reused.
    latest: u64,
    /// For each node: reported version, time of the last renewal, and incarnation.
    rows: [Option<(i64, u64, i64)>; NODES],
}

struct Flight {
    sent: Moment,
    told: i64,
    /// The answer: version and rows. `None` if the node had no row.
    found: Option<(i64, Vec<Row>)>,
}

struct Node {
    membership: Membership,
    incarnation: i64,
    flight: Option<Flight>,
    /// Data that a request has cached.
    remembered: Option<(u64, u64)>,
}

struct World {
    plant: Plant,
    now: Duration,
    count: u64,
    database: Database,
    standby: Database,
    nodes: [Node; NODES],
    /// A change that is not answered yet: version, ordinal number and time.
    waiting: Option<(i64, u64, Duration)>,
    answered: u64,
}

impl World {
    fn new(plant: Plant) -> Self {
        let node = |_| Node {
            membership: Membership::new(LAPSE),
            incarnation: 0,
            flight: None,
            remembered: None,
        };
        let mut world = Self {
            plant,
            now: Duration::ZERO,
            count: 0,
            database: Database::default(),
            standby: Database::default(),
            nodes: std::array::from_fn(node),
            waiting: None,
            answered: 0,
        };
        for node in 0..NODES {
            world.join(node);
        }
        world.standby = world.database.clone();
        world
    }

    fn moment(&self) -> Moment {
        Moment {
            monotonic: self.now,
            wall: self.now,
        }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn join(&mut self, node: usize) {
        let beat = self.next();
        self.nodes[node].incarnation += 1;
        self.database.rows[node] = Some((0, beat, self.nodes[node].incarnation));
        self.begin_anew(node);
    }

    fn begin_anew(&mut self, node: usize) {
        self.nodes[node].flight = None;
        if self.plant != Plant::NeverAnew {
            self.nodes[node].membership.begin_anew();
        }
    }

    fn rows(&self) -> Vec<Row> {
        let rows = self.database.rows.iter().zip(NAMES);
        rows.filter_map(|(row, name)| row.map(|row| (row, name)))
            .map(|((_, beat, incarnation), name)| Row {
                name: name.into(),
                incarnation,
                beat: time(beat),
                demand: 0,
            })
            .collect()
    }

    fn arrive(&mut self, node: usize) {
        let beat = self.next();
        let version = self.database.version;
        let rows = self.rows();
        let incarnation = self.nodes[node].incarnation;
        let Some(flight) = &mut self.nodes[node].flight else {
            return;
        };
        let row = self.database.rows[node]
            .as_mut()
            .filter(|row| row.2 == incarnation);
        let Some(row) = row else {
            flight.found = Some((version, Vec::new()));
            return;
        };
        (row.0, row.1) = (flight.told, beat);
        if self.plant == Plant::ToldBeforeAdopted {
            row.0 = version;
        }
        flight.found = Some((version, rows));
    }

    fn hear(&mut self, node: usize) {
        let now = self.moment();
        let Some(Flight {
            sent,
            found: Some((version, rows)),
            ..
        }) = self.nodes[node]
            .flight
            .take_if(|flight| flight.found.is_some())
        else {
            return;
        };
        if rows.is_empty() {
            return self.join(node);
        }
        let sent = match self.plant {
            Plant::GoodFromAnswer => now,
            _ => sent,
        };
        let of = &mut self.nodes[node];
        let own = (NAMES[node], of.incarnation);
        of.membership
            .on_answer((sent, now), own, (1, version), &rows);
    }

    fn remove(&mut self, by: usize) {
        let gone = self.nodes[by].membership.gone(self.moment());
        for (name, incarnation, beat) in gone {
            let node = NAMES.iter().position(|each| *each == name).unwrap();
            let same = |row: &(i64, u64, i64)| {
                row.2 == incarnation && (time(row.1) == beat || self.plant == Plant::RemovedBlindly)
            };
            if self.database.rows[node].as_ref().is_some_and(same) {
                self.database.rows[node] = None;
            }
        }
    }

    fn look(&mut self) {
        let Some((version, change, made)) = self.waiting else {
            return;
        };
        let adopted = |row: &Option<(i64, u64, i64)>| row.is_none_or(|row| row.0 >= version);
        if self.now - made >= SILENT_NODE_WAIT
            || self.database.rows.iter().all(adopted)
            || self.plant == Plant::NoWait
        {
            (self.waiting, self.answered) = (None, change);
        }
    }

    /// A request received after a change was answered must not use older data.
    fn request(&mut self, node: usize) -> TestCaseResult {
        let (now, latest) = (self.moment(), self.database.latest);
        let node = &mut self.nodes[node];
        if !node.membership.is_good(now) {
            return Ok(());
        }
        let number = match self.plant {
            Plant::NothingDropped => 0,
            _ => node.membership.number(),
        };
        let used = match node.remembered {
            Some((under, what)) if under == number => what,
            _ => latest,
        };
        node.remembered = Some((number, used));
        prop_assert!(
            used >= self.answered,
            "{used} was used after {} was answered",
            self.answered
        );
        Ok(())
    }

    fn happens(&mut self, event: Event) -> TestCaseResult {
        match event {
            Event::Pass(millis) => self.now += Duration::from_millis(millis),
            Event::Send(node) => {
                let sent = self.moment();
                let of = &mut self.nodes[node];
                let told = of.membership.seen();
                let flight = Flight {
                    sent,
                    told,
                    found: None,
                };
                of.flight.get_or_insert(flight);
            }
            Event::Arrive(node) => self.arrive(node),
            Event::Hear(node) => self.hear(node),
            Event::Break(node) => self.begin_anew(node),
            Event::Change => {
                if self.waiting.is_none() {
                    self.database.version += 1;
                    self.database.latest = self.next();
                    let (version, change) = (self.database.version, self.database.latest);
                    self.waiting = Some((version, change, self.now));
                }
            }
            Event::Look => self.look(),
            Event::Remove(by) => self.remove(by),
            Event::Request(node) => return self.request(node),
            Event::Replicate => self.standby = self.database.clone(),
            Event::FailOver => {
                self.database = self.standby.clone();
                self.waiting = None;
                self.answered = self.answered.min(self.database.latest);
                for node in 0..NODES {
                    self.begin_anew(node);
                }
            }
        }
        Ok(())
    }
}

fn time(count: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(count)
}

/// Runs schedules with a planted fault; returns whether a rule was broken.
fn breaks(plant: Plant, schedules: u32) -> bool {
    let config = Config {
        cases: schedules,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let schedule = prop::collection::vec(event(), 200..400);
    let ran = runner.run(&schedule, |schedule| {
        let mut world = World::new(plant);
        schedule
            .into_iter()
            .try_for_each(|event| world.happens(event))
    });
    ran.is_err()
}

#[test]
fn nothing_from_before_a_change_is_used_once_it_was_answered() {
    assert!(!breaks(Plant::None, 3000));
}

#[test]
fn a_version_that_is_told_before_it_is_adopted_is_seen_by_the_law() {
    assert!(breaks(Plant::ToldBeforeAdopted, 3000));
}

#[test]
fn each_other_fault_is_seen_by_the_law_too() {
    for plant in [
        Plant::GoodFromAnswer,
        Plant::NeverAnew,
        Plant::RemovedBlindly,
        Plant::NoWait,
        Plant::NothingDropped,
    ] {
        assert!(breaks(plant, 3000), "{plant:?}");
    }
}

fn at(monotonic: u64, wall: u64) -> Moment {
    Moment {
        monotonic: Duration::from_millis(monotonic),
        wall: Duration::from_millis(wall),
    }
}

fn row(name: &str, demand: i64) -> Row {
    Row {
        name: name.into(),
        incarnation: 1,
        beat: UNIX_EPOCH,
        demand,
    }
}

fn beaten(membership: &mut Membership, sent: Moment, version: i64) -> Next {
    membership.on_answer((sent, sent), ("a", 1), (1, version), &[row("a", 0)])
}

#[test]
fn what_a_beat_found_is_told_by_the_next_one_at_once() {
    let mut node = Membership::new(LAPSE);
    assert_eq!(node.seen(), 0);
    assert_eq!(beaten(&mut node, at(0, 0), 7), Next::AtOnce);
    let number = node.number();
    assert_eq!(node.seen(), 7);
    assert_eq!(beaten(&mut node, at(500, 500), 7), Next::InTime);
    assert_eq!(node.number(), number, "nothing has changed");
    assert_eq!(beaten(&mut node, at(1000, 1000), 8), Next::AtOnce);
    assert_ne!(node.number(), number);
    node.begin_anew();
    assert_eq!(node.seen(), 0, "another connection may lead elsewhere");
}

#[test]
fn a_beat_is_good_by_both_clocks_or_not_at_all() {
    let mut node = Membership::new(LAPSE);
    assert!(!node.is_good(at(0, 0)), "it has not beaten yet");
    beaten(&mut node, at(10_000, 50_000), 1);
    assert!(node.is_good(at(11_349, 51_349)));
    assert!(!node.is_good(at(11_350, 51_349)));
    assert!(!node.is_good(at(10_100, 70_000)), "it was suspended");
    assert!(node.is_good(at(10_100, 40_000)), "the clock was set back");
}

#[test]
fn nothing_is_served_at_a_promoted_server_while_others_may_read_the_one_before() {
    let mut node = Membership::new(LAPSE);
    beaten(&mut node, at(1000, 1000), 1);
    assert!(node.is_good(at(1100, 1100)));
    node.on_promotion(at(1200, 1200));
    assert!(!node.is_good(at(1200, 1200)), "its beat was elsewhere");
    for millis in [1300, 1800, 2300] {
        beaten(&mut node, at(millis, millis), 1);
        assert!(!node.is_good(at(millis + 100, millis + 5000)), "{millis}");
    }
    assert!(!node.is_good(at(2699, 2699)));
    assert!(node.is_good(at(2700, 2700)));
}

#[test]
fn a_change_of_its_own_is_adopted_without_a_second_look() {
    let mut node = Membership::new(LAPSE);
    beaten(&mut node, at(0, 0), 7);
    let number = node.number();
    node.on_own_change(8);
    assert_ne!(node.number(), number);
    assert_eq!(node.seen(), 8);
    let number = node.number();
    // Sent before the change, answered after it.
    assert_eq!(beaten(&mut node, at(100, 100), 7), Next::AtOnce);
    assert_eq!((node.number(), node.seen()), (number, 8));
    assert_eq!(beaten(&mut node, at(101, 101), 8), Next::InTime);
    assert_eq!(node.number(), number);
    // Another node's change was committed in between.
    node.on_own_change(10);
    assert_eq!(node.seen(), 8);
    assert_eq!(beaten(&mut node, at(200, 200), 10), Next::AtOnce);
    // Versions were lost by a failover.
    assert_eq!(beaten(&mut node, at(300, 300), 9), Next::AtOnce);
    assert_eq!(beaten(&mut node, at(301, 301), 9), Next::AtOnce);
    assert_eq!(node.seen(), 9);
}

#[test]
fn a_row_is_gone_once_it_was_not_renewed_for_long_enough() {
    let mut node = Membership::new(LAPSE);
    let renewed = Row {
        beat: time(1),
        ..row("c", 0)
    };
    for (millis, other) in [(0, row("c", 0)), (2000, renewed)] {
        let rows = [row("a", 0), row("b", 0), other];
        node.on_answer((at(millis, 0), at(millis, 0)), ("a", 1), (1, 1), &rows);
    }
    assert_eq!(node.live(), 3);
    assert_eq!(node.gone(at(2999, 0)), []);
    assert_eq!(node.gone(at(3000, 0)), [("b".into(), 1, UNIX_EPOCH)]);
    assert_eq!(node.gone(at(5000, 0)).len(), 2);
}

proptest! {
    #[test]
    fn the_shares_of_all_nodes_make_one_whole(demands in prop::collection::vec(0_i64..10_000_000, 1..9)) {
        let names: Vec<_> = (0..demands.len()).map(|at| at.to_string()).collect();
        let rows: Vec<_> = names.iter().zip(&demands).map(|(name, demand)| row(name, *demand)).collect();
        let shares: Vec<_> = names.iter().map(|name| share(name, &rows)).collect();
        prop_assert_eq!(shares.iter().map(|share| share.own).sum::<u64>(), shares[0].all);
        for share in &shares {
            prop_assert_eq!(share.all, shares[0].all);
            // Half of an equal share, of at most one and a half.
            prop_assert!(share.own * 3 * u64::try_from(rows.len()).unwrap() >= share.all);
        }
    }
}

#[test]
fn a_node_that_all_requests_come_to_has_most_of_a_limit() {
    let rows = [row("a", 100_000), row("b", 0), row("c", 0)];
    let of = |name| share(name, &rows).share_of(120);
    assert_eq!([of("a"), of("b"), of("c")], [90, 15, 15]);
    let idle = [row("a", 0), row("b", 0)];
    assert_eq!(share("a", &idle).share_of(100), 50);
    assert_eq!(share("a", &idle).share_of(1), 1, "none is shut out");
}

#[test]
fn demand_follows_the_rate_of_requests() {
    let mut demand = Demand::default();
    let mut last = 0;
    for _ in 0..20 {
        last = demand.note(50, Duration::from_millis(500));
    }
    assert!((99_000..=100_000).contains(&last), "{last}");
    for _ in 0..60 {
        last = demand.note(0, Duration::from_millis(500));
    }
    assert_eq!(last, 0);
}
