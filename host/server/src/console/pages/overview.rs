//! The overview.

use askama::Template;

use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/overview.html")]
pub(super) struct Overview {
    context: Context,
}

/// `GET /console/`
pub(super) async fn show(context: Context) -> Result<Html<Overview>, ConsoleError> {
    Ok(Html(Overview { context }))
}
