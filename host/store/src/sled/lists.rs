//! Pages of lists. A cursor is the key of the last row that was looked at, so a page begins where
//! the one before ended, whatever was added meanwhile.

use ::sled::IVec;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kassette_domain::id::PaymentId;

use super::keys::Key;
use super::period::Period;
use super::register::{List, Place};
use super::registered::Ids;
use super::rows::{Source, Span};
use super::view::View;
use crate::{Fault, Listed, Page, Paging};

/// Most items of a page.
const MAX_ITEMS: usize = 100;
/// Most rows that one call looks at: a filter that matches little answers a short page with a cursor.
const MAX_SCAN: usize = 2000;
/// Rows that are read at once.
const CHUNK: usize = 128;
/// How often one call goes on along payments in memory, some thousands each time: a period that has to be
/// looked for among very many answers a short page too.
const MAX_WALKS: usize = 64;
/// Longest cursor, in characters; the longest key of a list has 44 bytes.
const MAX_CURSOR: usize = 128;

/// In which order the rows of a list stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The keys count down with time: first to last.
    Keys,
    /// The keys count up: last to first.
    Backwards,
}

/// One page of a list: the rows under `prefix`, each `tail` bytes longer than it. `take` says what
/// becomes of a row; none leaves it out.
pub(super) fn page<T>(
    view: &View<'_>,
    prefix: &[u8],
    tail: usize,
    order: Order,
    paging: &Paging,
    mut take: impl FnMut(&[u8], &IVec) -> Result<Option<T>, Fault>,
) -> Result<Listed<T>, Fault> {
    let mut span = Span::prefix(prefix);
    if let Some(cursor) = &paging.cursor {
        let Some(last) = read_cursor(cursor, prefix, tail) else {
            return Ok(Listed::BadCursor);
        };
        span = rest(span, order, &last);
    }
    let limit = paging.limit.clamp(1, MAX_ITEMS);
    let mut items = Vec::new();
    let mut looked = 0;
    loop {
        // One more than a page, to know whether it is the last.
        let chunk = (limit + 1).max(CHUNK);
        let rows = match order {
            Order::Keys => view.scan(&span, chunk)?,
            Order::Backwards => view.scan_back(&span, chunk)?,
        };
        let more_below = rows.len() == chunk;
        let count = rows.len();
        for (at, (key, row)) in rows.into_iter().enumerate() {
            if let Some(item) = take(&key, &row)? {
                items.push(item);
            }
            looked += 1;
            let last_row = at + 1 == count && !more_below;
            if (items.len() == limit || looked == MAX_SCAN) && !last_row {
                let next = Some(write_cursor(&key));
                return Ok(Listed::Page(Page { items, next }));
            }
            if at + 1 == count {
                span = rest(span.clone(), order, &key);
            }
        }
        if !more_below {
            return Ok(Listed::Page(Page { items, next: None }));
        }
    }
}

/// One page of a list whose keys are all at hand, in no order: the same page, last to first, as of the
/// rows under `prefix` with these keys alone, and the same cursors. `take` says what becomes of a key;
/// none leaves it out.
pub(super) fn page_of<T>(
    mut keys: Vec<Key>,
    prefix: &[u8],
    tail: usize,
    paging: &Paging,
    mut take: impl FnMut(&[u8]) -> Result<Option<T>, Fault>,
) -> Result<Listed<T>, Fault> {
    if let Some(cursor) = &paging.cursor {
        let Some(last) = read_cursor(cursor, prefix, tail) else {
            return Ok(Listed::BadCursor);
        };
        keys.retain(|key| *key < last);
    }
    keys.sort_unstable();
    let limit = paging.limit.clamp(1, MAX_ITEMS);
    let mut items = Vec::new();
    while let Some(key) = keys.pop() {
        items.extend(take(&key)?);
        if items.len() == limit && !keys.is_empty() {
            let next = Some(write_cursor(&key));
            return Ok(Listed::Page(Page { items, next }));
        }
    }
    Ok(Listed::Page(Page { items, next: None }))
}

/// What was seen of a payment.
pub(super) struct Looked<T> {
    /// What becomes of it; none leaves it out.
    pub(super) item: Option<T>,
    /// Rows that were read for it.
    pub(super) rows: usize,
}

/// One page of a list of payments that were made in a period. `look` says what becomes of each.
pub(super) fn payments<T>(
    view: &View<'_>,
    list: List,
    period: Period,
    paging: &Paging,
    mut look: impl FnMut(PaymentId) -> Result<Looked<T>, Fault>,
) -> Result<Listed<T>, Fault> {
    let mut after = None;
    if let Some(cursor) = &paging.cursor {
        let Some(place) = read_place(cursor, list) else {
            return Ok(Listed::BadCursor);
        };
        after = Some(place);
    }
    let limit = paging.limit.clamp(1, MAX_ITEMS);
    let mut ids = Ids::new(view);
    let mut items = Vec::new();
    let mut rows = 0;
    for _ in 0..MAX_WALKS {
        let walked = view.listed(list, period, after, CHUNK);
        let count = walked.places.len();
        for (at, place) in walked.places.into_iter().enumerate() {
            let looked = look(ids.at(place)?)?;
            items.extend(looked.item);
            rows += looked.rows;
            let last = at + 1 == count && walked.ended;
            if (items.len() == limit || rows >= MAX_SCAN) && !last {
                let next = Some(write_place(list, place));
                return Ok(Listed::Page(Page { items, next }));
            }
        }
        if walked.ended {
            return Ok(Listed::Page(Page { items, next: None }));
        }
        after = walked.last.or(after);
    }
    let next = after.map(|place| write_place(list, place));
    Ok(Listed::Page(Page { items, next }))
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

fn write_place(list: List, place: Place) -> String {
    URL_SAFE_NO_PAD.encode([&list_tag(list)[..], &place.to_be_bytes()].concat())
}

fn read_place(cursor: &str, list: List) -> Option<Place> {
    if cursor.len() > MAX_CURSOR {
        return None;
    }
    let cursor = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let place = cursor.strip_prefix(&list_tag(list))?;
    place.try_into().ok().map(Place::from_be_bytes)
}

fn rest(span: Span, order: Order, last: &[u8]) -> Span {
    match order {
        Order::Keys => span.after(last),
        Order::Backwards => span.before(last),
    }
}

/// The cursor of a page that ended with a key.
pub(super) fn write_cursor(key: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// The key in a cursor, if this list could have given it out.
pub(super) fn read_cursor(cursor: &str, prefix: &[u8], tail: usize) -> Option<Key> {
    if cursor.len() > MAX_CURSOR {
        return None;
    }
    let key = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    (key.starts_with(prefix) && key.len() == prefix.len() + tail).then_some(key)
}
