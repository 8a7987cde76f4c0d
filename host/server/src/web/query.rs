//! Strict query strings, and pages of lists.

use kassette_store::{Fault, Listed, Paging};
use serde_json::{Value, json};

use crate::web::ApiError;
use crate::web::code::Code;
use crate::web::json::{echo, short};

/// Number of items per page without `limit`.
const DEFAULT_LIMIT: usize = 50;
/// Maximum number of items per page.
const MAX_LIMIT: usize = 100;

/// Query parameters of a request, each taken by the code that reads it.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a raw query string. Rejects repeated parameters.
    pub(crate) fn parse(raw: Option<&str>) -> Result<Self, ApiError> {
        let pairs: Vec<(String, String)> =
            form_urlencoded::parse(raw.unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        for (index, (name, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                let message = format!("query parameter {} is repeated", echo(name));
                return Err(ApiError::invalid_of(
                    Code::InvalidField,
                    message,
                    short(name),
                ));
            }
        }
        Ok(Self(pairs))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// Takes and parses an optional parameter. `wrong` is the error text if it cannot be parsed.
    pub(crate) fn read<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
        wrong: &'static str,
    ) -> Result<Option<T>, ApiError> {
        self.take(name)
            .map(|text| read(&text).ok_or_else(|| ApiError::invalid(name, wrong)))
            .transpose()
    }

    /// Takes `limit` and `cursor`, and rejects all remaining parameters.
    pub(crate) fn paging(mut self) -> Result<Paging, ApiError> {
        let limit = self
            .read(
                "limit",
                |text| {
                    text.parse()
                        .ok()
                        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
                },
                "must be a whole number from 1 to 100",
            )?
            .unwrap_or(DEFAULT_LIMIT);
        let cursor = self.take("cursor");
        self.finish()?;
        Ok(Paging { limit, cursor })
    }

    /// Rejects parameters that have not been taken.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("unknown query parameter {}", echo(&name));
                Err(ApiError::invalid_of(
                    Code::UnknownField,
                    message,
                    short(&name),
                ))
            }
        }
    }
}

/// Formats a page as `{"<plural>":[…],"next_cursor":…}`.
pub(crate) fn page<T>(
    plural: &str,
    listed: Result<Listed<T>, Fault>,
    mut view: impl FnMut(T) -> Value,
) -> Result<axum::Json<Value>, ApiError> {
    match listed.map_err(ApiError::from)? {
        Listed::BadCursor => Err(ApiError::bad_cursor()),
        Listed::Page(page) => {
            let items: Vec<Value> = page.items.into_iter().map(&mut view).collect();
            Ok(axum::Json(
                json!({ plural: items, "next_cursor": page.next }),
            ))
        }
    }
}

/// Formats a page of a list in memory, in the order of the list. The cursor is the name of the last item of the
/// previous page.
pub(crate) fn named<'a, T>(
    plural: &str,
    items: &'a [T],
    name: impl Fn(&'a T) -> &'a str,
    view: impl Fn(&'a T) -> Value,
    paging: &Paging,
) -> Result<axum::Json<Value>, ApiError> {
    let from = match &paging.cursor {
        None => 0,
        Some(cursor) => {
            let last = items.iter().position(|item| name(item) == cursor);
            last.ok_or_else(ApiError::bad_cursor)? + 1
        }
    };
    let rest = items.get(from..).unwrap_or_default();
    let page = rest.get(..paging.limit).unwrap_or(rest);
    let next = page.last().filter(|_| page.len() < rest.len()).map(&name);
    let views: Vec<Value> = page.iter().map(view).collect();
    Ok(axum::Json(json!({ plural: views, "next_cursor": next })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_list_in_memory_hold_every_item_once() {
        let items = ["a", "b", "c"];
        let page = |limit, cursor: Option<&str>| {
            let paging = Paging {
                limit,
                cursor: cursor.map(str::to_owned),
            };
            named("items", &items, |item| item, |item| json!(item), &paging).map(|page| page.0)
        };
        let first = page(2, None).unwrap();
        assert_eq!(first, json!({ "items": ["a", "b"], "next_cursor": "b" }));
        let last = page(2, Some("b")).unwrap();
        assert_eq!(last, json!({ "items": ["c"], "next_cursor": null }));
        assert_eq!(page(3, None).unwrap()["next_cursor"], Value::Null);
        assert!(page(2, Some("x")).is_err());
    }

    #[test]
    fn unknown_and_repeated_parameters_and_bad_limits_are_refused() {
        let paging = |query: &str| Query::parse(Some(query)).and_then(Query::paging);
        assert_eq!(paging("").unwrap().limit, DEFAULT_LIMIT);
        assert_eq!(paging("limit=100&cursor=x").unwrap().limit, MAX_LIMIT);
        for wrong in [
            "limit=0",
            "limit=101",
            "limit=x",
            "limit=",
            "limit=1&limit=1",
            "page=2",
        ] {
            assert!(paging(wrong).is_err(), "{wrong}");
        }
    }
}
