//! What is known of a payment, as its reference keeps it.
//!
//! Checkout can be asked about a payment link, and no more: which payment was made through it, of
//! what amount, and what became of it is told by signed notifications alone. So what they prove is
//! written into the reference, which the host keeps and hands back.
//!
//! | Reference | Known from |
//! |---|---|
//! | `PL61C53A8B97E6915A` | the answer to the link's creation |
//! | `993617898204183D/4990EUR/authorised` | AUTHORISATION |
//! | `993617898204183D/4990EUR/captured` | CAPTURE |
//! | `993617898204183D/4990EUR/cancelled` | CANCELLATION, TECHNICAL_CANCEL, CANCEL_OR_REFUND, EXPIRE |
//! | `993617898204183D/4990EUR/noted` | refunds, disputes, failed captures |
use std::fmt;

use kassette_plugin::provider::{Money, Report, Settlement, Status};

use crate::wire::is_plain;

/// How far a payment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Authorised,
    Captured,
    Cancelled,
    /// Something for a person to look at, of which Checkout cannot be asked.
    Noted,
}

/// A payment with what was signed about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    /// Adyen's id of the payment, not of a modification.
    pub(crate) psp_reference: String,
    /// Of that stage.
    pub(crate) amount: Money,
    pub(crate) stage: Stage,
}

/// What a reference says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The id of a link.
    Link(String),
    /// A payment made through it.
    Payment(Payment),
}

impl Known {
    /// Reads a reference; none where it is not one of ours.
    pub(crate) fn read(reference: &str) -> Option<Self> {
        let Some((psp_reference, rest)) = reference.split_once('/') else {
            return is_plain(reference).then(|| Self::Link(reference.to_owned()));
        };
        let (amount, stage) = rest.split_once('/')?;
        let (value, currency) = amount.split_at_checked(amount.len().checked_sub(3)?)?;
        let is_code = currency.bytes().all(|byte| byte.is_ascii_uppercase());
        Some(Self::Payment(Payment {
            psp_reference: is_plain(psp_reference).then(|| psp_reference.to_owned())?,
            amount: Money {
                amount: value.parse().ok()?,
                currency: is_code.then(|| currency.to_owned())?,
            },
            stage: match stage {
                "authorised" => Stage::Authorised,
                "captured" => Stage::Captured,
                "cancelled" => Stage::Cancelled,
                "noted" => Stage::Noted,
                _ => return None,
            },
        }))
    }
}

/// As a reference.
impl fmt::Display for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Authorised => "authorised",
            Stage::Captured => "captured",
            Stage::Cancelled => "cancelled",
            Stage::Noted => "noted",
        };
        let Money { amount, currency } = &self.amount;
        write!(f, "{}/{amount}{currency}/{stage}", self.psp_reference)
    }
}

impl Payment {
    /// The payer has approved so much. The amount is named, so that another one than was due is seen
    /// before it is captured.
    pub(crate) fn authorised(&self, detail: &str) -> Report {
        self.report(Status::Processing, self.amount.amount, detail)
    }

    /// So much was taken.
    pub(crate) fn captured(&self, detail: &str) -> Report {
        Report {
            settlement: Settlement::Confirmed,
            ..self.report(Status::Completed, self.amount.amount, detail)
        }
    }

    /// Nothing was taken, and nothing will be.
    pub(crate) fn cancelled(&self, detail: &str) -> Report {
        self.report(Status::Cancelled, 0, detail)
    }

    /// A report that names what was received.
    pub(crate) fn report(&self, status: Status, received: u64, detail: &str) -> Report {
        Report {
            reference: self.to_string(),
            status,
            settlement: Settlement::Pending,
            received: Money {
                amount: received,
                currency: self.amount.currency.clone(),
            },
            returned: 0,
            detail: detail.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_reads_back_from_the_reference() {
        for stage in [
            Stage::Authorised,
            Stage::Captured,
            Stage::Cancelled,
            Stage::Noted,
        ] {
            let payment = Payment {
                psp_reference: "993617898204183D".into(),
                amount: Money {
                    amount: 4990,
                    currency: "EUR".into(),
                },
                stage,
            };
            assert_eq!(
                Known::read(&payment.to_string()),
                Some(Known::Payment(payment))
            );
        }
        assert_eq!(
            Known::read("PL61C53A8B97E6915A"),
            Some(Known::Link("PL61C53A8B97E6915A".into()))
        );
    }

    #[test]
    fn anything_else_is_no_reference() {
        for odd in [
            "",
            "PL1?x",
            "../x",
            "A/4990EUR",
            "A/EUR/authorised",
            "A/4990EUR/settled",
            "A/-1EUR/captured",
            "A.B/4990EUR/captured",
            "/4990EUR/captured",
            "A/49é/captured",
        ] {
            assert_eq!(Known::read(odd), None, "{odd}");
        }
    }
}
