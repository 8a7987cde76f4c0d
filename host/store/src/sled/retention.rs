//! Deletes data that need not be stored permanently: routing decisions and personal data of payments that
//! have ended.
//!
//! Each rule walks along the payments in order of arrival, one time, and stores its progress. A payment that
//! has not ended when its turn comes gets a row of `lag/`, by which it is examined again every day.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{QuerySchedule, Step};
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Span};

use crate::retention::{AGAIN, Rule};
use crate::rows::schema::{self, Line};
use crate::rows::seal::Secrets;
use crate::rows::source::{RowSource, Save as _};
use crate::rows::stored::{AllReached, PaymentRow, Reached};
use crate::sled::memory::{Indexed as _, Memory, Rows, payment_index_rows};
use crate::sled::payments::aggregates::{self, Loaded};
use crate::sled::payments::pending_callbacks;
use crate::sled::{connect, nonces, routing_log};
use crate::{Fault, Forgotten, Retention};

/// Number of payments per rule and operation.
const LOOKS: u16 = 32;

/// Deletes some expired data.
pub(crate) struct Forget {
    pub(crate) retention: Retention,
    pub(crate) now: Time,
    pub(crate) secrets: Arc<Secrets>,
}

impl Operation<Memory> for Forget {
    type Outcome = Forgotten;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Forgotten, Fault> {
        let mut forgotten = Forgotten::default();
        if pending_callbacks::sweep(rows, self.now)? || connect::sweep(rows, self.now)? {
            forgotten.next_at(self.now);
        }
        if let Some(next) = nonces::sweep(rows, self.now)? {
            forgotten.next_at(next);
        }
        self.laggards(rows, &mut forgotten)?;
        let mut reached: AllReached = rows.load(schema::RETENTION)?.unwrap_or_default();
        let before = reached;
        for (rule, reached) in Rule::ALL.into_iter().zip(&mut reached) {
            if let Some(keeps) = rule.keeps(&self.retention) {
                self.along(rows, rule, keeps, reached, &mut forgotten)?;
            }
        }
        if reached != before {
            rows.save(schema::RETENTION.to_vec(), &reached)?;
        }
        routing_log::forget(rows, &self.retention, self.now, &mut forgotten)?;
        Ok(forgotten)
    }
}

impl Forget {
    /// Examines payments that had not ended at their turn.
    fn laggards(&self, rows: &mut Rows<'_>, forgotten: &mut Forgotten) -> Result<(), Fault> {
        let rest = rows.walk(Span::prefix(schema::LAGGARDS), |rows, key, _| {
            let at = schema::leading_time(key, schema::LAGGARDS).unwrap_or_default();
            if self.now < at {
                forgotten.next_at(at);
                return Ok(ControlFlow::Break(()));
            }
            if let Some((tag, payment)) = schema::laggard_about(key)
                && let Some(rule) = Rule::of_tag(tag)
                && rule.keeps(&self.retention).is_some()
            {
                self.one(rows, rule, payment, forgotten)?;
            }
            rows.remove(key.clone());
            Ok(ControlFlow::Continue(()))
        })?;
        if rest.is_some() {
            forgotten.next_at(self.now);
        }
        Ok(())
    }

    /// Examines the next payments of a rule.
    fn along(
        &self,
        rows: &mut Rows<'_>,
        rule: Rule,
        keeps: Duration,
        reached: &mut Reached,
        forgotten: &mut Forgotten,
    ) -> Result<(), Fault> {
        for payment in payment_index_rows::at_positions(rows, reached.next, LOOKS)? {
            if rows.is_enough() {
                break;
            }
            let row = payment.map(|payment| PaymentRow::load(rows, payment));
            let made = match row.transpose() {
                Ok(row) => row.flatten().map(|row| row.plain().created_at),
                // The operation that needs the payment reports the damage. It must not block others.
                Err(Fault::Corrupt(_)) => None,
                Err(fault) => return Err(fault),
            };
            if let (Some(payment), Some(made)) = (payment, made) {
                let until = made.after(keeps);
                if self.now < until {
                    forgotten.next_at(until);
                    return Ok(());
                }
                self.one(rows, rule, payment, forgotten)?;
                reached.made_before = reached.made_before.max(made);
            }
            reached.next = reached.next.saturating_add(1);
        }
        if !rows.positions(reached.next, 1).is_empty() {
            forgotten.next_at(self.now);
        }
        Ok(())
    }

    /// Deletes the data of a payment that a rule covers, or schedules it to be examined again.
    fn one(
        &self,
        rows: &mut Rows<'_>,
        rule: Rule,
        payment: PaymentId,
        forgotten: &mut Forgotten,
    ) -> Result<(), Fault> {
        let sealer = &self.secrets.sealer;
        let loaded = match aggregates::load(rows, sealer, payment) {
            Ok(Some(loaded)) => loaded,
            Ok(None) | Err(Fault::Corrupt(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        let is_over =
            loaded.aggregate.payment.status.is_final() && loaded.aggregate.due_at().is_none();
        if !is_over {
            let again = self.now.after(AGAIN);
            rows.put(schema::laggard(again, rule.tag(), payment), IVec::default());
            forgotten.next_at(again);
            return Ok(());
        }
        match rule {
            Rule::Decisions => {
                let mut any = false;
                for ordinal in 0..loaded.counters.decisions {
                    let line = schema::line(payment, Line::Decision, ordinal);
                    any |= rows.get(&line)?.is_some();
                    rows.remove(line);
                }
                forgotten.decisions += u64::from(any);
            }
            Rule::PersonalData => {
                let Loaded {
                    mut aggregate,
                    counters,
                } = loaded;
                let before = aggregate.clone();
                // Redaction is always allowed.
                let Ok((_, change)) =
                    aggregate.step(Step::Redact, self.now, &QuerySchedule::default())
                else {
                    return Ok(());
                };
                if change.dirty {
                    let after = Loaded {
                        aggregate,
                        counters,
                    };
                    aggregates::save(rows, &self.secrets, &before, &after, &change, self.now)?;
                    forgotten.redacted += 1;
                }
            }
        }
        Ok(())
    }
}
