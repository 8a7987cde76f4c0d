//! An operator who issues, rotates and revokes keys and changes a merchant, and the checks of these changes after
//! a kill.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::load::Trouble;
use crate::process::{Desk, Running};
use crate::seeded_random::SeededRandom;
use crate::wire::{Ask, Lost};

/// Maximum number of active keys; with more, one is revoked first.
const MOST_WORKING: usize = 8;
/// Number of ended keys that are tried after a restart, in addition to those of the last life.
const TRIED: usize = 10;

/// An issued key.
#[derive(Clone, Debug)]
struct Key {
    shown: String,
    works: bool,
}

/// A request without a response.
#[derive(Clone, Debug)]
enum Open {
    Issue,
    Rotate(String),
    Revoke(String),
    Change(u64),
}

/// The operators of one merchant.
#[derive(Debug)]
pub(crate) struct Operators {
    merchant: u64,
    keys: BTreeMap<String, Key>,
    /// IDs of keys without a response to their creation: they exist, but their secrets are unknown.
    unseen: BTreeSet<String>,
    /// Keys that ended in the last life.
    just_ended: Vec<String>,
    /// Number of the merchant's acknowledged state.
    version: u64,
    open: Option<Open>,
    /// Acknowledged changes, each with one entry in the audit log: action and object.
    audited: Vec<(&'static str, String)>,
    /// New audit log entries: action and object.
    lines: Vec<(String, String)>,
    /// Number and hash of the newest audit log entry seen.
    last_line: (u64, String),
    pub(crate) changes: usize,
}

impl Operators {
    pub(crate) fn new(merchant: u64) -> Self {
        Self {
            merchant,
            keys: BTreeMap::new(),
            unseen: BTreeSet::new(),
            just_ended: Vec::new(),
            version: 0,
            open: None,
            audited: Vec::new(),
            lines: Vec::new(),
            last_line: (0, String::new()),
            changes: 0,
        }
    }

    /// Continues with another merchant, whose list of keys is short.
    pub(crate) fn moves_to(&mut self, merchant: u64) {
        let last_line = std::mem::take(&mut self.last_line);
        *self = Self {
            last_line,
            changes: self.changes,
            ..Self::new(merchant)
        };
    }

    /// Runs until the server is killed.
    pub(crate) async fn press_on(
        &mut self,
        run: &Running,
        mut random: SeededRandom,
        over: impl Fn() -> bool,
    ) -> Result<(), String> {
        let mut desk = run.desk();
        while !over() {
            match self.act(&mut desk, run, &mut random).await {
                Ok(()) => {}
                Err(Trouble::Lost) => return Ok(()),
                Err(Trouble::Wrong(what)) => return Err(what),
            }
        }
        Ok(())
    }

    async fn act(
        &mut self,
        desk: &mut Desk,
        run: &Running,
        random: &mut SeededRandom,
    ) -> Result<(), Trouble> {
        let working: Vec<String> = self
            .keys
            .iter()
            .filter(|(_, key)| key.works)
            .map(|(id, _)| id.clone())
            .collect();
        let some = (!working.is_empty()).then(|| working[random.roll(working.len())].clone());
        match (random.roll(5), some) {
            (0, Some(id)) => self.rotate(desk, id).await?,
            (1, Some(id)) => self.revoke(desk, id).await?,
            (2, _) => self.change(desk).await?,
            (3, Some(id)) => {
                // Keys are also used between two changes.
                let shown = self.keys[&id].shown.clone();
                if !is_welcome(run, &shown).await? {
                    return Err(Trouble::Wrong(format!("key {id} is refused")));
                }
            }
            (_, Some(id)) if working.len() >= MOST_WORKING => self.revoke(desk, id).await?,
            _ => self.issue(desk).await?,
        }
        self.changes += 1;
        Ok(())
    }

    async fn issue(&mut self, desk: &mut Desk) -> Result<(), Trouble> {
        self.open = Some(Open::Issue);
        let path = format!("/merchants/{}/keys", self.merchant);
        let body = json!({ "environment": "test" });
        let answer = desk.call("POST", &path, Some(&body)).await?;
        let id = self.show(&answer.expect(201)?)?;
        self.audited.push(("key.create", format!("key/{id}")));
        self.open = None;
        Ok(())
    }

