//! The module against its simulator: every outcome, every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod recovering;
mod starting;

use kassette_provider_stripe::Stripe;

type World = kassette_world::World<Stripe>;

/// The account.
const ID: &str = "stripe-test";

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn world() -> World {
    World::new("stripe")
}
