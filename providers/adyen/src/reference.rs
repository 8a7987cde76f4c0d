//! Verified facts about an attempt, as stored in its reference.
//!
//! The Checkout API can query a page, but not a payment. The payment's id, amount and outcome come from signed
//! notifications and from a session's result. So the module writes them into the reference, which the host stores
//! and passes to later calls.
//!
//! | Reference | Known from |
//! |---|---|
//! | `CS451F2AB1ED897A94`, `PL61C53A8B97E6915A` | the answer to the creation of a session or a link |
//! | `993617898204183D/4990EUR/authorised` | AUTHORISATION, or a session's result |
//! | `993617898204183D/4990EUR/refused/<capture>` | CAPTURE, `success` false: still authorized |
//! | `993617898204183D/4990EUR/authorised/<capture>` | a new capture requested after that refusal |
//! | `993617898204183D/4990EUR/captured` | CAPTURE |
//! | `993617898204183D/4990EUR/cancelled` | CANCELLATION, TECHNICAL_CANCEL, CANCEL_OR_REFUND, EXPIRE |
//! | `993617898204183D/4990EUR/noted` | refunds, disputes, CAPTURE_FAILED |
use std::fmt;

use kassette_plugin::provider::{Money, Particulars, Report, Settlement, Status};

use crate::wire::is_plain;

/// Progress of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Authorised. If a capture was refused and requested again: the id of the refused capture, from which the
    /// idempotency key of the next one is built.
    Authorised(Option<String>),
    /// Authorised; the capture with this id was refused.
    Refused(String),
    Captured,
    /// Nothing was captured, and nothing will be.
    Cancelled,
    /// Another event, such as a refund or dispute. Checkout cannot be queried about it.
    Noted,
}

/// A payment with its stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    /// Adyen's id of the payment, not of a modification.
    pub(crate) psp_reference: String,
    /// Amount of that stage.
    pub(crate) amount: Money,
    pub(crate) stage: Stage,
}

/// A parsed reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Id of the page: a session or a link, depending on the attempt's method.
    Page(String),
    /// A payment made on the page.
    Payment(Payment),
}

impl Reference {
    /// Parses a reference. `None` if it does not have this module's format.
    pub(crate) fn read(reference: &str) -> Option<Self> {
        let plain = |id: &str| is_plain(id).then(|| id.to_owned());
        let mut parts = reference.split('/');
        let id = plain(parts.next()?)?;
        let Some(amount) = parts.next() else {
            // Ids of sessions and links consist of letters and digits.
            let is_page = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            return is_page.then_some(Self::Page(id));
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

/// Writes the reference.
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

    /// Reports the authorized amount, so that the host notices a difference from the amount due before the
    /// capture.
    pub(crate) fn authorised(&self, detail: &str) -> Report {
        self.report(Status::Processing, self.amount.amount, detail)
    }

    /// Reports the captured amount.
    pub(crate) fn captured(&self, detail: &str) -> Report {
        Report {
            settlement: Settlement::Confirmed,
            ..self.report(Status::Completed, self.amount.amount, detail)
        }
    }

    /// Reports that nothing was captured, and nothing will be.
    pub(crate) fn cancelled(&self, detail: &str) -> Report {
        self.report(Status::Cancelled, 0, detail)
    }

    /// Reports a payment for review. The amount zero leaves the known amount unchanged.
    pub(crate) fn review(&self, detail: &str) -> Report {
        self.report(Status::Review, 0, detail)
    }

    /// Reports an event that does not change the payment's status.
    pub(crate) fn beside(&self, detail: &str) -> Report {
        self.at(Stage::Noted).report(Status::Pending, 0, detail)
    }

    /// A report with the amount received and the payment's id, under which Adyen's statements list it.
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
