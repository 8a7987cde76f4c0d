//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod callbacks;
mod particulars;
mod refunds;
mod starting;

use kassette_provider_sandbox::Sandbox;
use kassette_world::suite::{Method, Vendor};

type World = kassette_world::World<Sandbox>;

fn world() -> World {
    World::new("sandbox")
}

/// The shared test suite's parameters.
struct AtTheSandbox;

impl Vendor for AtTheSandbox {
    type Module = Sandbox;
    const MODULE: &'static str = "sandbox";
    const LACKS: &'static [(&'static str, &'static str)] = &[(
        "a_currency_that_the_method_does_not_take_is_for_another_provider",
        "the sandbox takes every currency",
    )];
    const METHODS: &'static [Method] = &[("ideal", "EUR"), ("crypto", "EUR")];
    const FOREIGN: Method = ("ideal", "USD");
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("payment_refused");
    const CREDENTIAL: (&'static str, &'static str) = ("client-secret", "wrong");
    const UNKNOWN: &'static str = "sbx_unknown";
    const VOIDED_REASON: Option<&'static str> = Some("authorisation_voided");
    const NOTICE_SECRET: Option<(&'static str, &'static str)> = Some(("callback-secret", "new"));
    const NOTICE_TOO_OLD_MS: u64 = 301_000;
}

kassette_world::provider_suite!(AtTheSandbox);
