//! A payment: its money, the decision that it waits for, and its story.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::Path;
use kassette_domain::id::PaymentId;
use serde_json::Value;

use super::names::{Endpoints, Merchants};
use super::node::{Node, masked, segment};
use super::timeline::{Day, Story};
use super::words::{delivery_state, payment_state, things};
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};
use crate::web::text::environment;

#[derive(Template)]
#[template(path = "console/payment.html")]
pub(super) struct Page {
    context: Context,
    /// The answer of the admin API.
    data: Value,
    /// Open work items about the payment.
    work: Vec<Value>,
    /// The payer's address, masked.
    email: String,
    merchants: Merchants,
    endpoints: Endpoints,
    /// Versions of modules by digest.
    versions: BTreeMap<String, String>,
    days: Vec<Day>,
}

/// `GET /console/payments/{id}`
pub(super) async fn show(
    context: Context,
    Path(id): Path<String>,
) -> Result<Html<Page>, ConsoleError> {
    let data = context.read(&format!("/payments/{}", segment(&id))).await?;
    let payment = context.node(&data).at("payment");
    let of_payment = environment(payment.at("environment").raw());
    context.must_be_in(of_payment.map_err(ConsoleError::internal)?)?;
    let created = segment(payment.at("created_at").raw());
    let acts = format!(
        "/audit?object=payment%2F{}&since={created}&limit=100",
        segment(&id)
    );
    let acts = context.read(&acts).await?;
    let work = format!("/work?limit=100&environment={}", context.environment_name());
    let mut work = context.read(&work).await?;
    let work = work["work"].as_array_mut().map(std::mem::take);
    let mut work = work.unwrap_or_default();
    work.retain(|item| item["payment_id"] == *id);
    let versions = versions(&context, &context.node(&data)).await?;
    let email = email(&context, &id).await?;
    let merchants = Merchants::of(&context, &[payment]).await?;
    let deliveries = context.node(&data).at("deliveries").list();
    let endpoints = Endpoints::of(&context, &deliveries).await?;
    let days = Story {
        payment: context.node(&data),
        acts: context.node(&acts),
        endpoints: &endpoints,
        versions: &versions,
    };
    let days = days.days();
    Ok(Html(Page {
        context,
        data,
        work,
        email,
        merchants,
        endpoints,
        versions,
        days,
    }))
}

/// The payer's address, masked; whether there was one.
async fn email(context: &Context, id: &str) -> Result<String, ConsoleError> {
    let Ok(id) = PaymentId::parse(id) else {
        return Ok(String::new());
    };
    let payment = context.gateway().store().payment(id).await;
    let payment = payment.map_err(ConsoleError::internal)?;
    Ok(match payment {
        Some(payment) => match (&payment.email, payment.email_mark) {
            (Some(email), _) => masked(email.expose()),
            (None, Some(_)) => "erased".to_owned(),
            (None, None) => "not given".to_owned(),
        },
        None => String::new(),
    })
}

