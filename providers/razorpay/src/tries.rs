//! Possible outcomes of the tries to pay a link.
//!
//! A failed try may not be final at Razorpay. "Late Payment Authorisations": if the bank does not answer for ten
//! minutes, the payment is marked as failed, and Razorpay queries the bank for days. If the bank then approves,
//! the payment is authorized, and captured within the account's capture settings. "Payments Webhook Events": most
//! UPI apps let the payer retry the same payment, so `payment.captured` can follow `payment.failed` for the same
//! payment, even after a wrong PIN or insufficient funds. Closing the link prevents neither.
use crate::wire::{Payment, Phase};

/// Maximum time in which a try without an answer may still be authorized, in seconds: the longest period in
/// Razorpay's documents for querying the bank.
const LATE: u64 = 5 * 24 * 60 * 60;

/// Time in which a payer may retry a refused try, in seconds. Razorpay gives payers ten minutes for a payment,
/// after which it times out.
const RETRIED: u64 = 15 * 60;

/// Reasons that mean that the payer's bank or app has refused: "Error Reasons".
const ANSWERED: [&str; 17] = [
    "bank_account_invalid",
    "bank_account_validation_failed",
    "debit_declined",
    "debit_instrument_blocked",
    "debit_instrument_inactive",
    "funds_blocked_by_mandate",
    "incorrect_pin",
    "insufficient_funds",
    "invalid_vpa",
    "payment_declined",
    "payment_risk_check_failed",
    "pin_attempts_exceeded",
    "pin_not_set",
    "transaction_daily_limit_exceeded",
    "transaction_frequency_limit_exceeded",
    "transaction_limit_exceeded",
    "transaction_on_vpa_restricted",
];

/// Whether an uncaptured try may still bring money. `now` is in milliseconds since 1970.
pub(crate) fn is_alive(payment: &Payment, now: u64) -> bool {
    match payment.phase {
        Phase::Captured | Phase::Authorized => true,
        // Released before the capture.
        Phase::Refunded => false,
        Phase::Failed | Phase::Created | Phase::Unknown => {
            ends_at(payment).is_none_or(|ends_at| now / 1_000 < ends_at)
        }
    }
}

/// Time at which an uncaptured try becomes final, in seconds since 1970. `None` if its creation time is unknown.
pub(crate) fn ends_at(payment: &Payment) -> Option<u64> {
    let reason = payment.reason.as_deref();
    let answered = reason.is_some_and(|reason| ANSWERED.contains(&reason));
    let seconds = match payment.phase {
        Phase::Failed if answered => RETRIED,
        _ => LATE,
    };
    Some(payment.created_at?.saturating_add(seconds))
}

/// Whether an uncaptured authorization was released, which Razorpay does automatically.
pub(crate) fn was_given_back(payment: &Payment) -> bool {
    payment.phase == Phase::Refunded && !payment.captured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{BEGAN, failed, paid};

    #[test]
    fn a_try_is_over_when_no_document_lets_it_be_authorised_any_more() {
        const MINUTES: u64 = 60;
        const DAYS: u64 = 24 * 60 * MINUTES;
        for (payment, alive_for) in [
            (failed("insufficient_funds"), 15 * MINUTES),
            (failed("incorrect_pin"), 15 * MINUTES),
            (failed("payment_timed_out"), 5 * DAYS),
            (failed("payment_cancelled"), 5 * DAYS),
            (failed("a reason that is new"), 5 * DAYS),
            (paid("created", false, 0), 5 * DAYS),
        ] {
            let alive_after = |seconds: u64| is_alive(&payment, (BEGAN + seconds) * 1_000);
            assert!(alive_after(alive_for - 1), "{:?}", payment.reason);
            assert!(!alive_after(alive_for), "{:?}", payment.reason);
        }
    }

    #[test]
    fn what_was_given_back_uncaptured_is_over_and_what_is_held_is_not() {
        let now = BEGAN * 1_000;
        assert!(is_alive(&paid("authorized", false, 0), now + 1_000_000_000));
        let given_back = paid("refunded", false, 4990);
        assert!(!is_alive(&given_back, now));
        assert!(was_given_back(&given_back));
        assert!(!was_given_back(&paid("refunded", true, 4990)));
    }
}
