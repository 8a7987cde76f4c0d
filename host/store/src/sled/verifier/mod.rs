//! What is found while a store is read through from end to end.
//!
//! Rows that follow from others are not looked up one by one: every row adds what it promises to a
//! sum of its kind, every row that is there adds itself to another, and where the two are equal, so
//! are the rows. Only where they are not, a second look names what is missing and what is too much.
//!
//! Rows that cannot be read are passed over and named by the keys that they stand between.

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
use crate::report::{ELSEWHERE, Finding, Findings, MISSING, STRAY, VerifyReport};
use crate::rows::records;
use crate::rows::routing::{RoutingLogTotals, Size};
use crate::rows::schema::{self, Key, Position};
use crate::rows::seal::Secrets;
use crate::sled::memory::{Shown, View};

/// What to do about damage.
pub(crate) const RESTORE: &str = "keep a copy of the data directory, and bring the latest backup that `kassette verify FILE` finds whole back with `kassette restore` (config/README.md, \"A damaged store\")";

/// Rows of a kind, and the sums of what is there and of what is promised.
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
    /// Nothing is looked up by it here: a store is read through, not searched.
    index: Shown,
    tallies: Vec<KindTotals>,
    /// Payments in the payment index so far.
    pub(crate) indexed: Position,
    /// Deliveries that are pending so far.
    pub(crate) pending: u64,
    /// What the routing log takes so far, and the number that has to come next.
    pub(crate) routing: RoutingLogTotals,
    pub(crate) audit: Chain,
    findings: Findings,
    second: Option<MismatchPass>,
    heard: Option<PromiseListener<'a>>,
    /// Where rows were passed over.
    unread: Vec<UnreadableRange>,
}

/// Rows that cannot be read.
struct UnreadableRange {
    /// The last row before them; none where they are the first.
    behind: Option<IVec>,
    /// The next row behind them; none where they are the last.
    before: Option<IVec>,
}

impl UnreadableRange {
    fn holds(&self, key: &[u8]) -> bool {
        let behind = self.behind.as_deref().is_none_or(|behind| key > behind);
        behind && self.before.as_deref().is_none_or(|before| key < before)
    }

    /// Whether there may be rows of a kind among them.
    fn may_hold(&self, kind: &Kind) -> bool {
        let behind = |behind: &[u8]| kind.prefix > behind || behind.starts_with(kind.prefix);
        self.behind.as_deref().is_none_or(behind)
            && (self.before.as_deref()).is_none_or(|before| kind.prefix < before)
    }
}

/// Gets each row that another row requires, with its expected value; comparison is off.
pub(crate) type PromiseListener<'a> = &'a mut dyn FnMut(Key, &[u8]) -> Result<(), Fault>;

/// What has no counterpart yet, of the kinds that do not fit.
struct MismatchPass {
    tags: Vec<u8>,
    left: HashMap<u128, Mismatch>,
}

/// Something that is promised and not there, or there and not promised.
struct Mismatch {
    kind: &'static Kind,
    /// The row that it is about.
    row: Key,
    what: &'static str,
    /// How much more often it is promised than there; below zero the other way round.
    balance: i64,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(kinds: &'static Kinds, memtable: &'a Memtable, secrets: &'a Secrets) -> Self {
        Self {
            kinds,
            memtable,
            secrets,
            index: Shown::default(),
            tallies: vec![KindTotals::default(); 256],
            indexed: 0,
            pending: 0,
            routing: RoutingLogTotals::default(),
            audit: Chain::default(),
            findings: Findings::new(RESTORE),
            second: None,
            heard: None,
            unread: Vec::new(),
        }
    }

    /// Has what rows promise told instead of compared.
    pub(crate) fn telling(mut self, heard: PromiseListener<'a>) -> Self {
        self.heard = Some(heard);
        self
    }

    /// A reader for one row's neighbours.
    pub(crate) fn view(&self) -> View<'_> {
        View::new(self.memtable, &self.index)
    }

    /// Looks at every row that can be read; `seen` hears how many there were so far.
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
                // What is promised would be promised in part; and what was just read ought to read again.
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

    /// Names the rows behind one that cannot be read; returns the next that can be.
    ///
    /// sled goes no further than to a page that it cannot read. So it is asked for the first row of each
    /// kind in turn, and from there back to the page.
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

    /// Whether rows were passed over: what counts others is then too high, and that says nothing new.
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
            // A row beside it that the disk does not give.
            Some(Err(Fault::Unavailable(what))) if self.heard.is_none() => {
                self.find(key, what);
                Ok(())
            }
            checked => checked.unwrap_or(Ok(())),
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

    /// A row says that another one stands beside it, with this value.
    pub(crate) fn promise_value<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), Fault> {
        let row = records::encode(&key, value)?;
        self.promise(key, &row)
    }

    /// A row that a row names has to be there; `what` is wrong where it is not.
    pub(crate) fn needs(&mut self, key: &[u8], row: &[u8], what: &str) -> Result<(), Fault> {
        if self.view().get(row)?.is_none() {
            self.find(key, what);
        }
        Ok(())
    }

    /// The owner that a row names has to be there.
    pub(crate) fn needs_owner(&mut self, key: &[u8], owner: KeyOwner) -> Result<(), Fault> {
        self.needs(key, &schema::owner(owner), schema::no_owner(owner))
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
        })
    }

    fn name_what_is_left(&mut self) {
        let left = self.second.take().map(|second| second.left);
        let mut by_row: BTreeMap<Key, Vec<Mismatch>> = BTreeMap::new();
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
            // It may stand among those that cannot be read.
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

/// Reads what may be damaged: sled panics over some kinds of damage.
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
