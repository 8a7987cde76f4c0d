//! The pages and their order, the navigation, and all pages rendered.

use askama::Template;
use serde_json::Value;

use super::call::{self, Call, CallPage};
use super::codes;
use super::markdown::{self, Article};
use super::schema::{list, text};
use crate::pages::{DOCS_STYLE, ICON};

/// Address in the guides, replaced by the gateway's own.
const ADDRESS: &str = "http://localhost:8080";

/// A guide or a table, made from a file of config/.
struct Guide {
    section: &'static str,
    /// Path below `/docs`, and name of the file.
    name: &'static str,
    /// Title in the navigation.
    title: &'static str,
    text: &'static str,
}

macro_rules! guides {
    ($($section:literal $name:literal $title:literal;)+) => {
        &[$(Guide {
            section: $section,
            name: $name,
            title: $title,
            text: include_str!(concat!("../../../../config/", $name, ".md")),
        },)+]
    };
}

const GUIDES: &[Guide] = guides! {
    "Start" "first-payment" "First payment";
    "Shops" "payments" "From order to money";
    "Shops" "webhooks" "Webhooks";
    "Resellers" "resellers" "Resellers";
    "Plugins" "connect" "Connect a shop";
};

const TABLES: &[Guide] = guides! {
    "Look up" "statuses" "Statuses";
    "Look up" "events" "Event types";
    "Look up" "errors" "Errors";
    "Look up" "test-amounts" "Test amounts";
    "Look up" "changelog" "Changelog";
};

/// Guide to which the list of error codes is added.
const ERRORS: &str = "errors";

/// A link in the navigation.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) path: String,
    pub(super) title: String,
}

/// Pages in the navigation under one heading. Groups have a name and open.
pub(super) struct Section {
    pub(super) name: String,
    pub(super) links: Vec<Link>,
    pub(super) groups: Vec<Group>,
}

pub(super) struct Group {
    pub(super) name: String,
    pub(super) links: Vec<Link>,
}

/// All pages in the order in which they are read.
struct Site {
    sections: Vec<Section>,
}

/// What surrounds each page.
pub(super) struct Frame<'p> {
    pub(super) title: &'p str,
    pub(super) description: &'p str,
    /// Path below `/docs`.
    pub(super) path: &'p str,
    /// Section or group of the page.
    pub(super) trail: &'p str,
    pub(super) sections: &'p [Section],
    pub(super) previous: Option<&'p Link>,
    pub(super) next: Option<&'p Link>,
}

impl Frame<'_> {
    pub(super) fn style() -> &'static str {
        &DOCS_STYLE.path
    }

    pub(super) fn icon() -> &'static str {
        &ICON.path
    }

    pub(super) fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    pub(super) fn is_here(&self, link: &Link) -> bool {
        link.path == self.path
    }

    pub(super) fn is_in(&self, group: &Group) -> bool {
        group.links.iter().any(|link| self.is_here(link))
    }
}

impl Link {
    pub(super) fn address(&self) -> String {
        match self.path.as_str() {
            "" => "/docs".to_owned(),
            path => format!("/docs/{path}"),
        }
    }
}

#[derive(Template)]
#[template(path = "docs/overview.html")]
struct Overview<'p> {
    frame: Frame<'p>,
}

#[derive(Template)]
#[template(path = "docs/guide.html")]
struct GuidePage<'p> {
    frame: Frame<'p>,
    article: &'p Article,
    /// Whether the page lists codes, which are wide.
    has_codes: bool,
}

/// Path of a call's page below `/docs`.
pub(super) fn call_path(id: &str) -> String {
    let mut path = String::from("reference/");
    for letter in id.chars() {
        if letter.is_ascii_uppercase() {
            path.push('-');
        }
        path.push(letter.to_ascii_lowercase());
    }
    path
}

