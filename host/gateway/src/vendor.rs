//! Calls to provider modules: selects the version, limits the time and records metrics.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Attempt;
use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{NewWork, PaymentAggregate, StartResult};
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::payment::Payment;
use kassette_domain::provider::{
    AttemptFacts, Payer, PayerAction, ProviderStatus, QueryFailure, QueryPurpose, Report,
    StartFailure, Started,
};
use kassette_domain::time::Time;
use kassette_domain::work::{WorkKey, WorkKind};
use kassette_runtime::{CallError, Contact};
use kassette_store::Fault;
use tokio::time::{Instant, timeout_at};

use crate::Gateway;
use crate::health::{CallSample, Refused};
use crate::modules::{Access, Provider, ProviderQuery};
use crate::permits::{Holder, Kind, Permit};

/// Time, beyond the provider deadline, until another task may claim the attempt: for storing the outcome of
/// the call.
const LEASE_MARGIN: Duration = Duration::from_secs(4);

/// Maximum `Retry-After` of a provider for which a start is repeated (decisions, "start").
const RETRY_AFTER_MOST: Duration = Duration::from_secs(5);
/// Minimum remaining time for another call to a provider.
const CALL_LEAST: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryAnswer {
    Report(Box<Report>),
    /// The provider does not know the payment.
    Absent,
    /// No certain answer.
    Uncertain,
    /// The provider was not called: too many calls are running, or only another node may be able to call it.
    Unasked,
}

impl Gateway {
    /// Time until which a call that starts now holds an attempt.
    pub(crate) fn lease(&self) -> Time {
        let deadline = self.configured().settings.provider_deadline;
        self.now().after(deadline + LEASE_MARGIN)
    }

    /// Time after which a call must not send requests, if it holds the attempt until `held`. A process that
    /// was suspended sends nothing too late. The margin covers clocks of other nodes that are ahead.
    pub(crate) fn not_after(&self, held: Time) -> Instant {
        // The monotonic time is read first: a suspension between the two reads makes the limit earlier.
        let now = Instant::now();
        now + held.before(LEASE_MARGIN).since(self.now())
    }

    /// The version that started an attempt while it is stored, otherwise the active one. Later versions can
    /// read earlier references.
    fn module_of(&self, attempt: &Attempt) -> Option<Arc<dyn Provider>> {
        self.modules()
            .provider_version(&attempt.slot, &attempt.digest)
            .or_else(|| {
                let account = self.settings().accounts.get(&attempt.account).cloned();
                let environment = account.map_or(Environment::Live, |account| account.environment);
                self.modules().provider(attempt.slot.name(), environment)
            })
    }

    /// The module for an attempt, with its access. `None` if no module or no usable account exists.
    pub(crate) fn module_and_access(
        &self,
        attempt: &Attempt,
    ) -> Option<(Arc<dyn Provider>, Access)> {
        let module = self.module_of(attempt)?;
        let access = self.configured().access(&attempt.account, self.now())?;
        Some((module, access))
    }

    /// Whether another node runs a different configuration or different modules, and so may have an account
    /// or a module that this node lacks. A new configuration reaches the nodes one after the other.
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

    /// Waits briefly for a permit to start a payment at an account. `None` if there is none.
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

