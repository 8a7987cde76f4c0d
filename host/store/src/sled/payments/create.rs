//! Making a payment, exactly one for each reference.

use std::sync::Arc;

use kassette_domain::id::PaymentId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::payment::{NewPayment, Origin, Payment, Request};
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation};

use crate::payment_steps::is_same_reference;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Secrets;
use crate::rows::source::RowSource;
use crate::rows::stored::{PaymentCounters, PaymentRow, Timer};
use crate::sled::memory::payment_index::{Entry, LookupKey};
use crate::sled::memory::payment_index_rows::Entered;
use crate::sled::memory::{Memory, Rows, enter, found};
use crate::sled::payments::aggregates;
use crate::sled::resellers::delegations;
use crate::{Created, Fault};

/// What a request that was made before gets; none where it is new. `found` are the payments that its reference may
/// stand for.
pub(crate) fn replay(
    found: Vec<PaymentId>,
    request: &Request,
    load: impl Fn(PaymentId) -> Result<Arc<Payment>, Fault>,
    email_mark: impl Fn() -> Option<[u8; 32]>,
) -> Result<Option<Created>, Fault> {
    for id in found {
        let payment = load(id)?;
        if is_same_reference(&payment, request) {
            return Ok(Some(match payment.differs(request, email_mark()) {
                Some(field) => Created::Differs { field },
                None => Created::Replay(Arc::unwrap_or_clone(payment)),
            }));
        }
    }
    Ok(None)
}

/// Whether a key that asked is still usable, and of this owner and environment.
pub(crate) fn may_use(
    source: &impl RowSource,
    hash: TokenHash,
    owner: KeyOwner,
    environment: Environment,
    now: Time,
) -> Result<bool, Fault> {
    let key: Option<ApiKey> = source.load(&schema::api_key(hash))?;
    let may = |key: ApiKey| key.usable(now) && key.owner == owner && key.environment == environment;
    Ok(key.is_some_and(may))
}

/// A creation, with all that can be made ready before it is its turn.
pub(crate) struct Create {
    request: Request,
    payment: Payment,
    authority: Option<TokenHash>,
    now: Time,
    secrets: Arc<Secrets>,
    /// The payment's own row.
    row: (Key, IVec),
    entered: Entered,
    decision: Option<kassette_domain::payment::RoutingDecision>,
}

impl Create {
    /// Makes the rows ready on the caller's side: sealing takes longer than all else.
    pub(crate) fn prepare(
        secrets: &Arc<Secrets>,
        mut new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> Result<Self, Fault> {
        let request = new.request.clone();
        let decision = new.decision.take();
        let email_mark = secrets.email_mark(&request);
        let payment = Payment::new(new, email_mark, now);
        let aggregate = PaymentAggregate::new(payment);
        let counters = PaymentCounters {
            timer: aggregate.due_at().map(Timer::Shared),
            decisions: u16::from(decision.is_some()),
            ..PaymentCounters::default()
        };
        let payment = aggregate.payment;
        let row = PaymentRow::encode(&secrets.sealer, &payment, counters.clone())?;
        let entry = Entry::new(
            payment.id,
            payment.merchant,
            payment.created_at,
            secrets.marks(&payment),
        );
        Ok(Self {
            request,
            payment,
            authority,
            now,
            secrets: Arc::clone(secrets),
            row,
            entered: Entered {
                entry,
                due: counters.timer.map(Timer::at),
            },
            decision,
        })
    }

    /// Why the caller may not any more, now that it is written.
    fn refused(&self, rows: &Rows<'_>) -> Result<Option<Created>, Fault> {
        let Some(hash) = self.authority else {
            return Ok(None);
        };
        let owner = match &self.request.origin {
            Origin::Merchant { .. } => KeyOwner::Merchant(self.request.merchant),
            Origin::Reseller { reseller, .. } => KeyOwner::Reseller(*reseller),
        };
        let may = may_use(rows, hash, owner, self.request.environment, self.now)?;
        match self.request.origin {
            _ if !may => Ok(Some(Created::KeyRefused)),
            Origin::Merchant { .. } => Ok(None),
            Origin::Reseller { reseller, .. } => {
                let (merchant, environment) = (self.request.merchant, self.request.environment);
                let bars = delegations::bars_creation(rows, reseller, merchant, environment)?;
                Ok(bars.map(Created::Barred))
            }
        }
    }
}

impl Operation<Memory> for Create {
    type Outcome = Created;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Created, Fault> {
        if let Some(refused) = self.refused(rows)? {
            return Ok(refused);
        }
        let (marker, request) = (&self.secrets.marker, &self.request);
        let reference = marker.reference(request.merchant, &request.origin);
        let found = found(rows, LookupKey::Reference, reference)?;
        let load = |id| {
            let row = PaymentRow::expect(rows, id)?;
            Ok(Arc::new(row.open(&self.secrets.sealer)?.0))
        };
        let made_before = replay(found, request, load, || self.payment.email_mark)?;
        if let Some(made_before) = made_before {
            return Ok(made_before);
        }
        let (key, row) = self.row;
        if rows.get(&key)?.is_some() {
            return Err(Fault::Unavailable("the payment's id is in use".into()));
        }
        rows.put(key, row);
        enter(rows, self.entered)?;
        if let Some(listed) = schema::resellers::payment_of(&self.payment) {
            rows.put(listed, IVec::default());
        }
        if let Some(decision) = self.decision {
            let mut counters = PaymentCounters::default();
            aggregates::append_decisions(rows, self.payment.id, &mut counters, &[decision])?;
        }
        Ok(Created::New(self.payment))
    }
}
