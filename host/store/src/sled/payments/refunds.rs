//! Ordering refunds, exactly one per idempotency key.

use std::sync::Arc;

use kassette_domain::audit::Audited;
use kassette_domain::id::{PaymentId, RefundId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{NewRefund, QuerySchedule, Step};
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_engine::Operation;

use crate::payment_steps::{self, work_of_refund};
use crate::rows::records;
use crate::rows::schema;
use crate::rows::seal::Secrets;
use crate::rows::source::RowSource;
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::movements;
use crate::sled::payments::aggregates::{self, Loaded};
use crate::sled::payments::create::may_use;
use crate::sled::resellers::delegations;
use crate::{About, Fault, RefundOrdered};

pub(crate) struct OrderRefund {
    pub(crate) payment: PaymentId,
    pub(crate) new: NewRefund,
    pub(crate) authority: Option<TokenHash>,
    pub(crate) audited: Option<Audited>,
    pub(crate) now: Time,
    pub(crate) schedule: Arc<QuerySchedule>,
    pub(crate) secrets: Arc<Secrets>,
}

impl OrderRefund {
    /// Reason why the caller must not refund the payment. `None` if it may.
    fn refused(&self, rows: &Rows<'_>, payment: &Payment) -> Result<Option<RefundOrdered>, Fault> {
        let environment = payment.environment;
        let Some((owner, reseller)) = payment_steps::refunder(payment, self.new.origin) else {
            return Ok(Some(RefundOrdered::Unknown));
        };
        if let Some(hash) = self.authority
            && !may_use(rows, hash, owner, environment, self.now)?
        {
            return Ok(Some(RefundOrdered::KeyRefused));
        }
        let Some(reseller) = reseller else {
            return Ok(None);
        };
        let bars = delegations::bars_refund(rows, reseller, payment.merchant, environment)?;
        Ok(bars.map(RefundOrdered::Barred))
    }

    /// Result for an order whose key was used before.
    fn replay(&self, rows: &Rows<'_>, payment: &Payment) -> Result<Option<RefundOrdered>, Fault> {
        let Some(key) = &self.new.key else {
            return Ok(None);
        };
        let by_key = schema::refund_by_key(payment, self.new.origin, key);
        let Some(refund) = rows.load::<RefundId>(&by_key)? else {
            return Ok(None);
        };
        let index = schema::refund_index(refund);
        let missing = || records::damaged(&index, "it is missing");
        let of = aggregates::resolve(rows, &About::Refund(refund))?.ok_or_else(missing)?;
        if of != self.payment {
            let field = "payment_id";
            return Ok(Some(RefundOrdered::Differs { field }));
        }
        let Loaded { aggregate, .. } =
            aggregates::load_promised(rows, &self.secrets.sealer, self.payment)?;
        let (_, known) = aggregate.refund(refund).ok_or_else(missing)?;
        Ok(Some(match self.new.differs(known) {
            Some(field) => RefundOrdered::Differs { field },
            None => RefundOrdered::Replay { aggregate, refund },
        }))
    }
}

impl Operation<Memory> for OrderRefund {
    type Outcome = RefundOrdered;

    fn apply(self, rows: &mut Rows<'_>) -> Result<RefundOrdered, Fault> {
        let sealer = &self.secrets.sealer;
        let loaded = aggregates::load(rows, sealer, self.payment)?;
        let Some(Loaded {
            mut aggregate,
            counters,
        }) = loaded
        else {
            return Ok(RefundOrdered::Unknown);
        };
        if let Some(refused) = self.refused(rows, &aggregate.payment)? {
            return Ok(refused);
        }
        if let Some(ordered_before) = self.replay(rows, &aggregate.payment)? {
            return Ok(ordered_before);
        }
        if let Some(about) = work_of_refund(&self.new)
            && rows.get(&schema::work_about(&about))?.is_none()
        {
            return Ok(RefundOrdered::LineClosed);
        }
        let before = aggregate.clone();
        let step = Step::Refund(Box::new(self.new));
        let mut change = match aggregate.step(step, self.now, &self.schedule) {
            Ok((_, change)) => change,
            Err(refusal) => return Ok(RefundOrdered::Refused(refusal)),
        };
        movements::time(rows, &before, &mut aggregate, &mut change)?;
        let after = Loaded {
            aggregate,
            counters,
        };
        aggregates::save(rows, &self.secrets, &before, &after, &change, self.now)?;
        if let Some(audited) = self.audited {
            audit::append(rows, audited, self.now)?;
        }
        let (aggregate, change) = (after.aggregate, Box::new(change));
        Ok(RefundOrdered::New { aggregate, change })
    }
}
