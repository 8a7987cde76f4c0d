//! Content of a payer's page about a payment, as a pure function of the aggregate.

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::payment::{CheckoutMode, Status};
use kassette_domain::provider::PayerAction;
use kassette_domain::time::Time;
use kassette_gateway::checkout::CheckoutView;
use sha2::{Digest, Sha256};

use super::money::{OnRecord, Sentence};

/// State of a payment from the payer's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckoutState<'a> {
    /// The payer can choose a method.
    Choose,
    /// The merchant starts the payment.
    Direct,
    /// No method is available.
    Unavailable,
    /// An attempt waits for the payer, who performs this action next.
    Open(&'a Attempt, &'a PayerAction),
    /// An attempt waits, but the time for the payer's action has passed.
    Lapsed(&'a Attempt),
    /// The provider is closing an attempt, after which another method can be chosen.
    Closing(&'a Attempt),
    /// The outcome of a start is unknown.
    Checking(&'a Attempt),
    /// Paid or authorized.
    Processing,
    /// Paid, but not confirmed by the provider.
    Verification,
    /// Under review by an operator.
    Review,
    /// Paid.
    Completed,
    /// Ended without money.
    Failed,
    Cancelled,
    Expired,
}

impl<'a> CheckoutState<'a> {
    /// State of a payment at a time.
    pub(crate) fn from_view(view: &'a CheckoutView, now: Time) -> Self {
        let payment = &view.aggregate.payment;
        match payment.status {
            Status::Created if now >= payment.expires_at => Self::Expired,
            Status::Created if payment.mode == CheckoutMode::Direct => Self::Direct,
            Status::Created if view.can_choose && !view.offers.is_empty() => Self::Choose,
            Status::Created => Self::Unavailable,
            Status::Pending => view
                .aggregate
                .open_attempt()
                .map_or(Self::Processing, |attempt| Self::attempt(attempt, now)),
            Status::Processing => Self::Processing,
            Status::VerificationPending => Self::Verification,
            Status::Review => Self::Review,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
            Status::Expired => Self::Expired,
        }
    }

    fn attempt(attempt: &'a Attempt, now: Time) -> Self {
        match (attempt.state(), attempt.action()) {
            (AttemptState::VerificationPending, _) => Self::Verification,
            (AttemptState::Review, _) => Self::Review,
            (AttemptState::Open | AttemptState::Unknown, _)
                if attempt.stage.is_closing() && attempt.is_busy(now) =>
            {
                Self::Closing(attempt)
            }
            (AttemptState::Open, Some(_)) if now >= attempt.usable_until() => Self::Lapsed(attempt),
            (AttemptState::Open, Some(action)) => Self::Open(attempt, action),
            (AttemptState::Open | AttemptState::Unknown, _) => Self::Checking(attempt),
            _ => Self::Processing,
        }
    }

    /// Whether the state is final, except for late money.
    pub(crate) const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired
        )
    }

    /// Interval in seconds until the page reloads, while the payment waits for something other than the payer.
    /// The interval grows with the waiting time, so that a forgotten tab causes few requests.
    pub(crate) fn refresh_seconds(self, waiting: std::time::Duration) -> Option<u32> {
        let quick = match waiting.as_secs() {
            0..120 => 5,
            120..900 => 15,
            _ => 60,
        };
        match self {
            Self::Open(..)
            | Self::Lapsed(_)
            | Self::Closing(_)
            | Self::Checking(_)
            | Self::Processing => Some(quick),
            Self::Verification => Some(quick.max(15)),
            Self::Review => Some(quick.max(30)),
            _ => None,
        }
    }
}

/// Identifies the content of a payer's page: changes whenever the page would show something else. 16 hex
/// digits.
pub(crate) fn version(view: &CheckoutView, now: Time) -> String {
    let state = CheckoutState::from_view(view, now);
    let step = match state {
        CheckoutState::Open(_, action) => Some(action),
        _ => None,
    };
    let attempts = view.aggregate.attempts.iter();
    let attempts: Vec<_> = attempts
        .map(|attempt| (attempt.id, attempt.state(), OnRecord::of_attempt(attempt)))
        .collect();
    let status = view.aggregate.payment.status;
    let about = Sentence::about(&view.aggregate);
    let kind = std::mem::discriminant(&state);
    let digest = Sha256::digest(format!("{:?}", (status, kind, step, about, attempts)));
    hex::encode(digest.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::fixtures::{self, attempt, view};

    #[test]
    fn a_pending_payment_shows_its_open_attempt() {
        let pending = view(Status::Pending, vec![attempt(fixtures::redirect())]);
        assert!(matches!(
            CheckoutState::from_view(&pending, fixtures::NOW),
            CheckoutState::Open(_, PayerAction::Redirect(_))
        ));
    }

    #[test]
    fn what_the_payer_was_to_do_lapses_with_the_attempt() {
        let mut waiting = attempt(fixtures::redirect());
        fixtures::set_until(&mut waiting, fixtures::NOW);
        let lapsed = view(Status::Pending, vec![waiting]);
        assert!(matches!(
            CheckoutState::from_view(&lapsed, fixtures::NOW),
            CheckoutState::Lapsed(_)
        ));
    }

    #[test]
    fn an_attempt_is_not_continued_while_the_vendor_closes_it() {
        let open = attempt(fixtures::redirect());
        let closing = fixtures::closing(open.clone(), fixtures::NOW);
        let closed = view(Status::Pending, vec![closing]);
        assert!(matches!(
            CheckoutState::from_view(&closed, fixtures::NOW),
            CheckoutState::Open(..)
        ));
        let later = Time::from_secs(fixtures::NOW.as_secs() + 1);
        for state in [AttemptState::Open, AttemptState::Unknown] {
            let mut open = open.clone();
            fixtures::put(&mut open, state);
            let pending = view(Status::Pending, vec![fixtures::closing(open, later)]);
            assert!(matches!(
                CheckoutState::from_view(&pending, fixtures::NOW),
                CheckoutState::Closing(_)
            ));
        }
    }

    #[test]
    fn a_start_without_an_outcome_is_never_continued() {
        let mut unknown = attempt(fixtures::redirect());
        fixtures::put(&mut unknown, AttemptState::Unknown);
        let starting = fixtures::starting();
        for attempt in [unknown, starting] {
            let pending = view(Status::Pending, vec![attempt]);
            assert!(matches!(
                CheckoutState::from_view(&pending, fixtures::NOW),
                CheckoutState::Checking(_)
            ));
        }
    }

    #[test]
    fn a_payment_whose_time_has_passed_offers_nothing() {
        let mut late = view(Status::Created, vec![]);
        late.aggregate.payment.expires_at = fixtures::NOW;
        assert_eq!(
            CheckoutState::from_view(&late, fixtures::NOW),
            CheckoutState::Expired
        );
    }

    #[test]
    fn nothing_can_be_chosen_without_approval_or_offers() {
        let mut forbidden = view(Status::Created, vec![]);
        forbidden.can_choose = false;
        assert_eq!(
            CheckoutState::from_view(&forbidden, fixtures::NOW),
            CheckoutState::Unavailable
        );
        let mut empty = view(Status::Created, vec![]);
        empty.offers.clear();
        assert_eq!(
            CheckoutState::from_view(&empty, fixtures::NOW),
            CheckoutState::Unavailable
        );
    }
}
