//! The reference's news: what a provider's report means.

use kassette_domain::attempt::AttemptState;
use kassette_domain::event::EventType;
use kassette_domain::id::AttemptId;
use kassette_domain::lifecycle::{Query, Refusal, Via};
use kassette_domain::payment::{Resolution, ReviewCause, Settlement, Status};
use kassette_domain::provider::{QueryPurpose, Report, VendorSettlement, VendorStatus};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::attempt::Facts;
use crate::law::{denies, is_open, is_over, is_providers, is_under_way};
use crate::payment::{Payment, Reply, StepReport};
use crate::returns::{Back, details};
use crate::steps::Exhausted;

/// What a report adds to what is known of money that was taken.
struct New {
    received: bool,
    /// The vendor has a person look, and had not before.
    looks: bool,
}

impl Payment {
    #[expect(clippy::too_many_arguments, reason = "what news consist of")]
    pub(crate) fn apply_report(
        &mut self,
        id: AttemptId,
        report: &Report,
        via: Via,
        asked: Option<Query>,
        now: Time,
        exhausted: Exhausted<'_>,
        told: &mut StepReport,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        let may_exceed = report.status == VendorStatus::Overpaid;
        let kept = Report {
            status: if may_exceed {
                VendorStatus::Completed
            } else {
                report.status
            },
            ..report.clone()
        };
        let report = &kept;
        let taken = report.status == VendorStatus::Completed;
        let unusable = report.reference.is_empty()
            || (taken && report.received.0 == 0)
            || ((taken || report.received.0 > 0) && report.currency.is_empty());
        if unusable {
            return Err(Refusal::BadReport("not usable"));
        }
        self.refer(at, &report.reference, told);
        let before = self.attempts[at].state;
        let back = self.learn(at, report, via, now, told);
        let own = !is_over(self.status) && self.captured().is_none_or(|own| own == at);
        match before {
            AttemptState::Captured => self.own_money(at, report, via, &back, told),
            AttemptState::Surplus => self.other_money(at, report, &back, told),
            state if is_open(state) && own => self.own_report(at, report, may_exceed, now, told),
            _ => self.late_report(at, report, now, told),
        }
        let captures = asked.is_some_and(|asked| asked.purpose == QueryPurpose::Capture);
        if captures && report.status == VendorStatus::Review {
            self.refuse(at, told);
        }
        self.pursue(now, told);
        if self.attempts[at].state != before && told.lines == 0 {
            told.lines += 1;
        }
        let recorded = told.lines > 0;
        if !recorded {
            self.attempts[at].hears(via, report.status);
        }
        if let Some(asked) = asked {
            self.count_for_decision(true, told);
            let attempt = &mut self.attempts[at];
            attempt.let_go(asked);
            attempt.hears_something();
            attempt.noticed &= asked.notices != attempt.notices;
            self.exhaust(at, exhausted, told);
        }
        Ok(if recorded {
            Reply::Done
        } else {
            Reply::Nothing
        })
    }

    /// Keeps what is told beside where the money is; says what went back.
    fn learn(
        &mut self,
        at: usize,
        report: &Report,
        via: Via,
        now: Time,
        told: &mut StepReport,
    ) -> Back {
        let attempt = &mut self.attempts[at];
        attempt.details.extend(details(&report.particulars));
        for name in &report.particulars.references {
            if !attempt.names.contains(name) {
                attempt.names.push(name.clone());
                told.names.push((attempt.id, name.clone()));
            }
        }
        attempt.returns.hear(report, via != Via::Callback, now)
    }

    /// Keeps what was said; that a settlement is pending takes nothing back.
    fn keep(&mut self, at: usize, report: &Report) {
        let attempt = &mut self.attempts[at];
        let settlement = match (&attempt.facts, report.settlement) {
            (Some(known), VendorSettlement::Pending) => known.settlement,
            (_, said) => said,
        };
        attempt.facts = Some(Facts {
            status: report.status,
            settlement,
            received: report.received.0,
            currency: report.currency.clone(),
        });
    }

