//! Claiming deliveries, and telling the worker that something was queued.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{DeliveryId, EndpointId};
use kassette_domain::time::Time;
use kassette_engine::{Operation, Span};

use crate::rows::schema;
use crate::rows::source::Source;
use crate::sled::memory::claims::Claims;
use crate::sled::memory::{Memory, Rows, View};
use crate::sled::webhooks::endpoints;
use crate::sled::webhooks::outbox::{BodyRow, DeliveryRow, read_due};
use crate::{ClaimedDeliveries, DueDelivery, Fault};

/// Most deliveries of one claim.
const MAX_CLAIM: usize = 64;

/// Takes what is due of an endpoint.
pub(crate) fn claim(
    claims: &Claims,
    view: &View<'_>,
    endpoint: EndpointId,
    now: Time,
    lease: Duration,
    at_most: usize,
) -> Result<ClaimedDeliveries, Fault> {
    if !endpoints::load(view, endpoint)?.is_some_and(|endpoint| endpoint.enabled) {
        return Ok(ClaimedDeliveries::Held);
    }
    let at_most = at_most.clamp(1, MAX_CLAIM);
    // Held until all is read: a lease that ends meanwhile ends after its row was rewritten, so a
    // delivery is never seen as due by an old row and as free by a new lease.
    let mut leases = claims.leases(now);
    let mut deliveries = Vec::new();
    let mut span = Span::prefix(&schema::webhooks::due_of(endpoint));
    loop {
        let found = view.keys(&span, at_most + 1)?;
        let is_last = found.len() <= at_most;
        for key in found {
            let (_, due_at, id) = read_due(&key)?;
            let is_free = leases.get(&id).is_none_or(|until| *until <= now);
            if is_free && (now < due_at || deliveries.len() == at_most) {
                let next = Some(due_at);
                return Ok(ClaimedDeliveries::Due { deliveries, next });
            }
            span = span.after(&key);
            if !is_free {
                continue;
            }
            leases.insert(id, now.after(lease));
            match load(view, id, due_at) {
                Ok(delivery) => deliveries.push(delivery),
                // One damaged delivery must not keep the others waiting: it is looked at again
                // when its lease ends.
                Err(Fault::Corrupt(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        if is_last {
            let next = None;
            return Ok(ClaimedDeliveries::Due { deliveries, next });
        }
    }
}

fn load(source: &impl Source, id: DeliveryId, due_at: Time) -> Result<DueDelivery, Fault> {
    let row: DeliveryRow = source.expect(&schema::webhooks::delivery(id))?;
    let body: BodyRow = source.expect(&row.body())?;
    Ok(DueDelivery {
        id,
        event: row.event,
        kind: row.kind,
        created_at: row.created_at,
        due_at,
        attempts: row.attempts.len(),
        body: body.body,
    })
}

/// An operation that may queue deliveries, or let them go on.
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
        queued.claims.ring(&queued.endpoints);
    }
}

/// The endpoints that something was queued for, and who is told once that is settled.
pub(crate) struct Queued {
    claims: Arc<Claims>,
    endpoints: Vec<EndpointId>,
}
