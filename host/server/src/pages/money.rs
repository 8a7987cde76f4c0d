//! Statements of pages about money, as pure functions of the recorded data.

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::payment::Status;
use kassette_domain::provider::{DisputeState, ProviderStatus};

/// Recorded money of an attempt; of several attempts, the greatest value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OnRecord {
    /// No money was captured.
    Nothing,
    /// All captured money was returned.
    Returned,
    /// Money may have arrived without confirmation, or may still move.
    Unclear,
    /// A part of the captured money was returned.
    PartReturned,
    /// Money was captured and not returned.
    Taken,
}

impl OnRecord {
    /// The greatest value of all attempts.
    pub(crate) fn of_all(aggregate: &PaymentAggregate) -> Self {
        let attempts = aggregate.attempts.iter();
        attempts
            .map(Self::of_attempt)
            .max()
            .unwrap_or(Self::Nothing)
    }

    pub(crate) fn of_attempt(attempt: &Attempt) -> Self {
        let facts = attempt.vendor.as_ref();
        let sums = attempt.funds.balance.total();
        let reported = facts.map_or(Minor(0), |facts| facts.received);
        let (received, returned) = (reported.max(sums.received), sums.returned);
        let is_taken = match attempt.state() {
            // Returned money must have been captured.
            _ if returned > Minor(0) => true,
            AttemptState::Captured | AttemptState::Surplus => true,
            _ if attempt.funds.is_taken() => true,
            _ => facts.is_some_and(|facts| match facts.status {
                ProviderStatus::Pending
                | ProviderStatus::Processing
                | ProviderStatus::VerificationPending => false,
                ProviderStatus::Completed
                | ProviderStatus::Overpaid
                | ProviderStatus::Review
                | ProviderStatus::Declined
                | ProviderStatus::Failed
                | ProviderStatus::Cancelled
                | ProviderStatus::Expired => facts.received > Minor(0),
            }),
        };
        let waits = facts.is_some_and(|facts| facts.status == ProviderStatus::VerificationPending);
        match (is_taken, returned > Minor(0)) {
            (true, false) => Self::Taken,
            // A provider may report returned money without ever reporting its receipt.
            (true, true) if returned >= received => Self::Returned,
            (true, true) => Self::PartReturned,
            (false, _) if attempt.is_open() || (waits && received > Minor(0)) => Self::Unclear,
            (false, _) => Self::Nothing,
        }
    }
}

/// The sentence about money on a payment's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// The payment has not ended: no sentence.
    None,
    /// Under review; a part of the captured money was returned.
    ReviewPartGivenBack,
    /// Under review; the captured money was returned.
    ReviewGivenBack,
    /// Ended; no money was captured.
    NotTaken,
    /// Ended; the captured money was returned.
    GivenBack,
    /// Ended; whether money was captured is unknown.
    Unclear,
    /// Ended; a part of the captured money was returned.
    PartGivenBack,
    /// Ended, but money was captured.
    Received,
    /// Completed; this amount was paid.
    Paid(Money),
    /// Completed; the first amount was paid, the second was returned.
    PaidAndPartReturned(Money, Money),
    /// Completed; all of the amount was returned.
    PaidAndReturned(Money),
    /// Completed only by an operator's decision.
    Accepted,
}

impl Sentence {
    /// Sentence for a payment that has ended or expired without completion.
    pub(crate) fn of_unpaid(aggregate: &PaymentAggregate) -> Self {
        match OnRecord::of_all(aggregate) {
            // The provider has not confirmed that no money was captured.
            OnRecord::Nothing if aggregate.payment.uncertain_end => Self::Unclear,
            OnRecord::Nothing => Self::NotTaken,
            OnRecord::Returned => Self::GivenBack,
            OnRecord::Unclear => Self::Unclear,
            OnRecord::PartReturned => Self::PartGivenBack,
            OnRecord::Taken => Self::Received,
        }
    }

    /// Sentence for a payment under review.
    pub(crate) fn of_review(aggregate: &PaymentAggregate) -> Self {
        match moved(aggregate.attempts.iter()) {
            OnRecord::PartReturned => Self::ReviewPartGivenBack,
            OnRecord::Returned => Self::ReviewGivenBack,
            OnRecord::Nothing | OnRecord::Unclear | OnRecord::Taken => Self::None,
        }
    }

