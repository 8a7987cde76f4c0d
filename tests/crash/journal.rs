//! The clients' journal: every request that was sent and everything that was acknowledged, written
//! down before a client sends the next request. It lives in the judge, which survives.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

/// A shop that clients work for.
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

/// A create request, repeated as often as a client likes.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: usize,
    pub(crate) shop: usize,
    pub(crate) live: bool,
    pub(crate) direct: bool,
    pub(crate) order_id: String,
    pub(crate) body: String,
    /// In which life of the server it was first sent.
    pub(crate) life: usize,
    pub(crate) told: Mutex<Told>,
}

/// What was acknowledged about a payment.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) id: Option<String>,
    /// How often 201 was said.
    pub(crate) made: usize,
    /// What never changes.
    pub(crate) fixed: Option<Value>,
    /// Status and settlement as last seen, and when.
    pub(crate) seen: Option<((String, String), Instant)>,
    /// Lines of the timeline that were seen, and a hash of them.
    pub(crate) timeline: (usize, u64),
    /// Events that were seen, and a hash of their ids.
    pub(crate) events: (usize, u64),
    /// Addresses of payer pages that starts have answered.
    pub(crate) redirects: BTreeSet<String>,
    /// Pages on which the vendor has acknowledged an outcome, in order.
    pub(crate) outcomes: Vec<(String, &'static str)>,
    /// What an operator was told to have decided.
    pub(crate) decided: Vec<&'static str>,
    /// Refunds that were asked for, in order.
    pub(crate) refunds: Vec<RefundAsked>,
}

/// A refund that was asked for, repeated as often as a client likes.
#[derive(Clone, Debug)]
pub(crate) struct RefundAsked {
    pub(crate) body: String,
    /// What was said of it, as last seen, and when.
    pub(crate) told: Option<(Value, Instant)>,
}

#[derive(Default)]
pub(crate) struct Journal {
    entries: RwLock<Vec<Arc<Entry>>>,
    /// Entries about which something was said or sent since they were last judged.
    touched: Mutex<BTreeSet<usize>>,
    /// Which payment an attempt's id or a vendor's reference belongs to.
    owners: Mutex<HashMap<String, usize>>,
}

impl Journal {
    /// Writes a request down before it is sent.
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

    /// What is to be judged now.
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

    /// Whether an attempt's id or a reference is this payment's and no other's.
    pub(crate) fn owns(&self, what: String, entry: &Entry) -> bool {
        *self.owners.lock().entry(what).or_insert(entry.number) == entry.number
    }
}

impl Entry {
    /// Notes what a create, a replay or a read said that was asked at `sent`.
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
                // Both were under way at once: which is the newer cannot be told.
                return Ok(());
            }
            if let Some(wrong) = crate::laws::went_back(before, &now) {
                return Err(format!("{id}: {wrong}"));
            }
        }
        told.seen = Some((now, Instant::now()));
        Ok(())
    }

    /// Notes what was said of a refund that was asked about at `sent`: it is one, and its state goes on and
    /// never back.
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

    /// The status as last seen.
    pub(crate) fn status(&self) -> Option<String> {
        let told = self.told.lock();
        told.seen.as_ref().map(|((status, _), _)| status.clone())
    }

    /// The id, once it was told.
    pub(crate) fn id(&self) -> Option<String> {
        self.told.lock().id.clone()
    }
}

/// What never changes of a payment. Its address names the listener of the day, its token stays.
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
