//! A step of the machine, with everything that follows from it: read, stepped, and saved by one statement if
//! nothing has changed meanwhile; else from the beginning.

use kassette_domain::audit::Audited;
use kassette_domain::lifecycle::{
    Change, PaymentAggregate, QuerySchedule, Refusal, Step, StepOutcome,
};
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::time::Time;
use tokio_postgres::Row;

use crate::payment_steps::{account_of, count, merge, step_of_callback};
use crate::postgres::database::{Failure, TransactionWork, Tries, Tx};
use crate::postgres::payments::callbacks;
use crate::postgres::payments::stored::{self, Named, OP, Saved, is_attempt};
use crate::postgres::payments::work::{self, Works};
use crate::postgres::statement::StatementBuilder;
use crate::postgres::{PostgresStore, audit, resellers};
use crate::rows::seal::fill;
use crate::{About, Fault, Stepped};

/// A step, to be done to its end.
pub(super) struct DoStep {
    pub(super) about: About,
    pub(super) step: Step,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

/// What one try has come to, and what has to be written for it.
struct StepTry {
    done: Stepped,
    statement: StatementBuilder,
    audited: Option<Audited>,
}

impl StepTry {
    /// Nothing is to be written.
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
            // Of the next try it is no longer asked which payment is meant.
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
                // An id that is drawn anew, or a line of the work list that was opened meanwhile.
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

    /// Writes what a try has come to, with its line of the audit log; answers for [`PostgresStore::ring`].
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
        if let Some(barred) = self.bars_opening(&aggregate.payment, &step).await? {
            match &mut step {
                Step::Started { next, .. } => *next = None,
                _ => {
                    let refusal = Refusal::Barred(barred);
                    return Ok(StepTry::ended(Stepped::Refused { aggregate, refusal }));
                }
            }
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
        let statement = if change == Change::default() {
            StatementBuilder::default()
        } else {
            let of = Works {
                done: &change.work_done,
                closed: &change.work_closed,
                new: &change.work,
            };
            let works = work::lines(&self.requests, Some(aggregate.payment.id), of, now).await?;
            let (after, change, named) = (&aggregate, &change, &named[..]);
            Saved {
                before: loaded,
                after,
                change,
                named,
                works,
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

    /// Why a step may not open an attempt of a reseller's payment; none for steps that open none.
    async fn bars_opening(
        &self,
        payment: &Payment,
        step: &Step,
    ) -> Result<Option<ResellerNotAllowed>, Fault> {
        let opens = matches!(step, Step::Open(_) | Step::Started { next: Some(_), .. });
        match &payment.origin {
            Origin::Reseller { reseller, .. } if opens => {
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

    /// Looks at the references that the step made known, and applies the callbacks that were kept for them; none
    /// where one of the step's own belongs to another attempt of the account. A report can bring another reference;
    /// an attempt keeps few, and each is looked at once.
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
            let (parked, reports) =
                callbacks::kept(&self.requests, &account, &reference, now).await?;
            named.push(Named {
                account,
                reference,
                ordinal: count(at)?,
                parked,
            });
            for report in reports {
                let mut next = aggregate.clone();
                match next.step(step_of_callback(attempt, report, now), now, schedule) {
                    Ok((_, more)) if self.are_free(&next, &more).await? => {
                        *aggregate = next;
                        merge(change, more);
                    }
                    // What the vendor would hear as "ignored" had it come now.
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

    /// Whether no other attempt of the account has one of the references.
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

/// A step with a line of the audit log.
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
