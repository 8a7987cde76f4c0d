//! From a vendor's word into the store, and what has to be done next: callback, return, poll and
//! operator all come through here.

use std::time::Duration;

use kassette_domain::attempt::AttemptState;
use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NextAction, PaymentAggregate, Query, Step, Via,
};
use kassette_domain::provider::{QueryPurpose, Report};
use kassette_store::{About, Fault, Stepped, Task};

use crate::Gateway;
use crate::reconcile::LOOK_EVERY;
use crate::vendor::QueryAnswer;

/// Actions done for one payment in one go: a capture, closing what is left, a last look, expiry, and
/// room for callbacks in between. What is left stays due.
const ACTIONS_MOST: usize = 8;

/// What became of a report.
#[derive(Clone, Debug)]
pub(crate) enum Applied {
    /// The machine took it, or said that it changes nothing.
    Taken(Box<PaymentAggregate>),
    /// It cannot be used, or names a reference that is another attempt's.
    Unusable,
    /// There is no such attempt.
    Unknown,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub(crate) enum AttemptClaim {
    /// This task holds the attempt.
    Taken(Box<PaymentAggregate>),
    /// Another task holds it, or its state or the payment's does not allow the claim.
    Refused,
    /// There is no such attempt.
    Unknown,
}

impl Gateway {
    /// Applies a report.
    pub(crate) async fn apply_report(
        &self,
        attempt: AttemptId,
        report: Report,
        via: Via,
        asked: Option<Query>,
    ) -> Result<Applied, Fault> {
        let step = Step::Report {
            attempt,
            report,
            via,
            asked,
        };
        match self.step(About::Attempt(attempt), step, None).await? {
            Stepped::Done { aggregate, .. } => Ok(Applied::Taken(Box::new(aggregate))),
            Stepped::Refused { refusal, .. } => {
                tracing::warn!(
                    attempt.id = %attempt, news.via = via.as_str(), news.refusal = %refusal,
                    "news of a provider was refused"
                );
                Ok(Applied::Unusable)
            }
            Stepped::ReferenceTaken(aggregate) => {
                let environment = aggregate.payment.environment.as_str();
                tracing::error!(
                    attempt.id = %attempt, news.via = via.as_str(),
                    "a provider's reference belongs to another attempt; its news was refused"
                );
                metrics::counter!("kassette_references_taken_total", "environment" => environment)
                    .increment(1);
                Ok(Applied::Unusable)
            }
            Stepped::Unknown => Ok(Applied::Unknown),
        }
    }

    /// Claims an attempt for as long as a call to its vendor may take.
    pub(crate) async fn claim(
        &self,
        id: AttemptId,
        purpose: ClaimPurpose,
    ) -> Result<AttemptClaim, Fault> {
        let claim = Step::Claim {
            attempt: id,
            purpose,
            until: self.lease(),
        };
        Ok(match self.step(About::Attempt(id), claim, None).await? {
            Stepped::Done { aggregate, .. } => AttemptClaim::Taken(Box::new(aggregate)),
            Stepped::Refused { .. } => AttemptClaim::Refused,
            Stepped::ReferenceTaken(_) | Stepped::Unknown => AttemptClaim::Unknown,
        })
    }

    /// Asks the vendor about an attempt and applies what it says, or that it said nothing. The
    /// payment afterwards; none where it was not asked, or there is no such attempt.
    pub(crate) async fn ask(
        &self,
        aggregate: &PaymentAggregate,
        id: AttemptId,
        purpose: QueryPurpose,
        via: Via,
        limit: Duration,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let Some(attempt) = aggregate.attempt(id) else {
            return Ok(None);
        };
        let asked = Query {
            purpose,
            notices: attempt.notices,
            held: attempt.busy_until,
        };
        let absent = match self.call_query(aggregate, attempt, purpose, limit).await? {
            QueryAnswer::Report(report) => {
                match self.apply_report(id, *report, via, Some(asked)).await? {
                    Applied::Taken(aggregate) => return Ok(Some(*aggregate)),
                    Applied::Unusable => false,
                    Applied::Unknown => return Ok(None),
                }
            }
            QueryAnswer::Absent => true,
            QueryAnswer::Uncertain => false,
            // No silence of the vendor's. What made the question due is still there.
            QueryAnswer::Unasked => return Ok(None),
        };
        let step = Step::QueryFailed {
            attempt: id,
            asked,
            absent,
            scheduled: purpose == QueryPurpose::Sync && via == Via::Query,
        };
        Ok(match self.step(About::Attempt(id), step, None).await? {
            Stepped::Done { aggregate, .. }
            | Stepped::Refused { aggregate, .. }
            | Stepped::ReferenceTaken(aggregate) => Some(aggregate),
            Stepped::Unknown => None,
        })
    }

    /// Looks at an attempt unless a look is under way; where `spaced`, unless one began within five
    /// seconds, at this node or another. None where the vendor was not asked.
    pub(crate) async fn look(
        &self,
        aggregate: &PaymentAggregate,
        id: AttemptId,
        via: Via,
        spaced: bool,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let began = self
            .inner
            .query_throttle
            .lock()
            .begin(id, spaced, self.now());
        if !began {
            return Ok(None);
        }
        let mut looking = Looking {
            gateway: self,
            id,
            over: false,
        };
        // Noted by each look, heeded by those that are spaced.
        let is_first = self.store().live_nodes() == 1
            || self.store().take_task(Task::Ask(id), LOOK_EVERY).await?;
        let limit = self.settings().provider_deadline;
        let asked = if is_first || !spaced {
            self.ask(aggregate, id, QueryPurpose::Sync, via, limit)
                .await
        } else {
            Ok(None)
        };
        if looking.end() {
            let now = self.now();
            let at = self.inner.query_throttle.lock().next(id, now);
            self.ask_at(id, at).await?;
        }
        asked
    }

