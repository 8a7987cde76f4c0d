//! The inbox: payments in review and work items, which a person must decide.

use std::collections::HashSet;

use askama::Template;
use kassette_domain::id::PaymentId;
use kassette_domain::payment::DecisionState;
use serde_json::Value;

use super::names::Merchants;
use super::node::Node;
use super::words;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

/// Kind of items for payments in review.
const REVIEW: &str = "review";

#[derive(Template)]
#[template(path = "console/work.html")]
pub(super) struct Page {
    context: Context,
    data: Value,
    closed: Value,
    merchants: Merchants,
    /// Payments whose review is decided and waits for the provider.
    decided: HashSet<String>,
}

/// `GET /console/work`: `kind` is `review`, `money` (everything else), or a kind of work item.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let environment = context.environment_name();
    let kind = match context.parameter("kind") {
        None | Some("" | "money") => String::new(),
        Some(kind) => format!("&kind={}", super::node::segment(kind)),
    };
    let reviews = context.parameter("kind") != Some("money");
    let cursor = context.query(&["cursor"]);
    let open =
        format!("/work?limit=100&environment={environment}&reviews={reviews}{kind}&{cursor}");
    let data = context.read(&open).await?;
    let closed = format!("/work?limit=100&environment={environment}&done=true&reviews=true{kind}");
    let mut closed = context.read(&closed).await?;
    if let Some(items) = closed["work"].as_array_mut() {
        items.retain(|item| !item["done_at"].is_null());
        items.sort_by(|one, other| other["done_at"].as_str().cmp(&one["done_at"].as_str()));
    }
    let items = context.node(&data).at("work").list();
    let decided = decided(&context, &items).await?;
    let all = [items, context.node(&closed).at("work").list()].concat();
    let merchants = Merchants::of(&context, &all).await?;
    Ok(Html(Page {
        context,
        data,
        closed,
        merchants,
        decided,
    }))
}

/// The payments among these reviews whose decision waits for the provider.
async fn decided(context: &Context, items: &[Node<'_>]) -> Result<HashSet<String>, ConsoleError> {
    let mut decided = HashSet::new();
    for item in items.iter().filter(|item| item.at("kind").is(REVIEW)) {
        let text = item.at("payment_id").raw();
        let Ok(id) = PaymentId::parse(text) else {
            continue;
        };
        let payment = context.gateway().store().payment(id).await;
        let payment = payment.map_err(ConsoleError::internal)?;
        let decision = payment
            .as_ref()
            .and_then(|payment| payment.decision.as_ref());
        if decision.is_some_and(|decision| decision.state == DecisionState::Waiting) {
            decided.insert(text.to_owned());
        }
    }
    Ok(decided)
}

/// Items with the same task.
struct Group<'a> {
    title: &'static str,
    items: Vec<Node<'a>>,
}

impl Page {
    /// The open items by task. An authorization that ends soon is part of its payment's review, which has the
    /// same deadline.
    fn groups(&self) -> Vec<Group<'_>> {
        let open = self.open();
        let mut groups = [
            "Answer before a deadline",
            "Decide a review",
            "Return money",
            "Check",
        ]
        .map(|title| Group {
            title,
            items: Vec::new(),
        });
        let [deadlines, reviews, money, rest] = &mut groups;
        for item in open {
            let group = match item.at("kind").raw() {
                _ if item.at("deadline").is_set() => &mut *deadlines,
                REVIEW => &mut *reviews,
                "surplus" | "late" | "excess" | "refund" => &mut *money,
                _ => &mut *rest,
            };
            group.items.push(item);
        }
        deadlines
            .items
            .sort_by_key(|item| item.at("deadline").raw());
        let filled = groups.into_iter().filter(|group| !group.items.is_empty());
        filled.collect()
    }

    /// All open items that nobody has decided.
    fn open(&self) -> Vec<Node<'_>> {
        let items = self.items();
        let reviews: HashSet<&str> = items
            .iter()
            .filter(|item| item.at("kind").is(REVIEW))
            .map(|item| item.at("payment_id").raw())
            .collect();
        let is_separate = |item: &Node<'_>| {
            let is_part = item.at("kind").is("authorization")
                && reviews.contains(item.at("payment_id").raw());
            !is_part && !self.is_decided(item)
        };
        items.into_iter().filter(is_separate).collect()
    }

    /// Reviews that wait for the provider.
    fn waiting(&self) -> Vec<Node<'_>> {
        let mut items = self.items();
        items.retain(|item| self.is_decided(item));
        items
    }

    fn items(&self) -> Vec<Node<'_>> {
        self.context.node(&self.data).at("work").list()
    }

    fn is_decided(&self, item: &Node<'_>) -> bool {
        item.at("kind").is(REVIEW) && self.decided.contains(item.at("payment_id").raw())
    }

    /// Whether an item allows an action.
    fn can(&self, item: &Node<'_>, action: &str) -> bool {
        let mut actions = item.at("actions").list().into_iter();
        self.context.may("operator") && actions.any(|one| one.is(action))
    }

    /// Number of open items, and the next deadline.
    fn lead(&self) -> String {
        match self.open().len() {
            0 => "Nothing waits for a person.".to_owned(),
            number => format!(
                "{} for a person. An item closes itself when its money has moved.",
                words::things(number, "item waits", "items wait")
            ),
        }
    }
}
