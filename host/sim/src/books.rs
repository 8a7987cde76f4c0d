//! An account's books: its payments and the callbacks that still have to be delivered.
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    config::SimError,
    journal::Journal,
    money::Amount,
    refund::{Refund, RefundState},
    session::{Session, State},
};

/// Payments one account keeps. A load test makes some hundred thousand at about 1 KiB each.
pub(crate) const MOST_SESSIONS: usize = 1_000_000;

/// Callbacks waiting at one account. Reached only where the gateway does not listen; the oldest is given up then.
pub(crate) const MOST_CALLBACKS: usize = 10_000;

/// One line of the books in the JSON form of `dev/books`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookEntry {
    pub provider_id: String,
    /// The merchant's reference: the gateway's attempt id.
    pub attempt_id: String,
    /// The vendor's id.
    pub reference: String,
    /// Where it stands; out of time counts as closed.
    pub state: State,
    /// What was captured, or what is due where nothing was, as `49.90`.
    pub amount: String,
    /// ISO 4217, of that amount.
    pub currency: String,
    /// How many times money was taken.
    pub captured_times: u32,
    /// Given back so far, by refunds that have succeeded and by disputes that were lost, as `0.00`.
    pub refunded: String,
    /// Every refund, oldest first.
    #[serde(default)]
    pub refunds: Vec<BookRefund>,
}

/// One refund in the books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookRefund {
    /// The vendor's id.
    pub reference: String,
    /// The merchant's reference of it: the gateway's refund id. None where it was made in the vendor's
    /// dashboard.
    pub refund_id: Option<String>,
    /// As `49.90`, of the currency that was received.
    pub amount: String,
    pub state: RefundState,
}

impl From<&Refund> for BookRefund {
    fn from(refund: &Refund) -> Self {
        Self {
            reference: refund.id.clone(),
            refund_id: refund.order().map(str::to_owned),
            amount: refund.amount.to_string(),
            state: refund.state,
        }
    }
}

/// A callback that waits to be delivered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Callback {
    /// Counts upwards; the order in which things happened.
    pub(crate) number: u64,
    /// The exact bytes to sign and send.
    pub(crate) body: String,
    pub(crate) media_type: String,
    /// The query of the address that it goes to.
    #[serde(default)]
    pub(crate) query: Option<String>,
    /// When to deliver it, on the injected clock.
    pub(crate) due_at: u64,
    /// Deliveries that have failed.
    pub(crate) failures: u32,
    /// Sign it with a secret that is not the account's.
    pub(crate) forged: bool,
}

/// One line of the journal: the newest about a payment or a callback counts.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    Session(Box<Session>),
    #[serde(rename = "news")]
    Callback(Callback),
    /// Delivered or given up.
    Done(u64),
}

/// The books in memory, with the journal that makes them last.
pub(crate) struct Books {
    journal: Journal,
    sessions: Vec<Session>,
    by_reference: HashMap<String, usize>,
    by_key: HashMap<String, usize>,
    by_token: HashMap<String, usize>,
    by_attempt: HashMap<String, Vec<usize>>,
    /// By the ids of refunds and disputes.
    by_part: HashMap<String, usize>,
    /// By the newest refund under an idempotency key.
    by_refund_key: HashMap<String, usize>,
    /// Payments with something under way.
    underway: BTreeSet<usize>,
    callbacks: BTreeMap<u64, Callback>,
    next_callback: u64,
}

