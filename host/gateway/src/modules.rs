//! Interface between the use cases and the modules, independent of WebAssembly.
//!
//! [`crate::wasm`] implements it with the runtime; tests implement it with scripted modules.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{AccountId, Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::provider::{
    AccountFacts, AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition, Given,
    PaidFacts, ProviderDescription, QueryFailure, QueryPurpose, RefundFailure, RefundOrder,
    RefundQuery, RefundTerms, Report, StartFailure, Started,
};
use kassette_domain::routing::{Context, MethodDescription, RankAnswer};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use kassette_runtime::{CallError, Contact, Recorder};
use tokio::time::Instant;

/// A running call to a module. Dropping it ends the call; requests already sent stay sent.
pub type Calling<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// All modules of the gateway.
pub trait Modules: Send + Sync + 'static {
    /// Active version of a method's module in an environment. `None` if no version serves there.
    fn method(&self, method: MethodId, environment: Environment) -> Option<Arc<dyn Method>>;
    /// Methods with a module, whether it serves or not, in the order of listings.
    fn methods(&self) -> Vec<MethodId>;
    /// Active version of a provider module in an environment. `None` if no version serves there.
    fn provider(&self, module: &str, environment: Environment) -> Option<Arc<dyn Provider>>;
    /// A specific version of a provider module. `None` if it is no longer stored.
    fn provider_version(&self, slot: &Slot, digest: &Digest) -> Option<Arc<dyn Provider>>;
    /// The version that served well before the active one. `None` if there is none, or it is no longer
    /// stored.
    fn previous_provider(
        &self,
        module: &str,
        environment: Environment,
    ) -> Option<Arc<dyn Provider>>;
    /// Whether an operator has disabled a slot. Its modules still serve existing attempts, but nothing new is
    /// routed to them.
    fn is_disabled(&self, slot: &Slot) -> bool;
    /// Whether any version is on trial. Every request calls this, and most gateways have no trials.
    fn has_trials(&self) -> bool {
        false
    }
    /// The version of a method's module that is on trial.
    fn method_on_trial(&self, _: MethodId) -> Option<OnTrial<dyn Method>> {
        None
    }
    /// The version of a provider module that is on trial.
    fn provider_on_trial(&self, _: &Slot) -> Option<OnTrial<dyn Provider>> {
        None
    }
    /// Removes the tokens obtained with an account's credentials, because these have changed.
    fn forget_tokens(&self, account: &AccountId);
}

/// A version on trial.
pub struct OnTrial<M: ?Sized> {
    /// Parameters of the trial.
    pub candidate: Arc<Candidate>,
    pub module: Arc<M>,
}

/// A version of a method's module.
pub trait Method: Send + Sync {
    /// The slot that it is installed in.
    fn slot(&self) -> &Slot;
    /// Digest of its file.
    fn digest(&self) -> Digest;
    /// The module's description of itself.
    fn description(&self) -> &Arc<MethodDescription>;
    /// Checks the operator's settings together. The inner error is the module's sentence for the operator.
    fn check_settings(
        &self,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError>;
    /// Returns the module's answer if that takes no waiting: it is cached, or the module's class runs on the
    /// caller's thread. `None` otherwise.
    fn at_once(&self, context: &Context) -> Option<Result<Arc<RankAnswer>, CallError>>;
    /// Judges the candidates when [`Method::at_once`] has no answer. The host has already applied its own
    /// hard rules.
    fn rank<'a>(
        self: Arc<Self>,
        context: &'a Context,
    ) -> Calling<'a, Result<Arc<RankAnswer>, CallError>>;
}

/// Returns the answer of a method's module, immediately if possible.
///
/// # Errors
/// As [`Method::rank`].
pub async fn answer(
    module: &Arc<dyn Method>,
    context: &Context,
) -> Result<Arc<RankAnswer>, CallError> {
    match module.at_once(context) {
        Some(answer) => answer,
        None => Arc::clone(module).rank(context).await,
    }
}

