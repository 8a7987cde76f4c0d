//! Calls to a provider's module: the right version, bounded in time, measured.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::lifecycle::{PaymentAggregate, StartResult};
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::payment::Payment;
use kassette_domain::provider::{
    AttemptFacts, Payer, PayerAction, QueryFailure, QueryPurpose, Report, StartFailure, Started,
};
use kassette_domain::time::Time;
use kassette_store::Fault;
use tokio::time::Instant;

use crate::Gateway;
use crate::health::CallSample;
use crate::modules::{Access, Provider, VendorQuery};
use crate::permits::{Holder, Kind, Permit};

/// What a call may take beyond the module's own time before another task may claim the attempt:
/// storing what came of it.
const LEASE_MARGIN: Duration = Duration::from_secs(4);

/// What the vendor said about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryAnswer {
    Report(Box<Report>),
    /// It knows no such payment.
    Absent,
    /// No certain answer.
    Uncertain,
    /// It was not asked: too many calls are under way, or another node may be able to.
    Unasked,
}

impl Gateway {
    /// Until when an attempt is held by a call that begins now.
    pub(crate) fn lease(&self) -> Time {
        let deadline = self.configured().settings.provider_deadline;
        self.now().after(deadline + LEASE_MARGIN)
    }

    /// Until when a call may send that holds an attempt until a time. A process that stood still meanwhile sends
    /// nothing late; the margin is for clocks of other nodes that are ahead.
    pub(crate) fn not_after(&self, held: Time) -> Instant {
        // The monotonic time first: what stands still in between makes it earlier.
        let now = Instant::now();
        now + held.before(LEASE_MARGIN).since(self.now())
    }

    /// The module that started an attempt while it is kept, else the active one; later versions read
    /// earlier references.
    fn module_of(&self, attempt: &Attempt) -> Option<Arc<dyn Provider>> {
        self.modules()
            .provider_version(&attempt.slot, &attempt.digest)
            .or_else(|| self.modules().provider(attempt.slot.name()))
    }

    /// Who speaks to the vendor of an attempt, and with what.
    pub(crate) fn module_and_access(
        &self,
        attempt: &Attempt,
    ) -> Option<(Arc<dyn Provider>, Access)> {
        let module = self.module_of(attempt)?;
        let access = self.configured().access(&attempt.account, self.now())?;
        Some((module, access))
    }

    /// Whether another node runs something else than this one, and so may have an account or a module that this one has
    /// not. A new configuration reaches the nodes one after the other.
    ///
    /// # Errors
    /// The store's.
    pub async fn others_differ(&self) -> Result<bool, Fault> {
        if self.store().live_nodes() == 1 {
            return Ok(false);
        }
        let nodes = self.store().nodes().await?;
        let own = nodes.iter().find(|node| node.is_self);
        Ok(own.is_none_or(|own| {
            let mut infos = nodes.iter().map(|node| &node.info);
            infos.any(|info| !info.drift(&own.info).is_empty())
        }))
    }

    pub(crate) async fn merchant_name(
        &self,
        aggregate: &PaymentAggregate,
    ) -> Result<String, Fault> {
        let merchant = self.cached_merchant(aggregate.payment.merchant).await?;
        Ok(merchant
            .map(|merchant| merchant.name.clone())
            .unwrap_or_default())
    }

    /// A permit to start a payment at an account, or none after a short wait.
    pub(crate) async fn start_permit(
        &self,
        payment: &Payment,
        account: &AccountId,
    ) -> Option<Permit> {
        let holder = Holder {
            account: Some(account.clone()),
            merchant: Some(payment.merchant),
        };
        let permits = &self.inner.permits;
        let permit = permits.acquire(Kind::Start, payment.environment, holder);
        permit.await
    }

