//! Captures, refusals and voids. Some providers execute a request immediately, others accept it and execute it a
//! moment later.
use serde::{Deserialize, Serialize};

use crate::{
    account::Account,
    afterwards::Later,
    fault::Fault,
    money::{Amount, Money},
    session::{Conflict, Happened, Session, State},
};

/// Time between an answer and its confirmation at providers that confirm later: milliseconds of the injected
/// clock.
pub(crate) const LATER_MS: u64 = 1_500;

/// Time between the payer's approval and the void by `voids-approval`, in milliseconds: long enough for the
/// merchant to learn of the approval first.
const VOIDS_MS: u64 = 2_000;

/// A provider's way of executing captures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captures {
    /// Time between the answer and the confirmation, in milliseconds; 0 if the answer confirms.
    pub(crate) after_ms: u64,
    /// Its way of refusing a capture.
    pub(crate) refusal: CaptureRefusal,
}

impl Captures {
    /// The answer confirms or refuses the capture.
    pub(crate) const AT_ONCE: Self = Self {
        after_ms: 0,
        refusal: CaptureRefusal::Answered,
    };
}

/// A way of refusing a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureRefusal {
    /// In the answer. The payment stays authorized.
    Answered,
    /// After accepting the request. The payment stays authorized.
    Told,
    /// After accepting the request, and the authorization ends.
    Ends,
}

/// A change that the provider has accepted or decided, and executes later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Underway {
    pub(crate) what: Doing,
    /// Time in milliseconds of the injected clock. `None`: when that clock is moved next.
    pub(crate) at: Option<u64>,
}

/// A pending change of an authorization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Doing {
    /// The capture that the merchant has requested.
    Capture(Money),
    /// The refusal of such a capture; with `true` the authorization ends.
    Refuse(bool),
    /// The cancellation that the merchant has requested.
    Cancel,
    /// The provider's own void.
    Void,
}

/// Reason why a payment was not captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The payment's state does not allow it.
    Conflict,
    /// The provider refuses it: `capture-refused`.
    Refused,
    /// The provider has voided the authorization, which is recorded and reported.
    Voided,
}

impl From<Conflict> for Denied {
    fn from(Conflict: Conflict) -> Self {
        Self::Conflict
    }
}

impl Session {
    /// The amount of a requested capture that the provider has not confirmed yet.
    pub(crate) fn capturing(&self) -> Option<&Money> {
        match self.underway.as_ref().map(|underway| &underway.what) {
            Some(Doing::Capture(money)) => Some(money),
            _ => None,
        }
    }

    /// Whether a capture, a cancellation or a refund was requested and not executed yet.
    pub(crate) fn is_asked(&self) -> bool {
        let what = self.underway.as_ref().map(|underway| &underway.what);
        let refund = self.refunds.iter().any(|refund| refund.ends_at().is_some());
        refund || what.is_some_and(|what| *what != Doing::Void)
    }

    /// The captured amount, or the amount of a pending capture.
    pub(crate) fn taken(&self) -> Option<&Money> {
        self.received.as_ref().or_else(|| self.capturing())
    }

    /// Schedules a capture for the next move of the clock.
    pub(crate) fn take_later(&mut self, money: Money) {
        self.underway = Some(Underway {
            what: Doing::Capture(money),
            at: None,
        });
    }

    /// The provider voids the authorization.
    fn void(&mut self, now: u64) -> Happened {
        self.underway = None;
        self.state = State::Closed;
        self.voided = true;
        self.updated_at = now;
        Happened::Voided
    }
}

impl Account {
    /// The payer approves. The payment is captured immediately, or only authorized if the merchant has to capture.
    ///
    /// # Errors
    /// [`Conflict`] if the payment's state does not allow it.
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

    /// The merchant captures an amount of an authorization. Returns the event, or `None` if the provider only
    /// accepts the request.
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
            self.plan(session, now);
            return Ok(Some(self.vendor.captured(session)));
        }
        session.underway = Some(Underway {
            what: Doing::Capture(money),
            at: later.filter(|_| !late),
        });
        Ok(None)
    }

    /// The merchant cancels an authorization, which this provider executes a moment later.
    ///
    /// # Errors
    /// [`Conflict`] if there is no authorization, or if a request is pending.
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

    /// Executes the next change of a payment that is due or, with `moved`, waits for a change of the clock. `None`
    /// if nothing is left to do.
    pub(crate) fn ripen(&self, session: &mut Session, now: u64, moved: bool) -> Option<Happened> {
        let due = |underway: &mut Underway| underway.at.map_or(moved, |at| at <= now);
        let underway = session.underway.take_if(due);
        let Some(underway) = underway.filter(|_| session.state == State::Authorised) else {
            let refunded = session.ripen_refund(now, moved);
            return refunded.or_else(|| self.ripen_upcoming(session, now, moved));
        };
        match underway.what {
            Doing::Capture(money) => {
                session.capture(now, money).ok()?;
                self.plan(session, now);
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

    /// The captured amount of an approval with immediate capture.
    pub(crate) fn taken(&self, session: &Session) -> Money {
        self.spoilt(session.due.clone())
    }

    /// Schedules the reversal of a capture that has just succeeded, if `capture-fails` was ordered and the
    /// provider supports reversals.
    pub(crate) fn plan(&self, session: &mut Session, now: u64) {
        let fails = self.vendor.knows(Later::CaptureFails);
        if fails && session.captured_at == Some(now) && self.faults.take(Fault::CaptureFails) {
            let at = now.saturating_add(VOIDS_MS);
            session.upcoming.push((Later::CaptureFails, Some(at)));
        }
    }

    /// The captured amount: the requested amount, unless a fault changes it.
    fn spoilt(&self, mut money: Money) -> Money {
        /// For `capture-short` and `capture-over`, in minor units.
        const DIFFERENCE: u64 = 100;
        if self.faults.take(Fault::CaptureShort) {
            money.value = Amount(money.value.0.saturating_sub(DIFFERENCE).max(1));
        }
        if self.faults.take(Fault::CaptureOver) {
            money.value = Amount(money.value.0.saturating_add(DIFFERENCE));
        }
        if self.faults.take(Fault::WrongAmount) {
            // One cent: the smallest difference must be detected.
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