impl Books {
    /// Reads what is there, and starts a new file without its history.
    pub(crate) fn open(path: &Path) -> Result<Self, SimError> {
        let mut sessions: Vec<Session> = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut callbacks = BTreeMap::new();
        for record in Journal::read::<Record>(path)? {
            match record {
                Record::Session(session) => match seen.get(&session.reference) {
                    Some(&at) => {
                        if let Some(old) = sessions.get_mut(at) {
                            *old = *session;
                        }
                    }
                    None => {
                        seen.insert(session.reference.clone(), sessions.len());
                        sessions.push(*session);
                    }
                },
                Record::Callback(item) => {
                    callbacks.insert(item.number, item);
                }
                Record::Done(number) => {
                    callbacks.remove(&number);
                }
            }
        }
        let records: Vec<Record> = sessions
            .iter()
            .map(|session| Record::Session(Box::new(session.clone())))
            .chain(callbacks.values().cloned().map(Record::Callback))
            .collect();
        let mut books = Self {
            journal: Journal::rewrite(path, &records)?,
            sessions: Vec::with_capacity(sessions.len()),
            by_reference: HashMap::new(),
            by_key: HashMap::new(),
            by_token: HashMap::new(),
            by_attempt: HashMap::new(),
            by_part: HashMap::new(),
            by_refund_key: HashMap::new(),
            underway: BTreeSet::new(),
            next_callback: callbacks
                .keys()
                .next_back()
                .map_or(0, |last| last.saturating_add(1)),
            callbacks,
        };
        sessions.into_iter().for_each(|session| books.put(session));
        Ok(books)
    }

    /// Writes payments and the callbacks about them to the disk, then shows them.
    pub(crate) fn commit(
        &mut self,
        sessions: Vec<Session>,
        callbacks: Vec<Callback>,
    ) -> Result<(), SimError> {
        let boxed = |session: &Session| Record::Session(Box::new(session.clone()));
        let mut records: Vec<Record> = sessions.iter().map(boxed).collect();
        records.extend(callbacks.iter().cloned().map(Record::Callback));
        let overflow = (self.callbacks.len() + callbacks.len()).saturating_sub(MOST_CALLBACKS);
        let given_up: Vec<u64> = self.callbacks.keys().take(overflow).copied().collect();
        records.extend(given_up.iter().copied().map(Record::Done));
        self.journal.append(&records)?;
        sessions.into_iter().for_each(|session| self.put(session));
        for item in callbacks {
            self.next_callback = self.next_callback.max(item.number.saturating_add(1));
            self.callbacks.insert(item.number, item);
        }
        for number in given_up {
            self.callbacks.remove(&number);
        }
        Ok(())
    }

    /// Notes that a callback was delivered or given up (`None`), or waits longer.
    pub(crate) fn settle(&mut self, number: u64, again: Option<Callback>) -> Result<(), SimError> {
        match again {
            Some(item) => {
                self.journal.append(&[Record::Callback(item.clone())])?;
                self.callbacks.insert(number, item);
            }
            None => {
                self.journal.append(&[Record::Done(number)])?;
                self.callbacks.remove(&number);
            }
        }
        Ok(())
    }

    fn put(&mut self, session: Session) {
        let known = self.by_reference.get(&session.reference).copied();
        let at = known.unwrap_or(self.sessions.len());
        if session.coming().next().is_some() {
            self.underway.insert(at);
        } else {
            self.underway.remove(&at);
        }
        for id in session.part_ids() {
            if !self.by_part.contains_key(id) {
                self.by_part.insert(id.to_owned(), at);
            }
        }
        let asked = session
            .refunds
            .iter()
            .filter_map(|made| made.asked.as_ref());
        for key in asked.filter_map(|asked| asked.key.as_ref()) {
            self.by_refund_key.insert(key.clone(), at);
        }
        if let Some(old) = self.sessions.get_mut(at) {
            *old = session;
            return;
        }
        self.by_reference.insert(session.reference.clone(), at);
        self.by_key.insert(session.key.clone(), at);
        self.by_token.insert(session.token.clone(), at);
        self.by_attempt
            .entry(session.attempt_id.clone())
            .or_default()
            .push(at);
        self.sessions.push(session);
    }

    /// Whether no further payment fits.
    pub(crate) fn is_full(&self) -> bool {
        self.sessions.len() >= MOST_SESSIONS
    }

    /// The number for the next callback; one transaction may use it and those after it.
    pub(crate) fn next_callback(&self) -> u64 {
        self.next_callback
    }

