//! What a payer is to see of a payment: one pure reading of its aggregate.

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::payment::{CheckoutMode, Status};
use kassette_domain::provider::PayerAction;
use kassette_domain::time::Time;
use kassette_gateway::checkout::CheckoutView;

/// Where a payment stands, for its payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckoutState<'a> {
    /// A method can be chosen.
    Choose,
    /// The merchant starts it.
    Direct,
    /// Nothing can be chosen now.
    Unavailable,
    /// An attempt waits for the payer, who does this next.
    Open(&'a Attempt, &'a PayerAction),
    /// An attempt waits, but what the payer was to do cannot be done any more.
    Lapsed(&'a Attempt),
    /// The vendor is being asked to close an attempt, so that another way can be chosen.
    Closing(&'a Attempt),
    /// The outcome of a start is not known.
    Checking(&'a Attempt),
    /// Paid or authorised.
    Processing,
    /// Paid, waiting for proof.
    Verification,
    /// An operator looks at it.
    Review,
    /// Paid.
    Completed,
    /// Over without money.
    Failed,
    Cancelled,
    Expired,
}

impl<'a> CheckoutState<'a> {
    /// Where a payment stands.
    pub(crate) fn of(view: &'a CheckoutView, now: Time) -> Self {
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
        let over = now >= attempt.expires_at || attempt.until.is_some_and(|until| now >= until);
        match (attempt.state, &attempt.action) {
            (AttemptState::VerificationPending, _) => Self::Verification,
            (AttemptState::Review, _) => Self::Review,
            (AttemptState::Open | AttemptState::Unknown, _)
                if attempt.closing && attempt.is_busy(now) =>
            {
                Self::Closing(attempt)
            }
            (AttemptState::Open, Some(_)) if over => Self::Lapsed(attempt),
            (AttemptState::Open, Some(action)) => Self::Open(attempt, action),
            (AttemptState::Open | AttemptState::Unknown, _) => Self::Checking(attempt),
            _ => Self::Processing,
        }
    }

    /// Whether nothing will change any more, but for late money.
    pub(crate) const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired
        )
    }

    /// How soon a report can be expected of a payment that waits for another than the payer, in
    /// seconds. The longer it has waited, the rarer the look: a page forgotten in a tab costs little.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::fixtures::{self, attempt, view};

    #[test]
    fn a_pending_payment_shows_its_open_attempt() {
        let pending = view(Status::Pending, vec![attempt(fixtures::redirect())]);
        assert!(matches!(
            CheckoutState::of(&pending, fixtures::NOW),
            CheckoutState::Open(_, PayerAction::Redirect(_))
        ));
    }

    #[test]
    fn what_the_payer_was_to_do_lapses_with_the_attempt() {
        let mut waiting = attempt(fixtures::redirect());
        waiting.until = Some(fixtures::NOW);
        let lapsed = view(Status::Pending, vec![waiting]);
        assert!(matches!(
            CheckoutState::of(&lapsed, fixtures::NOW),
            CheckoutState::Lapsed(_)
        ));
    }

    #[test]
    fn an_attempt_is_not_continued_while_the_vendor_closes_it() {
        let mut closing = attempt(fixtures::redirect());
        closing.closing = true;
        closing.busy_until = Some(fixtures::NOW);
        let closed = view(Status::Pending, vec![closing.clone()]);
        assert!(matches!(
            CheckoutState::of(&closed, fixtures::NOW),
            CheckoutState::Open(..)
        ));
        closing.busy_until = Some(Time::from_secs(fixtures::NOW.as_secs() + 1));
        for state in [AttemptState::Open, AttemptState::Unknown] {
            closing.state = state;
            let pending = view(Status::Pending, vec![closing.clone()]);
            assert!(matches!(
                CheckoutState::of(&pending, fixtures::NOW),
                CheckoutState::Closing(_)
            ));
        }
    }

    #[test]
    fn a_start_without_an_outcome_is_never_continued() {
        let mut unknown = attempt(fixtures::redirect());
        unknown.state = AttemptState::Unknown;
        let mut starting = attempt(fixtures::redirect());
        starting.action = None;
        for attempt in [unknown, starting] {
            let pending = view(Status::Pending, vec![attempt]);
            assert!(matches!(
                CheckoutState::of(&pending, fixtures::NOW),
                CheckoutState::Checking(_)
            ));
        }
    }

    #[test]
    fn a_payment_whose_time_has_passed_offers_nothing() {
        let mut late = view(Status::Created, vec![]);
        late.aggregate.payment.expires_at = fixtures::NOW;
        assert_eq!(
            CheckoutState::of(&late, fixtures::NOW),
            CheckoutState::Expired
        );
    }

    #[test]
    fn nothing_can_be_chosen_without_approval_or_offers() {
        let mut forbidden = view(Status::Created, vec![]);
        forbidden.can_choose = false;
        assert_eq!(
            CheckoutState::of(&forbidden, fixtures::NOW),
            CheckoutState::Unavailable
        );
        let mut empty = view(Status::Created, vec![]);
        empty.offers.clear();
        assert_eq!(
            CheckoutState::of(&empty, fixtures::NOW),
            CheckoutState::Unavailable
        );
    }
}
