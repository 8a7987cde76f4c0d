//! Verification of a whole store.
//!
//! Rows that follow from others are not looked up one by one: every row adds the rows that it promises to a
//! sum of their kind, every existing row adds itself to another sum, and if the sums are equal, so are the
//! rows. Only if they differ does a second pass name missing and superfluous rows.
//!
//! Unreadable rows are skipped, and reported by the keys between which they are.

pub(crate) mod kinds;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kassette_domain::audit::Chain;
use kassette_domain::key::KeyOwner;
use kassette_engine::{IVec, Memtable};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use self::kinds::{Derived, Kind, Kinds};
use crate::Fault;
use crate::newest::NewestEntries;
use crate::report::{ELSEWHERE, Finding, Findings, MISSING, STRAY, VerifyReport};
use crate::rows::records;
use crate::rows::routing::{RoutingLogTotals, Size};
use crate::rows::schema::{self, Key, Position};
use crate::rows::seal::Secrets;
use crate::sled::memory::{Shown, View};

/// Advice about damage.
pub(crate) const RESTORE: &str = "keep a copy of the data directory, and bring the latest backup that `kassette verify FILE` finds whole back with `kassette restore` (config/README.md, \"A damaged store\")";

/// Number of rows of a kind, and the sums of existing and of promised rows.
#[derive(Clone, Copy, Default)]
struct KindTotals {
    rows: u64,
    there: u128,
    promised: u128,
}

/// Verifies a store row by row.
pub(crate) struct Verifier<'a> {
    kinds: &'static Kinds,
    memtable: &'a Memtable,
    pub(crate) secrets: &'a Secrets,
    /// Not used for lookups here: a store is read from start to end.
    index: Shown,
    tallies: Vec<KindTotals>,
    /// Number of payments in the payment index so far.
    pub(crate) indexed: Position,
    /// Number of pending deliveries so far.
    pub(crate) pending: u64,
    /// Size of the routing log so far, and the next batch number.
    pub(crate) routing: RoutingLogTotals,
    pub(crate) audit: Chain,
    /// State according to the audit log, for the rows that come after it.
    pub(crate) newest: NewestEntries,
    findings: Findings,
    second: Option<MismatchPass>,
    heard: Option<PromiseListener<'a>>,
    /// Skipped rows.
    unread: Vec<UnreadableRange>,
}

/// A range of unreadable rows.
struct UnreadableRange {
    /// The last row before them. `None` if they are the first.
    behind: Option<IVec>,
    /// The next row after them. `None` if they are the last.
    before: Option<IVec>,
}

impl UnreadableRange {
    fn holds(&self, key: &[u8]) -> bool {
        let behind = self.behind.as_deref().is_none_or(|behind| key > behind);
        behind && self.before.as_deref().is_none_or(|before| key < before)
    }

    /// Whether rows of a kind may be among them.
    fn may_hold(&self, kind: &Kind) -> bool {
        let behind = |behind: &[u8]| kind.prefix > behind || behind.starts_with(kind.prefix);
        self.behind.as_deref().is_none_or(behind)
            && (self.before.as_deref()).is_none_or(|before| kind.prefix < before)
    }
}

/// Receives each row that another row requires, with its expected value. Comparison is then off.
pub(crate) type PromiseListener<'a> = &'a mut dyn FnMut(Key, &[u8]) -> Result<(), Fault>;

/// Items without a counterpart, for the kinds whose sums differ.
struct MismatchPass {
    tags: Vec<u8>,
    left: HashMap<u128, Mismatch>,
}

/// A promised row that is missing, or an existing row that is not promised.
struct Mismatch {
    kind: &'static Kind,
    /// The row that it concerns.
    row: Key,
    what: &'static str,
    /// How much more often it is promised than it exists. Negative in the opposite case.
    balance: i64,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(kinds: &'static Kinds, memtable: &'a Memtable, secrets: &'a Secrets) -> Self {
        Self {
            kinds,
            memtable,
            secrets,
            index: Shown::new(&secrets.sealer),
            tallies: vec![KindTotals::default(); 256],
            indexed: 0,
            pending: 0,
            routing: RoutingLogTotals::default(),
            audit: Chain::default(),
            newest: NewestEntries::default(),
            findings: Findings::new(RESTORE),
            second: None,
            heard: None,
            unread: Vec::new(),
        }
    }