    pub(crate) fn by_reference(&self, reference: &str) -> Option<&Session> {
        self.sessions.get(*self.by_reference.get(reference)?)
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<&Session> {
        self.sessions.get(*self.by_key.get(key)?)
    }

    pub(crate) fn by_token(&self, token: &str) -> Option<&Session> {
        self.sessions.get(*self.by_token.get(token)?)
    }

    pub(crate) fn by_part(&self, id: &str) -> Option<&Session> {
        self.sessions.get(*self.by_part.get(id)?)
    }

    /// The payment that was refunded under that idempotency key.
    pub(crate) fn by_refund_key(&self, key: &str) -> Option<&Session> {
        self.sessions.get(*self.by_refund_key.get(key)?)
    }

    /// Every payment with a refund, oldest first.
    pub(crate) fn refunded(&self) -> Vec<Session> {
        let known = self.sessions.iter().filter(|session| !session.forgotten);
        let refunded = known.filter(|session| !session.refunds.is_empty());
        refunded.cloned().collect()
    }

    /// Every payment with that merchant reference, oldest first.
    pub(crate) fn by_attempt(&self, attempt_id: &str) -> Vec<Session> {
        let found = self
            .by_attempt
            .get(attempt_id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        found
            .iter()
            .filter_map(|&at| self.sessions.get(at))
            .cloned()
            .collect()
    }

    /// At most so many payments from the newest on, or from that one on to older ones; none where there
    /// is no such one.
    pub(crate) fn newest(&self, from: Option<&str>, most: usize) -> Option<Vec<Session>> {
        let end = match from {
            Some(reference) => self.by_reference.get(reference)? + 1,
            None => self.sessions.len(),
        };
        let older = self.sessions.get(..end)?;
        let known = older.iter().rev().filter(|session| !session.forgotten);
        Some(known.take(most).cloned().collect())
    }

    /// What is under way is due from now on: it was taken in by an earlier process, whose clock may
    /// have been ahead.
    pub(crate) fn hurry(&mut self, now: u64) {
        for &at in &self.underway {
            if let Some(session) = self.sessions.get_mut(at) {
                session.hurry(now);
            }
        }
    }

    /// Payments of which something under way is due, or waits for the clock to be moved where it
    /// was.
    pub(crate) fn ripe(&self, now: u64, moved: bool) -> Vec<Session> {
        let due = |at: Option<u64>| at.map_or(moved, |at| at <= now);
        let ripe = self.under_way().filter(|session| session.coming().any(due));
        ripe.cloned().collect()
    }

    /// When the next of them is due.
    pub(crate) fn next_ripe(&self) -> Option<u64> {
        self.under_way().flat_map(Session::coming).flatten().min()
    }

    /// The same of what the merchant has asked for.
    pub(crate) fn confirms_at(&self) -> Option<u64> {
        let asked = self.under_way().filter(|session| session.is_asked());
        asked.flat_map(Session::coming).flatten().min()
    }

    fn under_way(&self) -> impl Iterator<Item = &Session> {
        self.underway.iter().filter_map(|&at| self.sessions.get(at))
    }

    /// Callbacks that are due, oldest first, at most `most`, without what is on its way already.
    pub(crate) fn due(&self, now: u64, most: usize, except: &dyn Fn(u64) -> bool) -> Vec<Callback> {
        let waiting = self.callbacks.values().filter(|item| !except(item.number));
        waiting
            .filter(|item| item.due_at <= now)
            .take(most)
            .cloned()
            .collect()
    }

    /// When the next callback falls due, without what is on its way already.
    pub(crate) fn next_due(&self, except: &dyn Fn(u64) -> bool) -> Option<u64> {
        let waiting = self.callbacks.values().filter(|item| !except(item.number));
        waiting.map(|item| item.due_at).min()
    }

    /// All payments as the books show them, oldest first.
    pub(crate) fn entries(&self, provider_id: &str, now: u64) -> Vec<BookEntry> {
        let entry = |session: &Session| {
            let money = session.received.as_ref().unwrap_or(&session.due);
            BookEntry {
                provider_id: provider_id.to_owned(),
                attempt_id: session.attempt_id.clone(),
                reference: session.reference.clone(),
                state: session.book_state(now),
                amount: Amount(money.value.0).to_string(),
                currency: money.currency.clone(),
                captured_times: session.captured_times,
                refunded: session.given_back().to_string(),
                refunds: session.refunds.iter().map(BookRefund::from).collect(),
            }
        };
        self.sessions.iter().map(entry).collect()
    }
}