    pub(crate) fn about(aggregate: &PaymentAggregate) -> Self {
        match aggregate.payment.status {
            Status::Created
            | Status::Pending
            | Status::Processing
            | Status::VerificationPending => Self::None,
            Status::Review => Self::of_review(aggregate),
            Status::Failed | Status::Cancelled | Status::Expired => Self::of_unpaid(aggregate),
            Status::Completed => {
                let vouched = |own: &&Attempt| aggregate.payment.vouched && is_unproved(own);
                let Some(own) = own(aggregate).filter(|own| !vouched(own)) else {
                    return Self::Accepted;
                };
                let paid = paid(own);
                match OnRecord::of_attempt(own) {
                    OnRecord::Nothing | OnRecord::Unclear => Self::Accepted,
                    OnRecord::Taken => Self::Paid(paid),
                    OnRecord::PartReturned => {
                        let amount = own.funds.balance.total().returned;
                        Self::PaidAndPartReturned(paid, Money { amount, ..paid })
                    }
                    OnRecord::Returned => Self::PaidAndReturned(paid),
                }
            }
        }
    }
}

/// Recorded money of a completed payment's other attempts.
pub(crate) fn second(aggregate: &PaymentAggregate) -> OnRecord {
    let own = own(aggregate).map(|own| own.id);
    let attempts = aggregate.attempts.iter();
    moved(attempts.filter(|attempt| Some(attempt.id) != own))
}

/// The greatest certain value of some attempts.
fn moved<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> OnRecord {
    let certain = attempts
        .map(OnRecord::of_attempt)
        .filter(|record| *record != OnRecord::Unclear);
    certain.max().unwrap_or(OnRecord::Nothing)
}

/// Whether a dispute about a completed payment's money is open.
pub(crate) fn is_disputed(aggregate: &PaymentAggregate) -> bool {
    let is_open = |own: &Attempt| {
        let mut disputes = own.funds.disputes.iter();
        disputes.any(|disputed| disputed.dispute.state == DisputeState::Open)
    };
    aggregate.payment.status == Status::Completed && own(aggregate).is_some_and(is_open)
}

/// Whether money for the payment has arrived, confirmed or not.
pub(crate) fn has_arrived(aggregate: &PaymentAggregate) -> bool {
    let open = aggregate.open_attempt();
    let facts = open.and_then(|open| open.vendor.as_ref());
    own(aggregate).is_some() || facts.is_some_and(|facts| facts.received > Minor(0))
}

/// The attempt whose money completed the payment.
pub(crate) fn own(aggregate: &PaymentAggregate) -> Option<&Attempt> {
    let mut attempts = aggregate.attempts.iter();
    attempts.find(|attempt| attempt.is_captured())
}

/// Whether the provider has reported neither received nor returned money of an attempt.
fn is_unproved(attempt: &Attempt) -> bool {
    attempt.net().is_none() && attempt.funds.balance.total().returned == Minor(0)
}

/// Amount received. An operator may have accepted it instead of the amount due.
fn paid(own: &Attempt) -> Money {
    let facts = own
        .vendor
        .as_ref()
        .filter(|facts| facts.received > Minor(0));
    let received = facts.and_then(|facts| {
        let currency = Currency::parse(&facts.currency)?;
        let amount = facts.received;
        Some(Money { amount, currency })
    });
    received.unwrap_or(own.due)
}

#[cfg(test)]
mod tests {
    use kassette_domain::funds::ReportedFunds;
    use kassette_domain::provider::{Dispute, DisputeKind, ProviderRefund, RefundState};

    use super::*;
    use crate::pages::fixtures::{self, attempt, view};

    const DUE: Minor = Minor(4990);

    fn euros(amount: u64) -> Money {
        Money {
            amount: Minor(amount),
            currency: Currency::EUR,
        }
    }

    /// An attempt with this report of the provider.
    fn said(state: AttemptState, status: ProviderStatus, received: Minor) -> Attempt {
        let mut attempt = attempt(fixtures::redirect());
        fixtures::put(&mut attempt, state);
        attempt.vendor = Some(fixtures::facts(status, received));
        attempt
    }

    fn returned(attempt: Attempt, amount: Minor, state: RefundState) -> Attempt {
        let refund = ProviderRefund {
            id: "re_1".into(),
            order: None,
            amount,
            state,
            paid_out: None,
            at: None,
        };
        let told = ReportedFunds {
            refunds: &[refund],
            ..fixtures::captured(None)
        };
        fixtures::merged(attempt, told)
    }

