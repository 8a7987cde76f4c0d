//! One decision about several items of the inbox: `POST /console/work/several`.

use askama::Template;
use axum::response::IntoResponse as _;
use http::Method;
use serde_json::{Value, json};

use super::confirm::{self, Question};
use super::context::Context;
use super::form::CONFIRMED;
use super::reply::{ConsoleError, Html, see_other};
use super::sent::{Outcome, Sent, invalid};

/// Path of the form below `/console`.
pub(super) const PATH: &str = "/work/several";
/// Maximum number of items.
const MAX_ITEMS: usize = 100;

/// An item that the decision is about.
struct Item {
    id: String,
    /// Kind of the item, and its order.
    name: String,
    amount: String,
    /// The call that carries out the decision, or why it is left out.
    call: Result<(String, Value), String>,
}

#[derive(Template)]
#[template(path = "console/several.html")]
struct SeveralPage {
    context: Context,
    done: usize,
    /// Items that were left out or refused, with the reason.
    left: Vec<(String, String)>,
}

/// Asks for all items at once, then makes a call for each. Items that need a decision of their own are left out
/// by name.
pub(super) async fn act(sent: &Sent) -> Result<Outcome, ConsoleError> {
    let action = sent.form.get("action").unwrap_or_default();
    if !["approve", "refund", "done"].contains(&action) {
        return Err(invalid("action", "action: must be approve, refund or done"));
    }
    let mut ids = sent.form.all("item");
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() || ids.len() > MAX_ITEMS {
        let why = format!("item: choose 1 to {MAX_ITEMS} items");
        return Err(invalid("item", &why));
    }
    let open = sent.read("/work?reviews=true&limit=100").await?;
    let mut items = Vec::new();
    for id in ids {
        items.push(item(sent, action, id, &open).await?);
    }
    let chosen = items.iter().filter(|item| item.call.is_ok()).count();
    let back = format!("/console/work?environment={}", sent.environment);
    let body = json!([
        action,
        items.iter().map(|item| &item.id).collect::<Vec<_>>()
    ]);
    let verb = match action {
        "approve" => "Approve",
        "refund" => "Refund",
        _ => "Close",
    };
    let question = Question {
        title: format!("{verb} {chosen} items?"),
        claims: vec![format!(
            "{chosen} of {} items are changed, each as if it were decided alone.",
            items.len()
        )],
        rows: items
            .iter()
            .map(|item| {
                let then = match &item.call {
                    Ok(_) => verb.to_owned(),
                    Err(why) => format!("Left out: {why}"),
                };
                [item.name.clone(), item.amount.clone(), then]
            })
            .collect(),
        button: format!("{verb} {chosen} items"),
        keep: "Change nothing".into(),
        back: back.clone(),
    };
    if let Some(asked) = confirm::ask_unless_answered(sent, question, &body).await? {
        return Ok(Outcome::Response(asked));
    }
    let (mut done, mut left) = (0, Vec::new());
    for item in items {
        let outcome = match item.call {
            Ok((path, body)) => sent.call(Method::POST, &path, body).await.map(drop),
            Err(why) => Err(ConsoleError::invalid(why)),
        };
        match outcome {
            Ok(()) => done += 1,
            Err(ConsoleError::Refused(refusal)) => left.push((item.name, refusal.message)),
            Err(error) => return Err(error),
        }
    }
    if left.is_empty() {
        return Ok(Outcome::Response(see_other(&back)));
    }
    let context = sent.context(&back).await?;
    let page = SeveralPage {
        context,
        done,
        left,
    };
    Ok(Outcome::Response(Html(page).into_response()))
}

async fn item(sent: &Sent, action: &str, id: &str, open: &Value) -> Result<Item, ConsoleError> {
    let mut listed = open["work"].as_array().into_iter().flatten();
    let found = listed.find(|item| item["id"] == id);
    let Some(found) = found else {
        return Ok(Item {
            id: id.to_owned(),
            name: id.to_owned(),
            amount: String::new(),
            call: Err("it is not open any more".into()),
        });
    };
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    let actions = found["actions"].as_array();
    let is_possible = actions.is_some_and(|actions| actions.iter().any(|known| known == action));
    let call = match action {
        _ if !is_possible => Err(format!("it cannot be decided with “{action}”")),
        "approve" => {
            let path = format!("/payments/{id}");
            let payment = sent.read(&path).await?;
            let approve = &payment["possible"]["approve"];
            let despite = approve["despite"]
                .as_array()
                .is_some_and(|ids| !ids.is_empty());
            match (
                approve.is_null(),
                approve["needs_accept"] == json!(true),
                despite,
            ) {
                (true, _, _) => Err("no money is there".into()),
                (_, true, _) => Err("the amount is not the invoice’s".into()),
                (_, _, true) => Err("a refund or dispute is open".into()),
                _ => Ok((format!("{path}/review"), json!({ "decision": "approve" }))),
            }
        }
        "refund" => {
            // The answer is new for each question, and the same when the form is sent twice.
            let key = sent.form.get(CONFIRMED).unwrap_or_default();
            let body = json!({ "idempotency_key": format!("{key}-{id}") });
            Ok((format!("/work/{id}/refund"), body))
        }
        _ => Ok((format!("/work/{id}/done"), json!({}))),
    };
    Ok(Item {
        id: id.to_owned(),
        name: format!("{}, order {}", text("kind"), text("order_id")),
        amount: format!("{} {}", text("amount"), text("currency")),
        call,
    })
}
