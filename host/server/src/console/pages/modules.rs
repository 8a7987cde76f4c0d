//! The slots and the modules that serve in them.

use askama::Template;
use serde_json::Value;

use super::node::Node;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/modules.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
}

/// `GET /console/modules`; `slot` leads to that slot, so that a new one can be reached.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    if let Some(slot) = context.parameter("slot").filter(|slot| !slot.is_empty()) {
        let path = context.path_of(&["modules", slot]);
        return Err(ConsoleError::SeeOther(context.link(path)));
    }
    let data = context.read("/plugins?limit=100").await?;
    Ok(Html(Page { context, data }))
}

impl Page {
    /// The slots in which something is going on, or all others.
    fn slots(&self, busy: bool) -> Vec<Node<'_>> {
        let mut slots = self.context.node(&self.data).at("plugins").list();
        slots.retain(|slot| is_busy(slot) == busy);
        slots
    }
}

/// Whether a slot has a trial, a version set aside, or serves nothing.
fn is_busy(slot: &Node<'_>) -> bool {
    slot.at("candidate").is_set()
        || !slot.at("state").is("serving")
        || slot.at("last_error").is_set()
}
