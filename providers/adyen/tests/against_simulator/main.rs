//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod afterwards;
mod callbacks;
mod closing;
mod paying;
mod returning;
mod starting;

use kassette_plugin::provider::{Acknowledged, Attempt, Open, Report};
use kassette_provider_adyen::Adyen;
use kassette_world::open;

type World = kassette_world::World<Adyen>;

/// The methods, each with a currency that it takes.
const METHODS: [(&str, &str); 5] = [
    ("credit_card", "EUR"),
    ("ideal", "EUR"),
    ("klarna", "EUR"),
    ("paypal", "EUR"),
    ("upi_imps", "INR"),
];

/// Those whose money moves when we capture it.
const CAPTURED_BY_US: [&str; 3] = ["credit_card", "klarna", "paypal"];
/// Those whose money moves when the payer approves.
const TAKEN_AT_ONCE: [&str; 2] = ["ideal", "upi_imps"];

/// How much later than it answers Adyen does what it was asked for.
const LATER_MS: u64 = 1_500;

fn world() -> World {
    World::new("adyen")
}

/// The query with which the payer's browser comes back after a choice.
fn choose(w: &World, open: &Open, outcome: &str) -> String {
    let (status, location) = w.choose(open, outcome);
    assert_eq!(status, 303, "{outcome}");
    let location = location.unwrap();
    let (_, query) = location.split_once('?').unwrap_or_default();
    query.to_owned()
}

/// The one report of the notification that comes once Adyen has done what it was asked for.
fn later(w: &World) -> Report {
    w.advance(LATER_MS);
    report(w)
}

/// A started attempt.
fn started(w: &World, method: &str) -> (Attempt, Open) {
    let (_, currency) = METHODS.into_iter().find(|(id, _)| *id == method).unwrap();
    let attempt = w.attempt(method, currency);
    let open = open(w.start(&attempt));
    (attempt, open)
}

/// What the next notification reports, one after the other; none where it only makes the host ask.
fn told(w: &World) -> Vec<Option<Report>> {
    let answer = w.callback(&w.next_callback()).unwrap();
    reports(answer)
}

fn reports(answer: Acknowledged) -> Vec<Option<Report>> {
    assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
    answer
        .notices
        .into_iter()
        .map(|notice| notice.report)
        .collect()
}

/// The one report of the next notification.
fn report(w: &World) -> Report {
    let told = told(w);
    let [Some(report)] = told.as_slice() else {
        panic!("one report: {told:?}")
    };
    report.clone()
}
