//! Answers as tables for people, or as they came for scripts.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::call::Shape;

/// The text that is printed, line end included.
pub(super) fn answer(shape: &Shape, answer: &Value, json: bool) -> String {
    if json {
        return match answer {
            Value::Null => String::new(),
            answer => format!("{answer:#}\n"),
        };
    }
    match shape {
        Shape::List(plural, columns) => list(answer, plural, columns),
        Shape::Object | Shape::Text => object(answer),
        Shape::Once => format!("{}Keep it now: it is not shown again.\n", object(answer)),
        Shape::Nothing(done) => format!("{done}\n"),
    }
}

/// Without characters that steer a terminal.
pub(super) fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn list(answer: &Value, plural: &str, columns: &[(&str, &str)]) -> String {
    let items = answer.get(plural).and_then(Value::as_array);
    let next = answer.get("next_cursor").and_then(Value::as_str);
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return match next {
            // The server looks at so many each time.
            Some(cursor) => format!(
                "No {plural} so far.\nThere may be more: --cursor {}\n",
                plain(cursor)
            ),
            None => format!("No {plural}.\n"),
        };
    };
    let mut table = table();
    table.set_header(columns.iter().map(|(title, _)| *title));
    for item in items {
        let cell = |pointer: &str| item.pointer(pointer).map_or_else(String::new, cell);
        table.add_row(columns.iter().map(|(_, pointer)| cell(pointer)));
    }
    match next {
        Some(cursor) => format!("{table}\nThere are more: --cursor {}\n", plain(cursor)),
        None => format!("{table}\n"),
    }
}

/// Simple fields in one table, each list of objects in a table of its own, or an object after another
/// where a table would be too wide to read.
fn object(value: &Value) -> String {
    let mut fields = Vec::new();
    let mut lists = Vec::new();
    flatten("", value, &mut fields, &mut lists);
    let mut first = table();
    for (name, text) in fields {
        first.add_row([name, text]);
    }
    let mut text = format!("{first}\n");
    for (name, items) in lists {
        if items.iter().any(is_wide) {
            for item in items {
                text.push_str(&format!("\n{name}\n{}", object(item)));
            }
        } else {
            text.push_str(&format!("\n{name}\n{}\n", objects(items)));
        }
    }
    text
}

/// Whether an object makes no row of a table: it has lists of its own, or more fields than a terminal has
/// room for.
fn is_wide(item: &Value) -> bool {
    const COLUMNS: usize = 8;
    let is_list = |value: &Value| {
        value
            .as_array()
            .is_some_and(|list| list.iter().any(Value::is_object))
    };
    item.as_object()
        .is_some_and(|fields| fields.len() > COLUMNS || fields.values().any(is_list))
}

fn flatten<'a>(
    name: &str,
    value: &'a Value,
    fields: &mut Vec<(String, String)>,
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
        value => fields.push((name.to_owned(), cell(value))),
    }
}

/// A table of objects: a column for every name that one of them has.
fn objects(items: &[Value]) -> Table {
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
    let mut table = table();
    table.set_header(names.iter().map(|name| plain(name)));
    for item in items {
        let cell = |name: &str| item.get(name).map_or_else(String::new, cell);
        table.add_row(names.iter().map(|name| cell(name)));
    }
    table
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

fn table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table
}
