//! The reference's acts: what an operator does, and expiry.

use kassette_domain::lifecycle::{Act, Refusal};
use kassette_domain::payment::{ReviewCause, Status};
use kassette_domain::time::Time;

use crate::law::is_over;
use crate::payment::{Payment, Reply, StepReport};

impl Payment {
    /// An operator's decision, or time that has passed.
    pub(crate) fn act(
        &mut self,
        act: &Act,
        now: Time,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        match act {
            Act::Review(new) => self.decide(new, now, told),
            Act::ToReview => {
                if !matches!(
                    self.status,
                    Status::Processing | Status::VerificationPending
                ) {
                    return Err(Refusal::WrongStatus(self.status));
                }
                self.review(ReviewCause::Operator, told);
                Ok(Reply::Done)
            }
            Act::Expire if now < self.expires && !is_over(self.status) => Ok(Reply::Nothing),
            Act::Cancel | Act::Expire => {
                if !matches!(self.status, Status::Created | Status::Pending) {
                    return Err(Refusal::WrongStatus(self.status));
                }
                if let Some(open) = self.open() {
                    return Err(Refusal::VendorFirst(open.id));
                }
                let to = if *act == Act::Cancel {
                    Status::Cancelled
                } else {
                    Status::Expired
                };
                self.go(to, told);
                Ok(Reply::Done)
            }
        }
    }
}
