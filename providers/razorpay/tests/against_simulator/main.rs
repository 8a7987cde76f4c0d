//! The module against its simulator: every outcome, every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod starting;

use kassette_plugin::provider::Attempt;
use kassette_provider_razorpay::Razorpay;

type World = kassette_world::World<Razorpay>;

/// The account.
const ID: &str = "razorpay-test";

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn world() -> World {
    World::new("razorpay")
}

fn attempt(w: &World) -> Attempt {
    w.attempt("upi_imps", "INR")
}