    /// Starts a claimed attempt, or repeats its start. Waits for a permit if none is given. `limit` bounds
    /// the call in addition to the provider deadline.
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
        access.not_after = attempt.claim.busy_until().map(|held| self.not_after(held));
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
        let ends = since + limit;
        let start = start_at_most_twice(&*module, &access, &facts, ends);
        let answer = timeout_at(ends, start).await.ok();
        let worked = start_worked(answer.as_ref(), &access.contact);
        if let Some(worked) = worked {
            self.measure(attempt, true, worked, since.elapsed());
        }
        if let Some(answer) = &answer {
            self.note_terms(attempt, answer).await?;
        }
        let result = match answer {
            // Requests already sent stay sent.
            None => StartResult::Uncertain("no answer in time".into()),
            Some(Err(StartFailure::PageRefused { reference, page })) => {
                let question = ProviderQuery {
                    attempt: facts,
                    reference: Some(reference),
                    purpose: QueryPurpose::Cancel,
                    returned: None,
                };
                close_refused(&*module, &access, &question, &page, ends).await
            }
            Some(answer) => judged(answer),
        };
        self.tell_start(attempt, &result);
        Ok(result)
    }

    /// Records what the result of a start shows about the account: whether the method is activated there, and
    /// whether its pages are allowed.
    async fn note_terms(
        &self,
        attempt: &Attempt,
        answer: &Result<Started, StartFailure>,
    ) -> Result<(), Fault> {
        let measured = &self.inner.measured;
        let what = Refused {
            account: attempt.account.clone(),
            method: attempt.method,
            currency: attempt.due.currency,
        };
        let now = self.now();
        match answer {
            Ok(Started::Open(_)) => {
                measured.note_page(&attempt.account, None);
                if measured.method_taken(&what) {
                    self.store().close_work(refused_key(&what), now).await?;
                }
            }
            Err(StartFailure::PageRefused { page, .. }) => {
                measured.note_page(&attempt.account, Some(page));
            }
            Err(StartFailure::NotActivated(why)) if measured.method_refused(what.clone(), now) => {
                let settings = self.settings();
                let Some(account) = settings.accounts.get(&attempt.account) else {
                    return Ok(());
                };
                let line = refused_line(&what, why);
                self.store()
                    .open_work(line, account.environment, now)
                    .await?;
            }
            _ => {}
        }
        Ok(())
    }

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
            access.not_after = attempt.claim.busy_until().map(|held| self.not_after(held));
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
        let question = ProviderQuery {
            attempt: configured.facts(&aggregate.payment, attempt, name),
            reference: attempt.reference().map(str::to_owned),
            purpose,
            returned: attempt.returned.clone(),
        };
        let limit = limit.min(configured.settings.provider_deadline);
        let since = Instant::now();
        let answer = tokio::time::timeout(limit, module.query(&access, &question)).await;
        let is_late = matches!(answer, Err(_) | Ok(Err(CallError::Timeout)));
        let (word, why) = match answer {
            Ok(Ok(Ok(report))) => (QueryAnswer::Report(Box::new(report)), None),
            Ok(Ok(Err(QueryFailure::Absent))) => (QueryAnswer::Absent, None),
            Ok(Ok(Err(QueryFailure::Unavailable(why)))) => (QueryAnswer::Uncertain, Some(why)),
            Ok(Err(failed)) => (QueryAnswer::Uncertain, Some(failed.to_string())),
            Err(_) => (QueryAnswer::Uncertain, Some("no answer in time".to_owned())),
        };
        let took = since.elapsed();
        if why.is_none() {
            self.measure(attempt, false, true, took);
        } else if is_late || access.contact.failure().is_some() {
            self.measure(attempt, false, false, took);
        }
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

    /// Queries the provider about an attempt that the store does not contain, of which only the id is
    /// certain. Limited in the same way as queries that notices about known attempts cause.
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
        let slot = configured.slot(account)?;
        let environment = access.account.environment;
        let module = self.modules().provider(slot.name(), environment)?;
        let service = module.description().services.first()?;
        let permits = &self.inner.permits;
        let permit = permits.acquire(Kind::Query, environment, account.into());
        let _permit = permit.await?;
        let currency = service.currencies.first().copied().unwrap_or(Currency::USD);
        let public_url = &configured.settings.public_url;
        let question = ProviderQuery {
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

/// Starts an attempt, and repeats the start one time if the provider asked for a short wait.
async fn start_at_most_twice(
    module: &dyn Provider,
    access: &Access,
    facts: &AttemptFacts,
    ends: Instant,
) -> Result<Started, StartFailure> {
    let first = module.start(access, facts).await;
    let is_over = !matches!(
        first,
        Err(StartFailure::Unavailable(_) | StartFailure::Uncertain(_))
    );
    let wait = access.contact.take_retry_after();
    let in_time = |wait: &Duration| Instant::now() + *wait + CALL_LEAST < ends;
    let wait = wait.filter(|wait| *wait <= RETRY_AFTER_MOST && in_time(wait));
    let Some(wait) = wait.filter(|_| !is_over) else {
        return first;
    };
    tokio::time::sleep(wait).await;
    let second = module.start(access, facts).await;
    match (first, second) {
        // That the account cannot be used now is no information about the first start.
        (
            Err(StartFailure::Uncertain(why)),
            Err(StartFailure::Unavailable(_) | StartFailure::NotActivated(_)),
        ) => Err(StartFailure::Uncertain(why)),
        (_, second) => second,
    }
}

/// Whether a start counts for or against the account. `None` if it says nothing about it. `answer` is `None`
/// after a timeout.
fn start_worked(answer: Option<&Result<Started, StartFailure>>, contact: &Contact) -> Option<bool> {
    match answer {
        Some(Ok(Started::Open(_)) | Err(StartFailure::Declined(_))) => Some(true),
        Some(Ok(Started::Ask(_))) => contact.is_answered().then_some(true),
        None => Some(false),
        Some(Err(_)) => contact.failure().is_some().then_some(false),
    }
}

/// Cancels a payment at the provider whose page the account does not allow.
async fn close_refused(
    module: &dyn Provider,
    access: &Access,
    question: &ProviderQuery,
    page: &str,
    ends: Instant,
) -> StartResult {
    let answer = timeout_at(ends, module.query(access, question)).await;
    let is_closed = matches!(
        answer,
        Ok(Ok(Ok(Report {
            status: ProviderStatus::Declined
                | ProviderStatus::Cancelled
                | ProviderStatus::Expired
                | ProviderStatus::Failed,
            ..
        })))
    );
    match is_closed {
        true => StartResult::Unavailable(page_refused(page)),
        false => StartResult::Uncertain(page_refused(page)),
    }
}

fn page_refused(page: &str) -> String {
    format!("the page for the payer leads to {page}, which the account does not allow")
}

fn refused_key(what: &Refused) -> WorkKey {
    WorkKey {
        attempt: what.line(),
        kind: WorkKind::MethodRefused,
        subject: String::new(),
    }
}

/// The work item about a method that an account refuses.
fn refused_line(what: &Refused, why: &str) -> NewWork {
    NewWork {
        key: refused_key(what),
        account: what.account.clone(),
        amount: Minor::ZERO,
        received: Minor::ZERO,
        deadline: None,
        currency: what.currency.code().to_owned(),
        detail: format!(
            "{} in {} is refused at {}: {why}",
            what.method,
            what.currency.code(),
            what.account
        ),
    }
}

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
        Err(StartFailure::Unavailable(why) | StartFailure::NotActivated(why)) => {
            StartResult::Unavailable(why)
        }
        Err(StartFailure::PageRefused { page, .. }) => StartResult::Uncertain(page_refused(&page)),
        Err(StartFailure::Uncertain(why)) => StartResult::Uncertain(why),
    }
}
