//! Transitions of an attempt: each changes only the attempt and returns the consequences for the payment.

use std::time::Duration;

use super::{ClaimPurpose, PaymentAggregate, Query, QuerySchedule};
use crate::attempt::{
    Advanced, Attempt, AttemptState, AuthorizationWatch, Choice, Claim, Doubt, End, Live,
    PayerStep, ProviderFacts, Queries, Stage,
};
use crate::funds::Funds;
use crate::payment::Payment;
use crate::provider::{
    Particulars, PayerAction, ProviderSettlement, ProviderStatus, QueryPurpose, Report,
};
use crate::secret::Secret;
use crate::time::Time;

/// Delay of the query after an uncertain start: long enough for a slow request to have taken effect, short enough
/// for a payer who waits.
const FIRST_RETRY: Duration = Duration::from_secs(30);
/// Time after the last start from which "unknown to the provider" counts: no request lives longer.
pub(super) const ABSENT_AFTER: Duration = Duration::from_secs(120);
/// Interval of queries after the daily ones, if the provider has not decided about a declined payment.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// Time after the attempt's start at which these queries end.
const UNDECIDED_FOR: Duration = Duration::from_secs(180 * 24 * 3600);

/// Consequence of the provider's answer that it knows no such payment.
pub(super) enum Absence {
    /// It contradicts earlier reports, and so proves nothing.
    Contradicts,
    /// The attempt continues to wait, or had ended before.
    Nothing,
    /// A scheduled query was due while the payer answers the module's questions.
    Asked,
    /// The attempt ends. `was_known`: the provider had known it before.
    Ends { how: End, was_known: bool },
}

impl Attempt {
    /// A new attempt. Its first query is planned, in case its start is lost.
    pub(super) fn open(
        payment: &Payment,
        choice: Choice,
        now: Time,
        schedule: &QuerySchedule,
    ) -> Self {
        let expires_at = choice.expires_at.min(payment.expires_at);
        let id = choice.attempt;
        let first = schedule.turn(id.as_bytes(), now, Some(expires_at), 0);
        Self {
            id,
            payment: payment.id,
            account: choice.account,
            slot: choice.slot,
            digest: choice.digest,
            method: choice.method,
            due: payment.due,
            return_token: choice.return_token,
            opened_at: now,
            expires_at,
            stage: Stage::Live {
                state: Live::Open { uncertain: false },
                step: None,
                closing: false,
            },
            queries: Queries::new(now, first),
            claim: Claim::of_start(choice.busy_until),
            references: Vec::new(),
            answers: Vec::new(),
            payer: choice.payer,
            returned: None,
            vendor: None,
            funds: Funds::default(),
            particulars: Particulars::default(),
            authorization: AuthorizationWatch::None,
            heard: Vec::new(),
            detail: String::new(),
        }
    }

    /// Moves to another state in which money can still move.
    fn go_live(&mut self, to: Live) {
        let is_closing = self.stage.is_closing();
        let step = self.stage.take_step();
        self.stage = Stage::Live {
            state: to,
            step,
            closing: is_closing,
        };
    }

    fn set_closing(&mut self, value: bool) {
        if let Stage::Live { closing, .. } | Stage::Ended { closing, .. } = &mut self.stage {
            *closing = value;
        }
    }

    // ---- claims and starts -----------------------------------------------------------------------

    /// Claims the attempt for a call to the provider.
    pub(super) fn claim(&mut self, purpose: ClaimPurpose, until: Time) {
        match purpose {
            ClaimPurpose::Start => {
                // The task that started it is lost, and so is the outcome.
                if let Stage::Live {
                    state: Live::Open { uncertain },
                    ..
                } = &mut self.stage
                {
                    *uncertain = true;
                }
                // The attempt is wanted again: an earlier closing has ended.
                self.set_closing(false);
                self.claim.lift_hold();
                self.claim.take_for_start(until);
            }
            ClaimPurpose::Capture => {
                self.go_live(Live::Capturing);
                self.set_closing(false);
                self.claim.take(until);
            }
            ClaimPurpose::Cancel => {
                self.set_closing(true);
                self.claim.take(until);
            }
        }
    }

    /// Ends the claim of a worker whose query is done. If the worker was late, another task may have claimed the
    /// attempt, with a call in flight: that claim stays.
    pub(super) fn release(&mut self, asked: Query) {
        let holds = match asked.purpose {
            QueryPurpose::Capture => self.state() == AttemptState::Capturing,
            QueryPurpose::Cancel => self.stage.is_closing(),
            QueryPurpose::Sync => false,
        };
        if holds && self.claim.busy_until() == asked.held {
            self.claim.release();
        }
    }

