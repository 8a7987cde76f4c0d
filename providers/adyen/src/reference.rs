//! What is known of an attempt, as its reference keeps it.
//!
//! Checkout can be asked about a page, and about no payment: which payment was made through the page,
//! of what amount, and what became of it is told by signed notifications, and by a session's result. So
//! what they prove is written into the reference, which the host keeps and hands back.
//!
//! | Reference | Known from |
//! |---|---|
//! | `CS451F2AB1ED897A94`, `PL61C53A8B97E6915A` | the answer to the creation of a session or a link |
//! | `993617898204183D/4990EUR/authorised` | AUTHORISATION, or a session's result |
//! | `993617898204183D/4990EUR/refused/<capture>` | CAPTURE, `success` false: the authorisation stands |
//! | `993617898204183D/4990EUR/authorised/<capture>` | a capture asked for anew after that one |
//! | `993617898204183D/4990EUR/captured` | CAPTURE |
//! | `993617898204183D/4990EUR/cancelled` | CANCELLATION, TECHNICAL_CANCEL, CANCEL_OR_REFUND, EXPIRE |
//! | `993617898204183D/4990EUR/noted` | refunds, disputes, CAPTURE_FAILED |
use std::fmt;

use kassette_plugin::provider::{Money, Particulars, Report, Settlement, Status};

use crate::wire::is_plain;

/// How far a payment has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Approved. Where a capture was refused and asked for anew: the id of the refused one, which makes
    /// the idempotency key of the next.
    Authorised(Option<String>),
    /// Approved, and the capture of that id was refused.
    Refused(String),
    /// The money was taken.
    Captured,
    /// Nothing was taken, and nothing will be.
    Cancelled,
    /// Something beside it happened, of which Checkout cannot be asked.
    Noted,
}

/// A payment with what was told about it.
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
pub(crate) enum Reference {
    /// The id of the page: a session or a link, by the attempt's method.
    Page(String),
    /// A payment made there.
    Payment(Payment),
}

impl Reference {
    /// Reads a reference; none where it is not one of ours.
    pub(crate) fn read(reference: &str) -> Option<Self> {
        let plain = |id: &str| is_plain(id).then(|| id.to_owned());
        let mut parts = reference.split('/');
        let id = plain(parts.next()?)?;
        let Some(amount) = parts.next() else {
            return Some(Self::Page(id));
        };
        let (value, currency) = amount.split_at_checked(amount.len().checked_sub(3)?)?;
        let is_code = currency.bytes().all(|byte| byte.is_ascii_uppercase());
        let stage = match (parts.next()?, parts.next()) {
            ("authorised", None) => Stage::Authorised(None),
            ("authorised", Some(capture)) => Stage::Authorised(Some(plain(capture)?)),
            ("refused", Some(capture)) => Stage::Refused(plain(capture)?),
            ("captured", None) => Stage::Captured,
            ("cancelled", None) => Stage::Cancelled,
            ("noted", None) => Stage::Noted,
            _ => return None,
        };
        let read = Self::Payment(Payment {
            psp_reference: id,
            amount: Money {
                amount: value.parse().ok()?,
                currency: is_code.then(|| currency.to_owned())?,
            },
            stage,
        });
        parts.next().is_none().then_some(read)
    }
}

/// As a reference.
impl fmt::Display for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Money { amount, currency } = &self.amount;
        write!(f, "{}/{amount}{currency}/", self.psp_reference)?;
        match &self.stage {
            Stage::Authorised(None) => f.write_str("authorised"),
            Stage::Authorised(Some(capture)) => write!(f, "authorised/{capture}"),
            Stage::Refused(capture) => write!(f, "refused/{capture}"),
            Stage::Captured => f.write_str("captured"),
            Stage::Cancelled => f.write_str("cancelled"),
            Stage::Noted => f.write_str("noted"),
        }
    }
}

impl Payment {
    /// The same payment at another stage.
    pub(crate) fn at(&self, stage: Stage) -> Self {
        Self {
            stage,
            ..self.clone()
        }
    }

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

    /// A person has to look; what was received before stays as it was.
    pub(crate) fn review(&self, detail: &str) -> Report {
        self.report(Status::Review, 0, detail)
    }

    /// News beside where the payment stands, which it does not change.
    pub(crate) fn beside(&self, detail: &str) -> Report {
        self.at(Stage::Noted).report(Status::Pending, 0, detail)
    }

    /// A report that names what was received, and the payment's id, under which Adyen's statements
    /// list it.
    fn report(&self, status: Status, received: u64, detail: &str) -> Report {
        Report {
            reference: self.to_string(),
            status,
            settlement: Settlement::Pending,
            received: Money {
                amount: received,
                currency: self.amount.currency.clone(),
            },
            given_back: 0,
            detail: detail.to_owned(),
            particulars: Particulars {
                references: vec![self.psp_reference.clone()],
                ..Particulars::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_reads_back_from_the_reference() {
        let capture = "853617894906488A".to_owned();
        for stage in [
            Stage::Authorised(None),
            Stage::Authorised(Some(capture.clone())),
            Stage::Refused(capture),
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
                Reference::read(&payment.to_string()),
                Some(Reference::Payment(payment))
            );
        }
        for page in ["PL61C53A8B97E6915A", "CS451F2AB1ED897A94"] {
            assert_eq!(Reference::read(page), Some(Reference::Page(page.into())));
        }
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
            "A/4990EUR/refused",
            "A/4990EUR/refused/",
            "A/4990EUR/captured/B",
            "A/4990EUR/refused/B/C",
            "A/-1EUR/captured",
            "A.B/4990EUR/captured",
            "/4990EUR/captured",
            "A/49é/captured",
        ] {
            assert_eq!(Reference::read(odd), None, "{odd}");
        }
    }
}
