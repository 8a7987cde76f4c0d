//! The operators' work list.

use kassette_domain::audit::Audited;
use kassette_domain::id::WorkId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::NewWork;
use kassette_domain::movement::Movement;
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKey};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::payment_steps::work_item;
use crate::postgres::database::{Database, Failure, TransactionWork, Tries, Tx, execute, row};
use crate::postgres::lists::ListPosition;
use crate::postgres::movements;
use crate::postgres::statement::{StatementBuilder, column, values};
use crate::postgres::{PostgresStore, audit, millis, uuid};
use crate::rows::records::OTHER_COLUMNS;
use crate::rows::seal::{Sealer, random_id};
use crate::rows::{records, schema};
use crate::{Fault, Listed, Paging};

/// A work item to be written.
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

/// Columns that [`read`] reads.
macro_rules! columns {
    () => {
        "id, opened_at, body, attempt, kind, subject, is_open"
    };
}

/// Reads a row of `columns!`.
fn read(sealer: &Sealer, row: &Row) -> Result<WorkItem, Fault> {
    let key = key(row.get(1), row.get(0));
    let item: WorkItem = records::decode(sealer, &key, row.get(2))?;
    let fits = uuid(item.key.attempt.as_bytes()) == row.get::<_, Uuid>(3)
        && item.key.kind as i16 == row.get::<_, i16>(4)
        && item.key.subject.as_bytes() == row.get::<_, &[u8]>(5)
        && item.done_at.is_none() == row.get::<_, bool>(6);
    match fits {
        true => Ok(item),
        false => Err(records::damaged(&key, OTHER_COLUMNS)),
    }
}

/// Whether an item is open.
pub(super) async fn is_open(database: &Database, about: &WorkKey) -> Result<bool, Fault> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM work WHERE attempt = $1 AND kind = $2 AND subject = $3 AND is_open"
    );
    let (attempt, subject) = (uuid(about.attempt.as_bytes()), about.subject.as_bytes());
    let found = database
        .read_one(sql, &[&attempt, &(about.kind as i16), &subject])
        .await?;
    let item = found.map(|row| read(database.sealer(), &row)).transpose()?;
    Ok(item.is_some())
}

/// Changes to the work list.
#[derive(Clone, Copy)]
pub(crate) struct Works<'c> {
    /// `None` for money of an unknown payment.
    pub(crate) payment: Option<&'c Payment>,
    pub(crate) environment: Environment,
    /// Items that are settled.
    pub(crate) closed: &'c [WorkKey],
    pub(crate) new: &'c [NewWork],
}

/// Prepares the changed items: closed ones are marked done, and new ones replace open ones with the same key.
pub(crate) async fn lines(
    database: &Database,
    Works {
        payment,
        environment,
        closed,
        new,
    }: Works<'_>,
    now: Time,
) -> Result<Vec<Line>, Fault> {
    if closed.is_empty() && new.is_empty() {
        return Ok(Vec::new());
    }
    let about = new.iter().map(|each| &each.key).chain(closed);
    let about: Vec<_> = about.map(|key| uuid(key.attempt.as_bytes())).collect();
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM work WHERE attempt = ANY($1) AND is_open"
    );
    let open = database.read(sql, &[&about]).await?;
    let open = open.iter().map(|row| {
        Ok(Line {
            item: read(database.sealer(), row)?,
            is_new: false,
        })
    });
    let mut lines = open.collect::<Result<Vec<_>, Fault>>()?;
    lines
        .iter_mut()
        .filter(|line| closed.contains(&line.item.key))
        .for_each(|line| line.item.done_at = Some(now));
    for each in new {
        let same = |line: &&mut Line| line.item.done_at.is_none() && line.item.key == each.key;
        let id = WorkId::from_bytes(random_id()?);
        let mut item = work_item(each, payment, environment, (id, now));
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

/// Writes items if those that were open still are. Closed items come first, because an open item's key is
/// unique.
pub(crate) fn write(
    statement: &mut StatementBuilder,
    sealer: &Sealer,
    mut lines: Vec<Line>,
) -> Result<(), Fault> {
    if lines.is_empty() {
        return Ok(());
    }
    lines.sort_by_key(|line| (line.is_new, line.item.id));
    let items = column(&lines, |line| &line.item);
    let mut bodies = Vec::new();
    for item in &items {
        bodies
            .push(records::encode(sealer, &schema::work(item.opened_at, item.id), item)?.to_vec());
    }
    statement.add(
        "works",
        "INSERT INTO work AS known (id, attempt, kind, subject, opened_at, is_open, body)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[], $5::bigint[], $6::boolean[], $7::bytea[])
            ON CONFLICT (id) DO UPDATE SET is_open = excluded.is_open, body = excluded.body WHERE known.is_open
            RETURNING 1",
        values![
            column(&items, |item| uuid(item.id.as_bytes())),
            column(&items, |item| uuid(item.key.attempt.as_bytes())),
            column(&items, |item| item.key.kind as i16),
            column(&items, |item| item.key.subject.clone().into_bytes()),
            column(&items, |item| millis(item.opened_at)),
            column(&items, |item| item.done_at.is_none()),
            bodies,
        ],
    );
    statement.assert("works", lines.len());
    Ok(())
}

/// Marks an item done for an operator.
pub(super) struct WorkDone {
    pub(super) id: WorkId,
    pub(super) audited: Audited,
    pub(super) now: Time,
}

impl TransactionWork for WorkDone {
    type Outcome = Option<WorkItem>;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let sql = concat!("SELECT ", columns!(), " FROM work WHERE id = $1 FOR UPDATE");
        let Some(found) = row(tx, sql, &[&uuid(self.id.as_bytes())]).await? else {
            return Ok(None);
        };
        let mut item = read(tx.sealer(), &found)?;
        if item.done_at.is_none() {
            item.done_at = Some(self.now);
            let body = records::encode(tx.sealer(), &schema::work(item.opened_at, item.id), &item)?;
            let sql = "UPDATE work SET is_open = false, body = $2 WHERE id = $1";
            execute(tx, sql, &[&uuid(self.id.as_bytes()), &&body[..]]).await?;
            audit::append(tx, self.audited.clone(), self.now).await?;
        }
        Ok(Some(item))
    }
}

