//! What went back of an attempt's money: refunds and disputes, each once, and their sum.

use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, RefundId};
use crate::money::Minor;
use crate::provider::{Dispute, DisputeState, Given, RefundState, VendorRefund};
use crate::refund::{Refund, RefundOrigin};
use crate::secret::Secret;
use crate::time::Time;
use crate::work::WorkKind;

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
    /// Refunds in the order in which they were ordered or told.
    pub refunds: Vec<Refund>,
    /// Disputes, likewise.
    pub disputes: Vec<Disputed>,
    /// The vendor's own sum, where it tells one.
    told: Minor,
    /// How many refunds were made of what the sum alone told.
    of_sum: u32,
}

/// What one report says of it.
#[derive(Clone, Copy, Debug)]
pub struct ReportedReturns<'a> {
    /// The vendor's own sum; none where the report says nothing of it.
    pub sum: Option<Minor>,
    /// Whether the vendor was asked just now, so that a lower sum than before is no old report.
    pub fresh: bool,
    /// Refunds told one by one.
    pub refunds: &'a [VendorRefund],
    pub disputes: &'a [Dispute],
}

/// A refund that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succeeded {
    pub id: RefundId,
    pub amount: Minor,
    /// Whether it was ordered here.
    pub ordered: bool,
    /// The line on the work list that it settles.
    pub line: Option<WorkKind>,
}

/// A refund ordered here that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    pub id: RefundId,
    pub amount: Minor,
    /// Whether it had succeeded before.
    pub late: bool,
    /// The line on the work list that it was to settle.
    pub line: Option<WorkKind>,
}

/// What a report or an answer added to what was known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Refunds that succeeded now, each told once.
    pub succeeded: Vec<Succeeded>,
    /// Refunds ordered here that failed now.
    pub failed: Vec<Failed>,
    /// Refunds that were thought never to have been made, and were.
    pub revived: Vec<RefundId>,
    /// Whether more money is gone than before.
    pub more: bool,
    /// Whether less is.
    pub less: bool,
    /// Disputes that were not known.
    pub disputes: usize,
    /// Disputes that were lost now.
    pub lost: usize,
}

impl Difference {
    /// Whether money was given back elsewhere.
    pub fn is_elsewhere(&self) -> bool {
        self.succeeded.iter().any(|refund| !refund.ordered)
    }
}

impl Returns {
    /// Refunds, and likewise disputes, kept of one attempt: no merchant makes more of one payment. Where
    /// there are more, the vendor's own sum still counts them.
    pub const MOST: usize = 64;

    /// What was kept of an attempt before refunds were ordered here: each refund with its vendor's id where it
    /// has one, amount, state and the time since when it has it; disputes; the vendor's sum.
    pub fn of_before(
        refunds: impl IntoIterator<Item = (Option<String>, Minor, RefundState, Time)>,
        disputes: Vec<Disputed>,
        told: Minor,
        attempt: AttemptId,
    ) -> Self {
        let mut returns = Self {
            disputes,
            told,
            ..Self::default()
        };
        for (reference, amount, state, at) in refunds {
            let id = match &reference {
                Some(reference) => RefundId::derived(attempt, reference.as_bytes()),
                None => returns.id_of_sum(attempt),
            };
            returns
                .refunds
                .push(elsewhere(id, reference, amount, state, at));
        }
        returns
    }

    /// The id of the next refund that the sum alone tells.
    fn id_of_sum(&mut self, attempt: AttemptId) -> RefundId {
        let number = self.of_sum;
        self.of_sum = number.wrapping_add(1);
        RefundId::derived(attempt, &number.to_be_bytes())
    }

    /// Whether a refund that was ordered here has not ended.
    pub fn is_order_pending(&self) -> bool {
        self.refunds.iter().any(Refund::is_order_pending)
    }

    /// Everything that is gone: refunds that succeeded and disputes that were lost.
    pub fn total(&self) -> Minor {
        plus(self.refunded(), self.lost())
    }