    /// Records the answer to a start, for the task whose claim ended at `held`.
    pub(super) fn start_answered(&mut self, held: Option<Time>, now: Time) {
        let is_late = held.is_some() && self.claim.busy_until() != held;
        if !self.stage.is_closing() && !is_late {
            self.claim.release();
        }
        self.claim.start_answered(now);
    }

    /// Waits for the payer, whose next action is `next`: the provider has the payment, or the module asks
    /// questions. If the outcome of a start was unknown, it stays uncertain.
    pub(super) fn await_payer(&mut self, next: Option<PayerStep>) {
        let uncertain = self.stage.is_uncertain();
        self.go_live(Live::Open { uncertain });
        if let (Stage::Live { step, .. }, Some(next)) = (&mut self.stage, next) {
            *step = Some(next);
        }
    }

    /// Records that the outcome of a start is unknown: money may move, and the attempt stays open until the
    /// provider or a repeated start answers.
    pub(super) fn doubt_start(&mut self, detail: String, now: Time) {
        self.go_live(Live::Unknown);
        self.detail = detail;
        self.queries.ask_by(now.after(FIRST_RETRY));
    }

    /// Records the result of a start that a report preceded: the state from the report stays.
    pub(super) fn start_overtaken(&mut self, next: PayerStep, has_reference: bool, now: Time) {
        // The start is done; a capture or close that was claimed after it is not.
        let is_claimed = self.state() == AttemptState::Capturing || self.stage.is_closing();
        match &mut self.stage {
            Stage::Surplus { .. } => {}
            Stage::Live { step, .. } | Stage::Captured { step, .. } => {
                *step = Some(next);
                if !is_claimed {
                    self.claim.release();
                }
            }
            // It ended here, yet exists at the provider, which must report its state.
            Stage::Ended { .. } if has_reference => self.queries.ask_by(now),
            Stage::Ended { .. } => {}
        }
    }

    /// Adds a provider's id, newest first. Returns whether it is new.
    pub(super) fn add_reference(&mut self, reference: &str) -> bool {
        let is_known = self.references.iter().any(|known| known == reference);
        let is_new = !is_known && self.references.len() < PaymentAggregate::MAX_REFERENCES;
        if is_new {
            self.references.insert(0, reference.to_owned());
        }
        is_new
    }

    /// Records the payer's answers; a start with them follows.
    pub(super) fn answer_questions(
        &mut self,
        answers: Vec<(String, Secret)>,
        busy_until: Time,
        now: Time,
        schedule: &QuerySchedule,
    ) {
        for (name, answer) in answers {
            self.answers.retain(|(known, _)| *known != name);
            if self.answers.len() < PaymentAggregate::MAX_ANSWERS {
                self.answers.push((name, answer));
            }
        }
        self.stage.take_step();
        self.set_closing(false);
        self.claim.take_for_start(busy_until);
        let due = self.queries.next();
        // The provider learns of it only now. A query that a notification requested is still due.
        self.watch(now, schedule);
        if let Some(due) = due {
            self.queries.ask_by(due);
        }
    }

    // ---- reports ---------------------------------------------------------------------------------

    /// Stores the provider's report. A pending settlement does not revoke an earlier one.
    pub(super) fn record_facts(&mut self, report: &Report, now: Time) {
        let known = self.vendor.as_ref().map(|facts| facts.settlement);
        let settlement = match (known, report.settlement) {
            (Some(known), ProviderSettlement::Pending) => known,
            (_, new) => new,
        };
        // Money that was captured stays in its currency.
        let other = self
            .vendor
            .as_ref()
            .filter(|known| self.funds.is_taken() && known.currency != report.currency);
        let (received, currency) = other.map_or((report.received, &report.currency), |known| {
            (known.received, &known.currency)
        });
        let facts = ProviderFacts {
            status: report.status,
            settlement,
            received,
            currency: currency.clone(),
            detail: report.detail.clone(),
            at: now,
        };
        // A report without a difference does not even change the time.
        let same = |known: &ProviderFacts| {
            ProviderFacts {
                at: now,
                ..known.clone()
            } == facts
        };
        if !self.vendor.as_ref().is_some_and(same) {
            self.vendor = Some(facts);
        }
    }

