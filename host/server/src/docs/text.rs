//! Converts the document's texts to HTML. Of Markdown, the document only uses paragraphs, tables and code.

use std::fmt::Write as _;

/// Escapes all characters with a meaning in HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

/// Converts a line. Text between backticks becomes code.
pub(super) fn line(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escaped(part);
        // Writing to a string cannot fail.
        let _ = match at % 2 {
            0 => write!(html, "{part}"),
            _ => write!(html, "<code>{part}</code>"),
        };
    }
    html
}

/// Converts paragraphs and tables. A single paragraph becomes a line.
pub(super) fn blocks(text: &str) -> String {
    if !text.contains("\n\n") {
        return line(text);
    }
    let blocks = text
        .split("\n\n")
        .map(|block| match block.starts_with('|') {
            true => table(block),
            false => format!("<p>{}</p>", line(block)),
        });
    blocks.collect()
}

fn table(block: &str) -> String {
    let cells = |row: &str, tag: &str| {
        let cells = row.trim_matches('|').split('|');
        let cells = cells.map(|cell| format!("<{tag}>{}", line(cell.trim())));
        format!("<tr>{}", cells.collect::<String>())
    };
    let mut rows = block.lines().filter(|row| !row.starts_with("|-"));
    let head = rows.next().map_or_else(String::new, |row| cells(row, "th"));
    let body: String = rows.map(|row| cells(row, "td")).collect();
    format!("<table>{head}{body}</table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_paragraphs_tables_and_code_and_never_markup() {
        let text = "Send `<b>` & go.\n\n| code | status |\n|---|---|\n| `not_found` | 404 |";
        let html = "<p>Send <code>&lt;b&gt;</code> &amp; go.</p>\
            <table><tr><th>code<th>status<tr><td><code>not_found</code><td>404</table>";
        assert_eq!(blocks(text), html);
        assert_eq!(blocks("One `line`."), "One <code>line</code>.");
    }
}
