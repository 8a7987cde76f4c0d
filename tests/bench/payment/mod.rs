//! Whole payments: create, start, approval on the provider's page, return of the payer, capture by the gateway if
//! the method needs it, completion, and event to the shop. They alternate with a floor that sends the same
//! requests and events. For Stripe there is also a variant with TLS.
//!
//! | file | contents |
//! |---|---|
//! | `walk` | a payment from its creation until the shop is notified, with the duration of each leg |
//! | `floor` | the floor |
//! | `receiver` | the shop's server |
//! | `hour` | an hour of payments, with new modules and with failing providers and receivers |
//!
//! Gateway, floor, simulator, receiver and payers are separate processes on the same machine.

mod floor;
mod hour;
mod receiver;
mod walk;

use std::net::SocketAddr;
use std::time::Duration;

use super::figure::{Figure, Goal, median};
use super::floor::Floor;
use super::gateway::{Gateway, Metrics};
use super::options::Options;
use super::tls_server::TlsServer;

use self::floor::{Learned, SecureProvider};
use self::walk::{Leg, Payers, Shop, Walked};

pub(crate) use self::floor::learn;
pub(crate) use self::hour::run as hour;

/// Modules, each with its payment method and whether its provider uses TLS. Adyen's cards are captured by the
/// gateway.
const MODULES: [(&str, &str, bool); 5] = [
    ("sandbox", "ideal", false),
    ("stripe", "credit_card", false),
    ("stripe", "credit_card", true),
    ("adyen", "credit_card", false),
    ("mollie", "ideal", false),
];
/// Numbers of parallel payments.
const AT_ONCE: [usize; 3] = [1, 6, 32];
/// Duration of the measurement of an idle gateway.
const IDLE: Duration = Duration::from_secs(30);
/// Delay before it, because a gateway still works after its start.
const SETTLING: Duration = Duration::from_secs(5);
/// Time within which the queries after a payment are sent.
const BEHIND: Duration = Duration::from_secs(6);

/// Serves if this program was started as one of the processes next to the gateway. Returns `false` for other
/// arguments.
pub(crate) fn serve(argument: &str) -> bool {
    match argument {
        floor::ARGUMENT => floor::serve(),
        receiver::ARGUMENT => receiver::serve(),
        _ => return false,
    }
    true
}

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let chosen = |name: &str| options.case.as_ref().is_none_or(|case| name.contains(case));
    let mut figures = Vec::new();
    if chosen("idle") {
        figures.push(idle());
    }
    for (module, method, has_tls) in MODULES {
        let name = match has_tls {
            true => format!("{module} over TLS"),
            false => module.to_owned(),
        };
        if !chosen(&name) {
            continue;
        }
        let world = World::new(module, method, has_tls.then(Tls::new));
        let module = name.as_str();
        let measure = |payers| (payers, world.measure(options, payers));
        let measured = AT_ONCE.map(|at_once| {
            measure(Payers {
                at_once,
                rate: None,
            })
        });
        let (most, peak) = &measured[AT_ONCE.len() - 1];
        let (half, last) = &measure(Payers {
            rate: Some(median(&peak.gateway.rates) / 2.0),
            ..*most
        });
        std::thread::sleep(BEHIND);
        let behind = asked(&world.gateway.metrics());
        for (payers, sides) in &measured {
            figures.extend(sides.figures(module, *payers));
        }
        figures.extend(last.figures(module, *half));
        let per_payment = (behind - last.asked_then) / last.payments_of_last;
        let name = format!("{module}, questions within 6 s behind a payment");
        figures.push(Figure::new(name, per_payment, "a payment"));
        figures.extend(world.by_leg(options, module, *most, median(&peak.gateway.cpu)));
    }
    figures
}

/// Processor usage of an idle gateway.
fn idle() -> Figure {
    let gateway = Gateway::limited();
    std::thread::sleep(SETTLING);
    let before = gateway.cpu();
    std::thread::sleep(IDLE);
    let took = gateway.cpu().saturating_sub(before);
    let share = 100.0 * took.as_secs_f64() / IDLE.as_secs_f64();
    Figure::new("idle gateway, of a core", share, "%").goal(Goal::AtMost(0.2))
}

/// Route from a gateway to its provider.
pub(crate) enum Via<'a> {
    Straight,
    /// Through a floor that records the messages.
    Floor(SocketAddr),
    Tls(&'a Tls),
}

/// TLS servers in front of providers, in this process.
pub(crate) struct Tls {
    pub(crate) server: TlsServer,
    runtime: tokio::runtime::Runtime,
}

impl Tls {
    fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        Self {
            server: TlsServer::new(&["127.0.0.1"]),
            runtime: runtime.worker_threads(1).enable_all().build().unwrap(),
        }
    }

    /// Starts a TLS server in front of a provider and returns its address.
    pub(crate) fn before(&self, provider: SocketAddr) -> SocketAddr {
        self.runtime
            .block_on(self.server.serve("127.0.0.1:0", provider))
    }
}

