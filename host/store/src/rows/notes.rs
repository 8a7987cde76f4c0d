//! The encrypted row of a payment's notes. It is written with the payment and removed when the payer's data are
//! erased.

use kassette_domain::extras::Notes;
use kassette_domain::id::PaymentId;
use kassette_domain::payment::Payment;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Sealer;
use crate::rows::stored::closed;

/// Whether a payment has a row of notes.
pub(crate) fn has_row(payment: &Payment) -> bool {
    payment.notes.is_some_and(|kept| !kept.is_erased)
}

/// The row of a payment's notes. `None` if they are empty.
pub(crate) fn encode(
    sealer: &Sealer,
    payment: PaymentId,
    notes: &Notes,
) -> Result<Option<(Key, IVec)>, Fault> {
    if notes.is_empty() {
        return Ok(None);
    }
    let key = schema::notes(payment);
    let row = records::encode(sealer, &key, &sealer.seal(&key, notes)?)?;
    Ok(Some((key, row)))
}

pub(crate) fn decode(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Notes, Fault> {
    let sealed: Vec<u8> = records::decode(sealer, key, row)?;
    sealer
        .open(key, &sealed)
        .map_err(|unopened| closed(key, unopened))
}

pub(crate) fn reseal(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let notes = decode(old, key, row)?;
    records::encode(new, key, &new.seal(key, &notes)?)
}
