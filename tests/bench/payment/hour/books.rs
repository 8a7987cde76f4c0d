//! Comparison of the providers' books with the gateway's payments, when no payment changes any longer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::load::Load;
use crate::client::{Connection, alone};
use crate::gateway::{Gateway, Simulator};
use crate::payment::receiver::WAS_TOLD;
use crate::payment::walk::Shop;
use crate::requests::get;

/// Maximum time to wait for pending payments.
const PENDING_TIMEOUT: Duration = Duration::from_secs(180);
/// Time without changes after which no further changes are expected.
const QUIET: Duration = Duration::from_secs(10);
/// Amount of each payment.
const AMOUNT: &str = "49.90";

/// Number of payments that match the books.
pub(super) struct Balance {
    pub(super) completed: usize,
    /// Payments without a capture.
    pub(super) others: usize,
}

/// A line of a simulator's journal. The last line of a session counts.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Session(Session),
    News(IgnoredAny),
    Done(IgnoredAny),
}

#[derive(Deserialize)]
struct Session {
    reference: String,
    attempt_id: String,
    state: String,
    captured_times: u32,
}

/// A line of the gateway's export.
#[derive(Deserialize)]
struct Movement {
    #[serde(rename = "type")]
    kind: String,
    amount: String,
    payment_id: String,
    attempt_id: String,
}

/// An attempt in the books.
#[derive(Default)]
struct Attempt {
    captured: u32,
    /// Whether the provider may still capture it.
    is_authorised: bool,
}

/// Compares the books. Panics if they still differ after the maximum time.
pub(super) fn balance(gateway: &Gateway, simulators: &[Simulator], load: &Load) -> Balance {
    let began = Instant::now();
    rest(gateway);
    loop {
        match compare(gateway, simulators, load) {
            Ok(balance) => return balance,
            Err(why) if began.elapsed() > PENDING_TIMEOUT => {
                panic!("the books do not agree: {why}")
            }
            Err(why) => eprintln!("the books do not agree yet: {why}"),
        }
        sleep(QUIET);
    }
}

