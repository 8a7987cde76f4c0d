//! Events after the capture that operators at the provider's dashboard and payers' banks cause: disputes, and the
//! refunds of `refund`.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    account::{Account, Unchanged},
    ids,
    money::Amount,
    refund::RefundState,
    session::{Conflict, Happened, Session, State},
};

/// Time in which the merchant may respond to a dispute, in milliseconds.
const RESPOND_MS: u64 = 7 * 86_400_000;

/// Reason of every simulated dispute; each provider has its own code for it.
const REASON: &str = "fraudulent";

/// An event of a paid payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Later {
    /// The merchant makes a refund in the provider's dashboard.
    Refund,
    /// A refund fails, and the money returns to the merchant.
    RefundFails,
    /// The payer claims a refund.
    Claim,
    /// The payer's bank requests information, without withdrawing money. For an open inquiry the callback is sent
    /// again.
    Inquiry,
    /// The payer disputes the payment; an open inquiry becomes a dispute. For an open dispute the callback is sent
    /// again.
    Dispute,
    /// The merchant wins the open dispute.
    DisputeWon,
    /// The payer wins the open dispute and receives the money.
    DisputeLost,
    /// The provider reverses a capture that it had confirmed.
    CaptureFails,
}

/// Kind of object that an id is for.
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

/// A payer's dispute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dispute {
    /// The provider's id.
    pub(crate) id: String,
    pub(crate) amount: Amount,
    pub(crate) state: DisputeState,
    /// Whether the payer's bank only requests information.
    #[serde(default)]
    pub(crate) inquiry: bool,
    pub(crate) reason: String,
    /// Deadline for the merchant's response, in milliseconds since 1970.
    pub(crate) respond_by: u64,
    pub(crate) opened_at: u64,
    pub(crate) updated_at: u64,
}

impl Session {
    /// Maximum number of refunds and of disputes of a payment; a script that needs more is faulty.
    pub(crate) const MOST_PARTS: usize = 100;