/// Paths below `/docs` with their pages. `origin` is the gateway's own address.
pub(super) fn pages(
    document: &Value,
    origin: &str,
) -> Vec<(String, Result<String, askama::Error>)> {
    let calls = call::all(document);
    let site = Site::new(document, &calls);
    let mut pages = Vec::new();
    let frame = site.frame("", "Documentation", OVERVIEW);
    pages.push((String::new(), Overview { frame }.render()));
    for guide in GUIDES.iter().chain(TABLES) {
        let text = guide.text.replace(ADDRESS, origin);
        let mut article = markdown::article(&text, address);
        let has_codes = guide.name == ERRORS;
        if has_codes {
            let (html, contents) = codes::list();
            article.html.push_str(&html);
            article.contents.extend(contents);
        }
        let page = GuidePage {
            frame: site.frame(guide.name, &article.title, &article.lead),
            article: &article,
            has_codes,
        };
        pages.push((guide.name.to_owned(), page.render()));
    }
    for call in &calls {
        let path = call_path(&call.id);
        let frame = site.frame(&path, &call.title, &call.summary);
        let page = CallPage { frame, call }.render();
        pages.push((path, page));
    }
    pages
}

/// Description of the first page.
const OVERVIEW: &str =
    "Take payments with Kassette: guides for shops, resellers and plugins, and all calls.";

/// Address of a page for a link in a guide. `None` for a file that is not a page.
fn address(link: &str) -> Option<String> {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let name = file.strip_suffix(".md")?;
    let mut guides = GUIDES.iter().chain(TABLES);
    guides.find(|guide| guide.name == name)?;
    let place = match place {
        "" => String::new(),
        place => format!("#{place}"),
    };
    Some(format!("/docs/{name}{place}"))
}

impl Site {
    fn new(document: &Value, calls: &[Call]) -> Self {
        let mut sections: Vec<Section> = Vec::new();
        let add = |sections: &mut Vec<Section>, guides: &[Guide]| {
            for guide in guides {
                let link = Link {
                    path: guide.name.to_owned(),
                    title: guide.title.to_owned(),
                };
                match sections.last_mut() {
                    Some(last) if last.name == guide.section => last.links.push(link),
                    _ => sections.push(Section {
                        name: guide.section.to_owned(),
                        links: vec![link],
                        groups: Vec::new(),
                    }),
                }
            }
        };
        add(&mut sections, GUIDES);
        if let Some(start) = sections.first_mut() {
            let overview = Link {
                path: String::new(),
                title: "Overview".to_owned(),
            };
            start.links.insert(0, overview);
        }
        let groups = list(&document["tags"]).iter().map(|tag| {
            let name = text(&tag["name"]);
            let calls = calls.iter().filter(|call| call.tag == name);
            let links = calls.map(|call| Link {
                path: call_path(&call.id),
                title: call.title.clone(),
            });
            let links = links.collect();
            Group { name, links }
        });
        sections.push(Section {
            name: "Reference".to_owned(),
            links: Vec::new(),
            groups: groups.collect(),
        });
        add(&mut sections, TABLES);
        Self { sections }
    }

    fn frame<'p>(&'p self, path: &'p str, title: &'p str, description: &'p str) -> Frame<'p> {
        let (mut trail, mut previous, mut next) = ("", None, None);
        let mut last: Option<&Link> = None;
        for section in &self.sections {
            let own = section.links.iter().map(|link| (&section.name, link));
            let groups = section.groups.iter();
            let grouped =
                groups.flat_map(|group| group.links.iter().map(|link| (&group.name, link)));
            for (name, link) in own.chain(grouped) {
                if link.path == path {
                    (trail, previous) = (name.as_str(), last);
                } else if last.is_some_and(|last| last.path == path) {
                    next = Some(link);
                }
                last = Some(link);
            }
        }
        Frame {
            title,
            description,
            path,
            trail,
            sections: &self.sections,
            previous,
            next,
        }
    }
}