    /// Starts, or repeats the start of, an attempt that is held. Without a permit it waits for one. `limit` bounds
    /// the call beside the provider's own deadline.
    pub(crate) async fn call_start(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        permit: Option<Permit>,
        limit: Duration,
    ) -> Result<StartResult, Fault> {
        let Some((module, mut access)) = self.module_and_access(attempt) else {
            return Ok(StartResult::Unavailable(
                "no module serves the account".into(),
            ));
        };
        access.not_after = attempt.busy_until.map(|held| self.not_after(held));
        let payment = &aggregate.payment;
        self.have_recorded(&mut access, Some(payment.id));
        let permit = match permit {
            Some(permit) => Some(permit),
            None => self.start_permit(payment, &attempt.account).await,
        };
        let Some(_permit) = permit else {
            return Ok(StartResult::Unavailable(
                "too many calls for the account or the merchant are under way".into(),
            ));
        };
        let name = self.merchant_name(aggregate).await?;
        let configured = self.configured();
        let facts = configured.facts(&aggregate.payment, attempt, name);
        let limit = limit.min(configured.settings.provider_deadline);
        let since = Instant::now();
        let answer = tokio::time::timeout(limit, module.start(&access, &facts)).await;
        let result = match answer {
            // What it has sent stays sent.
            Err(_) => StartResult::Uncertain("no answer in time".into()),
            Ok(answer) => judged(answer),
        };
        let worked = matches!(result, StartResult::Open { .. } | StartResult::Declined(_));
        self.measure(attempt, true, worked, since.elapsed());
        self.tell_start(attempt, &result);
        Ok(result)
    }

    /// Asks the vendor about an attempt.
    pub(crate) async fn call_query(
        &self,
        aggregate: &PaymentAggregate,
        attempt: &Attempt,
        purpose: QueryPurpose,
        limit: Duration,
    ) -> Result<QueryAnswer, Fault> {
        let Some((module, mut access)) = self.module_and_access(attempt) else {
            tracing::error!(
                attempt.id = %attempt.id, provider.id = %attempt.account,
                "no module can be asked about the attempt"
            );
            return Ok(match self.others_differ().await? {
                true => QueryAnswer::Unasked,
                false => QueryAnswer::Uncertain,
            });
        };
        if purpose != QueryPurpose::Sync {
            access.not_after = attempt.busy_until.map(|held| self.not_after(held));
        }
        self.have_recorded(&mut access, Some(aggregate.payment.id));
        let permits = &self.inner.permits;
        let environment = aggregate.payment.environment;
        let permit = permits.acquire(Kind::Query, environment, (&attempt.account).into());
        let Some(_permit) = permit.await else {
            return Ok(QueryAnswer::Unasked);
        };
        let name = self.merchant_name(aggregate).await?;
        let configured = self.configured();
        let question = VendorQuery {
            attempt: configured.facts(&aggregate.payment, attempt, name),
            reference: attempt.reference().map(str::to_owned),
            purpose,
            returned: attempt.returned.clone(),
        };
        let limit = limit.min(configured.settings.provider_deadline);
        let since = Instant::now();
        let answer = tokio::time::timeout(limit, module.query(&access, &question)).await;
        let (word, why) = match answer {
            Ok(Ok(Ok(report))) => (QueryAnswer::Report(Box::new(report)), None),
            Ok(Ok(Err(QueryFailure::Absent))) => (QueryAnswer::Absent, None),
            Ok(Ok(Err(QueryFailure::Unavailable(why)))) => (QueryAnswer::Uncertain, Some(why)),
            Ok(Err(failed)) => (QueryAnswer::Uncertain, Some(failed.to_string())),
            Err(_) => (QueryAnswer::Uncertain, Some("no answer in time".to_owned())),
        };
        let took = since.elapsed();
        self.measure(attempt, false, why.is_none(), took);
        if let Some(why) = why
            && let Some(left_out) = self.inner.lines.queries.line()
        {
            tracing::warn!(
                attempt.id = %attempt.id, provider.id = %attempt.account, query.purpose = ?purpose,
                query.duration_ms = took.as_millis(), query.detail = %why,
                left_out, "the provider gave no answer about an attempt"
            );
        }
        Ok(word)
    }

