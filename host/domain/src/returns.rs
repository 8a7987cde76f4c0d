//! What went back of an attempt's money: refunds and disputes, each once, and their sum.

use serde::{Deserialize, Serialize};

use crate::money::Minor;
use crate::provider::{Dispute, DisputeState, ProviderRefund, RefundState};
use crate::time::Time;

/// Refunds, and likewise disputes, kept of one attempt: no merchant makes more of one payment. Where
/// there are more, the vendor's own sum still counts them.
const MOST: usize = 64;

/// One refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refunded {
    /// The vendor's id; none for what it tells as part of a sum alone.
    pub id: Option<String>,
    /// Minor units of the currency received.
    pub amount: Minor,
    /// What became of it.
    pub state: RefundState,
    /// When it came to be in that state, as far as the host heard.
    pub at: Time,
}

/// One dispute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disputed {
    /// As the vendor tells it.
    pub dispute: Dispute,
    /// When it came to be in that state, as far as the host heard.
    pub at: Time,
}

/// Everything that went back, or may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returns {
    /// Refunds in the order in which they were told.
    pub refunds: Vec<Refunded>,
    /// Disputes, likewise.
    pub disputes: Vec<Disputed>,
    /// The vendor's own sum, where it tells one.
    told: Minor,
}

/// What one report says of it.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The vendor's own sum; none where the report says nothing of it.
    pub sum: Option<Minor>,
    /// Whether the vendor was asked just now, so that a lower sum than before is no old report.
    pub fresh: bool,
    /// Refunds told one by one.
    pub refunds: &'a [ProviderRefund],
    /// Disputes.
    pub disputes: &'a [Dispute],
}

/// What a report added to what was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Refunds that succeeded.
    pub refunds: usize,
    /// Whether more money is gone than before.
    pub more: bool,
    /// Whether less is.
    pub less: bool,
    /// Disputes that were not known.
    pub disputes: usize,
    /// Disputes that were lost now.
    pub lost: usize,
}

impl Returns {
    /// Everything that is gone: refunds that succeeded and disputes that were lost.
    pub fn total(&self) -> Minor {
        Minor(self.refunded().0.saturating_add(self.lost().0))
    }

    fn refunded(&self) -> Minor {
        let succeeded = self
            .refunds
            .iter()
            .filter(|refund| refund.state == RefundState::Succeeded);
        sum(succeeded.map(|refund| refund.amount))
    }

    fn lost(&self) -> Minor {
        let lost = self
            .disputes
            .iter()
            .filter(|disputed| disputed.dispute.state == DisputeState::Lost);
        sum(lost.map(|disputed| disputed.dispute.amount))
    }

    /// Adds what a report says.
    pub fn merge(&mut self, told: Told<'_>, now: Time) -> Difference {
        let (before, refunded_before) = (self.total(), self.refunded());
        let mut difference = Difference::default();
        let mut named = 0;
        for refund in told.refunds {
            named += usize::from(self.refund(refund, now));
        }
        for dispute in told.disputes {
            self.dispute(dispute, now, &mut difference);
        }
        if let Some(sum) = told.sum {
            self.told = if told.fresh { sum } else { self.told.max(sum) };
        }
        let unnamed = self.fill(now);
        if self.refunded() > refunded_before {
            difference.refunds = named.saturating_sub(unnamed).max(1);
        }
        let after = self.total();
        difference.more = after > before;
        difference.less = after < before;
        difference
    }

    /// Whether a refund has succeeded with this. A state never goes back: pending, succeeded, failed.
    fn refund(&mut self, told: &ProviderRefund, now: Time) -> bool {
        let same = |known: &&mut Refunded| known.id.as_deref() == Some(told.id.as_str());
        let succeeded = told.state == RefundState::Succeeded;
        let full = self.refunds.len() >= MOST;
        match self.refunds.iter_mut().find(same) {
            Some(known) if rank(told.state) <= rank(known.state) => false,
            Some(known) => {
                (known.amount, known.state, known.at) = (told.amount, told.state, now);
                succeeded
            }
            None if full => false,
            None => {
                self.refunds.push(Refunded {
                    id: Some(told.id.clone()),
                    amount: told.amount,
                    state: told.state,
                    at: now,
                });
                succeeded
            }
        }
    }

