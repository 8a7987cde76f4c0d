//! What a page may say about money: one pure reading of what is on record.

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::payment::Status;
use kassette_domain::provider::{DisputeState, VendorStatus};

/// What is on record about an attempt's money; where several attempts differ, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OnRecord {
    /// None was taken.
    Nothing,
    /// All that was taken was given back.
    Returned,
    /// Some arrived that was never proved, or may still move.
    Unclear,
    /// A part of what was taken was given back.
    PartReturned,
    /// It was taken.
    Taken,
}

impl OnRecord {
    /// Of all attempts of a payment.
    pub(crate) fn of_all(aggregate: &PaymentAggregate) -> Self {
        let attempts = aggregate.attempts.iter();
        attempts.map(Self::of).max().unwrap_or(Self::Nothing)
    }

    pub(crate) fn of(attempt: &Attempt) -> Self {
        let facts = attempt.vendor.as_ref();
        let received = facts.map_or(Minor(0), |facts| facts.received);
        let returned = facts.map_or(Minor(0), |facts| facts.returned);
        let returned = returned.max(attempt.returns.total());
        let is_taken = match attempt.state {
            // What went back had come.
            _ if returned > Minor(0) => true,
            AttemptState::Captured | AttemptState::Surplus => true,
            _ => facts.is_some_and(|facts| match facts.status {
                VendorStatus::Pending
                | VendorStatus::Processing
                | VendorStatus::VerificationPending => false,
                VendorStatus::Completed
                | VendorStatus::Overpaid
                | VendorStatus::Review
                | VendorStatus::Declined
                | VendorStatus::Failed
                | VendorStatus::Cancelled
                | VendorStatus::Expired => facts.received > Minor(0),
            }),
        };
        let waits = facts.is_some_and(|facts| facts.status == VendorStatus::VerificationPending);
        match (is_taken, returned > Minor(0)) {
            (true, false) => Self::Taken,
            // A vendor may tell of what went back and never of what came.
            (true, true) if returned >= received => Self::Returned,
            (true, true) => Self::PartReturned,
            (false, _) if attempt.state.is_open() || (waits && received > Minor(0)) => {
                Self::Unclear
            }
            (false, _) => Self::Nothing,
        }
    }
}

/// The sentence about money on the page of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// It is not over: nothing is said.
    None,
    /// Under review, and a part of what was taken was given back.
    ReviewPartGivenBack,
    /// Under review, and what was taken was given back.
    ReviewGivenBack,
    /// Over, and none was taken.
    NotTaken,
    /// Over, and what was taken was given back.
    GivenBack,
    /// Over, and whether any was taken is not known.
    Unclear,
    /// Over, and a part of what was taken was given back.
    PartGivenBack,
    /// Over, and money was taken all the same.
    Received,
    /// Complete, and so much was paid.
    Paid(Money),
    /// Complete; a part was given back.
    PaidAndPartReturned(Money),
    /// Complete; all was given back.
    PaidAndReturned(Money),
    /// Complete by an operator's word alone.
    Accepted,
}

impl Sentence {
    /// About a payment that is over or whose time is, and which was not completed.
    pub(crate) fn of_unpaid(aggregate: &PaymentAggregate) -> Self {
        match OnRecord::of_all(aggregate) {
            OnRecord::Nothing => Self::NotTaken,
            OnRecord::Returned => Self::GivenBack,
            OnRecord::Unclear => Self::Unclear,
            OnRecord::PartReturned => Self::PartGivenBack,
            OnRecord::Taken => Self::Received,
        }
    }

    /// About a payment that is under review.
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
                match OnRecord::of(own) {
                    OnRecord::Nothing | OnRecord::Unclear => Self::Accepted,
                    OnRecord::Taken => Self::Paid(paid),
                    OnRecord::PartReturned => Self::PaidAndPartReturned(paid),
                    OnRecord::Returned => Self::PaidAndReturned(paid),
                }
            }
        }
    }
}

/// What is on record of a completed payment's other attempts: money that came beside its own.
pub(crate) fn second(aggregate: &PaymentAggregate) -> OnRecord {
    let own = own(aggregate).map(|own| own.id);
    let attempts = aggregate.attempts.iter();
    moved(attempts.filter(|attempt| Some(attempt.id) != own))
}

/// The greatest of what is certain about attempts.
fn moved<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> OnRecord {
    let certain = attempts
        .map(OnRecord::of)
        .filter(|record| *record != OnRecord::Unclear);
    certain.max().unwrap_or(OnRecord::Nothing)
}

