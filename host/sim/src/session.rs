//! One payment in a provider's books, and its transitions. Pure: time and faults are parameters.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    afterwards::{Dispute, Later},
    capture::Underway,
    config::SimError,
    ids,
    money::{Amount, Money},
    refund::Refund,
};

/// State of a payment, as shown by `dev/books`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for the payer, until it expires.
    Open,
    /// The payer has approved; the money is reserved, not captured.
    Authorised,
    /// The money is captured.
    Captured,
    /// The payer's attempt was declined; the payer may try again unless the session was closed.
    Declined,
    /// Cancelled by the merchant, or expired; nothing was captured.
    Closed,
    /// Captured and refunded in full.
    Refunded,
}

/// The status that a provider reports: the state with everything that qualifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Open,
    Declined,
    Authorised,
    /// Captured, and the merchant's operator should check it before the delivery.
    InReview,
    Captured,
    /// Captured, and disputed by the payer.
    Disputed,
    Refunded,
    Closed,
    Expired,
}

/// The payer's choice on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Approve,
    Decline,
    Review,
    Pending,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Happened {
    Opened,
    Declined,
    Authorised,
    InReview,
    Captured,
    /// The merchant's capture was refused after it had been accepted.
    CaptureRefused,
    /// The provider reversed a capture that it had confirmed.
    CaptureFailed,
    /// The provider voided an authorization.
    Voided,
    /// The merchant has requested a refund, which is not executed yet.
    RefundPending,
    Refunded,
    /// A refund failed or was cancelled, before or after its execution.
    RefundFailed,
    Disputed,
    DisputeWon,
    DisputeLost,
}

/// The payment's state does not allow this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// A payment in the books. Times are milliseconds since 1970 of the injected clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The provider's id.
    pub(crate) reference: String,
    /// The merchant's reference: the gateway's attempt id.
    pub(crate) attempt_id: String,
    /// Idempotency key of the creation, and a hash of its request.
    pub(crate) key: String,
    pub(crate) fingerprint: String,
    /// Secret part of the payer page's address.
    pub(crate) token: String,
    pub(crate) state: State,
    /// Whether the payer may still pay, apart from the expiry.
    pub(crate) payable: bool,
    /// Captured, but to be reviewed.
    pub(crate) held: bool,
    /// A dispute is open, or was lost.
    pub(crate) disputed: bool,
    pub(crate) due: Money,
    /// The captured amount, if any.
    pub(crate) received: Option<Money>,
    /// Sum of the succeeded refunds, in the received currency.
    pub(crate) returned: Amount,
    /// Oldest first.
    #[serde(default)]
    pub(crate) refunds: Vec<Refund>,
    /// Index of the refund that changed last.
    #[serde(default)]
    pub(crate) refund_told: usize,
    /// Oldest first; at most the last one is open.
    #[serde(default)]
    pub(crate) disputes: Vec<Dispute>,
    /// The provider's pending change of an authorization.
    #[serde(default)]
    pub(crate) underway: Option<Underway>,
    /// A capture was accepted, and then refused.
    #[serde(default)]
    pub(crate) capture_refused: bool,
    /// The provider voided the authorization.
    #[serde(default)]
    pub(crate) voided: bool,
    /// The payer cancelled on the provider's page, which closed the payment.
    #[serde(default)]
    pub(crate) given_up: bool,
    /// Time at which the provider reversed a confirmed capture.
    #[serde(default)]
    pub(crate) capture_failed_at: Option<u64>,
    /// Scheduled events of a paid payment with their times; `None` waits for a change of the clock.
    #[serde(default)]
    pub(crate) upcoming: Vec<(Later, Option<u64>)>,
    /// The provider has forgotten it.
    #[serde(default)]
    pub(crate) forgotten: bool,
    pub(crate) method: String,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) return_url: String,
    pub(crate) cancel_url: String,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    /// Time of the payer's approval.
    #[serde(default)]
    pub(crate) authorised_at: Option<u64>,
    /// Time of the capture.
    #[serde(default)]
    pub(crate) captured_at: Option<u64>,
    /// Time from which the payer cannot pay.
    pub(crate) expires_at: u64,
    pub(crate) captured_times: u32,
    /// Idempotency key of the capture through the API.
    pub(crate) capture_key: Option<String>,
    /// Data that only this provider needs, such as a second id or a reason.
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, String>,
}

