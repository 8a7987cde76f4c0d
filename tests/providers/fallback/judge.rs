//! Checks every payment against the simulators' books and the admin API.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use crate::fallback::payer::Payer;
use crate::harness::Server;
use crate::table::{Has, lacks};

/// Statuses in which a payment waits for its payer or the gateway.
pub(crate) const WAITING: [&str; 4] = ["created", "pending", "processing", "verification_pending"];
/// Maximum number of failures that are printed in full.
const MOST_TOLD: usize = 5;

pub(crate) struct Judge<'a> {
    server: &'a Server,
    /// By attempt ID.
    entries: HashMap<String, Vec<Value>>,
    /// By payment ID.
    work: HashMap<String, Vec<Value>>,
}

/// Summary of a run.
#[derive(Default)]
pub(crate) struct Shown {
    /// Number of payments that could not be created, because no account was available.
    not_created: usize,
    ends: BTreeMap<String, usize>,
    /// Number of attempts by their final state.
    attempts: BTreeMap<String, usize>,
    work: BTreeMap<String, usize>,
    /// Number of payments with attempts at more than one account.
    fell_back: usize,
    /// Number of payments paid at another account than the first choice without faults.
    paid_elsewhere: usize,
    captured: u64,
}

/// Whether an approval at this account is only an authorization: if its callback never arrives, the authorization
/// expires and the payer has not paid.
fn only_allows(account: &str) -> bool {
    let module = account.trim_end_matches("-test");
    [Has::LateMoney, Has::TakesAtOnce]
        .iter()
        .any(|has| lacks(module, *has).is_some())
}

/// Whether an approval may end without a capture, because of the fault or because an operator declines.
fn loses(payer: &Payer) -> bool {
    let taken_away = ["capture-refused", "voids-approval", "forgets"];
    taken_away.contains(&payer.plan.fault) || payer.plan.decision == Some("decline")
}

/// Whether an authorization remains until the gateway voids it.
fn is_ours_to_void(entry: &Value) -> bool {
    let module = entry["provider_id"]
        .as_str()
        .unwrap()
        .trim_end_matches("-test");
    [Has::LateMoney, Has::Voids]
        .iter()
        .all(|has| lacks(module, *has).is_none())
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} not created, ends {:?}; {} fell back to another provider, {} were paid at another than \
             the first; attempts {:?}; {} captures; work list {:?}",
            self.not_created,
            self.ends,
            self.fell_back,
            self.paid_elsewhere,
            self.attempts,
            self.captured,
            self.work
        )
    }
}

