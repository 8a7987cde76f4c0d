//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod asking;
mod callbacks;
mod particulars;
mod payloads;
mod starting;

use kassette_plugin::provider::{Attempt, Open, QueryPurpose, Report, Settlement, Status};
use kassette_provider_mollie::Mollie;
use kassette_world::suite::{Method, Vendor};

type World = kassette_world::World<Mollie>;

fn world() -> World {
    World::new("mollie")
}

/// A Klarna attempt with answers to all questions.
fn klarna(w: &World) -> Attempt {
    let mut attempt = w.attempt("klarna", "EUR");
    attempt.answers = [
        ("email", "ada@shop.example"),
        ("given-name", "Ada"),
        ("family-name", "Lovelace"),
        ("street", "Keizersgracht 126"),
        ("postal-code", "1015 CW"),
        ("city", "Amsterdam"),
        ("country", "NL"),
    ]
    .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
    .to_vec();
    attempt
}

fn query(w: &World, attempt: &Attempt, started: &Open, purpose: QueryPurpose) -> Report {
    w.query(attempt, Some(&started.reference), purpose).unwrap()
}

/// Reason why forgeries are not detected.
const UNSIGNED: &str = "Mollie signs nothing: news only makes the host ask";

/// The shared test suite's parameters.
struct AtMollie;

impl Vendor for AtMollie {
    type Module = Mollie;
    const MODULE: &'static str = "mollie";
    const LACKS: &'static [(&'static str, &'static str)] = &[
        (
            "a_payer_who_pays_after_a_decline_is_told_as_paid",
            "a failed payment is over",
        ),
        (
            "what_was_closed_cannot_be_started_again",
            "the same request gets its first answer again",
        ),
        (
            "a_dispute_keeps_its_id_until_it_is_won_or_lost",
            "a chargeback counts as lost until it is reversed",
        ),
        ("forged_news_is_refused", UNSIGNED),
        ("news_with_another_byte_is_refused", UNSIGNED),
        (
            "news_signed_with_the_secret_before_counts_during_a_rotation_alone",
            UNSIGNED,
        ),
        ("news_that_is_too_old_is_refused", UNSIGNED),
    ];
    const METHODS: &'static [Method] = &[
        ("credit_card", "EUR"),
        ("credit_card", "USD"),
        ("ideal", "EUR"),
        ("klarna", "EUR"),
        ("paypal", "GBP"),
    ];
    const CLOSABLE: Method = ("klarna", "EUR");
    const FOREIGN: Method = ("ideal", "USD");
    const HELD: Settlement = Settlement::Pending;
    const CREDENTIAL: (&'static str, &'static str) = ("api-key", "test_wrong");
    const UNKNOWN: &'static str = "tr_unknown";
    const CAPTURE_SETTING: bool = true;
    const CONFIRMS_LATER: bool = true;
    const CAPTURE_PATH: &'static str = "/captures";
    const REFUNDED_LATER: bool = true;
    const VOIDED: Status = Status::Expired;
    const CLOSABLE_AFTER: &'static [&'static str] = &["", "approve"];

    fn attempt(world: &World, (method, currency): Method) -> Attempt {
        match method {
            "klarna" => klarna(world),
            _ => world.attempt(method, currency),
        }
    }

    /// Each method has its own lifetime, independent of the attempt's.
    fn until(attempt: &Attempt) -> Option<u64> {
        let minutes = match attempt.method.as_str() {
            "credit_card" => 30,
            "ideal" => 15,
            "klarna" => 48 * 60,
            _ => 180,
        };
        Some(attempt.expires - 3_600_000 + minutes * 60_000)
    }
}

kassette_world::provider_suite!(AtMollie);
