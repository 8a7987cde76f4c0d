//! How sled writes what a page holds.
//!
//! A page of a tree is the number of the page on its right, how many bytes all its keys begin with, the
//! key that it begins at and the one that it ends before, then its rows or the pages below it: first all
//! keys, without the bytes that they have in common, then all values. A leaf begins and ends at the
//! shortest key that tells it from the leaf beside it.

use ::sled::IVec;

use crate::sled::segment::put_number;

/// Most bytes that sled takes as common to all keys of a page.
const MOST_IN_COMMON: usize = u8::MAX as usize;

fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put_number(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// The page of the trees' roots, with one tree.
pub(super) fn roots(tree: &[u8], root: u64) -> Vec<u8> {
    let mut page = Vec::new();
    put_bytes(&mut page, tree);
    put_number(&mut page, root);
    page
}

/// The page of a counter.
pub(super) fn counter(count: u64) -> Vec<u8> {
    let mut page = Vec::new();
    put_number(&mut page, count);
    page
}

/// The shortest key above `left` and not above `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> IVec {
    IVec::from(&right[..right.len().min(in_common(left, right) + 1)])
}

fn in_common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

/// Where a page begins, and what it ends before; nothing where it is the first or the last.
type Span<'a> = (&'a [u8], &'a [u8]);

/// What the rest of a page is.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Leaf = 0,
    Index = 1,
}

/// A page up to its values.
fn page<'a>(
    (from, to): Span<'_>,
    next: Option<u64>,
    kind: Kind,
    keys: impl ExactSizeIterator<Item = &'a IVec>,
) -> Vec<u8> {
    let mut page = Vec::with_capacity(4096);
    put_number(&mut page, next.unwrap_or_default());
    // No page below it is being merged, nor is it.
    page.extend([0, 0]);
    let common = in_common(from, to).min(MOST_IN_COMMON);
    // One byte, whatever it is.
    page.push(u8::try_from(common).unwrap_or(u8::MAX));
    put_bytes(&mut page, from);
    put_bytes(&mut page, to);
    page.push(kind as u8);
    put_number(&mut page, keys.len() as u64);
    for key in keys {
        put_bytes(&mut page, &key[common..]);
    }
    page
}

/// A page with rows.
pub(super) fn leaf(span: Span<'_>, next: Option<u64>, rows: &[(IVec, IVec)]) -> Vec<u8> {
    let mut page = page(span, next, Kind::Leaf, rows.iter().map(|(key, _)| key));
    for (_, row) in rows {
        put_bytes(&mut page, row);
    }
    page
}

/// A page with pages below it.
pub(super) fn index(span: Span<'_>, next: Option<u64>, children: &[(IVec, u64)]) -> Vec<u8> {
    let mut page = page(
        span,
        next,
        Kind::Index,
        children.iter().map(|(from, _)| from),
    );
    for (_, child) in children {
        put_number(&mut page, *child);
    }
    page
}