    /// Records a report about the authorization's end: according to a query after the end, the money is still held,
    /// or the end has been extended.
    pub(super) fn watch_authorization(&mut self, is_answer: bool, now: Time) {
        let is_over = self.authorization_end().is_some_and(|end| end <= now);
        let later = self.particulars.capture_before.filter(|end| *end > now);
        let was_over = matches!(
            self.authorization,
            AuthorizationWatch::Asked | AuthorizationWatch::Held
        );
        if is_answer && is_over {
            self.authorization = AuthorizationWatch::Held;
        } else if was_over && later.is_some() {
            self.authorization = AuthorizationWatch::None;
        }
    }

    /// Records the payer's authorization. Returns false for an attempt that is being captured, which stays so:
    /// only the result of the capture can change it.
    pub(super) fn authorize(&mut self, now: Time) -> bool {
        if self.state() == AttemptState::Capturing {
            return false;
        }
        self.particulars.authorised_at.get_or_insert(now);
        if self.state() != AttemptState::Processing {
            self.go_live(Live::Processing);
            self.claim.retry_now();
        }
        true
    }

    /// Waits for proof of the payment at the provider.
    pub(super) fn await_proof(&mut self) {
        self.go_live(Live::VerificationPending);
        self.claim.release();
    }

    /// Waits for a review at the provider.
    pub(super) fn await_review(&mut self) {
        self.go_live(Live::Review);
        self.claim.release();
    }

    /// Applies the provider's status to an open attempt that is not the payment's own.
    pub(super) fn follow(&mut self, status: ProviderStatus) {
        match status {
            ProviderStatus::Processing if self.state() != AttemptState::Capturing => {
                self.go_live(Live::Processing);
            }
            ProviderStatus::VerificationPending => self.go_live(Live::VerificationPending),
            ProviderStatus::Review => self.go_live(Live::Review),
            _ => {}
        }
    }

    /// How an attempt ends if the provider reports that no money can move any longer.
    pub(super) fn end_of_denial(&self, denied: ProviderStatus, now: Time) -> End {
        match denied {
            ProviderStatus::Failed => End::Failed,
            ProviderStatus::Expired => End::Expired,
            ProviderStatus::Cancelled => self.end_of_closing(now).unwrap_or(End::Cancelled),
            _ => self.end_of_closing(now).unwrap_or(End::Declined),
        }
    }

    /// How an attempt ends that was claimed for closing. `None` if it was not.
    fn end_of_closing(&self, now: Time) -> Option<End> {
        self.stage
            .is_closing()
            .then_some(if now >= self.expires_at {
                End::Expired
            } else {
                End::Closed
            })
    }

    // ---- ends ------------------------------------------------------------------------------------

    /// Ends it without money.
    pub(super) fn end(&mut self, how: End, at: Time) {
        let closing = false;
        self.settle_as(Stage::Ended { how, at, closing });
    }

    /// Records that its money is captured as the payment's own.
    pub(super) fn capture(&mut self, at: Time) {
        let (step, doubt) = (self.stage.take_step(), None);
        self.settle_as(Stage::Captured { at, step, doubt });
    }

    /// Records that its money is not the payment's.
    pub(super) fn set_surplus(&mut self, at: Time) {
        self.settle_as(Stage::Surplus { at });
    }

    fn settle_as(&mut self, stage: Stage) {
        self.stage = stage;
        self.claim.end();
        self.queries.stop();
    }

    /// Makes captured money the payment's own, or surplus if another attempt replaces it.
    pub(super) fn hand_over(&mut self, own: bool) {
        self.stage = match self.stage {
            Stage::Surplus { at } if own => Stage::Captured {
                at,
                step: None,
                doubt: None,
            },
            Stage::Captured { at, .. } if !own => Stage::Surplus { at },
            _ => return,
        };
    }

    /// Marks the money of a completed payment as doubtful.
    pub(super) fn doubt_money(&mut self, new: Doubt) {
        if let Stage::Captured { doubt, .. } = &mut self.stage {
            *doubt = (*doubt).max(Some(new));
        }
    }

    // ---- queries ---------------------------------------------------------------------------------

    /// Restarts the schedule of queries from now.
    pub(super) fn watch(&mut self, now: Time, schedule: &QuerySchedule) {
        self.claim.reset_retries();
        let turn = self.turns(schedule);
        self.queries.restart(now, &turn);
    }

