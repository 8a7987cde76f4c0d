//! Deletion of expired data: routing decisions, and personal data of finished payments.
//!
//! Each rule visits payments once, in the order of creation, and stores its progress. A payment that is not
//! finished by then is visited again daily until it is. Each payment is a separate transaction: after a crash
//! another node repeats it, which changes nothing.

use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::Step;
use kassette_domain::time::Time;
use uuid::Uuid;

use crate::postgres::payments::{callbacks, stored};
use crate::postgres::{PostgresStore, connects, millis, nonces, time};
use crate::retention::{AGAIN, Rule};
use crate::rows::records;
use crate::{About, Fault, Forgotten, Payments as _, Retention, Stepped};

/// Number of payments that one call visits for each rule.
const LOOKS: usize = 32;

impl PostgresStore {
    /// Deletes a batch of expired data.
    pub(crate) async fn forget_some(
        &self,
        retention: Retention,
        now: Time,
    ) -> Result<Forgotten, Fault> {
        let mut forgotten = Forgotten::default();
        let more = callbacks::sweep(&self.workers, now).await?;
        if connects::sweep(&self.workers, now).await? || more {
            forgotten.next_at(now);
        }
        if let Some(next) = nonces::sweep(self, now).await? {
            forgotten.next_at(next);
        }
        for rule in Rule::ALL {
            if let Some(keeps) = rule.keeps(&retention) {
                self.laggards(rule, now, &mut forgotten).await?;
                self.along(rule, keeps, now, &mut forgotten).await?;
            }
        }
        self.forget_routing(&retention, now, &mut forgotten).await?;
        Ok(forgotten)
    }

    /// Visits payments again that were not finished at their first visit.
    async fn laggards(
        &self,
        rule: Rule,
        now: Time,
        forgotten: &mut Forgotten,
    ) -> Result<(), Fault> {
        let sql =
            "/* laggards */ SELECT payment, at FROM laggard WHERE rule = $1 ORDER BY at LIMIT $2";
        let found = self
            .workers
            .read(sql, &[&i16::from(rule.tag()), &rows()])
            .await?;
        for (looked, row) in found.iter().enumerate() {
            let (payment, at): (Uuid, i64) = (row.get(0), row.get(1));
            if now < time(at) {
                forgotten.next_at(time(at));
                return Ok(());
            }
            if looked == LOOKS {
                forgotten.next_at(now);
                return Ok(());
            }
            self.forget_of(rule, payment, now, forgotten).await?;
            let sql = "/* laggard: over */ DELETE FROM laggard WHERE rule = $1 AND payment = $2 AND at = $3";
            let gone = self
                .workers
                .repeat(sql, &[&i16::from(rule.tag()), &payment, &at])
                .await;
            gone?;
        }
        Ok(())
    }

    /// Visits the next payments of a rule.
    async fn along(
        &self,
        rule: Rule,
        keeps: Duration,
        now: Time,
        forgotten: &mut Forgotten,
    ) -> Result<(), Fault> {
        let sql = "/* payments: forget */ SELECT id, created_at, number FROM payment
            WHERE (created_at, number) > (
                coalesce((SELECT created_at FROM forgotten WHERE rule = $1), -1),
                coalesce((SELECT number FROM forgotten WHERE rule = $1), -1))
            ORDER BY created_at, number LIMIT $2";
        let found = self
            .workers
            .read(sql, &[&i16::from(rule.tag()), &rows()])
            .await?;
        let mut reached = None;
        for (looked, row) in found.iter().enumerate() {
            let (made, number): (i64, i64) = (row.get(1), row.get(2));
            let until = time(made).after(keeps);
            if now < until {
                forgotten.next_at(until);
                break;
            }
            if looked == LOOKS {
                forgotten.next_at(now);
                break;
            }
            self.forget_of(rule, row.get(0), now, forgotten).await?;
            reached = Some((made, number));
        }
        let Some((made, number)) = reached else {
            return Ok(());
        };
        let sql = "/* payments: forgotten */ INSERT INTO forgotten AS f (rule, created_at, number)
            VALUES ($1, $2, $3) ON CONFLICT (rule) DO UPDATE SET created_at = $2, number = $3
            WHERE (f.created_at, f.number) < ($2, $3)";
        let noted = self
            .workers
            .repeat(sql, &[&i16::from(rule.tag()), &made, &number])
            .await;
        noted.map(drop)
    }

    /// Deletes a payment's expired data, or schedules another visit.
    async fn forget_of(
        &self,
        rule: Rule,
        payment: Uuid,
        now: Time,
        forgotten: &mut Forgotten,
    ) -> Result<(), Fault> {
        let id = PaymentId::from_bytes(payment.into_bytes());
        // Operations on a damaged payment report it; it must not block the others.
        let read = records::readable(self.aggregate(About::Payment(id)).await)?;
        let Some(aggregate) = read.flatten() else {
            return Ok(());
        };
        if !aggregate.payment.status.is_final() || aggregate.due_at().is_some() {
            let again = now.after(AGAIN);
            let sql = "/* laggard */ INSERT INTO laggard (rule, payment, at) VALUES ($1, $2, $3)
                ON CONFLICT (rule, payment) DO UPDATE SET at = $3";
            let noted = self
                .workers
                .repeat(sql, &[&i16::from(rule.tag()), &payment, &millis(again)])
                .await;
            noted?;
            forgotten.next_at(again);
            return Ok(());
        }
        match rule {
            Rule::Decisions => {
                let sql =
                    "/* decisions: forget */ DELETE FROM timeline WHERE payment = $1 AND kind = $2
                    RETURNING 1";
                let gone = self
                    .workers
                    .repeat(sql, &[&payment, &stored::DECISION])
                    .await;
                forgotten.decisions += u64::from(!gone?.is_empty());
            }
            Rule::PersonalData => {
                // Redaction is always allowed.
                let redacted = self.step(About::Payment(id), Step::Redact, None, now);
                let redacted = records::readable(redacted.await)?;
                let is_new = matches!(redacted, Some(Stepped::Done { change, .. }) if change.dirty);
                forgotten.redacted += u64::from(is_new);
            }
        }
        Ok(())
    }
}

/// One row more than is visited, to detect further rows.
fn rows() -> i64 {
    i64::try_from(LOOKS + 1).unwrap_or(i64::MAX)
}
