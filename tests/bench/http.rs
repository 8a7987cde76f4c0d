//! Requests over 32 connections in a closed loop, alternately with their floors.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{self, Measured, Requests};
use super::figure::{Figure, Goal, median};
use super::floor::Floor;
use super::gateway::Gateway;
use super::options::Options;
use super::requests::{Creates, Draw, get, post};

/// Number of keep-alive connections.
pub(crate) const CONNECTIONS: usize = 32;
/// Number of stored payments for reads.
const STORED: usize = 10_000;
/// Listing of the methods for an amount.
const LISTING: &str = "/api/v1/methods?amount=49.90&currency=EUR";
/// Maximum duration of preparations.
const PREPARING: Duration = Duration::from_secs(60);

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    FloorGet,
    ReadPayment,
    FloorPost,
    Create,
    Replay,
    Methods,
    MethodsBesideTrials,
    MethodsRemembered,
    CreateDirect,
    CreateDirectBesideReplay,
    Start,
    Page,
}

impl Case {
    /// In the order of measurement. Cases that are compared with each other are adjacent.
    const ALL: [Self; 12] = [
        Self::FloorGet,
        Self::ReadPayment,
        Self::Methods,
        Self::MethodsBesideTrials,
        Self::MethodsRemembered,
        Self::FloorPost,
        Self::Create,
        Self::Replay,
        Self::CreateDirect,
        Self::CreateDirectBesideReplay,
        Self::Start,
        Self::Page,
    ];

    /// Cases whose names contain a text, and their floors.
    fn chosen(text: Option<&str>) -> Vec<Self> {
        let Some(text) = text else {
            return Self::ALL.to_vec();
        };
        let named = |case: &Self| case.name().contains(text);
        let wanted = Self::ALL.into_iter().filter(named);
        let floors: Vec<_> = wanted.filter_map(Self::floor).collect();
        let mut chosen = Self::ALL.to_vec();
        chosen.retain(|case| named(case) || floors.contains(case));
        chosen
    }

    const fn name(self) -> &'static str {
        match self {
            Self::FloorGet => "floor GET",
            Self::ReadPayment => "GET payment",
            Self::FloorPost => "floor POST",
            Self::Create => "create, hosted",
            Self::Replay => "create, replayed",
            Self::Methods => "GET methods (10 ranks)",
            Self::MethodsBesideTrials => "GET methods (10 ranks) beside a shadow and a canary",
            Self::MethodsRemembered => "GET methods, remembered",
            Self::CreateDirect => "create, direct (1 rank)",
            Self::CreateDirectBesideReplay => "create, direct, beside a replay",
            Self::Start => "start at the simulator",
            Self::Page => "GET checkout page (10 ranks)",
        }
    }

    /// Expected status of the responses.
    const fn status(self) -> u16 {
        match self {
            Self::FloorPost
            | Self::Create
            | Self::CreateDirect
            | Self::CreateDirectBesideReplay => 201,
            _ => 200,
        }
    }

    /// The case for comparison.
    const fn floor(self) -> Option<Self> {
        match self {
            Self::FloorGet | Self::FloorPost => None,
            Self::MethodsBesideTrials => Some(Self::Methods),
            Self::CreateDirectBesideReplay => Some(Self::CreateDirect),
            Self::ReadPayment | Self::Methods | Self::MethodsRemembered | Self::Page => {
                Some(Self::FloorGet)
            }
            Self::Create | Self::Replay | Self::CreateDirect | Self::Start => Some(Self::FloorPost),
        }
    }

    const fn goal(self) -> Option<Goal> {
        match self {
            Self::ReadPayment => Some(Goal::Ratio(0.8)),
            Self::Create => Some(Goal::Ratio(0.35)),
            Self::Methods => Some(Goal::Ratio(0.25)),
            Self::MethodsBesideTrials => Some(Goal::Ratio(0.95)),
            Self::CreateDirectBesideReplay => Some(Goal::Ratio(0.9)),
            Self::MethodsRemembered => Some(Goal::Ratio(0.6)),
            _ => None,
        }
    }

    /// Goal of the 99th percentile, in milliseconds.
    const fn p99(self) -> Option<f64> {
        match self {
            Self::Create => Some(5.0),
            _ => None,
        }
    }
}

