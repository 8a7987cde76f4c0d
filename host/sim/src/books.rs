//! An account's books: its payments and the callbacks to be delivered.
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    afterwards::DisputeState,
    config::SimError,
    journal::Journal,
    money::Amount,
    refund::{Refund, RefundState},
    rfc3339,
    session::{Session, State},
    vendor::Vendor,
};

/// Maximum number of payments of an account. A load test creates some hundred thousand with about 1 KiB each.
pub(crate) const MOST_SESSIONS: usize = 1_000_000;

/// Maximum number of queued callbacks of an account. Only reached if the gateway does not listen; then the oldest
/// are given up.
pub(crate) const MOST_CALLBACKS: usize = 10_000;

/// One entry of the books in the JSON format of `dev/books`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookEntry {
    pub provider_id: String,
    /// The merchant's reference: the gateway's attempt id.
    pub attempt_id: String,
    /// The provider's id.
    pub reference: String,
    /// State; an expired payment is shown as closed.
    pub state: State,
    /// The captured amount, or the amount due if nothing was captured, as `49.90`.
    pub amount: String,
    /// ISO 4217 code of that amount.
    pub currency: String,
    /// Number of captures.
    pub captured_times: u32,
    /// The amount of succeeded refunds and lost disputes, as `0.00`.
    pub refunded: String,
    /// All refunds, oldest first.
    #[serde(default)]
    pub refunds: Vec<BookRefund>,
    /// All movements of money, oldest first.
    #[serde(default)]
    pub movements: Vec<BookMovement>,
}

/// One refund in the books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookRefund {
    /// The provider's id.
    pub id: String,
    /// The merchant's reference: the gateway's refund id. `None` for a refund made in the provider's dashboard.
    pub refund_id: Option<String>,
    /// As `49.90`, in the received currency.
    pub amount: String,
    pub state: RefundState,
}

impl From<&Refund> for BookRefund {
    fn from(refund: &Refund) -> Self {
        Self {
            id: refund.id.clone(),
            refund_id: refund.order().map(str::to_owned),
            amount: refund.amount.to_string(),
            state: match refund.state {
                RefundState::Cancelled => RefundState::Failed,
                state => state,
            },
        }
    }
}

/// One movement of money in the books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookMovement {
    /// In the terms of the gateway's ledger: `captured`, `capture_reversed`, `refunded`, `refund_reversed`,
    /// `funds_withdrawn`, `funds_reinstated`, `provider_fee`.
    pub kind: String,
    /// The provider's id of the payment, refund or dispute that it is about.
    pub id: String,
    /// As `49.90`.
    pub amount: String,
    /// ISO 4217.
    pub currency: String,
    /// Time, as `2027-01-15T08:00:00Z`.
    pub at: String,
}

/// All movements of a payment, oldest first.
fn movements(session: &Session, vendor: &dyn Vendor) -> Vec<BookMovement> {
    let Some(received) = &session.received else {
        return Vec::new();
    };
    let taken_at = session.captured_at.unwrap_or(session.updated_at);
    let mut all: Vec<(u64, &str, &str, Amount)> =
        vec![(taken_at, "captured", &session.reference, received.value)];
    let fee = vendor.fee(session, received.value);
    all.push((taken_at, "provider_fee", &session.reference, fee));
    if let Some(at) = session.capture_failed_at {
        all.push((at, "capture_reversed", &session.reference, received.value));
    }
    for refund in &session.refunds {
        if let Some(at) = refund.made_at {
            all.push((at, "refunded", &refund.id, refund.amount));
            if refund.has_failed() {
                all.push((
                    refund.updated_at,
                    "refund_reversed",
                    &refund.id,
                    refund.amount,
                ));
            }
        }
    }
    for dispute in session.disputes.iter().filter(|dispute| !dispute.inquiry) {
        let (lost, won) = (
            dispute.state == DisputeState::Lost,
            dispute.state == DisputeState::Won,
        );
        let gone_at = match vendor.withdraws_at_once() {
            true => Some(dispute.opened_at),
            false => lost.then_some(dispute.updated_at),
        };
        if let Some(at) = gone_at {
            all.push((at, "funds_withdrawn", &dispute.id, dispute.amount));
            if won {
                all.push((
                    dispute.updated_at,
                    "funds_reinstated",
                    &dispute.id,
                    dispute.amount,
                ));
            }
        }
    }
    all.retain(|(_, _, _, amount)| amount.0 > 0);
    all.sort_by_key(|(at, ..)| *at);
    let told = |(at, kind, id, amount): (u64, &str, &str, Amount)| BookMovement {
        kind: kind.to_owned(),
        id: id.to_owned(),
        amount: amount.to_string(),
        currency: received.currency.clone(),
        at: rfc3339::utc(at),
    };
    all.into_iter().map(told).collect()
}

