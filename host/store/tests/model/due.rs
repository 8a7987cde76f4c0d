//! The reference's word on when something is due.

use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::payment::{Resolution, Status};
use kassette_domain::provider::VendorStatus;
use kassette_domain::time::Time;

use crate::attempt::{Attempt, Shown};
use crate::law::{FIRST_REPEAT, REPEATED_FOR, is_open, is_over};
use crate::payment::Payment;
use crate::questions::Questions;

/// When something is due about a payment next; not before a lease ends.
pub(crate) fn due(payment: &Payment) -> Option<Time> {
    let mut due = Vec::new();
    for attempt in &payment.attempts {
        let busy = attempt.busy.unwrap_or_default();
        let ready = busy.max(attempt.questions.hold.unwrap_or_default());
        if payment.is_to_capture(attempt) {
            due.push(ready);
        }
        due.extend(close_from(payment, attempt).map(|from| from.max(ready)));
        due.extend(attempt.questions.next.map(|next| next.max(busy)));
        due.extend(start_from(payment, attempt).map(|from| from.max(busy)));
        for order in attempt
            .returns
            .orders
            .iter()
            .filter(|order| order.is_pending())
        {
            let busy = order.busy.unwrap_or_default();
            due.extend(order.next.map(|next| next.max(busy)));
        }
    }
    let idle = matches!(payment.status, Status::Created | Status::Pending);
    if idle && payment.open().is_none() {
        due.push(payment.expires);
    }
    let first = due.into_iter().min()?;
    Some(first.max(payment.lease.unwrap_or_default()))
}

/// From when on an attempt is to be closed that could still be paid and should not be.
fn close_from(payment: &Payment, attempt: &Attempt) -> Option<Time> {
    let over = is_over(payment.status);
    let waits = matches!(attempt.state, AttemptState::Open | AttemptState::Unknown);
    let taken = matches!(
        attempt.state,
        AttemptState::Captured | AttemptState::Surplus
    );
    let declined = payment.waits() == Some(Resolution::Decline) && attempt.is_to_close();
    if attempt.exhausted || taken {
        None
    } else if waits && payment.status == Status::Pending {
        Some(attempt.expires)
    } else {
        let approved = matches!(
            attempt.state,
            AttemptState::Processing | AttemptState::Capturing
        );
        let ended = !is_open(attempt.state);
        let payable = declined
            || waits
            || (approved && over)
            || (ended && attempt.said() == Some(VendorStatus::Pending))
            || (ended && over && attempt.is_authorised());
        payable.then_some(Time::default())
    }
}

/// When a start whose outcome is not known is repeated while its payer waits.
fn start_from(payment: &Payment, attempt: &Attempt) -> Option<Time> {
    let Questions { from, hold, .. } = attempt.questions;
    let held = hold.is_some() || attempt.closing || attempt.exhausted;
    let (lost, tried) = (!attempt.uncertain, attempt.sent.since(from));
    let unknown = match attempt.state {
        AttemptState::Open => attempt.shown == Shown::Nothing && (lost || tried < REPEATED_FOR),
        AttemptState::Unknown => tried < REPEATED_FOR,
        _ => false,
    };
    let pause = match attempt.state {
        AttemptState::Open if lost => Duration::ZERO,
        _ => tried.max(FIRST_REPEAT),
    };
    let due = attempt
        .sent
        .after(pause)
        .max(attempt.busy.unwrap_or_default());
    let wanted = payment.status == Status::Pending && !held && unknown;
    (wanted && due < attempt.expires).then_some(due)
}

/// Whether a decision that waits waits for something: for a capture, a close, or a vendor's word on
/// the attempt that is open.
pub(crate) fn is_pursued(payment: &Payment) -> bool {
    let mut attempts = payment.attempts.iter();
    payment.waits().is_none()
        || attempts.any(|attempt| {
            payment.is_to_capture(attempt)
                || close_from(payment, attempt).is_some()
                || is_open(attempt.state)
        })
}
