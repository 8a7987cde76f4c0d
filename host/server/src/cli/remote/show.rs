//! Responses as tables for people, or as JSON for scripts.

use serde_json::Value;

use super::call::{Beside, Columns, Shape};
use crate::cli::output::plain;
use crate::cli::table::{self, Fitted};

/// The output, including the line end.
pub(super) fn answer(shape: &Shape, answer: &Value, json: bool) -> String {
    if json {
        return format!("{answer:#}\n");
    }
    readable(shape, answer, table::width())
}

/// The output for people, for a terminal with `width` columns.
pub(super) fn readable(shape: &Shape, answer: &Value, width: u16) -> String {
    match shape {
        Shape::List(plural, columns) => list(answer, plural, columns, width),
        Shape::ListOfLists(plural, inner, columns) => {
            let items = answer.get(plural).and_then(Value::as_array);
            let rows_of = |item: &Value| {
                let below = item.get(inner).and_then(Value::as_array).cloned();
                std::iter::once(item.clone()).chain(below.unwrap_or_default())
            };
            let all: Vec<_> = items.into_iter().flatten().flat_map(rows_of).collect();
            rows(&all, columns, width)
        }
        Shape::ListBeside(plural, columns, beside) => format!(
            "{}{}",
            list(answer, plural, columns, width),
            aside(answer, beside, width)
        ),
        Shape::Object | Shape::Sums(_) | Shape::Diff | Shape::Text => object(answer, width),
        Shape::Once => format!(
            "{}Keep it now: it is not shown again.\n",
            object(answer, width)
        ),
        Shape::Nothing(done) => format!("{done}\n"),
    }
}

fn list(answer: &Value, plural: &str, columns: Columns, width: u16) -> String {
    let items = answer.get(plural).and_then(Value::as_array);
    let next = answer.get("next_cursor").and_then(Value::as_str);
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return match next {
            // The server reads a bounded number per call.
            Some(cursor) => format!(
                "No {plural} so far.\nThere may be more: --cursor {}\n",
                plain(cursor)
            ),
            None => format!("No {plural}.\n"),
        };
    };
    let text = rows(items, columns, width);
    match next {
        Some(cursor) => format!("{text}There are more: --cursor {}\n", plain(cursor)),
        None => text,
    }
}

/// The second list; empty on later pages.
fn aside(answer: &Value, beside: &Beside, width: u16) -> String {
    let what = beside.what;
    let Some(found) = answer.get(beside.field) else {
        return String::new();
    };
    if found.is_null() {
        return format!("\nThe {what} are still looked for.\n");
    }
    let count = found.get("count").and_then(Value::as_u64).unwrap_or(0);
    let items = found.get(beside.items).and_then(Value::as_array);
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return format!("\nNo {what}.\n");
    };
    let text = rows(items, beside.columns, width);
    let left = count.saturating_sub(items.len() as u64);
    let more = match left {
        0 => String::new(),
        left => format!("There are {left} more: {}\n", beside.all),
    };
    format!("\nThe {what}:\n{text}{more}")
}

/// A table of a list's items, with a note about omitted columns.
fn rows(items: &[Value], columns: Columns, width: u16) -> String {
    let titles = columns.iter().map(|(title, _)| (*title).to_owned());
    let rows = items.iter().map(|item| {
        let cell = |pointer: &str| item.pointer(pointer).map_or_else(String::new, cell);
        columns.iter().map(|(_, pointer)| cell(pointer)).collect()
    });
    table::fit(titles.collect(), rows.collect(), width).to_string()
}

/// Simple fields in one table, and a table for each list of objects. If a table would be too wide, its objects
/// follow one after another.
fn object(value: &Value, width: u16) -> String {
    let mut fields = Vec::new();
    let mut lists = Vec::new();
    flatten("", value, &mut fields, &mut lists);
    let mut text = table::pairs(&fields, width);
    for (name, items) in lists {
        let table = objects(items, width);
        if items.iter().any(holds_objects) || !table.is_whole() {
            for item in items {
                text.push_str(&format!("\n{name}\n{}", object(item, width)));
            }
        } else {
            text.push_str(&format!("\n{name}\n{table}"));
        }
    }
    text
}

/// Whether an object contains lists of objects, so that it cannot be a table row.
fn holds_objects(item: &Value) -> bool {
    let is_list = |value: &Value| {
        value
            .as_array()
            .is_some_and(|list| list.iter().any(Value::is_object))
    };
    item.as_object()
        .is_some_and(|fields| fields.values().any(is_list))
}

fn flatten<'a>(
    name: &str,
    value: &'a Value,
    fields: &mut Vec<[String; 2]>,
    lists: &mut Vec<(String, &'a [Value])>,
) {
    match value {
        Value::Object(object) => {
            for (inner, value) in object {
                let inner = plain(inner);
                let name = if name.is_empty() {
                    inner
                } else {
                    format!("{name}.{inner}")
                };
                flatten(&name, value, fields, lists);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            lists.push((name.to_owned(), items));
        }
        value => fields.push([name.to_owned(), cell(value)]),
    }
}

/// A table of objects: a column for every field name that occurs.
fn objects(items: &[Value], width: u16) -> Fitted {
    let mut names: Vec<&String> = Vec::new();
    for name in items
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|object| object.keys())
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rows = items.iter().map(|item| {
        let cell = |name: &str| item.get(name).map_or_else(String::new, cell);
        names.iter().map(|name| cell(name)).collect()
    });
    let titles = names.iter().map(|name| plain(name));
    table::fit(titles.collect(), rows.collect(), width)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Array(items) if !items.iter().any(Value::is_object) => {
            items.iter().map(cell).collect::<Vec<_>>().join(", ")
        }
        value => plain(&value.to_string()),
    }
}
