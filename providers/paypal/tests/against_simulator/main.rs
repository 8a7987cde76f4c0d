//! The module against the simulator: every outcome and every fault, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod callbacks;
mod starting;

use kassette_plugin::provider::{Attempt, QueryPurpose, Settlement, Status};
use kassette_provider_paypal::PayPal;
use kassette_world::World;
use kassette_world::suite::{Lost, Method, Vendor};

fn world() -> World<PayPal> {
    World::new("paypal")
}

/// The shared test suite's parameters.
struct AtPayPal;

impl Vendor for AtPayPal {
    type Module = PayPal;
    const MODULE: &'static str = "paypal";
    const LACKS: &'static [(&'static str, &'static str)] = &[
        (
            "a_payer_who_pays_after_a_decline_is_told_as_paid",
            "a declined order is voided",
        ),
        (
            "a_payment_that_ran_out_of_time_is_expired",
            "PayPal forgets an order that ran out of time",
        ),
        (
            "a_dispute_keeps_its_id_until_it_is_won_or_lost",
            "only news tells of a dispute",
        ),
        (
            "news_signed_with_the_secret_before_counts_during_a_rotation_alone",
            "news is signed with a certificate",
        ),
    ];
    const METHODS: &'static [Method] = &[("paypal", "EUR"), ("venmo", "USD")];
    const FOREIGN: Method = ("paypal", "INR");
    const CAPTURE_REFUSED_REASON: Option<&'static str> = Some("INSTRUMENT_DECLINED");
    // The purpose `cancel` closes an order that PayPal does not know.
    const UNKNOWN_PURPOSES: &'static [QueryPurpose] = &[QueryPurpose::Sync, QueryPurpose::Capture];
    const CREDENTIAL: (&'static str, &'static str) = ("client-secret", "wrong");
    const UNKNOWN: &'static str = "5O190127TN364715T";
    const LOST: Lost = Lost::Unfindable;
    const TAKEN_ON_CAPTURE: bool = true;
    const REFUND_PATH: &'static str = "/refund";
    const UNDER_WAY: Status = Status::VerificationPending;
    const CAPTURE_REFUSED: Status = Status::Declined;
    const REFUSAL_IS_FINAL: bool = true;
    const FORGOTTEN_PURPOSES: &'static [QueryPurpose] =
        &[QueryPurpose::Sync, QueryPurpose::Capture];
    const HELD: Settlement = Settlement::Pending;
    const HELD_MONEY: bool = false;
    const CLOSABLE_AFTER: &'static [&'static str] = &["", "pending", "approve"];
    const PAGE_STAYS: bool = true;
    const NOTICE_TOO_OLD_MS: u64 = 4 * 86_400_000 + 1_001;

    fn until(_: &Attempt) -> Option<u64> {
        None
    }
}

kassette_world::provider_suite!(AtPayPal);
