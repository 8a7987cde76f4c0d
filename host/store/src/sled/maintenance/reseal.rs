//! What stands sealed in rows, sealed anew under another key.

use kassette_engine::IVec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::Fault;
use crate::sled::seal::Sealer;
use crate::sled::stored::{self, PaymentRow};
use crate::sled::{records, schema};

/// A row that is nothing but a sealed value.
pub(super) fn whole<T: Serialize + DeserializeOwned + zeroize::Zeroize>(
    old: &Sealer,
    new: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<IVec, Fault> {
    let sealed: Vec<u8> = records::decode(key, row)?;
    let value: Zeroizing<T> = old
        .open(key, &sealed)
        .map(Zeroizing::new)
        .map_err(|_| records::damaged(key, "it does not open"))?;
    records::encode(key, &new.seal(key, &*value)?)
}

/// A payment's row.
pub(super) fn payment(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let id = schema::payment_id(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let (payment, books) = PaymentRow::decode(id, key, row)?.open(old)?;
    PaymentRow::encode(new, &payment, books).map(|(_, row)| row)
}

/// An attempt's row; its ordinal is the last byte of its key.
pub(super) fn attempt(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let ordinal = key.last().copied().unwrap_or_default();
    let attempt = stored::open_attempt(old, key, row)?;
    stored::encode_attempt(new, &attempt, ordinal).map(|(_, row)| row)
}
