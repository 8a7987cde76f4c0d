//! Index of payments in review. The store has no rows ordered by status, so these payments are searched once
//! after a start and then stored in memory.

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

/// Pause after a page, as a multiple of the time that the page took. The search uses at most a twentieth of a
/// core.
const PAUSES: u32 = 19;
/// How often changes by other nodes are read.
const HEARD_EVERY: Duration = Duration::from_secs(10);
/// Number of payments per page. The store reads some thousands for it.
const PAGE: usize = 100;

/// Payments known to be in review.
#[derive(Debug, Default)]
pub(crate) struct Reviews(tokio::sync::Mutex<ReviewIndex>);

#[derive(Debug, Default)]
struct ReviewIndex {
    /// Environment and creation time of each payment.
    waiting: HashMap<PaymentId, (Environment, Time)>,
    /// All payments from before the start have been searched.
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
    /// Updates the index after a payment has entered or left review.
    pub(crate) async fn note_review(&self, payment: &Payment) {
        // Steps may arrive out of order. Each call reads the current state, so the last one is right.
        let mut known = self.inner.reviews.0.lock().await;
        match self.store().payment(payment.id).await {
            Ok(Some(now)) => known.note(&now),
            _ => known.note(payment),
        }
    }

    /// Searches payments from before the start, newest first, in the background. Then reads regularly which
    /// payments other nodes have moved into or out of review.
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

    /// Applies the changes of other nodes. False if there are no other nodes.
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

    /// Adds the payments of one page. Returns the cursor of the next page.
    async fn find_some(&self, cursor: Option<String>) -> Result<Option<String>, Fault> {
        let filter = PaymentFilter {
            status: Some(Status::Review),
            ..PaymentFilter::default()
        };
        let limit = PAGE;
        // Held while the page is read, so that changes in the meantime are applied after it.
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
            // Cannot occur, because the store created the cursor.
            Listed::BadCursor => None,
        };
        known.whole |= next.is_none();
        Ok(next)
    }

    /// Number of payments in review in each environment. `None` until the payments from before the start have
    /// been searched.
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

    /// Number of live and of test payments in review, and the creation time of the oldest live one. `None`
    /// until the payments from before the start have been searched.
    pub async fn reviews_by_age(&self) -> Option<(usize, usize, Option<Time>)> {
        let known = self.inner.reviews.0.lock().await;
        let of = |environment| {
            let waiting = known.waiting.values();
            waiting.filter(move |(of, _)| *of == environment)
        };
        let live = || of(Environment::Live);
        let counts = (live().count(), of(Environment::Test).count());
        let oldest = live().map(|(_, made)| *made).min();
        known.whole.then_some((counts.0, counts.1, oldest))
    }

    /// The newest payments in review, up to `at_most`, and the total number. `None` until the payments from
    /// before the start have been searched.
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