/// The servers and stored payments.
struct World {
    floor: Floor,
    gateway: Gateway,
    /// A gateway that does not cache responses of methods.
    forgetful: Gateway,
    /// Such a gateway with one candidate in shadow mode and one that decides one percent of the payments.
    trying: Gateway,
    /// Ids and checkout paths of stored payments.
    stored: Rc<Vec<(String, String)>>,
}

/// Results of a case, one per round.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    /// The server's processor time per response, in microseconds.
    cpu: Vec<f64>,
}

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let gateway = Gateway::fresh("");
    let stored = make(&gateway, Creates::hosted(&gateway.key), STORED);
    let forgetful = || Gateway::fresh("[plugins]\nremembered_mib = 0");
    let trying = forgetful();
    trying.stage("method.ideal");
    let digest = trying.stage("method.paypal");
    let canary = json!({ "digest": digest, "share": 1, "actor": "bench", "reason": "bench" });
    trying.admin("POST", "/plugins/method.paypal/canary", &canary);
    let world = World {
        floor: Floor::start(),
        gateway,
        forgetful: forgetful(),
        trying,
        stored: Rc::new(stored),
    };
    let mut rounds: [Rounds; Case::ALL.len()] = Default::default();
    let chosen = Case::chosen(options.case.as_deref());
    for case in &chosen {
        world.measure(*case, options.slice() / 3);
    }
    for _ in 0..options.rounds() {
        for case in &chosen {
            let rounds = &mut rounds[*case as usize];
            let (measured, took) = world.measure(*case, options.slice());
            let answers: u64 = measured.statuses.values().sum();
            rounds.cpu.push(took.as_secs_f64() * 1e6 / answers as f64);
            rounds.rates.push(measured.rate(&[case.status()]));
            rounds.p50.push(measured.percentile_ms(50.0));
            rounds.p99.push(measured.percentile_ms(99.0));
        }
    }
    chosen
        .into_iter()
        .flat_map(|case| figures_of(case, &rounds))
        .collect()
}

/// Figures of a case: rate, latencies and processor time.
fn figures_of(case: Case, all: &[Rounds]) -> Vec<Figure> {
    let measured = &all[case as usize];
    let mut rate = Figure::new(case.name(), median(&measured.rates), "requests/s");
    if let Some(floor) = case.floor() {
        let floors = &all[floor as usize];
        let pairs = measured.rates.iter().zip(&floors.rates);
        let ratios: Vec<f64> = pairs.map(|(rate, floor)| rate / floor).collect();
        rate = rate.against(floor.name(), median(&floors.rates), median(&ratios));
    }
    if let Some(goal) = case.goal() {
        rate = rate.goal(goal);
    }
    let p50 = Figure::new(format!("{}, p50", case.name()), median(&measured.p50), "ms");
    let mut p99 = Figure::new(format!("{}, p99", case.name()), median(&measured.p99), "ms");
    if let Some(most) = case.p99() {
        p99 = p99.goal(Goal::AtMost(most));
    }
    let cpu = format!("{}, processor time of the server", case.name());
    let cpu = Figure::new(cpu, median(&measured.cpu), "us");
    vec![rate, p50, p99, cpu]
}

impl World {
    /// Total processor time of a case's server.
    fn cpu(&self, case: Case) -> Duration {
        match case {
            Case::FloorGet | Case::FloorPost => self.floor.cpu(),
            Case::Methods => self.forgetful.cpu(),
            Case::MethodsBesideTrials => self.trying.cpu(),
            _ => self.gateway.cpu(),
        }
    }