/// Whether the payer disputes money of a completed payment, and that is not decided.
pub(crate) fn is_disputed(aggregate: &PaymentAggregate) -> bool {
    let is_open = |own: &Attempt| {
        let mut disputes = own.returns.disputes.iter();
        disputes.any(|disputed| disputed.dispute.state == DisputeState::Open)
    };
    aggregate.payment.status == Status::Completed && own(aggregate).is_some_and(is_open)
}

/// Whether some of what a payment waits for has arrived, proved or not.
pub(crate) fn has_arrived(aggregate: &PaymentAggregate) -> bool {
    let open = aggregate.open_attempt();
    let facts = open.and_then(|open| open.vendor.as_ref());
    own(aggregate).is_some() || facts.is_some_and(|facts| facts.received > Minor(0))
}

/// The attempt that holds a completed payment's money.
fn own(aggregate: &PaymentAggregate) -> Option<&Attempt> {
    let mut attempts = aggregate.attempts.iter();
    attempts.find(|attempt| attempt.state == AttemptState::Captured)
}

/// Whether the vendor has told of no money of an attempt, come or gone.
fn is_unproved(attempt: &Attempt) -> bool {
    attempt.net().is_none() && attempt.returns.total() == Minor(0)
}

/// What was received, which an operator may have accepted in place of what was due.
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
    use kassette_domain::provider::{Dispute, RefundState, VendorRefund};
    use kassette_domain::returns::ReportedReturns;

    use super::*;
    use crate::pages::fixtures::{self, NOW, attempt, view};

    const DUE: Minor = Minor(4990);

    fn euros(amount: u64) -> Money {
        Money {
            amount: Minor(amount),
            currency: Currency::EUR,
        }
    }

    /// An attempt of which the vendor said this.
    fn said(state: AttemptState, status: VendorStatus, received: Minor) -> Attempt {
        let mut attempt = attempt(fixtures::redirect());
        attempt.state = state;
        attempt.vendor = Some(fixtures::facts(status, received));
        attempt
    }

    fn returned(mut attempt: Attempt, amount: Minor, state: RefundState) -> Attempt {
        let refund = VendorRefund {
            id: "re_1".into(),
            order: None,
            amount,
            state,
        };
        let told = ReportedReturns {
            sum: None,
            fresh: true,
            refunds: &[refund],
            disputes: &[],
        };
        attempt.returns.merge(told, attempt.id, NOW);
        attempt
    }

    fn disputed(mut attempt: Attempt, state: DisputeState) -> Attempt {
        let dispute = Dispute {
            id: "dp_1".into(),
            amount: DUE,
            state,
            reason: None,
            respond_by: None,
        };
        let told = ReportedReturns {
            sum: None,
            fresh: true,
            refunds: &[],
            disputes: &[dispute],
        };
        attempt.returns.merge(told, attempt.id, NOW);
        attempt
    }

    /// Everything that can be on record about one attempt, with what it means.
    fn records() -> Vec<(&'static str, Attempt, OnRecord)> {
        use AttemptState as A;
        use OnRecord as R;
        use VendorStatus as V;
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
                assert_eq!(OnRecord::of(&attempt), expected, "{what}");
                let is_own = attempt.state == AttemptState::Captured;
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
                        Sentence::PaidAndPartReturned(euros(4990))
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
            let mut own = said(AttemptState::Captured, VendorStatus::Completed, DUE);
            own.id = kassette_domain::id::AttemptId::from_bytes([1; 16]);
            own
        };
        let paid = view(Status::Completed, vec![captured()]).aggregate;
        assert_eq!(second(&paid), OnRecord::Nothing, "its own is not another");
        for (what, other, record) in records() {
            if other.state == AttemptState::Captured {
                continue;
            }
            let told = match record {
                // What may still come is not told as if it had.
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
        let declined = || said(AttemptState::Declined, VendorStatus::Declined, Minor(0));
        let surplus = said(AttemptState::Surplus, VendorStatus::Completed, DUE);
        for attempts in [vec![declined(), surplus.clone()], vec![surplus, declined()]] {
            let sentence = Sentence::about(&view(Status::Failed, attempts).aggregate);
            assert_eq!(sentence, Sentence::Received);
        }
    }

    #[test]
    fn a_payment_that_was_completed_by_an_operator_s_word_alone_is_called_accepted() {
        let authorised = said(AttemptState::Captured, VendorStatus::Processing, DUE);
        let captured = said(AttemptState::Captured, VendorStatus::Completed, DUE);
        let mut silent = captured.clone();
        silent.vendor = None;
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
        let mut other = said(AttemptState::Captured, VendorStatus::Completed, Minor(5389));
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
        let waits = VendorStatus::VerificationPending;
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
        let captured = || said(AttemptState::Captured, VendorStatus::Completed, DUE);
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
