//! One payment in a vendor's books, and what may happen to it. Pure: time and faults are passed in.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    afterwards::Dispute,
    capture::Underway,
    config::SimError,
    ids,
    money::{Amount, Money},
    refund::Refund,
};

/// Where a payment stands, as `dev/books` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for the payer, until its time is over.
    Open,
    /// The payer has approved; the money is reserved, not taken.
    Authorised,
    /// The money is taken.
    Captured,
    /// The payer's try was declined; he may try again unless the session was closed.
    Declined,
    /// Called off by the merchant, or out of time; nothing was taken.
    Closed,
    /// Taken and given back as a whole.
    Refunded,
}

/// What a vendor tells about a payment: the state with everything that qualifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Open,
    Declined,
    Authorised,
    /// Captured, and a person at the merchant's should look at it before delivering.
    InReview,
    Captured,
    /// Captured, and the payer wants it back.
    Disputed,
    Refunded,
    Closed,
    Expired,
}

/// What the payer can choose on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Approve,
    Decline,
    Review,
    Pending,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Happened {
    Opened,
    Declined,
    Authorised,
    InReview,
    Captured,
    /// The merchant's capture was refused after it was taken in.
    CaptureRefused,
    /// The vendor itself took an authorisation back.
    Voided,
    /// The merchant has asked for a refund, which is not made yet.
    RefundPending,
    Refunded,
    /// A refund failed or was called off, before or after it was made.
    RefundFailed,
    Disputed,
    DisputeWon,
    DisputeLost,
}

/// The payment is not in a state that allows this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// A payment in the books. Times are milliseconds since 1970 of the injected clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The vendor's id.
    pub(crate) reference: String,
    /// The merchant's reference: the gateway's attempt id.
    pub(crate) attempt_id: String,
    /// Idempotency key of the creation, and a hash of what was asked under it.
    pub(crate) key: String,
    pub(crate) fingerprint: String,
    /// Opens the payer page.
    pub(crate) token: String,
    pub(crate) state: State,
    /// Whether the payer may still pay, time aside.
    pub(crate) payable: bool,
    /// Captured, but to be reviewed.
    pub(crate) held: bool,
    /// A dispute is open, or was lost.
    pub(crate) disputed: bool,
    pub(crate) due: Money,
    /// What was captured, where anything was.
    pub(crate) received: Option<Money>,
    /// Given back so far, in the currency received: the sum of the refunds that have succeeded.
    pub(crate) returned: Amount,
    /// Oldest first.
    #[serde(default)]
    pub(crate) refunds: Vec<Refund>,
    /// Which of them changed last.
    #[serde(default)]
    pub(crate) refund_told: usize,
    /// Oldest first; at most the last one is open.
    #[serde(default)]
    pub(crate) disputes: Vec<Dispute>,
    /// What the vendor does later with an authorisation.
    #[serde(default)]
    pub(crate) underway: Option<Underway>,
    /// A capture was taken in, and then refused.
    #[serde(default)]
    pub(crate) capture_refused: bool,
    /// The vendor itself took the authorisation back.
    #[serde(default)]
    pub(crate) voided: bool,
    /// The vendor knows nothing of it any more.
    #[serde(default)]
    pub(crate) forgotten: bool,
    pub(crate) method: String,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) return_url: String,
    pub(crate) cancel_url: String,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    /// When the payer approved.
    #[serde(default)]
    pub(crate) authorised_at: Option<u64>,
    /// When the money was taken.
    #[serde(default)]
    pub(crate) captured_at: Option<u64>,
    /// The payer cannot pay from then on.
    pub(crate) expires_at: u64,
    pub(crate) captured_times: u32,
    /// Idempotency key of the capture through the API.
    pub(crate) capture_key: Option<String>,
    /// What only this vendor needs to know: a second id, a reason.
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, String>,
}

/// What a payment begins with.
pub(crate) struct Opening {
    /// The vendor's id.
    pub(crate) reference: String,
    /// The merchant's reference.
    pub(crate) attempt_id: String,
    /// Idempotency key of the creation; where the vendor has none, anything that is unique.
    pub(crate) key: String,
    /// A hash of what was asked under it.
    pub(crate) fingerprint: String,
    pub(crate) due: Money,
    /// The method's wire id.
    pub(crate) method: String,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) return_url: String,
    pub(crate) cancel_url: String,
    pub(crate) now: u64,
    pub(crate) expires_at: u64,
}

impl Session {
    /// A payment that waits for its payer.
    ///
    /// # Errors
    /// [`SimError::Randomness`]: its page could be guessed.
    pub(crate) fn open(opening: Opening) -> Result<Self, SimError> {
        Ok(Self {
            token: ids::random("")?,
            state: State::Open,
            payable: true,
            held: false,
            disputed: false,
            received: None,
            returned: Amount(0),
            refunds: Vec::new(),
            refund_told: 0,
            disputes: Vec::new(),
            underway: None,
            capture_refused: false,
            voided: false,
            forgotten: false,
            captured_times: 0,
            capture_key: None,
            extra: BTreeMap::new(),
            reference: opening.reference,
            attempt_id: opening.attempt_id,
            key: opening.key,
            fingerprint: opening.fingerprint,
            due: opening.due,
            method: opening.method,
            order: opening.order,
            merchant: opening.merchant,
            return_url: opening.return_url,
            cancel_url: opening.cancel_url,
            created_at: opening.now,
            updated_at: opening.now,
            authorised_at: None,
            captured_at: None,
            expires_at: opening.expires_at,
        })
    }

