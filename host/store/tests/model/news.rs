//! The reference's news: what a provider's report means.

use kassette_domain::attempt::AttemptState;
use kassette_domain::event::EventType;
use kassette_domain::id::AttemptId;
use kassette_domain::ledger::{Refusal, Via};
use kassette_domain::payment::{ReviewCause, Settlement, Status};
use kassette_domain::provider::{Report, VendorSettlement, VendorStatus};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

use crate::law::{denies, is_open, is_over, is_providers, is_under_way};
use crate::payment::{Facts, Payment, Reply, Told};
use crate::steps::Asked;

/// What a report adds to what is known of money that was taken.
struct New {
    received: bool,
    returned: bool,
    disputed: bool,
}

impl Payment {
    pub(crate) fn news(
        &mut self,
        id: AttemptId,
        report: &Report,
        via: Via,
        now: Time,
        asked: Asked<'_>,
        told: &mut Told,
    ) -> Result<Reply, Refusal> {
        let at = self.find(id)?;
        let taken = report.status == VendorStatus::Completed;
        let unusable = report.reference.is_empty()
            || (taken && report.received.0 == 0)
            || ((taken || report.received.0 > 0) && report.currency.is_empty());
        if unusable {
            return Err(Refusal::BadNews("not usable"));
        }
        self.refer(at, &report.reference, told);
        let before = self.attempts[at].state;
        let own = !is_over(self.status) && self.captured().is_none_or(|own| own == at);
        match before {
            AttemptState::Captured => self.own_money(at, report, via, told),
            AttemptState::Surplus => self.other_money(at, report, told),
            state if is_open(state) && own => self.own_news(at, report, now, told),
            _ => self.late_news(at, report, now, told),
        }
        if self.attempts[at].state != before && told.lines == 0 {
            told.lines += 1;
        }
        let heeded = told.lines > 0;
        if !heeded {
            self.attempts[at].hears(via, report.status);
        }
        if via != Via::Callback {
            if self.attempts[at].closing {
                self.attempts[at].busy = None;
            }
            self.give_up(at, asked, told);
        }
        Ok(if heeded { Reply::Done } else { Reply::Nothing })
    }

    /// Keeps what was said; that a settlement is pending takes nothing back.
    fn keep(&mut self, at: usize, report: &Report) {
        let attempt = &mut self.attempts[at];
        let settlement = match (&attempt.facts, report.settlement) {
            (Some(known), VendorSettlement::Pending) => known.settlement,
            (_, said) => said,
        };
        attempt.given_back = attempt.given_back.max(report.returned.0);
        attempt.facts = Some(Facts {
            status: report.status,
            settlement,
            received: report.received.0,
            currency: report.currency.clone(),
            returned: report.returned.0,
        });
    }

    /// News of the payment's own open attempt.
    fn own_news(&mut self, at: usize, report: &Report, now: Time, told: &mut Told) {
        let waits = matches!(
            self.attempts[at].state,
            AttemptState::Open | AttemptState::Unknown
        );
        if report.status == VendorStatus::Pending && !waits {
            return;
        }
        self.keep(at, report);
        let odd = match report.status {
            VendorStatus::Completed => return self.take(at, told),
            _ if report.returned.0 > 0 => Some(ReviewCause::Refund),
            VendorStatus::Review => Some(ReviewCause::Vendor),
            said if denies(said) && self.attempts[at].holds_money() => Some(ReviewCause::Mismatch),
            _ => None,
        };
        if let Some(cause) = odd {
            self.attempts[at].state = AttemptState::Review;
            self.attempts[at].busy = None;
            return self.review(cause, told);
        }
        match report.status {
            VendorStatus::Pending => self.attempts[at].state = AttemptState::Open,
            VendorStatus::Processing => self.authorised(at, told),
            VendorStatus::VerificationPending => {
                self.attempts[at].state = AttemptState::VerificationPending;
                self.attempts[at].busy = None;
                self.follow(Status::VerificationPending, told);
            }
            denied => self.denied(at, denied, now, told),
        }
    }

    fn follow(&mut self, to: Status, told: &mut Told) {
        if is_under_way(self.status) && self.status != to {
            self.go(to, told);
        }
    }

