//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod particulars;
mod payloads;

use kassette_plugin::provider::{Attempt, Open, QueryPurpose, Report, Settlement, Status};
use kassette_provider_revolut::Revolut;
use kassette_world::suite::{Method, Vendor};

type World = kassette_world::World<Revolut>;

fn world() -> World {
    World::new("revolut")
}

fn query(w: &World, attempt: &Attempt, started: &Open, purpose: QueryPurpose) -> Report {
    w.query(attempt, Some(&started.reference), purpose).unwrap()
}

/// The shared test suite's parameters.
struct AtRevolut;

impl Vendor for AtRevolut {
    type Module = Revolut;
    const MODULE: &'static str = "revolut";
    const LACKS: &'static [(&'static str, &'static str)] = &[];
    const METHODS: &'static [Method] = &[("revolut", "EUR"), ("credit_card", "GBP")];
    const FOREIGN: Method = ("revolut", "INR");
    const HELD: Settlement = Settlement::Pending;
    const REFUNDED_LATER: bool = true;
    const REFUND_PATH: &'static str = "/refund";
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("bad_request");
    const CREDENTIAL: (&'static str, &'static str) = ("secret-key", "sk_wrong");
    const UNKNOWN: &'static str = "00000000-0000-0000-0000-000000000000";
    const CAPTURE_SETTING: bool = true;
    const CONFIRMS_LATER: bool = true;
    const DECLINED: Status = Status::Pending;
    const DISPUTE_REASON: &'static str = "10.4";
    const NOTICE_SECRET: Option<(&'static str, &'static str)> =
        Some(("webhook-secret", "wsk_theNewOne"));
    const NOTICE_TOO_OLD_MS: u64 = 301_000;
}

kassette_world::provider_suite!(AtRevolut);
