//! The reference's word on when something is due.

use kassette_domain::attempt::AttemptState;
use kassette_domain::id::AttemptId;
use kassette_domain::ledger::Ledger;
use kassette_domain::payment::Status;
use kassette_domain::provider::VendorStatus;
use kassette_domain::time::Time;

use crate::law::{is_open, is_over, is_under_way};
use crate::payment::Payment;

/// What the product says of an attempt's questions; see [`crate::payment`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Questions {
    next: Option<Time>,
    hold: Option<Time>,
    pub(crate) asked: u8,
}

/// What the product's ledger says of an attempt's questions.
pub(crate) fn questions(after: Option<&Ledger>, id: AttemptId) -> Questions {
    let attempt = after.and_then(|ledger| ledger.attempts.iter().find(|each| each.id == id));
    attempt.map_or_else(Questions::default, |attempt| Questions {
        next: attempt.next_query,
        hold: attempt.hold_until,
        asked: attempt.queries,
    })
}

/// When something is due about a payment next, whoever holds it.
pub(crate) fn due(payment: &Payment, after: Option<&Ledger>) -> Option<Time> {
    let mut due = Vec::new();
    for attempt in &payment.attempts {
        let questions = questions(after, attempt.id);
        let busy = attempt.busy.unwrap_or_default();
        let ready = busy.max(questions.hold.unwrap_or_default());
        let over = is_over(payment.status);
        let approved = matches!(
            attempt.state,
            AttemptState::Processing | AttemptState::Capturing
        );
        // An approval is captured.
        if approved
            && is_under_way(payment.status)
            && !payment.risky
            && payment.captured().is_none()
        {
            due.push(ready);
        }
        // What could still be paid and should not be is closed.
        let money = matches!(
            attempt.state,
            AttemptState::Captured | AttemptState::Surplus
        );
        let waits = matches!(attempt.state, AttemptState::Open | AttemptState::Unknown);
        let close = if attempt.is_silent() || money {
            None
        } else if waits && payment.status == Status::Pending {
            Some(attempt.expires)
        } else {
            let ended = !is_open(attempt.state);
            let payable = waits
                || (approved && over)
                || (ended && attempt.said() == Some(VendorStatus::Pending))
                || (ended && over && attempt.is_authorised());
            payable.then_some(Time::default())
        };
        due.extend(close.map(|from| from.max(ready)));
        due.extend(questions.next.map(|next| next.max(busy)));
    }
    let idle = matches!(payment.status, Status::Created | Status::Pending);
    if idle && payment.open().is_none() {
        due.push(payment.expires);
    }
    let first = due.into_iter().min()?;
    Some(first.max(payment.lease.unwrap_or_default()))
}
