//! Rows as other formats wrote them, read and written in this one. Postcard names no fields, so each type
//! that has changed since a format stands in that format's file as it was.

pub(crate) mod v3;
pub(crate) mod v4;
pub(crate) mod v5;

use kassette_engine::Memtable;

use super::*;

/// Rows of this format that stand for one of another.
type Rows = Vec<(Key, IVec)>;

fn one<T: Serialize>(key: &[u8], row: &T) -> Result<Rows, Fault> {
    let row = records::encode(key, row)?;
    Ok(vec![(key.to_vec(), row)])
}
