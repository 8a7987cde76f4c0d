//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod callbacks;
mod coins;
mod paying;
mod payloads;
mod starting;

use kassette_plugin::provider::{
    Action, Attempt, Given, Open, QueryPurpose, Report, Settlement, Status, Subject,
};
use kassette_provider_btcpay::BtcPay;
use kassette_world::open;
use kassette_world::suite::{Method, Payment, Vendor};

type World = kassette_world::World<BtcPay>;

fn world() -> World {
    World::new("btcpay")
}

fn started(w: &World) -> (Attempt, Open) {
    let attempt = w.attempt("crypto", "EUR");
    let open = open(w.start(&attempt));
    (attempt, open)
}

/// The payer's choice on the page that the instructions link to.
fn choose(w: &World, started: &Open, outcome: &str) -> u16 {
    let Action::Show(show) = &started.action else {
        panic!("instructions: {:?}", started.action)
    };
    let page = Open {
        action: Action::Redirect(show.link.clone().unwrap()),
        ..started.clone()
    };
    w.choose(&page, outcome).0
}

/// The host's knowledge of an attempt after its next webhook, which only makes the host query.
fn told(w: &World, attempt: &Attempt, open: &Open) -> Report {
    let answer = w.callback(&w.next_callback()).unwrap();
    assert_eq!(answer.status, 200);
    let [notice] = answer.notices.as_slice() else {
        panic!("one notice: {:?}", answer.notices)
    };
    assert_eq!(notice.about, Subject::Attempt(attempt.id.clone()));
    assert_eq!(notice.report, None);
    looked(w, attempt, open)
}

fn looked(w: &World, attempt: &Attempt, open: &Open) -> Report {
    w.query(attempt, Some(&open.reference), QueryPurpose::Sync)
        .unwrap()
}

/// Reason why nothing is captured.
const UNAUTHORISED: &str = "coins are paid, never authorised";

/// The shared test suite's parameters.
struct AtBtcPay;

impl Vendor for AtBtcPay {
    type Module = BtcPay;
    const MODULE: &'static str = "btcpay";
    const LACKS: &'static [(&'static str, &'static str)] = &[
        (
            "a_currency_that_the_method_does_not_take_is_for_another_provider",
            "the server has a rate for every currency",
        ),
        (
            "a_payer_who_pays_after_a_decline_is_told_as_paid",
            "a payer who does not pay lets the time pass",
        ),
        (
            "an_authorisation_is_captured_on_capture_alone_and_once",
            UNAUTHORISED,
        ),
        (
            "a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture",
            UNAUTHORISED,
        ),
        ("a_capture_that_is_refused_takes_no_money", UNAUTHORISED),
        (
            "an_authorisation_that_the_vendor_voids_is_over_whatever_is_asked",
            UNAUTHORISED,
        ),
        (
            "refunds_are_told_one_by_one_and_one_that_fails_no_longer_counts",
            "a refund leaves the invoice as it is",
        ),
        (
            "our_refund_is_told_by_its_order_and_one_of_the_dashboard_by_none",
            "a refund leaves the invoice as it is",
        ),
        (
            "a_refund_that_fails_later_is_told_and_can_be_given_again",
            "coins that were paid out do not come back",
        ),
        (
            "a_dispute_keeps_its_id_until_it_is_won_or_lost",
            "coins cannot be disputed",
        ),
        (
            "news_that_is_too_old_is_refused",
            "the server signs no time: news only makes the host ask",
        ),
    ];
    const METHODS: &'static [Method] = &[("crypto", "EUR")];
    const FOREIGN: Method = ("crypto", "USD");
    const HELD_IS_LET_GO: bool = false;
    const SPOILS_SEARCHES: bool = false;
    const CREDENTIAL: (&'static str, &'static str) = ("api-key", "wrong");
    const UNKNOWN: &'static str = "unknown";
    const AUTHORISES: bool = false;
    const UNDER_WAY: Status = Status::VerificationPending;
    const DECLINED: Status = Status::Expired;
    const DECLINED_FOR_GOOD: Status = Status::Expired;
    const HELD: Settlement = Settlement::Pending;
    const CLOSABLE_AFTER: &'static [&'static str] = &[""];
    const GRACE_MS: u64 = 1;
    const NOTICE_SECRET: Option<(&'static str, &'static str)> = Some(("webhook-secret", "new"));
    const REFUNDED_LATER: bool = true;
    const CLAIMED: bool = true;
    const REFUND_PATH: &'static str = "/refund";

    /// The payer claims it.
    fn finish_refund(_: &World, payment: &Payment<'_, Self>, given: &Given) {
        assert_eq!(
            given.claim_url.as_deref(),
            Some(payment.world.page(&payment.open))
        );
        assert_eq!(payment.choose("claim"), 200);
    }
}

kassette_world::provider_suite!(AtBtcPay);
