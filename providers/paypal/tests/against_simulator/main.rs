//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod starting;

use kassette_provider_paypal::PayPal;
use kassette_world::World;

fn world() -> World<PayPal> {
    World::new("paypal")
}
