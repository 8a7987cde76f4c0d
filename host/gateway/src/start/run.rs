//! One start, from the first read of the payment to the answer, within its time limit.

use std::time::Duration;

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::id::AttemptId;
use kassette_domain::lifecycle::{
    ClaimPurpose, PaymentAggregate, Refusal, StartResult, Step, StepOutcome, Via,
};
use kassette_domain::payment::{CheckoutMode, Purpose, Status};
use kassette_domain::provider::QueryPurpose;
use kassette_store::{About, Fault, Stepped};

use super::choose::{Next, Plan};
use super::{NotAvailable, NotStartable, Run, StartError, StartedPayment, Starter};
use crate::apply::AttemptClaim;
use crate::permits::Permit;

/// Maximum number of repeats of a start with an unknown outcome in one request.
const REPEATS_MOST: u8 = 2;
/// Pause before a repeat, so that a provider can recover from a short failure.
const REPEAT_PAUSE: Duration = Duration::from_millis(300);
/// Minimum remaining time for a call to a provider.
const CALL_LEAST: Duration = Duration::from_secs(1);
/// How often the store is read while another process holds the attempt.
const WAIT_STEP: Duration = Duration::from_millis(100);
/// Maximum number of rounds of a start: enough for waiting until its time limit, and for lost races.
const ROUNDS_MOST: usize = 200;

