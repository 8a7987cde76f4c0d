//! Pages of lists. A cursor is the key of the last row that was looked at, so a page begins where
//! the one before ended, whatever was added meanwhile.
//!
//! A page is read in slices: a filter that matches little reads thousands of rows from the disk, and
//! groups are shown between them. Each row is looked at once, as it is then.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kassette_domain::id::PaymentId;
pub(crate) use kassette_engine::Order;
use kassette_engine::{IVec, Span};

use crate::rows::schema::{Key, Position};
use crate::sled::memory::View;
use crate::sled::memory::payment_index::List;
use crate::sled::memory::payment_index::period::Period;
use crate::sled::memory::payment_index_rows::Ids;
use crate::sled::store::SledStore;
use crate::{Fault, Listed, Page, Paging, StoreFuture};

/// Bytes of a time and an id, with which the keys of most lists end.
pub(crate) const TIME_AND_ID: usize = 24;
/// Most items of a page.
const MAX_ITEMS: usize = 100;
/// Most rows that one call looks at: a filter that matches little answers a short page with a cursor.
const MAX_SCAN: usize = 2000;
/// Most rows or payments that are found at once.
const CHUNK: usize = 32;
/// How often one call goes on along payments in memory, some thousands each time: a period that has to be
/// looked for among very many answers a short page too.
const MAX_WALKS: usize = 64;
/// Longest cursor, in characters; the longest key of a list has 44 bytes.
const MAX_CURSOR: usize = 128;

/// What a list is made of, in its order.
pub(crate) trait PageSource: Send + 'static {
    type Item: Send;

    /// At most [`CHUNK`] more, and whether nothing follows them; or the cursor of the page, where one call
    /// goes no further.
    fn more(&mut self, view: &View<'_>) -> Result<Chunk<Self::Item>, Fault>;

    /// The cursor of a page that ends with one.
    fn cursor(&self, last: &Self::Item) -> String;
}

pub(crate) type Chunk<E> = ControlFlow<Option<String>, (Vec<E>, bool)>;

/// What was seen of a row or payment.
pub(crate) struct Examined<T> {
    /// What becomes of it; none leaves it out.
    pub(crate) item: Option<T>,
    /// Rows that were read for it, as far as they count.
    pub(crate) rows: usize,
}

/// A page in the making.
struct PageBuilder<A: PageSource, T> {
    along: A,
    found: VecDeque<A::Item>,
    /// Whether nothing follows what was found.
    ended: bool,
    limit: usize,
    items: Vec<T>,
    rows: usize,
}

impl<A: PageSource, T> PageBuilder<A, T> {
    /// Goes on until the page is done or others should have their turn.
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
                    break Some(self.along.cursor(&each));
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
        let items = std::mem::take(&mut self.items);
        Ok(ControlFlow::Break(Listed::Page(Page { items, next })))
    }
}

