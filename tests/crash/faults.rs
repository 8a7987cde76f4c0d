//! Three nodes on a database with a synchronous standby: faults of nodes, of the database and of the connections
//! between them, each under load and followed by a check.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use crate::database::{Database, Stopped, signal};
use crate::kills::{Load, OFFICE, found, judge_all, merchant};
use crate::process::{Home, Node, Running, start};
use crate::proxy::Faults;
use crate::receiver::Receiver;
use crate::revocations::Revocations;
use crate::seeded_random::SeededRandom;
use crate::steady_state;
use crate::wire::{Ask, Line};

const NODES: usize = 3;
const REVOKERS: usize = 2;
/// Numbers of long node stops in 500 faults: longer than any lease except that of a payment, and longer than that
/// one.
const STOPS: [(usize, Duration); 2] = [
    (40, Duration::from_secs(20)),
    (10, Duration::from_secs(130)),
];
const OF: usize = 500;
/// Maximum time until nodes are ready after a promotion.
const AFTER_A_PROMOTION: Duration = Duration::from_secs(5);
/// Maximum time until nodes are ready after another fault, since a node may have to start.
const AFTER_A_FAULT: Duration = Duration::from_secs(60);
/// Time for which one node still reaches the old server while the others use the new one.
const ISOLATION: Duration = Duration::from_secs(3);
/// Maximum load before and after a fault, in milliseconds.
const LOAD: usize = 800;
/// Pause of a client between two requests. Faults can be long, and everything acknowledged in that time must be
/// checked.
const PAUSE: Duration = Duration::from_millis(100);
/// Time to wait for clients whose simulator delays them.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
enum Fault {
    NodeKilled,
    NodeStopped(Duration),
    DatabaseStopped,
    DatabaseRestarted,
    DatabasePaused,
    ConnectionsCut,
    NetworkSilent,
    StandbyPaused,
    Failover,
    FailoverUnseen,
}

/// The remaining faults, in equal proportions.
const KINDS: [Fault; 12] = [
    Fault::NodeKilled,
    Fault::Failover,
    Fault::ConnectionsCut,
    Fault::NodeStopped(Duration::from_secs(4)),
    Fault::DatabasePaused,
    Fault::FailoverUnseen,
    Fault::DatabaseStopped,
    Fault::StandbyPaused,
    Fault::NetworkSilent,
    Fault::DatabaseRestarted,
    Fault::NodeKilled,
    Fault::ConnectionsCut,
];

impl Fault {
    /// Whether the database ends and loses claims that it has not written yet.
    const fn loses_claims(self) -> bool {
        matches!(
            self,
            Self::DatabaseStopped | Self::DatabaseRestarted | Self::Failover | Self::FailoverUnseen
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NodeKilled => "killed",
            Self::NodeStopped(time) => return write!(f, "stopped for {} s", time.as_secs()),
            Self::DatabaseStopped => "the database is stopped for a while",
            Self::DatabaseRestarted => "the database is restarted",
            Self::DatabasePaused => "the database is paused",
            Self::ConnectionsCut => "connections are cut at their commits, statements collide",
            Self::NetworkSilent => "the network passes nothing on",
            Self::StandbyPaused => "the standby is paused",
            Self::Failover => "the database is gone, its standby is promoted",
            Self::FailoverUnseen => "the standby is promoted, and still reaches the old database",
        };
        f.write_str(text)
    }
}

/// This many faults, in random order.
fn deck(count: usize, random: &mut SeededRandom) -> Vec<Fault> {
    let stops = STOPS.into_iter().flat_map(|(times, time)| {
        std::iter::repeat_n(Fault::NodeStopped(time), times * count / OF)
    });
    let others = KINDS.into_iter().cycle();
    let mut deck: Vec<Fault> = stops.chain(others).take(count).collect();
    for at in 0..deck.len() {
        let with = at + random.roll(deck.len() - at);
        deck.swap(at, with);
    }
    deck
}

/// Injects this many faults, then waits for a steady state. Returns a summary of the run.
pub(crate) async fn run(count: usize, seed: u64) -> Result<String, String> {
    let mut home = Home::new();
    println!("seed {seed}: {count} faults");
    let told = strike_all(&mut home, count, seed).await;
    told.map_err(|wrong| {
        let log = home.log();
        format!("{wrong}\n{log}\nkept in {}", home.keep().display())
    })
}