impl Run<'_> {
    /// Runs until there is an answer or the time limit is reached.
    pub(super) async fn go(&self) -> Result<StartedPayment, StartError> {
        let about = About::Payment(self.start.payment);
        for _ in 0..ROUNDS_MOST {
            let aggregate = self.gateway.store().aggregate(about.clone()).await?;
            let aggregate = aggregate.ok_or(StartError::NotFound)?;
            self.allowed(&aggregate)?;
            let answer = match aggregate.open_attempt() {
                Some(open) => self.meet(&aggregate, open).await?,
                None => self.open(&aggregate).await?,
            };
            if let Some(started) = answer {
                return Ok(started);
            }
            if self.left().is_zero() {
                break;
            }
        }
        Err(StartError::unsettled())
    }

    /// Checks the mode, the status and the method of the payment.
    fn allowed(&self, aggregate: &PaymentAggregate) -> Result<(), StartError> {
        let payment = &aggregate.payment;
        match (self.start.starter, payment.mode) {
            (Starter::Api, CheckoutMode::Hosted) => {
                return Err(NotStartable::Hosted.into());
            }
            (Starter::Page, CheckoutMode::Direct) => {
                return Err(NotStartable::Direct.into());
            }
            _ => {}
        }
        match payment.status {
            Status::Created | Status::Pending => {}
            Status::Expired => return Err(NotStartable::Expired.into()),
            _ => return Err(NotStartable::Status.into()),
        }
        let fixed = payment.mode == CheckoutMode::Direct;
        if fixed && payment.method != Some(self.start.method) {
            return Err(StartError::OtherMethod);
        }
        Ok(())
    }

    /// Continues, waits for, repeats, or closes the open attempt. `None` means that the payment must be read
    /// again.
    async fn meet(
        &self,
        aggregate: &PaymentAggregate,
        open: &Attempt,
    ) -> Result<Option<StartedPayment>, StartError> {
        let now = self.gateway.now();
        let other = open.method != self.start.method;
        if !other && now < open.usable_until() && open.action().is_some() {
            return Ok(Some(self.gateway.started(aggregate.clone(), open.clone())));
        }
        if open.is_busy(now) {
            return self.wait().await;
        }
        self.permitted(aggregate).await?;
        let over = now >= open.expires_at || open.action().is_some();
        if other || over {
            return self.close(aggregate, open).await;
        }
        let permit = self.gateway.start_permit(&aggregate.payment, &open.account);
        let permit = permit.await.ok_or(Fault::Busy)?;
        match self.gateway.claim(open.id, ClaimPurpose::Start).await? {
            AttemptClaim::Taken(aggregate) => self.drive(*aggregate, open.id, None, permit).await,
            AttemptClaim::Refused => {
                drop(permit);
                self.wait().await
            }
            AttemptClaim::Unknown => Err(StartError::NotFound),
        }
    }

    /// Waits a short time while another process holds the attempt.
    async fn wait(&self) -> Result<Option<StartedPayment>, StartError> {
        let left = self.left();
        if left.is_zero() {
            return Err(StartError::unsettled());
        }
        tokio::time::sleep(left.min(WAIT_STEP)).await;
        Ok(None)
    }

    /// Closes an open attempt that is no longer wanted. It stays open without a certain answer from the
    /// provider.
    async fn close(
        &self,
        aggregate: &PaymentAggregate,
        open: &Attempt,
    ) -> Result<Option<StartedPayment>, StartError> {
        let after = self.gateway.leave(aggregate, open, self.left()).await?;
        match after.attempt(open.id) {
            Some(still) if still.is_open() => {
                let still = still.clone();
                if open.method == self.start.method {
                    return Err(StartError::unsettled());
                }
                let started = self.gateway.started(after, still);
                Err(StartError::StillOpen(Box::new(started)))
            }
            _ => Ok(None),
        }
    }

    /// Opens a new attempt at the best account. `None` if another task was faster.
    async fn open(
        &self,
        aggregate: &PaymentAggregate,
    ) -> Result<Option<StartedPayment>, StartError> {
        if self.gateway.now() >= aggregate.payment.expires_at {
            return Err(NotStartable::Expired.into());
        }
        let mut plan = self.plan(aggregate).await?;
        let next = self.next(aggregate, &mut plan, None).await?;
        let (choice, permit) = next.ok_or_else(|| none_left(Some(&plan)))?;
        let about = About::Payment(aggregate.payment.id);
        match self.gateway.step(about, Step::Open(choice), None).await? {
            Stepped::Done {
                aggregate,
                outcome: StepOutcome::Opened(id),
                ..
            } => {
                plan.record(self.gateway, &aggregate, id, Purpose::Start);
                self.drive(aggregate, id, Some(plan), permit).await
            }
            Stepped::Refused { refusal, .. } => refused(&refusal),
            _ => Err(StartError::NotFound),
        }
    }

    /// Calls the provider of a claimed attempt, records the outcome, and continues: with the next account if
    /// certainly nothing was created, with a repeat if that is unknown. `permit` is for the first call;
    /// repeats wait for their own.
    pub(super) async fn drive(
        &self,
        mut aggregate: PaymentAggregate,
        mut id: AttemptId,
        mut plan: Option<Plan>,
        permit: Permit,
    ) -> Result<Option<StartedPayment>, StartError> {
        let (mut permit, mut repeats) = (Some(permit), 0);
        loop {
            let Some(attempt) = aggregate.attempt(id) else {
                return Err(StartError::NotFound);
            };
            let held = attempt.claim.busy_until();
            let limit = self.left().max(CALL_LEAST);
            let called = self
                .gateway
                .call_start(&aggregate, attempt, permit.take(), limit);
            let result = called.await?;
            let next = self.fallback(&aggregate, attempt, &result, &mut plan);
            // The outcome is recorded even if there is no next account.
            let (next, error) = match next.await {
                Ok(next) => (next, None),
                Err(error) => (None, Some(error)),
            };
            let fallback = next.is_some();
            let (next, next_permit) = next.unzip();
            let recorded = self.gateway.record_start((id, held), result, next).await?;
            let (after, outcome) = recorded.ok_or_else(StartError::unsettled)?;
            aggregate = after;
            if let StepOutcome::Opened(next) = outcome {
                let environment = aggregate.payment.environment.as_str();
                metrics::counter!("kassette_fallbacks_total", "environment" => environment)
                    .increment(1);
                if let Some(plan) = &plan {
                    plan.record(self.gateway, &aggregate, next, Purpose::Fallback);
                }
                (id, permit, repeats) = (next, next_permit, 0);
                continue;
            }
            let state = aggregate.attempt(id).map(Attempt::state);
            match state {
                Some(AttemptState::Unknown) if repeats < REPEATS_MOST && self.has_time() => {
                    repeats += 1;
                    tokio::time::sleep(REPEAT_PAUSE).await;
                    match self.gateway.claim(id, ClaimPurpose::Start).await? {
                        AttemptClaim::Taken(held) => aggregate = *held,
                        // A report arrived in the meantime: read the payment again.
                        _ => return Ok(None),
                    }
                }
                Some(AttemptState::Unknown) => return self.last_look(aggregate, id).await,
                Some(AttemptState::Unavailable) => {
                    return Err(match error {
                        Some(error) => error,
                        None if fallback => NotStartable::NoAttemptLeft.into(),
                        None => none_left(plan.as_ref()),
                    });
                }
                _ => return self.ended(aggregate, id).map(Some),
            }
        }
    }

    fn has_time(&self) -> bool {
        self.left() > CALL_LEAST + REPEAT_PAUSE
    }

    /// Chooses the next account if the call certainly created nothing at this one.
    async fn fallback(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        result: &StartResult,
        plan: &mut Option<Plan>,
    ) -> Result<Option<Next>, StartError> {
        let surely = matches!(result, StartResult::Unavailable(_)) && !attempt.stage.is_uncertain();
        if !surely || self.start.provider.is_some() || self.left() < CALL_LEAST {
            return Ok(None);
        }
        let mut fresh = match plan.take() {
            Some(plan) => plan,
            // The attempt was opened by an earlier request, so rank again without its account.
            None => match self.plan(aggregate).await {
                Ok(plan) => plan.without(&attempt.account),
                Err(StartError::Store(fault)) => return Err(fault.into()),
                Err(_) => return Ok(None),
            },
        };
        let next = self.next(aggregate, &mut fresh, Some(&attempt.account));
        let next = next.await;
        *plan = Some(fresh);
        next
    }

    /// The repeats did not help: queries the provider before the caller is asked to try again later.
    async fn last_look(
        &self,
        aggregate: PaymentAggregate,
        id: AttemptId,
    ) -> Result<Option<StartedPayment>, StartError> {
        if self.left() < CALL_LEAST {
            return Err(StartError::unsettled());
        }
        let limit = self.left();
        let asked = self
            .gateway
            .ask(&aggregate, id, QueryPurpose::Sync, Via::Query, limit);
        let after = asked.await?.ok_or_else(StartError::unsettled)?;
        match after.attempt(id).map(Attempt::state) {
            Some(AttemptState::Open | AttemptState::Unknown) => Err(StartError::unsettled()),
            _ => self.ended(after, id).map(Some),
        }
    }

    /// The answer if the outcome is known.
    fn ended(
        &self,
        aggregate: PaymentAggregate,
        id: AttemptId,
    ) -> Result<StartedPayment, StartError> {
        let Some(attempt) = aggregate.attempt(id).cloned() else {
            return Err(StartError::NotFound);
        };
        match attempt.state() {
            AttemptState::Declined => Err(StartError::Declined),
            AttemptState::Unavailable => Err(not_available()),
            AttemptState::Cancelled
            | AttemptState::Closed
            | AttemptState::Expired
            | AttemptState::Failed => Err(NotStartable::AttemptOver.into()),
            _ => Ok(self.gateway.started(aggregate, attempt)),
        }
    }
}

const fn not_available() -> StartError {
    StartError::NotAvailable(NotAvailable::NoProvider)
}

/// Reason why a plan has no account left.
fn none_left(plan: Option<&Plan>) -> StartError {
    match plan {
        Some(plan) if plan.is_crowded => Fault::Busy.into(),
        _ => not_available(),
    }
}

/// A new attempt was refused: another task was faster, or the payment has ended.
fn refused(refusal: &Refusal) -> Result<Option<StartedPayment>, StartError> {
    match refusal {
        Refusal::AttemptOpen(_) => Ok(None),
        Refusal::Barred(barred) => Err((*barred).into()),
        Refusal::TooManyAttempts => Err(NotStartable::NoAttemptLeft.into()),
        // A created or pending payment is refused because it has expired.
        Refusal::WrongStatus(Status::Created | Status::Pending | Status::Expired) => {
            Err(NotStartable::Expired.into())
        }
        _ => Err(NotStartable::Status.into()),
    }
}
