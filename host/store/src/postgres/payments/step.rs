//! A step of the state machine with all its effects: loaded, applied, and saved by one statement if nothing has
//! changed since; otherwise retried from the start.

use kassette_domain::audit::Audited;
use kassette_domain::lifecycle::{Change, PaymentAggregate, QuerySchedule, Step, StepOutcome};
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::payment_steps::{self, account_of, count};
use crate::postgres::database::{Failure, TransactionWork, Tries, Tx};
use crate::postgres::payments::callbacks;
use crate::postgres::payments::stored::{self, Named, OP, Saved, is_attempt};
use crate::postgres::payments::work::{self, Works};
use crate::postgres::statement::StatementBuilder;
use crate::postgres::{PostgresStore, audit, resellers};
use crate::rows::seal::fill;
use crate::{About, Fault, Stepped};

/// A step to be executed.
pub(super) struct DoStep {
    pub(super) about: About,
    pub(super) step: Step,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

/// Result of one try, and the statement that saves it.
struct StepTry {
    done: Stepped,
    statement: StatementBuilder,
    audited: Option<Audited>,
}

impl StepTry {
    /// A result that writes nothing.
    fn ended(done: Stepped) -> Self {
        Self {
            done,
            statement: StatementBuilder::default(),
            audited: None,
        }
    }
}

impl PostgresStore {
    pub(super) async fn do_step(&self, mut asked: DoStep) -> Result<Stepped, Fault> {
        let mut op = [0; OP];
        fill(&mut op)?;
        let (mut tries, mut lost) = (Tries::new(), None);
        loop {
            let Some(loaded) =
                stored::load(&self.requests, &self.secrets.sealer, &asked.about).await?
            else {
                return Ok(Stepped::Unknown);
            };
            // Later tries load the same payment, even if the reference now leads elsewhere.
            asked.about = About::Payment(loaded.aggregate.payment.id);
            if let Some(done) = lost.take_if(|_| loaded.has_done(op)) {
                self.requests.confirm().await.map_err(Failure::fault)?;
                return Ok(done);
            }
            let StepTry {
                done,
                statement,
                audited,
            } = self.try_step(&asked, &loaded, op).await?;
            if statement.is_empty() && audited.is_none() {
                return Ok(done);
            }
            match self.save(statement, audited, asked.now).await {
                Ok(row) => {
                    self.ring(row.as_ref(), asked.now);
                    return Ok(done);
                }
                // An id was generated twice, or a work item was opened concurrently.
                Err(failure @ (Failure::Stale | Failure::Collided | Failure::Duplicate(_))) => {
                    tries.again(&failure).await?;
                }
                Err(failure @ Failure::Lost) => {
                    lost = Some(done);
                    tries.again(&failure).await?;
                }
                Err(failure) => return Err(failure.fault()),
            }
        }
    }

    /// Saves a try with its audit entry; returns the row for [`PostgresStore::ring`].
    pub(super) async fn save(
        &self,
        statement: StatementBuilder,
        audited: Option<Audited>,
        now: Time,
    ) -> Result<Option<Row>, Failure> {
        let Some(audited) = audited else {
            return statement.write(&self.requests).await.map(Some);
        };
        let operation = Audit {
            statement,
            audited,
            now,
        };
        self.requests.transact_once(&operation).await
    }

    async fn try_step(
        &self,
        asked: &DoStep,
        loaded: &stored::Loaded,
        op: [u8; OP],
    ) -> Result<StepTry, Fault> {
        let mut aggregate = loaded.aggregate.clone();
        let (mut step, now, schedule) = (asked.step.clone(), asked.now, self.schedule.load_full());
        if let Some(barred) = self.bars_opening(&aggregate.payment, &step).await?
            && let Err(refusal) = step.bar(barred)
        {
            return Ok(StepTry::ended(Stepped::Refused { aggregate, refusal }));
        }
        if let Some(booked) = payment_steps::correction(&aggregate, &step)
            && self
                .movement_read(Some(aggregate.payment.id), booked)
                .await?
                .is_some()
        {
            return Ok(StepTry::ended(Stepped::Done {
                aggregate,
                outcome: StepOutcome::Nothing,
                change: Box::default(),
            }));
        }
        let (outcome, mut change) = match aggregate.step(step, now, &schedule) {
            Ok(done) => done,
            Err(refusal) => return Ok(StepTry::ended(Stepped::Refused { aggregate, refusal })),
        };
        let Some(named) = self
            .name(&mut aggregate, &mut change, (now, &schedule))
            .await?
        else {
            return Ok(StepTry::ended(Stepped::ReferenceTaken(
                loaded.aggregate.clone(),
            )));
        };
        let timed = self.time_step(
            (&loaded.ledger, loaded.clock),
            now,
            &loaded.aggregate,
            &mut aggregate,
            &mut change,
        );
        let statement = if change == Change::default() {
            StatementBuilder::default()
        } else {
            let payment = &aggregate.payment;
            let of = Works {
                payment: Some(payment),
                environment: payment.environment,
                closed: &change.work_closed,
                new: &change.work,
            };
            let works = work::lines(&self.requests, of, now).await?;
            let (after, change, named) = (&aggregate, &change, &named[..]);
            Saved {
                before: loaded,
                after,
                change,
                named,
                works,
                timed,
                op,
                now,
            }
            .statement(&self.secrets)?
        };
        let audited = asked
            .audited
            .clone()
            .filter(|_| outcome != StepOutcome::Nothing);
        Ok(StepTry {
            done: Stepped::Done {
                aggregate,
                outcome,
                change: Box::new(change),
            },
            statement,
            audited,
        })
    }

