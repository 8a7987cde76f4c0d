//! The next action about a payment, and its time: all work of the workers follows from here.

use std::time::Duration;

use super::PaymentAggregate;
use super::act::WARNED_BEFORE;
use crate::attempt::{Attempt, AttemptState, AuthorizationWatch, Live, Stage};
use crate::id::{AttemptId, RefundId};
use crate::payment::{Resolution, Status};
use crate::provider::ProviderStatus;
use crate::time::Time;

/// Minimum pause before a start is repeated; afterwards the time since the payer's action.
const FIRST_REPEAT: Duration = Duration::from_secs(5);
/// A start is repeated only if it was last sent within this time after the payer's action.
const REPEATED_FOR: Duration = Duration::from_secs(20);

/// An action that a worker must do about a payment now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Claim for capture, and query with the purpose `capture`.
    Capture(AttemptId),
    /// Claim, and query with the purpose `cancel`: it has expired, or another attempt was paid.
    Cancel(AttemptId),
    /// Query with the purpose `sync`, as scheduled.
    Query(AttemptId),
    /// Claim and repeat the start: a payer waits for its outcome.
    Start(AttemptId),
    /// Claim a refund, and send or query it.
    Refund(RefundId),
    /// `Act::Expire`.
    Expire,
    /// `Act::CarryOut`.
    CarryOut,
    /// `Act::Authorization`.
    Authorization(AttemptId),
}

impl PaymentAggregate {
    /// The action that is due now. `None` if nothing is due. Workers repeat this after each step until `None`.
    pub fn next_action(&self, now: Time) -> Option<NextAction> {
        self.next_actions()
            .find(|(due, _)| *due <= now)
            .map(|(_, next_action)| next_action)
    }

    /// Time of the next action, never before `payment.claimed_until`. `None` if there will be none. The store
    /// keeps one row per payment in this order.
    pub fn due_at(&self) -> Option<Time> {
        let due = self.next_actions().map(|(due, _)| due).min()?;
        Some(
            self.payment
                .claimed_until
                .map_or(due, |claimed| due.max(claimed)),
        )
    }

    /// All actions that are or will be due, each with its time, the most urgent kind first: the common source of
    /// [`PaymentAggregate::next_action`] and [`PaymentAggregate::due_at`].
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
            .chain(each(Self::authorization_due))
            .chain(self.decline_due().map(|at| (at, NextAction::CarryOut)))
            .chain(self.expiry_due())
    }

    /// An authorization is captured at once.
    fn capture_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let due = || (attempt.claim.ready_at(), NextAction::Capture(attempt.id));
        self.wants_capture(attempt).then(due)
    }

    /// An attempt that can still be paid, but should not be, is closed.
    fn close_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let status = self.payment.status;
        let waits_at_vendor = attempt
            .vendor
            .as_ref()
            .is_some_and(|facts| facts.status == ProviderStatus::Pending);
        let declined = self.waits_for(Resolution::Decline);
        let from = match attempt.state() {
            _ if attempt.queries.is_exhausted() => None,
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
        from.map(|from| {
            (
                from.max(attempt.claim.ready_at()),
                NextAction::Cancel(attempt.id),
            )
        })
    }

    /// A start with an unknown outcome is repeated while its payer waits: after 5, 10 and 20 seconds if it fails
    /// at once, so that a provider's recovery is noticed as soon as by a payer who tries again. Attempts that are
    /// being closed or held back are excluded.
    fn start_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let Stage::Live { state, closing, .. } = attempt.stage else {
            return None;
        };
        let held =
            closing || attempt.claim.hold_until().is_some() || attempt.queries.is_exhausted();
        if self.payment.status != Status::Pending || !attempt.stage.awaits_start() || held {
            return None;
        }
        let tried = attempt
            .claim
            .last_sent()
            .since(attempt.queries.watched_from());
        let pause = if state == (Live::Open { uncertain: false }) {
            // The task that started it is lost; its claim has ended.
            Duration::ZERO
        } else if tried < REPEATED_FOR {
            tried.max(FIRST_REPEAT)
        } else {
            return None;
        };
        let busy = attempt.claim.busy_until().unwrap_or_default();
        let due = busy.max(attempt.claim.last_sent().after(pause));
        // At that time it is closed.
        (due < attempt.expires_at).then_some((due, NextAction::Start(attempt.id)))
    }

    /// A day before an authorization's end an operator is warned; at its end the provider is queried.
    fn authorization_due(&self, attempt: &Attempt) -> Option<(Time, NextAction)> {
        let end = attempt.authorization_end()?;
        let due = match attempt.authorization {
            AuthorizationWatch::None => end.before(WARNED_BEFORE),
            AuthorizationWatch::Warned => end,
            AuthorizationWatch::Asked | AuthorizationWatch::Held => return None,
        };
        let busy = attempt.claim.busy_until().unwrap_or_default();
        Some((due.max(busy), NextAction::Authorization(attempt.id)))
    }

    /// A payment without an open attempt expires; an open attempt is closed first.
    fn expiry_due(&self) -> Option<(Time, NextAction)> {
        let idle = matches!(self.payment.status, Status::Created | Status::Pending)
            && self.open_attempt().is_none();
        idle.then_some((self.payment.expires_at, NextAction::Expire))
    }
}

/// A scheduled query, or one that a notification requested.
fn query_due(attempt: &Attempt) -> Option<(Time, NextAction)> {
    let busy = attempt.claim.busy_until().unwrap_or_default();
    attempt
        .queries
        .next()
        .map(|due| (due.max(busy), NextAction::Query(attempt.id)))
}

/// Refunds that the provider has to make, or whose outcome is unknown.
fn refunds_due(attempt: &Attempt) -> impl Iterator<Item = (Time, NextAction)> + '_ {
    attempt.funds.refunds.iter().filter_map(|refund| {
        let ordered = refund.pending_order()?;
        let due = ordered.next_at?.max(ordered.busy_until.unwrap_or_default());
        Some((due, NextAction::Refund(refund.id)))
    })
}
