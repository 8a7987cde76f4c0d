//! Amounts that script the course of a payment, in any currency, so that tests need no manual steps.
//! `config/payments.md` lists them.
use crate::{
    afterwards::Later,
    capture::LATER_MS,
    money::Amount,
    session::{Outcome, Session},
};

/// The script of an amount, which starts when the payer's page is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scripted {
    /// Presses a button.
    Press(Outcome),
    /// Declined for this reason.
    Decline(&'static str),
    /// The payer cancels.
    GiveUp,
    /// The provider ends the payment permanently.
    Fail,
    /// Approved; captured when the clock is moved next.
    Process,
    /// Like `Process`, and until then the provider waits for a proof.
    Verify,
    /// Approved; a dispute is opened a moment later, and won (`true`) or lost by the merchant.
    Dispute(bool),
}

/// Amounts that press a button, at every provider.
const BUTTONS: [(u64, Outcome); 4] = [
    (700_101, Outcome::Approve),
    (700_102, Outcome::Decline),
    (700_103, Outcome::Review),
    (700_104, Outcome::Pending),
];

/// Further amounts at the sandbox: the decline codes in the order of the gateway's documentation, then late ends,
/// then events after the capture. For the code `unavailable` no payment is created.
const SANDBOX: [(u64, Scripted); 12] = [
    (700_201, Scripted::Decline("declined")),
    (700_202, Scripted::Decline("insufficient_funds")),
    (700_203, Scripted::Decline("card_expired")),
    (700_204, Scripted::Decline("authentication_failed")),
    (700_205, Scripted::Decline("limit_exceeded")),
    (700_206, Scripted::GiveUp),
    (700_208, Scripted::Fail),
    (700_301, Scripted::Process),
    (700_302, Scripted::Verify),
    (REFUND_FAILS.0, Scripted::Press(Outcome::Approve)),
    (700_402, Scripted::Dispute(true)),
    (700_403, Scripted::Dispute(false)),
];

/// The sandbox refuses payments of this amount.
pub(crate) const UNAVAILABLE: Amount = Amount(700_207);

/// Refunds of payments with this amount fail.
pub(crate) const REFUND_FAILS: Amount = Amount(700_401);

/// Time between the payer's approval and a dispute, and duration of the dispute, in milliseconds. By then the
/// gateway has completed the payment.
const DISPUTE_MS: u64 = 2 * LATER_MS;

/// The script of an amount, or `None`. `sandbox` enables the longer list.
pub(crate) fn scripted(amount: Amount, sandbox: bool) -> Option<Scripted> {
    let button = BUTTONS.iter().find(|(known, _)| *known == amount.0);
    let longer = SANDBOX.iter().find(|(known, _)| *known == amount.0);
    button
        .map(|(_, outcome)| Scripted::Press(*outcome))
        .or_else(|| longer.filter(|_| sandbox).map(|(_, scripted)| *scripted))
}

/// Schedules the start and the end of a dispute for a payment that was just approved.
pub(crate) fn plan_dispute(session: &mut Session, won: bool, now: u64) {
    let end = if won {
        Later::DisputeWon
    } else {
        Later::DisputeLost
    };
    let begins = now.saturating_add(DISPUTE_MS);
    let ends = begins.saturating_add(DISPUTE_MS);
    session.upcoming = vec![(Later::Dispute, Some(begins)), (end, Some(ends))];
}