    fn disputed(attempt: Attempt, state: DisputeState) -> Attempt {
        let is_lost = state == DisputeState::Lost;
        let dispute = Dispute {
            id: "dp_1".into(),
            amount: DUE,
            state,
            reason: None,
            respond_by: None,
            kind: DisputeKind::Dispute,
            withdrawn: if is_lost { DUE } else { Minor(0) },
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
        };
        let told = ReportedFunds {
            disputes: &[dispute],
            ..fixtures::captured(None)
        };
        fixtures::merged(attempt, told)
    }

    /// Every kind of record of one attempt, with its meaning.
    fn records() -> Vec<(&'static str, Attempt, OnRecord)> {
        use AttemptState as A;
        use OnRecord as R;
        use ProviderStatus as V;
        let none = Minor(0);
        let captured = || said(A::Captured, V::Completed, DUE);
        let surplus = || said(A::Surplus, V::Completed, DUE);
        let full = RefundState::Succeeded;
        vec![
            ("declined", said(A::Declined, V::Declined, none), R::Nothing),
            (
                "closed while authorised",
                said(A::Closed, V::Processing, DUE),
                R::Nothing,
            ),
            (
                "expired unpaid",
                said(A::Expired, V::Pending, none),
                R::Nothing,
            ),
            (
                "failed after coins came",
                said(A::Failed, V::VerificationPending, DUE),
                R::Unclear,
            ),
            ("still open", said(A::Open, V::Pending, none), R::Unclear),
            (
                "of unknown outcome",
                said(A::Unknown, V::Pending, none),
                R::Unclear,
            ),
            ("captured", captured(), R::Taken),
            (
                "captured, no amount told",
                said(A::Captured, V::Completed, none),
                R::Taken,
            ),
            ("surplus", surplus(), R::Taken),
            (
                "taken and then called failed",
                said(A::Failed, V::Failed, DUE),
                R::Taken,
            ),
            (
                "refund under way",
                returned(captured(), DUE, RefundState::Pending),
                R::Taken,
            ),
            (
                "refund failed",
                returned(captured(), DUE, RefundState::Failed),
                R::Taken,
            ),
            (
                "refunded in part",
                returned(captured(), Minor(100), full),
                R::PartReturned,
            ),
            ("refunded", returned(captured(), DUE, full), R::Returned),
            (
                "surplus refunded in part",
                returned(surplus(), Minor(100), full),
                R::PartReturned,
            ),
            (
                "surplus refunded",
                returned(surplus(), DUE, full),
                R::Returned,
            ),
            (
                "disputed",
                disputed(captured(), DisputeState::Open),
                R::Taken,
            ),
            (
                "dispute won",
                disputed(captured(), DisputeState::Won),
                R::Taken,
            ),
            (
                "dispute lost",
                disputed(captured(), DisputeState::Lost),
                R::Returned,
            ),
        ]
    }

    #[test]
    fn what_is_on_record_decides_what_every_status_says_about_money() {
        for status in Status::ALL {
            for (what, attempt, expected) in records() {
                let returned = attempt.funds.balance.total().returned.0;
                assert_eq!(OnRecord::of_attempt(&attempt), expected, "{what}");
                let is_own = attempt.is_captured();
                let sentence = Sentence::about(&view(status, vec![attempt]).aggregate);
                let wanted = match (status, expected) {
                    (
                        Status::Created
                        | Status::Pending
                        | Status::Processing
                        | Status::VerificationPending,
                        _,
                    ) => Sentence::None,
                    (Status::Review, OnRecord::PartReturned) => Sentence::ReviewPartGivenBack,
                    (Status::Review, OnRecord::Returned) => Sentence::ReviewGivenBack,
                    (Status::Review, _) => Sentence::None,
                    (Status::Completed, _) if !is_own => Sentence::Accepted,
                    (Status::Completed, OnRecord::Taken) => Sentence::Paid(euros(4990)),
                    (Status::Completed, OnRecord::PartReturned) => {
                        Sentence::PaidAndPartReturned(euros(4990), euros(returned))
                    }
                    (Status::Completed, OnRecord::Returned) => {
                        Sentence::PaidAndReturned(euros(4990))
                    }
                    (Status::Completed, other) => panic!("{what}: {other:?} is no own money"),
                    (_, OnRecord::Nothing) => Sentence::NotTaken,
                    (_, OnRecord::Returned) => Sentence::GivenBack,
                    (_, OnRecord::Unclear) => Sentence::Unclear,
                    (_, OnRecord::PartReturned) => Sentence::PartGivenBack,
                    (_, OnRecord::Taken) => Sentence::Received,
                };
                assert_eq!(sentence, wanted, "{status:?}, {what}");
            }
        }
        for status in [Status::Failed, Status::Cancelled, Status::Expired] {
            let untried = Sentence::about(&view(status, vec![]).aggregate);
            assert_eq!(untried, Sentence::NotTaken);
        }
    }

