//! What is found while a store is read through from end to end.
//!
//! Rows that follow from others are not looked up one by one: every row adds what it promises to a
//! sum of its kind, every row that is there adds itself to another, and where the two are equal, so
//! are the rows. Only where they are not, a second look names what is missing and what is too much.

pub(crate) mod kinds;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use kassette_domain::audit::Chain;
use kassette_engine::{IVec, Memtable};
use sha2::{Digest as _, Sha256};

use self::kinds::{Derived, Kind, Kinds};
use crate::Fault;
use crate::report::{ELSEWHERE, Findings, MISSING, Report, STRAY};
use crate::rows::routing::{Log, Size};
use crate::rows::schema::{Key, Position};
use crate::rows::seal::Secrets;
use crate::sled::memory::{Shown, View};

/// What to do about damage.
const RESTORE: &str = "keep a copy of the data directory and restore the latest backup that `kassette verify` finds whole";

/// Rows of a kind, and the sums of what is there and of what is promised.
#[derive(Clone, Copy, Default)]
struct Tally {
    rows: u64,
    there: u128,
    promised: u128,
}

/// Judges a store row by row.
pub(crate) struct Judge<'a> {
    kinds: &'static Kinds,
    memtable: &'a Memtable,
    pub(crate) secrets: &'a Secrets,
    /// Nothing is looked up by it here: a store is read through, not searched.
    index: Shown,
    tallies: Vec<Tally>,
    /// Payments in the payment index so far.
    pub(crate) indexed: Position,
    /// Deliveries that are pending so far.
    pub(crate) pending: u64,
    /// What the routing log takes so far, and the number that has to come next.
    pub(crate) routing: Log,
    pub(crate) audit: Chain,
    findings: Findings,
    second: Option<SecondLook>,
    heard: Option<Heard<'a>>,
}

/// Hears of each row that another one promises, with what it has to hold; nothing is compared then.
pub(crate) type Heard<'a> = &'a mut dyn FnMut(Key, &[u8]) -> Result<(), Fault>;

/// What has no counterpart yet, of the kinds that do not fit.
struct SecondLook {
    tags: Vec<u8>,
    left: HashMap<u128, Left>,
}

/// Something that is promised and not there, or there and not promised.
struct Left {
    kind: &'static Kind,
    /// The row that it is about.
    row: Key,
    what: &'static str,
    /// How much more often it is promised than there; below zero the other way round.
    balance: i64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(kinds: &'static Kinds, memtable: &'a Memtable, secrets: &'a Secrets) -> Self {
        Self {
            kinds,
            memtable,
            secrets,
            index: Shown::default(),
            tallies: vec![Tally::default(); 256],
            indexed: 0,
            pending: 0,
            routing: Log::default(),
            audit: Chain::default(),
            findings: Findings::new(RESTORE),
            second: None,
            heard: None,
        }
    }

    /// Has what rows promise told instead of compared.
    pub(crate) fn telling(mut self, heard: Heard<'a>) -> Self {
        self.heard = Some(heard);
        self
    }

    /// A reader for one row's neighbours.
    pub(crate) fn view(&self) -> View<'_> {
        View::new(self.memtable, &self.index)
    }

    /// Looks at every row; `seen` hears how many there were so far.
    pub(crate) fn look(&mut self, seen: &mut dyn FnMut(u64)) -> Result<(), Fault> {
        let mut count = 0;
        for row in self.memtable.database() {
            let (key, row) = row.map_err(Fault::database)?;
            self.row(&key, &row)?;
            count += 1;
            if count % 1024 == 0 {
                seen(1024);
            }
        }
        seen(count % 1024);
        Ok(())
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
        match (kind.check)(self, key, row) {
            Ok(()) => Ok(()),
            Err(Fault::Corrupt(what)) => {
                self.find(key, what);
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// A row says that another one stands beside it.
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

    /// A row says that a row of the kind `of` tells something about it; `what` is wrong where none
    /// does.
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

    /// A row tells something; `what` is wrong where nothing has promised that.
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
                        vacant.insert(Left {
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

    /// Whether every row was looked at before.
    pub(crate) const fn is_second(&self) -> bool {
        self.second.is_some()
    }

    /// A delivery is pending.
    pub(crate) const fn count_pending(&mut self) {
        if !self.is_second() {
            self.pending += 1;
        }
    }

    /// A batch of the routing log is there.
    pub(crate) fn count_batch(&mut self, number: u64, size: Size) {
        if !self.is_second() {
            self.routing.next = self.routing.next.max(number.saturating_add(1));
            self.routing.bytes = self.routing.bytes.saturating_add(size.bytes.into());
        }
    }

    /// Rows of a kind so far.
    pub(crate) fn rows_of(&self, prefix: &[u8]) -> u64 {
        let kind = self
            .kinds
            .find(prefix)
            .map(|(kind, _)| usize::from(kind.tag));
        kind.map_or(0, |tag| self.tallies[tag].rows)
    }

    /// Something about a row is wrong.
    pub(crate) fn find(&mut self, key: &[u8], what: impl Into<String>) {
        // The second look names only what sums cannot.
        if !self.is_second() {
            let kind = self
                .kinds
                .find(key)
                .map_or("unknown", |(kind, _)| kind.name);
            self.findings.add(kind, key, what.into());
        }
    }

    /// Names what does not fit where sums differ, and says what was found.
    pub(crate) fn conclude(mut self) -> Result<Report, Fault> {
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
            self.second = Some(SecondLook {
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
        Ok(Report {
            payments: self.rows_of(crate::rows::schema::PAYMENTS),
            audit_lines: self.rows_of(crate::rows::schema::AUDIT),
            rows,
            findings: self.findings.named,
            more_findings: self.findings.unnamed,
        })
    }

    fn name_what_is_left(&mut self) {
        let left = self.second.take().map(|second| second.left);
        let mut by_row: BTreeMap<Key, Vec<Left>> = BTreeMap::new();
        for left in left.into_iter().flat_map(HashMap::into_values) {
            by_row.entry(left.row.clone()).or_default().push(left);
        }
        for (row, left) in by_row {
            // Promised with another value than the one that is there.
            let is_both = left
                .iter()
                .any(|left| left.balance > 0 && left.what == MISSING)
                && left
                    .iter()
                    .any(|left| left.balance < 0 && left.what == STRAY);
            for each in left {
                match is_both {
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

fn digest(kind: &Kind, item: &[u8]) -> u128 {
    let mut hash = Sha256::new();
    hash.update([kind.tag]);
    hash.update(item);
    let hash: [u8; 32] = hash.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    u128::from_be_bytes(half)
}