    /// Records an issued key, whose secret is shown only once.
    fn show(&mut self, issued: &Value) -> Result<String, String> {
        let text = |name: &str| issued[name].as_str().map(str::to_owned);
        let (Some(id), Some(shown)) = (text("key_id"), text("key")) else {
            return Err(format!("no key: {issued}"));
        };
        let key = Key { shown, works: true };
        self.keys.insert(id.clone(), key);
        Ok(id)
    }

    fn end(&mut self, id: &str) {
        if let Some(key) = self.keys.get_mut(id) {
            key.works = false;
            self.just_ended.push(id.to_owned());
        }
    }

    async fn rotate(&mut self, desk: &mut Desk, id: String) -> Result<(), Trouble> {
        self.open = Some(Open::Rotate(id.clone()));
        let body = json!({ "overlap_hours": 0 });
        let path = format!("/keys/{id}/rotate");
        let answer = desk.call("POST", &path, Some(&body)).await?;
        self.show(&answer.expect(201)?)?;
        self.end(&id);
        self.audited.push(("key.rotate", format!("key/{id}")));
        self.open = None;
        Ok(())
    }

    async fn revoke(&mut self, desk: &mut Desk, id: String) -> Result<(), Trouble> {
        self.open = Some(Open::Revoke(id.clone()));
        let path = format!("/keys/{id}");
        let answer = desk
            .call(
                "DELETE",
                &path,
                Some(&json!({ "actor": "ann", "reason": "lost" })),
            )
            .await?;
        if answer.status != 204 {
            return Err(Trouble::Wrong(format!("revoke: {answer:?}")));
        }
        self.end(&id);
        self.audited.push(("key.revoke", format!("key/{id}")));
        self.open = None;
        Ok(())
    }

    /// Changes name and rate, which must happen together.
    async fn change(&mut self, desk: &mut Desk) -> Result<(), Trouble> {
        let next = self.version + 1;
        self.open = Some(Open::Change(next));
        let path = format!("/merchants/{}", self.merchant);
        let answer = desk.call("PATCH", &path, Some(&state(next))).await?;
        answer.expect(200)?;
        self.version = next;
        let object = format!("merchant/{}", self.merchant);
        self.audited.push(("merchant.change", object));
        self.open = None;
        Ok(())
    }

    /// Checks the state after a restart, and determines the outcome of a request without a response.
    pub(crate) async fn judge(
        &mut self,
        run: &Running,
        random: &mut SeededRandom,
    ) -> Result<(), String> {
        let mut desk = run.desk();
        self.judge_keys(&mut desk, run, random).await?;
        let path = format!("/merchants/{}", self.merchant);
        let merchant = desk.read(&path).await?;
        let is = |version: u64| {
            let state = state(version);
            merchant["name"] == state["name"]
                && merchant["fx_rates"]["EUR"] == state["fx_rates"]["EUR"]
        };
        match self.open.take() {
            Some(Open::Change(next)) if is(next) => self.version = next,
            _ if self.version == 0 || is(self.version) => {}
            _ => return Err(format!("merchant: {merchant}, expected {}", self.version)),
        }
        let audited = std::mem::take(&mut self.audited);
        self.judge_audit(&mut desk, &audited).await
    }

