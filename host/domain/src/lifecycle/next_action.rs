//! What is to be done next about a payment, and when: everything that workers do follows from here.

use std::time::Duration;

use super::PaymentAggregate;
use crate::attempt::{Attempt, AttemptState};
use crate::id::{AttemptId, RefundId};
use crate::payment::{Resolution, Status};
use crate::provider::VendorStatus;
use crate::time::Time;

/// The shortest pause before a start is repeated; then as long as it was tried for.
const FIRST_REPEAT: Duration = Duration::from_secs(5);
/// A start is repeated only if it was last sent within this time after the payer's action.
const REPEATED_FOR: Duration = Duration::from_secs(20);

/// Something that a worker has to do about a payment now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Claim for capture and query with the purpose `capture`.
    Capture(AttemptId),
    /// Claim and query with the purpose `cancel`: its time has passed, or another attempt won.
    Cancel(AttemptId),
    /// Query with the purpose `sync`, as the schedule says.
    Query(AttemptId),
    /// Claim and repeat the start: a payer waits for its outcome.
    Start(AttemptId),
    /// Claim a refund and send it, or ask about it.
    Refund(RefundId),
    /// `Act::Expire`.
    Expire,
}

impl PaymentAggregate {
    /// What is to be done now; none where nothing is due. Done again after each step until none.
    pub fn next_action(&self, now: Time) -> Option<NextAction> {
        self.next_actions()
            .find(|(due, _)| *due <= now)
            .map(|(_, next_action)| next_action)
    }

    /// When something is due next; none where nothing ever will be. The store keeps one row per
    /// payment in this order. Never before `payment.claimed_until`.
    pub fn due_at(&self) -> Option<Time> {
        let due = self.next_actions().map(|(due, _)| due).min()?;
        Some(
            self.payment
                .claimed_until
                .map_or(due, |claimed| due.max(claimed)),
        )
    }

    /// Everything that is or will be due, the most urgent kind first, each with its time: the one
    /// source of [`PaymentAggregate::next_action`] and [`PaymentAggregate::due_at`].
    fn next_actions(&self) -> impl Iterator<Item = (Time, NextAction)> + '_ {
        let each = |of: fn(&Self, &Attempt) -> Option<(Time, NextAction)>| {
            self.attempts
                .iter()
                .filter_map(move |attempt| of(self, attempt))
        };
        each(Self::capture_due)
            .chain(each(Self::close_due))
            .chain(each(|_, attempt| query_due(attempt)))
            .chain(each(Self::start_due))
            .chain(self.attempts.iter().flat_map(refunds_due))
            .chain(self.expiry_due())
    }

    /// An approval is captured at once.
    fn capture_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let due = || (ready(attempt), NextAction::Capture(attempt.id));
        self.wants_capture(attempt).then(due)
    }

    /// What can still be paid and should not be any more is closed.
    fn close_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let status = self.payment.status;
        let waits_at_vendor = attempt
            .vendor
            .as_ref()
            .is_some_and(|facts| facts.status == VendorStatus::Pending);
        let declined = self.waits_for(Resolution::Decline);
        let from = match attempt.state {
            _ if attempt.is_exhausted() => None,
            _ if declined && self.is_to_close(attempt) => Some(Time::default()),
            AttemptState::Open | AttemptState::Unknown if status == Status::Pending => {
                Some(attempt.expires_at)
            }
            AttemptState::Open | AttemptState::Unknown => Some(Time::default()),
            AttemptState::Processing | AttemptState::Capturing => {
                status.is_final().then(Time::default)
            }
            state if state.is_open() => None,
            AttemptState::Captured | AttemptState::Surplus => None,
            _ if waits_at_vendor => Some(Time::default()),
            _ if attempt.is_authorised() => status.is_final().then(Time::default),
            _ => None,
        };
        from.map(|from| (from.max(ready(attempt)), NextAction::Cancel(attempt.id)))
    }

    /// A start whose outcome is not known is repeated while its payer waits: after 5, 10 and 20 seconds where it fails
    /// at once, so that a vendor that is back is noticed as a payer would by trying again. What is being closed, or
    /// was held back, is not.
    fn start_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let unanswered = match attempt.state {
            AttemptState::Open => attempt.action.is_none(),
            AttemptState::Unknown => true,
            _ => false,
        };
        let held = attempt.closing || attempt.hold_until.is_some() || attempt.is_exhausted();
        if self.payment.status != Status::Pending || !unanswered || held {
            return None;
        }
        let tried = attempt.last_sent.since(attempt.watched_from);
        let pause = if attempt.state == AttemptState::Open && !attempt.uncertain {
            // The task that started it is gone with its claim.
            Duration::ZERO
        } else if tried < REPEATED_FOR {
            tried.max(FIRST_REPEAT)
        } else {
            return None;
        };
        let busy = attempt.busy_until.unwrap_or_default();
        let due = busy.max(attempt.last_sent.after(pause));
        // Then it is closed.
        (due < attempt.expires_at).then_some((due, NextAction::Start(attempt.id)))
    }

    /// A payment without an open attempt expires; an open attempt is closed first.
    fn expiry_due(&self) -> Option<(Time, NextAction)> {
        let idle = matches!(self.payment.status, Status::Created | Status::Pending)
            && self.open_attempt().is_none();
        idle.then_some((self.payment.expires_at, NextAction::Expire))
    }
}

/// A question of the schedule, or one that a notice caused.
fn query_due(attempt: &Attempt) -> Option<(Time, NextAction)> {
    let busy = attempt.busy_until.unwrap_or_default();
    attempt
        .next_query
        .map(|due| (due.max(busy), NextAction::Query(attempt.id)))
}

/// Refunds that the vendor is to make, or of which it is not known what became.
fn refunds_due(attempt: &Attempt) -> impl Iterator<Item = (Time, NextAction)> + '_ {
    attempt.returns.refunds.iter().filter_map(|refund| {
        let ordered = refund.pending_order()?;
        let due = ordered.next_at?.max(ordered.busy_until.unwrap_or_default());
        Some((due, NextAction::Refund(refund.id)))
    })
}

/// From when on an attempt can be captured or closed.
fn ready(attempt: &Attempt) -> Time {
    let busy = attempt.busy_until.unwrap_or_default();
    busy.max(attempt.hold_until.unwrap_or_default())
}
