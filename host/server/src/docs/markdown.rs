//! Markdown as HTML: headings that links can name, tables that become cards on a phone, code in boxes.

use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

/// A document as HTML.
#[derive(Default)]
pub(super) struct Article {
    /// Text of the first heading.
    pub(super) title: String,
    /// The paragraph after it, as HTML and as text.
    pub(super) lead_html: String,
    pub(super) lead: String,
    pub(super) html: String,
    /// Ids and texts of the headings of the second level.
    pub(super) contents: Vec<(String, String)>,
}

/// Converts a document. `target` returns the address for a relative link; a link without one becomes text.
pub(super) fn article(text: &str, target: impl Fn(&str) -> Option<String>) -> Article {
    let mut article = Article::default();
    let mut events = Parser::new_ext(text, Options::ENABLE_TABLES);
    let mut is_lead = true;
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let inner = inside(&mut events, &target);
                let words = words(&inner);
                if level == HeadingLevel::H1 {
                    article.title = words;
                    continue;
                }
                is_lead = false;
                article.heading(level, &inner, words);
            }
            Event::Start(Tag::Paragraph) if is_lead => {
                let inner = inside(&mut events, &target);
                article.lead = words(&inner);
                article.lead_html = to_html(inner);
                is_lead = false;
            }
            Event::Start(Tag::Table(_)) => table(&mut events, &target, &mut article.html),
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language,
                    CodeBlockKind::Indented => CowStr::from(""),
                };
                let text = words(&inside(&mut events, &target));
                article
                    .html
                    .push_str(&figure(caption(&language), "", &text));
            }
            event => {
                let mut part = vec![event];
                // Blocks inside of a list keep their place: the list is one part.
                if let [Event::Start(_)] = part.as_slice() {
                    part.extend(whole(&mut events));
                }
                html::push_html(&mut article.html, linked(part, &target).into_iter());
            }
        }
    }
    article
}

/// Converts a text of the OpenAPI document. A single paragraph becomes inline HTML.
pub(super) fn text(text: &str) -> String {
    let article = article(text, |_| None);
    match article.html.is_empty() {
        true => article.lead_html,
        false => format!("<p>{}</p>{}", article.lead_html, article.html),
    }
}

/// Escapes all characters with a meaning in HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
    html
}

/// A box with code. `state_html` is shown at the right of the caption.
pub(super) fn figure(caption: &str, state_html: &str, code: &str) -> String {
    format!(
        "<figure class=\"code\"><figcaption><b>{}</b>{state_html}</figcaption><pre tabindex=\"0\"><code>{}</code></pre></figure>\n",
        escaped(caption),
        escaped(code.trim_end())
    )
}

/// A link to a heading, shown next to it.
pub(super) fn anchor(id: &str, words: &str) -> String {
    let words = escaped(words);
    format!("<a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to “{words}”\">#</a>")
}

fn caption(language: &str) -> &'static str {
    match language {
        "sh" => "Shell",
        "json" => "JSON",
        "rust" => "Rust",
        "python" => "Python",
        "php" => "PHP",
        "js" => "JavaScript",
        _ => "Text",
    }
}

impl Article {
    fn heading(&mut self, level: HeadingLevel, inner: &[Event<'_>], words: String) {
        let id = id(&words);
        let anchor = anchor(&id, &words);
        let inner = to_html(inner.to_vec());
        self.html += &format!("<{level} id=\"{id}\">{inner}{anchor}</{level}>\n");
        if level == HeadingLevel::H2 {
            self.contents.push((id, words));
        }
    }
}

/// Id of a heading, the same as on GitHub.
fn id(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| match c {
        ' ' => '-',
        c => c.to_ascii_lowercase(),
    })
    .collect()
}

/// Events after the start of an element, up to and including its end.
fn whole<'t>(events: &mut impl Iterator<Item = Event<'t>>) -> Vec<Event<'t>> {
    let (mut found, mut depth) = (Vec::new(), 1);
    for event in events {
        match &event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        found.push(event);
        if depth == 0 {
            break;
        }
    }
    found
}

/// Events between the start of an element and its end.
fn inside<'t>(
    events: &mut impl Iterator<Item = Event<'t>>,
    target: &impl Fn(&str) -> Option<String>,
) -> Vec<Event<'t>> {
    let mut found = whole(events);
    found.pop();
    linked(found, target)
}