/// Waits until no payment changes.
fn rest(gateway: &Gateway) {
    let moved = || gateway.metrics().sum("kassette_transitions_total", "");
    let (began, mut last, mut since) = (Instant::now(), moved(), Instant::now());
    while since.elapsed() < QUIET && began.elapsed() < PENDING_TIMEOUT {
        sleep(Duration::from_secs(1));
        let now = moved();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Compares the books one time. An error is a difference that may disappear; others panic.
fn compare(gateway: &Gateway, simulators: &[Simulator], load: &Load) -> Result<Balance, String> {
    let mut attempts = HashMap::new();
    for simulator in simulators {
        read_books(&simulator.books(), &mut attempts);
    }
    let seen = load.seen();
    let mut made = [&seen.told[..], &seen.left].concat();
    made.sort_unstable();
    let shops = load.shops.iter();
    let mut listed: Vec<(u128, bool)> = shops.flat_map(list).collect();
    listed.sort_unstable();
    let ids = listed.iter().map(|(id, _)| *id);
    assert!(
        ids.eq(made.iter().copied()),
        "the shops' payments are not those that they list"
    );
    let completed: Vec<u128> = listed
        .iter()
        .filter_map(|(id, is_completed)| is_completed.then_some(*id))
        .collect();
    let is_completed = |id: &u128| completed.binary_search(id).is_ok();
    if let Some(id) = seen.told.iter().find(|id| !is_completed(id)) {
        panic!("{id:032x}: its shop was told of a completion that is none");
    }
    if captured(gateway, &mut attempts)? != completed {
        return Err("completed payments are not those whose money was captured".into());
    }
    uncaptured(gateway, &attempts, |id| {
        made.binary_search(id).is_ok() && !is_completed(id)
    })?;
    let left = seen.left.iter().filter(|id| is_completed(id));
    told(load.shops[0].receiver, left)?;
    Ok(Balance {
        completed: completed.len(),
        others: made.len() - completed.len(),
    })
}

/// Adds the attempts of a simulator's journal.
fn read_books(path: &Path, attempts: &mut HashMap<u128, Attempt>) {
    let mut sessions = HashMap::new();
    let mut journal = BufReader::new(File::open(path).unwrap());
    let mut line = Vec::new();
    // A line without its end is still being written.
    while journal.read_until(b'\n', &mut line).unwrap() > 0 && line.ends_with(b"\n") {
        if let Line::Session(session) = serde_json::from_slice(&line).unwrap() {
            sessions.insert(session.reference.clone(), session);
        }
        line.clear();
    }
    for session in sessions.into_values() {
        let attempt: &mut Attempt = attempts.entry(number(&session.attempt_id)).or_default();
        attempt.captured += session.captured_times;
        attempt.is_authorised |= session.state == "authorised";
        let id = &session.attempt_id;
        assert!(
            attempt.captured <= 1,
            "attempt {id} is captured twice in {}",
            path.display()
        );
    }
}

fn number(id: &str) -> u128 {
    u128::from_str_radix(id, 16).unwrap_or_else(|_| panic!("{id} is no id"))
}

/// All payments of a shop, and whether each is completed.
fn list(shop: &Shop) -> Vec<(u128, bool)> {
    alone(async {
        let mut connection = Connection::open(shop.server).await;
        let (mut payments, mut cursor) = (Vec::new(), String::new());
        loop {
            let request = get(&shop.key, &format!("/api/v1/payments?limit=100{cursor}"));
            assert_eq!(connection.try_ask(request).await.unwrap(), 200);
            let page: Value = serde_json::from_slice(connection.body()).unwrap();
            let listed = page["payments"].as_array().unwrap().iter();
            payments.extend(listed.map(|payment| {
                let id = number(payment["payment_id"].as_str().unwrap());
                (id, payment["status"] == "completed")
            }));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return payments,
            }
        }
    })
}

/// Payments with a capture in the gateway's export, in ascending order. Removes their attempts from those of the
/// books.
fn captured(gateway: &Gateway, attempts: &mut HashMap<u128, Attempt>) -> Result<Vec<u128>, String> {
    let mut export = gateway.export();
    let mut payments = Vec::new();
    for line in BufReader::new(export.stdout.take().unwrap()).lines() {
        let movement: Movement = serde_json::from_str(&line.unwrap()).unwrap();
        let Movement { kind, amount, .. } = &movement;
        let what = format!("{kind} of {amount} of payment {}", movement.payment_id);
        assert_eq!((&**kind, &**amount), ("capture", AMOUNT), "{what}");
        let attempt = attempts.remove(&number(&movement.attempt_id));
        assert!(
            attempt.is_some_and(|attempt| attempt.captured == 1),
            "{what}: not in the books"
        );
        payments.push(number(&movement.payment_id));
    }
    assert!(
        export.wait().unwrap().success(),
        "the export ends before its end"
    );
    payments.sort_unstable();
    Ok(payments)
}

/// Checks that the remaining attempts have no money and belong to unpaid payments.
fn uncaptured(
    gateway: &Gateway,
    attempts: &HashMap<u128, Attempt>,
    is_unpaid: impl Fn(&u128) -> bool,
) -> Result<(), String> {
    for (id, attempt) in attempts {
        if attempt.captured > 0 || attempt.is_authorised {
            return Err(format!(
                "attempt {id:032x} is paid, and the gateway does not say so"
            ));
        }
        let path = format!("/payments?attempt_id={id:032x}");
        let found = gateway.admin("GET", &path, &Value::Null);
        let payments = found["payments"].as_array().unwrap();
        let ids = payments
            .iter()
            .map(|payment| number(payment["payment_id"].as_str().unwrap()));
        let ids: Vec<u128> = ids.collect();
        assert!(
            matches!(&ids[..], [payment] if is_unpaid(payment)),
            "attempt {id:032x} of the books is not that of one unpaid payment: {found}"
        );
    }
    Ok(())
}

/// Checks that the receiver was notified of the completion of these payments.
fn told<'a>(receiver: SocketAddr, payments: impl Iterator<Item = &'a u128>) -> Result<(), String> {
    alone(async {
        let mut connection = Connection::open(receiver).await;
        for id in payments {
            let asked = connection.try_ask(get("", &format!("{WAS_TOLD}{id:032x}")));
            if asked.await.unwrap() != 200 {
                return Err(format!(
                    "the receiver was not told that {id:032x} is completed"
                ));
            }
        }
        Ok(())
    })
}
