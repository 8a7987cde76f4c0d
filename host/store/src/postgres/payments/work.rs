//! The operators' work list.

use kassette_domain::audit::Audited;
use kassette_domain::id::{AttemptId, PaymentId, WorkId};
use kassette_domain::lifecycle::NewWork;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKind};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::database::{Database, Failure, TransactionWork, Tries, Tx, execute, row};
use crate::postgres::lists::ListPosition;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{PostgresStore, audit, millis, uuid};
use crate::rows::seal::random_id;
use crate::rows::{records, schema};
use crate::{Fault, Listed, Paging};

/// A line to be written.
pub(crate) struct Line {
    item: WorkItem,
    is_new: bool,
}

fn key(opened_at: i64, id: Uuid) -> schema::Key {
    schema::work(
        crate::postgres::time(opened_at),
        WorkId::from_bytes(id.into_bytes()),
    )
}

/// Reads a row of `id, opened_at, body`.
fn read(row: &Row) -> Result<WorkItem, Fault> {
    records::decode(&key(row.get(1), row.get(0)), row.get(2))
}

/// What a change does to the work list.
#[derive(Clone, Copy, Default)]
pub(crate) struct Works<'c> {
    /// Attempts all of whose lines are done.
    pub(crate) done: &'c [AttemptId],
    /// Lines that are done.
    pub(crate) closed: &'c [(AttemptId, WorkKind)],
    pub(crate) new: &'c [NewWork],
}

/// What becomes of the work list: lines of attempts that are settled are done, and new ones take the place of open
/// ones of the same kind and attempt.
pub(crate) async fn lines(
    database: &Database,
    payment: Option<PaymentId>,
    Works { done, closed, new }: Works<'_>,
    now: Time,
) -> Result<Vec<Line>, Fault> {
    if done.is_empty() && closed.is_empty() && new.is_empty() {
        return Ok(Vec::new());
    }
    let about = done.iter().chain(new.iter().map(|each| &each.attempt));
    let about = about.chain(closed.iter().map(|(attempt, _)| attempt));
    let about: Vec<_> = about.map(|attempt| uuid(attempt.as_bytes())).collect();
    let sql = "SELECT id, opened_at, body FROM work WHERE attempt = ANY($1) AND is_open";
    let open = database.read(sql, &[&about]).await?;
    let open = open.iter().map(|row| {
        Ok(Line {
            item: read(row)?,
            is_new: false,
        })
    });
    let mut lines = open.collect::<Result<Vec<_>, Fault>>()?;
    lines
        .iter_mut()
        .filter(|line| {
            let about = (line.item.attempt, line.item.kind);
            done.contains(&line.item.attempt) || closed.contains(&about)
        })
        .for_each(|line| line.item.done_at = Some(now));
    for each in new {
        let same = |line: &&mut Line| {
            line.item.done_at.is_none()
                && line.item.attempt == each.attempt
                && line.item.kind == each.kind
        };
        let mut item = WorkItem {
            id: WorkId::from_bytes(random_id()?),
            kind: each.kind,
            payment,
            attempt: each.attempt,
            account: each.account.clone(),
            amount: each.amount,
            currency: each.currency.clone(),
            detail: each.detail.clone(),
            opened_at: now,
            done_at: None,
        };
        match lines.iter_mut().find(same) {
            Some(line) => {
                (item.id, item.opened_at) = (line.item.id, line.item.opened_at);
                line.item = item;
            }
            None => lines.push(Line { item, is_new: true }),
        }
    }
    Ok(lines)
}

/// Writes lines, if those that were open still are: first what is done, which makes room for what is new.
pub(crate) fn write(statement: &mut StatementBuilder, mut lines: Vec<Line>) -> Result<(), Fault> {
    if lines.is_empty() {
        return Ok(());
    }
    lines.sort_by_key(|line| (line.is_new, line.item.id));
    let items = column(&lines, |line| &line.item);
    let mut bodies = Vec::new();
    for item in &items {
        bodies.push(records::encode(&schema::work(item.opened_at, item.id), item)?.to_vec());
    }
    statement.add(
        "works",
        "INSERT INTO work AS known (id, attempt, kind, opened_at, is_open, body)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bigint[], $5::boolean[], $6::bytea[])
            ON CONFLICT (id) DO UPDATE SET is_open = excluded.is_open, body = excluded.body WHERE known.is_open
            RETURNING 1",
        values![
            column(&items, |item| uuid(item.id.as_bytes())),
            column(&items, |item| uuid(item.attempt.as_bytes())),
            column(&items, |item| item.kind as i16),
            column(&items, |item| millis(item.opened_at)),
            column(&items, |item| item.done_at.is_none()),
            bodies,
        ],
    );
    statement.assert("works", lines.len());
    Ok(())
}

/// An operator marks a line done.
pub(super) struct WorkDone {
    pub(super) id: WorkId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for WorkDone {
    type Outcome = Option<WorkItem>;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let sql = "SELECT id, opened_at, body FROM work WHERE id = $1 FOR UPDATE";
        let Some(found) = row(tx, sql, &[&uuid(self.id.as_bytes())]).await? else {
            return Ok(None);
        };
        let mut item = read(&found)?;
        if item.done_at.is_none() {
            item.done_at = Some(self.now);
            let body = records::encode(&schema::work(item.opened_at, item.id), &item)?;
            let sql = "UPDATE work SET is_open = false, body = $2 WHERE id = $1";
            execute(tx, sql, &[&uuid(self.id.as_bytes()), &&body[..]]).await?;
            audit::append(tx, self.audited.clone(), self.now).await?;
        }
        Ok(Some(item))
    }
}

impl PostgresStore {
    pub(super) async fn note_unknown_money(&self, found: NewWork, now: Time) -> Result<(), Fault> {
        let mut tries = Tries::new();
        loop {
            let found = std::slice::from_ref(&found);
            let lines = lines(
                &self.requests,
                None,
                Works {
                    new: found,
                    ..Works::default()
                },
                now,
            )
            .await?;
            let mut statement = StatementBuilder::default();
            write(&mut statement, lines)?;
            match statement.write(&self.requests).await {
                Ok(_) => return Ok(()),
                // Another line about it was opened, or this one was done. Where the answer was lost and it was done,
                // the line is found open, and takes the same figures.
                Err(failure @ (Failure::Stale | Failure::Duplicate(_) | Failure::Lost)) => {
                    tries.again(&failure).await?;
                }
                Err(failure) => return Err(failure.fault()),
            }
        }
    }

    pub(super) async fn work_read(&self, id: WorkId) -> Result<Option<WorkItem>, Fault> {
        let sql = "SELECT id, opened_at, body FROM work WHERE id = $1";
        let found = self.requests.read_one(sql, &[&uuid(id.as_bytes())]).await?;
        found.as_ref().map(read).transpose()
    }

    pub(super) async fn work_listed(
        &self,
        open: bool,
        paging: Paging,
    ) -> Result<Listed<WorkItem>, Fault> {
        let tag: &[u8] = if open { b"wro/" } else { b"wrk/" };
        let only = if open { "AND is_open" } else { "" };
        let sql = format!(
            "SELECT id, opened_at, body FROM work WHERE (opened_at, id) < ($1, $2) {only}
                ORDER BY opened_at DESC, id DESC LIMIT $3"
        );
        self.list_by_time(tag, paging, &sql, &[], |row| {
            Ok((ListPosition(row.get(1), row.get(0)), read(row)?))
        })
        .await
    }
}
