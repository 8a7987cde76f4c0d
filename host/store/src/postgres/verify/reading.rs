//! Reading a snapshot completely.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::Hash;

use tokio_postgres::{Portal, Row, Transaction};
use uuid::Uuid;

use crate::Fault;
use crate::postgres::errors::OpenError;
use crate::report::{ELSEWHERE, Findings, MISSING, Progress, STRAY, VerifyReport};
use crate::rows::schema::Key;
use crate::rows::seal::Secrets;

/// What to do about damage.
const RESTORE: &str = "keep a copy of the database as it is, and bring its latest backup back in which `kassette verify` finds nothing";
/// Number of rows fetched at once.
const AT_ONCE: i32 = 256;

/// A row's key and its checks: whether each holds, and the finding if it does not.
pub(super) type CheckedRow = (Key, Result<Vec<(bool, &'static str)>, Fault>);

/// A cursor over the rows of a query.
pub(super) struct Cursor {
    portal: Portal,
    /// Index of the id column by which rows are sorted.
    by: usize,
    rows: VecDeque<Row>,
    is_done: bool,
}

/// The snapshot and the findings so far.
pub(super) struct Reading<'a> {
    snapshot: &'a Transaction<'a>,
    pub(super) secrets: &'a Secrets,
    progress: &'a (dyn Progress + Sync),
    findings: Findings,
    rows: BTreeMap<&'static str, u64>,
}

impl<'a> Reading<'a> {
    pub(super) const fn new(
        snapshot: &'a Transaction<'a>,
        secrets: &'a Secrets,
        progress: &'a (dyn Progress + Sync),
    ) -> Self {
        Self {
            snapshot,
            secrets,
            progress,
            findings: Findings::new(RESTORE),
            rows: BTreeMap::new(),
        }
    }

    pub(super) fn report(self) -> VerifyReport {
        let rows_of = |kind| self.rows.get(kind).copied().unwrap_or_default();
        VerifyReport {
            payments: rows_of("payment"),
            audit_lines: rows_of("audit-line"),
            rows: self.rows,
            findings: self.findings.named,
            more_findings: self.findings.unnamed,
            slots: BTreeMap::new(),
        }
    }

    /// Counts a row of a kind.
    pub(super) fn count(&mut self, kind: &'static str) {
        *self.rows.entry(kind).or_default() += 1;
        self.progress.advance(1);
    }

    /// Number of rows of a kind so far.
    pub(super) fn rows_of(&self, kind: &'static str) -> u64 {
        self.rows.get(kind).copied().unwrap_or_default()
    }

    /// Reports a finding about a row.
    pub(super) fn find(&mut self, kind: &'static str, key: &[u8], what: impl Into<String>) {
        self.findings.add(kind, key, what.into());
    }

    /// The value read from a row. `None` if the row is damaged, which is reported.
    pub(super) fn readable<T>(
        &mut self,
        kind: &'static str,
        key: &[u8],
        read: Result<T, Fault>,
    ) -> Result<Option<T>, OpenError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Corrupt(what)) => {
                self.find(kind, key, what);
                Ok(None)
            }
            Err(fault) => Err(OpenError::Database(fault.to_string())),
        }
    }

    /// The only row of a query. `None` if there is none.
    pub(super) async fn one(&self, sql: &str) -> Result<Option<Row>, OpenError> {
        Ok(self.snapshot.query_opt(sql, &[]).await?)
    }

    /// Opens a cursor over a query that is sorted by the id in column `by`.
    pub(super) async fn cursor(&self, sql: &str, by: usize) -> Result<Cursor, OpenError> {
        let statement = self.snapshot.prepare(sql).await?;
        Ok(Cursor {
            portal: self.snapshot.bind(&statement, &[]).await?,
            by,
            rows: VecDeque::new(),
            is_done: false,
        })
    }

    /// The next row.
    pub(super) async fn next(&self, cursor: &mut Cursor) -> Result<Option<Row>, OpenError> {
        if cursor.rows.is_empty() && !cursor.is_done {
            let rows = self.snapshot.query_portal(&cursor.portal, AT_ONCE).await?;
            cursor.is_done = rows.is_empty();
            cursor.rows = rows.into();
        }
        Ok(cursor.rows.pop_front())
    }

    /// The rows that belong to the id `of`. Rows with smaller ids, or all remaining rows if `of` is `None`,
    /// have no owner and are reported. `name` returns the kind and key of a row.
    pub(super) async fn own(
        &mut self,
        cursor: &mut Cursor,
        of: Option<Uuid>,
        stray: &'static str,
        name: fn(&Row) -> (&'static str, Key),
    ) -> Result<Vec<Row>, OpenError> {
        let mut own = Vec::new();
        while let Some(row) = self.next(cursor).await? {
            let id: Uuid = row.get(cursor.by);
            if of.is_some_and(|of| id > of) {
                cursor.rows.push_front(row);
                break;
            }
            let (kind, key) = name(&row);
            self.count(kind);
            match of {
                Some(of) if of == id => own.push(row),
                _ => self.find(kind, &key, stray),
            }
        }
        Ok(own)
    }

    /// The values of all rows of a query, without counting the rows.
    pub(super) async fn all<T: Eq + Hash>(
        &self,
        sql: &str,
        of: fn(&Row) -> T,
    ) -> Result<HashSet<T>, OpenError> {
        let (mut rows, mut all) = (self.cursor(sql, 0).await?, HashSet::new());
        while let Some(row) = self.next(&mut rows).await? {
            all.insert(of(&row));
        }
        Ok(all)
    }

    /// Compares existing rows with the promised ones by key.
    pub(super) fn match_up<V: PartialEq>(
        &mut self,
        kind: &'static str,
        promised: &BTreeMap<Key, V>,
        there: &BTreeMap<Key, V>,
    ) {
        for (key, value) in promised {
            match there.get(key) {
                None => self.find(kind, key, MISSING),
                Some(other) if other != value => self.find(kind, key, ELSEWHERE),
                Some(_) => {}
            }
        }
        for key in there.keys().filter(|key| !promised.contains_key(*key)) {
            self.find(kind, key, STRAY);
        }
    }

    /// Reports the failed checks of a row.
    pub(super) fn judge(
        &mut self,
        kind: &'static str,
        (key, looked): CheckedRow,
    ) -> Result<(), OpenError> {
        let looked = self.readable(kind, &key, looked)?;
        for (_, what) in looked.into_iter().flatten().filter(|(holds, _)| !holds) {
            self.find(kind, &key, what);
        }
        Ok(())
    }

    /// Checks every row of a query; all are of one kind.
    pub(super) async fn each(
        &mut self,
        kind: &'static str,
        sql: &str,
        look: impl Fn(&Row, &Secrets) -> CheckedRow,
    ) -> Result<(), OpenError> {
        let mut rows = self.cursor(sql, 0).await?;
        while let Some(row) = self.next(&mut rows).await? {
            self.count(kind);
            let looked = look(&row, self.secrets);
            self.judge(kind, looked)?;
        }
        Ok(())
    }
}