/// Versions of the modules that decided about a payment, by digest. One that is not in its slot's history any more is
/// left out.
async fn versions(
    context: &Context,
    payment: &Node<'_>,
) -> Result<BTreeMap<String, String>, ConsoleError> {
    let mut slots: Vec<&str> = Vec::new();
    for list in ["decisions", "attempts"] {
        let items = payment.at(list).list();
        slots.extend(items.iter().map(|item| item.at("slot").raw()));
    }
    slots.sort_unstable();
    slots.dedup();
    let mut versions = BTreeMap::new();
    for slot in slots {
        let call = format!("/plugins/{}/history?limit=100", segment(slot));
        let history = match context.read(&call).await {
            Ok(history) => history,
            // A slot that no longer exists.
            Err(ConsoleError::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        for event in context.node(&history).at("history").list() {
            let digest = event.at("digest").raw().to_owned();
            versions.insert(digest, event.at("version").to_string());
        }
    }
    Ok(versions)
}

impl Page {
    fn path(&self, act: &str) -> String {
        let id = self.data["payment"]["payment_id"].as_str();
        let mut parts = vec!["payments", id.unwrap_or_default()];
        parts.extend(Some(act).filter(|act| !act.is_empty()));
        self.context.path_of(&parts)
    }

    /// Version of a module. Empty if it is unknown.
    fn version(&self, digest: &Node<'_>) -> &str {
        self.versions.get(digest.raw()).map_or("", String::as_str)
    }

    fn work(&self) -> Vec<Node<'_>> {
        self.work
            .iter()
            .map(|item| self.context.node(item))
            .collect()
    }

    /// The latest decision about an account.
    fn decision<'a>(&self, v: &Node<'a>) -> Option<Node<'a>> {
        let mut decisions = v.at("decisions").list();
        decisions.retain(|decision| decision.at("chosen").is_set());
        decisions.pop()
    }

    /// The provider's page about the payment, if it is reached over https, and the account's id.
    fn provider_page<'a>(&self, v: &Node<'a>) -> Option<(&'a str, Node<'a>)> {
        let attempts = v.at("attempts").list();
        let mut pages = attempts.iter().rev().filter_map(|attempt| {
            let url = attempt.at("provider_url").raw();
            let is_safe = url.starts_with("https://");
            is_safe.then(|| (url, attempt.at("provider_id")))
        });
        pages.next()
    }

    /// What an id of `despite` stands for.
    fn despite(&self, v: &Node<'_>, id: &Node<'_>) -> String {
        let refunds = v.at("refunds").list();
        let refund = refunds
            .iter()
            .find(|refund| refund.at("refund_id").is(id.raw()));
        let disputes = v.at("disputes").list();
        let dispute = disputes
            .iter()
            .find(|dispute| dispute.at("dispute_id").is(id.raw()));
        match (refund, dispute) {
            (Some(refund), _) => format!(
                "The refund of {} {} that is pending. It counts as gone, whatever its outcome.",
                refund.at("amount").amount(),
                refund.at("currency")
            ),
            (_, Some(dispute)) => format!(
                "The dispute of {} {}. The payer’s bank may still take this money.",
                dispute.at("amount").amount(),
                dispute.at("currency")
            ),
            (None, None) => format!("{id}"),
        }
    }

    /// The deliveries of an event.
    fn deliveries<'a>(&self, v: &Node<'a>, event: &Node<'_>) -> Vec<Node<'a>> {
        let mut deliveries = v.at("deliveries").list();
        deliveries.retain(|delivery| delivery.at("event_id").is(event.at("id").raw()));
        deliveries
    }

    /// The last answer to a delivery, and the next try.
    fn answer(&self, delivery: &Node<'_>) -> String {
        let attempts = delivery.at("attempts").list();
        let Some(last) = attempts.last() else {
            return "not tried yet".to_owned();
        };
        let answer = match last.at("error").is_set() {
            true => last.at("error").to_string(),
            false => format!("{} after {} ms", last.at("status"), last.at("duration_ms")),
        };
        match attempts.len() {
            1 => answer,
            tries => format!("{answer}, {}", things(tries, "try", "tries")),
        }
    }

    /// Number of deliveries that arrived, as a sentence.
    fn arrived(&self, v: &Node<'_>) -> String {
        let deliveries = v.at("deliveries").list();
        let arrived = deliveries
            .iter()
            .filter(|one| one.at("status").is("delivered"));
        format!(
            "{}, {} of {} arrived",
            things(v.at("events").list().len(), "event", "events"),
            arrived.count(),
            things(deliveries.len(), "delivery", "deliveries")
        )
    }

    /// Parts of the received money in thousandths of it: free, at risk, being refunded, returned.
    fn meter(&self, balance: &Node<'_>) -> Option<[(&'static str, i128, i128); 4]> {
        let minor = |name: &str| {
            let digits = balance.at(name).raw().replace('.', "");
            digits.parse::<i128>().unwrap_or_default().max(0)
        };
        let received = minor("received");
        if received == 0 {
            return None;
        }
        let [risk, leaving, gone] = ["at_risk", "committed", "returned"].map(minor);
        let free = (received - risk - leaving - gone).max(0);
        let mut begin = 0;
        Some(
            [
                ("free", free),
                ("risk", risk),
                ("leaving", leaving),
                ("gone", gone),
            ]
            .map(|(class, part)| {
                let width = (part * 1000 / received).min(1000 - begin);
                let from = begin;
                begin += width;
                (class, from, width)
            }),
        )
    }
}
