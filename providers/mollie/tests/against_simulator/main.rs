//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod asking;
mod callbacks;
mod particulars;
mod starting;

use kassette_plugin::provider::{Attempt, Open, Report, Wish};
use kassette_provider_mollie::Mollie;

type World = kassette_world::World<Mollie>;

fn world() -> World {
    World::new("mollie")
}

/// An attempt that Klarna takes: everything that it asks is answered.
fn klarna(w: &World) -> Attempt {
    let mut attempt = w.attempt("klarna", "EUR");
    attempt.answers = [
        ("email", "ada@shop.example"),
        ("given-name", "Ada"),
        ("family-name", "Lovelace"),
        ("street", "Keizersgracht 126"),
        ("postal-code", "1015 CW"),
        ("city", "Amsterdam"),
        ("country", "NL"),
    ]
    .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
    .to_vec();
    attempt
}

fn query(w: &World, attempt: &Attempt, started: &Open, wish: Wish) -> Report {
    w.query(attempt, Some(&started.reference), wish).unwrap()
}
