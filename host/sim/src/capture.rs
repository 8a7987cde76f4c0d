//! Captures, refusals and voids: some vendors do at once what they are asked to, others take it in
//! and do it a moment later.
use serde::{Deserialize, Serialize};

use crate::{
    account::Account,
    fault::Fault,
    money::{Amount, Money},
    session::{Conflict, Happened, Session, State},
};

/// How much later than it answers a vendor confirms what it has taken in, where it does so: on the
/// injected clock, in milliseconds.
pub(crate) const LATER_MS: u64 = 1_500;

/// How long after the payer's approval `voids-approval` voids it: late enough for the merchant to
/// learn of the approval first.
const VOIDS_MS: u64 = 2_000;

/// How a vendor captures what a merchant asks it to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captures {
    /// Between the answer and the confirmation, in milliseconds; 0 where the answer confirms.
    pub(crate) after_ms: u64,
    /// How it refuses one.
    pub(crate) refusal: CaptureRefusal,
}

impl Captures {
    /// Answered with what was done; a refusal is an answer too.
    pub(crate) const AT_ONCE: Self = Self {
        after_ms: 0,
        refusal: CaptureRefusal::Answered,
    };
}

/// How a capture is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureRefusal {
    /// In the answer. The authorisation stays.
    Answered,
    /// After the request was taken in like any other. The authorisation stays.
    Told,
    /// After the request was taken in like any other, and the authorisation ends with it.
    Ends,
}

/// What a vendor has taken in or decided, and does at its own time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Underway {
    pub(crate) what: Doing,
    /// When, in milliseconds of the injected clock; none: when that clock is next moved.
    pub(crate) at: Option<u64>,
}

/// What is under way with an authorisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Doing {
    /// The capture that the merchant has asked for.
    Capture(Money),
    /// The refusal of such a capture; `true` where the authorisation ends with it.
    Refuse(bool),
    /// The cancellation that the merchant has asked for.
    Cancel,
    /// The vendor's own void.
    Void,
}

/// Why a capture was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The payment is not in a state that allows it.
    Conflict,
    /// The vendor refuses it: `capture-refused`.
    Refused,
    /// The vendor has voided the authorisation, which is written down and told.
    Voided,
}

impl From<Conflict> for Denied {
    fn from(Conflict: Conflict) -> Self {
        Self::Conflict
    }
}

impl Session {
    /// What the merchant has asked to capture and the vendor has not confirmed yet.
    pub(crate) fn capturing(&self) -> Option<&Money> {
        match self.underway.as_ref().map(|underway| &underway.what) {
            Some(Doing::Capture(money)) => Some(money),
            _ => None,
        }
    }

    /// Whether the vendor has taken in a request, a capture, a cancellation or a refund, and not done it
    /// yet.
    pub(crate) fn is_asked(&self) -> bool {
        let what = self.underway.as_ref().map(|underway| &underway.what);
        let refund = self.refunds.iter().any(|refund| refund.ends_at().is_some());
        refund || what.is_some_and(|what| *what != Doing::Void)
    }

    /// Captured, or taken in to be captured.
    pub(crate) fn taken(&self) -> Option<&Money> {
        self.received.as_ref().or_else(|| self.capturing())
    }

    /// The vendor takes the authorisation back by itself.
    fn void(&mut self, now: u64) -> Happened {
        self.underway = None;
        self.state = State::Closed;
        self.voided = true;
        self.updated_at = now;
        Happened::Voided
    }
}

impl Account {
    /// The payer approves. The money is taken at once, or only reserved where the merchant has to
    /// capture.
    ///
    /// # Errors
    /// [`Conflict`] where the payment is not in a state that allows it.
    pub(crate) fn approve(
        &self,
        session: &mut Session,
        now: u64,
        by_merchant: bool,
    ) -> Result<Happened, Conflict> {
        if !session.is_payable(now) {
            return Err(Conflict);
        }
        if by_merchant {
            let happened = session.approve(now, None)?;
            if self.faults.take(Fault::VoidsApproval) {
                session.underway = Some(Underway {
                    what: Doing::Void,
                    at: Some(now.saturating_add(VOIDS_MS)),
                });
            }
            return Ok(happened);
        }
        let money = self.taken(session);
        if self.faults.take(Fault::CaptureLate) {
            let happened = session.approve(now, None)?;
            session.underway = Some(Underway {
                what: Doing::Capture(money),
                at: None,
            });
            return Ok(happened);
        }
        session.approve(now, Some(money))
    }