/// A gateway and a floor, each with a simulator, and a receiver for both.
struct World {
    gateway: Gateway,
    floor: Floor,
    /// The gateway from which the floor was recorded. The floor continues to use its simulator.
    _teacher: Gateway,
    _receiver: Floor,
    _tls: Option<Tls>,
    paid: Shop,
    least: Shop,
}

impl World {
    fn new(module: &str, method: &str, tls: Option<Tls>) -> Self {
        let account = format!("{module}-bench");
        let receiver = Floor::serving(receiver::ARGUMENT);
        let floor = Floor::serving(floor::ARGUMENT);
        let hook = |address: SocketAddr| format!("http://{address}{}", receiver::HOOK);
        let shop = |address, key: &str| Shop {
            server: address,
            receiver: receiver.address,
            key: key.to_owned(),
            method: method.to_owned(),
        };
        let teacher = Gateway::paying(module, &account, &Via::Floor(floor.address));
        let key = teacher.shop(method, &account, &[hook(floor::events(floor.address))]);
        let (payment_id, redirect_url) = shop(teacher.address, &key).pay_once();
        let learned = Learned {
            payment_id,
            redirect_url,
            receiver: receiver.address,
            secure: tls.as_ref().map(|tls| SecureProvider {
                address: tls.before(teacher.provider().unwrap()),
                authority: tls.server.authority.to_vec(),
            }),
        };
        floor::replay(floor.address, &learned);
        let gateway = Gateway::paying(
            module,
            &account,
            &tls.as_ref().map_or(Via::Straight, Via::Tls),
        );
        let key = gateway.shop(method, &account, &[hook(receiver.address)]);
        Self {
            paid: shop(gateway.address, &key),
            least: shop(floor.address, &key),
            gateway,
            _teacher: teacher.leave(),
            floor,
            _receiver: receiver,
            _tls: tls,
        }
    }

    fn measure(&self, options: &Options, payers: Payers) -> Sides {
        let (rounds, time) = extent(options);
        // Warms up connections, caches and compiled code.
        for shop in [&self.least, &self.paid] {
            shop.pay(payers, time / 3);
        }
        let mut sides = Sides::default();
        for _ in 0..rounds {
            let (before, cpu) = (self.gateway.metrics(), self.gateway.cpu());
            let walked = self.paid.pay(payers, time);
            let took = self.gateway.cpu().saturating_sub(cpu);
            let after = self.gateway.metrics();
            sides.asked_then = asked(&after);
            sides.payments_of_last = walked.payments as f64;
            sides.count(&before, &after);
            sides.gateway.add(walked, took);
            let cpu = self.floor.cpu();
            let walked = self.least.pay(payers, time);
            let took = self.floor.cpu().saturating_sub(cpu);
            sides.floor.add(walked, took);
        }
        sides
    }

    /// The gateway's processor time of a whole payment (`whole` microseconds) by leg. Measures payments that are
    /// only created, and payments that are also started; the difference is the rest. Must be the last measurement,
    /// because the gateway queries providers about abandoned payments.
    fn by_leg(&self, options: &Options, module: &str, payers: Payers, whole: f64) -> Vec<Figure> {
        let at_once = payers.at_once;
        let (rounds, time) = extent(options);
        let [created, started] = [Leg::Create, Leg::Start].map(|last| {
            let took = (0..rounds).map(|_| {
                let before = self.gateway.cpu();
                let walked = self.paid.pay_up_to(last, payers, time);
                let took = self.gateway.cpu().saturating_sub(before);
                took.as_secs_f64() * 1e6 / walked.payments as f64
            });
            median(&took.collect::<Vec<_>>())
        });
        let of = |what: &str, micros| {
            let name = format!("{module}, {at_once} at once: processor time of {what}");
            Figure::new(name, micros, "us")
        };
        vec![
            of("create", created),
            of("start", started - created),
            of(
                "the rest: return, callbacks, questions, capture, events",
                whole - started,
            ),
        ]
    }
}

/// Number and duration of rounds.
const fn extent(options: &Options) -> (usize, Duration) {
    match options.quick {
        true => (1, Duration::from_secs(2)),
        false => (5, Duration::from_secs(3)),
    }
}

/// Number of query calls to the module so far.
fn asked(metrics: &Metrics) -> f64 {
    metrics.sum("kassette_plugin_call_seconds_count", "function=\"query\"")
}

/// Results of one server, one per round.
#[derive(Default)]
struct Side {
    walked: Walked,
    rates: Vec<f64>,
    /// Processor time per payment in microseconds.
    cpu: Vec<f64>,
}

impl Side {
    fn add(&mut self, walked: Walked, took: Duration) {
        self.rates.push(walked.rate());
        let micros = took.as_secs_f64() * 1e6;
        self.cpu.push(micros / walked.payments as f64);
        self.walked.add(&walked);
    }
}

