//! Parser for the Markdown that our documents use: headings, fenced blocks, comments, code spans, links.

use std::path::{Path, PathBuf};

/// Folders with documents, in addition to README.md.
const FOLDERS: [&str; 6] = ["config", "wit", "plugins", "providers", "host", "tests"];
/// A copy of wit/, which another test compares with the original.
const COPY: &str = "plugins/sdk/wit";

pub(super) fn root() -> PathBuf {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    server.ancestors().nth(2).unwrap().to_owned()
}

#[derive(Debug)]
pub(super) struct Block {
    /// Start of the block, for messages: `config/README.md:12`.
    pub(super) at: String,
    pub(super) language: String,
    pub(super) text: String,
    /// Text of the comment directly before the block.
    pub(super) mark: Option<String>,
}

#[derive(Debug)]
pub(super) struct Span {
    pub(super) at: String,
    pub(super) text: String,
}

#[derive(Debug, Default)]
pub(super) struct Document {
    /// Path in the repository.
    pub(super) name: String,
    /// All text except code blocks.
    pub(super) prose: String,
    pub(super) blocks: Vec<Block>,
    pub(super) spans: Vec<Span>,
    /// Targets and locations of links.
    pub(super) links: Vec<Span>,
    /// Names of the headings in links.
    pub(super) anchors: Vec<String>,
}

pub(super) fn documents() -> Vec<Document> {
    let mut names = vec!["README.md".to_owned()];
    let mut folders: Vec<String> = FOLDERS.map(str::to_owned).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{folder}/{name}");
            let is_ours = path != COPY && !["node_modules", "target"].contains(&name.as_str());
            if entry.file_type().unwrap().is_dir() && is_ours {
                folders.push(path);
            } else if name.ends_with(".md") {
                names.push(path);
            }
        }
    }
    names.sort();
    names.iter().map(|name| Document::read(name)).collect()
}

impl Document {
    fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        Self::parse(name, &text)
    }

    pub(super) fn parse(name: &str, text: &str) -> Self {
        let mut document = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let mut lines = text.lines().enumerate();
        // Lines of a paragraph: a code span may continue on the next line.
        let (mut paragraph, mut begins) = (String::new(), 1);
        let mut mark = None;
        while let Some((number, line)) = lines.next() {
            let trimmed = line.trim_start();
            if let Some(language) = trimmed.strip_prefix("```") {
                document.take(&std::mem::take(&mut paragraph), begins);
                let indent = line.len() - trimmed.len();
                let body = lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| line.trim() != "```");
                let body: Vec<&str> = body
                    .map(|line| line.get(indent..).unwrap_or_default())
                    .collect();
                document.blocks.push(Block {
                    at: format!("{name}:{}", number + 1),
                    language: language.trim().to_owned(),
                    text: body.join("\n") + "\n",
                    mark: mark.take(),
                });
                continue;
            }
            if trimmed.is_empty() {
                document.take(&std::mem::take(&mut paragraph), begins);
                continue;
            }
            let comment = trimmed
                .strip_prefix("<!--")
                .and_then(|rest| rest.strip_suffix("-->"));
            mark = comment.map(|said| said.trim().to_owned());
            if comment.is_some() {
                continue;
            }
            if let Some(heading) = trimmed.strip_prefix('#') {
                let heading = heading.trim_start_matches('#').trim();
                document.anchors.push(anchor(heading));
            }
            if paragraph.is_empty() {
                begins = number + 1;
            }
            paragraph.push_str(line);
            paragraph.push('\n');
        }
        document.take(&paragraph, begins);
        document
    }

    /// Collects the code spans and links of a paragraph.
    fn take(&mut self, paragraph: &str, begins: usize) {
        self.prose.push_str(paragraph);
        self.prose.push('\n');
        let at = |place: usize| {
            let line = begins + paragraph[..place].matches('\n').count();
            format!("{}:{line}", self.name)
        };
        let (mut place, mut outside) = (0, String::new());
        while let Some(found) = paragraph[place..].find('`') {
            let opens = place + found;
            outside.push_str(&paragraph[place..opens]);
            let rest = &paragraph[opens..];
            let ticks = &rest[..rest.len() - rest.trim_start_matches('`').len()];
            let begins = opens + ticks.len();
            let inside = paragraph[begins..].find(ticks);
            let inside = inside.unwrap_or_else(|| panic!("{}: code without an end", at(opens)));
            self.spans.push(Span {
                at: at(opens),
                text: paragraph[begins..begins + inside].replace('\n', " "),
            });
            outside.push_str("code");
            place = begins + inside + ticks.len();
        }
        outside.push_str(&paragraph[place..]);
        let targets = outside.split("](").skip(1);
        let at = at(0);
        self.links.extend(targets.map(|rest| Span {
            at: at.clone(),
            text: rest.split(')').next().unwrap_or_default().to_owned(),
        }));
    }
}

/// Name of a heading in links on GitHub.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| match c {
        ' ' => '-',
        c => c.to_ascii_lowercase(),
    })
    .collect()
}

#[test]
fn code_comments_and_links_are_found_where_they_stand() {
    let text = "# A `b` (c)!\n\nSee [`d`](e.md#f) and `g\nh`.\n\n<!-- not run: why -->\n\n  ```sh\n  i\n    j\n  ```\n```text\nk\n```\n";
    let document = Document::parse("x.md", text);
    assert_eq!(document.anchors, ["a-b-c"]);
    let spans: Vec<(&str, &str)> = document
        .spans
        .iter()
        .map(|span| (&*span.at, &*span.text))
        .collect();
    assert_eq!(spans, [("x.md:1", "b"), ("x.md:3", "d"), ("x.md:3", "g h")]);
    assert_eq!(document.links[0].text, "e.md#f");
    let blocks = &document.blocks;
    assert_eq!(blocks[0].at, "x.md:8");
    assert_eq!(blocks[0].text, "i\n  j\n");
    assert_eq!(blocks[0].mark.as_deref(), Some("not run: why"));
    assert_eq!((&*blocks[1].language, &blocks[1].mark), ("text", &None));
}