impl PostgresStore {
    pub(super) async fn note_unknown_money(
        &self,
        found: NewWork,
        mut movement: Movement,
        now: Time,
    ) -> Result<(), Fault> {
        movement.payment = None;
        let works = Works {
            payment: None,
            environment: movement.environment,
            closed: &[],
            new: std::slice::from_ref(&found),
        };
        self.change_work(works, Some(movement), now).await
    }

    /// Changes items without a payment, and books a movement without one.
    pub(super) async fn change_work(
        &self,
        works: Works<'_>,
        mut movement: Option<Movement>,
        now: Time,
    ) -> Result<(), Fault> {
        let mut tries = Tries::new();
        loop {
            let lines = lines(&self.requests, works, now).await?;
            if lines.is_empty() && movement.is_none() {
                return Ok(());
            }
            let mut statement = StatementBuilder::default();
            write(&mut statement, &self.secrets.sealer, lines)?;
            if let Some(movement) = &mut movement {
                let timed = self.time_movement(movement, now).await?;
                let (sealer, movement) = (&self.secrets.sealer, std::slice::from_ref(movement));
                movements::write(&mut statement, sealer, movement, timed)?;
            }
            match statement.write(&self.requests).await {
                Ok(_) => return Ok(()),
                // Another item with this key was opened, or this one was closed. If the answer was lost after a
                // commit, the item is found open and gets the same figures.
                Err(failure @ (Failure::Stale | Failure::Duplicate(_) | Failure::Lost)) => {
                    tries.again(&failure).await?;
                }
                Err(failure) => return Err(failure.fault()),
            }
        }
    }

    pub(super) async fn work_read(&self, id: WorkId) -> Result<Option<WorkItem>, Fault> {
        let sql = concat!("SELECT ", columns!(), " FROM work WHERE id = $1");
        let found = self.requests.read_one(sql, &[&uuid(id.as_bytes())]).await?;
        let item = found.as_ref().map(|row| read(&self.secrets.sealer, row));
        item.transpose()
    }

    pub(super) async fn work_listed(
        &self,
        open: bool,
        paging: Paging,
    ) -> Result<Listed<WorkItem>, Fault> {
        let tag: &[u8] = if open { b"wro/" } else { b"wrk/" };
        let only = if open { "AND is_open" } else { "" };
        let sql = format!(
            "SELECT {} FROM work WHERE (opened_at, id) < ($1, $2) {only}
                ORDER BY opened_at DESC, id DESC LIMIT $3",
            columns!()
        );
        self.list_by_time(tag, paging, &sql, &[], |sealer, row| {
            Ok((ListPosition(row.get(1), row.get(0)), read(sealer, row)?))
        })
        .await
    }
}
