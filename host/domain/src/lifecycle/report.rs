//! What a vendor reports about an attempt that is the payment's own and still open.
//!
//! Unapplied lines of the timeline are bounded: a repeated or impossible report is written down once for
//! each way that it came and each status that it named, however often it comes.

use super::moves::StepLog;
use super::query_failed::sooner;
use super::{PaymentAggregate, Query, Refusal, StepOutcome, Via};
use crate::attempt::{AttemptState, VendorFacts};
use crate::id::AttemptId;
use crate::money::Minor;
use crate::payment::{Resolution, ReviewCause, Settlement, Status};
use crate::provider::{QueryPurpose, Report, VendorSettlement, VendorStatus};
use crate::returns::{Difference, ReportedReturns};
use crate::time::Time;

impl PaymentAggregate {
    pub(super) fn apply_report(
        &mut self,
        id: AttemptId,
        mut report: Report,
        via: Via,
        asked: Option<Query>,
        log: &mut StepLog<'_>,
    ) -> Result<StepOutcome, Refusal> {
        let i = self.index(id)?;
        let may_exceed = report.status == VendorStatus::Overpaid;
        if may_exceed {
            report.status = VendorStatus::Completed;
        }
        check(&report)?;
        self.refer(i, Some(&report.reference), log.change);
        let (before, asked_for) = (self.attempts[i].state, self.attempts[i].next_query);
        let returned = self.learn(i, &report, via, log);
        let happened = happened(&report, &returned);
        let account = &self.attempts[i].account;
        log.cause = format!("{}: {happened} at {account}", via.as_str());
        match before {
            AttemptState::Captured => self.own_money(i, &report, via, &returned, log),
            AttemptState::Surplus => self.surplus_money(i, &report, &returned, log),
            state if state.is_open() && self.is_own(i) => {
                self.apply_open(i, &report, may_exceed, log)
            }
            _ => self.late(i, &report, log),
        }
        if asked.is_some_and(|asked| asked.purpose == QueryPurpose::Capture)
            && report.status == VendorStatus::Review
        {
            self.refused(i, log);
        }
        self.pursue(log);
        let moved = self.attempts[i].state != before;
        if moved && log.change.transitions.is_empty() {
            self.remark(log);
        }
        let recorded = !log.change.transitions.is_empty();
        if !recorded {
            self.note(i, via, report.status, log);
        }
        if let Some(asked) = asked {
            self.answered_question(i, asked, moved, log);
        }
        // What a notice asked for is still due where this is older than the notice.
        let attempt = &mut self.attempts[i];
        if let Some(at) = asked_for.filter(|_| attempt.notices != attempt.notices_answered) {
            attempt.next_query = sooner(attempt.next_query, at);
        }
        Ok(if recorded {
            StepOutcome::Done
        } else {
            StepOutcome::Nothing
        })
    }

    /// Keeps what a report tells beside where the money is; what it adds to what went back.
    fn learn(&mut self, i: usize, report: &Report, via: Via, log: &mut StepLog<'_>) -> Difference {
        let attempt = &mut self.attempts[i];
        let taken = matches!(
            report.status,
            VendorStatus::Completed | VendorStatus::Review
        );
        // A report that names no amount says nothing of what went back.
        let tells = report.returned > Minor(0) || (taken && report.received > Minor(0));
        let told = ReportedReturns {
            sum: tells.then_some(report.returned),
            fresh: via != Via::Callback,
            refunds: &report.particulars.refunds,
            disputes: &report.particulars.disputes,
        };
        let difference = attempt.returns.merge(told, attempt.id, log.now);
        let total = attempt.returns.total();
        if let Some(facts) = &mut attempt.vendor {
            facts.returned = total;
        }
        for reference in attempt.particulars.learn(&report.particulars) {
            log.change.search_references.push((attempt.id, reference));
        }
        difference
    }

    /// Whether money on an open attempt would be the payment's own.
    fn is_own(&self, i: usize) -> bool {
        !self.payment.status.is_final() && self.captured().is_none_or(|own| own == i)
    }

    /// Writes a report that changed nothing down, once for each way and status.
    fn note(&mut self, i: usize, via: Via, status: VendorStatus, log: &mut StepLog<'_>) {
        if self.hear(i, via, status) {
            self.line(self.payment.status, aim(status), false, log);
        }
    }

    /// Remembers that such a report was written down; false where it was before.
    pub(super) fn hear(&mut self, i: usize, via: Via, status: VendorStatus) -> bool {
        let heard = &mut self.attempts[i].heard;
        let new = !heard.contains(&(via, status));
        if new {
            heard.push((via, status));
        }
        new
    }

