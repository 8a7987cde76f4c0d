//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod asking;
mod callbacks;
mod ending;
mod payloads;
mod refunds;
mod starting;

use kassette_plugin::provider::{Attempt, Open, QueryFailure, Settlement, Status};
use kassette_provider_paysafe::Paysafe;
use kassette_world::suite::{Method, Vendor};
use kassette_world::{World, open};

fn world() -> World<Paysafe> {
    World::new("paysafe")
}

/// A new attempt of a payer with a known address.
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

/// Reason why nothing can be cancelled.
const UNCLOSABLE: &str = "a handle ends by time alone";

/// The shared test suite's parameters.
struct AtPaysafe;

impl Vendor for AtPaysafe {
    type Module = Paysafe;
    const MODULE: &'static str = "paysafe";
    const LACKS: &'static [(&'static str, &'static str)] = &[
        (
            "a_payer_who_pays_after_a_decline_is_told_as_paid",
            "a failed handle is over",
        ),
        ("closing_proves_that_nothing_can_be_paid", UNCLOSABLE),
        ("what_was_closed_cannot_be_started_again", UNCLOSABLE),
        ("a_close_that_cannot_be_done_now_is_not_certain", UNCLOSABLE),
        (
            "a_dispute_keeps_its_id_until_it_is_won_or_lost",
            "the Payments API tells no disputes",
        ),
        (
            "our_refund_is_told_by_its_order_and_one_of_the_dashboard_by_none",
            "ours are listed under their own reference",
        ),
        (
            "news_that_is_too_old_is_refused",
            "Paysafe signs no time: what is old only makes the host ask",
        ),
    ];
    const METHODS: &'static [Method] = &[("interac", "CAD")];
    const FOREIGN: Method = ("interac", "EUR");
    const REFUNDED_LATER: bool = true;
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("3022");
    const CREDENTIAL: (&'static str, &'static str) = ("api-password", "wrong");
    const UNKNOWN: &'static str = "00000000-0000-0000-0000-000000000000";
    // Only the attempt's id is queried.
    const FOREIGN_REFERENCE: QueryFailure = QueryFailure::Absent;
    const TAKEN_ON_CAPTURE: bool = true;
    const CONFIRMS_LATER: bool = true;
    const CAPTURE_PATH: &'static str = "/payments";
    const CAPTURE_REFUSED: Status = Status::Declined;
    const REFUSAL_IS_FINAL: bool = true;
    const VOIDED: Status = Status::Expired;
    const HELD: Settlement = Settlement::Pending;
    const HELD_MONEY: bool = false;
    const NOTICE_SECRET: Option<(&'static str, &'static str)> =
        Some(("webhook-key", "dGhlTmV3S2V5"));

    fn attempt(world: &World<Paysafe>, (method, currency): Method) -> Attempt {
        let mut attempt = world.attempt(method, currency);
        attempt.payer.email = Some("payer@shop.example".into());
        attempt
    }

    /// A handle lives for a quarter of an hour.
    fn until(attempt: &Attempt) -> Option<u64> {
        Some(attempt.expires - 45 * 60_000)
    }
}

kassette_world::provider_suite!(AtPaysafe);
