//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod asking;
mod callbacks;
mod ending;
mod starting;

use kassette_plugin::provider::{Attempt, Open};
use kassette_provider_paysafe::Paysafe;
use kassette_world::{World, open};

fn world() -> World<Paysafe> {
    World::new("paysafe")
}

/// A new attempt of a payer whose address is known.
fn attempt(w: &World<Paysafe>) -> Attempt {
    let mut attempt = w.attempt("interac", "CAD");
    attempt.payer.email = Some("payer@shop.example".into());
    attempt
}

/// A started attempt, after the payer's choice.
fn chosen(w: &World<Paysafe>, outcome: &str) -> (Attempt, Open) {
    let attempt = attempt(w);
    let started = open(w.start(&attempt));
    w.choose(&started, outcome);
    (attempt, started)
}