    /// The payer disputes the amount that was not refunded. For an open dispute the callback is sent again.
    ///
    /// # Errors
    /// [`Conflict`] if nothing can be disputed.
    pub(crate) fn dispute(
        &mut self,
        id: String,
        now: u64,
        inquiry: bool,
    ) -> Result<Happened, Conflict> {
        let amount = self.left();
        let open = |dispute: &&mut Dispute| dispute.state == DisputeState::Open;
        if let Some(dispute) = self.disputes.iter_mut().find(open) {
            if dispute.inquiry && !inquiry {
                dispute.inquiry = false;
                dispute.updated_at = now;
                self.updated_at = now;
            }
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
            inquiry,
            reason: REASON.to_owned(),
            respond_by: now.saturating_add(RESPOND_MS),
            opened_at: now,
            updated_at: now,
        });
        self.disputed = true;
        self.updated_at = now;
        Ok(Happened::Disputed)
    }

    /// Ends the open dispute. After a lost dispute the payment stays disputed and its money is lost, except for
    /// the amount refunded in the meantime.
    ///
    /// # Errors
    /// [`Conflict`] if there is no open dispute, or if it is lost and everything was refunded.
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
            // An inquiry takes no money.
            dispute.inquiry = false;
            (DisputeState::Lost, Happened::DisputeLost)
        };
        dispute.state = state;
        dispute.updated_at = now;
        self.disputed = self.lost().0 > 0;
        self.updated_at = now;
        Ok(happened)
    }

    /// The received amount, unless its capture was reversed, minus refunds (including pending ones) and lost
    /// disputes.
    pub(crate) fn left(&self) -> Amount {
        let stands = self
            .received
            .as_ref()
            .filter(|_| self.capture_failed_at.is_none());
        let received = stands.map_or(0, |money| money.value.0);
        let pending = self.refunded(RefundState::Pending);
        Amount(received.saturating_sub(self.given_back().0.saturating_add(pending.0)))
    }

    /// The amount of succeeded refunds and lost disputes.
    pub(crate) fn given_back(&self) -> Amount {
        Amount(self.returned.0.saturating_add(self.lost().0))
    }

    /// The amount of lost disputes.
    pub(crate) fn lost(&self) -> Amount {
        let lost = |dispute: &&Dispute| dispute.state == DisputeState::Lost;
        let amounts = self.disputes.iter().filter(lost);
        Amount(amounts.map(|dispute| dispute.amount.0).sum())
    }

    /// The newest dispute, which callbacks about disputes refer to.
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
    /// Causes an event of a paid payment, like an operator at the provider's dashboard or the payer's bank.
    /// Without an amount the rest is refunded; without a refund's id the newest one fails.
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
                Later::Inquiry
                | Later::Dispute
                | Later::DisputeWon
                | Later::DisputeLost
                | Later::CaptureFails => account.happen(session, later, now)?,
            };
            Ok(Some(happened))
        })
        .await
    }

    /// Causes an event that needs no further data.
    fn happen(&self, session: &mut Session, later: Later, now: u64) -> Result<Happened, Conflict> {
        match later {
            Later::Inquiry | Later::Dispute => {
                let id = self.part_id(session, Part::Dispute);
                session.dispute(id, now, later == Later::Inquiry)
            }
            Later::DisputeWon => session.end_dispute(true, now),
            Later::DisputeLost => session.end_dispute(false, now),
            Later::CaptureFails => session.fail_capture(now),
            Later::Refund | Later::RefundFails | Later::Claim => Err(Conflict),
        }
    }

    /// Causes the next scheduled event of a paid payment. `None` if nothing is due.
    pub(crate) fn ripen_upcoming(
        &self,
        session: &mut Session,
        now: u64,
        moved: bool,
    ) -> Option<Happened> {
        if session.state != State::Captured {
            return None;
        }
        let due = |(_, at): &(Later, Option<u64>)| at.map_or(moved, |at| at <= now);
        let at = session.upcoming.iter().position(due)?;
        let (later, _) = session.upcoming.remove(at);
        self.happen(session, later, now).ok()
    }

    /// The id of the next refund or dispute. It is derived from the payment, so this cannot fail.
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
        s.dispute("d1".into(), 3, false).unwrap();
        assert_eq!(s.dispute("d2".into(), 4, false), Ok(Happened::Disputed));
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
        s.dispute("d1".into(), 2, false).unwrap();
        assert_eq!(s.end_dispute(false, 3), Ok(Happened::DisputeLost));
        assert_eq!((s.given_back(), s.returned), (Amount(4990), Amount(0)));
        assert_eq!((s.state, s.disputed), (State::Captured, true));
        assert_eq!(s.refund("r1".into(), 4, Amount(1), None), Err(Conflict));
        assert_eq!(s.dispute("d2".into(), 4, false), Err(Conflict));
    }

    #[test]
    fn a_lost_dispute_does_not_take_what_was_refunded_meanwhile() {
        let mut s = paid();
        s.dispute("d1".into(), 2, false).unwrap();
        s.refund("r1".into(), 3, Amount(990), None).unwrap();
        let mut all = s.clone();
        assert_eq!(s.end_dispute(false, 4), Ok(Happened::DisputeLost));
        assert_eq!((s.lost(), s.given_back()), (Amount(4000), Amount(4990)));
        all.refund("r2".into(), 4, Amount(4000), None).unwrap();
        assert_eq!(all.end_dispute(false, 5), Err(Conflict));
    }

    #[test]
    fn an_inquiry_becomes_a_dispute_under_its_id() {
        let mut s = paid();
        s.dispute("d1".into(), 2, true).unwrap();
        assert!(s.newest_dispute().unwrap().inquiry);
        s.dispute("d2".into(), 3, true).unwrap();
        s.dispute("d2".into(), 4, false).unwrap();
        let dispute = s.newest_dispute().unwrap();
        assert_eq!((dispute.id.as_str(), dispute.inquiry), ("d1", false));
    }
}