/// A version of a provider module.
pub trait Provider: Send + Sync {
    /// The slot that it is installed in.
    fn slot(&self) -> &Slot;
    /// Digest of its file.
    fn digest(&self) -> Digest;
    /// The module's description of itself.
    fn description(&self) -> &ProviderDescription;
    /// Checks an account's settings together. The inner error is the module's sentence for the operator.
    fn check_settings(
        &self,
        environment: Environment,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError>;
    /// Creates the payment at the provider; may be repeated with the same attempt. A failed module is
    /// `Unavailable` if no request that could change anything left this host, otherwise `Uncertain`.
    fn start<'a>(
        &'a self,
        access: &'a Access,
        attempt: &'a AttemptFacts,
    ) -> Calling<'a, Result<Started, StartFailure>>;
    /// Verifies and reads a request to the account's callback address.
    fn callback<'a>(
        &'a self,
        access: &'a Access,
        incoming: &'a CallbackRequest,
    ) -> Calling<'a, Result<Result<CallbackReply, CallbackFailure>, CallError>>;
    /// Queries the provider about an attempt.
    fn query<'a>(
        &'a self,
        access: &'a Access,
        question: &'a ProviderQuery,
    ) -> Calling<'a, Result<Result<Report, QueryFailure>, CallError>>;
    /// Returns what can be refunded at the account. A method without terms cannot be refunded. Empty for a
    /// module without the interface `refunds`.
    fn refund_terms<'a>(
        &'a self,
        access: &'a Access,
    ) -> Calling<'a, Result<Vec<RefundTerms>, CallError>>;
    /// Refunds money; may be repeated with the same order. A failed module is `Unavailable` if no request
    /// that could change anything left this host, otherwise `Uncertain`.
    fn refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
    ) -> Calling<'a, Result<Given, RefundFailure>>;
    /// Queries the provider about a refund, after the action that `purpose` names.
    fn query_refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
        purpose: RefundQuery,
    ) -> Calling<'a, Result<Result<Given, QueryFailure>, CallError>>;
    /// Checks whether the provider can be reached with the account.
    fn health<'a>(&'a self, access: &'a Access) -> Calling<'a, Result<Condition, CallError>>;
}

/// A query about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderQuery {
    pub attempt: AttemptFacts,
    /// The provider's id of the attempt, if known.
    pub reference: Option<String>,
    pub purpose: QueryPurpose,
    /// The raw URL query with which the payer last returned. A hint that proves nothing.
    pub returned: Option<Secret>,
}

/// Data and permissions of a provider module in one call.
#[derive(Clone, Debug)]
pub struct Access {
    /// Facts about the account that the module receives.
    pub account: AccountFacts,
    /// Hosts that the module may send requests to.
    pub hosts: Vec<HostPattern>,
    /// Hosts that a payer may be sent to.
    pub redirect_hosts: Vec<HostPattern>,
    /// Secrets that the module may use.
    pub secrets: Vec<AccessSecret>,
    /// A simulated account of `dev`: loopback over plain HTTP is allowed.
    pub plain_loopback: bool,
    /// Address of the sender if the call reads a callback from an address without a recent verified callback.
    pub stranger: Option<IpAddr>,
    /// No request is sent after this time, because another task may then hold the attempt. `None` means no
    /// limit.
    pub not_after: Option<Instant>,
    /// Observations of the host about the provider during the call.
    pub contact: Contact,
    /// Receiver of the call's record, if it is recorded.
    pub recorder: Option<Recorder>,
}

/// A secret of an account, ready for use.
#[derive(Clone, Debug)]
pub struct AccessSecret {
    /// Name by which the module refers to it.
    pub name: String,
    /// The value, followed by the previous one during a rotation.
    pub values: Vec<Secret>,
    /// Hosts that the secret may be sent to.
    pub hosts: Vec<HostPattern>,
}
