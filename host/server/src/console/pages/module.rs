//! A slot: its versions, its trial with the differences, its history.

use askama::Template;
use axum::extract::Path;
use serde_json::Value;

use super::node::{Node, count, percent, sentence};
use super::words;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/module.html")]
pub(super) struct Page {
    context: Context,
    name: String,
    /// Null if no module was ever offered for the slot.
    slot: Value,
    /// Null without a trial.
    diff: Value,
    history: Value,
    nodes: Value,
}

/// `GET /console/modules/{slot}`
pub(super) async fn show(
    context: Context,
    Path(name): Path<String>,
) -> Result<Html<Page>, ConsoleError> {
    let path = format!("/plugins/{}", super::node::segment(&name));
    let history = context.read(&format!("{path}/history?limit=100")).await?;
    let mut slots = context.read("/plugins?limit=100").await?;
    let slots = slots["plugins"].as_array_mut().map(std::mem::take);
    let mut slots = slots.into_iter().flatten();
    let slot = slots.find(|slot| slot["slot"] == *name).unwrap_or_default();
    let diff = match slot["candidate"].is_null() {
        true => Value::Null,
        false => context.read(&format!("{path}/diff")).await?,
    };
    let nodes = context.read("/nodes?limit=100").await?;
    Ok(Html(Page {
        context,
        name,
        slot,
        diff,
        history,
        nodes,
    }))
}

#[derive(Template)]
#[template(path = "console/diff.html")]
pub(super) struct DiffPage {
    context: Context,
    name: String,
    diff: Value,
}

/// `GET /console/modules/{slot}/diff`; `from` and `to` select the payments that would move between two accounts.
pub(super) async fn diff(
    context: Context,
    Path(name): Path<String>,
) -> Result<Html<DiffPage>, ConsoleError> {
    let path = format!("/plugins/{}/diff", super::node::segment(&name));
    let diff = context.read(&path).await?;
    Ok(Html(DiffPage {
        context,
        name,
        diff,
    }))
}

impl Page {
    /// Whether the serving version can be rolled back, or the trial ended.
    fn can_roll_back(&self, slot: &Node<'_>) -> bool {
        slot.at("candidate").is_set() || slot.at("previous").is_set()
    }

    /// Versions of the history that can be pinned, by their digests.
    fn is_pinnable(&self, slot: &Node<'_>, event: &Node<'_>) -> bool {
        let active = slot.at("active");
        let serves = active.is_set() && active.at("digest").is(event.at("digest").raw());
        !serves && event.at("digest").is_set()
    }

    /// What a candidate and the version that serves achieved: `211 of 227 (93.0 %)`.
    fn worked(&self, rate: &Node<'_>) -> String {
        let (all, failed) = (rate.at("payments").number(), rate.at("failed").number());
        let worked = all.saturating_sub(failed);
        match all {
            0 => "none yet".to_owned(),
            all => format!(
                "{} of {} ({})",
                count(worked),
                count(all),
                percent(worked, all)
            ),
        }
    }
}

impl DiffPage {
    /// The examples of changed payments that the address selects.
    fn examples(&self) -> Vec<Node<'_>> {
        let wanted = |node: &Node<'_>, name: &str| {
            let wanted = self.context.parameter(name);
            wanted.is_none_or(|wanted| node.at(name).is(wanted))
        };
        let mut examples = self.context.node(&self.diff).at("examples").list();
        examples.retain(|example| wanted(example, "from") && wanted(example, "to"));
        examples
    }
}