impl SledStore {
    /// One page of a list. `look` says what becomes of each row or payment.
    pub(crate) fn page<A: PageSource, T: Send + 'static>(
        &self,
        along: A,
        limit: usize,
        mut look: impl FnMut(&View<'_>, &A::Item) -> Result<Examined<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        let mut making = PageBuilder {
            along,
            found: VecDeque::new(),
            ended: false,
            limit: limit.clamp(1, MAX_ITEMS),
            items: Vec::new(),
            rows: 0,
        };
        self.read_aside(move |view| making.go_on(view, &mut look))
    }

    /// One page of a list: the rows under `prefix`, each `tail` bytes longer than it. `take` says what
    /// becomes of a row; none leaves it out.
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

    /// The same of those rows alone that are in a span.
    pub(crate) fn list_in<T: Send + 'static>(
        &self,
        mut span: Span,
        (prefix, tail): (&[u8], usize),
        order: Order,
        paging: &Paging,
        mut take: impl FnMut(&View<'_>, &[u8], &IVec) -> Result<Option<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        if let Some(cursor) = &paging.cursor {
            let Some(last) = read_cursor(cursor, prefix, tail) else {
                return bad_cursor();
            };
            span = span.behind(&last, order);
        }
        self.page(RowsOf { span, order }, paging.limit, move |view, row| {
            let (key, row) = row;
            take(view, key, row).map(|item| Examined { item, rows: 1 })
        })
    }

    /// One page of a list whose keys are all at hand, in no order: the same page, last to first, as of the
    /// rows under `prefix` with these keys alone, and the same cursors. Where there are others behind
    /// `rest`, a page that reaches it goes on there. `take` says what becomes of a key; none leaves it out.
    pub(crate) fn page_of<T: Send + 'static>(
        &self,
        (mut keys, rest): (Vec<Key>, Option<Key>),
        (prefix, tail): (&[u8], usize),
        paging: &Paging,
        mut take: impl FnMut(&View<'_>, &[u8]) -> Result<Option<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        if let Some(cursor) = &paging.cursor {
            let Some(last) = read_cursor(cursor, prefix, tail) else {
                return bad_cursor();
            };
            keys.retain(|key| *key < last);
        }
        keys.sort_unstable();
        self.page(KeysOf { keys, rest }, paging.limit, move |view, key| {
            take(view, key).map(|item| Examined { item, rows: 0 })
        })
    }

    /// One page of a list of payments that were made in a period. `look` says what becomes of each.
    pub(crate) fn page_of_payments<T: Send + 'static>(
        &self,
        list: List,
        period: Period,
        paging: &Paging,
        mut look: impl FnMut(&View<'_>, PaymentId) -> Result<Examined<T>, Fault> + Send + 'static,
    ) -> StoreFuture<'_, Listed<T>> {
        let mut after = None;
        if let Some(cursor) = &paging.cursor {
            let Some(position) = read_position(cursor, list) else {
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
        // One more tells whether it is the last.
        let mut rows = view.scan_in(&self.span, self.order, CHUNK + 1)?;
        let ended = rows.len() <= CHUNK;
        rows.truncate(CHUNK);
        if let Some((last, _)) = rows.last() {
            self.span = self.span.clone().behind(last, self.order);
        }
        Ok(ControlFlow::Continue((rows, ended)))
    }

    fn cursor(&self, (last, _): &Self::Item) -> String {
        write_cursor(last)
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
            return Ok(ControlFlow::Break(Some(write_cursor(rest))));
        }
        let mut found = self.keys.split_off(self.keys.len().saturating_sub(CHUNK));
        found.reverse();
        let ended = self.keys.is_empty() && self.rest.is_none();
        Ok(ControlFlow::Continue((found, ended)))
    }

    fn cursor(&self, last: &Key) -> String {
        write_cursor(last)
    }
}

/// The payments of a list that were made in a period.
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
            let next = self
                .after
                .map(|position| write_position(self.list, position));
            return Ok(ControlFlow::Break(next));
        }
        self.walks += 1;
        let index = view.shown().read();
        let walked = index.listed(self.list, self.period, self.after, CHUNK);
        drop(index);
        self.after = walked.last.or(self.after);
        Ok(ControlFlow::Continue((walked.positions, walked.ended)))
    }

    fn cursor(&self, last: &Position) -> String {
        write_position(self.list, *last)
    }
}

/// What a cursor of a list of payments begins with.
fn list_tag(list: List) -> [u8; 13] {
    let mut tag = *b"pay/\0\0\0\0\0\0\0\0\0";
    match list {
        List::All => tag[4] = b'a',
        List::Of(merchant) => {
            tag[4] = b'm';
            tag[5..].copy_from_slice(&merchant.0.to_be_bytes());
        }
        List::With(order) => {
            tag[4] = b'o';
            tag[5..9].copy_from_slice(&order);
        }
    }
    tag
}

fn write_position(list: List, position: Position) -> String {
    URL_SAFE_NO_PAD.encode([&list_tag(list)[..], &position.to_be_bytes()].concat())
}

fn read_position(cursor: &str, list: List) -> Option<Position> {
    if cursor.len() > MAX_CURSOR {
        return None;
    }
    let cursor = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let position = cursor.strip_prefix(&list_tag(list))?;
    position.try_into().ok().map(Position::from_be_bytes)
}

/// The cursor of a page that ended with a key.
pub(crate) fn write_cursor(key: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The key in a cursor, if this list could have given it out.
pub(crate) fn read_cursor(cursor: &str, prefix: &[u8], tail: usize) -> Option<Key> {
    if cursor.len() > MAX_CURSOR {
        return None;
    }
    let key = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    (key.starts_with(prefix) && key.len() == prefix.len() + tail).then_some(key)
}
