//! The module against its simulator: every outcome and every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod payloads;
mod recovering;
mod starting;

use kassette_plugin::provider::{Attempt, QueryPurpose, Status};
use kassette_provider_stripe::Stripe;
use kassette_sim::Fault;
use kassette_world::suite::{Method, Vendor};

type World = kassette_world::World<Stripe>;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn world() -> World {
    World::new("stripe")
}

/// The shared test suite's parameters.
struct AtStripe;

impl Vendor for AtStripe {
    type Module = Stripe;
    const MODULE: &'static str = "stripe";
    const METHODS: &'static [Method] = &[
        ("credit_card", "EUR"),
        ("ideal", "EUR"),
        ("klarna", "SEK"),
        ("cash_app", "USD"),
        ("revolut", "PLN"),
    ];
    const FOREIGN: Method = ("ideal", "USD");
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("card_declined");
    const CREDENTIAL: (&'static str, &'static str) = ("secret-key", "sk_test_wrong");
    const UNKNOWN: &'static str = "cs_test_0";
    // The purpose `cancel` creates a session in order to close it.
    const UNKNOWN_PURPOSES: &'static [QueryPurpose] = &[QueryPurpose::Sync];
    const SURE: &'static [Fault] = &[Fault::Status429];
    const CAPTURE_SETTING: bool = true;
    const UNDER_WAY: Status = Status::VerificationPending;
    const CAPTURE_REFUSED: Status = Status::Processing;
    const VOIDED_REASON: Option<&'static str> = Some("automatic");
    const DECLINED: Status = Status::Pending;
    const NOTICE_SECRET: Option<(&'static str, &'static str)> =
        Some(("webhook-secret", "whsec_new"));
    const NOTICE_TOO_OLD_MS: u64 = 301_000;

    fn attempt(world: &World, (method, currency): Method) -> Attempt {
        let mut attempt = world.attempt(method, currency);
        if method == "klarna" {
            attempt.payer.email = Some("payer@shop.example".into());
        }
        attempt
    }
}

kassette_world::provider_suite!(AtStripe);