async fn strike_all(home: &mut Home, count: usize, seed: u64) -> Result<String, String> {
    let began = Instant::now();
    let mut random = SeededRandom::new(seed, 0xFA17);
    let database = Database::start(home.path(), seed).await?;
    home.on(&database.url(), NODES);
    let run = Arc::new(start(home).ready().await?);
    let mut world = found(&run, seed).await?;
    world.pause = PAUSE;
    let world = Arc::new(world);
    let mut desk = run.desk();
    let receiver = Receiver::open().await?;
    receiver.listen(&world, &mut desk).await?;
    let revocations = Arc::new(Revocations::new(merchant(&mut desk, "Revocations").await?));
    let folder = home.path().to_owned();
    let mut site = Site {
        folder,
        run,
        database,
        promotions: Vec::new(),
        slowest: Duration::ZERO,
    };
    let (mut unproved, mut claims_hold) = (Vec::new(), Instant::now());
    for (life, fault) in (1..).zip(deck(count, &mut random)) {
        let wrong = |wrong: String| format!("fault {life}: {wrong}");
        if usize::is_multiple_of(life, OFFICE) {
            let merchant = merchant(&mut site.desk(), "Office").await?;
            world.operators.lock().await.moves_to(merchant);
        }
        world.over.store(false, Ordering::Relaxed);
        site.run.asks_again.store(false, Ordering::Relaxed);
        let since = Instant::now();
        let load = Load::begin(&world, &site.run, life);
        let revoking: Vec<_> = (0..REVOKERS)
            .map(|number| {
                let random =
                    SeededRandom::new(seed, (0x3A2D << 32) + (life * REVOKERS + number) as u64);
                let (revocations, world, run) =
                    (revocations.clone(), world.clone(), site.run.clone());
                tokio::spawn(
                    async move { revocations.press_on(&run, random, || world.is_over()).await },
                )
            })
            .collect();
        sleep(Duration::from_millis(200 + random.roll(LOAD) as u64)).await;
        let name = format!("n{}", 1 + random.roll(NODES));
        let at = began.elapsed().as_secs_f64();
        let struck = site.strike(fault, &name, &mut random).await;
        let struck = struck.map_err(|why| wrong(format!("{fault}: {why}")))?;
        if fault.loses_claims() {
            claims_hold = Instant::now();
        }
        sleep(Duration::from_millis(random.roll(LOAD) as u64)).await;
        world.over.store(true, Ordering::Relaxed);
        load.end(&world, GRACE).await.map_err(wrong)?;
        for each in revoking {
            each.await.map_err(|error| error.to_string())?;
        }
        // No more faults: every request is repeated until it gets a response.
        site.run.asks_again.store(true, Ordering::Relaxed);
        let touched = world.journal.take_touched();
        unproved.extend(touched.iter().cloned());
        let judged = judge_all(&world, &site.run, touched, &mut unproved, life, &mut random).await;
        judged.map_err(wrong)?;
        revocations.judge(&site.run, since).await.map_err(wrong)?;
        receiver.judge_claims(claims_hold).map_err(wrong)?;
        if !site.run.is_alive() {
            return Err(wrong("the process of the nodes ended by itself".into()));
        }
        let acknowledged = world.acknowledged.load(Ordering::Relaxed);
        println!("{at:7.1} s  {life:3}. {struck}; {acknowledged} acknowledgements, 0 lost");
    }
    let struck_for = began.elapsed().as_secs_f64();
    let ends = steady_state::settle(&world, &site.run).await?;
    let events = receiver.judge(&world, &site.run).await?;
    let operators = world.operators.lock().await;
    let promotions = site
        .promotions
        .iter()
        .map(|time| format!("{:.1}", time.as_secs_f64()));
    let text = format!(
        "seed {seed}: {count} faults in {struck_for:.0} s, {} requests met one at the proxy\n{} requests for \
         payments, {} acknowledgements, 0 lost, {} without an answer, {} changes by the operators\nno payment \
         captured twice; {events}\n{}\nready after a fault within {:.1} s, after promotions within [{}] s\n\
         at rest after {:.0} s: {ends:?}",
        site.database.met(),
        world.journal.len(),
        world.acknowledged.load(Ordering::Relaxed),
        world.unanswered.load(Ordering::Relaxed),
        operators.changes,
        revocations.told(),
        site.slowest.as_secs_f64(),
        promotions.collect::<Vec<_>>().join(" "),
        began.elapsed().as_secs_f64(),
    );
    site.run.kill();
    match site.promotions.iter().max() {
        Some(longest) if *longest > AFTER_A_PROMOTION => Err(format!("too late\n{text}")),
        _ => Ok(text),
    }
}

struct Site {
    folder: std::path::PathBuf,
    run: Arc<Running>,
    database: Database,
    /// Durations from each promotion until nodes were ready.
    promotions: Vec<Duration>,
    /// Longest duration until nodes were ready after another fault.
    slowest: Duration,
}