    /// Asks the vendor about an attempt of ours that the store does not know: no more than its id is
    /// certain. As often as a notice about one that is known has it asked.
    pub(crate) async fn ask_about_unknown(
        &self,
        account: &AccountId,
        id: AttemptId,
        reference: Option<String>,
    ) -> QueryAnswer {
        let now = self.now();
        let begun = {
            let mut asked = self.inner.query_throttle.lock();
            asked.next(id, now) <= now && asked.begin(id, false, now)
        };
        if !begun {
            return QueryAnswer::Uncertain;
        }
        let answer = self.query_unknown(account, id, reference).await;
        self.inner.query_throttle.lock().end(id);
        answer.unwrap_or(QueryAnswer::Uncertain)
    }

    async fn query_unknown(
        &self,
        account: &AccountId,
        id: AttemptId,
        reference: Option<String>,
    ) -> Option<QueryAnswer> {
        let configured = self.configured();
        let access = configured.access(account, self.now())?;
        let module = self.modules().provider(configured.slot(account)?.name())?;
        let service = module.description().services.first()?;
        let permits = &self.inner.permits;
        let environment = access.account.environment;
        let permit = permits.acquire(Kind::Query, environment, account.into());
        let _permit = permit.await?;
        let currency = service.currencies.first().copied().unwrap_or(Currency::USD);
        let public_url = &configured.settings.public_url;
        let question = VendorQuery {
            attempt: AttemptFacts {
                id,
                method: service.method,
                due: Money {
                    amount: Minor(0),
                    currency,
                },
                order: String::new(),
                merchant: String::new(),
                return_url: public_url.clone(),
                cancel_url: public_url.clone(),
                expires: self.now(),
                payer: Payer::default(),
                answers: Vec::new(),
            },
            reference,
            purpose: QueryPurpose::Sync,
            returned: None,
        };
        let limit = configured.settings.provider_deadline;
        match tokio::time::timeout(limit, module.query(&access, &question)).await {
            Ok(Ok(Ok(report))) => Some(QueryAnswer::Report(Box::new(report))),
            Ok(Ok(Err(QueryFailure::Absent))) => Some(QueryAnswer::Absent),
            _ => None,
        }
    }

    pub(crate) fn measure(&self, attempt: &Attempt, start: bool, worked: bool, took: Duration) {
        let call = CallSample {
            start,
            worked,
            took,
        };
        self.note_call(&attempt.account, call);
    }

    fn tell_start(&self, attempt: &Attempt, result: &StartResult) {
        let (outcome, why) = match result {
            StartResult::Open {
                action: PayerAction::Ask(_),
                ..
            } => ("ask", None),
            StartResult::Open { .. } => ("open", None),
            StartResult::Declined(why) => ("declined", Some(why)),
            StartResult::Unavailable(why) => ("unavailable", Some(why)),
            StartResult::Uncertain(why) => ("uncertain", Some(why)),
        };
        let account = attempt.account.as_str().to_owned();
        metrics::counter!(
            "kassette_starts_total",
            "provider" => account, "outcome" => outcome,
            "environment" => self.environment_of(&attempt.account)
        )
        .increment(1);
        if let Some(left_out) = self.inner.lines.starts.line() {
            tracing::info!(
                attempt.id = %attempt.id, payment.id = %attempt.payment,
                provider.id = %attempt.account, start.outcome = outcome,
                start.detail = why.map(String::as_str).unwrap_or_default(), left_out,
                "a start was answered"
            );
        }
    }
}

/// What a start means for the payment.
fn judged(result: Result<Started, StartFailure>) -> StartResult {
    match result {
        Ok(Started::Open(open)) => StartResult::Open {
            reference: Some(open.reference),
            action: open.action,
            until: open.until,
        },
        Ok(Started::Ask(questions)) => StartResult::Open {
            reference: None,
            action: PayerAction::Ask(questions),
            until: None,
        },
        Err(StartFailure::Declined(why)) => StartResult::Declined(why),
        Err(StartFailure::Unavailable(why)) => StartResult::Unavailable(why),
        Err(StartFailure::Uncertain(why)) => StartResult::Uncertain(why),
    }
}
