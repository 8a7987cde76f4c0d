//! Payments that wait for a person. No row of the store is in the order of their status, so they are looked
//! for once after a start and kept in memory from then on.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
use kassette_domain::payment::{Payment, Status};
use kassette_domain::time::Time;
use kassette_store::{Fault, Listed, Paging, PaymentFilter};
use tokio::time::Instant;

use crate::Gateway;
use crate::workers::FAULT_PAUSE;

/// The pause after a page, as a multiple of what it took: looking takes a twentieth of a core at most.
const PAUSES: u32 = 19;
/// How often it is looked what other nodes have done.
const HEARD_EVERY: Duration = Duration::from_secs(10);
/// Payments of one page; some thousands are looked at for it.
const PAGE: usize = 100;

/// Those that are known.
#[derive(Debug, Default)]
pub(crate) struct Reviews(tokio::sync::Mutex<ReviewIndex>);

#[derive(Debug, Default)]
struct ReviewIndex {
    /// Each with where it is and when it was made.
    waiting: HashMap<PaymentId, (Environment, Time)>,
    /// All payments of before the start were looked at.
    whole: bool,
}

impl ReviewIndex {
    fn note(&mut self, payment: &Payment) {
        match payment.status {
            Status::Review => {
                let known = (payment.environment, payment.created_at);
                self.waiting.insert(payment.id, known)
            }
            _ => self.waiting.remove(&payment.id),
        };
    }
}

impl Gateway {
    /// A payment went into review, or out of it.
    pub(crate) async fn note_review(&self, payment: &Payment) {
        // Steps may arrive out of order. Each reads the current state, so the last to arrive is right.
        let mut known = self.inner.reviews.0.lock().await;
        match self.store().payment(payment.id).await {
            Ok(Some(now)) => known.note(&now),
            _ => known.note(payment),
        }
    }

    /// Looks for those of before the start, newest first, beside everything else; then for what other nodes have put
    /// into review, or out of it.
    pub(crate) async fn find_reviews(&self) {
        self.find_all().await;
        loop {
            match self.hear_of_others().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => {
                    tracing::warn!(error = %fault, "payments in review at other nodes are not known");
                }
            }
            tokio::time::sleep(HEARD_EVERY).await;
        }
    }

    /// Takes in what other nodes have put into review, or out of it; false where there can be none.
    async fn hear_of_others(&self) -> Result<bool, Fault> {
        let Some(told) = self.store().reviewed().await? else {
            return Ok(false);
        };
        let told: HashSet<_> = told.into_iter().collect();
        let known: HashSet<_> = {
            let known = self.inner.reviews.0.lock().await;
            known.waiting.keys().copied().collect()
        };
        for id in told.symmetric_difference(&known) {
            if let Some(payment) = self.store().payment(*id).await? {
                self.note_review(&payment).await;
            }
        }
        Ok(true)
    }

    async fn find_all(&self) {
        let mut cursor = None;
        loop {
            let began = Instant::now();
            match self.find_some(cursor.clone()).await {
                Ok(None) => return,
                Ok(next) => {
                    cursor = next;
                    tokio::time::sleep(began.elapsed() * PAUSES).await;
                }
                Err(fault) => {
                    tracing::warn!(error = %fault, "payments in review are not counted yet");
                    tokio::time::sleep(FAULT_PAUSE).await;
                }
            }
        }
    }

    /// Notes those of one page; where the next one begins.
    async fn find_some(&self, cursor: Option<String>) -> Result<Option<String>, Fault> {
        let filter = PaymentFilter {
            status: Some(Status::Review),
            ..PaymentFilter::default()
        };
        let limit = PAGE;
        // Held while the page is read: what changes meanwhile is noted after it.
        let mut known = self.inner.reviews.0.lock().await;
        let next = match self
            .store()
            .payments(filter, Paging { limit, cursor })
            .await?
        {
            Listed::Page(page) => {
                page.items.iter().for_each(|payment| known.note(payment));
                page.next
            }
            // The store's own cursor is one of its own.
            Listed::BadCursor => None,
        };
        known.whole |= next.is_none();
        Ok(next)
    }

    /// How many payments wait for a person in each environment; none while those of before the start are
    /// looked for.
    pub(crate) async fn reviews(&self) -> Option<[(Environment, usize); 2]> {
        let known = self.inner.reviews.0.lock().await;
        let count = |environment| {
            let of = known.waiting.values().filter(|(of, _)| *of == environment);
            (environment, of.count())
        };
        known
            .whole
            .then(|| [Environment::Live, Environment::Test].map(count))
    }

    /// The newest payments that wait for a person, and how many do in all; none while those of before the
    /// start are looked for.
    ///
    /// # Errors
    /// The store's.
    pub async fn in_review(
        &self,
        at_most: usize,
    ) -> Result<Option<(Vec<Arc<Payment>>, usize)>, Fault> {
        let (mut newest, count) = {
            let known = self.inner.reviews.0.lock().await;
            if !known.whole {
                return Ok(None);
            }
            let each = known.waiting.iter();
            let all: Vec<_> = each.map(|(id, (_, made))| (*made, *id)).collect();
            let count = all.len();
            (all, count)
        };
        newest.sort_unstable_by(|one, other| other.cmp(one));
        let mut payments = Vec::new();
        for (_, id) in newest.into_iter().take(at_most) {
            let payment = self.store().payment(id).await?;
            payments.extend(payment.filter(|payment| payment.status == Status::Review));
        }
        Ok(Some((payments, count)))
    }
}
