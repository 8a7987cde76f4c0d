//! Ordering money to be given back, exactly once for each idempotency key.
//!
//! As a step: read, stepped, and saved by one statement if nothing has changed meanwhile. The key of the order is
//! unique, so of two orders that use it at once one is read again, and is a replay.

use kassette_domain::audit::Audited;
use kassette_domain::id::{PaymentId, RefundId};
use kassette_domain::key::{KeyOwner, TokenHash};
use kassette_domain::lifecycle::{NewRefund, Step};
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;

use crate::postgres::columns::{id, payment_id};
use crate::postgres::database::{Failure, Tries};
use crate::postgres::directory::keys;
use crate::postgres::payments::stored::{self, Loaded, OP, Saved};
use crate::postgres::payments::work::{self, Works};
use crate::postgres::statement::{StatementBuilder, values};
use crate::postgres::{PostgresStore, number, uuid};
use crate::rows::seal::fill;
use crate::{About, Fault, RefundOrdered};

/// An order, to be done to its end.
pub(super) struct OrderRefund {
    pub(super) payment: PaymentId,
    pub(super) new: NewRefund,
    pub(super) authority: Option<TokenHash>,
    pub(super) audited: Option<Audited>,
    pub(super) now: Time,
}

/// What one try has come to.
enum RefundTry {
    Ended(RefundOrdered),
    /// Something has changed since the payment was read.
    Again,
    /// What has to be written for the order.
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
                // Another order with the same key, for one.
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
        if self.is_refused(asked, &aggregate.payment).await? {
            return Ok(RefundTry::Ended(RefundOrdered::KeyRefused));
        }
        if let Some((refund, payment)) = self.ordered_before(asked, &aggregate.payment).await? {
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
        let line = asked.new.line.map(|(kind, _)| (asked.new.attempt, kind));
        if let Some((attempt, kind)) = line {
            let sql = "SELECT FROM work WHERE attempt = $1 AND kind = $2 AND is_open";
            let about = uuid(attempt.as_bytes());
            let open = self
                .requests
                .read_one(sql, &[&about, &(kind as i16)])
                .await?;
            if open.is_none() {
                return Ok(RefundTry::Ended(RefundOrdered::LineClosed));
            }
        }
        let (now, schedule) = (asked.now, self.schedule.load_full());
        let step = Step::Refund(Box::new(asked.new.clone()));
        let change = match aggregate.step(step, now, &schedule) {
            Ok((_, change)) => change,
            Err(refusal) => return Ok(RefundTry::Ended(RefundOrdered::Refused(refusal))),
        };
        let of = Works {
            done: &change.work_done,
            closed: &change.work_closed,
            new: &change.work,
        };
        let works = work::lines(&self.requests, Some(asked.payment), of, now).await?;
        let mut statement = Saved {
            before: loaded,
            after: &aggregate,
            change: &change,
            named: &[],
            works,
            op,
            now,
        }
        .statement(&self.secrets)?;
        if let Some((attempt, kind)) = line {
            // An operator who marks it done meanwhile is waited for, or waits.
            let sql = "SELECT FROM work WHERE attempt = $1 AND kind = $2 AND is_open FOR SHARE";
            let about = uuid(attempt.as_bytes());
            statement.add("open_line", sql, values![about, kind as i16]);
            statement.assert("open_line", 1);
        }
        let change = Box::new(change);
        let done = RefundOrdered::New { aggregate, change };
        Ok(RefundTry::Write { done, statement })
    }

    async fn is_refused(&self, asked: &OrderRefund, payment: &Payment) -> Result<bool, Fault> {
        let Some(hash) = asked.authority else {
            return Ok(false);
        };
        let (owner, environment) = (KeyOwner::Merchant(payment.merchant), payment.environment);
        let may = keys::may_use(&self.requests, hash, owner, environment, asked.now);
        may.await.map(|may| !may)
    }

    /// The refund that was ordered with the same key, and of which payment.
    async fn ordered_before(
        &self,
        asked: &OrderRefund,
        payment: &Payment,
    ) -> Result<Option<(RefundId, PaymentId)>, Fault> {
        let Some(key) = &asked.new.key else {
            return Ok(None);
        };
        let sql = "SELECT id, payment FROM refund
            WHERE merchant = $1 AND environment = $2 AND key = $3 AND key IS NOT NULL";
        let (merchant, environment) = (
            number(payment.merchant.0),
            keys::environment(payment.environment),
        );
        let key = key.as_str().as_bytes();
        let found = self
            .requests
            .read_one(sql, &[&merchant, &environment, &key])
            .await?;
        Ok(found.map(|row| (id(&row, 0, RefundId::from_bytes), payment_id(&row, 1))))
    }
}