    /// What was given back: refunds that succeeded.
    pub fn refunded(&self) -> Minor {
        self.sum_of(|refund| refund.state == RefundState::Succeeded)
    }

    /// What is gone or may go: refunds that have not failed, and disputes that were not won.
    pub fn committed(&self) -> Minor {
        let not_won = |disputed: &&Disputed| disputed.dispute.state != DisputeState::Won;
        let disputes = self.disputes.iter().filter(not_won);
        let disputed = sum(disputes.map(|disputed| disputed.dispute.amount));
        plus(self.sum_of(Refund::counts), disputed)
    }

    /// What of that was or is given back for a line of the work list.
    pub(crate) fn committed_for(&self, line: WorkKind) -> Minor {
        self.sum_of(|refund| refund.counts() && refund.is_for(line))
    }

    /// What was given back for a line of the work list.
    pub(crate) fn refunded_for(&self, line: WorkKind) -> Minor {
        self.sum_of(|refund| refund.state == RefundState::Succeeded && refund.is_for(line))
    }

    pub fn refund(&self, id: RefundId) -> Option<&Refund> {
        self.refunds.iter().find(|refund| refund.id == id)
    }

    pub(crate) fn refund_mut(&mut self, id: RefundId) -> Option<&mut Refund> {
        self.refunds.iter_mut().find(|refund| refund.id == id)
    }

    fn sum_of(&self, of: impl Fn(&Refund) -> bool) -> Minor {
        let counted = self.refunds.iter().filter(|refund| of(refund));
        sum(counted.map(|refund| refund.amount))
    }

    fn lost(&self) -> Minor {
        let lost = self
            .disputes
            .iter()
            .filter(|disputed| disputed.dispute.state == DisputeState::Lost);
        sum(lost.map(|disputed| disputed.dispute.amount))
    }

    /// Adds what a report about an attempt says.
    pub fn merge(
        &mut self,
        told: ReportedReturns<'_>,
        attempt: AttemptId,
        now: Time,
    ) -> Difference {
        let before = self.total();
        let mut difference = Difference::default();
        for refund in told.refunds {
            self.hear_of(refund, attempt, now, &mut difference);
        }
        for dispute in told.disputes {
            self.dispute(dispute, now, &mut difference);
        }
        if let Some(sum) = told.sum {
            self.told = if told.fresh { sum } else { self.told.max(sum) };
            if told.fresh {
                // What has failed by now is not in it.
                for refund in self.refunds.iter_mut().filter(|refund| !refund.counts()) {
                    refund.in_sum = Minor(0);
                }
            }
        }
        let fresh = told.fresh && told.sum.is_some();
        self.fit_sum(fresh, attempt, now, &mut difference);
        self.concluded(before, difference)
    }

    /// Adds what the vendor answered about a refund that was ordered here. None where there is no such
    /// order, or where the vendor names another refund's id.
    pub(crate) fn answer(
        &mut self,
        id: RefundId,
        given: &Given,
        attempt: AttemptId,
        now: Time,
    ) -> Option<Difference> {
        let before = self.total();
        let mut difference = Difference::default();
        let i = self.refunds.iter().position(|refund| refund.id == id)?;
        let is_others = |other: &Refund| {
            other.id != id
                && other.ordered.is_some()
                && other.reference.as_ref() == Some(&given.reference)
        };
        if self.refunds[i].ordered.is_none() || self.refunds.iter().any(is_others) {
            return None;
        }
        self.advance(i, given.state, &given.reference, now, &mut difference);
        if let Some(refund) = self.refund_mut(id) {
            refund.detail.clone_from(&given.detail);
            if let Some(url) = &given.claim_url {
                refund.claim_url = Some(Secret::new(url.as_str()));
            }
        }
        self.fit_sum(false, attempt, now, &mut difference);
        Some(self.concluded(before, difference))
    }

    fn concluded(&self, before: Minor, mut difference: Difference) -> Difference {
        let after = self.total();
        difference.more = after > before;
        difference.less = after < before;
        difference
    }

