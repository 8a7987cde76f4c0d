//! Access to rows.

use kassette_engine::{IVec, Key, Rows, State, View};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records;
use crate::Fault;
use crate::rows::seal::Sealer;

/// Data that is shown in addition to rows, with the sealer that authenticates them.
pub(crate) trait Authenticates {
    fn sealer(&self) -> &Sealer;
}

/// A source of rows: an operation, or a read.
pub(crate) trait RowSource {
    /// The sealer that authenticates the rows.
    fn sealer(&self) -> &Sealer;

    /// Returns a row as stored.
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault>;

    /// Returns the value of a row.
    fn load<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, Fault> {
        self.get(key)?
            .map(|row| records::decode(self.sealer(), key, &row))
            .transpose()
    }

    /// Returns the value of a row that another row requires.
    fn expect<T: DeserializeOwned>(&self, key: &[u8]) -> Result<T, Fault> {
        self.load(key)?
            .ok_or_else(|| records::damaged(key, "it is missing"))
    }
}

impl<S: State<Shown: Authenticates>> RowSource for Rows<'_, S> {
    fn sealer(&self) -> &Sealer {
        self.shown().sealer()
    }

    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        Rows::get(self, key)
    }
}

impl<Shown: Authenticates> RowSource for View<'_, Shown> {
    fn sealer(&self) -> &Sealer {
        self.shown().sealer()
    }

    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        View::get(self, key)
    }
}

/// A target for values.
pub(crate) trait Save {
    /// Encodes and writes a value.
    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault>;
}

impl<S: State<Shown: Authenticates>> Save for Rows<'_, S> {
    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault> {
        let row = records::encode(self.shown().sealer(), &key, value)?;
        self.put(key, row);
        Ok(())
    }
}
