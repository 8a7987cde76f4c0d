//! Pages of lists. A cursor is the place of the last row that was looked at, so a page begins where the one before
//! ended, whatever was added meanwhile.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::PostgresStore;
use crate::postgres::database::Arguments;
use crate::{Fault, Listed, Page, Paging};

/// Most items of a page.
const MAX_ITEMS: usize = 100;
/// Longest cursor, in characters.
const MAX_CURSOR: usize = 256;
/// Bytes of a place.
const PLACE: usize = 24;

/// A place in a list: a time in milliseconds or a number, then an id, which is nil in lists without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition(pub(crate) i64, pub(crate) Uuid);

/// What is asked of a list that is told from others by its tag.
pub(crate) struct ListQuery<'t> {
    tag: &'t [u8],
    /// The page holds what stands before this place.
    pub(crate) before: ListPosition,
    /// Most items of the page.
    pub(crate) limit: usize,
}

impl<'t> ListQuery<'t> {
    /// Reads what is asked; none where the cursor is not one of this list.
    pub(crate) fn read(tag: &'t [u8], paging: &Paging) -> Option<Self> {
        let before = match &paging.cursor {
            None => ListPosition(i64::MAX, Uuid::max()),
            Some(cursor) => read_cursor(tag, cursor)?,
        };
        Some(Self {
            tag,
            before,
            limit: paging.limit.clamp(1, MAX_ITEMS),
        })
    }

    /// How many rows are to be read: one more than the page holds, to know whether another one follows.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit)
            .unwrap_or(i64::MAX)
            .saturating_add(1)
    }

    /// The page of rows with their places, of which [`ListQuery::rows`] were asked for.
    pub(crate) fn page<T>(&self, mut found: Vec<(ListPosition, T)>) -> Listed<T> {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let last = found.last().map(|(place, _)| *place).filter(|_| more);
        self.page_up_to(found.into_iter().map(|(_, item)| item).collect(), last)
    }

    /// The page of rows that were looked at, at most `scan`, each with its place and with what it has where it
    /// fits.
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
                return Ok(self.page(found));
            }
        }
        if are_all {
            return Ok(self.page(found));
        }
        let items = found.into_iter().map(|(_, item)| item).collect();
        Ok(self.page_up_to(items, last))
    }

    /// The page of some items, after which the next one begins behind a place.
    pub(crate) fn page_up_to<T>(&self, items: Vec<T>, next: Option<ListPosition>) -> Listed<T> {
        let next = next.map(|ListPosition(number, id)| {
            URL_SAFE_NO_PAD.encode([self.tag, &number.to_be_bytes(), id.as_bytes()].concat())
        });
        Listed::Page(Page { items, next })
    }
}

impl PostgresStore {
    /// A page of a list in the order of a time and an id: the arguments of its query are its `own`, this place, and
    /// how many rows are read.
    pub(crate) async fn list_by_time<T>(
        &self,
        tag: &[u8],
        paging: Paging,
        sql: &str,
        own: Arguments<'_>,
        read: fn(&Row) -> Result<(ListPosition, T), Fault>,
    ) -> Result<Listed<T>, Fault> {
        let Some(asked) = ListQuery::read(tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (ListPosition(at, id), rows) = (asked.before, asked.rows());
        let place: Arguments<'_> = &[&at, &id, &rows];
        let found = self.requests.read(sql, &[own, place].concat()).await?;
        let each = found.iter().map(read);
        Ok(asked.page(each.collect::<Result<_, Fault>>()?))
    }

    /// A page of a list in the order of a number, which is the first column.
    pub(crate) async fn list_by_number<T>(
        &self,
        tag: &[u8],
        paging: Paging,
        sql: &str,
        read: fn(&Row) -> Result<T, Fault>,
    ) -> Result<Listed<T>, Fault> {
        let Some(asked) = ListQuery::read(tag, &paging) else {
            return Ok(Listed::BadCursor);
        };
        let (before, rows) = (asked.before.0, asked.rows());
        let found = self.requests.read(sql, &[&before, &rows]).await?;
        let place = |row: &Row| ListPosition(row.get(0), Uuid::nil());
        let each = found.iter().map(|row| Ok((place(row), read(row)?)));
        Ok(asked.page(each.collect::<Result<_, Fault>>()?))
    }
}

fn read_cursor(tag: &[u8], cursor: &str) -> Option<ListPosition> {
    if cursor.len() > MAX_CURSOR {
        return None;
    }
    let cursor = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let place: [u8; PLACE] = cursor.strip_prefix(tag)?.try_into().ok()?;
    let (number, id) = place.split_first_chunk()?;
    Some(ListPosition(
        i64::from_be_bytes(*number),
        Uuid::from_slice(id).ok()?,
    ))
}
