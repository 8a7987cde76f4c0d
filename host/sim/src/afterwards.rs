//! What happens once the money was taken, as people at the vendor's dashboard and payers' banks do it:
//! disputes, and refunds of `refund`.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    account::{Account, Unchanged},
    ids,
    money::Amount,
    refund::RefundState,
    session::{Conflict, Happened, Session, State},
};

/// How long the merchant may answer a dispute, in milliseconds.
const RESPOND_MS: u64 = 7 * 86_400_000;

/// Why payers dispute here, in words that every vendor has some of its own for.
const REASON: &str = "fraudulent";

/// What can be made to happen to a payment that was paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Later {
    /// The merchant gives money back in the vendor's dashboard.
    Refund,
    /// Money that was given back comes back to the merchant.
    RefundFails,
    /// The payer claims a refund that waits for it.
    Claim,
    /// The payer disputes. Of a dispute that is open the vendor tells again.
    Dispute,
    /// The open dispute ends for the merchant.
    DisputeWon,
    /// It ends for the payer, who gets the money.
    DisputeLost,
}

/// What an id is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Refund,
    Dispute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DisputeState {
    Open,
    Won,
    Lost,
}

/// A payer's objection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dispute {
    /// The vendor's id of it.
    pub(crate) id: String,
    pub(crate) amount: Amount,
    pub(crate) state: DisputeState,
    pub(crate) reason: String,
    /// Until when the merchant may answer it, in milliseconds.
    pub(crate) respond_by: u64,
    pub(crate) opened_at: u64,
    pub(crate) updated_at: u64,
}

impl Session {
    /// Refunds and disputes one payment can have; a script that wants more is out of control.
    pub(crate) const MOST_PARTS: usize = 100;

    /// The payer wants what was not given back from his bank; of a dispute that is open the vendor
    /// tells again.
    ///
    /// # Errors
    /// [`Conflict`] where nothing can be disputed.
    pub(crate) fn dispute(&mut self, id: String, now: u64) -> Result<Happened, Conflict> {
        let amount = self.left();
        if self.open_dispute().is_some() {
            return Ok(Happened::Disputed);
        }
        let full = self.disputes.len() >= Self::MOST_PARTS;
        if self.state != State::Captured || amount.0 == 0 || full {
            return Err(Conflict);
        }
        self.disputes.push(Dispute {
            id,
            amount,
            state: DisputeState::Open,
            reason: REASON.to_owned(),
            respond_by: now.saturating_add(RESPOND_MS),
            opened_at: now,
            updated_at: now,
        });
        self.disputed = true;
        self.updated_at = now;
        Ok(Happened::Disputed)
    }

    /// The open dispute ends. One that is lost stays a disputed payment, and its money is gone, but for
    /// what was refunded meanwhile.
    ///
    /// # Errors
    /// [`Conflict`] where none is open, or all was refunded and there is nothing to lose.
    pub(crate) fn end_dispute(&mut self, won: bool, now: u64) -> Result<Happened, Conflict> {
        let left = self.left();
        let open = |dispute: &&mut Dispute| dispute.state == DisputeState::Open;
        let dispute = self.disputes.iter_mut().find(open).ok_or(Conflict)?;
        let (state, happened) = if won {
            (DisputeState::Won, Happened::DisputeWon)
        } else if left.0 == 0 {
            return Err(Conflict);
        } else {
            dispute.amount = dispute.amount.min(left);
            (DisputeState::Lost, Happened::DisputeLost)
        };
        dispute.state = state;
        dispute.updated_at = now;
        self.disputed = self.lost().0 > 0;
        self.updated_at = now;
        Ok(happened)
    }

    /// What was taken, and is neither given back nor about to be.
    pub(crate) fn left(&self) -> Amount {
        let received = self.received.as_ref().map_or(0, |money| money.value.0);
        let pending = self.refunded(RefundState::Pending);
        Amount(received.saturating_sub(self.given_back().0.saturating_add(pending.0)))
    }

    /// Refunds that were made, and disputes that were lost.
    pub(crate) fn given_back(&self) -> Amount {
        Amount(self.returned.0.saturating_add(self.lost().0))
    }

    /// What payers got through disputes.
    pub(crate) fn lost(&self) -> Amount {
        let lost = |dispute: &&Dispute| dispute.state == DisputeState::Lost;
        let amounts = self.disputes.iter().filter(lost);
        Amount(amounts.map(|dispute| dispute.amount.0).sum())
    }

    /// The dispute that was opened last: what news of a dispute is about.
    pub(crate) fn newest_dispute(&self) -> Option<&Dispute> {
        self.disputes.last()
    }