    /// Returns the time of a scheduled query by the schedule's start and the query's number.
    fn turns<'s>(
        &self,
        schedule: &'s QuerySchedule,
    ) -> impl Fn(Time, u8) -> Option<Time> + use<'s> {
        let (id, end) = (self.id, Some(self.expires_at).filter(|_| self.is_open()));
        move |from, number| schedule.turn(id.as_bytes(), from, end, number)
    }

    /// Advances the schedule after a query without a final answer, if one was due. Returns true after the last
    /// one.
    pub(super) fn query_sent(&mut self, now: Time, schedule: &QuerySchedule) -> bool {
        if !self.queries.is_due(now) {
            return false;
        }
        let turn = self.turns(schedule);
        match self.queries.advance(now, &turn) {
            Advanced::InTurn => false,
            Advanced::OutOfTurn(turn) => {
                self.queries.ask_at(self.claim.next_try(now).min(turn));
                false
            }
            Advanced::Last => true,
        }
    }

    /// Plans a weekly query after the last daily one, if the provider has not decided about the ended attempt.
    pub(super) fn watch_weekly(&mut self, now: Time) {
        let is_over = matches!(self.stage, Stage::Ended { .. }) && self.is_undecided();
        let (next, last) = (now.after(WEEK), self.opened_at.after(UNDECIDED_FOR));
        let daily = !self.queries.is_exhausted() || self.queries.next().is_some();
        if is_over && !daily && next <= last {
            self.queries.ask_at(next);
        }
    }

    /// Puts off a query that was due and had no answer, without counting it.
    pub(super) fn put_off(&mut self, now: Time) {
        if self.queries.is_due(now) {
            self.queries.ask_at(self.claim.next_try(now));
        }
    }

    /// Records an answer to a query. Returns true if no notification has arrived since the query.
    pub(super) fn query_answered(&mut self, asked: Query, moved: bool, now: Time) -> bool {
        self.release(asked);
        if moved {
            self.claim.retry_now();
        } else {
            self.claim.hold(now);
        }
        self.queries.answer(asked.notices)
    }

    /// Counts an unanswered query, if the attempt has expired or is captured. Returns true if an operator must
    /// decide: enough of them over a long enough time. Queries continue.
    pub(super) fn count_silence(&mut self, now: Time, schedule: &QuerySchedule) -> bool {
        let is_over = self.is_captured() || self.expires_at <= now;
        is_over && {
            let most = QuerySchedule::SILENCES;
            self.queries.count_silence(now, most, schedule.silence)
        }
    }

    /// Applies the provider's answer that it knows no such payment. `declined`: an operator's decline waits.
    pub(super) fn absent(&mut self, purpose: QueryPurpose, declined: bool, now: Time) -> Absence {
        let starting = self.stage.is_starting();
        let is_closing = self.stage.is_closing();
        let was_known = self.vendor.is_some() || !self.references.is_empty();
        match self.stage {
            Stage::Captured { .. } | Stage::Surplus { .. } => Absence::Contradicts,
            Stage::Ended { .. } => {
                self.queries.exhaust();
                Absence::Nothing
            }
            // The provider has not been called yet: the payer is still answering the module's questions.
            Stage::Live { .. }
                if starting
                    && matches!(self.action(), Some(PayerAction::Ask(_)))
                    && !(self.stage.is_uncertain() || is_closing)
                    && now < self.expires_at =>
            {
                Absence::Asked
            }
            // An operator's decline succeeds if the provider no longer knows the payment.
            Stage::Live { .. } if was_known && !(declined && is_closing) => Absence::Contradicts,
            Stage::Live { .. } => {
                let believed_at = self.claim.last_sent().after(ABSENT_AFTER);
                if starting && (now < believed_at || self.is_busy(now)) {
                    // The provider responds again: the start is repeated for the waiting payer, as right after a
                    // failed start.
                    if !is_closing && now < self.opened_at.after(ABSENT_AFTER) {
                        self.queries.watch_from(now);
                    }
                    let again = self.claim.next_try(now).max(believed_at);
                    self.queries.ask_at(again);
                    if purpose != QueryPurpose::Sync {
                        self.claim.hold_at(again);
                    }
                    return Absence::Nothing;
                }
                self.vendor = None;
                let how = self.end_of_closing(now).unwrap_or(End::Unavailable);
                Absence::Ends { how, was_known }
            }
        }
    }
}
