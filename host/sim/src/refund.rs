//! The merchants' refunds: immediate or delayed, partial, and failing afterwards.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    account::{Account, Unchanged},
    afterwards::Part,
    amounts::REFUND_FAILS,
    capture::LATER_MS,
    fault::Fault,
    money::Amount,
    session::{Conflict, Happened, Session, State},
};

/// State of a refund, as shown by `dev/books`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefundState {
    /// Accepted, not executed yet.
    Pending,
    /// Refunded.
    #[default]
    Succeeded,
    /// Never sent, or returned.
    Failed,
    /// Cancelled by the merchant while it was pending.
    Cancelled,
}

/// End of a refund that the payer has to claim: never automatically.
pub(crate) const ON_CLAIM: u64 = u64::MAX;

/// The end of a pending refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    fails: bool,
    /// Time in milliseconds of the injected clock, or [`ON_CLAIM`]. `None`: when that clock is moved next.
    at: Option<u64>,
}

/// The merchant's request to the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    pub(crate) amount: Amount,
    /// The merchant's own reference of the refund: the gateway's refund id. `None` if the request contains none.
    pub(crate) order: Option<String>,
    /// Idempotency key, and a hash of the request.
    pub(crate) key: Option<String>,
    pub(crate) fingerprint: String,
    /// Further fields of the request that the provider returns.
    pub(crate) note: Option<String>,
}

/// A refund made by the merchant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refund {
    /// The provider's id.
    pub(crate) id: String,
    pub(crate) amount: Amount,
    #[serde(default)]
    pub(crate) state: RefundState,
    /// The state in the first answer.
    #[serde(default)]
    pub(crate) first: RefundState,
    /// Whether it was executed, even if it failed later.
    #[serde(default)]
    pub(crate) made: bool,
    /// Time of its execution, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) made_at: Option<u64>,
    /// Its end, while it is pending.
    #[serde(default)]
    pub(crate) ending: Option<Ending>,
    /// `None` for a refund made in the provider's dashboard.
    #[serde(default)]
    pub(crate) asked: Option<Asked>,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
}

impl Refund {
    /// A full refund that the provider made automatically.
    pub(crate) fn of_vendor(id: String, amount: Amount, at: u64) -> Self {
        Self {
            id,
            amount,
            state: RefundState::Succeeded,
            first: RefundState::Succeeded,
            made: true,
            made_at: Some(at),
            ending: None,
            asked: None,
            created_at: at,
            updated_at: at,
        }
    }

    /// The refund in the state of the first answer.
    pub(crate) fn at_first(&self) -> Self {
        Self {
            state: self.first,
            ..self.clone()
        }
    }

    /// The merchant's own reference.
    pub(crate) fn order(&self) -> Option<&str> {
        self.asked.as_ref()?.order.as_deref()
    }

    /// Whether it failed or was cancelled, so that it does not count.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, RefundState::Failed | RefundState::Cancelled)
    }

    /// Time of its automatic end; `Some(None)` if it waits for the clock. `None` if it has ended or waits for a
    /// claim.
    pub(crate) fn ends_at(&self) -> Option<Option<u64>> {
        let at = self.ending.as_ref().map(|ending| ending.at);
        at.filter(|at| *at != Some(ON_CLAIM))
    }

    /// Whether the payer has to claim it.
    pub(crate) fn waits_for_claim(&self) -> bool {
        let ending = self.ending.as_ref();
        ending.is_some_and(|ending| ending.at == Some(ON_CLAIM))
    }

    /// Mutable access to the value of [`Refund::ends_at`].
    pub(crate) fn ending_at(&mut self) -> Option<&mut Option<u64>> {
        let at = self.ending.as_mut().map(|ending| &mut ending.at);
        at.filter(|at| **at != Some(ON_CLAIM))
    }
}

/// Result of a refund through the API.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The refund was created.
    Made(Session, Refund),
    /// The key was used for an identical request.
    Replayed(Session, Refund),
    /// The key was used for a different request.
    Differs,
    /// There is no captured money.
    Unpaid,
    /// Everything is refunded, or pending.
    Nothing,
    /// The amount is higher than the rest. Contains the rest.
    TooMuch(Amount),
    /// `refund-refused`.
    Refused,
}