/// Results of gateway and floor.
#[derive(Default)]
struct Sides {
    gateway: Side,
    floor: Side,
    /// Counts of the gateway's work, by [`COUNTED`].
    counts: [f64; COUNTED.len()],
    /// Buckets of the durations of responses to callbacks: upper bound in seconds, and cumulative count.
    callbacks: Vec<(f64, f64)>,
    /// Number of queries at the end of the last round.
    asked_then: f64,
    payments_of_last: f64,
}

/// Counts per payment: name, metric, and a text in its labels.
const COUNTED: [(&str, &str, &str); 6] = [
    (
        "commit groups, a write and a sync each",
        "kassette_store_commit_seconds_count",
        "",
    ),
    (
        "operations of the store",
        "kassette_store_group_operations_sum",
        "",
    ),
    (
        "starts and questions to the provider",
        "kassette_plugin_call_seconds_count",
        "function=\"query\"",
    ),
    (
        "",
        "kassette_plugin_call_seconds_count",
        "function=\"start\"",
    ),
    ("events sent", "kassette_webhook_attempts_total", ""),
    (
        "callbacks refused for their rate",
        "kassette_callbacks_total",
        "outcome=\"limited\"",
    ),
];

impl Sides {
    fn count(&mut self, before: &Metrics, after: &Metrics) {
        const CALLBACKS: (&str, &str) = (
            "kassette_http_request_duration_seconds",
            "route=\"/callbacks/",
        );
        for (count, (_, metric, labels)) in self.counts.iter_mut().zip(COUNTED) {
            *count += after.sum(metric, labels) - before.sum(metric, labels);
        }
        let (name, labels) = CALLBACKS;
        let earlier = before.buckets(name, labels);
        for (number, (bound, count)) in after.buckets(name, labels).into_iter().enumerate() {
            let new = count - earlier.get(number).map_or(0.0, |(_, count)| *count);
            match self.callbacks.get_mut(number) {
                Some((_, sum)) => *sum += new,
                None => self.callbacks.push((bound, new)),
            }
        }
    }

    fn figures(&self, module: &str, payers: Payers) -> Vec<Figure> {
        let (gateway, floor) = (&self.gateway, &self.floor);
        let load = match payers.rate {
            Some(_) => "at half the peak".to_owned(),
            None => format!("{} at once", payers.at_once),
        };
        let name = |what: &str| format!("{module}, {load}: {what}");
        let compared = |what: &str, unit, of: &[f64], floors: &[f64]| {
            let ratios: Vec<f64> = of
                .iter()
                .zip(floors)
                .map(|(one, floor)| one / floor)
                .collect();
            let figure = Figure::new(name(what), median(of), unit);
            figure.against("floor", median(floors), median(&ratios))
        };
        let mut rate = compared("whole payments", "a second", &gateway.rates, &floor.rates);
        let mut cpu = compared("processor time", "us", &gateway.cpu, &floor.cpu);
        if payers.rate.is_none() && payers.at_once == AT_ONCE[AT_ONCE.len() - 1] {
            rate = rate.goal(Goal::Ratio(0.5));
            cpu = cpu.goal(Goal::AtMost(1000.0));
        }
        let mut figures = vec![rate, cpu];
        for leg in Leg::ALL {
            for percentile in [50.0, 99.0] {
                let [of, least] =
                    [gateway, floor].map(|side| side.walked.percentile_ms(leg, percentile));
                let what = format!("{}, p{percentile}", leg.name());
                figures.push(compared(&what, "ms", &[of], &[least]));
            }
        }
        let [p50, p99] = [50.0, 99.0].map(|percentile| {
            let what = format!("a callback's answer, p{percentile}");
            let value = percentile_of(&self.callbacks, percentile) * 1e3;
            Figure::new(name(&what), value, "ms")
        });
        match payers.rate {
            None => figures.extend([p50, p99]),
            Some(_) => {
                let [of, least] =
                    [gateway, floor].map(|side| side.walked.percentile_ms(Leg::Start, 99.0));
                let start = Figure::new(name("start, p99 above the floor's"), of - least, "ms");
                let start = start.goal(Goal::AtMost(3.0));
                figures.extend([start, p50, p99.goal(Goal::AtMost(5.0))]);
            }
        }
        let mut carried = 0.0;
        let payments = gateway.walked.payments as f64;
        for ((what, ..), count) in COUNTED.iter().zip(self.counts).rev() {
            // A count without a name is added to the one before it.
            carried += count;
            if !what.is_empty() {
                figures.push(Figure::new(name(what), carried / payments, "a payment"));
                carried = 0.0;
            }
        }
        figures
    }
}

/// A percentile of a histogram, by linear interpolation within a bucket.
fn percentile_of(buckets: &[(f64, f64)], percentile: f64) -> f64 {
    let all = buckets.last().map_or(0.0, |(_, count)| *count);
    let wanted = all * percentile / 100.0;
    let mut lower = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= wanted && *count > lower.1 {
            let part = (wanted - lower.1) / (count - lower.1);
            return lower.0 + (bound - lower.0) * part;
        }
        lower = (*bound, *count);
    }
    f64::NAN
}
