//! Checks after each restart: everything acknowledged exists, and an unanswered request is completed or has had no
//! effect.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::journal::Entry;
use crate::laws;
use crate::load::{World, hear_create};
use crate::payers::hear_refund;
use crate::process::{Desk, Running};
use crate::wire::{Ask, Line, Lost};

/// Number of concurrent checks.
const JUDGES: usize = 8;

/// Checks payments. Returns the first fault.
pub(crate) async fn payments(
    world: &Arc<World>,
    run: &Arc<Running>,
    entries: Vec<Arc<Entry>>,
) -> Result<(), String> {
    let entries = Arc::new(entries);
    let judges: Vec<_> = (0..JUDGES)
        .map(|number| {
            let (world, run, entries) = (Arc::clone(world), Arc::clone(run), Arc::clone(&entries));
            tokio::spawn(async move {
                let (mut line, mut desk) = (run.line(), run.desk());
                for entry in entries.iter().skip(number).step_by(JUDGES) {
                    payment(&world, entry, &mut line, &mut desk)
                        .await
                        .map_err(|wrong| format!("{}: {wrong}", entry.body))?;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    for judge in judges {
        judge.await.map_err(|error| error.to_string())??;
    }
    Ok(())
}

async fn payment(
    world: &World,
    entry: &Entry,
    line: &mut Line,
    desk: &mut Desk,
) -> Result<(), String> {
    let key = world.shops[entry.shop].key(entry.live);
    let unanswered = |Lost| "the server does not answer".to_owned();
    let known = entry.id();
    if let Some(id) = &known {
        let sent = Instant::now();
        let path = format!("/api/v1/payments/{id}");
        let answer = line.call(Ask::get(&path, key)).await.map_err(unanswered)?;
        entry.hear(&answer.expect(200)?, false, sent)?;
    }
    // The repeated create returns the same payment. If no create had a response, it may create the only one.
    let sent = Instant::now();
    let ask = Ask::post("/api/v1/payments", key, &entry.body);
    let answer = line.call(ask).await.map_err(unanswered)?;
    let there = hear_create(world, entry, &answer, sent)?;
    if answer.status >= 429 {
        return Err(format!("a repeat was answered {answer:?}"));
    }
    if known.is_some() && !(there && answer.replayed) {
        return Err(format!("an acknowledged key was answered {answer:?}"));
    }
    let listed = desk
        .list(
            &format!("/payments?order_id={}", entry.order_id),
            "payments",
        )
        .await?;
    if listed.len() != usize::from(there) {
        return Err(format!("one order, {} payments: {listed:?}", listed.len()));
    }
    match entry.id() {
        Some(id) => {
            refunds(entry, &id, key, line).await?;
            inside(entry, &id, desk).await
        }
        None => Ok(()),
    }
}

/// Asserts that each acknowledged refund exists, and repeats the others, each of which is created at most once.
async fn refunds(entry: &Entry, id: &str, key: &str, line: &mut Line) -> Result<(), String> {
    let unanswered = |Lost| "the server does not answer".to_owned();
    let asked: Vec<String> = {
        let told = entry.told.lock();
        told.refunds
            .iter()
            .map(|asked| asked.body.clone())
            .collect()
    };
    let path = format!("/api/v1/payments/{id}/refunds");
    for (nth, body) in asked.iter().enumerate() {
        let sent = Instant::now();
        let ask = Ask::post(&path, key, body);
        let answer = line.call(ask).await.map_err(unanswered)?;
        if answer.status >= 429 {
            return Err(format!("a repeat was answered {answer:?}"));
        }
        hear_refund(entry, nth, &answer, sent)?;
    }
    let mut ids: Vec<String> = {
        let told = entry.told.lock();
        let known = told.refunds.iter().filter_map(|asked| asked.told.as_ref());
        known
            .map(|(refund, _)| refund["refund_id"].to_string())
            .collect()
    };
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != count {
        return Err("two keys have one refund".into());
    }
    Ok(())
}

/// Asserts that the payment in the admin API is consistent and that its lists have only grown.
async fn inside(entry: &Entry, id: &str, desk: &mut Desk) -> Result<(), String> {
    let sent = Instant::now();
    let inside = desk.read(&format!("/payments/{id}")).await?;
    laws::whole(&inside).map_err(|wrong| format!("{wrong}\n{inside:#}"))?;
    entry.hear(&inside["payment"], false, sent)?;
    let mut told = entry.told.lock();
    for (name, seen) in [("transitions", told.timeline), ("events", told.events)] {
        let list = &inside[name];
        let changed = seen.0 > 0 && laws::mark(list, seen.0) != seen.1;
        if laws::length(list) < seen.0 || changed {
            return Err(format!("{name} that were seen are gone:\n{inside:#}"));
        }
    }
    let mark = |list: &Value| (laws::length(list), laws::mark(list, laws::length(list)));
    told.timeline = mark(&inside["transitions"]);
    told.events = mark(&inside["events"]);
    // An ended attempt does not show its address.
    let attempts = inside["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    let has = |redirect: &String| {
        let mut attempts = attempts.iter();
        attempts.any(|attempt| attempt["redirect_url"] == redirect.as_str())
    };
    let missing: Vec<_> = told.redirects.iter().filter(|url| !has(url)).collect();
    let is_over = |attempt: &&Value| {
        attempt["redirect_url"].is_null() && !laws::is_open(attempt["state"].as_str().unwrap_or(""))
    };
    if missing.len() > attempts.iter().filter(is_over).count() {
        return Err(format!(
            "starts that answered {missing:?} are gone:\n{inside:#}"
        ));
    }
    drop(told);
    Ok(())
}

/// Asserts that attempt IDs and references belong to one payment only. Complete at the end of a run, with all
/// payments.
pub(crate) fn is_alone(world: &World, entry: &Entry, inside: &Value) -> Result<(), String> {
    for attempt in inside["attempts"].as_array().into_iter().flatten() {
        let account = attempt["provider_id"].as_str().unwrap_or_default();
        for name in ["attempt_id", "reference"] {
            let Some(text) = attempt[name].as_str() else {
                continue;
            };
            if !world.journal.owns(format!("{account} {text}"), entry) {
                return Err(format!("{name} {text} belongs to two payments"));
            }
        }
    }
    Ok(())
}

/// The simulators' books by attempt ID.
pub(crate) async fn books(desk: &mut Desk) -> Result<HashMap<String, Vec<Value>>, String> {
    let mut books: HashMap<String, Vec<Value>> = HashMap::new();
    let accounts = desk.read("/providers").await?;
    let accounts = accounts["providers"].as_array().into_iter().flatten();
    // Read account by account: entries of one account change position when another account gets more.
    for account in accounts.filter_map(|account| account["id"].as_str()) {
        let path = format!("/dev/books?provider_id={account}");
        for entry in desk.pages(&path, "entries", 20_000).await? {
            let attempt = entry["attempt_id"].as_str().unwrap_or_default();
            books.entry(attempt.to_owned()).or_default().push(entry);
        }
    }
    for (attempt, entries) in &books {
        if entries.len() != 1 {
            return Err(format!("attempt {attempt} has two sessions: {entries:?}"));
        }
        if entries[0]["captured_times"].as_u64() > Some(1) {
            return Err(format!("charged twice: {entries:?}"));
        }
    }
    Ok(books)
}

/// Asserts that outcomes which a provider has acknowledged to payers are in its books.
pub(crate) async fn outcomes(
    entries: &[Arc<Entry>],
    books: &HashMap<String, Vec<Value>>,
    desk: &mut Desk,
) -> Result<(), String> {
    for entry in entries {
        let told: Vec<_> = entry.told.lock().outcomes.clone();
        let taken = |what: &&(String, &str)| matches!(what.1, "approve" | "review");
        let (Some(id), true) = (entry.id(), told.iter().any(|each| taken(&each))) else {
            continue;
        };
        let inside = desk.read(&format!("/payments/{id}")).await?;
        for (page, outcome) in told.iter().filter(taken) {
            // An ended attempt does not show its page.
            let may_be = |attempt: &&Value| {
                let shown = &attempt["redirect_url"];
                shown.is_null() || shown == page.as_str()
            };
            let attempts = inside["attempts"].as_array().into_iter().flatten();
            let ids = attempts
                .filter(may_be)
                .filter_map(|each| each["attempt_id"].as_str());
            let found: Vec<_> = ids.filter_map(|id| books.get(id)).collect();
            let stands = |entry: &Value| {
                !matches!(entry["state"].as_str(), None | Some("open" | "declined"))
            };
            if !found.iter().any(|found| stands(&found[0])) {
                return Err(format!("{outcome} at {page} was acknowledged: {found:?}"));
            }
        }
    }
    Ok(())
}
