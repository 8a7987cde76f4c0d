//! The end of a run: nothing changes any more, and gateway and providers agree about every cent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::journal::Entry;
use crate::judge;
use crate::laws::cents;
use crate::load::World;
use crate::process::{Desk, Running};
use crate::seeded_random::SeededRandom;

/// Maximum time without progress towards the steady state.
pub(crate) const STEADY_TIMEOUT: Duration = Duration::from_secs(300);
/// Statuses in which a payment waits for its payer or the gateway.
const WAITING: [&str; 4] = ["created", "pending", "processing", "verification_pending"];
/// Seconds until late callbacks, queries, the ends of attempts and the ends of payments.
const TIMES: [u64; 6] = [11, 301, 3600, 3600, 24 * 3600, 24 * 3600];
/// Seconds, longer than the longest pause between two tries.
pub(crate) const AGAIN: u64 = 700;

/// Waits for a steady state and checks everything. Returns the number of payments by final status.
pub(crate) async fn settle(
    world: &Arc<World>,
    run: &Arc<Running>,
) -> Result<BTreeMap<String, usize>, String> {
    let mut desk = run.desk();
    for account in ["sandbox-test", "sandbox-live"] {
        let body = json!({ "provider_id": account, "fault": "none", "times": 1 });
        desk.change("POST", "/dev/faults", &body, 200).await?;
    }
    for seconds in TIMES {
        advance(&mut desk, seconds).await?;
    }
    let mut random = SeededRandom::new(world.seed, u64::MAX);
    let (mut fewest, mut since) = (usize::MAX, Instant::now());
    loop {
        let waiting = waiting(&mut desk).await?;
        let reviewed = desk.list("/payments?status=review", "payments").await?;
        let restless = waiting.len() + reviewed.len();
        if restless == 0 {
            break;
        }
        if restless < fewest {
            (fewest, since) = (restless, Instant::now());
        }
        if since.elapsed() > STEADY_TIMEOUT {
            return Err(format!("never at rest: {waiting:?} {reviewed:?}"));
        }
        for payment in reviewed {
            decide(&mut desk, &payment, &mut random).await?;
        }
        advance(&mut desk, AGAIN).await?;
    }
    // Open attempts of final payments are closed, and pending refunds are queried.
    for _ in 0..3 {
        advance(&mut desk, 24 * 3600).await?;
    }
    judge::payments(world, run, world.journal.all()).await?;
    let ends = agree(world, run).await?;
    // The server has closed the previous connection, which was idle for too long.
    nothing_else(world, &mut run.desk()).await?;
    Ok(ends)
}

pub(crate) async fn advance(desk: &mut Desk, seconds: u64) -> Result<(), String> {
    let body = json!({ "advance_seconds": seconds });
    desk.change("POST", "/dev/clock", &body, 200).await?;
    Ok(())
}

async fn waiting(desk: &mut Desk) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for status in WAITING {
        let path = format!("/payments?status={status}");
        found.extend(desk.list(&path, "payments").await?);
    }
    Ok(found)
}

/// Decides a review as an operator. A decision that needs the provider first is repeated later.
async fn decide(desk: &mut Desk, payment: &Value, random: &mut SeededRandom) -> Result<(), String> {
    let decision = random.one_of(&["approve", "decline"]);
    let body = json!({ "decision": decision, "actor": "ann", "reason": "the end of the day" });
    let id = payment["payment_id"].as_str().unwrap_or_default();
    let path = format!("/payments/{id}/review");
    let answer = desk.call("POST", &path, Some(&body)).await;
    let answer = answer.map_err(|_| "a decision was not answered")?;
    match answer.status {
        200 | 409 => Ok(()),
        _ => Err(format!("a decision was answered {answer:?}")),
    }
}

/// Asserts that books and gateway agree about every payment.
async fn agree(world: &Arc<World>, run: &Arc<Running>) -> Result<BTreeMap<String, usize>, String> {
    let mut desk = run.desk();
    let books = judge::books(&mut desk).await?;
    let mut work: HashMap<String, usize> = HashMap::new();
    for line in desk.list("/work", "work").await? {
        let attempt = line["attempt_id"].as_str().unwrap_or_default();
        *work.entry(attempt.to_owned()).or_default() += 1;
    }
    let entries = world.journal.all();
    judge::outcomes(&entries, &books, &mut desk).await?;
    let (mut ends, mut seen) = (BTreeMap::new(), 0);
    for entry in &entries {
        let Some(id) = entry.id() else { continue };
        let inside = desk.read(&format!("/payments/{id}")).await?;
        judge::is_alone(world, entry, &inside)?;
        let status = inside["payment"]["status"].as_str().unwrap_or_default();
        *ends.entry(status.to_owned()).or_default() += 1;
        seen += one(entry, &inside, &books, &work)
            .and_then(|sessions| given_back(&inside, &books).map(|()| sessions))
            .map_err(|wrong| format!("{wrong}\n{inside:#}\n{books:?}"))?;
    }
    if seen != books.len() {
        return Err(format!(
            "{} sessions at the vendors, {seen} of them of a known payment",
            books.len()
        ));
    }
    Ok(ends)
}