    #[test]
    fn money_beside_a_completed_payments_own_is_told_as_it_is_on_record() {
        let captured = || {
            let mut own = said(AttemptState::Captured, ProviderStatus::Completed, DUE);
            own.id = kassette_domain::id::AttemptId::from_bytes([1; 16]);
            own
        };
        let paid = view(Status::Completed, vec![captured()]).aggregate;
        assert_eq!(second(&paid), OnRecord::Nothing, "its own is not another");
        for (what, other, record) in records() {
            if other.is_captured() {
                continue;
            }
            let told = match record {
                // Money that may still arrive is not counted as received.
                OnRecord::Unclear => OnRecord::Nothing,
                certain => certain,
            };
            for attempts in [
                vec![captured(), other.clone()],
                vec![other.clone(), captured()],
            ] {
                let both = view(Status::Completed, attempts).aggregate;
                assert_eq!(second(&both), told, "{what}");
                assert_eq!(
                    Sentence::about(&both),
                    Sentence::Paid(euros(4990)),
                    "{what}"
                );
            }
        }
    }

    #[test]
    fn money_of_one_attempt_is_told_whatever_the_others_are() {
        let declined = || said(AttemptState::Declined, ProviderStatus::Declined, Minor(0));
        let surplus = said(AttemptState::Surplus, ProviderStatus::Completed, DUE);
        for attempts in [vec![declined(), surplus.clone()], vec![surplus, declined()]] {
            let sentence = Sentence::about(&view(Status::Failed, attempts).aggregate);
            assert_eq!(sentence, Sentence::Received);
        }
    }

    #[test]
    fn a_payment_that_was_completed_by_an_operator_s_word_alone_is_called_accepted() {
        let authorised = said(AttemptState::Captured, ProviderStatus::Processing, DUE);
        let captured = said(AttemptState::Captured, ProviderStatus::Completed, DUE);
        let mut silent = captured.clone();
        silent.vendor = None;
        let captured = fixtures::merged(captured, fixtures::captured(None));
        for (own, sentence) in [
            (silent, Sentence::Accepted),
            (authorised, Sentence::Accepted),
            (captured, Sentence::Paid(euros(4990))),
        ] {
            let mut completed = view(Status::Completed, vec![own]).aggregate;
            completed.payment.vouched = true;
            assert_eq!(Sentence::about(&completed), sentence);
        }
    }

    #[test]
    fn what_was_paid_is_what_was_received() {
        let mut other = said(
            AttemptState::Captured,
            ProviderStatus::Completed,
            Minor(5389),
        );
        other.vendor.as_mut().unwrap().currency = "USD".into();
        let sentence = Sentence::about(&view(Status::Completed, vec![other]).aggregate);
        let usd = Money {
            amount: Minor(5389),
            currency: Currency::USD,
        };
        assert_eq!(sentence, Sentence::Paid(usd));
    }

    #[test]
    fn money_has_arrived_once_the_vendor_has_told_of_some() {
        let waits = ProviderStatus::VerificationPending;
        for (state, received, arrived) in [
            (AttemptState::VerificationPending, Minor(0), false),
            (AttemptState::VerificationPending, Minor(1), true),
            (AttemptState::Captured, Minor(0), true),
            (AttemptState::Failed, DUE, false),
        ] {
            let attempts = vec![said(state, waits, received)];
            let aggregate = view(Status::VerificationPending, attempts).aggregate;
            assert_eq!(has_arrived(&aggregate), arrived, "{state:?}, {received:?}");
        }
    }

    #[test]
    fn a_dispute_is_told_until_it_is_decided() {
        let captured = || said(AttemptState::Captured, ProviderStatus::Completed, DUE);
        for (state, told) in [
            (DisputeState::Open, true),
            (DisputeState::Won, false),
            (DisputeState::Lost, false),
        ] {
            let own = vec![disputed(captured(), state)];
            let aggregate = view(Status::Completed, own).aggregate;
            assert_eq!(is_disputed(&aggregate), told, "{state:?}");
        }
    }
}