impl Session {
    /// Refunds a part or the rest: immediately, or later with an `ending`.
    ///
    /// # Errors
    /// [`Conflict`] if the amount is zero or more than the rest, the payment is not captured, or there are too many
    /// refunds.
    pub(crate) fn refund(
        &mut self,
        id: String,
        now: u64,
        amount: Amount,
        ending: Option<Ending>,
    ) -> Result<Happened, Conflict> {
        let full = self.refunds.len() >= Self::MOST_PARTS;
        if self.state != State::Captured || amount.0 == 0 || amount > self.left() || full {
            return Err(Conflict);
        }
        let first = match ending {
            Some(_) => RefundState::Pending,
            None => RefundState::Succeeded,
        };
        self.refund_told = self.refunds.len();
        self.refunds.push(Refund {
            state: RefundState::Pending,
            first,
            made: false,
            made_at: None,
            ending,
            ..Refund::of_vendor(id, amount, now)
        });
        self.updated_at = now;
        match first {
            RefundState::Succeeded => self.settle_refund(self.refund_told, first, now),
            _ => Ok(Happened::RefundPending),
        }
    }

    /// Accepts an impossible refund and marks it as failed.
    ///
    /// # Errors
    /// [`Conflict`] if there are too many already.
    pub(crate) fn refuse_refund(
        &mut self,
        id: String,
        now: u64,
        amount: Amount,
    ) -> Result<Happened, Conflict> {
        if self.refunds.len() >= Self::MOST_PARTS {
            return Err(Conflict);
        }
        self.refund_told = self.refunds.len();
        self.refunds.push(Refund {
            state: RefundState::Failed,
            first: RefundState::Pending,
            made: false,
            made_at: None,
            ..Refund::of_vendor(id, amount, now)
        });
        self.updated_at = now;
        Ok(Happened::RefundFailed)
    }

    /// Makes a pending or executed refund fail: the refund with this id, or the newest that has not failed.
    ///
    /// # Errors
    /// [`Conflict`] if there is none.
    pub(crate) fn fail_refund(&mut self, id: Option<&str>, now: u64) -> Result<Happened, Conflict> {
        let made = |refund: &Refund| !refund.has_failed() && id.is_none_or(|id| refund.id == id);
        let at = self.refunds.iter().rposition(made).ok_or(Conflict)?;
        self.settle_refund(at, RefundState::Failed, now)
    }

    /// The payer claims the newest refund that waits for a claim, and the provider pays.
    ///
    /// # Errors
    /// [`Conflict`] if there is none.
    pub(crate) fn claim_refund(&mut self, now: u64) -> Result<Happened, Conflict> {
        let waits = self.refunds.iter().rposition(Refund::waits_for_claim);
        self.settle_refund(waits.ok_or(Conflict)?, RefundState::Succeeded, now)
    }

    /// The merchant cancels a pending refund.
    ///
    /// # Errors
    /// [`Conflict`] if it is not pending.
    pub(crate) fn cancel_refund(&mut self, id: &str, now: u64) -> Result<Happened, Conflict> {
        let open = |refund: &Refund| refund.state == RefundState::Pending && refund.id == id;
        let at = self.refunds.iter().position(open).ok_or(Conflict)?;
        self.settle_refund(at, RefundState::Cancelled, now)
    }

    /// Ends one pending refund that is due or, with `moved`, waits for a change of the clock.
    pub(crate) fn ripen_refund(&mut self, now: u64, moved: bool) -> Option<Happened> {
        let due = |refund: &Refund| match refund.ends_at() {
            Some(at) => at.map_or(moved, |at| at <= now),
            None => false,
        };
        let at = self.refunds.iter().position(due)?;
        let state = match self.refunds.get(at)?.ending.as_ref()?.fails {
            true => RefundState::Failed,
            false => RefundState::Succeeded,
        };
        self.settle_refund(at, state, now).ok()
    }

    fn settle_refund(
        &mut self,
        at: usize,
        state: RefundState,
        now: u64,
    ) -> Result<Happened, Conflict> {
        let refund = self.refunds.get_mut(at).ok_or(Conflict)?;
        refund.state = state;
        if state == RefundState::Succeeded {
            refund.made = true;
            refund.made_at = Some(now);
        }
        refund.ending = None;
        refund.updated_at = now;
        self.refund_told = at;
        self.updated_at = now;
        self.returned = self.refunded(RefundState::Succeeded);
        let received = self.received.as_ref().map_or(0, |money| money.value.0);
        self.state = if received > 0 && self.given_back().0 >= received && self.returned.0 > 0 {
            State::Refunded
        } else {
            State::Captured
        };
        Ok(if state == RefundState::Succeeded {
            Happened::Refunded
        } else {
            Happened::RefundFailed
        })
    }