    /// News of the payment's own open attempt.
    fn own_report(
        &mut self,
        at: usize,
        report: &Report,
        may_exceed: bool,
        now: Time,
        told: &mut StepReport,
    ) {
        let waits = matches!(
            self.attempts[at].state,
            AttemptState::Open | AttemptState::Unknown
        );
        if report.status == VendorStatus::Pending && !waits {
            return;
        }
        self.keep(at, report);
        let odd = match report.status {
            VendorStatus::Completed => return self.take(at, may_exceed, now, told),
            _ if self.attempts[at].returns.total() > 0 => Some(ReviewCause::Refund),
            VendorStatus::Review => Some(ReviewCause::Vendor),
            said if denies(said) && self.attempts[at].holds_money() => Some(ReviewCause::Mismatch),
            _ => None,
        };
        if let Some(cause) = odd {
            // What is being captured for an operator waits for the answer to that.
            let approved = self.waits() == Some(Resolution::Approve);
            let attempt = &mut self.attempts[at];
            let captures = attempt.state == AttemptState::Capturing && attempt.is_authorised();
            if !(approved && captures) {
                attempt.state = AttemptState::Review;
                attempt.busy = None;
            }
            return self.review(cause, told);
        }
        match report.status {
            VendorStatus::Pending => self.attempts[at].state = AttemptState::Open,
            VendorStatus::Processing => self.authorised(at, now, told),
            VendorStatus::VerificationPending => {
                self.attempts[at].state = AttemptState::VerificationPending;
                self.attempts[at].busy = None;
                self.follow(Status::VerificationPending, told);
            }
            denied => self.denied(at, denied, now, told),
        }
    }

    fn follow(&mut self, to: Status, told: &mut StepReport) {
        if is_under_way(self.status) && self.status != to {
            self.go(to, told);
        }
    }

    fn authorised(&mut self, at: usize, now: Time, told: &mut StepReport) {
        let attempt = &mut self.attempts[at];
        if attempt.state == AttemptState::Capturing {
            return;
        }
        attempt.state = AttemptState::Processing;
        attempt.notes("authorised", now);
        let named = self.attempts[at]
            .facts
            .as_ref()
            .is_some_and(|facts| facts.received > 0);
        if self.risky {
            self.review(ReviewCause::Risk, told);
        } else if named && self.attempts[at].differs(false) {
            self.review(ReviewCause::Mismatch, told);
        } else {
            self.follow(Status::Processing, told);
        }
    }

    /// The payment's money is taken.
    fn take(&mut self, at: usize, may_exceed: bool, now: Time, told: &mut StepReport) {
        let attempt = &mut self.attempts[at];
        attempt.shut(AttemptState::Captured);
        attempt.notes("captured", now);
        let attempt = &self.attempts[at];
        let operators = self.status == Status::Review
            && (self.waits().is_some() || !self.cause.is_some_and(is_providers));
        if attempt.returns.total() > 0 {
            self.review(ReviewCause::Refund, told);
        } else if attempt.differs(may_exceed) {
            self.review(ReviewCause::Mismatch, told);
        } else if self.risky {
            self.review(ReviewCause::Risk, told);
        } else if !operators {
            self.complete(None, now, told);
        }
    }

    fn denied(&mut self, at: usize, denied: VendorStatus, now: Time, told: &mut StepReport) {
        let state = match denied {
            VendorStatus::Failed => AttemptState::Failed,
            VendorStatus::Expired => AttemptState::Expired,
            _ => self.attempts[at]
                .closed(now)
                .unwrap_or(AttemptState::Declined),
        };
        self.end(at, state, now, told);
    }

    fn compare(&mut self, at: usize, report: &Report) -> New {
        let attempt = &mut self.attempts[at];
        let known = attempt.facts.clone();
        let mut report = report.clone();
        if report.received.0 == 0
            && let Some(known) = &known
        {
            report.received.0 = known.received;
            report.currency.clone_from(&known.currency);
        }
        let tells = matches!(
            report.status,
            VendorStatus::Completed | VendorStatus::Review
        );
        let known = attempt.facts.as_ref();
        let new = New {
            received: tells && report.received.0 > known.map_or(0, |known| known.received),
            looks: report.status == VendorStatus::Review
                && known.is_none_or(|known| known.status != VendorStatus::Review),
        };
        if tells {
            self.keep(at, &report);
        }
        new
    }

