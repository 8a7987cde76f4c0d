//! Which methods are eligible now, with their eligible accounts in order.

use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{join_all, maybe_done};
use kassette_domain::id::{AccountId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::payment::{Purpose, Status};
use kassette_domain::routing::MethodDescription;
use kassette_store::{Fault, Listed, Paging, PaymentFilter};
use tokio::time::{Instant, timeout_at};

use crate::Gateway;
pub use crate::routing::RankRequest;
use crate::routing::{RankResult, Ranking};
use crate::routing_records::DecisionMade;
use crate::settings::Settings;

/// Number of payments read per page.
const PAGE: usize = 100;

/// A method with at least one eligible account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub method: MethodId,
    /// The module's description of itself.
    pub description: Arc<MethodDescription>,
    /// Eligible accounts, best first.
    pub providers: Vec<OfferedProvider>,
}

/// An account that would take the payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedProvider {
    pub id: AccountId,
    pub name: String,
    /// A note for the payer.
    pub verification_note: Option<String>,
    pub verification_url: Option<String>,
}

impl Gateway {
    /// Whether payments may name the method: it is in the specification, or has a module.
    pub fn knows(&self, method: MethodId) -> bool {
        method.is_specified() || self.modules().methods().contains(&method)
    }

    /// Description of the method's module, from live or else from test. `None` if no module serves the
    /// method.
    pub fn method(&self, method: MethodId) -> Option<Arc<MethodDescription>> {
        let module = self.modules().method(method, Environment::Live);
        let module = module.or_else(|| self.modules().method(method, Environment::Test))?;
        Some(Arc::clone(module.description()))
    }

    /// Finds a pending payment that uses the method. `None` if there is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn payment_under_way(&self, method: MethodId) -> Result<Option<PaymentId>, Fault> {
        let filter = PaymentFilter {
            status: Some(Status::Pending),
            // Older payments have expired.
            since: Some(self.now().before(self.settings().payment_life)),
            ..PaymentFilter::default()
        };
        let mut cursor = None;
        loop {
            let limit = PAGE;
            let paging = Paging { limit, cursor };
            let listed = self.store().payments(filter.clone(), paging).await?;
            let Listed::Page(page) = listed else {
                return Ok(None);
            };
            let mut payments = page.items.iter();
            if let Some(payment) = payments.find(|payment| payment.method == Some(method)) {
                return Ok(Some(payment.id));
            }
            if page.next.is_none() {
                return Ok(None);
            }
            cursor = page.next;
            // The store may return without waiting, so let other tasks run between two pages.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the eligible methods, each with its eligible accounts: first those of the specification, in
    /// its order, then all others. Omits a method whose module is missing, fails, or misses the deadline.
    ///
    /// # Errors
    /// The store's.
    pub async fn offers(&self, question: RankRequest<'_>) -> Result<Vec<Offer>, Fault> {
        let (configured, switches) = (self.configured(), self.switches().await?);
        let settings = &configured.settings;
        let deadline = Instant::now() + settings.listing_deadline;
        let eligible = self.eligible_accounts(&configured, &switches, &question, None);
        let is_recorded = self.takes_listing(settings.listing_sample_percent);
        let offered = |judged: RankResult| {
            let asked = match &judged {
                Ok(ranking) => ranking.asked(),
                Err(rejected) => &rejected.asked,
            };
            let made = || DecisionMade::new(asked.clone(), question.merchant.id, Purpose::Listing);
            self.shadow(asked, Purpose::Listing, made);
            if is_recorded {
                self.keep_decision(&made());
            }
            judged.ok().map(|ranking| offer(&ranking, settings))
        };
        let methods = self.modules().methods();
        let mut offers: Vec<Option<Offer>> = methods.iter().map(|_| None).collect();
        let mut slow = Vec::new();
        for (method, place) in methods.into_iter().zip(&mut offers) {
            let module = self.modules().method(method, question.environment);
            let Ok(query) = self.ranking_query(&eligible, module, method, &question, None) else {
                continue;
            };
            let query = match query.at_once() {
                Ok(judged) => {
                    *place = offered(judged);
                    continue;
                }
                Err(query) => query,
            };
            let mut ranking = Box::pin(maybe_done(timeout_at(deadline, query.wait())));
            // Starts now, concurrently with the methods that follow.
            poll_fn(|context| Poll::Ready(ranking.as_mut().poll(context).is_ready())).await;
            slow.push((method, place, ranking));
        }
        join_all(slow.iter_mut().map(|(.., ranking)| ranking.as_mut())).await;
        for (method, place, mut ranking) in slow {
            match ranking.as_mut().take_output() {
                Some(Ok(judged)) => *place = offered(judged),
                Some(Err(_)) | None => {
                    tracing::warn!(method.id = %method, "a method was late and is omitted");
                }
            }
        }
        Ok(offers.into_iter().flatten().collect())
    }
}

fn offer(ranking: &Ranking, settings: &Settings) -> Offer {
    let accounts = ranking.eligible();
    let providers = accounts.filter_map(|id| settings.accounts.get(id));
    Offer {
        method: ranking.description().id,
        description: Arc::clone(ranking.description()),
        providers: providers
            .map(|account| OfferedProvider {
                id: account.id.clone(),
                name: account.name.clone(),
                verification_note: account.verification_note.clone(),
                verification_url: account.verification_url.clone(),
            })
            .collect(),
    }
}