impl<'a> Judge<'a> {
    pub(crate) async fn new(server: &'a Server, accounts: &BTreeSet<String>) -> Self {
        let mut entries: HashMap<String, Vec<Value>> = HashMap::new();
        for account in accounts {
            for entry in server.books(account).await {
                let attempt = entry["attempt_id"].as_str().unwrap().to_owned();
                entries.entry(attempt).or_default().push(entry);
            }
        }
        let mut work: HashMap<String, Vec<Value>> = HashMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/work?limit=100{cursor}");
            let page = server.admin("GET", &path, None).await.expect(200).json();
            for line in page["work"].as_array().unwrap() {
                let payment = line["payment_id"].as_str().unwrap().to_owned();
                work.entry(payment).or_default().push(line.clone());
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        Self {
            server,
            entries,
            work,
        }
    }

    /// Checks all payments. Panics if a check fails.
    pub(crate) async fn judge(mut self, payers: &[Payer]) -> Shown {
        let (mut shown, mut wrong) = (Shown::default(), Vec::new());
        for payer in payers {
            if payer.payment.is_null() {
                shown.not_created += 1;
                continue;
            }
            let inside = self.server.inside(&payer.payment).await;
            if let Err(why) = self.one(payer, &inside, &mut shown) {
                wrong.push(format!("{why}\n{payer:?}\n{inside:#}"));
            }
        }
        // Entries that remain belong to no attempt. A capture among them is money that the gateway does not know.
        for entry in self.entries.into_values().flatten() {
            if entry["captured_times"] != 0 {
                wrong.push(format!("money that belongs to no attempt: {entry}"));
            }
        }
        let told = wrong.iter().take(MOST_TOLD).cloned().collect::<Vec<_>>();
        assert!(
            wrong.is_empty(),
            "{shown}\n{} wrong\n{}",
            wrong.len(),
            told.join("\n\n")
        );
        let paid = shown.ends.get("completed").copied().unwrap_or_default();
        // The plan lets about a third of the payments complete. Kills and faults change the number.
        assert!(
            paid * 4 > payers.len() && shown.fell_back > 0 && shown.paid_elsewhere > 0,
            "a run that shows little: {shown}"
        );
        shown
    }

    fn one(&mut self, payer: &Payer, inside: &Value, shown: &mut Shown) -> Result<(), String> {
        let payment = &inside["payment"];
        let status = payment["status"].as_str().unwrap();
        *shown.ends.entry(status.to_owned()).or_default() += 1;
        let id = payment["payment_id"].as_str().unwrap();
        let work = self.work.remove(id).unwrap_or_default();
        for line in &work {
            let kind = line["kind"].as_str().unwrap().to_owned();
            *shown.work.entry(kind).or_default() += 1;
        }
        let attempts = inside["attempts"].as_array().unwrap();
        let (mut taken, mut own, mut authorised) = (Vec::new(), 0, false);
        for attempt in attempts {
            let state = attempt["state"].as_str().unwrap();
            *shown.attempts.entry(state.to_owned()).or_default() += 1;
            own += usize::from(state == "captured");
            let id = attempt["attempt_id"].as_str().unwrap();
            for entry in self.entries.remove(id).unwrap_or_default() {
                authorised |= entry["state"] == "authorised" && is_ours_to_void(&entry);
                if entry["captured_times"] != 0 {
                    taken.push((entry, state));
                }
            }
        }
        let decision = &payment["decision"];
        let times = taken
            .iter()
            .map(|(entry, _)| entry["captured_times"].as_u64().unwrap());
        let times: u64 = times.sum();
        shown.captured += times;
        let providers: BTreeSet<&str> = attempts
            .iter()
            .map(|attempt| attempt["provider_id"].as_str().unwrap())
            .collect();
        if providers.len() > 1 {
            shown.fell_back += 1;
        }
        if let ("completed", Some((entry, _))) = (status, taken.first()) {
            let first = payer.plan.route.first();
            shown.paid_elsewhere += usize::from(entry["provider_id"] != first);
        }
        if times > 1 {
            return Err(format!("captured {times} times: {taken:?}"));
        }
        if WAITING.contains(&status) {
            return Err("still waiting after the last question".into());
        }
        let decided = decision["decision"]
            .as_str()
            .filter(|_| decision["state"] == "done");
        if matches!(
            (decided, status),
            (Some("approve"), "failed") | (Some("decline"), "completed")
        ) {
            return Err("it ended otherwise than was decided".into());
        }
        if let Some((entry, state)) = taken.first() {
            let listed = work
                .iter()
                .any(|line| line["attempt_id"] == entry["attempt_id"]);
            // Money of a payment in review is known to an operator, in any state of the attempt.
            let held = status == "review" || (status == "completed" && *state == "captured");
            if !held && !listed && !attempts.iter().any(|each| is_lost(each, entry)) {
                return Err(format!("money of which no operator knows: {entry}"));
            }
        } else if payer.approved
            && !loses(payer)
            && !providers.iter().any(|account| only_allows(account))
        {
            return Err("the vendor had acknowledged an approval and has no money".into());
        }
        // The amount due, or the amount that an operator accepted. No admin vouches for a payment in these runs.
        let due = |(entry, _): &(Value, &str)| {
            let paid = |money: &Value, amount: &str| {
                entry["amount"] == money[amount] && entry["currency"] == money["currency"]
            };
            paid(payment, "amount") || (decision["state"] == "done" && paid(decision, "received"))
        };
        if payment["vouched"] == true {
            return Err("vouched for, though no admin did".into());
        }
        if status == "completed" && (own != 1 || !taken.iter().any(due)) {
            return Err(format!("completed without its money: {taken:?}"));
        }
        let events = inside["events"].as_array().unwrap().iter();
        let told = events
            .filter(|event| event["type"] == "payment.completed")
            .count();
        if told > 1 || (told == 1) != (payment["settlement_status"] == "confirmed") {
            return Err(format!("payment.completed was told {told} times"));
        }
        if authorised && status != "review" {
            return Err("an authorisation that was neither captured nor voided".into());
        }
        Ok(())
    }
}

/// Whether the money was lost in a dispute that the gateway knows. The books contain only refunds.
fn is_lost(attempt: &Value, entry: &Value) -> bool {
    let disputes = attempt["disputes"].as_array().unwrap();
    attempt["attempt_id"] == entry["attempt_id"]
        && attempt["returned"] == entry["amount"]
        && disputes.iter().any(|dispute| dispute["state"] == "lost")
}
