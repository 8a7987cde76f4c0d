//! The audit log.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use kassette_domain::audit::AuditEntry;
use kassette_domain::time::Time;
use kassette_store::{Fault, Listed, Page, Paging, Store};
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use super::download::{self, Format, Pages};
use crate::web::ApiError;
use crate::web::query::{Query, page};
use crate::web::time::{INSTANT, instant};

/// Maximum number of entries that one call reads.
const LOOKED_MOST: usize = 2000;
/// After this many consecutive entries from before a time, no later entry is assumed to be from after it.
/// (Times may be out of order, because the clock can be set back.)
const OLDER_IN_A_ROW: usize = 100;
/// Number of entries that an export reads at once.
const AT_ONCE: usize = 100;
/// The header of an export.
const HEADER: [&str; 12] = [
    "id",
    "at",
    "operator",
    "operator_id",
    "actor",
    "reason",
    "action",
    "object",
    "before",
    "after",
    "prev_hash",
    "hash",
];

/// `GET /audit`: a page may be shorter than its limit and still have a next page.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let filter = Filter::parse(&mut query)?;
    let paging = query.paging()?;
    let found = filter.find(state.gateway.store().as_ref(), paging).await;
    page("entries", found, |entry| view(&entry))
}

/// `GET /audit/export`: all matching entries, newest first.
pub(super) async fn export(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let filter = Filter::parse(&mut query)?;
    let format = Format::parse(&mut query)?;
    query.finish()?;
    let pages = Lines {
        store: Arc::clone(state.gateway.store()),
        filter,
        format,
    };
    download::answer(format, HEADER, pages).await
}

/// Filter for entries; all given conditions must hold.
struct Filter {
    /// A whole action, or only its noun.
    action: Option<String>,
    /// A whole object, or only its kind.
    object: Option<String>,
    /// An operator's name or id.
    operator: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
}

impl Filter {
    fn parse(query: &mut Query) -> Result<Self, ApiError> {
        Ok(Self {
            action: query.take("action"),
            object: query.take("object"),
            operator: query.take("operator"),
            since: query.read("since", instant, INSTANT)?,
            until: query.read("until", instant, INSTANT)?,
        })
    }

    fn matches(&self, entry: &AuditEntry) -> bool {
        let line = &entry.audited;
        let begins = |said: &Option<String>, text: &str, end: char| {
            said.as_ref().is_none_or(|said| {
                let rest = text.strip_prefix(said.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(end))
            })
        };
        let is_operator = |said: &String| {
            let id = line.operator_id.map(|id| id.to_string());
            said.to_lowercase() == line.operator.to_lowercase() || id.as_ref() == Some(said)
        };
        begins(&self.action, &line.action, '.')
            && begins(&self.object, &line.object, '/')
            && self.operator.as_ref().is_none_or(is_operator)
            && self.since.is_none_or(|since| since <= entry.at)
            && self.until.is_none_or(|until| entry.at < until)
    }

    /// The next matching entries, among a bounded number of entries read.
    async fn find(
        &self,
        store: &dyn Store,
        Paging { limit, mut cursor }: Paging,
    ) -> Result<Listed<AuditEntry>, Fault> {
        let mut items = Vec::new();
        let (mut looked, mut older) = (0, 0);
        loop {
            let rest = limit.saturating_sub(items.len());
            let paging = Paging {
                limit: rest,
                cursor,
            };
            let page = match store.audit_log(paging).await? {
                Listed::Page(page) => page,
                Listed::BadCursor => return Ok(Listed::BadCursor),
            };
            for entry in page.items {
                looked += 1;
                let is_older = self.since.is_some_and(|since| entry.at < since);
                older = if is_older { older + 1 } else { 0 };
                if self.matches(&entry) {
                    items.push(entry);
                }
            }
            let next = page.next.filter(|_| older < OLDER_IN_A_ROW);
            if next.is_none() || items.len() >= limit || looked >= LOOKED_MOST {
                return Ok(Listed::Page(Page { items, next }));
            }
            cursor = next;
        }
    }
}

/// The entries of an export.
struct Lines {
    store: Arc<dyn Store>,
    filter: Filter,
    format: Format,
}

impl Pages for Lines {
    type Item = AuditEntry;

    async fn page(&self, cursor: Option<String>) -> Result<Listed<AuditEntry>, Fault> {
        let limit = AT_ONCE;
        let paging = Paging { limit, cursor };
        self.filter.find(self.store.as_ref(), paging).await
    }

    async fn lines(&self, text: &mut String, entry: AuditEntry) -> Result<(), Fault> {
        line(text, self.format, &entry);
        Ok(())
    }
}

fn line(text: &mut String, format: Format, entry: &AuditEntry) {
    if format == Format::JsonLines {
        return download::object(text, &view(entry));
    }
    let line = &entry.audited;
    let operator = line.operator_id.map(|id| id.to_string());
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    let fields = [
        entry.id.to_string(),
        entry.at.rfc3339(),
        line.operator.clone(),
        said(&operator),
        line.actor.clone(),
        said(&line.reason),
        line.action.clone(),
        line.object.clone(),
        said(&line.before),
        said(&line.after),
        hex::encode(entry.prev_hash),
        hex::encode(entry.hash),
    ];
    format.line(text, HEADER, fields.each_ref().map(String::as_str));
}

fn view(entry: &AuditEntry) -> Value {
    // Snapshots are stored as the hashed text; readers get them as JSON.
    let snapshot = |text: &Option<String>| {
        text.as_deref()
            .map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
    };
    json!({
        "id": entry.id,
        "at": entry.at.rfc3339(),
        "operator": entry.audited.operator,
        "operator_id": entry.audited.operator_id.map(|id| id.to_string()),
        "actor": entry.audited.actor,
        "reason": entry.audited.reason,
        "action": entry.audited.action,
        "object": entry.audited.object,
        "before": snapshot(&entry.audited.before),
        "after": snapshot(&entry.audited.after),
        "prev_hash": hex::encode(entry.prev_hash),
        "hash": hex::encode(entry.hash),
    })
}
