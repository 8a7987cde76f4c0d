//! One payment in a vendor's books, and what may happen to it. Pure: time and faults are passed in.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    config::SimError,
    ids,
    money::{Amount, Money},
};

/// Where a payment stands, as `dev/books` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for the payer, or for nobody after its time.
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
    /// Captured, and somebody at the merchant's should look at it before delivering.
    InReview,
    Captured,
    /// Captured, and the payer wants it back.
    Disputed,
    Refunded,
    Closed,
    Expired,
}

/// What the payer can choose on the page; the last two after having paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Approve,
    Decline,
    Review,
    Pending,
    Refund,
    Dispute,
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
    Refunded,
    Disputed,
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
    pub(crate) disputed: bool,
    pub(crate) due: Money,
    /// What was captured, where anything was.
    pub(crate) received: Option<Money>,
    /// Given back so far, in the currency received.
    pub(crate) returned: Amount,
    pub(crate) method: String,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) return_url: String,
    pub(crate) cancel_url: String,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    /// Nobody can pay from then on.
    pub(crate) expires_at: u64,
    pub(crate) captured_times: u32,
    /// Idempotency key of the capture through the API.
    pub(crate) capture_key: Option<String>,
    /// Idempotency keys of refunds through the API with their amounts.
    pub(crate) refund_keys: Vec<(String, Amount)>,
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
    /// Refunds one payment can have; a script that wants more is out of control.
    pub(crate) const MOST_REFUNDS: usize = 100;

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
            captured_times: 0,
            capture_key: None,
            refund_keys: Vec::new(),
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
            self.expires_at = self.expires_at.max(now.saturating_add(MINUTE_MS));
        }
    }

    /// Where it stands now.
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
        match capture {
            Some(money) => self.take(now, money),
            None => {
                self.updated_at = now;
                Ok(Happened::Authorised)
            }
        }
    }

    /// The payer's try is declined. He may come back and try again until somebody closes it.
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
        self.state = State::Captured;
        self.received = Some(money);
        self.updated_at = now;
        Ok(Happened::Captured)
    }

    /// The merchant calls it off. A declined one stays declined and can no longer be paid;
    /// calling off twice is the same as once.
    pub(crate) fn close(&mut self, now: u64) -> Result<(), Conflict> {
        match self.state {
            State::Open | State::Authorised => self.state = State::Closed,
            State::Declined | State::Closed => {}
            State::Captured | State::Refunded => return Err(Conflict),
        }
        self.payable = false;
        self.updated_at = now;
        Ok(())
    }

    /// Gives back a part, or all that is left.
    pub(crate) fn refund(&mut self, now: u64, amount: Amount) -> Result<Happened, Conflict> {
        let left = self.left();
        if self.state != State::Captured || amount.0 == 0 || amount > left {
            return Err(Conflict);
        }
        self.returned = Amount(self.returned.0.saturating_add(amount.0));
        if amount == left {
            self.state = State::Refunded;
        }
        self.updated_at = now;
        Ok(Happened::Refunded)
    }

    /// The payer wants the money back from his bank.
    pub(crate) fn dispute(&mut self, now: u64) -> Result<Happened, Conflict> {
        if self.state != State::Captured {
            return Err(Conflict);
        }
        self.disputed = true;
        self.updated_at = now;
        Ok(Happened::Disputed)
    }

    /// What was taken and not given back.
    pub(crate) fn left(&self) -> Amount {
        let received = self.received.as_ref().map_or(0, |money| money.value.0);
        Amount(received.saturating_sub(self.returned.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::open(Opening {
            reference: "sbx_1".into(),
            attempt_id: "a".into(),
            key: "k".into(),
            fingerprint: "f".into(),
            due: Money {
                value: Amount(4990),
                currency: "EUR".into(),
            },
            method: "ideal".into(),
            order: "o".into(),
            merchant: "m".into(),
            return_url: "https://x.example/".into(),
            cancel_url: "https://x.example/".into(),
            now: 0,
            expires_at: 100,
        })
        .unwrap()
    }

    #[test]
    fn money_is_taken_once() {
        let mut s = session();
        let due = s.due.clone();
        assert_eq!(s.approve(1, Some(due.clone())), Ok(Happened::Captured));
        assert_eq!(s.approve(2, Some(due.clone())), Err(Conflict));
        assert_eq!(s.capture(3, due), Err(Conflict));
        assert_eq!((s.captured_times, s.state), (1, State::Captured));
    }

    #[test]
    fn a_declined_payer_may_try_again_until_it_is_closed() {
        let mut s = session();
        s.decline(1).unwrap();
        let mut again = s.clone();
        assert_eq!(again.approve(2, None), Ok(Happened::Authorised));
        s.close(2).unwrap();
        assert_eq!(s.phase(3), Phase::Declined);
        assert_eq!(s.approve(3, None), Err(Conflict));
    }

    #[test]
    fn nobody_pays_after_the_end_but_an_authorisation_stands() {
        let mut s = session();
        assert_eq!(
            (s.phase(100), s.book_state(100)),
            (Phase::Expired, State::Closed)
        );
        assert_eq!(s.approve(100, None), Err(Conflict));
        s.approve(99, None).unwrap();
        let due = s.due.clone();
        assert_eq!(s.capture(200, due), Ok(Happened::Captured));
    }

    #[test]
    fn what_is_reopened_is_paid_once_and_money_is_never_reopened() {
        let mut s = session();
        let due = s.due.clone();
        s.close(1).unwrap();
        assert!(s.is_over(2));
        s.reopen(2);
        s.approve(2, Some(due.clone())).unwrap();
        s.reopen(3);
        assert_eq!(
            (s.approve(3, Some(due)), s.captured_times),
            (Err(Conflict), 1)
        );
    }

    #[test]
    fn a_held_payment_is_taken_once_and_let_go_once() {
        let mut s = session();
        let due = s.due.clone();
        assert_eq!(s.release(1), Err(Conflict));
        s.hold(1, due.clone()).unwrap();
        assert_eq!((s.phase(1), s.captured_times), (Phase::InReview, 1));
        assert_eq!(s.close(2), Err(Conflict));
        assert_eq!(s.capture(2, due), Err(Conflict));
        assert_eq!(s.release(3), Ok(Happened::Captured));
        assert_eq!((s.phase(3), s.captured_times), (Phase::Captured, 1));
        assert_eq!(s.release(4), Err(Conflict));
    }

    #[test]
    fn no_more_is_given_back_than_was_taken() {
        let mut s = session();
        let due = s.due.clone();
        s.approve(1, Some(due)).unwrap();
        assert_eq!(s.refund(2, Amount(4991)), Err(Conflict));
        s.refund(2, Amount(990)).unwrap();
        assert_eq!((s.state, s.left()), (State::Captured, Amount(4000)));
        s.refund(3, Amount(4000)).unwrap();
        assert_eq!(s.state, State::Refunded);
        assert_eq!(s.refund(4, Amount(1)), Err(Conflict));
    }

    #[test]
    fn what_was_captured_cannot_be_called_off() {
        let mut s = session();
        let due = s.due.clone();
        s.approve(1, Some(due)).unwrap();
        assert_eq!(s.close(2), Err(Conflict));
    }
}
