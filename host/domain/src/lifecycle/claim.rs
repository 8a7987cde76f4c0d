//! Taking an attempt in hand before the vendor is spoken to.

use super::{ClaimPurpose, PaymentAggregate, Refusal, StepOutcome};
use crate::attempt::{Attempt, AttemptState};
use crate::id::AttemptId;
use crate::payment::{Resolution, Status};
use crate::provider::VendorStatus;
use crate::time::Time;

impl PaymentAggregate {
    pub(super) fn claim(
        &mut self,
        id: AttemptId,
        purpose: ClaimPurpose,
        until: Time,
        now: Time,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        let attempt = &self.attempts[i];
        if let Some(busy) = attempt.busy_until.filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        self.may_claim(i, purpose, now)?;
        let attempt = &mut self.attempts[i];
        match purpose {
            ClaimPurpose::Start => {
                // The task that started it before is lost, and its outcome with it.
                attempt.uncertain = true;
                attempt.last_sent = until;
                // It is wanted again: the closing that was tried before is over.
                attempt.closing = false;
                attempt.hold_until = None;
            }
            ClaimPurpose::Capture => {
                attempt.state = AttemptState::Capturing;
                attempt.ended_at = None;
                attempt.closing = false;
            }
            ClaimPurpose::Cancel => attempt.closing = true,
        }
        attempt.busy_until = Some(until);
        Ok(StepOutcome::Done)
    }

    /// Whether an attempt that is not in hand may be taken for a purpose.
    fn may_claim(&self, i: usize, purpose: ClaimPurpose, now: Time) -> Result<(), Refusal> {
        let attempt = &self.attempts[i];
        let status = self.payment.status;
        let fits = match purpose {
            ClaimPurpose::Start => {
                if status != Status::Pending {
                    return Err(Refusal::NotPayable(status));
                }
                now < attempt.expires_at
                    && match attempt.state {
                        AttemptState::Open => attempt.action.is_none(),
                        AttemptState::Unknown => true,
                        _ => false,
                    }
            }
            ClaimPurpose::Capture => {
                let decides = self.waits_for(Resolution::Approve);
                let held = status == Status::Review || self.payment.risk_review;
                if status.is_final() || (held && !decides) {
                    return Err(Refusal::WrongStatus(status));
                }
                self.wants_capture(attempt)
            }
            ClaimPurpose::Cancel => self.may_close(attempt),
        };
        if fits {
            Ok(())
        } else {
            Err(Refusal::WrongState(attempt.state))
        }
    }

    /// Whether the payer's approval is to be captured as the payment's own money.
    pub(super) fn wants_capture(&self, attempt: &Attempt) -> bool {
        let held = |own: usize| self.attempts[own].net().is_some();
        if self.captured().is_some_and(held) {
            return false;
        }
        match self.payment.status {
            Status::Pending | Status::Processing | Status::VerificationPending => {
                matches!(
                    attempt.state,
                    AttemptState::Processing | AttemptState::Capturing
                ) && !self.payment.risk_review
            }
            Status::Review => {
                let chosen = self.to_capture().map(|chosen| chosen.id);
                let other = self.open_attempt().filter(|open| open.id != attempt.id);
                self.waits_for(Resolution::Approve) && chosen == Some(attempt.id) && other.is_none()
            }
            _ => false,
        }
    }

    /// Whether closing can be tried. What the payment still wants to capture is not voided.
    fn may_close(&self, attempt: &Attempt) -> bool {
        let decided = self.payment.status == Status::Review || self.payment.status.is_final();
        match attempt.state {
            AttemptState::Open | AttemptState::Unknown => true,
            AttemptState::Captured | AttemptState::Surplus => false,
            state if state.is_open() => decided,
            _ => attempt.vendor.as_ref().is_some_and(|facts| {
                facts.status == VendorStatus::Pending || (decided && attempt.is_authorised())
            }),
        }
    }
}