    /// Reason why a step may not open an attempt of a reseller's payment. `None` if it may, or opens none.
    async fn bars_opening(
        &self,
        payment: &Payment,
        step: &Step,
    ) -> Result<Option<ResellerNotAllowed>, Fault> {
        match &payment.origin {
            Origin::Reseller { reseller, .. } if step.opens_attempt() => {
                resellers::bars(
                    &self.requests,
                    *reseller,
                    payment.merchant,
                    payment.environment,
                )
                .await
            }
            _ => Ok(None),
        }
    }

    /// Resolves references that became known in this step and applies their pending callbacks. `None` if such a
    /// reference belongs to another attempt of the account. A report can add another reference; an attempt has
    /// few, and each is resolved once.
    async fn name(
        &self,
        aggregate: &mut PaymentAggregate,
        change: &mut Change,
        (now, schedule): (Time, &QuerySchedule),
    ) -> Result<Option<Vec<Named>>, Fault> {
        if !self.are_free(aggregate, change).await? {
            return Ok(None);
        }
        let (mut named, mut seen) = (Vec::<Named>::new(), 0);
        while let Some((attempt, reference)) = change.references.get(seen).cloned() {
            seen += 1;
            let at = aggregate
                .attempts
                .iter()
                .position(|each| each.id == attempt);
            let (Some(account), Some(at)) = (account_of(aggregate, attempt), at) else {
                continue;
            };
            if named
                .iter()
                .any(|each| each.account == account && each.reference == reference)
            {
                continue;
            }
            let (parked, waiting) =
                callbacks::kept(&self.requests, &account, &reference, now).await?;
            named.push(Named {
                account,
                reference,
                ordinal: count(at)?,
                parked,
            });
            for callback in waiting {
                let mut next = aggregate.clone();
                match next.step(callback.step(attempt, now), now, schedule) {
                    Ok((_, more)) if self.are_free(&next, &more).await? => {
                        *aggregate = next;
                        change.append(more);
                    }
                    // A callback that arrived now would be answered "ignored".
                    Ok(_) => {
                        tracing::warn!(attempt.id = %attempt, "a pending callback names another attempt's reference");
                    }
                    Err(refusal) => {
                        tracing::warn!(attempt.id = %attempt, %refusal, "a pending callback is not usable");
                    }
                }
            }
        }
        Ok(Some(named))
    }

    /// Whether no other attempt of the account has any of the references.
    async fn are_free(&self, aggregate: &PaymentAggregate, change: &Change) -> Result<bool, Fault> {
        for (attempt, reference) in &change.references {
            let Some(attempt) = aggregate.attempt(*attempt) else {
                continue;
            };
            let sql = "SELECT payment, ordinal FROM reference
                WHERE account = $1 AND reference = $2 AND payment IS NOT NULL";
            let known = self
                .requests
                .read_one(sql, &[&attempt.account.as_str(), &reference.as_bytes()])
                .await?;
            if known.is_some_and(|row| !is_attempt(aggregate, row.get(0), row.get(1), attempt)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A step with an audit entry.
struct Audit {
    statement: StatementBuilder,
    audited: Audited,
    now: Time,
}

impl TransactionWork for Audit {
    type Outcome = Option<Row>;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let row = if self.statement.is_empty() {
            None
        } else {
            Some(self.statement.write_in(tx).await?)
        };
        audit::append(tx, self.audited.clone(), self.now).await?;
        Ok(row)
    }
}