    /// Has an attempt asked about at a time, whatever becomes of this process.
    pub(crate) async fn ask_at(
        &self,
        attempt: AttemptId,
        at: kassette_domain::time::Time,
    ) -> Result<Stepped, Fault> {
        let ask = Step::AskAt { attempt, at };
        self.step(About::Attempt(attempt), ask, None).await
    }

    /// Makes sure that an attempt cannot be paid any more. The payment afterwards; the attempt is
    /// still open where the vendor could not be sure. None where another task holds it.
    pub(crate) async fn close(
        &self,
        id: AttemptId,
        limit: Duration,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let AttemptClaim::Taken(aggregate) = self.claim(id, ClaimPurpose::Close).await? else {
            return Ok(None);
        };
        self.ask(&aggregate, id, QueryPurpose::Cancel, Via::Query, limit)
            .await
    }

    /// Does what is due about a payment, one action after the other.
    pub(crate) async fn reconcile(&self, payment: PaymentId) -> Result<(), Fault> {
        let _guard = self.inner.payment_locks.lock(payment).await;
        self.reconcile_locked(payment).await
    }

    /// The same where the caller holds the lock of the payment.
    pub(crate) async fn reconcile_locked(&self, payment: PaymentId) -> Result<(), Fault> {
        for _ in 0..ACTIONS_MOST {
            let Some(aggregate) = self.store().aggregate(About::Payment(payment)).await? else {
                return Ok(());
            };
            let Some(next_action) = aggregate.next_action(self.now()) else {
                return Ok(());
            };
            if !self.perform(&aggregate, next_action).await? {
                return Ok(());
            }
        }
        tracing::warn!(payment.id = %payment, "a payment has more due than is done in one go");
        Ok(())
    }

    /// Does one action; false where another task does it.
    async fn perform(
        &self,
        aggregate: &PaymentAggregate,
        next_action: NextAction,
    ) -> Result<bool, Fault> {
        let limit = self.settings().provider_deadline;
        match next_action {
            NextAction::Capture(id) => self.capture(id).await.map(|done| done.is_some()),
            NextAction::Close(id) => Ok(self.close(id, limit).await?.is_some()),
            NextAction::Look(id) => {
                if self.look(aggregate, id, Via::Query, false).await?.is_some() {
                    return Ok(true);
                }
                // A look is under way: its answer may be older than what made this due.
                self.inner.query_throttle.lock().next(id, self.now());
                Ok(false)
            }
            NextAction::Start(id) => self.repeat_start(id).await,
            NextAction::Refund(id) => self.call_about_refund(id).await,
            NextAction::Expire => {
                let about = About::Payment(aggregate.payment.id);
                self.step(about, Step::Act(Act::Expire), None).await?;
                Ok(true)
            }
        }
    }

    /// Captures what the payer approved. The payment afterwards; none where the claim was refused,
    /// because another task captures it or it is wanted no longer.
    async fn capture(&self, id: AttemptId) -> Result<Option<PaymentAggregate>, Fault> {
        let AttemptClaim::Taken(aggregate) = self.claim(id, ClaimPurpose::Capture).await? else {
            return Ok(None);
        };
        let limit = self.settings().provider_deadline;
        let after = self
            .ask(&aggregate, id, QueryPurpose::Capture, Via::Query, limit)
            .await?;
        let state = after.as_ref().and_then(|after| after.attempt(id));
        let outcome = match state.map(|attempt| attempt.state) {
            Some(AttemptState::Captured) => "captured",
            Some(state) if state.is_open() => "open",
            _ => "over",
        };
        metrics::counter!(
            "kassette_captures_total",
            "outcome" => outcome, "environment" => aggregate.payment.environment.as_str()
        )
        .increment(1);
        tracing::info!(attempt.id = %id, capture.outcome = outcome, "a capture was asked for");
        Ok(after)
    }

    /// Gives a payment back that the worker claimed; one that is still due keeps its lease, which is
    /// the pause before it is tried again.
    pub(crate) async fn release(&self, payment: PaymentId) {
        let about = About::Payment(payment);
        let released = async {
            let aggregate = self.store().aggregate(about.clone()).await?;
            let now = self.now();
            if aggregate.is_some_and(|aggregate| aggregate.next_action(now).is_none()) {
                self.step(about, Step::Release, None).await?;
            }
            Ok::<_, Fault>(())
        };
        if let Err(fault) = released.await {
            tracing::error!(payment.id = %payment, error = %fault, "a payment was not released");
        }
    }
}

/// A look under way; over when it is dropped.
struct Looking<'a> {
    gateway: &'a Gateway,
    id: AttemptId,
    over: bool,
}

impl Looking<'_> {
    /// Ends it; whether a notice arrived meanwhile.
    fn end(&mut self) -> bool {
        self.over = true;
        self.gateway.inner.query_throttle.lock().end(self.id)
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.gateway.inner.query_throttle.lock().end(self.id);
        }
    }
}