/// The data of a new payment.
pub(crate) struct Opening {
    /// The provider's id.
    pub(crate) reference: String,
    /// The merchant's reference.
    pub(crate) attempt_id: String,
    /// Idempotency key of the creation; if the provider has none, any unique text.
    pub(crate) key: String,
    /// A hash of its request.
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
            given_up: false,
            capture_failed_at: None,
            upcoming: Vec::new(),
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

    /// Makes an ended payment payable again, for a payer who had already started.
    pub(crate) fn reopen(&mut self, now: u64) {
        /// Long enough for a click.
        const MINUTE_MS: u64 = 60_000;
        if self.is_over(now) {
            self.state = State::Open;
            self.payable = true;
            self.voided = false;
            self.given_up = false;
            self.capture_refused = false;
            self.expires_at = self.expires_at.max(now.saturating_add(MINUTE_MS));
        }
    }

    /// Times of the provider's pending changes; `None` for those that wait for a change of the clock.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Option<u64>> {
        let capture = self.underway.as_ref().map(|underway| underway.at);
        let refunds = self.refunds.iter().filter_map(Refund::ends_at);
        let upcoming = self.upcoming.iter().map(|(_, at)| *at);
        capture.into_iter().chain(refunds).chain(upcoming)
    }

    /// Makes all timed changes due no later than `now`.
    pub(crate) fn hurry(&mut self, now: u64) {
        let capture = self.underway.iter_mut().map(|underway| &mut underway.at);
        let refunds = self.refunds.iter_mut().filter_map(Refund::ending_at);
        let upcoming = self.upcoming.iter_mut().map(|(_, at)| at);
        for at in capture.chain(refunds).chain(upcoming).flatten() {
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

    /// The state in the books: an expired payment counts as closed.
    pub(crate) fn book_state(&self, now: u64) -> State {
        match self.phase(now) {
            Phase::Expired => State::Closed,
            _ => self.state,
        }
    }

    /// The payer approves. `capture` is the amount that the provider captures immediately, or `None` if the
    /// merchant has to capture.
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

    /// The payer's attempt is declined. The payer may try again until the merchant closes the payment.
    pub(crate) fn decline(&mut self, now: u64) -> Result<Happened, Conflict> {
        if !self.is_payable(now) {
            return Err(Conflict);
        }
        self.state = State::Declined;
        self.updated_at = now;
        Ok(Happened::Declined)
    }

    /// The payer cancels, and the provider closes the payment.
    pub(crate) fn give_up(&mut self, now: u64) -> Result<Happened, Conflict> {
        if !self.is_payable(now) {
            return Err(Conflict);
        }
        self.close(now)?;
        self.given_up = true;
        Ok(Happened::Declined)
    }

    /// The payer approves, the money is captured, and the provider requests a review.
    pub(crate) fn hold(&mut self, now: u64, capture: Money) -> Result<Happened, Conflict> {
        self.approve(now, Some(capture))?;
        self.held = true;
        Ok(Happened::InReview)
    }

    /// Ends the vendor's review of a held payment, which may be disputed or refunded by now.
    pub(crate) fn release(&mut self, now: u64) -> Result<Happened, Conflict> {
        if !self.held || self.received.is_none() {
            return Err(Conflict);
        }
        self.held = false;
        self.updated_at = now;
        Ok(Happened::Captured)
    }

    /// The merchant captures an authorization.
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

    /// The provider reverses a capture that it had confirmed.
    pub(crate) fn fail_capture(&mut self, now: u64) -> Result<Happened, Conflict> {
        if self.state != State::Captured || self.capture_failed_at.is_some() {
            return Err(Conflict);
        }
        self.capture_failed_at = Some(now);
        self.updated_at = now;
        Ok(Happened::CaptureFailed)
    }

    /// The merchant closes the payment. A declined one stays declined and can no longer be paid. Closing is
    /// idempotent.
    pub(crate) fn close(&mut self, now: u64) -> Result<(), Conflict> {
        match self.state {
            // An accepted capture cannot be cancelled.
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

    /// The payment before any money was reserved or captured.
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
            given_up: false,
            capture_failed_at: None,
            upcoming: Vec::new(),
            authorised_at: None,
            captured_at: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
