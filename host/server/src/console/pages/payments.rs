//! The list of payments, and the search in it.

use std::collections::HashSet;

use askama::Template;
use serde_json::Value;

use super::frame::link;
use super::names::Merchants;
use super::node::{Node, segment, sentence};
use super::words::payment_state;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

/// What a search can find, with examples.
const WAYS: [(&str, &str); 7] = [
    ("an order", "KR-20418"),
    ("a payer’s e-mail address, without any +…", ""),
    ("a provider’s reference", "pi_3QkT7fKw0"),
    (
        "an id of a payment, attempt, refund, dispute, event or delivery; its first 6 characters suffice",
        "",
    ),
    ("a reseller’s client_ref", ""),
    ("an amount with its currency", "80.00 EUR"),
    ("the last four digits of a card", ""),
];

#[derive(Template)]
#[template(path = "console/payments.html")]
pub(super) struct Page {
    context: Context,
    /// The text that was searched for.
    text: Option<String>,
    /// The answer of `find`, or of the list of payments.
    data: Value,
    merchants: Merchants,
}

/// `GET /console/payments`: with `q`, what it finds; a single exact hit leads to its payment. Without, the newest
/// payments.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let text = context.parameter("q").map(str::trim);
    let text = text.filter(|text| !text.is_empty()).map(str::to_owned);
    let (data, list) = match &text {
        Some(text) => {
            let environment = match context.named_environment {
                Some(_) => format!("&environment={}", context.environment_name()),
                None => String::new(),
            };
            let call = format!("/find?q={}{environment}", segment(text));
            (context.read(&call).await?, "found")
        }
        None => {
            let names = [
                "merchant_id",
                "status",
                "order_id",
                "provider_id",
                "since",
                "until",
                "environment",
                "limit",
                "cursor",
            ];
            let query = super::audit::days(&context.query(&names));
            let call = format!("/payments?{query}");
            (context.read(&call).await?, "payments")
        }
    };
    let items = context.node(&data).at(list).list();
    if text.is_some()
        && let Some(address) = only_hit(&items)
    {
        return Err(ConsoleError::SeeOther(address));
    }
    let merchants = Merchants::of(&context, &items).await?;
    Ok(Html(Page {
        context,
        text,
        data,
        merchants,
    }))
}

/// Address of the payment if everything that was found belongs to it, and was not found by the beginning of an id.
fn only_hit(found: &[Node<'_>]) -> Option<String> {
    let payments: HashSet<&str> = found.iter().map(|hit| hit.at("payment_id").raw()).collect();
    let exact = found.iter().all(|hit| !hit.at("found_by").is("id_prefix"));
    let hit = found.first()?;
    let is_only = payments.len() == 1 && exact && hit.at("payment_id").is_set();
    is_only.then(|| address_of(hit))
}

/// Address of an item's payment, in its own environment.
fn address_of(item: &Node<'_>) -> String {
    let path = format!("/console/payments/{}", item.at("payment_id").raw());
    link(&path, item.at("environment").raw())
}

impl Page {
    /// The payments found, or everything else that was found.
    fn found(&self, payments: bool) -> Vec<Node<'_>> {
        let mut found = self.context.node(&self.data).at("found").list();
        found.retain(|hit| hit.at("kind").is("payment") == payments);
        found
    }

    fn ways(&self) -> &'static [(&'static str, &'static str)] {
        &WAYS
    }
}
