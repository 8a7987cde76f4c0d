//! The audit log, and its verification.

use askama::Template;
use serde_json::Value;

use super::node::{Node, neutral};
use super::words;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/audit.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
    /// The result of the verification, if it was asked for.
    verdict: Option<Value>,
}

/// `GET /console/audit`. Verifying reads the whole log, so it is done only if the address asks for it.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let names = [
        "action", "object", "operator", "since", "until", "limit", "cursor",
    ];
    let data = context
        .read(&format!("/audit?{}", days(&context.query(&names))))
        .await?;
    let is_asked = context.parameter("verify").is_some() || context.parameter("entry").is_some();
    let verdict = match is_asked {
        true => {
            let query = context.query(&["entry", "hash"]);
            Some(context.read(&format!("/audit/verify?{query}")).await?)
        }
        false => None,
    };
    Ok(Html(Page {
        context,
        data,
        verdict,
    }))
}

/// A query with the days of a form's date fields as times.
pub(super) fn days(query: &str) -> String {
    let mut times = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let is_day = value.len() == "2030-01-31".len() && (name == "since" || name == "until");
        match is_day {
            true => times.append_pair(&name, &format!("{value}T00:00:00Z")),
            false => times.append_pair(&name, &value),
        };
    }
    times.finish()
}

/// A field that an entry changed, with its values before and after. Empty texts for none.
struct Changed {
    name: String,
    before: String,
    after: String,
}

impl Page {
    /// The differences between an entry's two snapshots.
    fn changed(&self, entry: &Node<'_>) -> Vec<Changed> {
        let (before, after) = (entry.at("before"), entry.at("after"));
        let (old, new) = (before.fields(), after.fields());
        if old.is_empty() && new.is_empty() {
            let (before, after) = (before.to_string(), after.to_string());
            let name = "value".to_owned();
            let any = !before.is_empty() || !after.is_empty();
            return any
                .then_some(Changed {
                    name,
                    before,
                    after,
                })
                .into_iter()
                .collect();
        }
        let value = |fields: &[(std::borrow::Cow<'_, str>, Node<'_>)], name: &str| {
            let found = fields.iter().find(|(known, _)| known == name);
            found.map_or_else(String::new, |(_, value)| value.to_string())
        };
        let mut names: Vec<_> = old.iter().chain(&new).map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names.dedup();
        let changed = names.into_iter().map(|name| Changed {
            name: neutral(name).into_owned(),
            before: value(&old, name),
            after: value(&new, name),
        });
        changed.filter(|one| one.before != one.after).collect()
    }
}
