//! Pages of lists. A cursor is the sealed key of the last row that was read, so a page starts where the
//! previous one ended, regardless of rows that were added in the meantime.
//!
//! A page is read in slices, because a filter with few matches reads thousands of rows from the disk. Groups
//! are shown between slices. Each row is read one time, in its state at that time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::id::PaymentId;
pub(crate) use kassette_engine::Order;
use kassette_engine::{IVec, Span};

use crate::rows::schema::{Key, Position};
use crate::rows::seal::Secrets;
use crate::sled::memory::View;
use crate::sled::memory::payment_index::List;
use crate::sled::memory::payment_index::period::Period;
use crate::sled::memory::payment_index_rows::Ids;
use crate::sled::store::SledStore;
use crate::{Fault, Listed, Page, Paging, StoreFuture};

/// Bytes of a time and an id, with which the keys of most lists end.
pub(crate) const TIME_AND_ID: usize = 24;
/// Maximum number of items of a page.
const MAX_ITEMS: usize = 100;
/// Maximum number of rows that one call reads. A filter with few matches therefore returns a short page with
/// a cursor.
const MAX_SCAN: usize = 2000;
/// Number of rows or payments fetched per step.
const CHUNK: usize = 32;
/// Maximum number of steps of one call through payments in memory, some thousands of payments each. A period
/// that is far back among very many payments therefore returns a short page too.
const MAX_WALKS: usize = 64;

/// The source of a list, in its order.
pub(crate) trait PageSource: Send + 'static {
    type Item: Send;

    /// Returns at most [`CHUNK`] more items, and whether they are the last. Breaks with the place at which
    /// the page must end if this call has reached its limit.
    fn more(&mut self, view: &View<'_>) -> Result<Chunk<Self::Item>, Fault>;

    /// The place of an item: the cursor of a page that ends with it.
    fn place(&self, last: &Self::Item) -> Vec<u8>;
}

pub(crate) type Chunk<E> = ControlFlow<Option<Vec<u8>>, (Vec<E>, bool)>;

/// Result of examining a row or payment.
pub(crate) struct Examined<T> {
    /// Item of the page. `None` leaves it out.
    pub(crate) item: Option<T>,
    /// Number of rows read for it that count towards [`MAX_SCAN`].
    pub(crate) rows: usize,
}

/// A page that is being built.
struct PageBuilder<A: PageSource, T> {
    along: A,
    secrets: Arc<Secrets>,
    found: VecDeque<A::Item>,
    /// Whether `found` contains the last items.
    ended: bool,
    limit: usize,
    items: Vec<T>,
    rows: usize,
}

impl<A: PageSource, T> PageBuilder<A, T> {
    /// Continues until the page is complete or the slice has reached its limit.
    fn go_on(
        &mut self,
        view: &View<'_>,
        look: &mut impl FnMut(&View<'_>, &A::Item) -> Result<Examined<T>, Fault>,
    ) -> Result<ControlFlow<Listed<T>>, Fault> {
        let next = loop {
            if let Some(each) = self.found.pop_front() {
                let looked = look(view, &each)?;
                self.items.extend(looked.item);
                self.rows += looked.rows;
                let is_last = self.found.is_empty() && self.ended;
                if (self.items.len() == self.limit || self.rows >= MAX_SCAN) && !is_last {
                    break Some(self.along.place(&each));
                }
            } else if self.ended {
                break None;
            } else {
                match self.along.more(view)? {
                    ControlFlow::Break(next) => break next,
                    ControlFlow::Continue((found, ended)) => {
                        (self.found, self.ended) = (found.into(), ended);
                    }
                }
                if self.found.is_empty() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            if view.is_enough() {
                return Ok(ControlFlow::Continue(()));
            }
        };
        let next = next
            .map(|place| self.secrets.sealer.seal_cursor(&place))
            .transpose()?;
        let items = std::mem::take(&mut self.items);
        Ok(ControlFlow::Break(Listed::Page(Page { items, next })))
    }
}

impl SledStore {
    /// Returns one page of a list. `look` examines each row or payment.
    pub(crate) fn page<A: PageSource, T: Send + 'static>(
        &self,
        along: A,
        limit: usize,
        mut look: impl FnMut(&View<'_>, &A::Item) -> Result<Examined<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        let mut making = PageBuilder {
            along,
            secrets: Arc::clone(&self.secrets),
            found: VecDeque::new(),
            ended: false,
            limit: limit.clamp(1, MAX_ITEMS),
            items: Vec::new(),
            rows: 0,
        };
        self.read_aside(move |view| making.go_on(view, &mut look))
    }

    /// Returns one page of a list: the rows under `prefix` whose keys are `tail` bytes longer. `take`
    /// converts a row; `None` leaves it out.
    pub(crate) fn list<T: Send + 'static>(
        &self,
        prefix: &[u8],
        tail: usize,
        order: Order,
        paging: &Paging,
        take: impl FnMut(&View<'_>, &[u8], &IVec) -> Result<Option<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        self.list_in(Span::prefix(prefix), (prefix, tail), order, paging, take)
    }

    /// Like [`Self::list`], for the rows in a span only.
    pub(crate) fn list_in<T: Send + 'static>(
        &self,
        mut span: Span,
        (prefix, tail): (&[u8], usize),
        order: Order,
        paging: &Paging,
        mut take: impl FnMut(&View<'_>, &[u8], &IVec) -> Result<Option<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        if let Some(cursor) = &paging.cursor {
            let Some(last) = self.read_cursor(cursor, prefix, tail) else {
                return bad_cursor();
            };
            span = span.behind(&last, order);
        }
        self.page(RowsOf { span, order }, paging.limit, move |view, row| {
            let (key, row) = row;
            take(view, key, row).map(|item| Examined { item, rows: 1 })
        })
    }

