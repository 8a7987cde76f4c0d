//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod callbacks;
mod closing;
mod paying;
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

fn world() -> World {
    World::new("adyen")
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
