//! The operators' work list.

use kassette_domain::audit::Audited;
use kassette_domain::id::WorkId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::NewWork;
use kassette_domain::movement::Movement;
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKey};
use kassette_engine::Operation;

use crate::Fault;
use crate::payment_steps::work_item;
use crate::rows::schema;
use crate::rows::seal::random_id;
use crate::rows::source::{RowSource, Save as _};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};
use crate::sled::movements::Book;

/// Adds items to the work list. An open item with the same key gets the new figures.
pub(crate) fn open(
    rows: &mut Rows<'_>,
    payment: Option<&Payment>,
    environment: Environment,
    lines: &[NewWork],
    now: Time,
) -> Result<(), Fault> {
    for line in lines {
        let about = schema::work_about(&line.key);
        let open: Option<(Time, WorkId)> = rows.load(&about)?;
        let (opened_at, id) = match open {
            Some(open) => open,
            None => (now, WorkId::from_bytes(random_id()?)),
        };
        let item = work_item(line, payment, environment, (id, opened_at));
        rows.save(schema::work(opened_at, id), &item)?;
        if open.is_none() {
            rows.save(about, &(opened_at, id))?;
            rows.save(schema::work_index(id), &opened_at)?;
            rows.save(schema::open_work(opened_at, id), &())?;
        }
    }
    Ok(())
}

/// Adds an item without a payment to the work list.
pub(crate) struct OpenWork {
    pub(crate) found: NewWork,
    pub(crate) environment: Environment,
    /// Money that the item is about, to be booked without a payment.
    pub(crate) movement: Option<Movement>,
    pub(crate) now: Time,
}

impl Operation<Memory> for OpenWork {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        open(rows, None, self.environment, &[self.found], self.now)?;
        let Some(movement) = self.movement else {
            return Ok(());
        };
        let book = Book {
            movement,
            audited: None,
            now: self.now,
        };
        book.apply(rows).map(drop)
    }
}

/// Closes the item with a key.
pub(crate) struct CloseWork {
    pub(crate) key: WorkKey,
    pub(crate) now: Time,
}

impl Operation<Memory> for CloseWork {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        close_about(rows, std::slice::from_ref(&self.key), self.now)
    }
}

/// Closes the open items with these keys.
pub(crate) fn close_about(rows: &mut Rows<'_>, keys: &[WorkKey], now: Time) -> Result<(), Fault> {
    for key in keys {
        if let Some((opened_at, id)) = rows.load(&schema::work_about(key))? {
            close(rows, opened_at, id, now)?;
        }
    }
    Ok(())
}

/// Returns an item by its id.
pub(crate) fn item(source: &impl RowSource, id: WorkId) -> Result<Option<WorkItem>, Fault> {
    let opened_at: Option<Time> = source.load(&schema::work_index(id))?;
    opened_at
        .map(|opened_at| source.expect(&schema::work(opened_at, id)))
        .transpose()
}

/// Marks an item as done. Returns it, and whether it was open.
fn close(
    rows: &mut Rows<'_>,
    opened_at: Time,
    id: WorkId,
    now: Time,
) -> Result<(WorkItem, bool), Fault> {
    let key = schema::work(opened_at, id);
    let mut item: WorkItem = rows.expect(&key)?;
    let was_open = item.done_at.is_none();
    if was_open {
        item.done_at = Some(now);
        rows.save(key, &item)?;
        rows.remove(schema::open_work(opened_at, id));
        rows.remove(schema::work_about(&item.key));
    }
    Ok((item, was_open))
}

/// Marks an item as done for an operator.
pub(crate) struct WorkDone {
    pub(crate) id: WorkId,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for WorkDone {
    type Outcome = Option<WorkItem>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let Some(opened_at) = rows.load(&schema::work_index(self.id))? else {
            return Ok(None);
        };
        let (item, was_open) = close(rows, opened_at, self.id, self.now)?;
        if was_open {
            audit::append(rows, self.audited, self.now)?;
        }
        Ok(Some(item))
    }
}
