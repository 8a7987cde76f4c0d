//! A step of the state machine, with all its consequences.

use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::lifecycle::{Change, PaymentAggregate, QuerySchedule, Step, StepOutcome};
use kassette_domain::time::Time;
use kassette_engine::Operation;

use crate::payment_steps::{self, account_of};
use crate::rows::schema;
use crate::rows::seal::Secrets;
use crate::rows::source::RowSource;
use crate::rows::stored::AttemptKey;
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::movements;
use crate::sled::payments::aggregates::{self, Loaded};
use crate::sled::payments::pending_callbacks;
use crate::sled::resellers::delegations;
use crate::{About, Fault, Stepped};

pub(crate) struct DoStep {
    pub(crate) about: About,
    pub(crate) step: Step,
    pub(crate) audited: Option<Audited>,
    pub(crate) now: Time,
    pub(crate) schedule: Arc<QuerySchedule>,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for DoStep {
    type Outcome = Stepped;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Stepped, Fault> {
        let sealer = &self.secrets.sealer;
        let Some(id) = aggregates::resolve(rows, &self.about)? else {
            return Ok(Stepped::Unknown);
        };
        let Some(Loaded {
            mut aggregate,
            counters,
        }) = aggregates::load(rows, sealer, id)?
        else {
            return Ok(Stepped::Unknown);
        };
        let mut step = self.step;
        if let Some(barred) = delegations::bars_opening(rows, &aggregate.payment, &step)?
            && let Err(refusal) = step.bar(barred)
        {
            return Ok(Stepped::Refused { aggregate, refusal });
        }
        if let Some(booked) = payment_steps::correction(&aggregate, &step)
            && movements::read(rows, Some(id), booked)?.is_some()
        {
            return Ok(Stepped::Done {
                aggregate,
                outcome: StepOutcome::Nothing,
                change: Box::default(),
            });
        }
        let before = aggregate.clone();
        let (outcome, mut change) = match aggregate.step(step, self.now, &self.schedule) {
            Ok(done) => done,
            Err(refusal) => return Ok(Stepped::Refused { aggregate, refusal }),
        };
        if !are_free(rows, &aggregate, &change)? {
            return Ok(Stepped::ReferenceTaken(before));
        }
        apply_pending(
            rows,
            &mut aggregate,
            &mut change,
            (self.now, &self.schedule),
        )?;
        movements::time(rows, &before, &mut aggregate, &mut change)?;
        if change != Change::default() {
            let after = Loaded {
                aggregate,
                counters,
            };
            aggregates::save(rows, &self.secrets, &before, &after, &change, self.now)?;
            aggregate = after.aggregate;
        }
        if let Some(audited) = self.audited.filter(|_| outcome != StepOutcome::Nothing) {
            audit::append(rows, audited, self.now)?;
        }
        Ok(Stepped::Done {
            aggregate,
            outcome,
            change: Box::new(change),
        })
    }
}

/// Whether no other attempt at the account has one of the references.
fn are_free(rows: &Rows<'_>, aggregate: &PaymentAggregate, change: &Change) -> Result<bool, Fault> {
    for (attempt, reference) in &change.references {
        let Some(account) = aggregate.attempt(*attempt).map(|attempt| &attempt.account) else {
            continue;
        };
        let known: Option<AttemptKey> = rows.load(&schema::reference(account, reference))?;
        let its = |known: AttemptKey| {
            let there = aggregate.attempts.get(usize::from(known.ordinal));
            known.payment == aggregate.payment.id && there.is_some_and(|there| there.id == *attempt)
        };
        if known.is_some_and(|known| !its(known)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Applies the callbacks that were pending for references that the step made known. A report may contain
/// further references; an attempt has few, and each is processed one time.
fn apply_pending(
    rows: &mut Rows<'_>,
    aggregate: &mut PaymentAggregate,
    change: &mut Change,
    (now, schedule): (Time, &QuerySchedule),
) -> Result<(), Fault> {
    let mut seen = 0;
    while let Some((attempt, reference)) = change.references.get(seen).cloned() {
        seen += 1;
        let Some(account) = account_of(aggregate, attempt) else {
            continue;
        };
        for callback in pending_callbacks::take(rows, &account, &reference, now)? {
            let mut next = aggregate.clone();
            match next.step(callback.step(attempt, now), now, schedule) {
                Ok((_, more)) if are_free(rows, &next, &more)? => {
                    *aggregate = next;
                    change.append(more);
                }
                // A callback that arrived now would be answered with "ignored".
                Ok(_) => {
                    tracing::warn!(attempt.id = %attempt, "a pending callback names another attempt's reference");
                }
                Err(refusal) => {
                    tracing::warn!(attempt.id = %attempt, %refusal, "a pending callback is not usable");
                }
            }
        }
    }
    Ok(())
}
