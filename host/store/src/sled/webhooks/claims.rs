//! Claiming deliveries, and notifying the worker that something was queued.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::key::KeyOwner;
use kassette_domain::time::Time;
use kassette_domain::webhook::Additions;
use kassette_engine::{Operation, Span};

use crate::deliveries::MAX_CLAIM;
use crate::rows::notes;
use crate::rows::schema;
use crate::rows::source::RowSource;
use crate::sled::memory::claims::Claims;
use crate::sled::memory::{Memory, Rows, View};
use crate::sled::webhooks::endpoints;
use crate::sled::webhooks::outbox::{BodyRow, DeliveryRow, read_due};
use crate::{ClaimedDeliveries, DueDelivery, Fault};

/// Number of keys fetched per read.
const CHUNK: usize = 16;

/// Claims due deliveries of an endpoint.
pub(crate) struct ClaimDeliveries {
    claims: Arc<Claims>,
    endpoint: EndpointId,
    now: Time,
    lease: Duration,
    at_most: usize,
    /// Rows still to be read. `None` before the first slice.
    rest: Option<Span>,
    /// Whether the endpoint is a reseller's.
    is_resellers: bool,
    deliveries: Vec<DueDelivery>,
}

impl ClaimDeliveries {
    pub(crate) fn new(
        claims: Arc<Claims>,
        endpoint: EndpointId,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> Self {
        Self {
            claims,
            endpoint,
            now,
            lease,
            at_most: at_most.clamp(1, MAX_CLAIM),
            rest: None,
            is_resellers: false,
            deliveries: Vec::new(),
        }
    }

    /// Claims more deliveries. Breaks with all of them.
    ///
    /// A lease that ends during this read ends after its row was rewritten, and the new row is shown only
    /// after this read. So a delivery is never seen as due by an old row and as unclaimed by an ended lease.
    pub(crate) fn go_on(
        &mut self,
        view: &View<'_>,
    ) -> Result<ControlFlow<ClaimedDeliveries>, Fault> {
        let mut rest = match self.rest.take() {
            Some(rest) => rest,
            None => match endpoints::load(view, self.endpoint)? {
                Some(found) if found.enabled => {
                    self.is_resellers = matches!(found.owner, KeyOwner::Reseller(_));
                    self.claims.sweep(self.now);
                    Span::prefix(&schema::webhooks::due_of(self.endpoint))
                }
                _ => return Ok(ControlFlow::Break(ClaimedDeliveries::Held)),
            },
        };
        loop {
            let found = view.keys(&rest, CHUNK)?;
            let is_last = found.len() < CHUNK;
            for key in found {
                let (_, due_at, id) = read_due(&key)?;
                let until = self.now.after(self.lease);
                if self.now < due_at || self.deliveries.len() == self.at_most {
                    if self.claims.is_free(id, self.now) {
                        return Ok(self.due(Some(due_at)));
                    }
                } else if self.claims.take(id, self.now, until) {
                    match load(view, id, due_at, self.is_resellers) {
                        Ok(delivery) => self.deliveries.push(delivery),
                        // A damaged delivery must not block others. It is tried again when its lease ends.
                        Err(Fault::Corrupt(_)) => {}
                        Err(fault) => return Err(fault),
                    }
                }
                rest = rest.after(&key);
                if view.is_enough() {
                    self.rest = Some(rest);
                    return Ok(ControlFlow::Continue(()));
                }
            }
            if is_last {
                return Ok(self.due(None));
            }
        }
    }

    fn due(&mut self, next: Option<Time>) -> ControlFlow<ClaimedDeliveries> {
        let deliveries = std::mem::take(&mut self.deliveries);
        ControlFlow::Break(ClaimedDeliveries::Due { deliveries, next })
    }
}

fn load(
    source: &impl RowSource,
    id: DeliveryId,
    due_at: Time,
    is_resellers: bool,
) -> Result<DueDelivery, Fault> {
    let row: DeliveryRow = source.expect(&schema::webhooks::delivery(id))?;
    let body: BodyRow = source.expect(&row.body())?;
    let notes = schema::notes(row.payment);
    let notes = source
        .get(&notes)?
        .map(|row| notes::decode(source.sealer(), &notes, &row));
    let notes = notes.transpose()?.unwrap_or_default();
    let delegated = body.delegated.as_ref().filter(|_| is_resellers);
    let additions = Additions {
        metadata: Some(&notes.metadata).filter(|metadata| !metadata.is_empty()),
        client_ref: delegated.map(|(client_ref, _)| client_ref),
        merchant_id: delegated.map(|(_, merchant)| *merchant),
    };
    Ok(DueDelivery {
        id,
        event: row.event,
        kind: row.kind,
        payment: row.payment,
        created_at: row.created_at,
        due_at,
        attempts: row.attempts.len(),
        body: additions.add_to(body.body),
    })
}

/// An operation that may queue deliveries or make them continue.
pub(crate) struct Ringing<O> {
    pub(crate) operation: O,
    pub(crate) claims: Arc<Claims>,
}

impl<O: Operation<Memory>> Operation<Memory> for Ringing<O> {
    type Outcome = (O::Outcome, Queued);

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let outcome = self.operation.apply(rows)?;
        let mut endpoints: Vec<_> = rows
            .written_by_operation()
            .filter_map(|key| schema::webhooks::wakes(key))
            .collect();
        endpoints.dedup();
        let queued = Queued {
            claims: self.claims,
            endpoints,
        };
        Ok((outcome, queued))
    }

    fn settled((_, queued): &Self::Outcome) {
        queued.claims.bell.ring(&queued.endpoints);
    }
}

/// Endpoints for which something was queued. The worker is notified after the commit.
pub(crate) struct Queued {
    claims: Arc<Claims>,
    endpoints: Vec<EndpointId>,
}
