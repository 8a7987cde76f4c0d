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

use kassette_provider_sandbox::Sandbox;

type World = kassette_world::World<Sandbox>;

/// The account.
const ID: &str = "sandbox-test";

fn world() -> World {
    World::new("sandbox")
}
