//! Kinds of rows: how each is checked, sealed anew, brought from formats before.

use kassette_engine::{IVec, Memtable};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::Verifier;
use crate::Fault;
use crate::rows::records;
use crate::rows::schema::Key;
use crate::rows::seal::Sealer;

/// Looks at one row: whether it decodes, opens and fits the rest. What is wrong with the row itself
/// is the error; everything else is told to the verifier.
pub(crate) type Check = fn(&mut Verifier<'_>, &[u8], &IVec) -> Result<(), Fault>;

/// Seals anew what stands sealed in a row: from one key to another.
pub(crate) type Reseal = fn(&Sealer, &Sealer, &[u8], &[u8]) -> Result<IVec, Fault>;

/// Writes a row of another format in this one: the rows that stand for it. The memtable has the other rows
/// in that format.
pub(crate) type Migrate = fn(&Memtable, &Sealer, &[u8], &[u8]) -> Result<Vec<(Key, IVec)>, Fault>;

/// Whether rows of a kind follow from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    /// No: they are what is kept.
    Not,
    /// Each key is promised by exactly one other row.
    Key,
    /// So is each value.
    Row,
}

/// A kind of row.
pub(crate) struct Kind {
    /// Its number in backups: never given to another kind, never changed.
    pub(crate) tag: u8,
    /// Its name there.
    pub(crate) name: &'static str,
    /// What its keys begin with.
    pub(crate) prefix: &'static [u8],
    /// Whether its rows follow from others.
    pub(crate) derived: Derived,
    /// What must hold of a row.
    pub(crate) check: Check,
    /// How its secrets change to another master key, where it has any.
    pub(crate) reseal: Option<Reseal>,
    /// How it comes from other formats: each entry from those up to its number, the oldest first.
    migrations: &'static [(u32, Migrate)],
}

impl Kind {
    /// A kind whose rows are what is kept.
    pub(crate) const fn new(
        tag: u8,
        name: &'static str,
        prefix: &'static [u8],
        check: Check,
    ) -> Self {
        Self {
            tag,
            name,
            prefix,
            derived: Derived::Not,
            check,
            reseal: None,
            migrations: &[],
        }
    }

    /// With secrets.
    pub(crate) const fn sealing(mut self, reseal: Reseal) -> Self {
        self.reseal = Some(reseal);
        self
    }

    /// Written otherwise in other formats: each entry tells of those up to its number, the oldest first.
    pub(crate) const fn migrated_by(mut self, migrations: &'static [(u32, Migrate)]) -> Self {
        self.migrations = migrations;
        self
    }

    /// How it comes from a format, where it was written otherwise there.
    pub(crate) fn migration(&self, from: u32) -> Option<Migrate> {
        let found = self.migrations.iter().find(|(last, _)| from <= *last);
        found.map(|(_, migrate)| *migrate)
    }

    /// Promised by other rows.
    pub(crate) const fn following(mut self, derived: Derived) -> Self {
        self.derived = derived;
        self
    }
}

/// All kinds of rows of a store. A row that fits none is damage.
pub(crate) struct Kinds(Vec<&'static Kind>);

impl Kinds {
    /// The kinds of some tables.
    pub(crate) fn of(tables: &[&'static [Kind]]) -> Self {
        let mut all: Vec<_> = tables.iter().flat_map(|table| table.iter()).collect();
        all.sort_unstable_by_key(|kind| kind.prefix);
        Self(all)
    }

    /// All of them, in the order of their prefixes.
    pub(crate) fn all(&self) -> &[&'static Kind] {
        &self.0
    }

    /// The kind of a key, and what follows the kind's prefix.
    pub(crate) fn find<'k>(&self, key: &'k [u8]) -> Option<(&'static Kind, &'k [u8])> {
        // The last kind whose prefix is not above the key is the only one that it can begin with.
        let at = self.0.partition_point(|kind| kind.prefix <= key);
        let kind = self.0.get(at.checked_sub(1)?)?;
        Some((kind, key.strip_prefix(kind.prefix)?))
    }

    /// The same for a key that has to have a kind.
    pub(crate) fn split<'k>(&self, key: &'k [u8]) -> Result<(&'static Kind, &'k [u8]), Fault> {
        self.find(key)
            .ok_or_else(|| Fault::Corrupt(format!("a row of no known kind, {}", hex::encode(key))))
    }

    /// The key of a kind; none where there is no such kind.
    pub(crate) fn join(&self, tag: u8, rest: &[u8]) -> Option<Key> {
        let kind = self.0.iter().find(|kind| kind.tag == tag)?;
        Some([kind.prefix, rest].concat())
    }
}

/// A row that holds nothing but a value of a type.
pub(crate) fn plain<T: DeserializeOwned>(
    _: &mut Verifier<'_>,
    key: &[u8],
    row: &IVec,
) -> Result<(), Fault> {
    records::decode::<T>(key, row).map(drop)
}

/// A row without a value.
pub(crate) fn empty(_: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match row.is_empty() {
        true => Ok(()),
        false => records::decode::<()>(key, row),
    }
}

/// A row that is nothing but a sealed value.
pub(crate) fn whole<T: Serialize + DeserializeOwned + zeroize::Zeroize>(
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
