//! What can still become of the tries to pay a link.
//!
//! A try that has failed is not over at Razorpay. "Late Payment Authorisations": where the bank gives no
//! answer for ten minutes the payment is marked as failed, and the bank is asked for days; once it says
//! yes, the payment is authorised, and captured within the account's capture settings. And "Payments
//! Webhook Events": most UPI apps let the payer try the same payment once more, so that
//! `payment.captured` follows `payment.failed` for the same payment, after a wrong PIN or for lack of
//! funds too. Closing the link changes nothing about either.
use crate::wire::{Payment, Phase};

/// How long a try without an answer may be authorised late, in seconds: the longest time that Razorpay's
/// documents name for asking the bank.
const LATE: u64 = 5 * 24 * 60 * 60;

/// How long a payer may go on with a try that was refused, in seconds: Razorpay gives payers ten minutes
/// for a payment, and a try that takes longer is timed out.
const RETRIED: u64 = 15 * 60;

/// Reasons for which the payer's bank or app has answered no, by "Error Reasons".
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

/// Whether a try that has taken nothing may bring money yet. `now` is in milliseconds.
pub(crate) fn is_alive(payment: &Payment, now: u64) -> bool {
    let reason = payment.reason.as_deref();
    let answered = reason.is_some_and(|reason| ANSWERED.contains(&reason));
    let seconds = match payment.phase {
        Phase::Captured | Phase::Authorized => return true,
        // Given back before it was captured.
        Phase::Refunded => return false,
        Phase::Failed if answered => RETRIED,
        Phase::Failed | Phase::Created => LATE,
    };
    now / 1_000 < payment.created_at.saturating_add(seconds)
}

/// Whether an authorisation was given back that was not captured, as Razorpay does by itself.
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
