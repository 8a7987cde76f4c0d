//! The clients' journal: each request sent and each response, recorded before the client's next request. It is in
//! the memory of the test process, which survives the kills.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

/// A merchant whose API the clients use.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    pub(crate) id: u64,
    pub(crate) test_key: String,
    pub(crate) live_key: String,
}

impl Shop {
    pub(crate) fn key(&self, live: bool) -> &str {
        if live { &self.live_key } else { &self.test_key }
    }
}

/// A create request, which clients may repeat.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: usize,
    pub(crate) shop: usize,
    pub(crate) live: bool,
    pub(crate) direct: bool,
    pub(crate) order_id: String,
    pub(crate) body: String,
    /// Number of the server's life in which it was first sent.
    pub(crate) life: usize,
    pub(crate) told: Mutex<Told>,
}

/// Responses about a payment.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) id: Option<String>,
    /// Number of 201 responses.
    pub(crate) made: usize,
    /// Fields that never change.
    pub(crate) fixed: Option<Value>,
    /// Latest status and settlement status, and the time of the response.
    pub(crate) seen: Option<((String, String), Instant)>,
    /// Length and hash of the timeline as last seen.
    pub(crate) timeline: (usize, u64),
    /// Number of events last seen, and a hash of their IDs.
    pub(crate) events: (usize, u64),
    /// Addresses of payer pages in responses to starts.
    pub(crate) redirects: BTreeSet<String>,
    /// Pages on which the provider has acknowledged an outcome, in order.
    pub(crate) outcomes: Vec<(String, &'static str)>,
    /// An operator's acknowledged decisions.
    pub(crate) decided: Vec<&'static str>,
    /// Requested refunds, in order.
    pub(crate) refunds: Vec<RefundAsked>,
}

/// A refund request, which clients may repeat.
#[derive(Clone, Debug)]
pub(crate) struct RefundAsked {
    pub(crate) body: String,
    /// Latest response, and its time.
    pub(crate) told: Option<(Value, Instant)>,
}

#[derive(Default)]
pub(crate) struct Journal {
    entries: RwLock<Vec<Arc<Entry>>>,
    /// Entries with requests or responses since the last check.
    touched: Mutex<BTreeSet<usize>>,
    /// Entry that an attempt ID or provider reference belongs to.
    owners: Mutex<HashMap<String, usize>>,
}

impl Journal {
    /// Records a request before it is sent.
    pub(crate) fn enter(&self, make: impl FnOnce(usize) -> Entry) -> Arc<Entry> {
        let mut entries = self.entries.write();
        let entry = Arc::new(make(entries.len()));
        entries.push(Arc::clone(&entry));
        drop(entries);
        self.touch(&entry);
        entry
    }

    pub(crate) fn touch(&self, entry: &Entry) {
        self.touched.lock().insert(entry.number);
    }

    /// Entries to check now. Empties the set.
    pub(crate) fn take_touched(&self) -> Vec<Arc<Entry>> {
        let touched = std::mem::take(&mut *self.touched.lock());
        let entries = self.entries.read();
        touched.iter().map(|at| Arc::clone(&entries[*at])).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.read().len()
    }

    pub(crate) fn get(&self, number: usize) -> Option<Arc<Entry>> {
        self.entries.read().get(number).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.read().clone()
    }

    /// Whether an attempt ID or reference belongs to this payment only.
    pub(crate) fn owns(&self, what: String, entry: &Entry) -> bool {
        *self.owners.lock().entry(what).or_insert(entry.number) == entry.number
    }
}

impl Entry {
    /// Records a payment's state from a response to a request sent at `sent`. Fails if the state contradicts
    /// earlier ones.
    pub(crate) fn hear(&self, payment: &Value, made: bool, sent: Instant) -> Result<(), String> {
        let mut told = self.told.lock();
        let id = payment["payment_id"].as_str().ok_or("no payment_id")?;
        let known = told.id.get_or_insert_with(|| id.to_owned());
        if known != id {
            return Err(format!("two payments for one key: {known} and {id}"));
        }
        if made {
            told.made += 1;
            if told.made > 1 {
                return Err(format!("{id} was created twice"));
            }
        }
        let fixed = fixed(payment, self.direct);
        let known = told.fixed.get_or_insert_with(|| fixed.clone());
        if *known != fixed {
            return Err(format!("{fixed}, acknowledged as {known}"));
        }
        let text = |name: &str| payment[name].as_str().unwrap_or_default().to_owned();
        let now = (text("status"), text("settlement_status"));
        if let Some((before, when)) = &told.seen {
            if *when >= sent {
                // The two requests were concurrent, so the order of their states is unknown.
                return Ok(());
            }
            if let Some(wrong) = crate::laws::went_back(before, &now) {
                return Err(format!("{id}: {wrong}"));
            }
        }
        told.seen = Some((now, Instant::now()));
        Ok(())
    }

    /// Records a refund's state from a response to a request sent at `sent`. Fails if the refund is another one or
    /// its state has moved back.
    pub(crate) fn hear_refund(
        &self,
        nth: usize,
        refund: &Value,
        sent: Instant,
    ) -> Result<(), String> {
        let mut told = self.told.lock();
        let asked = &mut told.refunds[nth];
        if let Some((before, when)) = &asked.told {
            if before["refund_id"] != refund["refund_id"] {
                return Err(format!("{}: made twice", asked.body));
            }
            if *when >= sent {
                return Ok(());
            }
            if let Some(wrong) = crate::laws::refund_went_back(before, refund) {
                return Err(format!("{}: {wrong}", asked.body));
            }
        }
        asked.told = Some((refund.clone(), Instant::now()));
        Ok(())
    }

    pub(crate) fn status(&self) -> Option<String> {
        let told = self.told.lock();
        told.seen.as_ref().map(|((status, _), _)| status.clone())
    }

    /// ID of the payment. `None` until a response contained it.
    pub(crate) fn id(&self) -> Option<String> {
        self.told.lock().id.clone()
    }
}

/// Fields of a payment that never change. The checkout URL's address differs between starts, but not its token.
fn fixed(payment: &Value, direct: bool) -> Value {
    let url = payment["checkout_url"].as_str().unwrap_or_default();
    let method = if direct {
        payment["payment_method"].clone()
    } else {
        Value::Null
    };
    json!([
        payment["payment_id"],
        payment["order_id"],
        payment["amount"],
        payment["currency"],
        payment["usd_amount"],
        payment["test_mode"],
        method,
        url.rsplit('/').next(),
    ])
}
