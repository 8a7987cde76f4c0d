//! The list of error codes by status, with what to do about each.

use http::StatusCode;

use super::markdown::{anchor, escaped};
use crate::web::code::Code;

/// The list as HTML, and the ids and texts of its headings.
pub(super) fn list() -> (String, Vec<(String, String)>) {
    let (mut html, mut contents) = (String::new(), Vec::new());
    let mut last = None;
    for (code, status, meaning, action) in Code::list() {
        if last != Some(status) {
            if last.is_some() {
                html.push_str("</dl>");
            }
            last = Some(status);
            let status = status.to_string();
            let reason = StatusCode::from_bytes(status.as_bytes()).ok();
            let reason = reason.and_then(|known| known.canonical_reason());
            let heading = format!("{status} {}", reason.unwrap_or_default());
            let link = anchor(&status, &heading);
            html += &format!("<h2 id=\"{status}\">{heading}{link}</h2>\n<dl class=\"fields\">\n");
            contents.push((status, heading));
        }
        let link = anchor(&code, &code);
        html += &format!(
            "<div id=\"{code}\"><dt><code>{}</code>{link}</dt><dd><p>{}</p><p class=\"limit\">{}</p></dd></div>\n",
            code.replace('_', "_<wbr>"),
            inline(meaning),
            inline(action)
        );
    }
    html.push_str("</dl>");
    (html, contents)
}

/// Escapes a line. Text between backticks becomes code.
fn inline(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    parts.collect()
}
