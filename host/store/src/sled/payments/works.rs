//! The operators' work list.

use kassette_domain::audit::Audited;
use kassette_domain::id::{AttemptId, PaymentId, WorkId};
use kassette_domain::lifecycle::NewWork;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_engine::{Operation, Span};

use crate::Fault;
use crate::rows::schema;
use crate::rows::seal::random_id;
use crate::rows::source::{RowSource, Save as _};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};

/// Most kinds of work that one attempt can have open; each has one line.
const KINDS: usize = 16;

/// Puts lines on the list. An open line of the same kind and attempt takes the new figures.
pub(crate) fn open(
    rows: &mut Rows<'_>,
    payment: Option<PaymentId>,
    lines: &[NewWork],
    now: Time,
) -> Result<(), Fault> {
    for line in lines {
        let about = schema::work_about(line.attempt, line.kind);
        let open: Option<(Time, WorkId)> = rows.load(&about)?;
        let (opened_at, id) = match open {
            Some(open) => open,
            None => (now, WorkId::from_bytes(random_id()?)),
        };
        let item = WorkItem {
            id,
            kind: line.kind,
            payment,
            attempt: line.attempt,
            account: line.account.clone(),
            amount: line.amount,
            currency: line.currency.clone(),
            detail: line.detail.clone(),
            opened_at,
            done_at: None,
        };
        rows.save(schema::work(opened_at, id), &item)?;
        if open.is_none() {
            rows.save(about, &(opened_at, id))?;
            rows.save(schema::work_index(id), &opened_at)?;
            rows.save(schema::open_work(opened_at, id), &())?;
        }
    }
    Ok(())
}

/// Captured money of an attempt that the store does not know.
pub(crate) struct UnknownMoney {
    pub(crate) found: NewWork,
    pub(crate) now: Time,
}

impl Operation<Memory> for UnknownMoney {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        open(rows, None, &[self.found], self.now)
    }
}

/// Closes the open lines of attempts.
pub(crate) fn settle(rows: &mut Rows<'_>, attempts: &[AttemptId], now: Time) -> Result<(), Fault> {
    for attempt in attempts {
        let open = rows.scan(&Span::prefix(&schema::works_about(*attempt)), KINDS)?;
        for (key, _) in open {
            let (opened_at, id): (Time, WorkId) = rows.expect(&key)?;
            close(rows, opened_at, id, now)?;
        }
    }
    Ok(())
}

/// Closes lines of a kind about an attempt, where they are open.
pub(crate) fn close_about(
    rows: &mut Rows<'_>,
    lines: &[(AttemptId, WorkKind)],
    now: Time,
) -> Result<(), Fault> {
    for (attempt, kind) in lines {
        if let Some((opened_at, id)) = rows.load(&schema::work_about(*attempt, *kind))? {
            close(rows, opened_at, id, now)?;
        }
    }
    Ok(())
}

/// A line by its id.
pub(crate) fn item(source: &impl RowSource, id: WorkId) -> Result<Option<WorkItem>, Fault> {
    let opened_at: Option<Time> = source.load(&schema::work_index(id))?;
    opened_at
        .map(|opened_at| source.expect(&schema::work(opened_at, id)))
        .transpose()
}

/// Marks a line done; says whether it was open.
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
        rows.remove(schema::work_about(item.attempt, item.kind));
    }
    Ok((item, was_open))
}

/// An operator marks a line done.
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
