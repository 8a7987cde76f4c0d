//! Kinds of rows, with their check and the way to seal them again.

use kassette_engine::IVec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::Verifier;
use crate::Fault;
use crate::rows::records;
use crate::rows::schema::Key;
use crate::rows::seal::Sealer;

/// Checks one row: whether it decodes, opens and is consistent with others. The error is a problem of the row
/// itself; all other findings are reported to the verifier.
pub(crate) type Check = fn(&mut Verifier<'_>, &[u8], &IVec) -> Result<(), Fault>;

/// Seals the sealed parts of a row again, from one key to another.
pub(crate) type Reseal = fn(&Sealer, &Sealer, &[u8], &[u8]) -> Result<IVec, Fault>;

/// Whether rows of a kind follow from other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    /// They do not: they are the primary data.
    Not,
    /// Exactly one other row promises each key.
    Key,
    /// Exactly one other row promises each key with its value.
    Row,
}

/// Treatment of a row when the master key changes.
#[derive(Clone, Copy)]
enum Rekey {
    /// Its MAC is renewed.
    Mac,
    /// Its sealed parts are sealed again, and its MAC is renewed.
    Seal(Reseal),
    /// It depends on no key.
    Nothing,
}

/// A kind of row.
pub(crate) struct Kind {
    /// Number in backups. Never changed and never used for another kind.
    pub(crate) tag: u8,
    /// Name in backups.
    pub(crate) name: &'static str,
    /// Prefix of its keys.
    pub(crate) prefix: &'static [u8],
    /// Whether its rows follow from other rows.
    pub(crate) derived: Derived,
    /// Check of a row.
    pub(crate) check: Check,
    rekey: Rekey,
}

impl Kind {
    /// A kind of primary data.
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
            rekey: Rekey::Mac,
        }
    }

    /// Adds the function that seals secrets again.
    pub(crate) const fn sealing(mut self, reseal: Reseal) -> Self {
        self.rekey = Rekey::Seal(reseal);
        self
    }

    /// Marks the rows as specially encoded, without a MAC.
    pub(crate) const fn bare(mut self) -> Self {
        self.rekey = Rekey::Nothing;
        self
    }

    /// Whether its rows have sealed parts.
    pub(crate) const fn has_secrets(&self) -> bool {
        matches!(self.rekey, Rekey::Seal(_))
    }

    /// A row under another master key.
    pub(crate) fn rekeyed(
        &self,
        old: &Sealer,
        new: &Sealer,
        key: &[u8],
        row: &[u8],
    ) -> Result<IVec, Fault> {
        match self.rekey {
            Rekey::Mac if !row.is_empty() => records::renew(old, new, key, row),
            Rekey::Seal(reseal) => reseal(old, new, key, row),
            Rekey::Mac | Rekey::Nothing => Ok(row.into()),
        }
    }

    /// Marks the rows as promised by other rows.
    pub(crate) const fn following(mut self, derived: Derived) -> Self {
        self.derived = derived;
        self
    }
}

/// All kinds of rows of a store. A row that fits none is damage.
pub(crate) struct Kinds(Vec<&'static Kind>);

impl Kinds {
    /// Collects the kinds of several tables.
    pub(crate) fn from_tables(tables: &[&'static [Kind]]) -> Self {
        let mut all: Vec<_> = tables.iter().flat_map(|table| table.iter()).collect();
        all.sort_unstable_by_key(|kind| kind.prefix);
        Self(all)
    }

    /// All kinds, in the order of their prefixes.
    pub(crate) fn all(&self) -> &[&'static Kind] {
        &self.0
    }

    /// The kind of a key, and the part of the key after its prefix.
    pub(crate) fn find<'k>(&self, key: &'k [u8]) -> Option<(&'static Kind, &'k [u8])> {
        // The last kind whose prefix is not greater than the key is the only candidate.
        let at = self.0.partition_point(|kind| kind.prefix <= key);
        let kind = self.0.get(at.checked_sub(1)?)?;
        Some((kind, key.strip_prefix(kind.prefix)?))
    }

    /// Like [`Self::find`], for a key that must have a kind.
    pub(crate) fn split<'k>(&self, key: &'k [u8]) -> Result<(&'static Kind, &'k [u8]), Fault> {
        self.find(key)
            .ok_or_else(|| Fault::Corrupt(format!("a row of no known kind, {}", hex::encode(key))))
    }

    /// A key of a kind. `None` if the kind does not exist.
    pub(crate) fn join(&self, tag: u8, rest: &[u8]) -> Option<Key> {
        let kind = self.0.iter().find(|kind| kind.tag == tag)?;
        Some([kind.prefix, rest].concat())
    }
}

/// Checks a row that contains only a value of a type.
pub(crate) fn plain<T: DeserializeOwned>(
    verifier: &mut Verifier<'_>,
    key: &[u8],
    row: &IVec,
) -> Result<(), Fault> {
    records::decode::<T>(&verifier.secrets.sealer, key, row).map(drop)
}

/// Checks a row without a value.
pub(crate) fn empty(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match row.is_empty() {
        true => Ok(()),
        false => records::decode::<()>(&verifier.secrets.sealer, key, row),
    }
}

/// Seals a row again that is only a sealed value, which needs no MAC.
pub(crate) fn whole<T: Serialize + DeserializeOwned + zeroize::Zeroize>(
    old: &Sealer,
    new: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<IVec, Fault> {
    let value: Zeroizing<T> = old
        .open(key, row)
        .map(Zeroizing::new)
        .map_err(|_| records::damaged(key, "it does not open"))?;
    new.seal(key, &*value).map(IVec::from)
}