    /// A refund that the vendor tells by its id.
    fn hear_of(
        &mut self,
        told: &VendorRefund,
        attempt: AttemptId,
        now: Time,
        difference: &mut Difference,
    ) {
        let ordered = |refund: &Refund| refund.ordered.is_some() && refund.is_told_by(told);
        let known = self
            .refunds
            .iter()
            .position(ordered)
            .or_else(|| self.refunds.iter().position(|it| it.is_told_by(told)));
        if let Some(i) = known {
            let refund = &mut self.refunds[i];
            if refund.ordered.is_none() && rank(told.state) > rank(refund.state) {
                refund.amount = told.amount;
            }
            self.advance(i, told.state, &told.id, now, difference);
            return;
        }
        // What a sum told has got its id.
        let of_sum = |refund: &&mut Refund| {
            told.state == RefundState::Succeeded
                && refund.is_of_sum()
                && refund.amount == told.amount
        };
        if let Some(refund) = self.refunds.iter_mut().find(of_sum) {
            refund.reference = Some(told.id.clone());
            return;
        }
        if self.refunds.len() >= Self::MOST {
            return;
        }
        let id = RefundId::derived(attempt, told.id.as_bytes());
        let refund = elsewhere(id, Some(told.id.clone()), told.amount, told.state, now);
        if refund.state == RefundState::Succeeded {
            difference.succeeded.push(succeeded(&refund));
        }
        self.refunds.push(refund);
    }

    /// A vendor's word about a refund. A state never goes back: pending, succeeded, failed.
    fn advance(
        &mut self,
        i: usize,
        state: RefundState,
        reference: &str,
        now: Time,
        difference: &mut Difference,
    ) {
        let revived = self.refunds[i].never_was();
        // The first id of an order stays: were it replaced, a notice under it would be another refund's.
        let is_new = self.refunds[i].reference.is_none();
        self.refunds[i]
            .reference
            .get_or_insert_with(|| reference.to_owned());
        let twin = self.refunds.iter().position(|other| {
            other.ordered.is_none() && other.reference.as_deref() == Some(reference)
        });
        let (mut i, mut state, mut told_before) = (i, state, false);
        // What a notice told before the order's answer named it was the ordered refund.
        if let Some(twin) = twin.filter(|_| is_new && self.refunds[i].ordered.is_some()) {
            let twin_refund = self.refunds.remove(twin);
            i -= usize::from(twin < i);
            told_before = twin_refund.state == RefundState::Succeeded;
            let refund = &mut self.refunds[i];
            let in_sum = if told_before && self.told > Minor(0) {
                twin_refund.amount
            } else {
                twin_refund.in_sum
            };
            refund.in_sum = refund.amount.min(plus(refund.in_sum, in_sum));
            if rank(twin_refund.state) > rank(state) {
                state = twin_refund.state;
            }
        }
        let refund = &mut self.refunds[i];
        if !revived && rank(state) <= rank(refund.state) {
            return;
        }
        let late = refund.state == RefundState::Succeeded;
        (refund.state, refund.at) = (state, now);
        if refund.ordered.is_none() && (late || state == RefundState::Succeeded) {
            // The sum goes on holding one that fails until it is told anew.
            let holds = late && self.told > Minor(0);
            refund.in_sum = if holds { refund.amount } else { Minor(0) };
        }
        if let Some(ordered) = &mut refund.ordered {
            ordered.uncertain = false;
            ordered.next_at = (state == RefundState::Pending).then_some(now);
            if revived {
                difference.revived.push(refund.id);
            }
        }
        match state {
            RefundState::Succeeded if !told_before => difference.succeeded.push(succeeded(refund)),
            RefundState::Failed if refund.ordered.is_some() => {
                difference.failed.push(failed(refund, late));
            }
            _ => {}
        }
    }

