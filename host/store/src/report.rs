//! What reading a whole store through finds, and who hears how far it is.

use std::collections::BTreeMap;

/// Findings that are named; further ones are counted.
const MAX_FINDINGS: usize = 1000;

/// What is wrong with a row that follows from others.
pub(crate) const MISSING: &str = "it is missing: what it leads to is there";
pub(crate) const STRAY: &str =
    "nothing that is there needs it: what it led to is missing or damaged";
pub(crate) const ELSEWHERE: &str = "it leads elsewhere than it should";

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The kind of row.
    pub kind: &'static str,
    /// The row's key in hexadecimal: keys hold ids and hashes, never secrets. Of damage two keys or a file's name;
    /// empty for the whole store.
    pub row: String,
    pub what: String,
    pub advice: &'static str,
}

/// What was found in a whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Rows of each kind that has any.
    pub rows: BTreeMap<&'static str, u64>,
    pub payments: u64,
    /// Lines of the audit log.
    pub audit_lines: u64,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub more_findings: u64,
}

impl VerifyReport {
    /// Whether nothing was found.
    pub const fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Findings so far.
pub(crate) struct Findings {
    advice: &'static str,
    pub(crate) named: Vec<Finding>,
    pub(crate) unnamed: u64,
}

impl Findings {
    /// None yet; `advice` is what to do about each.
    pub(crate) const fn new(advice: &'static str) -> Self {
        Self {
            advice,
            named: Vec::new(),
            unnamed: 0,
        }
    }

    /// Something about a row is wrong.
    pub(crate) fn add(&mut self, kind: &'static str, key: &[u8], what: String) {
        if self.named.len() < MAX_FINDINGS {
            self.named.push(Finding {
                kind,
                row: hex::encode(key),
                what,
                advice: self.advice,
            });
        } else {
            self.unnamed += 1;
        }
    }
}

/// What progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Payments of a store.
    Payments,
    /// Rows of a store.
    Rows,
    /// Bytes of a file.
    Bytes,
}

/// Hears how far a long task is. Called from the thread that does it.
pub trait Progress {
    /// A part begins; `total` is how much there is to do, where that is known.
    fn begin(&self, what: &str, unit: Unit, total: Option<u64>);
    /// So much more of it is done.
    fn advance(&self, by: u64);
}

/// No observer.
impl Progress for () {
    fn begin(&self, _: &str, _: Unit, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
}
