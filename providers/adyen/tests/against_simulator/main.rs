//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod afterwards;
mod callbacks;
mod closing;
mod paying;
mod payloads;
mod returning;
mod starting;

use kassette_plugin::provider::{Attempt, CallbackReply, Open, QueryPurpose, Report, Status};
use kassette_provider_adyen::Adyen;
use kassette_sim::Fault;
use kassette_world::open;
use kassette_world::suite::{Lost, Method, Vendor};

type World = kassette_world::World<Adyen>;

/// The methods, each with a supported currency.
const METHODS: [(&str, &str); 5] = [
    ("credit_card", "EUR"),
    ("ideal", "EUR"),
    ("klarna", "EUR"),
    ("paypal", "EUR"),
    ("upi_imps", "INR"),
];

/// Methods that need a capture.
const CAPTURED_BY_US: [&str; 3] = ["credit_card", "klarna", "paypal"];
/// Methods that capture when the payer approves.
const TAKEN_AT_ONCE: [&str; 2] = ["ideal", "upi_imps"];

/// Delay between Adyen's answer and the effect of the request, in milliseconds.
const LATER_MS: u64 = 1_500;

fn world() -> World {
    World::new("adyen")
}

/// The query that the payer's browser brings back after a choice.
fn choose(w: &World, open: &Open, outcome: &str) -> String {
    let (status, location) = w.choose(open, outcome);
    assert_eq!(status, 303, "{outcome}");
    let location = location.unwrap();
    let (_, query) = location.split_once('?').unwrap_or_default();
    query.to_owned()
}

/// The only report of the notification after the effect of the last request.
fn later(w: &World) -> Report {
    w.advance(LATER_MS);
    report(w)
}

fn started(w: &World, method: &str) -> (Attempt, Open) {
    let (_, currency) = METHODS.into_iter().find(|(id, _)| *id == method).unwrap();
    let attempt = w.attempt(method, currency);
    let open = open(w.start(&attempt));
    (attempt, open)
}

/// Reports of the next notification, in order. `None` for a notice that only makes the host query.
fn told(w: &World) -> Vec<Option<Report>> {
    let answer = w.callback(&w.next_callback()).unwrap();
    reports(answer)
}

fn reports(answer: CallbackReply) -> Vec<Option<Report>> {
    assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
    answer
        .notices
        .into_iter()
        .map(|notice| notice.report)
        .collect()
}

/// The only report of the next notification.
fn report(w: &World) -> Report {
    let told = told(w);
    let [Some(report)] = told.as_slice() else {
        panic!("one report: {told:?}")
    };
    report.clone()
}

/// Reason why the answer refuses no refund.
const TOO_MUCH: &str = "what is too much is received like any other, and refused by news";

/// A key of 64 digits that differs from the simulator's.
const OTHER_KEY: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF";

/// The shared test suite's parameters.
struct AtAdyen;

impl Vendor for AtAdyen {
    type Module = Adyen;
    const MODULE: &'static str = "adyen";
    const LACKS: &'static [(&'static str, &'static str)] = &[
        (
            "a_payment_that_is_held_is_told_so_whatever_the_purpose_until_it_is_let_go",
            "news tells the review and the authorisation; the purpose `capture` captures it",
        ),
        (
            "an_unknown_attempt_is_absent",
            "a question without an answered start repeats the start",
        ),
        (
            "a_capture_under_way_is_no_money_and_is_neither_repeated_nor_called_off",
            "an authorisation is told with its amount; a cancellation can still win",
        ),
        (
            "what_was_closed_cannot_be_started_again",
            "the same request gets its first answer again",
        ),
        (
            "refunds_are_told_one_by_one_and_one_that_fails_no_longer_counts",
            "only news tells of refunds, each by itself",
        ),
        (
            "our_refund_is_told_by_its_order_and_one_of_the_dashboard_by_none",
            "only news tells of refunds, each by itself",
        ),
        (
            "all_of_the_money_is_given_back_and_then_nothing_is_left",
            TOO_MUCH,
        ),
        ("parts_are_given_back_and_never_more_than_is_left", TOO_MUCH),
        (
            "the_same_order_gives_back_once_even_when_the_vendors_keys_have_ended",
            "an order that is too old to be repeated stays uncertain: no refund can be looked for",
        ),
        (
            "a_dispute_keeps_its_id_until_it_is_won_or_lost",
            "only news tells of disputes, each by itself",
        ),
        (
            "news_with_another_byte_is_refused",
            "the signature covers the fields of the news, not its bytes",
        ),
        (
            "news_that_is_too_old_is_refused",
            "the signature covers no time",
        ),
    ];
    // A link first: its payment is captured when the payer approves.
    const METHODS: &'static [Method] = &[
        ("ideal", "EUR"),
        ("credit_card", "EUR"),
        ("klarna", "EUR"),
        ("paypal", "EUR"),
        ("upi_imps", "INR"),
    ];
    const CAPTURED: Method = ("credit_card", "EUR");
    const CLOSABLE: Method = ("credit_card", "EUR");
    const FOREIGN: Method = ("ideal", "USD");
    // A complete success answer is sufficient.
    const CLOSE_FAULTS: &'static [Fault] = &[
        Fault::TimeoutBeforeEffect,
        Fault::TimeoutAfterEffect,
        Fault::Status429,
        Fault::Status500,
    ];
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("Insufficient balance on payment");
    const CREDENTIAL: (&'static str, &'static str) = ("api-key", "AQEwrong");
    const UNKNOWN: &'static str = "PL0000000000000000";
    const LOST: Lost = Lost::Made;
    const TAKEN_ON_CAPTURE: bool = true;
    const BY_NOTICE: bool = true;
    const AUTHORISED_IS_TOLD: bool = true;
    const CONFIRMS_LATER: bool = true;
    const CAPTURE_PATH: &'static str = "/captures";
    const REFUNDED_LATER: bool = true;
    const REFUNDS_BY_NOTICE: bool = true;
    const REFUND_LOST: Lost = Lost::Made;
    const VOIDED: Status = Status::Cancelled;
    // Only a request can detect it.
    const FORGOTTEN_PURPOSES: &'static [QueryPurpose] =
        &[QueryPurpose::Capture, QueryPurpose::Cancel];
    const CLOSABLE_AFTER: &'static [&'static str] = &[""];
    const PAGE_STAYS: bool = true;
    const GRACE_MS: u64 = 3_600_001;
    const NOTICE_SECRET: Option<(&'static str, &'static str)> = Some(("hmac-key", OTHER_KEY));
}

kassette_world::provider_suite!(AtAdyen);
