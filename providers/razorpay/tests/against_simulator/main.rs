//! The module against its simulator: every outcome and every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod payloads;
mod starting;

use kassette_plugin::provider::{Attempt, Status};
use kassette_provider_razorpay::Razorpay;
use kassette_sim::Fault;
use kassette_world::suite::{Method, Vendor};

type World = kassette_world::World<Razorpay>;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn world() -> World {
    World::new("razorpay")
}

fn attempt(w: &World) -> Attempt {
    w.attempt("upi_imps", "INR")
}

/// The shared test suite's parameters.
struct AtRazorpay;

impl Vendor for AtRazorpay {
    type Module = Razorpay;
    const MODULE: &'static str = "razorpay";
    const LACKS: &'static [(&'static str, &'static str)] = &[(
        "news_that_is_too_old_is_refused",
        "Razorpay signs no time: news only makes the host ask",
    )];
    const METHODS: &'static [Method] = &[("upi_imps", "INR")];
    const FOREIGN: Method = ("upi_imps", "EUR");
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("input_validation_failed");
    const CREDENTIAL: (&'static str, &'static str) = ("key-secret", "wrong");
    const UNKNOWN: &'static str = "plink_0";
    const SURE: &'static [Fault] = &[Fault::Status429];
    const CAPTURE_REFUSED: Status = Status::Processing;
    const DECLINED: Status = Status::Pending;
    const DECLINED_AFTER_MS: u64 = 15 * MINUTE;
    // A try in the payer's app cannot be cancelled.
    const CLOSABLE_AFTER: &'static [&'static str] = &[""];
    const DISPUTE_REASON: &'static str = "chargeback";
    const REFUND_PATH: &'static str = "/refund";
    const NOTICE_SECRET: Option<(&'static str, &'static str)> = Some(("webhook-secret", "new"));
}

kassette_world::provider_suite!(AtRazorpay);