/// A callback to be delivered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Callback {
    /// Sequence number, in the order of the events.
    pub(crate) number: u64,
    /// The exact bytes to sign and send.
    pub(crate) body: String,
    pub(crate) media_type: String,
    /// Query of the destination address.
    #[serde(default)]
    pub(crate) query: Option<String>,
    /// Time of the delivery on the injected clock, in milliseconds since 1970.
    pub(crate) due_at: u64,
    /// Number of failed deliveries.
    pub(crate) failures: u32,
    /// Whether to sign it with a secret that is not the account's.
    pub(crate) forged: bool,
}

/// One line of the journal. The newest line about a payment or a callback counts.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    Session(Box<Session>),
    #[serde(rename = "news")]
    Callback(Callback),
    /// The callback with this number was delivered or given up.
    Done(u64),
}

/// The books in memory, with the journal that persists them.
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
    /// Payments with pending changes.
    underway: BTreeSet<usize>,
    callbacks: BTreeMap<u64, Callback>,
    next_callback: u64,
}

impl Books {
    /// Reads the existing file, and replaces it by one without its history.
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

    /// Writes payments and the callbacks about them to the disk, then makes them visible.
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

    /// Records that a callback was delivered or given up (`None`), or is delayed.
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

    /// Whether the maximum number of payments is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.sessions.len() >= MOST_SESSIONS
    }

    /// The number of the next callback. One transaction may use it and the following ones.
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

    /// The payment with a refund under this idempotency key.
    pub(crate) fn by_refund_key(&self, key: &str) -> Option<&Session> {
        self.sessions.get(*self.by_refund_key.get(key)?)
    }

    /// All payments with a refund, oldest first.
    pub(crate) fn refunded(&self) -> Vec<Session> {
        let known = self.sessions.iter().filter(|session| !session.forgotten);
        let refunded = known.filter(|session| !session.refunds.is_empty());
        refunded.cloned().collect()
    }

    /// Every payment that the vendor holds for review, oldest first.
    pub(crate) fn held(&self) -> Vec<Session> {
        let held = |session: &&Session| session.held && !session.forgotten;
        self.sessions.iter().filter(held).cloned().collect()
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

    /// At most `most` payments from the newest, or from `from`, to older ones. `None` if `from` does not exist.
    pub(crate) fn newest(&self, from: Option<&str>, most: usize) -> Option<Vec<Session>> {
        let end = match from {
            Some(reference) => self.by_reference.get(reference)? + 1,
            None => self.sessions.len(),
        };
        let older = self.sessions.get(..end)?;
        let known = older.iter().rev().filter(|session| !session.forgotten);
        Some(known.take(most).cloned().collect())
    }

    /// Makes all pending changes due now. An earlier process accepted them, and its clock may have been ahead.
    pub(crate) fn hurry(&mut self, now: u64) {
        for &at in &self.underway {
            if let Some(session) = self.sessions.get_mut(at) {
                session.hurry(now);
            }
        }
    }

    /// Payments with a pending change that is due or, with `moved`, waits for a change of the clock.
    pub(crate) fn ripe(&self, now: u64, moved: bool) -> Vec<Session> {
        let due = |at: Option<u64>| at.map_or(moved, |at| at <= now);
        let ripe = self.under_way().filter(|session| session.coming().any(due));
        ripe.cloned().collect()
    }

    /// Time of the next pending change.
    pub(crate) fn next_ripe(&self) -> Option<u64> {
        self.under_way().flat_map(Session::coming).flatten().min()
    }

    /// Time of the next pending change of the payments with a pending request of the merchant.
    pub(crate) fn confirms_at(&self) -> Option<u64> {
        let asked = self.under_way().filter(|session| session.is_asked());
        asked.flat_map(Session::coming).flatten().min()
    }

    fn under_way(&self) -> impl Iterator<Item = &Session> {
        self.underway.iter().filter_map(|&at| self.sessions.get(at))
    }

    /// Callbacks that are due, oldest first, at most `most`, except those in flight.
    pub(crate) fn due(&self, now: u64, most: usize, except: &dyn Fn(u64) -> bool) -> Vec<Callback> {
        let waiting = self.callbacks.values().filter(|item| !except(item.number));
        waiting
            .filter(|item| item.due_at <= now)
            .take(most)
            .cloned()
            .collect()
    }

    /// Due time of the next callback, except those in flight.
    pub(crate) fn next_due(&self, except: &dyn Fn(u64) -> bool) -> Option<u64> {
        let waiting = self.callbacks.values().filter(|item| !except(item.number));
        waiting.map(|item| item.due_at).min()
    }

    /// All payments as the books show them, oldest first.
    pub(crate) fn entries(
        &self,
        provider_id: &str,
        vendor: &dyn Vendor,
        now: u64,
    ) -> Vec<BookEntry> {
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
                movements: movements(session, vendor),
            }
        };
        self.sessions.iter().map(entry).collect()
    }
}