    /// A question of ours was answered: the worker that held the attempt for it is done, and the
    /// schedule goes on where the answer ended nothing.
    fn answered_question(&mut self, i: usize, asked: Query, moved: bool, log: &mut StepLog<'_>) {
        self.answered_decision();
        self.let_go(i, asked);
        let attempt = &mut self.attempts[i];
        attempt.silences = 0;
        attempt.silent_since = None;
        if moved {
            attempt.hold_until = None;
            attempt.retries = 0;
        } else {
            self.hold(i, log.now);
        }
        let attempt = &mut self.attempts[i];
        attempt.notices_answered = asked.notices;
        if attempt.notices != asked.notices {
            return;
        }
        let unsettled = self.payment.status == Status::Completed
            && self.payment.settlement == Settlement::Pending;
        let waiting = match attempt.state {
            AttemptState::Captured => unsettled,
            AttemptState::Surplus => false,
            state => state.is_open() || attempt.is_undecided(),
        };
        if waiting {
            self.asked(i, log);
        } else {
            attempt.next_query = None;
        }
    }

    /// Keeps what the vendor said. That a settlement is pending takes nothing back that was said
    /// before.
    pub(super) fn keep(&mut self, i: usize, report: &Report, now: Time) {
        let attempt = &mut self.attempts[i];
        let known = attempt.vendor.as_ref().map(|facts| facts.settlement);
        let settlement = match (known, report.settlement) {
            (Some(known), VendorSettlement::Pending) => known,
            (_, new) => new,
        };
        let facts = VendorFacts {
            status: report.status,
            settlement,
            received: report.received,
            currency: report.currency.clone(),
            returned: attempt.returns.total(),
            detail: report.detail.clone(),
            at: now,
        };
        // A report without a difference is none: it does not even move the time.
        let same = |known: &VendorFacts| {
            VendorFacts {
                at: now,
                ..known.clone()
            } == facts
        };
        if !attempt.vendor.as_ref().is_some_and(same) {
            attempt.vendor = Some(facts);
        }
    }

    /// Applies a report of the payment's own open attempt. Where more was received than due, `may_exceed` says
    /// that the scheme lets the payer send more.
    fn apply_open(&mut self, i: usize, report: &Report, may_exceed: bool, log: &mut StepLog<'_>) {
        let state = self.attempts[i].state;
        let fresh = matches!(state, AttemptState::Open | AttemptState::Unknown);
        if report.status == VendorStatus::Pending && !fresh {
            return;
        }
        self.keep(i, report, log.now);
        match report.status {
            VendorStatus::Completed => self.take(i, may_exceed, log),
            _ if self.attempts[i].returns.total() > Minor(0) => {
                self.stop(i, ReviewCause::Refund, log)
            }
            VendorStatus::Pending => self.attempts[i].state = AttemptState::Open,
            VendorStatus::Processing => self.authorised(i, log),
            VendorStatus::VerificationPending => {
                self.attempts[i].state = AttemptState::VerificationPending;
                self.attempts[i].busy_until = None;
                self.follow(Status::VerificationPending, log);
            }
            VendorStatus::Review => self.stop(i, ReviewCause::Vendor, log),
            _ if self.attempts[i].holds_money() => self.stop(i, ReviewCause::Mismatch, log),
            denied => {
                self.attempts[i].detail.clone_from(&report.detail);
                let state = self.denied_as(i, denied, log.now);
                self.end(i, state, log);
            }
        }
    }

    /// Moves a payment that is under way along with its attempt.
    fn follow(&mut self, to: Status, log: &mut StepLog<'_>) {
        let under_way = matches!(
            self.payment.status,
            Status::Pending | Status::Processing | Status::VerificationPending
        );
        if under_way && self.payment.status != to {
            self.move_to(to, log);
        }
    }

    /// The payer has approved: captured next, unless a person has to look before. One that is being
    /// captured stays so, because only the answer to the capture tells.
    fn authorised(&mut self, i: usize, log: &mut StepLog<'_>) {
        if self.attempts[i].state == AttemptState::Capturing {
            return;
        }
        let attempt = &mut self.attempts[i];
        attempt.particulars.authorised_at.get_or_insert(log.now);
        if attempt.state != AttemptState::Processing {
            attempt.state = AttemptState::Processing;
            attempt.hold_until = None;
            attempt.retries = 0;
        }
        let told = self.attempts[i]
            .vendor
            .as_ref()
            .is_some_and(|facts| facts.received > Minor(0));
        if self.payment.risk_review {
            self.review(ReviewCause::Risk, log);
        } else if told && self.receipt_differs(i, false) {
            self.review(ReviewCause::Mismatch, log);
        } else {
            self.follow(Status::Processing, log);
        }
    }

