//! Differences, and reading of whole lists.

use std::future::Future;

use kassette_store::{Fault, Listed, Page, Paging};

/// The error describes the difference.
pub(crate) type Verdict<T = ()> = Result<T, String>;

/// All items of a list, read in short pages.
pub(crate) async fn all<T, F>(mut page: impl FnMut(Paging) -> F) -> Verdict<Vec<T>>
where
    F: Future<Output = Result<Listed<T>, Fault>>,
{
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let paging = Paging { limit: 7, cursor };
        let Listed::Page(Page { items: more, next }) = page(paging).await.map_err(fault)? else {
            return Err("a list's own cursor is refused".into());
        };
        items.extend(more);
        cursor = next;
        if cursor.is_none() {
            return Ok(items);
        }
    }
}

/// Name of an enum variant.
pub(crate) fn word(said: &impl std::fmt::Debug) -> String {
    let text = format!("{said:?}");
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    text[..end].to_owned()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn fault(fault: Fault) -> String {
    format!("the store failed: {fault}")
}

pub(crate) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}
