//! Invariants of a payment in the admin API, no matter where requests were cut off.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

const STATUSES: [&str; 9] = [
    "created",
    "pending",
    "processing",
    "review",
    "verification_pending",
    "completed",
    "failed",
    "cancelled",
    "expired",
];

/// Statuses that may directly follow another (decisions, "Legal transitions").
fn follows(from: &str) -> &'static [&'static str] {
    match from {
        "created" => &["pending", "review", "expired", "cancelled"],
        "pending" => &[
            "created",
            "processing",
            "review",
            "verification_pending",
            "completed",
            "failed",
            "cancelled",
            "expired",
        ],
        "processing" => &["verification_pending", "review", "completed", "failed"],
        "verification_pending" => &["processing", "review", "completed", "failed"],
        "review" => &["completed", "failed"],
        "expired" | "failed" | "cancelled" => &["review"],
        _ => &[],
    }
}

/// Whether a payment may change from one status to another, with statuses in between.
fn leads_to(from: &str, to: &str) -> bool {
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(status) = reached.get(at).copied() {
        for next in follows(status) {
            if !reached.contains(next) {
                reached.push(next);
            }
        }
        at += 1;
    }
    reached.contains(&to)
}

/// Describes how a newer status or settlement status contradicts an older one. `None` if it does not.
pub(crate) fn went_back(before: &(String, String), now: &(String, String)) -> Option<String> {
    if !STATUSES.contains(&now.0.as_str()) || !leads_to(&before.0, &now.0) {
        return Some(format!("{} after {} was acknowledged", now.0, before.0));
    }
    (before.1 == "confirmed" && now.1 != "confirmed")
        .then(|| format!("settlement {} after confirmed was acknowledged", now.1))
}

/// Describes how a newer state of a refund contradicts an older one. `None` if it does not.
pub(crate) fn refund_went_back(before: &Value, now: &Value) -> Option<String> {
    let fixed = |refund: &Value| {
        [
            "refund_id",
            "payment_id",
            "amount",
            "currency",
            "created_at",
        ]
        .map(|name| refund[name].clone())
    };
    let rank = |refund: &Value| match refund["status"].as_str() {
        Some("pending") => 0,
        Some("succeeded") => 1,
        Some("failed") => 2,
        _ => -1,
    };
    let goes_on = rank(before) <= rank(now) && rank(before) >= 0;
    (fixed(before) != fixed(now) || !goes_on).then(|| format!("{now} after {before}"))
}

/// Minor units of an amount such as `10.00`.
pub(crate) fn cents(amount: &Value) -> u64 {
    let digits = amount.as_str().unwrap_or_default().replace('.', "");
    digits.parse().unwrap_or_default()
}

/// Asserts that the merchant's refunds that have not failed do not exceed the amount, and that succeeded ones have
/// events.
fn refunds(inside: &Value) -> Result<(), String> {
    let refunds = inside["refunds"].as_array().ok_or("no refunds")?;
    let ours = refunds
        .iter()
        .filter(|refund| refund["origin"] == "merchant");
    let alive = ours.clone().filter(|refund| refund["status"] != "failed");
    let sum: u64 = alive.map(|refund| cents(&refund["amount"])).sum();
    if sum > cents(&inside["payment"]["amount"]) {
        return Err(format!("{sum} cents are given back"));
    }
    let succeeded = ours
        .filter(|refund| refund["status"] == "succeeded")
        .count();
    let told = texts(&inside["events"], "type");
    let told = told
        .iter()
        .filter(|kind| **kind == "payment.refunded")
        .count();
    if told < succeeded {
        return Err(format!("{succeeded} refunds succeeded, {told} were told"));
    }
    Ok(())
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .map(|item| item[field].as_str().unwrap_or_default())
        .collect()
}

/// Whether money can still move on an attempt as the payment's own.
pub(crate) fn is_open(state: &str) -> bool {
    matches!(
        state,
        "open" | "unknown" | "capturing" | "processing" | "verification_pending" | "review"
    )
}