    /// Something is odd at the vendor: a person looks. What an operator has had captured stays so until
    /// the capture is answered.
    fn stop(&mut self, i: usize, cause: ReviewCause, log: &mut StepLog<'_>) {
        let approved = self.waits_for(Resolution::Approve);
        let attempt = &mut self.attempts[i];
        if !(approved && attempt.state == AttemptState::Capturing && attempt.is_authorised()) {
            attempt.state = AttemptState::Review;
            attempt.busy_until = None;
        }
        self.review(cause, log);
    }

    /// The payment's money is taken.
    fn take(&mut self, i: usize, may_exceed: bool, log: &mut StepLog<'_>) {
        self.shut(i, AttemptState::Captured, log.now);
        let attempt = &mut self.attempts[i];
        attempt.particulars.captured_at.get_or_insert(log.now);
        let problem = if attempt.returns.total() > Minor(0) {
            Some(ReviewCause::Refund)
        } else if self.receipt_differs(i, may_exceed) {
            Some(ReviewCause::Mismatch)
        } else if self.payment.risk_review {
            Some(ReviewCause::Risk)
        } else {
            None
        };
        // What an operator decides completes with the decision, which may name the settlement.
        let operators = self.payment.status == Status::Review
            && (self.waiting().is_some()
                || !self.payment.review.is_some_and(ReviewCause::ends_by_vendor));
        match problem {
            Some(cause) => self.review(cause, log),
            None if operators => {}
            None => self.complete(None, log),
        }
    }

    /// Whether what was received is not what was due.
    fn receipt_differs(&self, i: usize, may_exceed: bool) -> bool {
        let attempt = &self.attempts[i];
        let Some(facts) = &attempt.vendor else {
            return false;
        };
        let amount = if may_exceed {
            facts.received < attempt.due.amount
        } else {
            facts.received != attempt.due.amount
        };
        amount || facts.currency != attempt.due.currency.code()
    }

    /// How an attempt ends of which the vendor says that no money can move any more.
    pub(super) fn denied_as(&self, i: usize, denied: VendorStatus, now: Time) -> AttemptState {
        match denied {
            VendorStatus::Failed => AttemptState::Failed,
            VendorStatus::Expired => AttemptState::Expired,
            _ => self.closed_as(i, now).unwrap_or(AttemptState::Declined),
        }
    }
}

/// Refuses reports that cannot be.
fn check(report: &Report) -> Result<(), Refusal> {
    let captured = report.status == VendorStatus::Completed;
    if report.reference.is_empty() {
        Err(Refusal::BadReport("a report without a reference"))
    } else if captured && report.received == Minor(0) {
        Err(Refusal::BadReport("a capture without an amount"))
    } else if report.currency.is_empty() && (captured || report.received > Minor(0)) {
        Err(Refusal::BadReport("an amount without a currency"))
    } else {
        Ok(())
    }
}

/// What a report says, in the timeline's words: what it adds, else where the payment stands.
const fn happened(report: &Report, returned: &Difference) -> &'static str {
    if !returned.succeeded.is_empty() {
        "refunded"
    } else if returned.lost > 0 {
        "dispute lost"
    } else if returned.disputes > 0 {
        "disputed"
    } else if returned.less || !returned.failed.is_empty() {
        "refund failed or dispute won"
    } else {
        match report.status {
            VendorStatus::Pending => "waiting for the payer",
            VendorStatus::Processing => "authorised",
            VendorStatus::VerificationPending => "paid, waiting for proof",
            VendorStatus::Review => "in review",
            VendorStatus::Completed | VendorStatus::Overpaid => "captured",
            VendorStatus::Declined => "declined",
            VendorStatus::Failed => "failed",
            VendorStatus::Cancelled => "cancelled",
            VendorStatus::Expired => "expired",
        }
    }
}

/// Where a report would have moved a payment, for lines that were not applied.
const fn aim(status: VendorStatus) -> Status {
    match status {
        VendorStatus::Pending => Status::Pending,
        VendorStatus::Processing => Status::Processing,
        VendorStatus::VerificationPending => Status::VerificationPending,
        VendorStatus::Review => Status::Review,
        VendorStatus::Completed | VendorStatus::Overpaid => Status::Completed,
        VendorStatus::Declined | VendorStatus::Cancelled | VendorStatus::Expired => Status::Created,
        VendorStatus::Failed => Status::Failed,
    }
}
