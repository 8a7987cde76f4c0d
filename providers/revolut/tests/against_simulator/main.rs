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
use kassette_provider_revolut::Revolut;

type World = kassette_world::World<Revolut>;

fn world() -> World {
    World::new("revolut")
}

fn query(w: &World, attempt: &Attempt, started: &Open, wish: Wish) -> Report {
    w.query(attempt, Some(&started.reference), wish).unwrap()
}