/// Compares a payment with the books. Returns the number of its sessions there.
fn one(
    entry: &Entry,
    inside: &Value,
    books: &HashMap<String, Vec<Value>>,
    work: &HashMap<String, usize>,
) -> Result<usize, String> {
    let payment = &inside["payment"];
    let completed = payment["status"] == "completed";
    let (mut sessions, mut own, mut fits) = (0, 0, false);
    for attempt in inside["attempts"].as_array().into_iter().flatten() {
        let id = attempt["attempt_id"].as_str().unwrap_or_default();
        let captured = attempt["state"] == "captured";
        let Some(session) = books.get(id).map(|found| &found[0]) else {
            if captured && !by_operator(inside) {
                return Err(format!("attempt {id} is captured, and no vendor knows it"));
            }
            continue;
        };
        sessions += 1;
        let taken = session["captured_times"] == 1;
        if taken && !captured && !work.contains_key(id) {
            return Err(format!("{}: money without a work item", entry.order_id));
        }
        if session["state"] == "authorised" {
            return Err(format!("attempt {id} is authorised for ever"));
        }
        own += usize::from(captured && taken);
        fits |= captured
            && session["amount"] == payment["amount"]
            && session["currency"] == payment["currency"];
    }
    if completed && !by_operator(inside) && (own != 1 || !fits) {
        return Err("completed without its money".into());
    }
    Ok(sessions)
}

/// Asserts that refunds ended as in the books, were executed at most once, and that no money was refunded
/// unnoticed.
fn given_back(inside: &Value, books: &HashMap<String, Vec<Value>>) -> Result<(), String> {
    let known = inside["refunds"].as_array().ok_or("no refunds")?;
    let attempts = inside["attempts"].as_array().into_iter().flatten();
    let sessions: Vec<&Value> = attempts
        .filter_map(|attempt| books.get(attempt["attempt_id"].as_str()?)?.first())
        .collect();
    let made: Vec<&Value> = sessions
        .iter()
        .filter_map(|session| session["refunds"].as_array())
        .flatten()
        .collect();
    for refund in known.iter().filter(|refund| refund["origin"] != "provider") {
        let of_it = |entry: &&&Value| entry["refund_id"] == refund["refund_id"];
        let entries: Vec<_> = made.iter().filter(of_it).collect();
        let state = match entries.as_slice() {
            [] => "failed",
            [entry] => entry["state"].as_str().unwrap_or_default(),
            _ => return Err(format!("given back twice: {refund}")),
        };
        let state = if state == "cancelled" {
            "failed"
        } else {
            state
        };
        if refund["status"] != state {
            return Err(format!("{refund} is {state} in the books"));
        }
    }
    let sum = |ours: bool| -> u64 {
        let succeeded = known.iter().filter(|refund| {
            refund["status"] == "succeeded" && (refund["origin"] != "provider") == ours
        });
        succeeded.map(|refund| cents(&refund["amount"])).sum()
    };
    let gone: u64 = sessions
        .iter()
        .map(|session| cents(&session["refunded"]))
        .sum();
    let taken = sessions
        .iter()
        .filter(|session| session["captured_times"] == 1);
    let taken: u64 = taken.map(|session| cents(&session["amount"])).sum();
    if gone > taken {
        return Err(format!("{gone} cents went back of {taken}"));
    }
    let of_orders = made
        .iter()
        .filter(|entry| entry["state"] == "succeeded" && entry["refund_id"].is_string());
    let ordered: u64 = of_orders.map(|entry| cents(&entry["amount"])).sum();
    // The callback about a refund in the dashboard may be missing, because clients set such faults.
    if ordered != sum(true) || sum(false) > gone.saturating_sub(ordered) {
        let (ours, elsewhere) = (sum(true), sum(false));
        return Err(format!(
            "{gone} cents went back, {ordered} of them ordered; {ours} and {elsewhere} are known"
        ));
    }
    Ok(())
}

fn by_operator(inside: &Value) -> bool {
    let lines = inside["transitions"].as_array().into_iter().flatten();
    lines
        .into_iter()
        .any(|line| line["cause"].as_str().unwrap_or_default() == "operator: approved")
}

/// Asserts that only the journal's payments exist.
async fn nothing_else(world: &World, desk: &mut Desk) -> Result<(), String> {
    let known: BTreeSet<String> = world
        .journal
        .all()
        .iter()
        .filter_map(|entry| entry.id())
        .collect();
    let mut found = BTreeSet::new();
    for shop in &world.shops {
        let path = format!("/payments?merchant_id={}", shop.id);
        for payment in desk.list(&path, "payments").await? {
            found.insert(
                payment["payment_id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
    }
    if found == known {
        Ok(())
    } else {
        let extra: Vec<_> = found.symmetric_difference(&known).take(5).collect();
        Err(format!(
            "{} payments, {} in the journal; {extra:?}",
            found.len(),
            known.len()
        ))
    }
}
