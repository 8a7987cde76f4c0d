//! Rows of format 5: events were found by their payment alone.

use super::*;

/// An event's row, and the one by which its merchant's events are listed.
pub(crate) fn event(
    memtable: &Memtable,
    _: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    event_now(memtable, key, records::decode(key, row)?)
}

/// What stands for an event that has the form of now. Of any format's payment the row begins alike.
pub(super) fn event_now(memtable: &Memtable, key: &[u8], event: EventRow) -> Result<Rows, Fault> {
    let (id, ordinal) =
        schema::event_of(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let of = schema::payment(id);
    let payment = memtable
        .get(&of)?
        .ok_or_else(|| records::damaged(&of, "it is missing"))?;
    let (merchant, _, environment): (MerchantId, Origin, Environment) =
        records::decode_head(&of, &payment)?;
    let mut rows = one(key, &event)?;
    let (listed, row) = event.listed((merchant, environment), id, ordinal);
    rows.extend(one(&listed, &row)?);
    Ok(rows)
}
