//! Claims on attempts before calls to the provider.

use super::{ClaimPurpose, PaymentAggregate, Refusal, StepOutcome};
use crate::attempt::{Attempt, AttemptState, Stage};
use crate::id::AttemptId;
use crate::payment::{Resolution, Status};
use crate::provider::ProviderStatus;
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
        if let Some(busy) = attempt.claim.busy_until().filter(|busy| now < *busy) {
            return Err(Refusal::Busy(busy));
        }
        self.may_claim(i, purpose, now)?;
        self.attempts[i].claim(purpose, until);
        Ok(StepOutcome::Done)
    }

    /// Checks that an unclaimed attempt may be claimed for a purpose.
    fn may_claim(&self, i: usize, purpose: ClaimPurpose, now: Time) -> Result<(), Refusal> {
        let attempt = &self.attempts[i];
        let status = self.payment.status;
        let fits = match purpose {
            ClaimPurpose::Start => {
                if status != Status::Pending {
                    return Err(Refusal::NotPayable(status));
                }
                now < attempt.expires_at && attempt.stage.awaits_start()
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
            Err(Refusal::WrongState(attempt.state()))
        }
    }

    /// Whether the authorization is to be captured as the payment's own money.
    pub(super) fn wants_capture(&self, attempt: &Attempt) -> bool {
        let held = |own: usize| self.attempts[own].net().is_some();
        if self.captured().is_some_and(held) {
            return false;
        }
        match self.payment.status {
            Status::Pending | Status::Processing | Status::VerificationPending => {
                matches!(
                    attempt.state(),
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

    /// Whether closing can be tried. An authorization that the payment still wants to capture is not voided.
    fn may_close(&self, attempt: &Attempt) -> bool {
        let decided = self.payment.status == Status::Review || self.payment.status.is_final();
        match attempt.stage {
            Stage::Live { .. } => decided || attempt.stage.is_starting(),
            Stage::Captured { .. } | Stage::Surplus { .. } => false,
            Stage::Ended { .. } => attempt.vendor.as_ref().is_some_and(|facts| {
                facts.status == ProviderStatus::Pending || (decided && attempt.is_authorised())
            }),
        }
    }
}