    /// Lists disputes that are new or lost; how many are new. A vendor that names none and has a person
    /// look at money that was taken disputes it too.
    fn dispute(
        &mut self,
        at: usize,
        report: &Report,
        back: &Back,
        looks: bool,
        told: &mut StepReport,
    ) -> usize {
        let disputes = &report.particulars.disputes;
        let new = back.disputes + usize::from(looks && disputes.is_empty());
        if new + back.lost > 0 {
            let received = self.attempts[at].facts.as_ref();
            let received = received.map_or(self.due.amount.0, |facts| facts.received);
            let amount = disputes.last().map_or(received, |last| last.amount.0);
            self.list(at, WorkKind::Dispute, amount, told);
            told.lines += 1;
        }
        new
    }

    /// News of the attempt that holds the payment's money.
    fn own_money(
        &mut self,
        at: usize,
        report: &Report,
        via: Via,
        back: &Back,
        told: &mut StepReport,
    ) {
        let new = self.compare(at, report);
        if self.status != Status::Completed {
            self.went_back(at, back, told);
            return;
        }
        let proved = self.attempts[at].proves();
        // Its word for money that it does not hold confirms no operator's.
        let holds = !self.vouched || self.attempts[at].net().is_some();
        let settles = holds
            && self.settlement != Settlement::Confirmed
            && proved != Settlement::Pending
            && proved != self.settlement;
        if settles {
            self.settlement = proved;
            told.lines += 1;
            if proved == Settlement::Confirmed {
                self.tell(EventType::PaymentCompleted, told);
            } else {
                self.list(at, WorkKind::Unsettled, self.due.amount.0, told);
            }
        }
        let excess = self.attempts[at].excess();
        if new.received && excess > 0 {
            self.list(at, WorkKind::Excess, excess, told);
        }
        self.went_back(at, back, told);
        for _ in 0..self.dispute(at, report, back, new.looks, told) {
            self.tell(EventType::PaymentDisputed, told);
        }
        let taken_back = denies(report.status)
            && !back.more
            && self.settlement != Settlement::Confirmed
            && !self.attempts[at].has_heard(via, report.status);
        if taken_back {
            self.list(at, WorkKind::Unsettled, self.due.amount.0, told);
        }
    }

    /// News of money that is not the payment's: the merchant is told nothing.
    fn other_money(&mut self, at: usize, report: &Report, back: &Back, told: &mut StepReport) {
        let new = self.compare(at, report);
        if new.received {
            self.list(at, WorkKind::Surplus, report.received.0, told);
            told.lines += 1;
        }
        self.went_back(at, back, told);
        self.dispute(at, report, back, new.looks, told);
    }

    /// News of an attempt that has ended, or that another attempt or the payment's end has overtaken.
    fn late_report(&mut self, at: usize, report: &Report, now: Time, told: &mut StepReport) {
        let open = is_open(self.attempts[at].state);
        let changed = self.attempts[at].said() != Some(report.status);
        self.keep(at, report);
        let taken = report.status == VendorStatus::Completed
            || (report.status != VendorStatus::Processing && self.attempts[at].holds_money());
        if taken {
            let kind = if matches!(
                self.status,
                Status::Failed | Status::Expired | Status::Cancelled
            ) {
                WorkKind::Late
            } else {
                WorkKind::Surplus
            };
            self.attempts[at].shut(AttemptState::Surplus);
            self.list(at, kind, report.received.0, told);
            if self.status != Status::Completed {
                self.review(ReviewCause::LateMoney, told);
            }
            return;
        }
        if denies(report.status) {
            if open {
                self.denied(at, report.status, now, told);
            }
            return;
        }
        let attempt = &mut self.attempts[at];
        if changed && !open {
            attempt.watch();
        }
        attempt.state = match report.status {
            _ if !open => attempt.state,
            VendorStatus::Processing if attempt.state != AttemptState::Capturing => {
                AttemptState::Processing
            }
            VendorStatus::VerificationPending => AttemptState::VerificationPending,
            VendorStatus::Review => AttemptState::Review,
            _ => attempt.state,
        };
        // What is known leads to no second review.
        let comes = changed && report.status != VendorStatus::Pending;
        if comes && self.status != Status::Completed {
            self.review(ReviewCause::LateMoney, told);
        }
    }
}