    /// A decided dispute is not open again; one that was lost can be won after all.
    fn dispute(&mut self, told: &Dispute, now: Time, difference: &mut Difference) {
        let full = self.disputes.len() >= MOST;
        let known = self
            .disputes
            .iter_mut()
            .find(|known| known.dispute.id == told.id);
        match known {
            Some(known) => {
                let decided = known.dispute.state != DisputeState::Open;
                if decided && told.state == DisputeState::Open || known.dispute == *told {
                    return;
                }
                if known.dispute.state != told.state {
                    known.at = now;
                    difference.lost += usize::from(told.state == DisputeState::Lost);
                }
                let earlier = std::mem::replace(&mut known.dispute, told.clone());
                let dispute = &mut known.dispute;
                dispute.reason = dispute.reason.take().or(earlier.reason);
                dispute.respond_by = dispute.respond_by.or(earlier.respond_by);
            }
            None if full => {}
            None => {
                self.disputes.push(Disputed {
                    dispute: told.clone(),
                    at: now,
                });
                difference.disputes += 1;
                difference.lost += usize::from(told.state == DisputeState::Lost);
            }
        }
    }

    /// What the vendor's sum holds beyond the refunds and disputes that have ids becomes refunds
    /// without one; as many of those go as the sum no longer holds. How many went.
    fn fill(&mut self, now: Time) -> usize {
        let with_id = self
            .refunds
            .iter()
            .filter(|refund| refund.id.is_some() && refund.state == RefundState::Succeeded)
            .map(|refund| refund.amount);
        let known = sum(with_id).0.saturating_add(self.lost().0);
        let missing = self.told.0.saturating_sub(known);
        let without_id = |refund: &&Refunded| refund.id.is_none();
        let have = sum(self
            .refunds
            .iter()
            .filter(without_id)
            .map(|refund| refund.amount))
        .0;
        if missing > have {
            self.refunds.push(Refunded {
                id: None,
                amount: Minor(missing - have),
                state: RefundState::Succeeded,
                at: now,
            });
            return 0;
        }
        let (mut surplus, mut gone) = (have - missing, 0);
        while surplus > 0
            && let Some(at) = self.refunds.iter().rposition(|refund| refund.id.is_none())
        {
            let amount = &mut self.refunds[at].amount.0;
            if *amount > surplus {
                *amount -= surplus;
                break;
            }
            surplus -= *amount;
            self.refunds.remove(at);
            gone += 1;
        }
        gone
    }
}

fn sum(amounts: impl Iterator<Item = Minor>) -> Minor {
    Minor(amounts.fold(0, |sum, amount| sum.saturating_add(amount.0)))
}