impl Site {
    fn desk(&self) -> crate::process::Desk {
        self.run.desk()
    }

    fn node(&self, name: &str) -> Result<Node, String> {
        let found = self.run.nodes().into_iter().find(|node| node.name == name);
        found.ok_or_else(|| format!("there is no node {name}"))
    }

    /// Injects a fault, ends it and waits until the system has recovered. Returns a description.
    async fn strike(
        &mut self,
        fault: Fault,
        name: &str,
        random: &mut SeededRandom,
    ) -> Result<String, String> {
        let mut millis =
            |from: usize, to: usize| Duration::from_millis((from + random.roll(to - from)) as u64);
        let node = self.node(name)?;
        let mut of = String::new();
        match fault {
            Fault::NodeKilled => {
                signal(node.pid, Signal::KILL);
                let began = Instant::now();
                while self.node(name)?.pid == node.pid {
                    if began.elapsed() > AFTER_A_FAULT {
                        return Err(format!("{name} is not started again"));
                    }
                    sleep(LOOK).await;
                }
                of = format!("{name} is ");
            }
            Fault::NodeStopped(time) => {
                let _stopped = Stopped::stop(&self.folder, vec![node.pid]);
                sleep(time).await;
                of = format!("{name} is ");
            }
            Fault::DatabaseStopped | Fault::DatabaseRestarted => {
                let down = match fault {
                    Fault::DatabaseStopped => millis(500, 4_000),
                    _ => Duration::ZERO,
                };
                let by = random.one_of(&[Signal::INT, Signal::QUIT, Signal::KILL]);
                self.database.stop(by, down).await?;
            }
            Fault::DatabasePaused => self.database.pause(millis(300, 6_000)).await,
            Fault::ConnectionsCut => {
                let faults = Faults {
                    collisions: 50,
                    cuts_before: 50,
                    cuts_after: 200,
                    swallows: false,
                };
                self.database.spoil(faults, millis(500, 2_000)).await;
            }
            Fault::NetworkSilent => {
                let faults = Faults {
                    swallows: true,
                    ..Faults::default()
                };
                self.database.spoil(faults, millis(300, 4_000)).await;
            }
            Fault::StandbyPaused => self.database.pause_standby(millis(300, 4_000)).await,
            Fault::Failover => {
                let time = millis(300, 2_000);
                let is_cut_off = random.once_in(2);
                let cut_off = if is_cut_off { time } else { Duration::ZERO };
                self.database.lose(cut_off).await;
                let promoted = self.database.fail_over(None).await?;
                let took = self.ready(promoted, |_| true).await?;
                self.promotions.push(took);
                self.database.replace_standby().await?;
            }
            Fault::FailoverUnseen => {
                let promoted = self.database.fail_over(Some(node.pid)).await?;
                let is_there = |each: &Node| each.pid != node.pid;
                let took = self.ready(promoted, is_there).await?;
                sleep(ISOLATION.saturating_sub(promoted.elapsed())).await;
                self.database.end_isolation();
                let again = self.ready(Instant::now(), |_| true).await?;
                self.promotions.extend([took, again]);
                self.database.replace_standby().await?;
                of = format!("{name}: ");
            }
        }
        let took = self.ready(Instant::now(), |_| true).await?;
        self.slowest = self.slowest.max(took);
        self.database.whole().await?;
        let last = self
            .promotions
            .last()
            .filter(|_| matches!(fault, Fault::Failover | Fault::FailoverUnseen));
        Ok(format!(
            "{of}{fault}, ready after {:.1} s",
            last.unwrap_or(&took).as_secs_f64()
        ))
    }

    /// Waits until nodes are ready. Returns the time since `since`.
    async fn ready(
        &self,
        since: Instant,
        which: impl Fn(&Node) -> bool,
    ) -> Result<Duration, String> {
        for node in self.run.nodes().into_iter().filter(which) {
            let mut line = Line::to(&node.admin);
            line.patience = Duration::from_secs(1);
            let ask = Ask {
                method: "GET",
                path: "/readyz",
                key: None,
                body: None,
                form: false,
            };
            loop {
                let said = match line.call(ask).await {
                    Ok(answer) if answer.status == 200 => break,
                    Ok(answer) => answer.text,
                    Err(_) => "no answer".to_owned(),
                };
                if since.elapsed() > AFTER_A_FAULT {
                    return Err(format!("{} does not get ready: {said}", node.name));
                }
                sleep(LOOK).await;
            }
        }
        Ok(since.elapsed())
    }
}
