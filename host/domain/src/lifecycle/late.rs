//! Reports of money that was taken, and of attempts that are no longer the payment's own.

use super::moves::Log;
use super::{PaymentAggregate, Via};
use crate::attempt::AttemptState;
use crate::event::EventType;
use crate::money::Minor;
use crate::payment::{ReviewCause, Settlement, Status};
use crate::provider::{Report, VendorStatus};
use crate::returns::Difference;
use crate::work::WorkKind;

/// Whether a status says that no money can move any more.
const fn denies(status: VendorStatus) -> bool {
    matches!(
        status,
        VendorStatus::Declined
            | VendorStatus::Failed
            | VendorStatus::Cancelled
            | VendorStatus::Expired
    )
}

/// What is new in a report about money that was taken.
struct NewsOfMoney {
    /// More was received than before.
    received: bool,
    /// The vendor has a person look, and had not before.
    disputed: bool,
}

impl PaymentAggregate {
    /// Applies a report of the attempt that holds the payment's money: settlement, refunds, disputes.
    pub(super) fn own_money(
        &mut self,
        i: usize,
        report: &Report,
        via: Via,
        returned: &Difference,
        log: &mut Log<'_>,
    ) {
        let new = self.compare(i, report, log);
        if self.payment.status != Status::Completed {
            self.went_back(i, returned, log);
            return;
        }
        self.settle(i, log);
        let excess = self.excess(i);
        if new.received && excess > Minor(0) {
            let detail = "more was received than was due";
            self.work(i, WorkKind::Excess, excess, detail, log);
        }
        self.went_back(i, returned, log);
        for _ in 0..self.dispute(i, report, returned, new.disputed, log) {
            self.tell(EventType::PaymentDisputed, log);
        }
        let taken_back = denies(report.status) && !returned.more;
        if taken_back
            && self.payment.settlement != Settlement::Confirmed
            && !self.attempts[i].heard.contains(&(via, report.status))
        {
            self.unsettled(i, "the provider now says that nothing was taken", log);
        }
    }

    /// Applies a report of money that is not the payment's: the work list follows it, the merchant, whose
    /// money it is not, is told nothing.
    pub(super) fn surplus_money(
        &mut self,
        i: usize,
        report: &Report,
        returned: &Difference,
        log: &mut Log<'_>,
    ) {
        let new = self.compare(i, report, log);
        if new.received {
            let detail = "more money came that is not the payment's";
            self.work(i, WorkKind::Surplus, report.received, detail, log);
            self.remark_once(log);
        }
        self.went_back(i, returned, log);
        self.dispute(i, report, returned, new.disputed, log);
    }

    /// Keeps what a report adds to what is known of taken money. An older status that arrives late
    /// does not take the money back.
    fn compare(&mut self, i: usize, report: &Report, log: &Log<'_>) -> NewsOfMoney {
        let mut report = report.clone();
        let known = self.attempts[i].vendor.as_ref();
        // A dispute's report that names no amount says nothing about it.
        if let Some(known) = known.filter(|_| report.received == Minor(0)) {
            report.received = known.received;
            report.currency.clone_from(&known.currency);
        }
        let tells = matches!(
            report.status,
            VendorStatus::Completed | VendorStatus::Review
        );
        let taken = NewsOfMoney {
            received: tells && report.received > known.map_or(Minor(0), |facts| facts.received),
            disputed: report.status == VendorStatus::Review
                && known.is_none_or(|facts| facts.status != VendorStatus::Review),
        };
        if tells {
            self.keep(i, &report, log.now);
        }
        taken
    }

    /// Puts disputes on the work list and the timeline; how many are new. A vendor that names none and
    /// has a person look at taken money disputes it as well.
    fn dispute(
        &self,
        i: usize,
        report: &Report,
        returned: &Difference,
        looks: bool,
        log: &mut Log<'_>,
    ) -> usize {
        let unnamed = looks && report.particulars.disputes.is_empty();
        let new = returned.disputes + usize::from(unnamed);
        if new + returned.lost == 0 {
            return 0;
        }
        let disputed = report.particulars.disputes.last();
        let amount = disputed.map(|dispute| dispute.amount).unwrap_or_else(|| {
            let facts = self.attempts[i].vendor.as_ref();
            facts.map_or(self.attempts[i].due.amount, |facts| facts.received)
        });
        let detail = if returned.lost > 0 {
            "a dispute was lost: the provider has taken the money back"
        } else if unnamed {
            "the provider has a person look at money that was taken"
        } else {
            "the payer disputes the payment"
        };
        self.work(i, WorkKind::Dispute, amount, detail, log);
        self.remark_once(log);
        new
    }

    /// A line for what was recorded, where the step has none yet.
    pub(super) fn remark_once(&self, log: &mut Log<'_>) {
        if log.change.transitions.is_empty() {
            self.remark(log);
        }
    }

    /// Applies a report of an attempt that has ended, or that another attempt has overtaken.
    pub(super) fn late(&mut self, i: usize, report: &Report, log: &mut Log<'_>) {
        let attempt = &self.attempts[i];
        let changed = attempt
            .vendor
            .as_ref()
            .is_none_or(|facts| facts.status != report.status);
        let open = attempt.state.is_open();
        self.keep(i, report, log.now);
        // What an authorisation names as received is not taken yet.
        let money = report.status != VendorStatus::Processing && self.attempts[i].holds_money()
            || report.status == VendorStatus::Completed;
        if money {
            self.surplus(i, log);
            return;
        }
        match report.status {
            denied if denies(denied) && open => {
                let state = self.denied_as(i, denied, log.now);
                self.end(i, state, log);
            }
            denied if denies(denied) => self.attempts[i].next_query = None,
            _ => {
                if open {
                    self.show(i, report.status);
                } else if changed {
                    self.watch(i, log);
                }
                // What was known when the attempt ended leads to no second review.
                let coming = changed && report.status != VendorStatus::Pending;
                if coming && self.payment.status != Status::Completed {
                    self.review(ReviewCause::LateMoney, log);
                }
            }
        }
    }

    /// Shows on an open attempt that is not the payment's own what the vendor says.
    fn show(&mut self, i: usize, status: VendorStatus) {
        let attempt = &mut self.attempts[i];
        attempt.state = match status {
            VendorStatus::Processing if attempt.state != AttemptState::Capturing => {
                AttemptState::Processing
            }
            VendorStatus::VerificationPending => AttemptState::VerificationPending,
            VendorStatus::Review => AttemptState::Review,
            _ => return,
        };
    }

    /// Money that is not the payment's: on its attempt, on the work list, and before a person's eyes
    /// unless the payment is completed without it.
    pub(super) fn surplus(&mut self, i: usize, log: &mut Log<'_>) {
        let (kind, detail) = match self.payment.status {
            Status::Failed | Status::Expired | Status::Cancelled => {
                (WorkKind::Late, "money came after the payment was over")
            }
            _ => (WorkKind::Surplus, "money that is not the payment's"),
        };
        self.shut(i, AttemptState::Surplus, log.now);
        let received = self.attempts[i]
            .vendor
            .as_ref()
            .map_or(Minor(0), |facts| facts.received);
        self.work(i, kind, received, detail, log);
        if self.payment.status != Status::Completed {
            self.review(ReviewCause::LateMoney, log);
        }
    }
}