const fn rank(state: RefundState) -> u8 {
    match state {
        RefundState::Pending => 0,
        RefundState::Succeeded => 1,
        RefundState::Failed => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1);

    fn refund(id: &str, amount: u64, state: RefundState) -> ProviderRefund {
        ProviderRefund {
            id: id.into(),
            order: None,
            amount: Minor(amount),
            state,
        }
    }

    fn dispute(id: &str, amount: u64, state: DisputeState) -> Dispute {
        Dispute {
            id: id.into(),
            amount: Minor(amount),
            state,
            reason: None,
            respond_by: None,
        }
    }

    fn hear_refunds(returns: &mut Returns, refunds: &[ProviderRefund]) -> Difference {
        let told = Told {
            sum: None,
            fresh: false,
            refunds,
            disputes: &[],
        };
        returns.merge(told, NOW)
    }

    fn hear_disputes(returns: &mut Returns, disputes: &[Dispute]) -> Difference {
        let told = Told {
            sum: None,
            fresh: false,
            refunds: &[],
            disputes,
        };
        returns.merge(told, NOW)
    }

    fn hear_sum(returns: &mut Returns, sum: u64, fresh: bool) -> Difference {
        let told = Told {
            sum: Some(Minor(sum)),
            fresh,
            refunds: &[],
            disputes: &[],
        };
        returns.merge(told, NOW)
    }

    #[test]
    fn refunds_are_summed_by_their_ids_whatever_is_told_twice() {
        let mut returns = Returns::default();
        let told = |id, amount| [refund(id, amount, RefundState::Succeeded)];
        assert_eq!(hear_refunds(&mut returns, &told("a", 10)).refunds, 1);
        assert_eq!(hear_refunds(&mut returns, &told("b", 10)).refunds, 1);
        assert_eq!(hear_refunds(&mut returns, &told("b", 10)).refunds, 0);
        assert_eq!(hear_refunds(&mut returns, &told("c", 5)).refunds, 1);
        assert_eq!(returns.total(), Minor(25));
    }

    #[test]
    fn a_refund_that_fails_lowers_the_sum_and_the_next_one_counts_again() {
        let mut returns = Returns::default();
        hear_refunds(&mut returns, &[refund("a", 10, RefundState::Succeeded)]);
        let failed = hear_refunds(&mut returns, &[refund("a", 10, RefundState::Failed)]);
        assert!(failed.less && failed.refunds == 0);
        // The older news comes last.
        hear_refunds(&mut returns, &[refund("a", 10, RefundState::Succeeded)]);
        assert_eq!(returns.total(), Minor(0));
        let again = hear_refunds(&mut returns, &[refund("b", 10, RefundState::Succeeded)]);
        assert_eq!((again.refunds, returns.total()), (1, Minor(10)));
    }

    #[test]
    fn a_sum_grows_by_any_news_and_shrinks_by_an_answer_alone() {
        let mut returns = Returns::default();
        assert_eq!(hear_sum(&mut returns, 10, false).refunds, 1);
        assert_eq!(hear_sum(&mut returns, 0, false), Difference::default());
        assert_eq!(hear_sum(&mut returns, 25, false).refunds, 1);
        assert_eq!(returns.refunds.len(), 2);
        assert!(hear_sum(&mut returns, 4, true).less);
        assert_eq!(returns.total(), Minor(4));
        assert_eq!(hear_sum(&mut returns, 14, false).refunds, 1);
        assert_eq!(returns.total(), Minor(14));
    }

    #[test]
    fn what_a_sum_told_is_not_counted_again_when_its_refunds_get_ids() {
        let mut returns = Returns::default();
        hear_sum(&mut returns, 10, false);
        let items = [
            refund("a", 4, RefundState::Succeeded),
            refund("b", 6, RefundState::Succeeded),
            refund("c", 9, RefundState::Pending),
        ];
        assert_eq!(hear_refunds(&mut returns, &items), Difference::default());
        assert_eq!((returns.total(), returns.refunds.len()), (Minor(10), 3));
        let both = Told {
            sum: Some(Minor(19)),
            fresh: true,
            refunds: &[refund("c", 9, RefundState::Succeeded)],
            disputes: &[],
        };
        assert_eq!(returns.merge(both, NOW).refunds, 1);
        assert_eq!(returns.total(), Minor(19));
    }

    #[test]
    fn a_dispute_counts_once_while_it_is_lost() {
        let mut returns = Returns::default();
        let mut hear = |state| hear_disputes(&mut returns, &[dispute("d", 50, state)]);
        assert_eq!(hear(DisputeState::Open).disputes, 1);
        assert_eq!(hear(DisputeState::Open), Difference::default());
        let lost = hear(DisputeState::Lost);
        assert!((lost.disputes, lost.lost, lost.more) == (0, 1, true) && lost.refunds == 0);
        assert_eq!(hear(DisputeState::Open), Difference::default());
        assert!(hear(DisputeState::Won).less);
        assert!(hear(DisputeState::Lost).more);
        assert_eq!(returns.total(), Minor(50));
    }

    #[test]
    fn a_lost_dispute_within_the_providers_sum_is_counted_once() {
        let mut returns = Returns::default();
        let told = Told {
            sum: Some(Minor(50)),
            fresh: true,
            refunds: &[],
            disputes: &[dispute("d", 50, DisputeState::Lost)],
        };
        let difference = returns.merge(told, NOW);
        assert_eq!((returns.total(), difference.refunds), (Minor(50), 0));
    }
}