/// Asserts that payment, timeline, events and attempts are consistent: a change is recorded with all its effects,
/// or not at all.
pub(crate) fn whole(inside: &Value) -> Result<(), String> {
    let payment = &inside["payment"];
    let status = payment["status"].as_str().unwrap_or_default();
    let settlement = payment["settlement_status"].as_str().unwrap_or_default();
    let told = timeline(inside, status, settlement)?;
    events(inside, &told, settlement)?;
    refunds(inside)?;
    attempts(inside, status)
}

/// Asserts that legal moves lead from `created` to the status. Returns the events that these moves require.
fn timeline(inside: &Value, status: &str, settlement: &str) -> Result<Vec<String>, String> {
    let lines = inside["transitions"].as_array().ok_or("no transitions")?;
    let (mut at, mut owed) = ("created", Vec::new());
    for line in lines {
        let (from, to) = (
            line["from"].as_str().unwrap_or_default(),
            line["to"].as_str().unwrap_or_default(),
        );
        if from != at {
            return Err(format!("a line from {from} where the payment was {at}"));
        }
        if line["applied"] == true && from != to {
            if !follows(from).contains(&to) {
                return Err(format!("{from} became {to}"));
            }
            at = to;
            // Moves back to `created` have no event; `completed` has one with its settlement.
            if !matches!(to, "created" | "completed") {
                owed.push(format!("payment.{to}"));
            }
        }
    }
    if at != status {
        return Err(format!("{status}, but the timeline ends in {at}"));
    }
    let last = lines.last().map_or("pending", |line| {
        line["settlement"].as_str().unwrap_or_default()
    });
    if last != settlement {
        return Err(format!(
            "settlement {settlement}, but the timeline ends in {last}"
        ));
    }
    if settlement == "confirmed" && status != "completed" {
        return Err(format!("confirmed and {status}"));
    }
    Ok(owed)
}

/// Asserts that the events match the moves of the timeline.
fn events(inside: &Value, owed: &[String], settlement: &str) -> Result<(), String> {
    let told = texts(&inside["events"], "type");
    let completed = told.iter().filter(|kind| **kind == "payment.completed");
    if completed.count() != usize::from(settlement == "confirmed") {
        return Err(format!("settlement {settlement}, told {told:?}"));
    }
    // Other events are about money (a refund, a dispute) or about one attempt.
    let moves: Vec<&str> = told
        .iter()
        .copied()
        .filter(|kind| {
            let status = kind.strip_prefix("payment.").unwrap_or_default();
            status != "completed" && leads_to("created", status)
        })
        .collect();
    if moves != owed {
        return Err(format!("told {moves:?}, the timeline owes {owed:?}"));
    }
    let mut ids = texts(&inside["events"], "id");
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != told.len() {
        return Err("two events with one id".into());
    }
    Ok(())
}

fn attempts(inside: &Value, status: &str) -> Result<(), String> {
    let states = texts(&inside["attempts"], "state");
    let open = states.iter().filter(|state| is_open(state)).count();
    let captured = states.iter().filter(|state| **state == "captured").count();
    let fits = match status {
        "created" | "expired" | "cancelled" | "failed" => open == 0,
        "pending" | "processing" | "verification_pending" => open == 1,
        _ => open <= 1,
    };
    let by_operator = texts(&inside["transitions"], "cause")
        .iter()
        .any(|cause| cause.starts_with("operator"));
    let paid = status != "completed" || captured == 1 || by_operator;
    if fits && captured <= 1 && paid {
        Ok(())
    } else {
        Err(format!("{status} with attempts {states:?}"))
    }
}

/// Hash of a list's first items, to detect changes.
pub(crate) fn mark(list: &Value, first: usize) -> u64 {
    let mut hash = DefaultHasher::new();
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    for item in items.iter().take(first) {
        item.to_string().hash(&mut hash);
    }
    hash.finish()
}

pub(crate) fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}
