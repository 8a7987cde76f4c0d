//! Resellers with their merchants and keys.

use askama::Template;
use serde_json::Value;

use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/resellers.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
    /// The reseller that the address names.
    chosen: Option<Chosen>,
}

/// A reseller with its lists.
struct Chosen {
    reseller: Value,
    delegations: Value,
    keys: Value,
}

/// `GET /console/resellers`; `reseller_id` shows one with its merchants and keys.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let query = context.query(&["limit", "cursor"]);
    let data = context.read(&format!("/resellers?{query}")).await?;
    let chosen = match context.parameter("reseller_id") {
        None => None,
        Some(id) => {
            let path = format!("/resellers/{}", super::node::segment(id));
            Some(Chosen {
                reseller: context.read(&path).await?,
                delegations: context
                    .read(&format!("{path}/delegations?limit=100"))
                    .await?,
                keys: context.read(&format!("{path}/keys?limit=100")).await?,
            })
        }
    };
    Ok(Html(Page {
        context,
        data,
        chosen,
    }))
}
