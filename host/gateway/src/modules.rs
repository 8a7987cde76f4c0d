//! The port to the modules: what the use cases need of them, and no word of WebAssembly.
//!
//! [`crate::wasm`] puts the runtime behind it; tests put scripted modules there.

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
    RefundTerms, Report, StartFailure, Started,
};
use kassette_domain::routing::{Context, MethodDescription, RankAnswer};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use kassette_runtime::{CallError, Recorder};
use tokio::time::Instant;

/// A call to a module under way. Dropping it ends it; what it has sent stays sent.
pub type Calling<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Every module that serves.
pub trait Modules: Send + Sync + 'static {
    /// The active version of a method's module; none where none serves.
    fn method(&self, method: MethodId) -> Option<Arc<dyn Method>>;
    /// Methods for which there is a module, whether it serves or not, in the order of lists.
    fn methods(&self) -> Vec<MethodId>;
    /// The active version of a provider's module.
    fn provider(&self, module: &str) -> Option<Arc<dyn Provider>>;
    /// A certain version of a provider's module, as long as it is kept.
    fn provider_version(&self, slot: &Slot, digest: &Digest) -> Option<Arc<dyn Provider>>;
    /// The version that served well before the active one, as long as it is kept.
    fn previous_provider(&self, module: &str) -> Option<Arc<dyn Provider>>;
    /// Whether an operator has switched a slot off: its modules go on for what is under way, and nothing new
    /// is routed to it.
    fn is_disabled(&self, slot: &Slot) -> bool;
    /// Whether any version is on trial: most gateways have none, and each request asks.
    fn has_trials(&self) -> bool {
        false
    }
    /// The version of a method's module that is on trial.
    fn method_on_trial(&self, _: MethodId) -> Option<OnTrial<dyn Method>> {
        None
    }
    /// The same of a provider's.
    fn provider_on_trial(&self, _: &Slot) -> Option<OnTrial<dyn Provider>> {
        None
    }
    /// An account's credentials changed: forget what was obtained with them.
    fn forget_tokens(&self, account: &AccountId);
}

/// A version on trial.
pub struct OnTrial<M: ?Sized> {
    /// How it is tried.
    pub candidate: Arc<Candidate>,
    pub module: Arc<M>,
}

/// A version of a method's module.
pub trait Method: Send + Sync {
    fn slot(&self) -> &Slot;
    /// Its file.
    fn digest(&self) -> Digest;
    /// What it says it is.
    fn description(&self) -> &Arc<MethodDescription>;
    /// Has it judge the operator's settings together; the inner error is its sentence for the operator.
    fn check_settings(
        &self,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError>;
    /// What the module answers, where no caller has to wait for that: it is remembered, or the
    /// module's class is one that is called on the caller's thread.
    fn at_once(&self, context: &Context) -> Option<Result<Arc<RankAnswer>, CallError>>;
    /// Judges the candidates, where [`Method::at_once`] has no answer; the host's hard rules have been
    /// checked.
    fn rank<'a>(
        self: Arc<Self>,
        context: &'a Context,
    ) -> Calling<'a, Result<Arc<RankAnswer>, CallError>>;
}

/// What a method's module says, whether at once or not.
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

/// A version of a provider's module.
pub trait Provider: Send + Sync {
    fn slot(&self) -> &Slot;
    /// Its file.
    fn digest(&self) -> Digest;
    /// What it says it is.
    fn description(&self) -> &ProviderDescription;
    /// Has it judge an account's settings together; the inner error is its sentence for the operator.
    fn check_settings(
        &self,
        environment: Environment,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError>;
    /// Creates the payment at the vendor; repeatable with the same attempt. A module that failed is
    /// `Unavailable` where nothing that could change anything left this host, else `Uncertain`.
    fn start<'a>(
        &'a self,
        access: &'a Access,
        attempt: &'a AttemptFacts,
    ) -> Calling<'a, Result<Started, StartFailure>>;
    /// Verifies and reads what arrived at the account's callback address.
    fn callback<'a>(
        &'a self,
        access: &'a Access,
        incoming: &'a CallbackRequest,
    ) -> Calling<'a, Result<Result<CallbackReply, CallbackFailure>, CallError>>;
    /// Asks the vendor where a payment stands.
    fn query<'a>(
        &'a self,
        access: &'a Access,
        question: &'a VendorQuery,
    ) -> Calling<'a, Result<Result<Report, QueryFailure>, CallError>>;
    /// What can be given back at the account; a method that is not named cannot. Empty for a module without
    /// the interface `refunds`.
    fn refund_terms<'a>(
        &'a self,
        access: &'a Access,
    ) -> Calling<'a, Result<Vec<RefundTerms>, CallError>>;
    /// Gives money back; repeatable with the same order. A module that failed is `Unavailable` where nothing
    /// that could change anything left this host, else `Uncertain`.
    fn refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
    ) -> Calling<'a, Result<Given, RefundFailure>>;
    /// Asks the vendor what became of a refund.
    fn query_refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
    ) -> Calling<'a, Result<Result<Given, QueryFailure>, CallError>>;
    /// Whether the vendor can be reached with the account.
    fn health<'a>(&'a self, access: &'a Access) -> Calling<'a, Result<Condition, CallError>>;
}

/// A question about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorQuery {
    pub attempt: AttemptFacts,
    /// The vendor's id for it, where one is known.
    pub reference: Option<String>,
    /// What the query is for.
    pub purpose: QueryPurpose,
    /// The raw query with which the payer last came back. A hint, which proves nothing.
    pub returned: Option<Secret>,
}

/// What a provider's module may use in one call.
#[derive(Clone, Debug)]
pub struct Access {
    /// What the module is told of the account.
    pub account: AccountFacts,
    /// Hosts that its requests may go to.
    pub hosts: Vec<HostPattern>,
    /// Hosts that a payer may be sent to.
    pub redirect_hosts: Vec<HostPattern>,
    /// Secrets that it may name.
    pub secrets: Vec<AccessSecret>,
    /// A simulated account of `dev`: loopback over plain http is allowed.
    pub plain_loopback: bool,
    /// Where the call reads a callback from an address that has proved none lately: that address.
    pub stranger: Option<IpAddr>,
    /// After this moment nothing is sent, because another task may have the attempt; none: no limit.
    pub not_after: Option<Instant>,
    /// Who is told of the call, where it is recorded.
    pub recorder: Option<Recorder>,
}

/// A secret of an account, ready for use.
#[derive(Clone, Debug)]
pub struct AccessSecret {
    /// Name under which the module knows it.
    pub name: String,
    /// The value, and before it was rotated the old one.
    pub values: Vec<Secret>,
    /// Hosts that may see it.
    pub hosts: Vec<HostPattern>,
}
