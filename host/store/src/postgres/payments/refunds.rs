//! Ordering refunds, exactly once per idempotency key.
//!
//! Like a step, an order is loaded, applied, and saved by one statement if nothing has changed since. The key
//! is unique: if two orders use it concurrently, one of them is loaded again and is a replay.

use kassette_domain::audit::Audited;
use kassette_domain::id::{PaymentId, RefundId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{NewRefund, PaymentAggregate, Step};
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;

use crate::payment_steps::{self, work_of_refund};
use crate::postgres::columns::{id, payment_id};
use crate::postgres::database::{Failure, Tries};
use crate::postgres::directory::keys;
use crate::postgres::payments::stored::{self, Loaded, OP, Saved};
use crate::postgres::payments::work::{self, Works};
use crate::postgres::statement::{StatementBuilder, values};
use crate::postgres::{PostgresStore, resellers, uuid};
use crate::rows::schema;
use crate::rows::seal::fill;
use crate::{About, Fault, RefundOrdered};

/// A refund order.
pub(super) struct OrderRefund {
    pub(super) payment: PaymentId,
    pub(super) new: NewRefund,
    pub(super) authority: Option<TokenHash>,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

/// Result of one try.
enum RefundTry {
    Ended(RefundOrdered),
    /// Data has changed since the payment was read.
    Again,
    /// The order changes the payment, by this statement.
    Write {
        done: RefundOrdered,
        statement: StatementBuilder,
    },
}

impl PostgresStore {
    pub(super) async fn order_refund(&self, asked: OrderRefund) -> Result<RefundOrdered, Fault> {
        let mut op = [0; OP];
        fill(&mut op)?;
        let (mut tries, mut lost) = (Tries::new(), None);
        loop {
            let about = About::Payment(asked.payment);
            let loaded = stored::load(&self.requests, &self.secrets.sealer, &about).await?;
            let Some(loaded) = loaded else {
                return Ok(RefundOrdered::Unknown);
            };
            if let Some(done) = lost.take_if(|_| loaded.has_done(op)) {
                self.requests.confirm().await.map_err(Failure::fault)?;
                return Ok(done);
            }
            let (done, statement) = match self.try_refund(&asked, &loaded, op).await? {
                RefundTry::Ended(ended) => return Ok(ended),
                RefundTry::Again => {
                    tries.again(&Failure::Stale).await?;
                    continue;
                }
                RefundTry::Write { done, statement } => (done, statement),
            };
            match self.save(statement, asked.audited.clone(), asked.now).await {
                Ok(row) => {
                    self.ring(row.as_ref(), asked.now);
                    return Ok(done);
                }
                // For example, another order with the same key.
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

    async fn try_refund(
        &self,
        asked: &OrderRefund,
        loaded: &Loaded,
        op: [u8; OP],
    ) -> Result<RefundTry, Fault> {
        let mut aggregate = loaded.aggregate.clone();
        if let Some(refused) = self.refused(asked, &aggregate.payment).await? {
            return Ok(RefundTry::Ended(refused));
        }
        if let Some((refund, payment)) = self.ordered_before(asked, &aggregate).await? {
            if payment != asked.payment {
                let field = "payment_id";
                return Ok(RefundTry::Ended(RefundOrdered::Differs { field }));
            }
            let Some((_, known)) = aggregate.refund(refund) else {
                return Ok(RefundTry::Again);
            };
            return Ok(RefundTry::Ended(match asked.new.differs(known) {
                Some(field) => RefundOrdered::Differs { field },
                None => RefundOrdered::Replay { aggregate, refund },
            }));
        }
        let line = work_of_refund(&asked.new);
        if let Some(about) = &line
            && !work::is_open(&self.requests, about).await?
        {
            return Ok(RefundTry::Ended(RefundOrdered::LineClosed));
        }
        let (now, schedule) = (asked.now, self.schedule.load_full());
        let step = Step::Refund(Box::new(asked.new.clone()));
        let mut change = match aggregate.step(step, now, &schedule) {
            Ok((_, change)) => change,
            Err(refusal) => return Ok(RefundTry::Ended(RefundOrdered::Refused(refusal))),
        };
        let timed = self.time_step(
            (&loaded.ledger, loaded.clock),
            now,
            &loaded.aggregate,
            &mut aggregate,
            &mut change,
        );
        let of = Works {
            payment: Some(&aggregate.payment),
            environment: aggregate.payment.environment,
            closed: &change.work_closed,
            new: &change.work,
        };
        let works = work::lines(&self.requests, of, now).await?;
        let mut statement = Saved {
            before: loaded,
            after: &aggregate,
            change: &change,
            named: &[],
            works,
            timed,
            op,
            now,
        }
        .statement(&self.secrets)?;
        if let Some(about) = line {
            // Waits for an operator who closes the item concurrently, or makes the operator wait.
            let sql = "SELECT FROM work
                WHERE attempt = $1 AND kind = $2 AND subject = '' AND is_open FOR SHARE";
            let attempt = uuid(about.attempt.as_bytes());
            statement.add("open_line", sql, values![attempt, about.kind as i16]);
            statement.assert("open_line", 1);
        }
        let change = Box::new(change);
        let done = RefundOrdered::New { aggregate, change };
        Ok(RefundTry::Write { done, statement })
    }

    /// Reason why the caller must not refund the payment. `None` if it may.
    async fn refused(
        &self,
        asked: &OrderRefund,
        payment: &Payment,
    ) -> Result<Option<RefundOrdered>, Fault> {
        let (database, environment) = (&self.requests, payment.environment);
        let Some((owner, reseller)) = payment_steps::refunder(payment, asked.new.origin) else {
            return Ok(Some(RefundOrdered::Unknown));
        };
        if let Some(hash) = asked.authority
            && !keys::may_use(database, hash, owner, environment, asked.now).await?
        {
            return Ok(Some(RefundOrdered::KeyRefused));
        }
        let Some(reseller) = reseller else {
            return Ok(None);
        };
        let bars = resellers::bars_refund(database, reseller, payment.merchant, environment);
        Ok(bars.await?.map(RefundOrdered::Barred))
    }

    /// The refund that was ordered with the same key, and its payment.
    async fn ordered_before(
        &self,
        asked: &OrderRefund,
        aggregate: &PaymentAggregate,
    ) -> Result<Option<(RefundId, PaymentId)>, Fault> {
        let payment = &aggregate.payment;
        let Some(key) = &asked.new.key else {
            return Ok(None);
        };
        // The payment's body takes precedence over the row that refers to it.
        let origin = asked.new.origin;
        if let Some((_, refund)) = aggregate
            .refunds()
            .into_iter()
            .find(|(_, refund)| refund.is_ordered_by(origin, key))
        {
            return Ok(Some((refund.id, asked.payment)));
        }
        let sql = "SELECT id, payment FROM refund WHERE key = $1 AND key IS NOT NULL";
        let key = schema::refund_by_key(payment, origin, key);
        let found = self.requests.read_one(sql, &[&&key[..]]).await?;
        Ok(found.map(|row| (id(&row, 0, RefundId::from_bytes), payment_id(&row, 1))))
    }
}
