//! Numbers and tables of the decisions.

use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::event::EventType;
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::payment::{ReviewCause, Status};
use kassette_domain::provider::VendorStatus;

/// Attempts of any kind that one payment can have.
pub(crate) const MOST_ATTEMPTS: usize = 20;
/// Declines that make a payment failed.
pub(crate) const MOST_DECLINES: usize = 5;
/// References that are kept of one attempt.
pub(crate) const MOST_REFERENCES: usize = 8;
/// The first questions about an attempt, minutes after its start.
pub(crate) const FIRST_MINUTES: [u64; 5] = [1, 3, 7, 15, 30];
/// One more, so long before its life ends.
pub(crate) const BEFORE_END: Duration = Duration::from_secs(120);
/// Days of daily questions after that: fewer than a vendor has, so that runs reach their end.
pub(crate) const DAYS: u8 = 4;
/// Turns in which a refund is sent or asked about, after the one that makes it.
pub(crate) const REFUND_TURNS: usize = FIRST_MINUTES.len() + DAYS as usize;
/// A day.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
/// Questions in a row without an answer that lead to a review, or end a decision that waits.
pub(crate) const SILENCES: usize = 5;
/// How long those that lead to a review have to last.
pub(crate) const SILENT_FOR: Duration = DAY;
/// The shortest pause before a start without an outcome is repeated.
pub(crate) const FIRST_REPEAT: Duration = Duration::from_secs(5);
/// How long after its payer's tap such a start may have been sent last to be repeated once more.
pub(crate) const REPEATED_FOR: Duration = Duration::from_secs(20);
/// A vendor's "unknown" is believed this long after the last start may have ended.
pub(crate) const BELIEVED_AFTER: Duration = Duration::from_secs(120);

/// Whether money can still move on an attempt as the payment's own.
pub(crate) const fn is_open(state: AttemptState) -> bool {
    !matches!(
        state,
        AttemptState::Captured
            | AttemptState::Surplus
            | AttemptState::Declined
            | AttemptState::Unavailable
            | AttemptState::Closed
            | AttemptState::Expired
            | AttemptState::Failed
    )
}

pub(crate) const fn is_over(status: Status) -> bool {
    matches!(
        status,
        Status::Completed | Status::Failed | Status::Cancelled | Status::Expired
    )
}

/// A payment that the payer or the provider is busy with.
pub(crate) const fn is_under_way(status: Status) -> bool {
    matches!(
        status,
        Status::Pending | Status::Processing | Status::VerificationPending
    )
}

/// Only such a review ends by the provider's final word.
pub(crate) const fn is_providers(cause: ReviewCause) -> bool {
    matches!(cause, ReviewCause::Vendor | ReviewCause::Silence)
}

/// Says that no money can move any more.
pub(crate) const fn denies(said: VendorStatus) -> bool {
    matches!(
        said,
        VendorStatus::Declined
            | VendorStatus::Failed
            | VendorStatus::Cancelled
            | VendorStatus::Expired
    )
}

/// Leaves open what becomes of the money.
pub(crate) const fn leaves_open(said: VendorStatus) -> bool {
    !denies(said) && !matches!(said, VendorStatus::Completed)
}

/// The schedule of questions that the store is given.
pub(crate) fn schedule() -> QuerySchedule {
    QuerySchedule {
        first: FIRST_MINUTES
            .map(|minutes| Duration::from_secs(60 * minutes))
            .to_vec(),
        before_end: BEFORE_END,
        days: DAYS,
        silence: SILENT_FOR,
    }
}

/// The decisions' table of legal transitions.
pub(crate) fn follows(from: Status, to: Status) -> bool {
    let after: &[Status] = match from {
        Status::Created => &[
            Status::Pending,
            Status::Review,
            Status::Expired,
            Status::Cancelled,
        ],
        Status::Pending => &[
            Status::Created,
            Status::Processing,
            Status::Review,
            Status::VerificationPending,
            Status::Completed,
            Status::Failed,
            Status::Cancelled,
            Status::Expired,
        ],
        Status::Processing => &[
            Status::VerificationPending,
            Status::Review,
            Status::Completed,
            Status::Failed,
        ],
        Status::VerificationPending => &[
            Status::Processing,
            Status::Review,
            Status::Completed,
            Status::Failed,
        ],
        Status::Review => &[Status::Completed, Status::Failed],
        Status::Expired | Status::Failed | Status::Cancelled => &[Status::Review],
        Status::Completed => &[],
    };
    after.contains(&to)
}

/// The event of a transition, where it has one.
pub(crate) fn event_of(to: Status) -> Option<EventType> {
    let name = match to {
        // Leading back tells nothing; completion is told with its settlement.
        Status::Created | Status::Completed => return None,
        other => format!("payment.{}", other.as_str()),
    };
    EventType::parse(&name)
}