    async fn judge_keys(
        &mut self,
        desk: &mut Desk,
        run: &Running,
        random: &mut SeededRandom,
    ) -> Result<(), String> {
        let path = format!("/merchants/{}/keys", self.merchant);
        let listed = desk.list(&path, "keys").await?;
        let mut ended = BTreeMap::new();
        for key in &listed {
            let id = key["key_id"].as_str().unwrap_or_default().to_owned();
            ended.insert(
                id,
                !(key["revoked_at"].is_null() && key["expires_at"].is_null()),
            );
        }
        let new: Vec<String> = ended
            .keys()
            .filter(|id| !self.keys.contains_key(*id) && !self.unseen.contains(*id))
            .cloned()
            .collect();
        match &self.open {
            Some(Open::Issue) if new.len() <= 1 => {}
            // The old key must have ended exactly if the new one exists.
            Some(Open::Rotate(old)) if new.len() == usize::from(ended.get(old) == Some(&true)) => {
                if new.len() == 1 {
                    self.end(&old.clone());
                }
            }
            Some(Open::Revoke(id)) if new.is_empty() => {
                if ended.get(id) == Some(&true) {
                    self.end(&id.clone());
                }
            }
            Some(Open::Change(_)) | None if new.is_empty() => {}
            open => {
                return Err(format!(
                    "keys that were not asked for: {new:?}, open: {open:?}"
                ));
            }
        }
        self.unseen.extend(new);
        for (id, key) in &self.keys {
            if ended.get(id) != Some(&!key.works) {
                return Err(format!(
                    "key {id} should work: {}, list: {ended:?}",
                    key.works
                ));
            }
        }
        let mut tried: Vec<String> = std::mem::take(&mut self.just_ended);
        let all: Vec<&String> = self.keys.keys().collect();
        tried.extend((0..TRIED.min(all.len())).map(|_| all[random.roll(all.len())].clone()));
        tried.extend(
            self.keys
                .iter()
                .filter(|(_, key)| key.works)
                .map(|(id, _)| id.clone()),
        );
        for id in tried {
            let key = &self.keys[&id];
            let welcome = is_welcome(run, &key.shown).await;
            if welcome.map_err(|Lost| "a key was not answered")? != key.works {
                return Err(format!("key {id} should work: {}", key.works));
            }
        }
        Ok(())
    }

    /// Asserts that the audit log continues unbroken after the entry seen last, with an entry for each
    /// acknowledged change.
    async fn judge_audit(
        &mut self,
        desk: &mut Desk,
        audited: &[(&'static str, String)],
    ) -> Result<(), String> {
        let (mut fresh, mut cursor) = (Vec::new(), String::new());
        let (seen, seen_hash) = self.last_line.clone();
        'pages: loop {
            let page = desk.read(&format!("/audit?limit=100{cursor}")).await?;
            for line in page["entries"].as_array().into_iter().flatten() {
                if line["id"].as_u64() == Some(seen) {
                    if line["hash"] != seen_hash.as_str() {
                        return Err(format!("line {seen} of the audit log has changed"));
                    }
                    break 'pages;
                }
                fresh.push(line.clone());
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None if seen == 0 => break,
                None => return Err(format!("line {seen} of the audit log is gone")),
            }
        }
        fresh.reverse();
        for line in fresh {
            let (number, before) = self.last_line.clone();
            let id = line["id"].as_u64().unwrap_or_default();
            if id != number + 1 || (number > 0 && line["prev_hash"] != before.as_str()) {
                return Err(format!("the audit chain breaks after line {number}"));
            }
            let hash = line["hash"].as_str().unwrap_or_default().to_owned();
            self.last_line = (id, hash);
            self.lines.push((
                line["action"].as_str().unwrap_or_default().to_owned(),
                line["object"].as_str().unwrap_or_default().to_owned(),
            ));
        }
        let lines = std::mem::take(&mut self.lines);
        for (action, object) in audited {
            let same = |line: &&(String, String)| line.0 == *action && line.1 == *object;
            let told = audited
                .iter()
                .filter(|each| each == &&(*action, object.clone()))
                .count();
            if lines.iter().filter(same).count() < told {
                return Err(format!(
                    "{action} of {object} was acknowledged, not audited"
                ));
            }
        }
        Ok(())
    }
}

/// Name and rate of the merchant's state with this number.
fn state(version: u64) -> Value {
    json!({
        "name": format!("Office {version}"),
        // Ends in 1, so that the response has the same digits.
        "fx_rates": { "EUR": format!("1.1{version:06}1") },
    })
}

/// Whether a key is accepted: reading a payment that does not exist returns 404.
async fn is_welcome(run: &Running, shown: &str) -> Result<bool, Lost> {
    let path = format!("/api/v1/payments/{}", "0".repeat(32));
    let answer = run.line().call(Ask::get(&path, shown)).await?;
    if answer.says_later() {
        return Err(Lost);
    }
    Ok(answer.status == 404)
}