    /// Whether the payer can still pay.
    pub(crate) fn is_payable(&self, now: u64) -> bool {
        self.payable && now < self.expires_at
    }

    /// Whether it has ended without money.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        let unpaid = matches!(self.state, State::Open | State::Declined | State::Closed);
        unpaid && !self.is_payable(now)
    }

    /// Takes back that it has ended: a payer was on his way already.
    pub(crate) fn reopen(&mut self, now: u64) {
        /// Long enough for a click.
        const MINUTE_MS: u64 = 60_000;
        if self.is_over(now) {
            self.state = State::Open;
            self.payable = true;
            self.voided = false;
            self.capture_refused = false;
            self.expires_at = self.expires_at.max(now.saturating_add(MINUTE_MS));
        }
    }

    /// When the vendor does what it has taken in or decided; none for what waits for the clock to be
    /// moved.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Option<u64>> {
        let capture = self.underway.as_ref().map(|underway| underway.at);
        let refunds = self.refunds.iter().filter_map(Refund::ends_at);
        capture.into_iter().chain(refunds)
    }

    /// What waits for a time waits no longer than until `now`.
    pub(crate) fn hurry(&mut self, now: u64) {
        let capture = self.underway.iter_mut().map(|underway| &mut underway.at);
        let refunds = self.refunds.iter_mut().filter_map(Refund::ending_at);
        for at in capture.chain(refunds).flatten() {
            *at = now.min(*at);
        }
    }

    pub(crate) fn phase(&self, now: u64) -> Phase {
        match self.state {
            State::Open | State::Declined if self.payable && now >= self.expires_at => {
                Phase::Expired
            }
            State::Open => Phase::Open,
            State::Declined => Phase::Declined,
            State::Authorised => Phase::Authorised,
            State::Captured if self.disputed => Phase::Disputed,
            State::Captured if self.held => Phase::InReview,
            State::Captured => Phase::Captured,
            State::Refunded => Phase::Refunded,
            State::Closed => Phase::Closed,
        }
    }

    /// The state as the books show it: out of time counts as closed.
    pub(crate) fn book_state(&self, now: u64) -> State {
        match self.phase(now) {
            Phase::Expired => State::Closed,
            _ => self.state,
        }
    }

    /// The payer approves; `capture` is what the vendor takes at once, none where the merchant
    /// has to capture.
    pub(crate) fn approve(
        &mut self,
        now: u64,
        capture: Option<Money>,
    ) -> Result<Happened, Conflict> {
        if !self.is_payable(now) {
            return Err(Conflict);
        }
        self.payable = false;
        self.state = State::Authorised;
        self.authorised_at = Some(now);
        match capture {
            Some(money) => self.take(now, money),
            None => {
                self.updated_at = now;
                Ok(Happened::Authorised)
            }
        }
    }

    /// The payer's try is declined. He may come back and try again until the merchant closes it.
    pub(crate) fn decline(&mut self, now: u64) -> Result<Happened, Conflict> {
        if !self.is_payable(now) {
            return Err(Conflict);
        }
        self.state = State::Declined;
        self.updated_at = now;
        Ok(Happened::Declined)
    }

    /// The payer approves, the money is taken, and the vendor wants a person to look.
    pub(crate) fn hold(&mut self, now: u64, capture: Money) -> Result<Happened, Conflict> {
        self.approve(now, Some(capture))?;
        self.held = true;
        Ok(Happened::InReview)
    }

    /// The vendor has looked and lets a held payment go.
    pub(crate) fn release(&mut self, now: u64) -> Result<Happened, Conflict> {
        if self.phase(now) != Phase::InReview {
            return Err(Conflict);
        }
        self.held = false;
        self.updated_at = now;
        Ok(Happened::Captured)
    }

    /// The merchant captures an authorisation.
    pub(crate) fn capture(&mut self, now: u64, money: Money) -> Result<Happened, Conflict> {
        if self.state != State::Authorised {
            return Err(Conflict);
        }
        self.take(now, money)
    }

    fn take(&mut self, now: u64, money: Money) -> Result<Happened, Conflict> {
        self.captured_times = self.captured_times.checked_add(1).ok_or(Conflict)?;
        self.underway = None;
        self.state = State::Captured;
        self.received = Some(money);
        self.captured_at = Some(now);
        self.updated_at = now;
        Ok(Happened::Captured)
    }

    /// The merchant calls it off. A declined one stays declined and can no longer be paid;
    /// calling off twice is the same as once.
    pub(crate) fn close(&mut self, now: u64) -> Result<(), Conflict> {
        match self.state {
            // What the vendor has taken in cannot be taken back.
            State::Authorised if self.capturing().is_some() => return Err(Conflict),
            State::Open | State::Authorised => self.state = State::Closed,
            State::Declined | State::Closed => {}
            State::Captured | State::Refunded => return Err(Conflict),
        }
        self.payable = false;
        self.underway = None;
        self.updated_at = now;
        Ok(())
    }

    /// The payment as it stood before any money was reserved or taken.
    pub(crate) fn unpaid(&self) -> Self {
        Self {
            state: State::Open,
            payable: true,
            held: false,
            disputed: false,
            received: None,
            returned: Amount(0),
            refunds: Vec::new(),
            refund_told: 0,
            disputes: Vec::new(),
            underway: None,
            capture_refused: false,
            voided: false,
            authorised_at: None,
            captured_at: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