/// Replaces the targets of links, and code blocks inside of lists. Removes HTML, of which our documents contain only
/// comments.
fn linked<'t>(events: Vec<Event<'t>>, target: &impl Fn(&str) -> Option<String>) -> Vec<Event<'t>> {
    let mut found = Vec::with_capacity(events.len());
    let mut kept = Vec::new();
    let mut events = events.into_iter();
    while let Some(event) = events.next() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {}
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                let mut text = whole(&mut events);
                text.pop();
                let html = figure(caption(&language), "", &words(&text));
                found.push(Event::Html(html.into()));
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let is_whole = dest_url.starts_with('#') || dest_url.contains("://");
                let dest_url = match is_whole {
                    true => Some(dest_url),
                    false => target(&dest_url).map(CowStr::from),
                };
                kept.push(dest_url.is_some());
                found.extend(dest_url.map(|dest_url| {
                    Event::Start(Tag::Link {
                        link_type,
                        dest_url,
                        title,
                        id,
                    })
                }));
            }
            Event::End(TagEnd::Link) => {
                if kept.pop() == Some(true) {
                    found.push(event);
                }
            }
            event => found.push(event),
        }
    }
    found
}

fn to_html(events: Vec<Event<'_>>) -> String {
    let mut text = String::new();
    html::push_html(&mut text, events.into_iter());
    text
}

/// Text without markup.
fn words(events: &[Event<'_>]) -> String {
    let words = events.iter().map(|event| match event {
        Event::Text(text) | Event::Code(text) => text,
        Event::SoftBreak | Event::HardBreak => " ",
        _ => "",
    });
    words.collect()
}

/// A table whose rows become cards on a narrow screen. The roles keep it a table for screen readers.
fn table<'t>(
    events: &mut impl Iterator<Item = Event<'t>>,
    target: &impl Fn(&str) -> Option<String>,
    html: &mut String,
) {
    let mut labels: Vec<String> = Vec::new();
    let (mut column, mut in_head) = (0, false);
    html.push_str("<table class=\"list broad\" role=\"table\">");
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::TableHead) => in_head = true,
            Event::Start(Tag::TableRow) => {
                column = 0;
                html.push_str("<tr role=\"row\">");
            }
            Event::Start(Tag::TableCell) => {
                let inner = inside(events, target);
                let words = words(&inner);
                if in_head {
                    labels.push(words);
                    continue;
                }
                let inner = to_html(inner);
                let label = labels.get(column).map_or("", String::as_str);
                column += 1;
                *html += &match (column, label) {
                    (1, _) => format!("<th scope=\"row\" role=\"rowheader\">{inner}</th>"),
                    (_, "") => format!("<td role=\"cell\">{inner}</td>"),
                    (_, label) => {
                        let label = escaped(label);
                        format!("<td data-label=\"{label}\" role=\"cell\">{inner}</td>")
                    }
                };
            }
            Event::End(TagEnd::TableHead) => {
                in_head = false;
                html.push_str(&head(&labels));
                html.push_str("<tbody role=\"rowgroup\">");
            }
            Event::End(TagEnd::TableRow) => html.push_str("</tr>"),
            Event::End(TagEnd::Table) => break,
            _ => {}
        }
    }
    html.push_str("</tbody></table>\n");
}

/// Heads of columns. Empty if no column has one.
fn head(labels: &[String]) -> String {
    if labels.iter().all(String::is_empty) {
        return String::new();
    }
    let cells = labels.iter().map(|label| match label.as_str() {
        "" => "<td role=\"cell\"></td>".to_owned(),
        label => {
            let label = escaped(label);
            format!("<th scope=\"col\" role=\"columnheader\">{label}</th>")
        }
    });
    let cells: String = cells.collect();
    format!("<thead role=\"rowgroup\"><tr role=\"row\">{cells}</tr></thead>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_tables_code_and_links_become_html_and_comments_disappear() {
        let text = "# For `shops`\n\nSend `<b>` & go.\n\n<!-- not run: why -->\n\n```sh\na < b\n```\n\n\
            ## What we do\n\nSee [one](other.md#x), [two](../gone) and [three](#what-we-do).\n\n\
            | | When |\n|---|---|\n| `a` | now |\n";
        let made = article(text, |link| {
            link.strip_prefix("other.md")
                .map(|place| format!("/docs/other{place}"))
        });
        assert_eq!(made.title, "For shops");
        assert_eq!(made.lead_html, "Send <code>&lt;b&gt;</code> &amp; go.");
        assert_eq!(made.contents, [("what-we-do".into(), "What we do".into())]);
        for part in [
            "<figcaption><b>Shell</b></figcaption><pre tabindex=\"0\"><code>a &lt; b</code></pre>",
            "<h2 id=\"what-we-do\">What we do<a class=\"anchor\" href=\"#what-we-do\"",
            "<a href=\"/docs/other#x\">one</a>, two and <a href=\"#what-we-do\">three</a>",
            "<thead role=\"rowgroup\"><tr role=\"row\"><td role=\"cell\"></td><th scope=\"col\"",
            "<th scope=\"row\" role=\"rowheader\"><code>a</code></th><td data-label=\"When\" role=\"cell\">now</td>",
        ] {
            assert!(made.html.contains(part), "{part}: {}", made.html);
        }
        assert!(!made.html.contains("not run"), "{}", made.html);
        assert_eq!(super::text("One `line`."), "One <code>line</code>.");
    }
}
