//! Creating a payment, exactly one per reference.

use std::sync::Arc;

use kassette_domain::extras::NotesKept;
use kassette_domain::id::PaymentId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::payment::{NewPayment, Origin, Payment, Request};
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation};

use crate::payment_steps::is_same_reference;
use crate::rows;
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

/// Result for a request that was made before. `None` if it is new. `found` contains the payments that its
/// reference may match.
pub(crate) fn replay(
    found: Vec<PaymentId>,
    request: &Request,
    load: impl Fn(PaymentId) -> Result<Arc<Payment>, Fault>,
    (email_mark, notes): (
        impl Fn() -> Option<[u8; 32]>,
        impl Fn() -> Option<NotesKept>,
    ),
) -> Result<Option<Created>, Fault> {
    for id in found {
        let payment = load(id)?;
        if is_same_reference(&payment, request) {
            return Ok(Some(
                match payment.differs(request, email_mark(), notes()) {
                    Some(field) => Created::Differs { field },
                    None => Created::Replay(Arc::unwrap_or_clone(payment)),
                },
            ));
        }
    }
    Ok(None)
}

/// Whether the key of a request is still usable and belongs to this owner and environment.
pub(crate) fn may_use(
    source: &impl RowSource,
    hash: TokenHash,
    owner: KeyOwner,
    environment: Environment,
    now: Time,
) -> Result<bool, Fault> {
    let key: Option<ApiKey> = source.load(&schema::api_key(hash))?;
    Ok(key.is_some_and(|key| key.usable_by(owner, environment, now)))
}

/// A creation, with everything that can be prepared before its turn.
pub(crate) struct Create {
    request: Request,
    payment: Payment,
    authority: Option<TokenHash>,
    now: Time,
    secrets: Arc<Secrets>,
    /// The payment's own row.
    row: (Key, IVec),
    /// The row of its notes.
    notes: Option<(Key, IVec)>,
    entered: Entered,
    /// Keys of the rows of its search marks.
    marked: Vec<Key>,
    decision: Option<kassette_domain::payment::RoutingDecision>,
}

impl Create {
    /// Prepares the rows on the caller's thread, because sealing takes longer than everything else.
    pub(crate) fn prepare(
        secrets: &Arc<Secrets>,
        mut new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> Result<Self, Fault> {
        let request = new.request.clone();
        let decision = new.decision.take();
        let email_mark = secrets.email_mark(&request);
        let notes = rows::notes::encode(&secrets.sealer, new.id, &request.extras.notes)?;
        let mut payment = Payment::new(new, email_mark, now);
        payment.notes = secrets.notes_kept(&request.extras.notes);
        let aggregate = PaymentAggregate::new(payment);
        let counters = PaymentCounters {
            timer: aggregate.due_at().map(Timer::Shared),
            decisions: u16::from(decision.is_some()),
            ..PaymentCounters::default()
        };
        let marks = secrets.search_marks(&aggregate).into_iter();
        let payment = aggregate.payment;
        let marked = marks
            .map(|mark| schema::marked(mark, payment.created_at, payment.id))
            .collect();
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
            notes,
            entered: Entered {
                entry,
                due: counters.timer.map(Timer::at),
            },
            marked,
            decision,
        })
    }

    /// Reason why the caller may no longer create the payment, checked in the transaction that writes it.
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
        let made_before = replay(
            found,
            request,
            load,
            (|| self.payment.email_mark, || self.payment.notes),
        )?;
        if let Some(made_before) = made_before {
            return Ok(made_before);
        }
        let (key, row) = self.row;
        if rows.get(&key)?.is_some() {
            return Err(Fault::Unavailable("the payment's id is in use".into()));
        }
        rows.put(key, row);
        if let Some((key, row)) = self.notes {
            rows.put(key, row);
        }
        enter(rows, self.entered)?;
        for marked in self.marked {
            rows.put(marked, IVec::default());
        }
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
