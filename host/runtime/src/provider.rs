//! A provider module that is ready for calls.

mod recorded;
mod refunds;

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kassette_domain::conversation::{self, CallOutcome};
use kassette_domain::id::{Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::provider::{
    AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition, ProviderDescription,
    QueryFailure, QueryPurpose, Report,
};
use kassette_domain::secret::Secret;
use metrics::Histogram;
use tokio::time::Instant;
use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::access::AccountAccess;
use crate::error::{CallError, LoadError};
use crate::guest::exchange_log::ExchangeLog;
use crate::guest::provider::{CallState, ProviderState, SentRequests};
use crate::host::{Host, Identity};
use crate::limits::ModuleClass;
use crate::meter::{Metered as _, apply_limits, diagnose};
use crate::outcome::{StartOutcome, query_outcome, start_outcome};
use crate::provider::recorded::failure;
use crate::quarantine::FaultSource;
use crate::v0_2;
use crate::v0_2::bindings::provider::RefundingProvider;
use crate::v0_2::exports::{Exports, ExportsPre};

/// One version of a provider module. Immutable; each call gets a new instance.
pub struct ProviderModule {
    identity: Arc<Identity>,
    host: Arc<Host>,
    pre: ExportsPre<ProviderState>,
    description: Arc<ProviderDescription>,
    calls: CallHistograms,
}

struct CallHistograms {
    start: Histogram,
    callback: Histogram,
    query: Histogram,
    health: Histogram,
    refund_terms: Histogram,
    refund: Histogram,
    query_refund: Histogram,
}

/// Result of a call of the guest.
struct Called<T> {
    answer: Result<T, CallError>,
    /// Requests that were sent during the call.
    sent: SentRequests,
    /// Host calls. `None` if they are not recorded.
    exchange_log: Option<ExchangeLog>,
}

/// A running call of the guest, which borrows its store.
type CallFuture<'a, T> = Pin<Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>>;

impl ProviderModule {
    pub fn slot(&self) -> &Slot {
        &self.identity.slot
    }

    /// Digest of the module file.
    pub fn digest(&self) -> Digest {
        self.identity.digest
    }

    /// Class, which decides the limits.
    pub fn class(&self) -> ModuleClass {
        self.identity.class
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Content of the module's description.
    pub fn description(&self) -> &ProviderDescription {
        &self.description
    }

    /// Creates the payment at the provider.
    ///
    /// The result is `Uncertain`, even against the module's answer, if a request that may have changed something
    /// got no complete response, or if the module trapped, ran out of time or violated the contract after such a
    /// request.
    pub async fn start(
        &self,
        access: &AccountAccess,
        attempt_facts: &AttemptFacts,
    ) -> StartOutcome {
        let (account, attempt) = (
            v0_2::provider::account(&access.account),
            v0_2::provider::attempt(attempt_facts),
        );
        let Called {
            answer,
            sent,
            exchange_log,
        } = self
            .call("start", &self.calls.start, access, |exports, store| {
                Box::pin(
                    async move { exports.payments.call_start(store, &account, &attempt).await },
                )
            })
            .await;
        let pages = access.pages();
        let answer = answer.and_then(|answer| {
            self.checked("start", access, v0_2::provider::started(answer, pages))
        });
        let failed = answer.as_ref().err().cloned();
        let outcome = start_outcome(answer, &sent);
        self.keep(access, exchange_log, failed, || {
            let call = conversation::ProviderCall::Start(attempt_facts.clone());
            (call, CallOutcome::Start(outcome.result.clone()))
        });
        outcome
    }

    /// Verifies and parses a request to the account's callback URL.
    ///
    /// # Errors Reason why the call has no answer. The provider must repeat the callback then.
    pub async fn callback(
        &self,
        access: &AccountAccess,
        request: &CallbackRequest,
    ) -> Result<Result<CallbackReply, CallbackFailure>, CallError> {
        let (account, incoming) = (
            v0_2::provider::account(&access.account),
            v0_2::provider::incoming(request),
        );
        let Called {
            answer,
            sent,
            exchange_log,
        } = self
            .call(
                "callback",
                &self.calls.callback,
                access,
                |exports, store| {
                    Box::pin(async move {
                        exports
                            .payments
                            .call_callback(store, &account, &incoming)
                            .await
                    })
                },
            )
            .await;
        let answer = answer.and_then(|answer| {
            let read = v0_2::provider::acknowledged(answer, sent.proved);
            self.checked("callback", access, read)
        });
        let failed = answer.as_ref().err().cloned();
        self.keep(access, exchange_log, failed, || {
            let redactor = access.redactor();
            let request = CallbackRequest {
                verb: request.verb,
                path: redactor.text(&request.path),
                query: redactor.text(&request.query),
                headers: redactor.pairs(&request.headers),
                body: redactor.bytes(&request.body),
            };
            let outcome = answer.clone().map_or_else(failure, CallOutcome::Callback);
            (conversation::ProviderCall::Callback(request), outcome)
        });
        answer
    }

    /// Queries the status of a payment at the provider, after the action that `purpose` names.
    ///
    /// An answer that the payment has ended or is unknown becomes `Unavailable` if a request of the same call that
    /// may have changed something got no complete response.
    ///
    /// # Errors Reason why the call has no answer.
    pub async fn query(
        &self,
        access: &AccountAccess,
        attempt_facts: &AttemptFacts,
        reference: Option<&str>,
        purpose: QueryPurpose,
        returned: Option<&str>,
    ) -> Result<Result<Report, QueryFailure>, CallError> {
        let (account, attempt) = (
            v0_2::provider::account(&access.account),
            v0_2::provider::attempt(attempt_facts),
        );
        let wit_purpose = v0_2::provider::purpose(purpose);
        let (about, query) = (reference.map(str::to_owned), returned.map(str::to_owned));
        let Called {
            answer,
            sent,
            exchange_log,
        } = self
            .call("query", &self.calls.query, access, |exports, store| {
                Box::pin(async move {
                    let payments = &exports.payments;
                    let (about, query) = (about.as_deref(), query.as_deref());
                    payments
                        .call_query(store, &account, &attempt, about, wit_purpose, query)
                        .await
                })
            })
            .await;
        let answer = answer
            .and_then(|answer| self.checked("query", access, v0_2::provider::queried(answer)));
        let answer = answer.map(|answer| query_outcome(answer, &sent));
        let failed = answer.as_ref().err().cloned();
        self.keep(access, exchange_log, failed, || {
            let call = conversation::ProviderCall::Query {
                attempt: attempt_facts.clone(),
                reference: reference.map(str::to_owned),
                purpose,
                returned: returned.map(Secret::new),
            };
            (
                call,
                answer.clone().map_or_else(failure, CallOutcome::Query),
            )
        });
        answer
    }

    /// Checks whether the provider can be reached with this account.
    ///
    /// # Errors Reason why the call has no answer.
    pub async fn health(&self, access: &AccountAccess) -> Result<Condition, CallError> {
        let account = v0_2::provider::account(&access.account);
        let Called { answer, .. } = self
            .call("health", &self.calls.health, access, |exports, store| {
                Box::pin(async move { exports.payments.call_health(store, &account).await })
            })
            .await;
        answer.map(v0_2::provider::condition)
    }

    /// Lets the module check an account's settings together, without sending anything. The inner error is its
    /// message for the operator.
    ///
    /// # Errors Reason why the call has no answer.
    pub fn check_settings(
        &self,
        environment: Environment,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        let environment = v0_2::provider::environment(environment);
        let settings = settings.to_vec();
        let judged = call_at_once(
            &self.identity,
            &self.pre,
            "check-settings",
            |exports, store| {
                Box::pin(async move {
                    exports
                        .payments
                        .call_check_settings(store, environment, &settings)
                        .await
                })
            },
        )?;
        Ok(v0_2::settings::judged(judged))
    }

    /// Runs one call in a new instance with the module's limits.
    async fn call<T>(
        &self,
        function: &'static str,
        calls: &Histogram,
        access: &AccountAccess,
        call: impl for<'a> FnOnce(&'a Exports, &'a mut Store<ProviderState>) -> CallFuture<'a, T> + Send,
    ) -> Called<T> {
        let environment = access.account.environment;
        let permits = self.host.acquire_waiting(self.identity.class, environment);
        let _permits = match permits.await {
            Ok(permits) => permits,
            Err(busy) => {
                self.identity.record_failure(function, &busy, "", None);
                return Called {
                    answer: Err(busy),
                    sent: SentRequests::default(),
                    exchange_log: None,
                };
            }
        };
        self.identity.quarantine.count(environment, 0);
        let started = Instant::now();
        let ends = started + self.identity.limits.wall;
        let (description, host) = (Arc::clone(&self.description), Arc::clone(&self.host));
        let call_data = CallState::new(access.clone(), description, host, ends);
        let state = ProviderState::new(Arc::clone(&self.identity), Some(call_data));
        let mut store = Store::new(self.pre.engine(), state);
        apply_limits(&mut store, &self.identity.limits);
        let running = async {
            let exports = self.pre.instantiate(&mut store).await?;
            call(&exports, &mut store).await
        };
        let outcome = tokio::time::timeout_at(ends, running).await;
        calls.record(started.elapsed());
        let sent = store.data().sent_requests();
        let exchange_log = store.data_mut().take_exchange_log();
        let failure = match outcome {
            Ok(Ok(answer)) => {
                let answer = Ok(answer);
                return Called {
                    answer,
                    sent,
                    exchange_log,
                };
            }
            Ok(Err(error)) => {
                let kind = diagnose(&error, store.data_mut().meter());
                let source = source(function, access);
                self.identity
                    .record_failure(function, &kind, &format!("{error:#}"), Some(&source));
                kind
            }
            Err(_) => {
                self.identity
                    .record_failure(function, &CallError::Timeout, "", None);
                CallError::Timeout
            }
        };
        let answer = Err(failure);
        Called {
            answer,
            sent,
            exchange_log,
        }
    }

    /// Logs and counts an answer that violates the contract.
    fn checked<T>(
        &self,
        function: &'static str,
        access: &AccountAccess,
        answer: Result<T, CallError>,
    ) -> Result<T, CallError> {
        answer.inspect_err(|error| {
            let source = source(function, access);
            self.identity
                .record_failure(function, error, "", Some(&source));
        })
    }

    /// Returns the id in the description of a component that fits this world.
    pub(crate) fn described_id(
        identity: &Arc<Identity>,
        component: &Component,
    ) -> Result<String, LoadError> {
        let pre = link(component)?;
        Ok(describe(identity, &pre)?.id)
    }

    /// Links a component that fits this world and reads its description.
    pub(crate) fn load(
        host: &Arc<Host>,
        identity: Arc<Identity>,
        component: &Component,
    ) -> Result<Self, LoadError> {
        let pre = link(component)?;
        let said = describe(&identity, &pre)?;
        identity.check_id(&said.id)?;
        let description = v0_2::description::description(said).map_err(LoadError::Describe)?;
        let calls = CallHistograms {
            start: identity.call_histogram("start"),
            callback: identity.call_histogram("callback"),
            query: identity.call_histogram("query"),
            health: identity.call_histogram("health"),
            refund_terms: identity.call_histogram("refund-terms"),
            refund: identity.call_histogram("refund"),
            query_refund: identity.call_histogram("query-refund"),
        };
        let description = Arc::new(description);
        Ok(Self {
            identity,
            host: Arc::clone(host),
            pre,
            description,
            calls,
        })
    }
}

/// Source of a fault. The provider's data takes part in all calls except `start` and `health`, and in these after
/// the provider has responded to a request.
fn source(function: &'static str, access: &AccountAccess) -> FaultSource {
    let begins = matches!(function, "start" | "health");
    let takes_part = !begins || access.contact.is_answered();
    FaultSource {
        environment: access.account.environment,
        account: takes_part.then(|| access.account.id.clone()),
    }
}

fn link(component: &Component) -> Result<ExportsPre<ProviderState>, LoadError> {
    let mut linker = Linker::new(component.engine());
    RefundingProvider::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut ProviderState| {
        state
    })
    .map_err(LoadError::types)?;
    let pre = linker
        .instantiate_pre(component)
        .map_err(LoadError::types)?;
    ExportsPre::new(pre).map_err(LoadError::types)
}

/// Calls `describe` of a new module.
fn describe(
    identity: &Arc<Identity>,
    pre: &ExportsPre<ProviderState>,
) -> Result<v0_2::description::Description, LoadError> {
    let described = call_at_once(identity, pre, "describe", |exports, store| {
        Box::pin(async move { exports.payments.call_describe(store).await })
    });
    described.map_err(LoadError::Describe)
}

/// Runs a call that is not about an account, in a new instance. Imports that could wait fail at once.
fn call_at_once<T>(
    identity: &Arc<Identity>,
    pre: &ExportsPre<ProviderState>,
    function: &'static str,
    call: impl for<'a> FnOnce(&'a Exports, &'a mut Store<ProviderState>) -> CallFuture<'a, T>,
) -> Result<T, CallError> {
    let mut store = Store::new(pre.engine(), ProviderState::new(Arc::clone(identity), None));
    apply_limits(&mut store, &identity.limits);
    let outcome = {
        let running = pin!(async {
            let exports = pre.instantiate(&mut store).await?;
            call(&exports, &mut store).await
        });
        match running.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => return Err(CallError::Timeout),
        }
    };
    outcome.map_err(|error| {
        let kind = diagnose(&error, store.data_mut().meter());
        identity.record_failure(function, &kind, &format!("{error:#}"), None);
        kind
    })
}

impl fmt::Debug for ProviderModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProviderModule")
            .field(&self.identity.slot)
            .field(&self.identity.digest)
            .finish()
    }
}