    /// Returns one page of a list whose keys are all known, in any order. The page, from last to first, and
    /// its cursors are the same as those of the rows under `prefix` with these keys. If `rest` is given, a
    /// page that reaches it continues there. `take` converts a key; `None` leaves it out.
    pub(crate) fn page_of<T: Send + 'static>(
        &self,
        (mut keys, rest): (Vec<Key>, Option<Key>),
        (prefix, tail): (&[u8], usize),
        paging: &Paging,
        mut take: impl FnMut(&View<'_>, &[u8]) -> Result<Option<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        if let Some(cursor) = &paging.cursor {
            let Some(last) = self.read_cursor(cursor, prefix, tail) else {
                return bad_cursor();
            };
            keys.retain(|key| *key < last);
        }
        keys.sort_unstable();
        self.page(KeysOf { keys, rest }, paging.limit, move |view, key| {
            take(view, key).map(|item| Examined { item, rows: 0 })
        })
    }

    /// Returns one page of a list of payments created in a period. `look` examines each payment.
    pub(crate) fn page_of_payments<T: Send + 'static>(
        &self,
        list: List,
        period: Period,
        paging: &Paging,
        mut look: impl FnMut(&View<'_>, PaymentId) -> Result<Examined<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        let mut after = None;
        if let Some(cursor) = &paging.cursor {
            let Some(position) = self.read_position(cursor, list) else {
                return bad_cursor();
            };
            after = Some(position);
        }
        let along = PaymentsOf {
            list,
            period,
            after,
            walks: 0,
        };
        let mut ids = Ids::default();
        self.page(along, paging.limit, move |view, position| {
            look(view, ids.at(view, *position)?)
        })
    }
}

impl SledStore {
    /// The position in a cursor, if this list could have issued it.
    fn read_position(&self, cursor: &str, list: List) -> Option<Position> {
        let place = self.secrets.sealer.open_cursor(cursor)?;
        let position = place.strip_prefix(&list_tag(list))?;
        position.try_into().ok().map(Position::from_be_bytes)
    }

    /// The key in a cursor, if this list could have issued it.
    pub(crate) fn read_cursor(&self, cursor: &str, prefix: &[u8], tail: usize) -> Option<Key> {
        let key = self.secrets.sealer.open_cursor(cursor)?;
        (key.starts_with(prefix) && key.len() == prefix.len() + tail).then_some(key)
    }
}

pub(crate) fn bad_cursor<'a, T: Send + 'a>() -> StoreFuture<'a, Listed<T>> {
    Box::pin(async { Ok(Listed::BadCursor) })
}

/// The rows of a span.
struct RowsOf {
    span: Span,
    order: Order,
}

impl PageSource for RowsOf {
    type Item = (Key, IVec);

    fn more(&mut self, view: &View<'_>) -> Result<Chunk<Self::Item>, Fault> {
        // An additional row shows whether more follow.
        let mut rows = view.scan_in(&self.span, self.order, CHUNK + 1)?;
        let ended = rows.len() <= CHUNK;
        rows.truncate(CHUNK);
        if let Some((last, _)) = rows.last() {
            self.span = self.span.clone().behind(last, self.order);
        }
        Ok(ControlFlow::Continue((rows, ended)))
    }

    fn place(&self, (last, _): &Self::Item) -> Vec<u8> {
        last.clone()
    }
}

/// Keys in ascending order; see [`SledStore::page_of`].
struct KeysOf {
    keys: Vec<Key>,
    rest: Option<Key>,
}

impl PageSource for KeysOf {
    type Item = Key;

    fn more(&mut self, _: &View<'_>) -> Result<Chunk<Key>, Fault> {
        if self.keys.is_empty()
            && let Some(rest) = &self.rest
        {
            return Ok(ControlFlow::Break(Some(rest.clone())));
        }
        let mut found = self.keys.split_off(self.keys.len().saturating_sub(CHUNK));
        found.reverse();
        let ended = self.keys.is_empty() && self.rest.is_none();
        Ok(ControlFlow::Continue((found, ended)))
    }

    fn place(&self, last: &Key) -> Vec<u8> {
        last.clone()
    }
}

/// The payments of a list that were created in a period.
struct PaymentsOf {
    list: List,
    period: Period,
    after: Option<Position>,
    walks: usize,
}

impl PageSource for PaymentsOf {
    type Item = Position;

    fn more(&mut self, view: &View<'_>) -> Result<Chunk<Self::Item>, Fault> {
        if self.walks == MAX_WALKS {
            let next = self.after.map(|position| place(self.list, position));
            return Ok(ControlFlow::Break(next));
        }
        self.walks += 1;
        let index = view.shown().read();
        let walked = index.listed(self.list, self.period, self.after, CHUNK);
        drop(index);
        self.after = walked.last.or(self.after);
        Ok(ControlFlow::Continue((walked.positions, walked.ended)))
    }

    fn place(&self, last: &Position) -> Vec<u8> {
        place(self.list, *last)
    }
}

/// Prefix of a place in a list of payments.
fn list_tag(list: List) -> [u8; 13] {
    let mut tag = *b"pay/\0\0\0\0\0\0\0\0\0";
    match list {
        List::All => tag[4] = b'a',
        List::Of(merchant) => {
            tag[4] = b'm';
            tag[5..].copy_from_slice(&merchant.0.to_be_bytes());
        }
        List::With(mark, of) => {
            tag[4] = b'0' + mark as u8;
            tag[5..9].copy_from_slice(&of);
        }
    }
    tag
}

/// The place of a payment in a list.
fn place(list: List, position: Position) -> Vec<u8> {
    [&list_tag(list)[..], &position.to_be_bytes()].concat()
}