    /// A decided dispute is not open again; one that was lost can be won after all.
    fn dispute(&mut self, told: &Dispute, now: Time, difference: &mut Difference) {
        let full = self.disputes.len() >= Self::MOST;
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

    /// Fits the vendor's sum and the refunds to one another. The sum holds lost disputes in full, and so it does
    /// refunds elsewhere that have ids and have succeeded. What it holds beyond them is put down to the other
    /// refunds that have ids, first to those ordered here: the vendor may count a refund before it is known to
    /// have succeeded, and go on counting it after it has failed. A sum that is not `fresh` may also be older
    /// than a refund's failure. What is left becomes refunds without an id of the vendor's. As much of these is
    /// removed as the sum no longer holds.
    fn fit_sum(&mut self, fresh: bool, attempt: AttemptId, now: Time, difference: &mut Difference) {
        let with_id = |refund: &Refund| {
            refund.ordered.is_none()
                && refund.reference.is_some()
                && refund.state == RefundState::Succeeded
        };
        let known = plus(self.sum_of(with_id), self.lost());
        let rest = self.told.0.saturating_sub(known.0);
        let put_down = sum(self.refunds.iter().map(|refund| refund.in_sum));
        let explained = plus(put_down, self.sum_of(Refund::is_of_sum)).0;
        if rest > explained {
            let mut missing = rest - explained;
            // An older sum can hold what has failed since.
            let turns = [(true, true), (false, true), (true, false), (false, false)];
            let turns = if fresh { &turns[..2] } else { &turns };
            for (is_ordered, alive) in turns {
                let takes = |refund: &&mut Refund| {
                    let succeeded = refund.state == RefundState::Succeeded;
                    (refund.ordered.is_some(), refund.counts()) == (*is_ordered, *alive)
                        && (*is_ordered || !succeeded)
                };
                for refund in self.refunds.iter_mut().filter(takes) {
                    let more = missing.min(refund.amount.0.saturating_sub(refund.in_sum.0));
                    refund.in_sum.0 += more;
                    missing -= more;
                }
            }
            self.give_elsewhere(Minor(missing), attempt, now, difference);
            return;
        }
        let mut surplus = explained - rest;
        self.take_down(&mut surplus, |refund| !refund.counts());
        let before = surplus;
        while surplus > 0
            && let Some(at) = self.refunds.iter().rposition(Refund::is_of_sum)
        {
            let amount = &mut self.refunds[at].amount.0;
            if *amount > surplus {
                *amount -= surplus;
                surplus = 0;
                break;
            }
            surplus -= *amount;
            self.refunds.remove(at);
        }
        // Refunds that were told as part of the sum before are not told again by their ids.
        let mut told = before - surplus;
        difference.succeeded.retain(|refund| {
            let again = !refund.ordered && refund.amount.0 <= told;
            told -= if again { refund.amount.0 } else { 0 };
            !again
        });
        self.take_down(&mut surplus, |_| true);
    }

    /// Takes as much of the sum off refunds as it no longer holds, the newest first, those elsewhere before
    /// those ordered here.
    fn take_down(&mut self, surplus: &mut u64, of: impl Fn(&Refund) -> bool) {
        for is_ordered in [false, true] {
            let is_it = |refund: &&mut Refund| refund.ordered.is_some() == is_ordered && of(refund);
            for refund in self.refunds.iter_mut().rev().filter(is_it) {
                let less = (*surplus).min(refund.in_sum.0);
                refund.in_sum.0 -= less;
                *surplus -= less;
            }
        }
    }

    /// Whether the sum may hold refunds that have failed: only an answer of the vendor's tells what else it
    /// holds.
    pub(crate) fn is_sum_in_doubt(&self) -> bool {
        let failed = |refund: &Refund| !refund.counts() && refund.in_sum > Minor(0);
        self.refunds.iter().any(failed)
    }

    /// The sum tells that more was given back elsewhere.
    fn give_elsewhere(
        &mut self,
        amount: Minor,
        attempt: AttemptId,
        now: Time,
        difference: &mut Difference,
    ) {
        if amount == Minor(0) {
            return;
        }
        let full = self.refunds.len() >= Self::MOST;
        let last = self.refunds.iter().rposition(Refund::is_of_sum);
        let refund = match last.filter(|_| full) {
            // A vendor that tells ever more makes no more refunds of it than there is room for.
            Some(last) => {
                let refund = &mut self.refunds[last];
                refund.amount = plus(refund.amount, amount);
                &self.refunds[last]
            }
            None => {
                let id = self.id_of_sum(attempt);
                self.refunds
                    .push(elsewhere(id, None, amount, RefundState::Succeeded, now));
                &self.refunds[self.refunds.len() - 1]
            }
        };
        difference.succeeded.push(Succeeded {
            amount,
            ..succeeded(refund)
        });
    }
}

fn elsewhere(
    id: RefundId,
    reference: Option<String>,
    amount: Minor,
    state: RefundState,
    now: Time,
) -> Refund {
    Refund {
        id,
        reference,
        amount,
        state,
        origin: RefundOrigin::Provider,
        at: now,
        created_at: now,
        claim_url: None,
        detail: String::new(),
        in_sum: Minor(0),
        ordered: None,
    }
}

fn succeeded(refund: &Refund) -> Succeeded {
    let ordered = refund.ordered.as_deref();
    Succeeded {
        id: refund.id,
        amount: refund.amount,
        ordered: ordered.is_some(),
        line: ordered.and_then(|ordered| ordered.line),
    }
}

pub(crate) fn failed(refund: &Refund, late: bool) -> Failed {
    Failed {
        id: refund.id,
        amount: refund.amount,
        late,
        line: refund.ordered.as_ref().and_then(|ordered| ordered.line),
    }
}

fn plus(one: Minor, other: Minor) -> Minor {
    Minor(one.0.saturating_add(other.0))
}

fn sum(amounts: impl Iterator<Item = Minor>) -> Minor {
    amounts.fold(Minor(0), plus)
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
    use crate::refund::Ordered;

    const NOW: Time = Time::from_secs(1);
    const ATTEMPT: AttemptId = AttemptId::from_bytes([1; 16]);

    fn refund(id: &str, amount: u64, state: RefundState) -> VendorRefund {
        VendorRefund {
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

    fn hear_refunds(returns: &mut Returns, refunds: &[VendorRefund]) -> Difference {
        let told = ReportedReturns {
            sum: None,
            fresh: false,
            refunds,
            disputes: &[],
        };
        returns.merge(told, ATTEMPT, NOW)
    }

    fn hear_disputes(returns: &mut Returns, disputes: &[Dispute]) -> Difference {
        let told = ReportedReturns {
            sum: None,
            fresh: false,
            refunds: &[],
            disputes,
        };
        returns.merge(told, ATTEMPT, NOW)
    }

    fn hear_sum(returns: &mut Returns, sum: u64, fresh: bool) -> Difference {
        let told = ReportedReturns {
            sum: Some(Minor(sum)),
            fresh,
            refunds: &[],
            disputes: &[],
        };
        returns.merge(told, ATTEMPT, NOW)
    }

    #[test]
    fn what_was_told_of_an_order_is_not_told_again_where_the_vendor_calls_it_otherwise() {
        let id = RefundId::from_bytes([2; 16]);
        let order = Ordered {
            key: None,
            all: true,
            reason: None,
            line: None,
            uncertain: true,
            last_sent: NOW,
            claimed_at: NOW,
            busy_until: None,
            next_at: Some(NOW),
            asked: 0,
        };
        let mut returns = Returns::default();
        returns.refunds.push(Refund {
            ordered: Some(Box::new(order)),
            ..elsewhere(id, None, Minor(10), RefundState::Pending, NOW)
        });
        let notice = [refund("first", 10, RefundState::Succeeded)];
        assert_eq!(hear_refunds(&mut returns, &notice).succeeded.len(), 1);
        for reference in ["first", "second"] {
            let given = Given {
                reference: reference.into(),
                state: RefundState::Pending,
                claim_url: None,
                detail: String::new(),
            };
            let told = returns.answer(id, &given, ATTEMPT, NOW).unwrap();
            assert!(told.succeeded.is_empty(), "{told:?}");
        }
        assert!(hear_refunds(&mut returns, &notice).succeeded.is_empty());
        assert_eq!(returns.total(), Minor(10));
    }

    #[test]
    fn refunds_are_summed_by_their_ids_whatever_is_told_twice() {
        let mut returns = Returns::default();
        let told = |id, amount| [refund(id, amount, RefundState::Succeeded)];
        assert_eq!(
            hear_refunds(&mut returns, &told("a", 10)).succeeded.len(),
            1
        );
        assert_eq!(
            hear_refunds(&mut returns, &told("b", 10)).succeeded.len(),
            1
        );
        assert_eq!(
            hear_refunds(&mut returns, &told("b", 10)).succeeded.len(),
            0
        );
        assert_eq!(hear_refunds(&mut returns, &told("c", 5)).succeeded.len(), 1);
        assert_eq!(returns.total(), Minor(25));
    }

    #[test]
    fn a_refund_that_fails_lowers_the_sum_and_the_next_one_counts_again() {
        let mut returns = Returns::default();
        hear_refunds(&mut returns, &[refund("a", 10, RefundState::Succeeded)]);
        let failed = hear_refunds(&mut returns, &[refund("a", 10, RefundState::Failed)]);
        assert!(failed.less && failed.succeeded.is_empty());
        // The older news comes last.
        hear_refunds(&mut returns, &[refund("a", 10, RefundState::Succeeded)]);
        assert_eq!(returns.total(), Minor(0));
        let again = hear_refunds(&mut returns, &[refund("b", 10, RefundState::Succeeded)]);
        assert_eq!((again.succeeded.len(), returns.total()), (1, Minor(10)));
    }

    #[test]
    fn a_sum_grows_by_any_news_and_shrinks_by_an_answer_alone() {
        let mut returns = Returns::default();
        assert_eq!(hear_sum(&mut returns, 10, false).succeeded.len(), 1);
        assert_eq!(hear_sum(&mut returns, 0, false), Difference::default());
        assert_eq!(hear_sum(&mut returns, 25, false).succeeded.len(), 1);
        assert_eq!(returns.refunds.len(), 2);
        assert!(hear_sum(&mut returns, 4, true).less);
        assert_eq!(returns.total(), Minor(4));
        assert_eq!(hear_sum(&mut returns, 14, false).succeeded.len(), 1);
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
        let both = ReportedReturns {
            sum: Some(Minor(19)),
            fresh: true,
            refunds: &[refund("c", 9, RefundState::Succeeded)],
            disputes: &[],
        };
        assert_eq!(returns.merge(both, ATTEMPT, NOW).succeeded.len(), 1);
        assert_eq!(returns.total(), Minor(19));
    }

    #[test]
    fn a_dispute_counts_once_while_it_is_lost() {
        let mut returns = Returns::default();
        let mut hear = |state| hear_disputes(&mut returns, &[dispute("d", 50, state)]);
        assert_eq!(hear(DisputeState::Open).disputes, 1);
        assert_eq!(hear(DisputeState::Open), Difference::default());
        let lost = hear(DisputeState::Lost);
        assert!((lost.disputes, lost.lost, lost.more) == (0, 1, true) && lost.succeeded.is_empty());
        assert_eq!(hear(DisputeState::Open), Difference::default());
        assert!(hear(DisputeState::Won).less);
        assert!(hear(DisputeState::Lost).more);
        assert_eq!(returns.total(), Minor(50));
    }

    #[test]
    fn a_lost_dispute_within_the_providers_sum_is_counted_once() {
        let mut returns = Returns::default();
        let told = ReportedReturns {
            sum: Some(Minor(50)),
            fresh: true,
            refunds: &[],
            disputes: &[dispute("d", 50, DisputeState::Lost)],
        };
        let difference = returns.merge(told, ATTEMPT, NOW);
        assert_eq!(
            (returns.total(), difference.succeeded.len()),
            (Minor(50), 0)
        );
    }
}
