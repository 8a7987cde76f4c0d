//! Where rows are read and written.

use kassette_engine::{IVec, Key, Rows, State, View};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records;
use crate::Fault;

/// Where rows are read: in an operation, or from outside.
pub(crate) trait RowSource {
    /// A row as it was written.
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault>;

    /// A row's value.
    fn load<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, Fault> {
        self.get(key)?
            .map(|row| records::decode(key, &row))
            .transpose()
    }

    /// A row that another row promises.
    fn expect<T: DeserializeOwned>(&self, key: &[u8]) -> Result<T, Fault> {
        self.load(key)?
            .ok_or_else(|| records::damaged(key, "it is missing"))
    }
}

impl<S: State> RowSource for Rows<'_, S> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        Rows::get(self, key)
    }
}

impl<Shown> RowSource for View<'_, Shown> {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        View::get(self, key)
    }
}

/// Where values are written.
pub(crate) trait Save {
    /// Writes a value.
    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault>;
}

impl<S: State> Save for Rows<'_, S> {
    fn save<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault> {
        let row = records::encode(&key, value)?;
        self.put(key, row);
        Ok(())
    }
}
