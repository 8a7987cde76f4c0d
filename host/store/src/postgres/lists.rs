//! Pages of lists. A cursor is the sealed position of the last row read, so a page starts at the end of the
//! previous one, whatever rows were added since.

use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::PostgresStore;
use crate::postgres::database::Arguments;
use crate::rows::seal::Sealer;
use crate::{Fault, Listed, Page, Paging};

/// Maximum number of items per page.
const MAX_ITEMS: usize = 100;
/// Size of an encoded position, in bytes.
const PLACE: usize = 24;

/// A position in a list: a time in milliseconds or a number, then an id, which is nil in lists without ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition(pub(crate) i64, pub(crate) Uuid);

/// A page request for a list, which its tag identifies.
pub(crate) struct ListQuery<'t> {
    sealer: &'t Sealer,
    tag: &'t [u8],
    /// The page contains rows before this position.
    pub(crate) before: ListPosition,
    /// Maximum number of items on the page.
    pub(crate) limit: usize,
}

impl<'t> ListQuery<'t> {
    /// Parses a request. `None` if the cursor does not belong to this list.
    pub(crate) fn read(sealer: &'t Sealer, tag: &'t [u8], paging: &Paging) -> Option<Self> {
        let before = match &paging.cursor {
            None => ListPosition(i64::MAX, Uuid::max()),
            Some(cursor) => read_place(tag, &sealer.open_cursor(cursor)?)?,
        };
        Some(Self {
            sealer,
            tag,
            before,
            limit: paging.limit.clamp(1, MAX_ITEMS),
        })
    }

    /// Number of rows to query: one more than the page holds, to detect a next page.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit)
            .unwrap_or(i64::MAX)
            .saturating_add(1)
    }

    /// Builds a page from rows with their positions; [`ListQuery::rows`] is the number to query.
    pub(crate) fn page<T>(&self, mut found: Vec<(ListPosition, T)>) -> Result<Listed<T>, Fault> {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let last = found.last().map(|(place, _)| *place).filter(|_| more);
        self.page_up_to(found.into_iter().map(|(_, item)| item).collect(), last)
    }

    /// Builds a page from scanned rows, at most `scan`: each with its position, and its item if the filter
    /// matches.
    pub(crate) fn page_of_looked<T>(
        &self,
        scan: i64,
        looked: impl ExactSizeIterator<Item = Result<(ListPosition, Option<T>), Fault>>,
    ) -> Result<Listed<T>, Fault> {
        let are_all = i64::try_from(looked.len()).is_ok_and(|looked| looked < scan);
        let (mut found, mut last) = (Vec::new(), None);
        for each in looked {
            let (place, item) = each?;
            found.extend(item.map(|item| (place, item)));
            last = Some(place);
            if found.len() > self.limit {
                return self.page(found);
            }
        }
        if are_all {
            return self.page(found);
        }
        let items = found.into_iter().map(|(_, item)| item).collect();
        self.page_up_to(items, last)
    }

    /// A page of `items`; the next page starts after the position `next`, if there is one.
    pub(crate) fn page_up_to<T>(
        &self,
        items: Vec<T>,
        next: Option<ListPosition>,
    ) -> Result<Listed<T>, Fault> {
        let next = next.map(|ListPosition(number, id)| {
            let place = [self.tag, &number.to_be_bytes(), id.as_bytes()].concat();
            self.sealer.seal_cursor(&place)
        });
        let next = next.transpose()?;
        Ok(Listed::Page(Page { items, next }))
    }
}

/// An item of a list with its position.
type Placed<T> = Result<(ListPosition, T), Fault>;

impl PostgresStore {
    /// A page of a list in the order of a time and an id. The arguments of the query are `own`, the position,
    /// and the number of rows.
    pub(crate) async fn list_by_time<T>(
        &self,
        tag: &[u8],
        paging: Paging,
        sql: &str,
        own: Arguments<'_>,
        read: impl Fn(&Sealer, &Row) -> Placed<T> + Send + Sync,
    ) -> Result<Listed<T>, Fault> {
        let Some(asked) = ListQuery::read(&self.secrets.sealer, tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (ListPosition(at, id), rows) = (asked.before, asked.rows());
        let place: Arguments<'_> = &[&at, &id, &rows];
        let found = self.requests.read(sql, &[own, place].concat()).await?;
        let each = found.iter().map(|row| read(&self.secrets.sealer, row));
        asked.page(each.collect::<Result<_, Fault>>()?)
    }

    /// A page of a list in the order of a number, the first column.
    pub(crate) async fn list_by_number<T>(
        &self,
        tag: &[u8],
        paging: Paging,
        sql: &str,
        read: fn(&Sealer, &Row) -> Result<T, Fault>,
    ) -> Result<Listed<T>, Fault> {
        let Some(asked) = ListQuery::read(&self.secrets.sealer, tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (before, rows) = (asked.before.0, asked.rows());
        let found = self.requests.read(sql, &[&before, &rows]).await?;
        let place = |row: &Row| ListPosition(row.get(0), Uuid::nil());
        let each = found
            .iter()
            .map(|row| Ok((place(row), read(&self.secrets.sealer, row)?)));
        asked.page(each.collect::<Result<_, Fault>>()?)
    }
}

fn read_place(tag: &[u8], opened: &[u8]) -> Option<ListPosition> {
    let place: [u8; PLACE] = opened.strip_prefix(tag)?.try_into().ok()?;
    let (number, id) = place.split_first_chunk()?;
    Some(ListPosition(
        i64::from_be_bytes(*number),
        Uuid::from_slice(id).ok()?,
    ))
}