    /// Measures a case, and the server's processor time. Panics on an unexpected response: failures are fast and
    /// would look like a good result.
    fn measure(&self, case: Case, time: Duration) -> (Measured, Duration) {
        let (floor, address) = (self.floor.address, self.gateway.address);
        let key = self.gateway.key.as_str();
        let nobody = |_, _: &[u8]| {};
        let closed = |address, requests: Requests| {
            let before = self.cpu(case);
            let measured = client::closed(address, CONNECTIONS, time, requests, nobody);
            (measured, self.cpu(case).saturating_sub(before))
        };
        let creates = |mut creates: Creates| -> Requests {
            Box::new(move |request| {
                creates.write(request);
                true
            })
        };
        let same = |bytes: Vec<u8>| -> Requests {
            Box::new(move |request| {
                request.extend_from_slice(&bytes);
                true
            })
        };
        let (measured, took) = match case {
            Case::FloorGet => closed(floor, self.reads()),
            Case::ReadPayment => closed(address, self.reads()),
            Case::FloorPost => closed(floor, creates(Creates::hosted(key))),
            Case::Create => closed(address, creates(Creates::hosted(key))),
            Case::CreateDirect => closed(address, creates(Creates::direct(key))),
            Case::CreateDirectBesideReplay => {
                self.beside_replays(|| closed(address, creates(Creates::direct(key))))
            }
            Case::Replay => {
                let mut once = Vec::new();
                Creates::hosted(key).write(&mut once);
                client::once(address, &once);
                closed(address, same(once))
            }
            Case::Methods => {
                let Gateway { address, key, .. } = &self.forgetful;
                closed(*address, same(get(key, LISTING)))
            }
            Case::MethodsBesideTrials => {
                let Gateway { address, key, .. } = &self.trying;
                closed(*address, same(get(key, LISTING)))
            }
            Case::MethodsRemembered => closed(address, same(get(key, LISTING))),
            Case::Start => closed(address, self.starts(time)),
            Case::Page => closed(address, self.pages()),
        };
        let wrong = measured
            .statuses
            .keys()
            .find(|status| **status != case.status());
        assert!(wrong.is_none(), "{}: answered with {wrong:?}", case.name());
        (measured, took)
    }

    /// Runs a closure while the decisions of all direct payments so far are replayed again and again.
    fn beside_replays<T>(&self, act: impl FnOnce() -> T) -> T {
        let (gateway, is_over) = (&self.gateway, AtomicBool::new(false));
        std::thread::scope(|scope| {
            let replaying = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(
                        gateway.replay("method.ideal") > 0,
                        "no decision is recorded"
                    );
                }
            });
            let answer = act();
            is_over.store(true, Ordering::Relaxed);
            replaying.join().unwrap();
            answer
        })
    }

    /// Reads of stored payments. Floor and gateway get the same bytes.
    fn reads(&self) -> Requests {
        let (stored, mut draw) = (Rc::clone(&self.stored), Draw::new());
        let request = get(&self.gateway.key, "/api/v1/payments/#");
        let at = memchr::memchr(b'#', &request).unwrap();
        Box::new(move |into| {
            into.extend_from_slice(&request[..at]);
            into.extend_from_slice(draw.from(&stored).0.as_bytes());
            into.extend_from_slice(&request[at + 1..]);
            true
        })
    }

    fn pages(&self) -> Requests {
        let (stored, mut draw) = (Rc::clone(&self.stored), Draw::new());
        Box::new(move |into| {
            let path = &draw.from(&stored).1;
            into.extend_from_slice(b"GET ");
            into.extend_from_slice(path.as_bytes());
            into.extend_from_slice(b" HTTP/1.1\r\nhost: pay.example\r\n\r\n");
            true
        })
    }

    /// Starts of direct payments, one each. Prepares as many as a run can need.
    fn starts(&self, time: Duration) -> Requests {
        /// More than can be started in a second.
        const A_SECOND: f64 = 8000.0;
        let key = self.gateway.key.clone();
        let count = (time.as_secs_f64() * A_SECOND) as usize;
        let mut direct = make(&self.gateway, Creates::direct(&key), count).into_iter();
        Box::new(move |into| {
            let Some((id, _)) = direct.next() else {
                return false;
            };
            let body = format!(r#"{{"payment_id":"{id}","payment_method":"ideal"}}"#);
            into.extend_from_slice(&post(&key, "/api/v1/payments/start", &body));
            true
        })
    }
}

/// Creates payments. Returns their ids and the paths of their checkout pages.
pub(crate) fn make(gateway: &Gateway, mut creates: Creates, count: usize) -> Vec<(String, String)> {
    let made = Rc::new(RefCell::new(Vec::with_capacity(count)));
    let (seen, mut left) = (Rc::clone(&made), count);
    client::closed(
        gateway.address,
        CONNECTIONS,
        PREPARING,
        Box::new(move |request| {
            let more = left > 0;
            if more {
                left -= 1;
                creates.write(request);
            }
            more
        }),
        move |status, body: &[u8]| {
            let answer: Value = serde_json::from_slice(body).unwrap_or_default();
            assert_eq!(status, 201, "{answer}");
            let text = |name: &str| answer[name].as_str().unwrap().to_owned();
            let path = text("checkout_url").split_off("https://pay.example".len());
            seen.borrow_mut().push((text("payment_id"), path));
        },
    );
    Rc::try_unwrap(made).unwrap().into_inner()
}