    /// Reports promised rows to a listener instead of comparing them.
    pub(crate) fn telling(mut self, heard: PromiseListener<'a>) -> Self {
        self.heard = Some(heard);
        self
    }

    /// A reader for rows related to the current one.
    pub(crate) fn view(&self) -> View<'_> {
        View::new(self.memtable, &self.index)
    }

    /// Checks every readable row. `seen` receives the number of rows since its last call.
    pub(crate) fn look(&mut self, seen: &mut dyn FnMut(u64)) -> Result<(), Fault> {
        let database = self.memtable.database();
        let mut rows = database.iter();
        let mut last = None;
        let mut passed_over = false;
        let mut count = 0;
        while let Some(row) = caught(|| Some(rows.next()?.map_err(Fault::database))) {
            match row {
                Ok((key, row)) => {
                    self.row(&key, &row)?;
                    last = Some(key);
                    passed_over = false;
                    count += 1;
                    if count % 1024 == 0 {
                        seen(1024);
                    }
                }
                // With a listener, promises would be incomplete. After a skip, the next row should be
                // readable.
                Err(fault) if self.heard.is_some() || passed_over => return Err(fault),
                Err(_) => {
                    let Some(next) = self.pass_over(last.as_ref()) else {
                        break;
                    };
                    rows = database.range(next..);
                    passed_over = true;
                }
            }
        }
        seen(count % 1024);
        Ok(())
    }

    /// Records the unreadable rows after `last`, and returns the next readable row.
    ///
    /// sled cannot read past an unreadable page. Therefore the first row of each later kind is read in turn,
    /// and from there backwards to the page.
    fn pass_over(&mut self, last: Option<&IVec>) -> Option<IVec> {
        let database = self.memtable.database();
        let later = self.kinds.all().iter().map(|kind| kind.prefix);
        let later = later.filter(|prefix| last.is_none_or(|last| **prefix > **last));
        let mut next = None;
        let mut end = Bound::Unbounded;
        for prefix in later {
            let first = || Some(database.range(prefix..).next()?.map_err(Fault::database));
            match caught(first) {
                Some(Err(_)) => {}
                read => {
                    next = read.and_then(Result::ok).map(|(key, _)| key);
                    end = Bound::Excluded(IVec::from(prefix));
                    break;
                }
            }
        }
        let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.clone()));
        let mut back = database.range((start, end));
        while let Some(Ok((key, _))) = caught(|| Some(back.next_back()?.map_err(Fault::database))) {
            next = Some(key);
        }
        let unread = UnreadableRange {
            behind: last.cloned(),
            before: next.clone(),
        };
        if !self.is_second() {
            self.find_unread(&unread);
            self.unread.push(unread);
        }
        next
    }

    fn find_unread(&mut self, unread: &UnreadableRange) {
        let kinds = self.kinds.all().iter();
        let kinds: Vec<&str> = kinds
            .filter(|kind| unread.may_hold(kind))
            .map(|kind| kind.name)
            .collect();
        let hex = |key: &Option<IVec>| key.as_ref().map(hex::encode).unwrap_or_default();
        self.findings.named.push(Finding {
            kind: "unreadable",
            row: format!("{}..{}", hex(&unread.behind), hex(&unread.before)),
            what: format!(
                "no row between these two keys reads back; kinds that may stand there: {}",
                kinds.join(", ")
            ),
            advice: RESTORE,
        });
    }

    /// Whether rows were skipped. Rows that count others are then too high, which is no new finding.
    pub(crate) const fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    fn row(&mut self, key: &[u8], row: &IVec) -> Result<(), Fault> {
        let Some((kind, _)) = self.kinds.find(key) else {
            self.find(key, "it is of a kind that this release does not know");
            return Ok(());
        };
        if !self.is_second() {
            self.tallies[usize::from(kind.tag)].rows += 1;
        }
        match kind.derived {
            Derived::Not => {}
            Derived::Key => self.there(kind, key, key, STRAY),
            Derived::Row => self.there(kind, key, &[key, row].concat(), STRAY),
        }
        match caught(|| Some((kind.check)(self, key, row))) {
            Some(Err(Fault::Corrupt(what))) => {
                self.find(key, what);
                Ok(())
            }
            // A related row could not be read from the disk.
            Some(Err(Fault::Unavailable(what))) if self.heard.is_none() => {
                self.find(key, what);
                Ok(())
            }
            checked => checked.unwrap_or(Ok(())),
        }
    }

    /// Records that a row requires another row to exist.
    pub(crate) fn promise(&mut self, key: Key, row: &[u8]) -> Result<(), Fault> {
        if let Some(heard) = &mut self.heard {
            return heard(key, row);
        }
        let (kind, _) = self.kinds.split(&key)?;
        let item = match kind.derived {
            Derived::Row => [&key, row].concat(),
            Derived::Key | Derived::Not => key.clone(),
        };
        self.promised(kind, &key, &item, MISSING);
        Ok(())
    }

    /// Records that a row requires another row to exist, with this value.
    pub(crate) fn promise_value<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault> {
        let row = records::encode(&self.secrets.sealer, &key, value)?;
        self.promise(key, &row)
    }

    /// Checks that a row exists to which another row refers. Otherwise reports `what`.
    pub(crate) fn needs(&mut self, key: &[u8], row: &[u8], what: &str) -> Result<(), Fault> {
        if self.view().get(row)?.is_none() {
            self.find(key, what);
        }
        Ok(())
    }

    /// Checks that the owner exists to which a row refers.
    pub(crate) fn needs_owner(&mut self, key: &[u8], owner: KeyOwner) -> Result<(), Fault> {
        self.needs(key, &schema::owner(owner), schema::no_owner(owner))
    }

    /// Records that a row requires an entry in some row of the kind `of`. `what` is the finding if there is
    /// none.
    pub(crate) fn promise_told(
        &mut self,
        of: &[u8],
        row: &[u8],
        told: &[u8],
        what: &'static str,
    ) -> Result<(), Fault> {
        let (kind, _) = self.kinds.split(of)?;
        self.promised(kind, row, told, what);
        Ok(())
    }

    /// Records an entry of a row. `what` is the finding if no row requires it.
    pub(crate) fn tells(
        &mut self,
        row: &[u8],
        told: &[u8],
        what: &'static str,
    ) -> Result<(), Fault> {
        let (kind, _) = self.kinds.split(row)?;
        self.there(kind, row, told, what);
        Ok(())
    }

    fn there(&mut self, kind: &'static Kind, row: &[u8], item: &[u8], what: &'static str) {
        self.match_up(kind, row, item, what, false);
    }

    fn promised(&mut self, kind: &'static Kind, row: &[u8], item: &[u8], what: &'static str) {
        self.match_up(kind, row, item, what, true);
    }

    fn match_up(
        &mut self,
        kind: &'static Kind,
        row: &[u8],
        item: &[u8],
        what: &'static str,
        promised: bool,
    ) {
        match &mut self.second {
            None => {
                let tally = &mut self.tallies[usize::from(kind.tag)];
                let sum = match promised {
                    true => &mut tally.promised,
                    false => &mut tally.there,
                };
                *sum = sum.wrapping_add(digest(kind, item));
            }
            Some(second) if second.tags.contains(&kind.tag) => {
                let digest = digest(kind, item);
                let sign = if promised { 1 } else { -1 };
                match second.left.entry(digest) {
                    Entry::Vacant(vacant) => {
                        vacant.insert(Mismatch {
                            kind,
                            row: row.to_vec(),
                            what,
                            balance: sign,
                        });
                    }
                    Entry::Occupied(mut occupied) => {
                        let left = occupied.get_mut();
                        left.balance += sign;
                        if left.balance == 0 {
                            occupied.remove();
                        } else if left.balance == sign {
                            left.row = row.to_vec();
                            left.what = what;
                        }
                    }
                }
            }
            Some(_) => {}
        }
    }

    /// Whether this is the second pass.
    pub(crate) const fn is_second(&self) -> bool {
        self.second.is_some()
    }

    /// Counts a pending delivery.
    pub(crate) const fn count_pending(&mut self) {
        if !self.is_second() {
            self.pending += 1;
        }
    }

    /// Counts a batch of the routing log.
    pub(crate) fn count_batch(&mut self, number: u64, size: Size) {
        if !self.is_second() {
            self.routing.next = self.routing.next.max(number.saturating_add(1));
            self.routing.bytes = self.routing.bytes.saturating_add(size.bytes.into());
        }
    }

    /// Number of rows of a kind so far.
    pub(crate) fn rows_of(&self, prefix: &[u8]) -> u64 {
        let kind = self
            .kinds
            .find(prefix)
            .map(|(kind, _)| usize::from(kind.tag));
        kind.map_or(0, |tag| self.tallies[tag].rows)
    }

    /// Reports a finding about a row.
    pub(crate) fn find(&mut self, key: &[u8], what: impl Into<String>) {
        // The second pass only reports differences of sums.
        if !self.is_second() {
            let kind = self
                .kinds
                .find(key)
                .map_or("unknown", |(kind, _)| kind.name);
            self.findings.add(kind, key, what.into());
        }
    }

    /// Reports a finding about a row, if there is one.
    pub(crate) fn find_if(&mut self, key: &[u8], what: Option<&'static str>) {
        if let Some(what) = what {
            self.find(key, what);
        }
    }

    /// Runs the second pass if sums differ, and returns the report.
    pub(crate) fn conclude(mut self) -> Result<VerifyReport, Fault> {
        let differ = |kind: &&&Kind| {
            let tally = self.tallies[usize::from(kind.tag)];
            tally.there != tally.promised
        };
        let tags: Vec<u8> = self
            .kinds
            .all()
            .iter()
            .filter(differ)
            .map(|kind| kind.tag)
            .collect();
        if !tags.is_empty() {
            self.second = Some(MismatchPass {
                tags,
                left: HashMap::new(),
            });
            self.look(&mut |_| {})?;
            self.name_what_is_left();
        }
        let rows = self
            .kinds
            .all()
            .iter()
            .map(|kind| (kind.name, self.tallies[usize::from(kind.tag)].rows))
            .filter(|(_, rows)| *rows > 0)
            .collect();
        Ok(VerifyReport {
            payments: self.rows_of(schema::PAYMENTS),
            audit_lines: self.rows_of(schema::AUDIT),
            rows,
            findings: self.findings.named,
            more_findings: self.findings.unnamed,
            slots: self.newest.into_slots(),
        })
    }

    fn name_what_is_left(&mut self) {
        let left = self.second.take().map(|second| second.left);
        let mut by_row: BTreeMap<Key, Vec<Mismatch>> = BTreeMap::new();
        for left in left.into_iter().flat_map(HashMap::into_values) {
            by_row.entry(left.row.clone()).or_default().push(left);
        }
        for (row, left) in by_row {
            // Promised with a value that differs from the existing one.
            let is_both = left
                .iter()
                .any(|left| left.balance > 0 && left.what == MISSING)
                && left
                    .iter()
                    .any(|left| left.balance < 0 && left.what == STRAY);
            // The row may be among the unreadable ones.
            let is_unread = self.unread.iter().any(|unread| unread.holds(&row));
            for each in left {
                match is_both {
                    _ if is_unread && each.what == MISSING => {}
                    true if each.balance > 0 => {
                        self.findings.add(each.kind.name, &row, ELSEWHERE.into());
                    }
                    true => {}
                    false => self.findings.add(each.kind.name, &row, each.what.into()),
                }
            }
        }
    }
}

/// Reads data that may be damaged: sled panics on some kinds of damage.
fn caught<T>(read: impl FnOnce() -> Option<Result<T, Fault>>) -> Option<Result<T, Fault>> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Some(Err(Fault::unreadable())))
}

fn digest(kind: &Kind, item: &[u8]) -> u128 {
    let mut hash = Sha256::new();
    hash.update([kind.tag]);
    hash.update(item);
    let hash: [u8; 32] = hash.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    u128::from_be_bytes(half)
}