    fn authorised(&mut self, at: usize, told: &mut Told) {
        if self.attempts[at].state == AttemptState::Capturing {
            return;
        }
        self.attempts[at].state = AttemptState::Processing;
        let named = self.attempts[at]
            .facts
            .as_ref()
            .is_some_and(|facts| facts.received > 0);
        if self.risky {
            self.review(ReviewCause::Risk, told);
        } else if named && self.attempts[at].differs() {
            self.review(ReviewCause::Mismatch, told);
        } else {
            self.follow(Status::Processing, told);
        }
    }

    /// The payment's money is taken.
    fn take(&mut self, at: usize, told: &mut Told) {
        self.attempts[at].shut(AttemptState::Captured);
        let attempt = &self.attempts[at];
        let operators = self.status == Status::Review
            && (attempt.approved || !self.cause.is_some_and(is_providers));
        if attempt.given_back > 0 {
            self.review(ReviewCause::Refund, told);
        } else if attempt.differs() {
            self.review(ReviewCause::Mismatch, told);
        } else if self.risky {
            self.review(ReviewCause::Risk, told);
        } else if !operators {
            self.complete(None, told);
        }
    }

    fn denied(&mut self, at: usize, denied: VendorStatus, now: Time, told: &mut Told) {
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
        let new = New {
            received: tells && report.received.0 > known.as_ref().map_or(0, |known| known.received),
            returned: report.returned.0 > attempt.given_back,
            disputed: report.status == VendorStatus::Review
                && known.is_none_or(|known| known.status != VendorStatus::Review),
        };
        if tells {
            self.keep(at, &report);
        } else if new.returned {
            attempt.given_back = report.returned.0;
            if let Some(facts) = &mut attempt.facts {
                facts.returned = report.returned.0;
            }
        }
        new
    }

    fn dispute(&mut self, at: usize, told: &mut Told) {
        let received = self.attempts[at]
            .facts
            .as_ref()
            .map_or(self.due.amount.0, |facts| facts.received);
        self.list(at, WorkKind::Dispute, received, told);
        told.lines += 1;
    }

    /// News of the attempt that holds the payment's money.
    fn own_money(&mut self, at: usize, report: &Report, via: Via, told: &mut Told) {
        let new = self.compare(at, report);
        if self.status != Status::Completed {
            if new.returned {
                self.review(ReviewCause::Refund, told);
                told.lines += 1;
            }
            return;
        }
        let proved = self.attempts[at].proves();
        let settles = self.settlement != Settlement::Confirmed
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
        if new.returned {
            let total = self.attempts[at].given_back;
            self.list(at, WorkKind::Refund, total, told);
            told.lines += 1;
            self.tell(EventType::PaymentRefunded, told);
        }
        if new.disputed {
            self.dispute(at, told);
            self.tell(EventType::PaymentDisputed, told);
        }
        let taken_back = denies(report.status)
            && !new.returned
            && self.settlement != Settlement::Confirmed
            && !self.attempts[at].has_heard(via, report.status);
        if taken_back {
            self.list(at, WorkKind::Unsettled, self.due.amount.0, told);
        }
    }

    /// News of money that is not the payment's: the merchant is told nothing.
    fn other_money(&mut self, at: usize, report: &Report, told: &mut Told) {
        let new = self.compare(at, report);
        if new.received {
            self.list(at, WorkKind::Surplus, report.received.0, told);
            told.lines += 1;
        }
        if new.returned {
            let total = self.attempts[at].given_back;
            self.list(at, WorkKind::Refund, total, told);
            told.lines += 1;
        }
        if new.disputed {
            self.dispute(at, told);
        }
    }

    /// News of an attempt that has ended, or that another attempt or the payment's end has overtaken.
    fn late_news(&mut self, at: usize, report: &Report, now: Time, told: &mut Told) {
        let open = is_open(self.attempts[at].state);
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
        attempt.state = match report.status {
            _ if !open => attempt.state,
            VendorStatus::Processing if attempt.state != AttemptState::Capturing => {
                AttemptState::Processing
            }
            VendorStatus::VerificationPending => AttemptState::VerificationPending,
            VendorStatus::Review => AttemptState::Review,
            _ => attempt.state,
        };
        if report.status != VendorStatus::Pending && self.status != Status::Completed {
            self.review(ReviewCause::LateMoney, told);
        }
    }
}
