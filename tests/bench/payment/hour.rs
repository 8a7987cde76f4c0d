//! An hour of whole payments at 0.7 of the peak rate, while modules are replaced and providers and a receiver fail
//! and recover. Measures whether memory and latency stay constant, and checks all payments against the providers'
//! books.
//!
//! | file | contents |
//! |---|---|
//! | `load` | shops with continuous payments, and the outcome of each payment |
//! | `plan` | times of all actions |
//! | `minutes` | measurements per minute, and their slopes |
//! | `books` | comparison of the providers' books with the gateway's payments |

mod books;
mod load;
mod minutes;
mod plan;

use std::thread;
use std::time::{Duration, Instant};

use self::books::Balance;
use self::load::Load;
use self::minutes::Minutes;
use self::plan::{Act, Plan};
use super::receiver::{self, HOOK, UNSTEADY};
use super::walk::Shop;
use crate::calls::marked;
use crate::client::once;
use crate::figure::Figure;
use crate::floor::Floor;
use crate::gateway::{Gateway, Simulator};
use crate::options::Options;
use crate::requests::get;

/// Modules, each with its payment method and account. They are several because an account holds at most a million
/// sessions.
const ACCOUNTS: [(&str, &str, &str); 4] = [
    ("sandbox", "ideal", "sandbox-bench"),
    ("stripe", "credit_card", "stripe-bench"),
    ("adyen", "credit_card", "adyen-bench"),
    ("mollie", "ideal", "mollie-bench"),
];
/// Slots whose modules are replaced in turn.
const SLOTS: [&str; 6] = [
    "method.ideal",
    "provider.sandbox",
    "method.credit_card",
    "provider.stripe",
    "provider.adyen",
    "provider.mollie",
];
/// Fraction of the peak rate that the load keeps.
const PART: f64 = 0.7;

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let plan = Plan::new(options);
    let mut world = World::new();
    world.load.run(None, plan.peak / 2);
    world.load.take_walked();
    let before = world.load.payments();
    world.load.run(None, plan.peak);
    world.load.take_walked();
    let peak = (world.load.payments() - before) as f64 / plan.peak.as_secs_f64();
    eprintln!("the peak is {peak:.0} payments a second");
    let minutes = world.hold(&plan, PART * peak);
    let balance = books::balance(&world.gateway, &world.simulators, &world.load);
    world.figures(peak, &minutes, &balance)
}

/// A gateway with four accounts, their simulators, and a shop for each.
struct World {
    load: Load,
    simulators: Vec<Simulator>,
    /// The shipped module of each of [`SLOTS`].
    modules: Vec<Vec<u8>>,
    /// Numbers of replaced modules, failures of providers and failures of the receiver.
    counts: [u16; 3],
    gateway: Gateway,
    receiver: Floor,
}

impl World {
    fn new() -> Self {
        let receiver = Floor::serving(receiver::ARGUMENT);
        let accounts = ACCOUNTS.iter();
        let accounts = accounts.map(|(module, _, account)| (*module, *account));
        let mut gateway = Gateway::paying_all(accounts);
        let hooks = [HOOK, UNSTEADY].map(|path| format!("http://{}{path}", receiver.address));
        let shops = ACCOUNTS.map(|(_, method, account)| Shop {
            server: gateway.address,
            receiver: receiver.address,
            key: gateway.shop(method, account, &hooks),
            method: method.to_owned(),
        });
        Self {
            load: Load::new(shops),
            simulators: gateway.take_simulators(),
            modules: SLOTS.map(|slot| gateway.module(slot)).to_vec(),
            counts: [0; 3],
            gateway,
            receiver,
        }
    }

    /// Runs the load at a rate for the duration of the plan, with the plan's actions.
    fn hold(&mut self, plan: &Plan, rate: f64) -> Minutes {
        let mut minutes = Minutes::new(&self.load);
        let load = self.load.clone();
        let whole = plan.whole;
        let began = Instant::now();
        let walking = thread::spawn(move || load.run(Some(rate), whole));
        for (at, act) in plan.acts() {
            while began.elapsed() < at && !walking.is_finished() {
                thread::sleep((at - began.elapsed().min(at)).min(Duration::from_millis(100)));
            }
            // If the load has ended early, `join` below reports the reason.
            if walking.is_finished() && at < whole {
                break;
            }
            self.act(act, &mut minutes);
        }
        walking.join().unwrap();
        minutes
    }

    fn act(&mut self, act: Act, minutes: &mut Minutes) {
        match act {
            Act::Sample => minutes.add(&self.gateway, &self.load),
            Act::Replace => self.replace(),
            Act::Stop(account) => {
                self.counts[1] += 1;
                self.load.mark_failing(account, true);
                self.simulators[account].signal("STOP");
            }
            Act::Continue(account) => self.simulators[account].signal("CONT"),
            Act::Kill(account) => {
                self.counts[1] += 1;
                self.load.mark_failing(account, true);
                self.simulators[account].kill();
            }
            Act::StartAgain(account) => self.simulators[account].start_again(),
            Act::Settled(account) => self.load.mark_failing(account, false),
            Act::ReceiverFails => {
                self.counts[2] += 1;
                self.have_receiver_answer(500);
            }
            Act::ReceiverRecovers => self.have_receiver_answer(200),
        }
    }

    fn replace(&mut self) {
        let number = self.counts[0];
        self.counts[0] += 1;
        let slot = usize::from(number) % SLOTS.len();
        let module = marked(&self.modules[slot], number);
        self.gateway.replace(SLOTS[slot], &module);
    }

    fn have_receiver_answer(&self, status: u16) {
        let (set, _) = once(
            self.receiver.address,
            &get("", &format!("{UNSTEADY}/{status}")),
        );
        assert_eq!(set, 200);
    }

    fn figures(&self, peak: f64, minutes: &Minutes, balance: &Balance) -> Vec<Figure> {
        let (metrics, seen) = (self.gateway.metrics(), self.load.seen());
        let rate = minutes.rate();
        let least = PART * peak;
        let held = Figure::new("payments of an undisturbed minute", rate, "a second");
        let mut figures = vec![held.against("0.7 of the peak", least, rate / least)];
        figures.extend(minutes.slopes());
        let sent = |outcome: &str| {
            let labels = format!("outcome=\"{outcome}\"");
            metrics.sum("kassette_webhook_attempts_total", &labels)
        };
        let counted = [
            ("modules replaced", f64::from(self.counts[0])),
            ("failures of providers", f64::from(self.counts[1])),
            ("failures of the receiver", f64::from(self.counts[2])),
            (
                "payments while their provider failed",
                seen.disturbed as f64,
            ),
            ("creates refused", seen.refused as f64),
            ("payments left behind then", seen.left_disturbed as f64),
            (
                "payments left behind otherwise",
                seen.left_undisturbed as f64,
            ),
            ("events delivered", sent("delivered")),
            ("events refused", sent("failed")),
            ("completed payments accounted for", balance.completed as f64),
            ("other payments accounted for", balance.others as f64),
        ];
        figures.extend(counted.map(|(name, count)| Figure::new(name, count, "")));
        figures
    }
}
