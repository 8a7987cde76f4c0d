//! The list of merchants.

use askama::Template;
use serde_json::Value;

use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/merchants.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
}

/// `GET /console/merchants`
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let query = context.query(&["limit", "cursor"]);
    let data = context.read(&format!("/merchants?{query}")).await?;
    Ok(Html(Page { context, data }))
}