    /// The merchant captures that much of an authorisation: what happened at once, none where the
    /// vendor only takes it in.
    ///
    /// # Errors
    /// [`Denied`].
    pub(crate) fn capture(
        &self,
        session: &mut Session,
        now: u64,
        asked: Money,
    ) -> Result<Option<Happened>, Denied> {
        if session.state != State::Authorised || session.is_asked() {
            return Err(Denied::Conflict);
        }
        if session.underway.is_some() {
            session.void(now);
            return Err(Denied::Voided);
        }
        let how = self.vendor.captures();
        let later = Some(now.saturating_add(how.after_ms));
        if self.faults.take(Fault::CaptureRefused) {
            let ends = match how.refusal {
                CaptureRefusal::Answered => return Err(Denied::Refused),
                CaptureRefusal::Told => false,
                CaptureRefusal::Ends => true,
            };
            session.underway = Some(Underway {
                what: Doing::Refuse(ends),
                at: later,
            });
            return Ok(None);
        }
        let money = self.spoilt(asked);
        let late = self.faults.take(Fault::CaptureLate);
        if !late && how.after_ms == 0 {
            session.capture(now, money)?;
            return Ok(Some(self.vendor.captured(session)));
        }
        session.underway = Some(Underway {
            what: Doing::Capture(money),
            at: later.filter(|_| !late),
        });
        Ok(None)
    }

    /// The merchant gives an authorisation back, which this vendor does a moment later.
    ///
    /// # Errors
    /// [`Conflict`] where there is no authorisation, or something is under way already.
    pub(crate) fn cancel_later(&self, session: &mut Session, now: u64) -> Result<(), Conflict> {
        if session.state != State::Authorised || session.is_asked() {
            return Err(Conflict);
        }
        session.underway = Some(Underway {
            what: Doing::Cancel,
            at: Some(now.saturating_add(LATER_MS)),
        });
        Ok(())
    }

    /// Does the next thing that is due with a payment, or where `moved` waits for the clock; none where
    /// nothing is left to do.
    pub(crate) fn ripen(&self, session: &mut Session, now: u64, moved: bool) -> Option<Happened> {
        let due = |underway: &mut Underway| underway.at.map_or(moved, |at| at <= now);
        let Some(underway) = session.underway.take_if(due) else {
            return session.ripen_refund(now, moved);
        };
        if session.state != State::Authorised {
            return session.ripen_refund(now, moved);
        }
        match underway.what {
            Doing::Capture(money) => {
                session.capture(now, money).ok()?;
                Some(self.vendor.captured(session))
            }
            Doing::Refuse(ends) => {
                session.capture_refused = true;
                if ends {
                    session.state = State::Declined;
                }
                session.updated_at = now;
                Some(Happened::CaptureRefused)
            }
            Doing::Cancel => {
                session.close(now).ok()?;
                Some(Happened::Declined)
            }
            Doing::Void => Some(session.void(now)),
        }
    }

    /// What an approval takes where the money is taken at once.
    pub(crate) fn taken(&self, session: &Session) -> Money {
        self.spoilt(session.due.clone())
    }

    /// What a capture takes: what was asked for, unless a fault says otherwise.
    fn spoilt(&self, mut money: Money) -> Money {
        /// Of `capture-short` and `capture-over`.
        const DIFFERENCE: u64 = 100;
        if self.faults.take(Fault::CaptureShort) {
            money.value = Amount(money.value.0.saturating_sub(DIFFERENCE).max(1));
        }
        if self.faults.take(Fault::CaptureOver) {
            money.value = Amount(money.value.0.saturating_add(DIFFERENCE));
        }
        if self.faults.take(Fault::WrongAmount) {
            // One cent: the smallest difference must be noticed.
            money.value = Amount(if money.value.0 > 1 {
                money.value.0 - 1
            } else {
                2
            });
        }
        if self.faults.take(Fault::WrongCurrency) {
            money.currency = if money.currency == "USD" {
                "EUR"
            } else {
                "USD"
            }
            .to_owned();
        }
        money
    }
}

#[cfg(test)]
mod tests;