    /// The dispute that has not ended.
    pub(crate) fn open_dispute(&self) -> Option<&Dispute> {
        let open = |dispute: &&Dispute| dispute.state == DisputeState::Open;
        self.disputes.iter().find(open)
    }

    /// Ids of refunds and disputes.
    pub(crate) fn part_ids(&self) -> impl Iterator<Item = &str> {
        let refunds = self.refunds.iter().map(|refund| refund.id.as_str());
        let disputes = self.disputes.iter().map(|dispute| dispute.id.as_str());
        refunds.chain(disputes)
    }
}

impl Account {
    /// Makes something happen to a payment that was paid, as a person at the vendor's dashboard or
    /// the payer's bank would. Without an amount all that is left is refunded, without a refund's id
    /// the newest one fails.
    pub(crate) async fn later(
        self: &Arc<Self>,
        reference: String,
        later: Later,
        amount: Option<Amount>,
        refund: Option<String>,
    ) -> Result<Session, Unchanged> {
        self.alter(reference, move |session, account, now| {
            if !account.vendor.knows(later) {
                return Err(Conflict.into());
            }
            let happened = match later {
                Later::Refund => {
                    let amount = amount.unwrap_or_else(|| session.left());
                    account.refund(session, now, amount)?
                }
                Later::RefundFails => session.fail_refund(refund.as_deref(), now)?,
                Later::Claim => session.claim_refund(now)?,
                Later::Dispute => {
                    let id = account.part_id(session, Part::Dispute);
                    session.dispute(id, now)?
                }
                Later::DisputeWon => session.end_dispute(true, now)?,
                Later::DisputeLost => session.end_dispute(false, now)?,
            };
            Ok(Some(happened))
        })
        .await
    }

    /// The next refund's or dispute's id. It follows from the payment, so that nothing can fail.
    pub(crate) fn part_id(&self, session: &Session, part: Part) -> String {
        let number = match part {
            Part::Refund => session.refunds.len(),
            Part::Dispute => session.disputes.len(),
        };
        let seed = format!("{} {} {part:?} {number}", session.token, session.reference);
        self.vendor.part_id(part, &ids::derived(&seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::session;

    fn paid() -> Session {
        let mut s = session();
        let due = s.due.clone();
        s.approve(1, Some(due)).unwrap();
        s
    }

    #[test]
    fn an_open_dispute_is_told_again_under_its_id_and_ends_once() {
        let mut s = paid();
        assert_eq!(s.end_dispute(true, 2), Err(Conflict));
        s.refund("r1".into(), 2, Amount(990), None).unwrap();
        s.dispute("d1".into(), 3).unwrap();
        assert_eq!(s.dispute("d2".into(), 4), Ok(Happened::Disputed));
        let dispute = s.newest_dispute().unwrap();
        assert_eq!((dispute.id.as_str(), dispute.amount), ("d1", Amount(4000)));
        assert_eq!(dispute.respond_by, 3 + RESPOND_MS);
        assert_eq!(s.end_dispute(true, 5), Ok(Happened::DisputeWon));
        assert_eq!((s.disputed, s.given_back()), (false, Amount(990)));
        assert_eq!(s.end_dispute(false, 6), Err(Conflict));
    }

    #[test]
    fn a_lost_dispute_takes_the_money_and_leaves_none_to_give_back() {
        let mut s = paid();
        s.dispute("d1".into(), 2).unwrap();
        assert_eq!(s.end_dispute(false, 3), Ok(Happened::DisputeLost));
        assert_eq!((s.given_back(), s.returned), (Amount(4990), Amount(0)));
        assert_eq!((s.state, s.disputed), (State::Captured, true));
        assert_eq!(s.refund("r1".into(), 4, Amount(1), None), Err(Conflict));
        assert_eq!(s.dispute("d2".into(), 4), Err(Conflict));
    }

    #[test]
    fn a_lost_dispute_does_not_take_what_was_refunded_meanwhile() {
        let mut s = paid();
        s.dispute("d1".into(), 2).unwrap();
        s.refund("r1".into(), 3, Amount(990), None).unwrap();
        let mut all = s.clone();
        assert_eq!(s.end_dispute(false, 4), Ok(Happened::DisputeLost));
        assert_eq!((s.lost(), s.given_back()), (Amount(4000), Amount(4990)));
        all.refund("r2".into(), 4, Amount(4000), None).unwrap();
        assert_eq!(all.end_dispute(false, 5), Err(Conflict));
    }
}
