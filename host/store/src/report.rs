//! Findings of a verification, and its progress.

use std::collections::BTreeMap;

use kassette_domain::audit::AuditedSlot;
use kassette_domain::id::Slot;

/// Findings that are named; further ones are counted.
const MAX_FINDINGS: usize = 1000;

/// Findings about rows that follow from others.
pub(crate) const MISSING: &str = "it is missing: what it leads to is there";
pub(crate) const STRAY: &str =
    "nothing that is there needs it: what it led to is missing or damaged";
pub(crate) const ELSEWHERE: &str = "it leads elsewhere than it should";

/// A problem of a store.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The kind of row.
    pub kind: &'static str,
    /// The row's key in hexadecimal. Keys contain ids and hashes, never secrets. For unreadable data two keys
    /// or a file name. Empty for the store as a whole.
    pub row: String,
    pub what: String,
    pub advice: &'static str,
}

/// Result of verifying a whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Number of rows of each kind that has any.
    pub rows: BTreeMap<&'static str, u64>,
    pub payments: u64,
    /// Number of lines in the audit log.
    pub audit_lines: u64,
    /// The first findings, up to a maximum number.
    pub findings: Vec<Finding>,
    /// Number of findings beyond those.
    pub more_findings: u64,
    /// State of each module slot according to the audit log. Only for a store in a data directory, where the module
    /// histories are outside the store.
    #[serde(skip)]
    pub slots: BTreeMap<Slot, AuditedSlot>,
}

impl VerifyReport {
    /// Whether there are no findings.
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
    /// Creates an empty list. `advice` is the remedy of each finding.
    pub(crate) const fn new(advice: &'static str) -> Self {
        Self {
            advice,
            named: Vec::new(),
            unnamed: 0,
        }
    }

    /// Adds a finding about a row.
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

/// Unit of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Payments of a store.
    Payments,
    /// Rows of a store.
    Rows,
    /// Bytes of a file.
    Bytes,
}

/// Observer of a long task. Called on the task's thread.
pub trait Progress {
    /// Starts a part. `total` is its amount of work, if known.
    fn begin(&self, what: &str, unit: Unit, total: Option<u64>);
    /// Reports that `by` more is done.
    fn advance(&self, by: u64);
}

/// No observer.
impl Progress for () {
    fn begin(&self, _: &str, _: Unit, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
}