    /// The sum of the refunds in that state.
    pub(crate) fn refunded(&self, state: RefundState) -> Amount {
        let counted = self.refunds.iter().filter(|refund| refund.state == state);
        Amount(counted.map(|refund| refund.amount.0).sum())
    }

    /// The refund that changed last, which callbacks about refunds refer to.
    pub(crate) fn newest_refund(&self) -> Option<&Refund> {
        self.refunds.get(self.refund_told)
    }

    pub(crate) fn refund_of(&self, id: &str) -> Option<&Refund> {
        self.refunds.iter().find(|refund| refund.id == id)
    }
}

impl Account {
    /// Makes a refund for an operator at the provider's dashboard, with an id in the provider's format.
    ///
    /// # Errors
    /// As [`Session::refund`].
    pub(crate) fn refund(
        &self,
        session: &mut Session,
        now: u64,
        amount: Amount,
    ) -> Result<Happened, Conflict> {
        let id = self.part_id(session, Part::Refund);
        session.refund(id, now, amount, None)
    }

    /// Makes a refund that the merchant requests through the API, once per idempotency key during its lifetime
    /// `key_life_ms`. It is on the disk when this returns.
    ///
    /// # Errors
    /// [`Unchanged::Unknown`] and [`Unchanged::Books`].
    pub(crate) async fn give_back(
        self: &Arc<Self>,
        reference: &str,
        asked: Asked,
        key_life_ms: u64,
    ) -> Result<Outcome, Unchanged> {
        let reference = self
            .by_reference(reference)
            .ok_or(Unchanged::Unknown)?
            .reference;
        self.blocking(move |account| {
            account.change_books(|books, now| {
                let found = books.by_reference(&reference);
                let mut session = found.cloned().ok_or(Unchanged::Unknown)?;
                if let Some(known) = asked
                    .key
                    .as_deref()
                    .and_then(|key| books.by_refund_key(key))
                {
                    let same = |refund: &&Refund| {
                        let before = refund.asked.as_ref();
                        before.is_some_and(|before| before.key == asked.key)
                    };
                    let before = known.refunds.iter().rev().find(same);
                    let remembered =
                        before.filter(|made| now < made.created_at.saturating_add(key_life_ms));
                    if let Some(before) = remembered {
                        let fingerprint = before.asked.as_ref().map(|asked| &asked.fingerprint);
                        let replays = known.reference == session.reference
                            && fingerprint == Some(&asked.fingerprint);
                        return Ok(if replays {
                            (None, Outcome::Replayed(known.clone(), before.clone()))
                        } else {
                            (None, Outcome::Differs)
                        });
                    }
                }
                let amount = asked.amount;
                let not = match session.state {
                    State::Captured if session.left().0 == 0 => Some(Outcome::Nothing),
                    State::Refunded => Some(Outcome::Nothing),
                    State::Captured if amount > session.left() => {
                        Some(Outcome::TooMuch(session.left()))
                    }
                    State::Captured if account.faults.take(Fault::RefundRefused) => {
                        Some(Outcome::Refused)
                    }
                    State::Captured => None,
                    _ => Some(Outcome::Unpaid),
                };
                let id = account.part_id(&session, Part::Refund);
                let happened = match not {
                    Some(not) if !account.vendor.refuses_refunds_later() => return Ok((None, not)),
                    Some(_) => session.refuse_refund(id, now, amount),
                    None => {
                        let ending = account.ending(&session, now);
                        session.refund(id, now, amount, ending)
                    }
                };
                let happened = happened.map_err(|Conflict| Unchanged::Conflict)?;
                let made = session.refunds.last_mut().ok_or(Unchanged::Conflict)?;
                made.asked = Some(asked);
                let made = made.clone();
                let change = (session.clone(), Some(happened));
                Ok((Some(change), Outcome::Made(session, made)))
            })
        })
        .await
    }

    /// The end of a refund that is accepted now. `None` if it is executed immediately.
    fn ending(&self, session: &Session, now: u64) -> Option<Ending> {
        let fails = self.faults.take(Fault::RefundFails)
            || session.due.value == REFUND_FAILS && self.vendor.has_test_amounts();
        let late = self.faults.take(Fault::RefundLate);
        let usual = self.vendor.refunds_after_ms(session);
        if !fails && !late && usual == 0 {
            return None;
        }
        let at_once = usual == 0 || usual == ON_CLAIM && fails;
        let after = if at_once { LATER_MS } else { usual };
        Some(Ending {
            fails,
            at: (!late).then(|| now.saturating_add(after)),
        })
    }
}

#[cfg(test)]
mod tests;
