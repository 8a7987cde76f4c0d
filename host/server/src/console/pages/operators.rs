//! Operators and their roles.

use askama::Template;
use serde_json::Value;

use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/operators.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
}

/// `GET /console/operators`
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let query = context.query(&["limit", "cursor"]);
    let data = context.read(&format!("/operators?{query}")).await?;
    Ok(Html(Page { context, data }))
}
