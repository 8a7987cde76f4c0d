//! The status of the gateway, as `kassette status` prints it.

use askama::Template;
use serde_json::{Value, json};

use super::frame::part_state;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/status.html")]
pub(super) struct Page {
    context: Context,
    nodes: Value,
}

/// `GET /console/status`
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let nodes = context.read("/nodes?limit=100").await?;
    Ok(Html(Page { context, nodes }))
}

impl Page {
    /// A time of the report, which is not a value of the API.
    fn since(&self, since: &Option<String>) -> Value {
        json!(since)
    }
}
