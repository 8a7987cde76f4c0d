//! Measurements per minute, and their slopes.

use std::time::Instant;

use super::load::Load;
use crate::figure::{Figure, median};
use crate::gateway::Gateway;
use crate::payment::walk::Leg;

/// First minutes without evaluation, in which caches fill; at most a quarter of all.
const WARMING: usize = 5;
const MIB: f64 = 1_048_576.0;

/// Measurements at the end of a minute.
struct Minute {
    /// Hours since the start.
    at: f64,
    /// Payments per second within the minute.
    rate: f64,
    /// Payments since the start.
    payments: f64,
    /// Latency of whole payments in milliseconds.
    p50: f64,
    p99: f64,
    /// Resident memory of the gateway in bytes.
    memory: f64,
    /// Whether a provider failed or recovered.
    is_disturbed: bool,
}

pub(super) struct Minutes {
    began: Instant,
    /// Start of the current minute, with the numbers of payments and failures at that time.
    since: (Instant, u64, (u64, bool)),
    minutes: Vec<Minute>,
}

impl Minutes {
    pub(super) fn new(load: &Load) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            since: (now, load.payments(), load.failures()),
            minutes: Vec::new(),
        }
    }

    /// Adds a minute that has ended.
    pub(super) fn add(&mut self, gateway: &Gateway, load: &Load) {
        let walked = load.take_walked();
        let (now, payments, failures) = (Instant::now(), load.payments(), load.failures());
        let (began, before, earlier) = self.since;
        self.since = (now, payments, failures);
        let minute = Minute {
            at: (now - self.began).as_secs_f64() / 3600.0,
            rate: (payments - before) as f64 / (now - began).as_secs_f64(),
            payments: payments as f64,
            p50: walked.percentile_ms(Leg::Whole, 50.0),
            p99: walked.percentile_ms(Leg::Whole, 99.0),
            memory: gateway.resident() as f64,
            is_disturbed: failures != earlier || failures.1,
        };
        let legs = [Leg::Create, Leg::Start].map(|leg| {
            let [p50, p99] = [50.0, 99.0].map(|part| walked.percentile_ms(leg, part));
            format!("{} {p50:.1} {p99:.1}", leg.name())
        });
        let metrics = gateway.metrics();
        println!(
            "{:>6.1} min: {:>5.0} payments a second; p50 and p99 in ms: {}, whole payment {:.1} {:.1}; memory {:.1} MiB, \
             store {:.0} MiB, {} deliveries wait{}",
            minute.at * 60.0,
            minute.rate,
            legs.join(", "),
            minute.p50,
            minute.p99,
            minute.memory / MIB,
            metrics.sum("kassette_store_size_bytes", "") / MIB,
            metrics.sum("kassette_webhook_pending", ""),
            if minute.is_disturbed {
                "; a provider failed"
            } else {
                ""
            },
        );
        self.minutes.push(minute);
    }

    /// Minutes without failures of providers, after the first ones.
    fn undisturbed(&self) -> impl Iterator<Item = &Minute> + Clone {
        let later = self
            .minutes
            .iter()
            .skip(WARMING.min(self.minutes.len() / 4));
        later.filter(|minute| !minute.is_disturbed)
    }

    /// Median of payments per second.
    pub(super) fn rate(&self) -> f64 {
        let rates = self.undisturbed().map(|minute| minute.rate);
        median(&rates.collect::<Vec<_>>())
    }

    pub(super) fn slopes(&self) -> Vec<Figure> {
        let over = |x: fn(&Minute) -> f64, y: fn(&Minute) -> f64| {
            let points = self.undisturbed().map(|minute| (x(minute), y(minute)));
            slope(&points.collect::<Vec<_>>())
        };
        let at = |minute: &Minute| minute.at;
        let of_middle = |y: fn(&Minute) -> f64| {
            let values: Vec<f64> = self.undisturbed().map(y).collect();
            (median(&values), 100.0 * over(at, y) / median(&values))
        };
        let memory = |minute: &Minute| minute.memory;
        let ((p50, p50_slope), (p99, p99_slope)) = (
            of_middle(|minute| minute.p50),
            of_middle(|minute| minute.p99),
        );
        vec![
            Figure::new(
                "minutes that slopes are taken of",
                self.undisturbed().count() as f64,
                "",
            ),
            Figure::new("memory in the middle", of_middle(memory).0 / MIB, "MiB"),
            Figure::new("slope of memory", over(at, memory) / MIB, "MiB an hour"),
            Figure::new(
                "slope of memory",
                over(|minute| minute.payments, memory),
                "bytes a payment",
            ),
            Figure::new("whole payment, p50", p50, "ms"),
            Figure::new("slope of whole payment, p50", p50_slope, "% an hour"),
            Figure::new("whole payment, p99", p99, "ms"),
            Figure::new("slope of whole payment, p99", p99_slope, "% an hour"),
        ]
    }
}

/// Slope of y over x, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let both = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y));
    let square = points.iter().map(|(x, _)| (x - mean_x).powi(2));
    both.sum::<f64>() / square.sum::<f64>()
}
