//! Checks of the rows of the routing log.

use kassette_engine::IVec;

use crate::Fault;
use crate::rows::routing::{self, RoutingLogTotals, Size};
use crate::rows::{records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, plain};

/// The kinds of rows of the routing log.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(87, "routing-batch", schema::ROUTING_BATCHES, batch).sealing(routing::reseal),
    Kind::new(
        88,
        "routing-batch-by-time",
        schema::ROUTING_BY_TIME,
        plain::<Size>,
    )
    .following(Derived::Row),
    Kind::new(
        89,
        "routing-log",
        schema::ROUTING_LOG,
        plain::<RoutingLogTotals>,
    ),
];

/// Checks a batch of entries of one slot, which count towards the whole log.
fn batch(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let of = schema::routing_batch_of(key);
    let (slot, at, number) = of.ok_or_else(|| records::damaged(key, "it is about nothing"))?;
    let size = Size::new(routing::count(&verifier.secrets.sealer, key, row)?, row);
    verifier.promise_value(schema::routing_by_time(at, number, &slot), &size)?;
    verifier.count_batch(number, size);
    let held = routing::slots(&verifier.secrets.sealer, &slot, key, row)?;
    if u32::try_from(held.len()) != Ok(size.records) {
        verifier.find(key, "it counts other entries than it holds");
    }
    if held.iter().any(|other| *other != slot) {
        verifier.find(key, "it holds entries of another slot");
    }
    Ok(())
}
