//! Reports of providers about attempts.
//!
//! Unapplied timeline entries are bounded: a repeated or impossible report adds one entry for each source and
//! status, however often it arrives.

use std::borrow::Cow;

use super::moves::StepLog;
use super::{PaymentAggregate, Query, Refusal, StepOutcome, Via};
use crate::attempt::{AttemptState, Stage};
use crate::funds::{CONFIRM_LOWER_SUM, Difference, Disputed, ReportedFunds};
use crate::id::AttemptId;
use crate::money::Minor;
use crate::movement::{Bucket, MovementKind};
use crate::payment::{Resolution, ReviewCause, Settlement, Status};
use crate::provider::{ProviderStatus, QueryPurpose, Report};

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
        let may_exceed = report.status == ProviderStatus::Overpaid;
        if may_exceed {
            report.status = ProviderStatus::Completed;
        }
        check(&report)?;
        self.refer(i, Some(&report.reference), log.change);
        let attempt = &self.attempts[i];
        let (before, asked_for) = (attempt.state(), attempt.queries.next());
        let returned = self.learn(i, &report, via, asked, log);
        let is_captured = asked.is_some_and(|asked| asked.purpose == QueryPurpose::Capture);
        if is_captured && report.particulars.authorised_at.is_none() {
            // The provider has accepted the capture: our clock no longer ends the authorization.
            self.attempts[i].particulars.capture_before = None;
        }
        let happened = happened(&report, &returned);
        let account = &self.attempts[i].account;
        log.cause = format!("{}: {happened} at {account}", via.as_str());
        self.post(i, returned.entries.clone(), log);
        match before {
            AttemptState::Captured => self.own_money(i, &report, &returned, log),
            AttemptState::Surplus => self.surplus_money(i, &report, &returned, log),
            state if state.is_open() && self.is_own(i) => {
                self.apply_open(i, &report, may_exceed, log)
            }
            _ => self.late(i, &report, log),
        }
        self.attempts[i].watch_authorization(asked.is_some(), log.now);
        if asked.is_some_and(|asked| asked.purpose == QueryPurpose::Capture)
            && report.status == ProviderStatus::Review
        {
            self.refused(i, log);
        }
        self.pursue(log);
        let moved = self.attempts[i].state() != before;
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
        if returned.lower {
            let at = log.now.after(CONFIRM_LOWER_SUM);
            self.attempts[i].queries.ask_by(at);
        }
        if via == Via::Callback && returned.has(MovementKind::CaptureReversed) {
            // A query in flight may not report it yet.
            self.attempts[i].queries.notice(log.now);
        }
        // If the report is older than a notice, the query for the notice is still due.
        let queries = &mut self.attempts[i].queries;
        if let Some(at) = asked_for.filter(|_| queries.has_new_notice()) {
            queries.ask_by(at);
        }
        Ok(if recorded {
            StepOutcome::Done
        } else {
            StepOutcome::Nothing
        })
    }

    /// Keeps what a report says of money and of other facts; returns what of it is new.
    fn learn(
        &mut self,
        i: usize,
        report: &Report,
        via: Via,
        asked: Option<Query>,
        log: &mut StepLog<'_>,
    ) -> Difference {
        let takes = !matches!(
            report.status,
            ProviderStatus::Pending
                | ProviderStatus::Processing
                | ProviderStatus::VerificationPending
        );
        let same = !self.attempts[i].funds.is_taken()
            || self.attempts[i].received_currency() == report.currency;
        // The answer to a query from before the notice of a reversal does not restore the capture.
        let queries = &self.attempts[i].queries;
        let is_older = asked.is_some_and(|asked| asked.notices != queries.notices());
        let is_current = !is_older || self.attempts[i].funds.reversed() == Minor::ZERO;
        let received =
            Some(report.received).filter(|sum| takes && same && is_current && *sum > Minor::ZERO);
        let bucket = self.bucket_of(i);
        let due = self.payment.due;
        let attempt = &mut self.attempts[i];
        let mut particulars = Cow::Borrowed(&report.particulars);
        if !same && attempt.funds.leave_known(particulars.to_mut()) {
            particulars.to_mut().unreadable.push(format!(
                "the provider lists amounts in {}, but {} was received",
                report.currency,
                attempt.received_currency()
            ));
        }
        if !is_current {
            particulars.to_mut().captures.clear();
        }
        let particulars = &*particulars;
        if !attempt.funds.is_taken() {
            attempt.funds.bucket = bucket;
        }
        // The currency must be known before anything is booked in it.
        let names_money = received.is_some() || !particulars.captures.is_empty();
        if names_money && !attempt.funds.is_taken() {
            if attempt.received_currency() != report.currency {
                attempt.funds.drop_unbooked_refunds();
            }
            match &mut attempt.vendor {
                Some(facts) => facts.currency.clone_from(&report.currency),
                None => attempt.record_facts(report, log.now),
            }
        }
        let attempt = &mut self.attempts[i];
        let mut references = vec![report.reference.clone()];
        references.extend(particulars.references.iter().cloned());
        // A report without an amount says nothing about returned money.
        let tells = (same && report.returned > Minor::ZERO) || received.is_some();
        let told = ReportedFunds {
            received,
            due: (report.currency == due.currency.code()).then_some(due.amount),
            captures: &particulars.captures,
            references: &references,
            captured_at: particulars.captured_at,
            returned: tells.then_some(report.returned),
            fresh: via != Via::Callback,
            refunds: &particulars.refunds,
            disputes: &particulars.disputes,
            fee: particulars.fee.as_ref(),
        };
        let difference = attempt.funds.merge(told, attempt.id, log.now);
        if via != Via::Callback || !particulars.unreadable.is_empty() {
            attempt
                .particulars
                .unreadable
                .clone_from(&particulars.unreadable);
        }
        for reference in attempt.particulars.learn(particulars) {
            log.change.search_references.push((attempt.id, reference));
        }
        difference
    }

    /// Bucket of an attempt's captures.
    fn bucket_of(&self, i: usize) -> Bucket {
        let attempt = &self.attempts[i];
        let over = matches!(
            self.payment.status,
            Status::Failed | Status::Expired | Status::Cancelled
        );
        match attempt.stage {
            Stage::Captured { .. } => Bucket::Own,
            Stage::Surplus { .. } => attempt.funds.bucket,
            Stage::Live { .. } if self.is_own(i) => Bucket::Own,
            _ if over => Bucket::Late,
            _ => Bucket::Surplus,
        }
    }

    /// Whether money on an open attempt would be the payment's own.
    fn is_own(&self, i: usize) -> bool {
        !self.payment.status.is_final() && self.captured().is_none_or(|own| own == i)
    }

    /// Adds an unapplied timeline entry for a report that changed nothing, once for each source and status.
    fn note(&mut self, i: usize, via: Via, status: ProviderStatus, log: &mut StepLog<'_>) {
        if self.hear(i, via, status) {
            self.line(self.payment.status, aim(status), false, log);
        }
    }

    /// Remembers that such a report is in the timeline. Returns false if it already was.
    pub(super) fn hear(&mut self, i: usize, via: Via, status: ProviderStatus) -> bool {
        let heard = &mut self.attempts[i].heard;
        let new = !heard.contains(&(via, status));
        if new {
            heard.push((via, status));
        }
        new
    }

    /// Records the answer to a query: ends the worker's claim, and advances the schedule if the answer was not
    /// final.
    fn answered_question(&mut self, i: usize, asked: Query, moved: bool, log: &mut StepLog<'_>) {
        self.answered_decision();
        if !self.attempts[i].query_answered(asked, moved, log.now) {
            return;
        }
        let unsettled = self.payment.status == Status::Completed
            && self.payment.settlement == Settlement::Pending;
        let attempt = &mut self.attempts[i];
        let waiting = match attempt.stage {
            Stage::Captured { .. } => unsettled,
            Stage::Surplus { .. } => false,
            Stage::Live { .. } => true,
            Stage::Ended { .. } => attempt.is_undecided(),
        };
        if waiting {
            self.asked(i, log);
        } else {
            attempt.queries.stop();
        }
    }

    /// Applies a report about the payment's own open attempt. `may_exceed`: the payment scheme lets payers send
    /// more than the due amount.
    fn apply_open(&mut self, i: usize, report: &Report, may_exceed: bool, log: &mut StepLog<'_>) {
        if report.status == ProviderStatus::Pending && !self.attempts[i].stage.is_starting() {
            return;
        }
        self.attempts[i].record_facts(report, log.now);
        match report.status {
            ProviderStatus::Completed => self.take(i, may_exceed, log),
            _ if self.obstacle(i).is_some() => {
                let cause = self.obstacle(i).unwrap_or(ReviewCause::Refund);
                self.stop(i, cause, log);
            }
            ProviderStatus::Pending => self.attempts[i].await_payer(None),
            ProviderStatus::Processing => self.authorised(i, log),
            ProviderStatus::VerificationPending => {
                self.attempts[i].await_proof();
                self.follow(Status::VerificationPending, log);
            }
            ProviderStatus::Review => self.stop(i, ReviewCause::Vendor, log),
            _ if self.attempts[i].holds_money() => self.stop(i, ReviewCause::Mismatch, log),
            denied => {
                self.attempts[i].detail.clone_from(&report.detail);
                let how = self.attempts[i].end_of_denial(denied, log.now);
                self.end(i, how, log);
            }
        }
    }

    /// Moves a payment in progress to the status of its attempt.
    fn follow(&mut self, to: Status, log: &mut StepLog<'_>) {
        let under_way = matches!(
            self.payment.status,
            Status::Pending | Status::Processing | Status::VerificationPending
        );
        if under_way && self.payment.status != to {
            self.move_to(to, log);
        }
    }

    /// Records an authorization: it is captured next, unless a review is required. An attempt that is being
    /// captured stays so, because only the result of the capture can change it.
    fn authorised(&mut self, i: usize, log: &mut StepLog<'_>) {
        if !self.attempts[i].authorize(log.now) {
            return;
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

    /// Moves the payment to review because of the provider's report. A capture that an operator approved continues
    /// until it is answered.
    fn stop(&mut self, i: usize, cause: ReviewCause, log: &mut StepLog<'_>) {
        let approved = self.waits_for(Resolution::Approve);
        let attempt = &mut self.attempts[i];
        if !(approved && attempt.state() == AttemptState::Capturing && attempt.is_authorised()) {
            attempt.await_review();
        }
        self.review(cause, log);
    }

    /// Records a capture of the payment's money, and completes the payment if nothing prevents it.
    fn take(&mut self, i: usize, may_exceed: bool, log: &mut StepLog<'_>) {
        let attempt = &mut self.attempts[i];
        attempt.capture(log.now);
        attempt.particulars.captured_at.get_or_insert(log.now);
        let problem = if let Some(cause) = self.obstacle(i) {
            Some(cause)
        } else if self.receipt_differs(i, may_exceed) {
            Some(ReviewCause::Mismatch)
        } else if self.payment.risk_review {
            Some(ReviewCause::Risk)
        } else {
            None
        };
        // A review by an operator completes with the decision, which may name the settlement.
        let operators = self.payment.status == Status::Review
            && (self.waiting().is_some()
                || !self.payment.review.is_some_and(ReviewCause::ends_by_vendor));
        match problem {
            Some(cause) => self.review(cause, log),
            None if operators => {}
            None => self.complete(None, log),
        }
    }

    /// Reason not to complete with the attempt's money: a part was returned or is being refunded, a capture was
    /// reversed, or a dispute is open.
    fn obstacle(&self, i: usize) -> Option<ReviewCause> {
        let funds = &self.attempts[i].funds;
        let position = funds.total();
        let disputed = funds.disputes.iter().any(Disputed::is_open);
        if disputed || position.returned > Minor::ZERO && !funds.disputes.is_empty() {
            Some(ReviewCause::Dispute)
        } else if position.returned > Minor::ZERO || position.committed > Minor::ZERO {
            Some(ReviewCause::Refund)
        } else {
            None
        }
    }

    /// Whether the money received differs from the due amount or currency.
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
}

/// Rejects impossible reports.
fn check(report: &Report) -> Result<(), Refusal> {
    let captured = report.status == ProviderStatus::Completed;
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

/// Summary of a report for the timeline: its additions, else its status.
fn happened(report: &Report, returned: &Difference) -> &'static str {
    if returned.has(MovementKind::Refunded) {
        "refunded"
    } else if returned.has(MovementKind::FundsWithdrawn) {
        "disputed, money withdrawn"
    } else if returned.disputed {
        "disputed"
    } else if returned.has(MovementKind::CaptureReversed) {
        "capture taken back"
    } else if returned.has(MovementKind::RefundReversed) {
        "refund failed"
    } else if returned.has(MovementKind::FundsReinstated)
        || returned.has(MovementKind::DisputeClosed)
    {
        "dispute ended"
    } else {
        match report.status {
            ProviderStatus::Pending => "waiting for the payer",
            ProviderStatus::Processing => "authorised",
            ProviderStatus::VerificationPending => "paid, waiting for proof",
            ProviderStatus::Review => "in review",
            ProviderStatus::Completed | ProviderStatus::Overpaid => "captured",
            ProviderStatus::Declined => "declined",
            ProviderStatus::Failed => "failed",
            ProviderStatus::Cancelled => "cancelled",
            ProviderStatus::Expired => "expired",
        }
    }
}

/// Status to which a report would have moved the payment, for unapplied entries.
const fn aim(status: ProviderStatus) -> Status {
    match status {
        ProviderStatus::Pending => Status::Pending,
        ProviderStatus::Processing => Status::Processing,
        ProviderStatus::VerificationPending => Status::VerificationPending,
        ProviderStatus::Review => Status::Review,
        ProviderStatus::Completed | ProviderStatus::Overpaid => Status::Completed,
        ProviderStatus::Declined | ProviderStatus::Cancelled | ProviderStatus::Expired => {
            Status::Created
        }
        ProviderStatus::Failed => Status::Failed,
    }
}
