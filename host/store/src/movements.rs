//! The ledger: movements of money by booking time, and its closing time.

use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, MerchantId, MovementId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::movement::{Movement, MovementKind};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::{Listed, Paging, StoreFuture};

/// How far `closed_until` stays behind the clock: longer than any write takes.
pub const CLOSES_AFTER: Duration = Duration::from_secs(5 * 60);
/// A clock that is further ahead than this has jumped.
pub const MAX_CLOCK_STEP: Duration = Duration::from_secs(24 * 3600);

/// Filter for movements. All given conditions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovementFilter {
    pub environment: Option<Environment>,
    pub merchant: Option<MerchantId>,
    pub account: Option<AccountId>,
    pub payment: Option<PaymentId>,
    pub kind: Option<MovementKind>,
    /// Booked at this time or later.
    pub since: Option<Time>,
    /// Booked before this time.
    pub until: Option<Time>,
}

impl MovementFilter {
    /// Whether a movement matches.
    pub fn matches(&self, movement: &Movement) -> bool {
        self.environment
            .is_none_or(|environment| movement.environment == environment)
            && self
                .merchant
                .is_none_or(|merchant| movement.merchant == Some(merchant))
            && self
                .account
                .as_ref()
                .is_none_or(|account| movement.account == *account)
            && self
                .payment
                .is_none_or(|payment| movement.payment == Some(payment))
            && self.kind.is_none_or(|kind| movement.kind == kind)
            && self.since.is_none_or(|since| movement.booked_at >= since)
            && self.until.is_none_or(|until| movement.booked_at < until)
    }
}

/// A jump of the clock that no operator has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJump {
    /// The last time of the clock before the jump.
    pub from: Time,
    /// The first time of the clock after the jump.
    pub to: Time,
}

/// Closing time of the ledger, and the time since which it is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerState {
    /// No further movement is booked before this time.
    pub closed_until: Time,
    /// Time of the restore since which nothing is missing; `None` if the store was never restored.
    pub continuous_since: Option<Time>,
    /// `None` if no jump of the clock waits for an operator.
    pub jump: Option<ClockJump>,
}

impl LedgerState {
    /// Converts a time of the clock to the time without the unconfirmed jump.
    pub(crate) fn corrected(&self, at: Time) -> Time {
        match self.jump {
            Some(jump) if at >= jump.to => jump.from.after(at.since(jump.to)),
            _ => at,
        }
    }

    /// Booking time of a movement that happens at `at`.
    pub(crate) fn booking_time(&self, at: Time) -> Time {
        self.corrected(at).max(self.closed_until)
    }

    /// The state when the clock shows `now`. A jump forward waits for an operator unless it is allowed.
    pub(crate) fn advanced(mut self, now: Time, jump_allowed: bool) -> Self {
        if self.jump.is_some_and(|jump| jump_allowed || now < jump.to) {
            self.jump = None;
        }
        let shown = self.closed_until.after(CLOSES_AFTER);
        let is_new = self.closed_until == Time::default();
        if self.jump.is_none() && !jump_allowed && !is_new && now > shown.after(MAX_CLOCK_STEP) {
            self.jump = Some(ClockJump {
                from: shown,
                to: now,
            });
        }
        let closes = self.corrected(now).before(CLOSES_AFTER);
        self.closed_until = self.closed_until.max(closes);
        self
    }
}

/// Result of booking a movement that is not part of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Booking {
    /// The new movement.
    New(Movement),
    /// An existing movement with the same id.
    Known(Movement),
}

/// The ledger. [`crate::Payments::step`] and similar operations write movements of payments in the
/// transaction of the step. A second movement with the same id is not written.
pub trait Movements: Send + Sync {
    /// Lists movements by booking time, oldest first. One call reads a limited number of movements, so that a
    /// page of a filter with few matches may end early with a cursor.
    fn movements(
        &self,
        filter: MovementFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Movement>>;

    /// All movements of a payment, oldest first.
    fn movements_of(&self, payment: PaymentId) -> StoreFuture<'_, Vec<Movement>>;

    /// Returns a movement by its id. `payment` is its payment, or `None` for money of an unknown payment.
    fn movement(
        &self,
        payment: Option<PaymentId>,
        id: MovementId,
    ) -> StoreFuture<'_, Option<Movement>>;

    /// Writes a movement without a payment: unknown money, a payout, a correction of an account. Its booking
    /// time is that of the ledger at `now`. An `audited` line is written only if the movement is new.
    fn book(
        &self,
        movement: Movement,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Booking>;

    /// Returns the state of the ledger.
    fn ledger(&self) -> StoreFuture<'_, LedgerState>;

    /// Moves `closed_until` to [`CLOSES_AFTER`] before `now`, never back. If `now` is more than
    /// [`MAX_CLOCK_STEP`] ahead and `jump_allowed` is false, the jump waits for [`Movements::confirm_clock`];
    /// until then movements are booked as if the clock had not jumped. Jumps are allowed at the start of a
    /// process, and in `dev`.
    fn advance_closed_until(&self, now: Time, jump_allowed: bool) -> StoreFuture<'_, LedgerState>;

    /// Accepts the unconfirmed jump of the clock. `None` if there is none.
    fn confirm_clock(&self, audited: Audited, now: Time) -> StoreFuture<'_, Option<LedgerState>>;
}

/// Sorts movements in the order of lists.
pub(crate) fn in_order(mut movements: Vec<Movement>) -> Vec<Movement> {
    movements.sort_by_key(|movement| (movement.booked_at, movement.id));
    movements
}
